"""Canonical bytes out, strict text in."""

import json
import math

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from reliability import canonical
from reliability.errors import InvalidInputError

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-canonical.MAX_SAFE_INTEGER, canonical.MAX_SAFE_INTEGER) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_keys_are_sorted_and_nothing_is_padded() -> None:
    """Canonical bytes have sorted keys, no spaces and plain UTF-8."""
    value = {"b": [1, True, None], "a": "naïve \N{LINE SEPARATOR}\t"}

    assert canonical.canonical_json(value) == '{"a":"naïve \u2028\\t","b":[1,true,null]}'.encode()


def test_keys_are_sorted_by_utf16() -> None:
    """Keys are ordered by UTF-16 code units, as RFC 8785 asks: an emoji comes before a late BMP letter."""
    late_letter, emoji = "\ufb33", "\N{GRINNING FACE}"

    encoded = canonical.canonical_json({late_letter: 1, emoji: 2})

    assert encoded == f'{{"{emoji}":2,"{late_letter}":1}}'.encode()


@pytest.mark.parametrize("value", [2**53, -(2**53), math.nan, math.inf, "\ud800", {1: "key is no text"}, object()])
def test_what_has_no_canonical_form_is_refused(value: object) -> None:
    """A value RFC 8785 cannot write raises a ValueError instead of losing something."""
    with pytest.raises(InvalidInputError):
        canonical.canonical_json(value)


@given(json_values)
def test_canonical_bytes_read_back_as_the_value(value: object) -> None:
    """Reading canonical bytes gives the value, and writing it again the same bytes."""
    encoded = canonical.canonical_json(value)

    assert canonical.strict_json(encoded) == value
    assert canonical.canonical_json(canonical.strict_json(encoded)) == encoded


@given(json_values | st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_canonical_bytes_are_the_librarys(value: object) -> None:
    """Whatever way a value is written, the bytes are those of the RFC 8785 library."""
    assert canonical.canonical_json(value) == rfc8785.dumps(value)  # type: ignore[arg-type]  # JSON, drawn above


@given(st.dictionaries(st.text(st.characters(max_codepoint=127)), st.text() | st.integers(-(2**53) + 1, 2**53 - 1)))
def test_plain_objects_are_written_as_by_the_library(value: object) -> None:
    """Objects of texts and integers under ASCII keys, which nearly all of ours are, take the short way."""
    assert canonical.canonical_json(value) == rfc8785.dumps(value)  # type: ignore[arg-type]  # JSON, drawn above


@given(json_values)
def test_strict_json_reads_what_other_writers_write(value: object) -> None:
    """Any JSON text of another writer reads as its value, escaped or not."""
    assert canonical.strict_json(json.dumps(value)) == value
    assert canonical.strict_json(json.dumps(value, ensure_ascii=False, indent=2).encode()) == value


@pytest.mark.parametrize(
    "text, problem",
    [
        ("", "line 1, column 1"),
        ('{"a": 1,\n "b": }', "line 2, column 7"),
        ('{"a": 1} x', "line 1, column 10"),
        ('{"a": 1, "a": 1}', "'a' twice"),
        ('{"x": 0, "a": 1, "a": 2}', "'a' twice"),
        ('{"x": {"a": 1, "b": 2, "a": 1}}', "'a' twice"),
        ("NaN", "NaN"),
        ("[-Infinity]", "-Infinity"),
        ("1e999", "larger"),
        ("9" * 401, "401"),
        ("9" * 5000, "5000"),
        ('"\\ud800"', "lone surrogate"),
        ('{"\\uDFFF": 1}', "lone surrogate"),
        ('"\ud800"', "lone surrogate at offset 1"),
        (b'"\xff"', "invalid byte at offset 1"),
        (b'\xef\xbb\xbf{"a": 1}', "BOM"),
        ("[" * 100_000, "nesting"),
        ("'a'", "line 1"),
        ('"a\nb"', "line 1"),
        ("[1,]", "line 1"),
        ("01", "line 1"),
    ],
)
def test_what_is_not_strict_json_is_refused_with_its_position(text: str | bytes, problem: str) -> None:
    """Text that lenient parsers let through is refused, saying what is wrong and where it is known."""
    with pytest.raises(InvalidInputError, match="json") as refusal:
        canonical.strict_json(text)

    assert problem in refusal.value.problem


def test_a_pair_of_escaped_surrogates_is_one_character() -> None:
    """Two escapes that belong together are text like any other."""
    assert canonical.strict_json('"\\ud83d\\ude00"') == "\N{GRINNING FACE}"


@pytest.mark.parametrize("text, kind", [("5", int), ("5.0", float), ("5e0", float), ("-0", float), ("0", int)])
def test_integers_and_fractions_stay_apart(text: str, kind: type) -> None:
    """A number written without fraction or exponent is an int, any other a float, and so is minus zero."""
    assert type(canonical.strict_json(text)) is kind


def test_a_refused_text_is_not_quoted() -> None:
    """Neither a value nor a key that does not look like a field's name appears in the message."""
    text = '{"p4yload secret": 1, "p4yload secret": 2}'

    with pytest.raises(InvalidInputError) as refusal:
        canonical.strict_json(text)

    assert "p4yload" not in str(refusal.value)


def test_digest_is_lower_case_hex() -> None:
    """The digest of no bytes is the well-known one."""
    assert canonical.sha256_hex(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
