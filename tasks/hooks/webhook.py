"""
The delivery hook that ships with the project: a signed webhook to the partner's URL, one bounded exchange an attempt.

It fills in the evidence and `reliability.partner_rules` decides what that means. The bytes, the id and the secrets
come from the request and the partner's terms; nothing of them is logged.
"""

import hashlib
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pydantic_settings

from reliability import clock, partner_rules
from reliability.delivery import DeliveryOutcome, FailureConfirmed
from reliability.delivery_request import DeliveryRequest
from reliability.errors import ConfigurationError, InvalidInputError
from reliability.exchange import Exchange, Phase
from reliability.failures import SettlementFailureCode, SettlementFailureReason
from reliability.partner_rules import PartnerRules
from tasks import partners
from tasks.hooks import http_exchange, webhook_signature
from tasks.hooks.http_client import HttpClient, HttpClientOptions
from tasks.hooks.http_exchange import HttpExchange, HttpRequest
from tasks.partners import Partner, PartnerDirectory

_MS_PER_S: Final = 1000
_PHASES: Final = {phase: Phase(phase.value) for phase in http_exchange.Phase}


class WebhookDeliveryHook:
    """Send deliveries as webhooks; one for a process, from any of its threads."""

    def __init__(self, directory: PartnerDirectory, clock: clock.Clock) -> None:
        self.directory = directory
        self._clock = clock
        self._terms = _TermsInForce()

    def send(self, request: DeliveryRequest) -> DeliveryOutcome:
        """Send the request's bytes once, under its message id, and say what is known afterwards."""
        webhook = self._webhook(request)
        if isinstance(webhook, FailureConfirmed):
            return webhook
        terms = self._terms.of(webhook.partner)
        return self._decide(terms.rules, terms.client.post(webhook.request))

    async def send_async(self, request: DeliveryRequest) -> DeliveryOutcome:
        """Send as `send` does, without blocking the loop."""
        webhook = self._webhook(request)
        if isinstance(webhook, FailureConfirmed):
            return webhook
        terms = self._terms.of(webhook.partner)
        return self._decide(terms.rules, await terms.client.post_async(webhook.request))

    def _webhook(self, request: DeliveryRequest) -> "_Webhook | FailureConfirmed":
        """Return what is to be posted, or why nothing is."""
        partner = self.directory.get(request.partner_id)
        if partner is None:
            return _refused("partner.unknown", SettlementFailureCode.INVALID_INPUT)
        refusal = self._refusal(partner, request)
        return refusal or self._signed(partner, request)

    def _refusal(self, partner: Partner, request: DeliveryRequest) -> FailureConfirmed | None:
        if partner.disabled:
            return _refused("partner.disabled", SettlementFailureCode.UNSUPPORTED)
        if request.expires_at is not None and self._clock.now_ms() >= request.expires_at * _MS_PER_S:
            return _refused("request.expired", SettlementFailureCode.INVALID_INPUT)
        if request.headers and not set(request.headers) <= set(partner.allowed_headers):
            return _refused("request.header", SettlementFailureCode.INVALID_INPUT)
        return None

    def _signed(self, partner: Partner, request: DeliveryRequest) -> "_Webhook | FailureConfirmed":
        signed = webhook_signature.signed_headers(
            partner.secrets, request.message_id, self._clock.now_ms() // _MS_PER_S, request.body
        )
        try:
            prepared = HttpRequest(
                url=partner.url,
                body=request.body,
                headers={**request.headers, "content-type": request.content_type, **signed},
                total_deadline_s=partner.deadline_s,
            )
        except InvalidInputError:
            return _refused("request.header", SettlementFailureCode.INVALID_INPUT)
        return _Webhook(partner, prepared)

    def _decide(self, rules: PartnerRules, exchange: HttpExchange) -> DeliveryOutcome:
        ended_at = datetime.fromtimestamp(self._clock.now_ms() / _MS_PER_S, UTC)
        return partner_rules.decide(rules, evidence_of(exchange, ended_at))


@dataclass(frozen=True, slots=True)
class _Webhook:
    """Hold what is to be posted to whom."""

    partner: Partner
    request: HttpRequest


@dataclass(frozen=True, slots=True)
class _Terms:
    """Hold what is made of a partner's terms once."""

    partner: Partner
    client: HttpClient
    rules: PartnerRules


class _TermsInForce:
    """Keep one HTTP client for partners that connect alike, so that connections are used again, and each's rules."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_partner: dict[str, _Terms] = {}
        self._by_connection: dict[tuple[HttpClientOptions, str], HttpClient] = {}

    def of(self, partner: Partner) -> _Terms:
        """Return what the partner's terms in force come to."""
        known = self._by_partner.get(partner.partner_id)
        if known is not None and known.partner is partner:
            return known
        with self._lock:
            terms = _Terms(partner, self._shared(partner), partner.rules)
            self._by_partner[partner.partner_id] = terms
        return terms

    def _shared(self, partner: Partner) -> HttpClient:
        options = HttpClientOptions(guard=partner.guard, tls=partner.tls.files, proxy_url=partner.proxy)
        # A certificate that was renewed under the same path is another connection.
        key = (options, _content_sha256(partner))
        if key not in self._by_connection:
            self._by_connection[key] = HttpClient(options)
        return self._by_connection[key]


class _Settings(pydantic_settings.BaseSettings):
    """Hold the one setting of the hook, from where the worker reads the same."""

    model_config = pydantic_settings.SettingsConfigDict(
        env_prefix="CHIO_", env_file=".env", env_ignore_empty=True, extra="ignore", hide_input_in_errors=True
    )

    partners_file: Path | None = None


def from_environment() -> WebhookDeliveryHook:
    """
    Make the hook from the partner file that CHIO_PARTNERS_FILE names; the path to load is this module's.

    Raises:
        ConfigurationError: The setting is not there, or the file does not hold.

    """
    path = _Settings().partners_file
    if path is None:
        raise ConfigurationError("CHIO_PARTNERS_FILE is not set; name the partner file (see examples/partners.toml)")
    return WebhookDeliveryHook(partners.shared(path), clock.SystemClock())


def evidence_of(exchange: HttpExchange, ended_at: datetime) -> Exchange:
    """Return what the rules need to know of an exchange."""
    return Exchange(
        phase=_PHASES[exchange.phase],
        ended_at=ended_at,
        status=exchange.status,
        headers=exchange.headers,
        body=exchange.body,
        body_is_whole=exchange.error is None and not exchange.body_truncated,
        body_sha256=exchange.body_sha256,
        detail="" if exchange.status else f"{exchange.phase} {exchange.error}",
    )


def _refused(rule: str, code: SettlementFailureCode) -> FailureConfirmed:
    return FailureConfirmed(reason=SettlementFailureReason.from_detail(code, rule), rule=rule)


def _content_sha256(partner: Partner) -> str:
    digest = hashlib.sha256()
    for path in (partner.tls.ca_file, partner.tls.client_cert_file, partner.tls.client_key_file):
        digest.update(b"\0" + (path.read_bytes() if path else b""))
    return digest.hexdigest()
