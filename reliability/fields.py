"""
Checks of single fields and of key sets, shared by every decoder.

A problem names the kind of value that came instead ("a string", "an array"), never the value, because
values are payload.
"""

from collections.abc import Mapping
from typing import TypeGuard

import pydantic

from reliability import canonical
from reliability.errors import InvalidInputError

U32_MAX = 2**32 - 1
U64_MAX = 2**64 - 1

_KINDS: tuple[tuple[type, str], ...] = (
    (type(None), "null"),
    (bool, "true or false"),
    (int, "an integer"),
    (float, "a number written with a fraction or exponent"),
    (str, "a string"),
    (list, "an array"),
    (dict, "an object"),
)


def is_integer(value: object) -> TypeGuard[int]:
    """Tell an integer from everything else; True and 5.0 are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def unsigned(field: str, value: object, most: int) -> int:
    """
    Return the value if it is an integer from 0 to `most`.

    Raises:
        InvalidInputError: With the kind of value that came instead.

    """
    if is_integer(value) and 0 <= value <= most:
        return value
    got = kind_of(value) if not is_integer(value) else "a larger one" if value > 0 else "a negative one"
    raise InvalidInputError(field, f"expected an integer from 0 to {most}, got {got}")


def text(field: str, value: object) -> str:
    """
    Return the value if it is a string that UTF-8 can hold.

    Raises:
        InvalidInputError: With the kind of value that came instead.

    """
    if not isinstance(value, str):
        raise InvalidInputError(field, f"expected a string, got {kind_of(value)}")
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise InvalidInputError(field, "expected text that UTF-8 can hold, got a lone surrogate")
    return value


def members(
    what: str, value: object, required: frozenset[str], optional: frozenset[str] = frozenset()
) -> Mapping[str, object]:
    """
    Return the value if it is an object with all required keys and no unknown one.

    Raises:
        InvalidInputError: Naming the missing or unknown key.

    """
    if not isinstance(value, dict):
        raise InvalidInputError(what, f"expected an object, got {kind_of(value)}")
    for key in sorted(required - value.keys()):
        raise InvalidInputError(what, f"expected the field {key!r}, got none")
    for key in value.keys() - required - optional:
        raise InvalidInputError(what, f"expected no other field, got {canonical.shown_name(str(key))}")
    return value


def kind_of(value: object) -> str:
    """Say what kind of value this is without showing it."""
    named = (phrase for kind, phrase in _KINDS if isinstance(value, kind))
    return next(named, f"a value of type {type(value).__name__}")


def from_validation(what: str, error: pydantic.ValidationError) -> InvalidInputError:
    """
    Turn pydantic's first finding into ours, leaving out the value it holds.

    One about the schema comes before all others: what another version calls its fields is not ours to judge.
    """
    findings = error.errors(include_url=False, include_context=False)
    finding = min(findings, key=lambda found: found["loc"] != ("schema",))
    path = ".".join(canonical.shown_name(str(part)).strip("'") for part in finding["loc"]) or what
    match finding["type"]:
        case "missing":
            return InvalidInputError(path, "expected this field, got none")
        case "extra_forbidden":
            return InvalidInputError(path, "expected no such field")
        case "model_type":
            return InvalidInputError(path, f"expected an object, got {kind_of(finding['input'])}")
        case _:
            problem = f"{finding['msg'][:1].lower()}{finding['msg'][1:]}"
            return InvalidInputError(path, f"{problem}, got {kind_of(finding['input'])}")
