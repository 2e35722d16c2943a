"""
One partner as its file writes it: where its deliveries go, and how they are signed, repeated and bounded.

`partners` reads partners from TOML. A partner is frozen; a changed file makes new ones. Secrets come from elsewhere
and are never shown.
"""

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final, Self, TypeVar

import pydantic
from pydantic import AfterValidator, BeforeValidator, Field, InstanceOf, ValidationInfo

from reliability import canonical, circuit, delivery, fields
from reliability.body_rules import BodyRule
from reliability.delivery_request import RESERVED_HEADERS, Identifier
from reliability.errors import ConfigurationError
from reliability.partner_rules import PartnerRules
from reliability.retry import RetryPolicy
from reliability.status_rules import StatusRule, status_rules_from_wire
from storage.gates import GateLimits
from tasks import partner_urls
from tasks.delivery_flow import PartnerTerms
from tasks.hooks import http_connector
from tasks.hooks.address_guard import AddressGuard
from tasks.hooks.http_connector import TlsFiles
from tasks.partner_gate import PartnerLimits
from tasks.partner_secrets import SigningSecret, Sources

#: Longest deadline of one exchange, in seconds: a worker's slot is taken that long.
MAX_DEADLINE_S: Final = 300
#: Longest elapsed budget, in seconds: a year.
MAX_ELAPSED_LIMIT_S: Final = 31_536_000
#: A probe or a place in the gate whose worker died is given up after so many deadlines, and never before ten seconds;
#: `bootstrap` makes it longer than the worker's own time limit, whatever the partner's deadline.
_LEASE_DEADLINES: Final = 2
_LEASE_MIN_MS: Final = 10_000

#: The secret in use, and one more while it is rotated.
MAX_SECRETS: Final = 2
_HEADER_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")

Value = TypeVar("Value")
_TERMS: Final = pydantic.ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)
_DEFAULT_POLICY: Final = RetryPolicy()
_DEFAULT_RETRY: Final = {
    "max_retries": _DEFAULT_POLICY.max_retries,
    "initial_backoff_ms": _DEFAULT_POLICY.initial_backoff_ms,
    "backoff_multiplier": _DEFAULT_POLICY.backoff_multiplier,
    "backoff_cap_ms": _DEFAULT_POLICY.backoff_cap_ms,
}


def _sources(info: ValidationInfo) -> Sources:
    return info.context if isinstance(info.context, Sources) else Sources()


def _secret(value: object, info: ValidationInfo) -> SigningSecret:
    return SigningSecret.resolve(value, _sources(info))


def _policy(value: object) -> RetryPolicy:
    given = fields.members("retry", value, frozenset(), frozenset(_DEFAULT_RETRY))
    return RetryPolicy.from_wire({**_DEFAULT_RETRY, **given})


def _header_name(name: str) -> str:
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError("expected lower-case letters, digits and hyphens, at most 64")
    if name in RESERVED_HEADERS:
        raise ValueError("the sender sets this header itself; leave it out")
    return name


def _network(text: str) -> str:
    return _checked(lambda: AddressGuard.public_only([text]), text)


def _path(value: object, info: ValidationInfo) -> Path:
    return _sources(info).folder / fields.text("tls", value)


def _checked(check: Callable[[], object], value: Value) -> Value:
    """Turn a refused configuration into what pydantic reports with its field."""
    try:
        check()
    except ConfigurationError as error:
        raise ValueError(error.problem) from None
    return value


def _some(secrets: tuple[SigningSecret, ...]) -> tuple[SigningSecret, ...]:
    if not 1 <= len(secrets) <= MAX_SECRETS:
        raise ValueError(f"expected 1 reference, or {MAX_SECRETS} while a secret is rotated, got {len(secrets)}")
    return secrets


_Header = Annotated[str, AfterValidator(_header_name)]
_Secret = Annotated[InstanceOf[SigningSecret], BeforeValidator(_secret)]
_File = Annotated[InstanceOf[Path], BeforeValidator(_path)]


class BreakerTerms(pydantic.BaseModel):
    """Set when the partner's circuit opens and how long it stays so."""

    model_config = _TERMS

    #: Indeterminate outcomes in a row that open it.
    failure_threshold: int = Field(5, ge=1, le=1_000)
    #: Wait before a probe, in milliseconds.
    cool_down_ms: int = Field(30_000, ge=1, le=86_400_000)


class TlsTerms(pydantic.BaseModel):
    """Name PEM files that differ from the system's; relative paths begin at the partner file's folder."""

    model_config = _TERMS

    ca_file: _File | None = None
    client_cert_file: _File | None = None
    client_key_file: _File | None = None

    @pydantic.model_validator(mode="after")
    def _check_files(self) -> Self:
        if self.client_key_file and not self.client_cert_file:
            raise ValueError("expected client_cert_file beside client_key_file")
        return _checked(lambda: http_connector.tls_context(self.files), self)

    @property
    def files(self) -> TlsFiles:
        """Return the files as the HTTP client takes them."""
        return TlsFiles(
            ca_file=self.ca_file,
            client_certificate_file=self.client_cert_file,
            client_key_file=self.client_key_file,
        )


