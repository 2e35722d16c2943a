"""
The partners in force, read from a TOML file: `[partners.<id>]` with the fields of `Partner`.

A file is taken whole or not at all, and every problem in it is told at once. `reload` swaps all partners in one step;
a file that does not hold leaves the old ones in force.
"""

import functools
import os
import threading
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final, Self

import pydantic
from pydantic_core import ErrorDetails

from reliability import canonical, fields
from reliability.errors import ConfigurationError, InvalidInputError
from storage.job_ids import SETTLEMENT_PARTNER_ID
from tasks.delivery_flow import PartnerTerms
from tasks.hooks import webhook_signature
from tasks.partner_secrets import Sources
from tasks.partner_terms import Partner

__all__ = ["Partner", "PartnerDirectory", "read_partners", "shared"]

_TABLE: Final = "partners"


@dataclass(frozen=True, slots=True, kw_only=True)
class _InForce:
    """Hold all partners of one reading of the file, with what the flow asks for most."""

    partners: Mapping[str, Partner] = field(default_factory=dict)
    terms: Mapping[str, PartnerTerms] = field(default_factory=dict)

    @classmethod
    def of(cls, partners: Mapping[str, Partner]) -> Self:
        return cls(partners=partners, terms={name: partner.terms for name, partner in partners.items()})


class PartnerDirectory:
    """Find partners by id; safe to ask from any thread while another reloads."""

    def __init__(self, path: Path, sources: Sources, partners: Mapping[str, Partner]) -> None:
        self._path = path
        self._sources = sources
        self._in_force = _InForce.of(partners)
        self._reloading = threading.Lock()

    @classmethod
    def load(cls, path: Path, environ: Mapping[str, str]) -> Self:
        """
        Read the file; secrets come from `environ` and from files beside it.

        Raises:
            ConfigurationError: With every problem of every partner, one a line, and no secret.

        """
        sources = Sources(environ=environ, folder=path.parent)
        return cls(path, sources, read_partners(path, sources))

    @property
    def partners(self) -> Mapping[str, Partner]:
        """Return all partners in force by id."""
        return self._in_force.partners

    @property
    def longest_deadline_s(self) -> float:
        """Return the longest time one exchange may take; a worker's time limits must be longer."""
        return max((partner.deadline_s for partner in self.partners.values()), default=0.0)

    @property
    def longest_horizon(self) -> timedelta:
        """Return the longest time the backoffs of one delivery add up to; the dedup window must be longer."""
        return max((partner.retry.horizon() for partner in self.partners.values()), default=timedelta())

    def get(self, partner_id: str) -> Partner | None:
        """Return the partner; None where no partner has this id."""
        return self._in_force.partners.get(partner_id)

    def terms_of(self, partner_id: str) -> PartnerTerms | None:
        """Return what the delivery flow needs to know of the partner; None where no partner has this id."""
        return self._in_force.terms.get(partner_id)

    def must_be_signed(self, partner_id: str) -> bool:
        """Tell whether an unsigned receipt is refused: of a partner that signs, and of one nobody knows."""
        if partner_id == SETTLEMENT_PARTNER_ID:
            return False  # a rail's receipts come from the producer's own intake
        partner = self.get(partner_id)
        return partner is None or partner.receipts_signed

    def is_signed_by(self, partner_id: str, headers: Mapping[str, str], body: bytes) -> bool:
        """Tell whether one of the partner's secrets made the signature in the headers."""
        partner = self.get(partner_id)
        return partner is not None and webhook_signature.is_signed(partner.secrets, headers, body)

    def reload(self, problems_of: Callable[["PartnerDirectory"], Sequence[str]] = lambda _: ()) -> None:
        """
        Read the file again and put its partners in force, all at once, unless the caller finds problems in them.

        Raises:
            ConfigurationError: As `load`, or with the caller's problems; the old partners stay in force.

        """
        with self._reloading:
            candidate = type(self)(self._path, self._sources, read_partners(self._path, self._sources))
            if problems := problems_of(candidate):
                raise ConfigurationError("\n".join(problems))
            self._in_force = _InForce.of(candidate.partners)


@functools.cache
def shared(path: Path) -> PartnerDirectory:
    """
    Return the one directory of this file in this process, read with its environment at the first call.

    A process that is forked later begins with the partners that are in force then, whatever the file says meanwhile.

    Raises:
        ConfigurationError: As `PartnerDirectory.load`; nothing is kept, the next call reads again.

    """
    return PartnerDirectory.load(path, os.environ)


def read_partners(path: Path, sources: Sources) -> dict[str, Partner]:
    """
    Read and check every partner of the file.

    Raises:
        ConfigurationError: With every problem, one a line.

    """
    found: dict[str, Partner] = {}
    problems: list[str] = []
    for partner_id, terms in _tables(path).items():
        try:
            found[partner_id] = _partner(partner_id, terms, sources)
        except pydantic.ValidationError as error:
            problems += [_sentence(partner_id, finding) for finding in error.errors(include_url=False)]
        except InvalidInputError as error:
            problems.append(f"partner {canonical.shown_name(partner_id)}: {error}")
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise ConfigurationError("\n  ".join([f"{path}: {count}, nothing of it is in force", *problems]))
    return found


def _tables(path: Path) -> dict[str, object]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}; set CHIO_PARTNERS_FILE") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: expected UTF-8, got an invalid byte at offset {error.start}") from None
    except tomllib.TOMLDecodeError as error:
        # Not chained: some versions keep the whole text with the exception, and a secret may stand in it by mistake.
        raise ConfigurationError(f"{path} is no TOML: {error}") from None
    partners = document.get(_TABLE)
    if set(document) != {_TABLE} or not isinstance(partners, dict) or not partners:
        raise ConfigurationError(f"{path}: expected tables [partners.<id>], at least one, and nothing beside them")
    return partners


def _partner(partner_id: str, terms: object, sources: Sources) -> Partner:
    if not isinstance(terms, dict):
        raise InvalidInputError("terms", f"expected a table, got {fields.kind_of(terms)}")
    if "partner_id" in terms:
        raise InvalidInputError("partner_id", "expected no such field: the table's name is the id")
    if partner_id == SETTLEMENT_PARTNER_ID:
        raise InvalidInputError("partner_id", "this id is kept for settlement rails; choose another")
    return Partner.model_validate({**terms, "partner_id": partner_id}, context=sources)


def _sentence(partner_id: str, finding: ErrorDetails) -> str:
    """Say what is wrong in which field, without the value."""
    where = ".".join(canonical.shown_name(str(part)).strip("'") for part in finding["loc"]) or "terms"
    return f"partner {canonical.shown_name(partner_id)}, {_where_and_problem(where, finding)}"


def _where_and_problem(where: str, finding: ErrorDetails) -> str:
    error = finding.get("ctx", {}).get("error")
    match finding["type"]:
        case "missing":
            return f"{where}: expected this field, got none"
        case "extra_forbidden":
            return f"{where}: expected no such field; check its spelling"
        case "value_error" if isinstance(error, InvalidInputError):
            # A check of our own may know the place within the field better.
            inner = error.field if error.field.startswith(f"{where}.") else where
            return f"{inner}: {error.problem}"
        case "value_error":
            return f"{where}: {error}"
        case _:
            problem = f"{finding['msg'][:1].lower()}{finding['msg'][1:]}"
            return f"{where}: {problem}, got {fields.kind_of(finding['input'])}"
