"""Every Redis key has one spelling."""

import re
from importlib import resources

import pytest

from reliability.errors import InvalidInputError
from storage import scripts
from storage.keys import Key, Keys
from storage.scripts import Script

KEYS = Keys("test:")
SOURCES = {path.name: path.read_text() for path in resources.files("storage").joinpath("lua").iterdir()}


@pytest.mark.parametrize("key", list(Key))
def test_key_is_recognised(key: Key) -> None:
    """What `of` spells, `kind_of` reads back."""
    assert KEYS.kind_of(KEYS.of(key, "some:id" if key.is_family else "")) is key


def test_key_begins_with_the_namespace() -> None:
    """Two deployments on one server never share a key."""
    assert KEYS.of(Key.JOB, "rcpt-1") == "test:job:rcpt-1"
    assert KEYS.kind_of("other:job:rcpt-1") is None


@pytest.mark.parametrize("key", ["test:", "test:unknown", "test:job:"])
def test_foreign_key_is_not_recognised(key: str) -> None:
    """A key that nothing here spells is none of ours."""
    assert KEYS.kind_of(key) is None


def test_name_is_given_where_it_completes_the_key() -> None:
    """A family without a name, and a single key with one, are mistakes."""
    with pytest.raises(InvalidInputError):
        KEYS.of(Key.JOB)
    with pytest.raises(InvalidInputError):
        KEYS.of(Key.LEASED, "rcpt-1")


@pytest.mark.parametrize("namespace", ["", ":", "chio"])
def test_namespace_ends_with_a_colon(namespace: str) -> None:
    """A namespace that would run into the key's name is refused."""
    with pytest.raises(InvalidInputError):
        Keys(namespace)


@pytest.mark.parametrize("script", list(Script))
def test_script_compiles_its_names(script: Script) -> None:
    """A composed script has each part once and no key that `keys` does not name."""
    source = scripts.source_of(script)

    suffixes = set(re.findall(r"\bNS \.\. '([^']*)'", source))
    assert suffixes <= {key.suffix for key in Key}
    assert "K." not in re.sub(r"--.*", "", source)
    assert all(source.count(part) == 1 for part in re.findall(r"^-- Part: .*$", source, re.MULTILINE))


def test_every_file_is_a_script_or_a_part() -> None:
    """No Lua file is forgotten and none is missing."""
    files = {name.removesuffix(".lua") for name in SOURCES if not name.startswith("_")}
    assert files == {script.value for script in Script}


@pytest.mark.parametrize("script", list(Script))
def test_script_opens_with_its_table(script: Script) -> None:
    """Each script says what it takes, returns and touches, and its types are those of the keys."""
    text = SOURCES[f"{script}.lua"]

    opening = [line for line in text.split("\n\n")[0].splitlines() if not line.startswith("--!")]
    assert all(line.startswith("--") for line in opening)
    assert [word for word in ("KEYS[1]", "ARGV", "Returns", "Types") if f"-- {word}" not in text] == []
    named = re.findall(r"\b([a-z_]+) (HASH|STRING|ZSET)\b", text)
    assert named
    assert [pair for pair in named if Key[pair[0].upper()].redis_type.upper() != pair[1]] == []


@pytest.mark.parametrize("name", list(SOURCES))
def test_no_script_spells_a_key(name: str) -> None:
    """Keys come from `keys`, so no script puts the namespace and a name together itself."""
    code = re.sub(r"--.*", "", SOURCES[name])
    assert re.search(r"KEYS\[|\bNS\b", code) is None
