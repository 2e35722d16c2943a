"""
Where a partner's signing secrets come from: the environment or a file, never the partner file itself.

A reference is `env:NAME` or `file:PATH`. No message here holds a secret, nor what was written in a reference's place:
that may be one.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from reliability import fields
from reliability.errors import InvalidInputError

#: What Standard Webhooks writes before a symmetric secret.
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - the public prefix of every secret, not one of them
#: Standard Webhooks: a secret has 24 to 64 bytes.
MIN_SECRET_BYTES: Final = 24
MAX_SECRET_BYTES: Final = 64

_ENV: Final = "env:"
_FILE: Final = "file:"
_REFERENCE: Final = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:.+")
_FIELD: Final = "secrets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Say where references lead: the environment, and the folder that relative paths begin at."""

    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    folder: Path = Path()


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningSecret:
    """Hold a secret under its reference; only the reference is ever shown."""

    reference: str
    text: str = field(repr=False)

    @classmethod
    def resolve(cls, reference: object, sources: Sources) -> Self:
        """
        Read the secret a reference names.

        Raises:
            InvalidInputError: It is no reference, nothing is there, or what is there is no secret that signs.

        """
        named = fields.text(_FIELD, reference)
        if not _REFERENCE.fullmatch(named):
            raise InvalidInputError(_FIELD, "expected env:NAME or file:PATH; keep the secret itself out of this file")
        text = _from_environment(named, sources) if named.startswith(_ENV) else _from_file(named, sources)
        _check_key(named, text)
        return cls(reference=named, text=text)


def _from_environment(reference: str, sources: Sources) -> str:
    text = sources.environ.get(reference.removeprefix(_ENV), "").strip()
    if not text:
        raise InvalidInputError(_FIELD, f"{reference} is not set; export it, or name a file with file:PATH")
    return text


def _from_file(reference: str, sources: Sources) -> str:
    path = sources.folder / reference.removeprefix(_FILE)
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise InvalidInputError(_FIELD, f"{reference} cannot be read: {why}") from error


def _check_key(reference: str, text: str) -> None:
    try:
        key = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        # Not chained: the library's message may hold a piece of the secret.
        raise InvalidInputError(_FIELD, f"{reference} is no secret: expected whsec_ and base64") from None
    if not MIN_SECRET_BYTES <= len(key) <= MAX_SECRET_BYTES:
        wanted = f"expected {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes after decoding"
        raise InvalidInputError(_FIELD, f"{reference} is no secret: {wanted}, got {len(key)}")