class Partner(pydantic.BaseModel):
    """Hold one partner's terms. Order matters: what the URL is judged by stands before it."""

    model_config = _TERMS

    partner_id: Identifier
    #: Plain http leaves this host only with this.
    allow_plain_http: bool = False
    #: Networks in CIDR form that are not public and may be called all the same.
    allow_private_networks: tuple[Annotated[str, AfterValidator(_network)], ...] = Field((), strict=False)
    #: `http://host:port` of a proxy that every call to this partner goes through. It judges addresses then, not us.
    proxy: str | None = None
    url: str
    #: The current secret, and during a rotation the next or the last one too: both sign.
    secrets: Annotated[tuple[_Secret, ...], Field(strict=False), AfterValidator(_some)]
    #: For one exchange as a whole, in seconds: look-up, connection, request, answer.
    deadline_s: float = Field(15.0, gt=0, le=MAX_DEADLINE_S, allow_inf_nan=False)
    retry: Annotated[InstanceOf[RetryPolicy], BeforeValidator(_policy)] = _DEFAULT_POLICY
    #: From the first attempt to the last, in seconds; None bounds attempts only.
    max_elapsed_s: int | None = Field(None, ge=1, le=MAX_ELAPSED_LIMIT_S)
    #: Up to this is added to every backoff, at random.
    jitter_ms: int = Field(0, ge=0, le=86_400_000)
    breaker: BreakerTerms = BreakerTerms()
    #: Deliveries a second over the whole fleet; None for no bound.
    max_per_second: float | None = Field(None, gt=0, le=100_000, allow_inf_nan=False)
    #: Deliveries under way at once over the whole fleet; None for no bound.
    max_concurrent: int | None = Field(None, ge=1, le=100_000)
    #: Deliveries a second, over the whole fleet, of those that were held back; None is `max_per_second`, or 50.
    max_returns_per_second: float | None = Field(None, gt=0, le=100_000, allow_inf_nan=False)
    #: Headers that producers may set, in lower case.
    allowed_headers: tuple[_Header, ...] = Field((), strict=False)
    status_rules: Annotated[tuple[InstanceOf[StatusRule], ...], BeforeValidator(status_rules_from_wire)] = ()
    body_rule: Annotated[InstanceOf[BodyRule], BeforeValidator(BodyRule.from_wire)] | None = None
    tls: TlsTerms = TlsTerms()
    #: A 2xx means taken; the receipt comes later.
    accepts_pending: bool = False
    #: Receipts count only with the signature of one of the secrets.
    receipts_signed: bool = True
    #: `webhook-delivery: abort-message` and `disable` in an answer are honoured.
    honour_delivery_headers: bool = False
    #: The partner drops a repeat of a message id; where it does not, an unknown outcome waits instead of a repeat.
    deduplicates: bool = True
    #: Nothing is admitted for this partner and nothing is sent to it.
    disabled: bool = False

    @pydantic.field_validator("proxy")
    @classmethod
    def _check_proxy(cls, proxy: str | None) -> str | None:
        if proxy is not None:
            partner_urls.check_proxy(proxy)
        return proxy

    @pydantic.field_validator("url")
    @classmethod
    def _check_url(cls, url: str, info: ValidationInfo) -> str:
        partner_urls.check_url(url, allow_plain_http=bool(info.data.get("allow_plain_http")))
        # Wrong networks are reported as such, the address is judged once they are right; a proxy judges it itself.
        if "allow_private_networks" in info.data and not info.data.get("proxy"):
            guard = AddressGuard.public_only(info.data["allow_private_networks"])
            partner_urls.check_reachable(url, guard)
        return url

    @property
    def guard(self) -> AddressGuard:
        """Return what judges the addresses that calls connect to; a proxy of the operator's is not judged."""
        return AddressGuard.open_to_all() if self.proxy else AddressGuard.public_only(self.allow_private_networks)

    @property
    def rules(self) -> PartnerRules:
        """Return what decides an exchange's outcome."""
        return PartnerRules(
            status_rules=self.status_rules,
            body_rule=self.body_rule,
            accepts_pending=self.accepts_pending,
            honour_delivery_headers=self.honour_delivery_headers,
            deduplicates=self.deduplicates,
        )

    @property
    def budget(self) -> delivery.RetryBudget:
        """Return the elapsed budget."""
        elapsed = None if self.max_elapsed_s is None else timedelta(seconds=self.max_elapsed_s)
        return delivery.RetryBudget(max_elapsed=elapsed)

    @property
    def terms(self) -> PartnerTerms:
        """Return what the delivery flow needs to know."""
        lease_ms = max(_LEASE_MIN_MS, round(self.deadline_s * 1000) * _LEASE_DEADLINES)
        breaker = circuit.CircuitPolicy(
            failure_threshold=self.breaker.failure_threshold,
            cool_down_ms=self.breaker.cool_down_ms,
            probe_lease_ms=lease_ms,
        )
        gate = GateLimits(
            max_per_second=self.max_per_second,
            max_concurrent=self.max_concurrent,
            max_returns_per_second=self.max_returns_per_second,
            entry_lease_ms=lease_ms,
            # A URL may hold a token in its path: only its digest is stored.
            endpoint=canonical.sha256_hex(self.url.encode()),
        )
        limits = PartnerLimits(circuit=breaker, gate=gate)
        return PartnerTerms(policy=self.retry, budget=self.budget, limits=limits, jitter_ms=self.jitter_ms)
