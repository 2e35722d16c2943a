"""
Write JSON in canonical bytes (RFC 8785) and read it strictly.

Every byte that is hashed, stored or published comes from `canonical_json`; every text from outside goes through
`strict_json`. Errors never hold a piece of the text.
"""

import hashlib
import json
import math
import re

import rfc8785

from reliability.errors import InvalidInputError

#: The largest integer RFC 8785 can write exactly: numbers there are IEEE 754 doubles.
MAX_SAFE_INTEGER = 2**53 - 1

#: Longer integers are refused unread: no field of any schema is wider than 20 digits, and reading one costs its square.
_MAX_INTEGER_DIGITS = 400

_BOM = "\ufeff"
_BOM_BYTES = _BOM.encode()
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,63}")


def canonical_json(value: object) -> bytes:
    """
    Write a JSON value as RFC 8785 canonical bytes.

    Raises:
        InvalidInputError: The value has no canonical form (an integer past 2^53 - 1, NaN, a lone surrogate).

    """
    if _is_plain(value):
        return _PLAIN.encode(value).encode()
    try:
        return rfc8785.dumps(value)  # type: ignore[arg-type]  # the library checks the value while it writes
    except rfc8785.CanonicalizationError as error:
        raise InvalidInputError("json", "expected a value with an RFC 8785 form, got one without") from error


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of the bytes as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def strict_json(text: str | bytes) -> object:
    """
    Read exactly one JSON value, refusing what lenient parsers let through.

    Refused: duplicate keys, NaN and infinities, numbers too large for a double, invalid UTF-8, lone surrogates, text
    after the value. 5 stays an int and 5.0 a float; -0 is a float, because no unsigned integer is written so.

    Raises:
        InvalidInputError: With the position where it is known; never with a piece of the text.

    """
    decoded = _decode_utf8(text)
    if decoded.startswith(_BOM):
        raise InvalidInputError("json", "expected no BOM (byte order mark) before the value; leave it out")
    try:
        value: object = _STRICT.decode(decoded)
        _refuse_escaped_surrogates(decoded, value)
    except json.JSONDecodeError as error:
        raise InvalidInputError("json", f"{error.msg} (line {error.lineno}, column {error.colno})") from error
    except RecursionError as error:
        raise InvalidInputError("json", "expected less nesting, got too many levels") from error
    return value


def count_quotes(text: bytes) -> int | None:
    """
    Count the quotation marks that begin and end the names and texts of a JSON value, two each.

    None where the text holds other escapes than those of quotation marks and line feeds, or begins with a byte order
    mark. Together with what a lenient parser made of the text the number tells whether it let a name through that comes
    twice.
    """
    if text.startswith(_BOM_BYTES):
        return None
    escapes = text.count(b"\\")
    if not escapes:
        return text.count(b'"')
    escaped_quotes = text.count(b'\\"')
    # An escaped backslash is two, so it makes a difference whatever follows it.
    is_plain = escapes == escaped_quotes + text.count(b"\\n")
    return text.count(b'"') - escaped_quotes if is_plain else None


def shown_name(name: str) -> str:
    """Quote a name that looks like one; of any other text tell only the length, since it may be payload."""
    return repr(name) if _PLAIN_NAME.fullmatch(name) else f"a text of {len(name)} characters"


def _is_plain(value: object) -> bool:
    """
    Tell whether the value is objects, arrays, texts and exact integers only, and every key is ASCII.

    Both ways of sorting keys agree on ASCII, and these values have one form in any JSON; a number with a fraction has
    several.
    """
    if type(value) is str:
        return value.isascii() or not _SURROGATE.search(value)
    if type(value) is int:
        return -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER
    if type(value) is dict:
        return all(type(key) is str and key.isascii() for key in value) and all(map(_is_plain, value.values()))
    return type(value) is list and all(map(_is_plain, value))


def _decode_utf8(text: str | bytes) -> str:
    try:
        if isinstance(text, bytes):
            return text.decode("utf-8")
        text.encode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInputError("json", f"expected UTF-8, got an invalid byte at offset {error.start}") from error
    except UnicodeEncodeError as error:
        raise InvalidInputError("json", f"expected UTF-8, got a lone surrogate at offset {error.start}") from error
    return text


def _refuse_escaped_surrogates(decoded: str, value: object) -> None:
    # A lone surrogate in the value can only come from an escape: the text itself is valid UTF-8.
    if not _SURROGATE_ESCAPE.search(decoded):
        return
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInputError("json", "expected text that UTF-8 can hold, got an escaped lone surrogate") from error


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidInputError("json", f"expected each key once, got {shown_name(twice)} twice")
    return members


def _refuse_constant(name: str) -> float:
    raise InvalidInputError("json", f"expected a JSON number, got {name}")


def _finite_float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise InvalidInputError("json", "expected a number a double can hold, got a larger one")
    return number


def _plain_int(digits: str) -> int | float:
    if len(digits) > _MAX_INTEGER_DIGITS:
        raise InvalidInputError("json", f"expected at most {_MAX_INTEGER_DIGITS} digits, got {len(digits)}")
    return -0.0 if digits == "-0" else int(digits)


#: Writes what `_is_plain` lets through as the library would, six times as fast.
_PLAIN = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)
_STRICT = json.JSONDecoder(
    object_pairs_hook=_unique_keys,
    parse_constant=_refuse_constant,
    parse_float=_finite_float,
    parse_int=_plain_int,
)
