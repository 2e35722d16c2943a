"""
What the simulated partner is to do with which delivery: steps written in the URL's path, or in a script file.

`POST /p/<partner_id>/503/503/ok` answers 503 twice, then takes the message: request number n of a message takes step
n, and the last step goes on for ever. A script file gives steps by message id and by partner id instead.
"""

import fnmatch
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from reliability.errors import ConfigurationError
from worker.simulators.partner_steps import OK, Step, steps_of

_KEYS = frozenset({"messages", "partners", "default", "secrets", "receipts"})
_RECEIPT_KEYS = frozenset({"url", "file"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptTarget:
    """Say where receipts go: posted to a URL, or appended to a file; neither drops them."""

    url: str | None = None
    file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartnerScript:
    """Hold patterns of message ids and of partner ids with their steps, the secrets, and where receipts go."""

    messages: Mapping[str, tuple[Step, ...]] = field(default_factory=dict)
    partners: Mapping[str, tuple[Step, ...]] = field(default_factory=dict)
    default: tuple[Step, ...] = (OK,)
    #: Partner id -> references such as `env:NAME`; signatures of partners without any are not checked.
    secrets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    receipts: ReceiptTarget = ReceiptTarget()

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """
        Read a script of JSON or, by its suffix, TOML.

        Raises:
            ConfigurationError: With the file and what is wrong in it.

        """
        try:
            text = path.read_text(encoding="utf-8")
            return cls.from_document(tomllib.loads(text) if path.suffix == ".toml" else json.loads(text))
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"partner script {path}: expected readable JSON or TOML, got: {error}") from error
        except ConfigurationError as error:
            raise ConfigurationError(f"partner script {path}: {error}") from error

    @classmethod
    def from_document(cls, document: object) -> Self:
        """
        Read a decoded script.

        Raises:
            ConfigurationError: With what is wrong.

        """
        found = _mapping("the script", document, _KEYS)
        secrets = _mapping("secrets", found.get("secrets", {}))
        return cls(
            messages=_patterns("messages", found.get("messages", {})),
            partners=_patterns("partners", found.get("partners", {})),
            default=steps_of(_texts("default", found.get("default", ["ok"]))),
            secrets={name: tuple(_texts(f"secrets.{name}", texts)) for name, texts in secrets.items()},
            receipts=_receipts(_mapping("receipts", found.get("receipts", {}), _RECEIPT_KEYS)),
        )

    def steps(self, partner_id: str, message_id: str, in_path: Sequence[str]) -> tuple[Step, ...]:
        """
        Return the steps for a message: the script's by message, the path's, the script's by partner, the default.

        Raises:
            ConfigurationError: The path holds what is no step.

        """
        return (
            _first_match(self.messages, message_id)
            or (steps_of(in_path) if in_path else None)
            or _first_match(self.partners, partner_id)
            or self.default
        )


def _receipts(target: Mapping[str, object]) -> ReceiptTarget:
    texts = dict(zip(target, _texts("receipts", list(target.values())), strict=True))
    return ReceiptTarget(url=texts.get("url"), file=Path(texts["file"]) if "file" in texts else None)


def _first_match(patterns: Mapping[str, tuple[Step, ...]], name: str) -> tuple[Step, ...] | None:
    return next((steps for pattern, steps in patterns.items() if fnmatch.fnmatchcase(name, pattern)), None)


def _patterns(where: str, value: object) -> Mapping[str, tuple[Step, ...]]:
    return {pattern: steps_of(_texts(f"{where}.{pattern}", texts)) for pattern, texts in _mapping(where, value).items()}


def _mapping(where: str, value: object, keys: frozenset[str] | None = None) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"expected {where} to be an object, got: {type(value).__name__}")
    if keys is not None and (unknown := sorted(value.keys() - keys)):
        raise ConfigurationError(f"expected only {', '.join(sorted(keys))} in {where}, got: {unknown[0]}")
    return value


def _texts(where: str, value: object) -> Sequence[str]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ConfigurationError(f"expected {where} to be a list of texts, got: {type(value).__name__}")
    return value
