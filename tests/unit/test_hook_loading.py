"""Hooks are loaded by path; every way a path can be wrong is one sentence that says what to do."""

import sys
from pathlib import Path

import pytest

from reliability.errors import HookLoadError
from reliability.outcomes import Accepted
from tasks.hooks import loading
from tasks.hooks.contract import AsyncSettlementHook, BatchSettlementHook, SettlementHook, VerifyingSettlementHook
from tasks.hooks.noop import NoopSettlementHook
from tests.support.observations import observation

MODULE = """
from reliability.errors import ConfigurationError
from reliability.outcomes import Accepted

class Hook:
    def observe(self, observation):
        return Accepted("seen")

class Verifying(Hook):
    def verify(self, observation):
        return Accepted("verified")

class Partner:
    def send(self, request):
        return None

class Async:
    async def observe(self, observation):
        return Accepted()

class TwoArguments:
    def observe(self, observation, extra):
        return Accepted()

class AsyncMany(Hook):
    async def observe_many(self, observations):
        return []

class ManyWithTwo(Hook):
    def observe_many(self, observations, extra):
        return []

class PlainOnLoop(Hook):
    def observe_async(self, observation):
        return Accepted()

class OnLoopWithTwo(Hook):
    async def observe_async(self, observation, extra):
        return Accepted()

class ForBatches(Hook):
    def observe_many(self, observations):
        return [Accepted()] * len(observations)

    async def observe_async(self, observation):
        return Accepted()

class Needy:
    def __init__(self, url):
        self.url = url

class Broken:
    def __init__(self):
        raise RuntimeError("password=hunter2")

def misconfigured():
    raise ConfigurationError("CHIO_RAIL_URL is not set: set it")

class NoMethods:
    pass

class NotCallable:
    observe = 5

instance = Hook()
number = 5

def factory():
    return Hook()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Put a module with hooks of all kinds on the path and return its name."""
    name = f"hooks_of_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


@pytest.mark.parametrize("attribute", ["Hook", "instance", "factory", "Verifying"])
def test_a_class_an_object_and_a_factory_are_loaded(module: str, attribute: str) -> None:
    """A class is made, a factory is called, an object is taken as it is."""
    hook = loading.load_settlement_hook(f"{module}:{attribute}")

    assert hook.observe(observation()) == Accepted("seen")


def test_a_delivery_hook_is_loaded(module: str) -> None:
    """An object with `send` passes as a delivery hook."""
    hook = loading.load_delivery_hook(f"{module}:Partner")

    assert callable(hook.send)


def test_only_a_hook_with_verify_is_a_verifying_one(module: str) -> None:
    """The flow can tell a hook that verifies from one that does not."""
    plain = loading.load_settlement_hook(f"{module}:Hook")
    verifying = loading.load_settlement_hook(f"{module}:Verifying")

    assert isinstance(plain, SettlementHook)
    assert not isinstance(plain, VerifyingSettlementHook)
    assert isinstance(verifying, VerifyingSettlementHook)


def test_the_shipped_hooks_are_loaded() -> None:
    """The no-op hook that ships with the project loads by its path and accepts."""
    hook = loading.load_settlement_hook("tasks.hooks.noop:NoopSettlementHook")

    assert isinstance(hook, NoopSettlementHook)
    assert hook.observe(observation()) == Accepted("noop")


@pytest.mark.parametrize(
    "path, sentence",
    [
        ("", "it has no colon"),
        ("package.module.Hook", "it has no colon"),
        (":Hook", "one side of the colon is no Python name"),
        ("module:", "one side of the colon is no Python name"),
        (".module:Hook", "one side of the colon is no Python name"),
        ("a b:Hook", "one side of the colon is no Python name"),
        ("module:Hook()", "one side of the colon is no Python name"),
        ("no_such_module:Hook", "there is no module no_such_module: install it, or put its folder on PYTHONPATH"),
        ("reliability.no_such:Hook", "there is no module reliability.no_such"),
    ],
)
def test_a_wrong_path_says_what_is_wrong(path: str, sentence: str) -> None:
    """A path without colon, with a wrong name or to a missing module is refused with the reason."""
    with pytest.raises(HookLoadError) as refused:
        loading.load_settlement_hook(path)

    assert sentence in str(refused.value)
    assert refused.value.path == path


@pytest.mark.parametrize(
    "attribute, sentence",
    [
        ("Missing", "has no Missing, only "),
        ("number", "it is of type int, neither a hook nor something that makes one"),
        ("NoMethods", "NoMethods lacks the method observe"),
        ("Partner", "Partner lacks the method observe"),
        ("NotCallable", "NotCallable lacks the method observe"),
        ("Async", "observe is async: make it a plain method"),
        ("TwoArguments", "observe does not take exactly one argument"),
        ("AsyncMany", "observe_many is async: make it a plain method"),
        ("ManyWithTwo", "observe_many does not take exactly one argument"),
        ("PlainOnLoop", "observe_async is no async method"),
        ("OnLoopWithTwo", "observe_async does not take exactly one argument"),
        ("Needy", "it takes arguments: give each a default"),
        ("Broken", "making the hook raised RuntimeError: mend its constructor"),
        ("misconfigured", "making the hook failed, CHIO_RAIL_URL is not set: set it"),
    ],
)
def test_a_wrong_attribute_says_what_is_wrong(module: str, attribute: str, sentence: str) -> None:
    """An attribute that is no hook and makes none is refused with the reason."""
    with pytest.raises(HookLoadError) as refused:
        loading.load_settlement_hook(f"{module}:{attribute}")

    assert sentence in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_hook_for_batches_is_known_as_one(module: str) -> None:
    """The methods for batches are found beside the required one."""
    hook = loading.load_settlement_hook(f"{module}:ForBatches")

    assert isinstance(hook, BatchSettlementHook)
    assert isinstance(hook, AsyncSettlementHook)


@pytest.mark.parametrize(
    "source, sentence",
    [
        ("import nothing_of_that_name", "imports nothing_of_that_name, which is not installed"),
        ("raise ValueError('token=hunter2')", "raised ValueError: try `python -c 'import"),
        ("def broken(:", "raised SyntaxError"),
    ],
)
def test_a_module_that_cannot_be_imported_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, sentence: str
) -> None:
    """A module that fails while it is imported is named with the type of what it raised, not with its text."""
    name = f"broken_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(HookLoadError) as refused:
        loading.load_settlement_hook(f"{name}:Hook")

    assert sentence in str(refused.value)
    assert "hunter2" not in str(refused.value)
