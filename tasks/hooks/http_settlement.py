"""
The settlement hook that ships with the project: a rail behind an HTTP URL.

It posts the observation's canonical bytes with `Idempotency-Key: <receipt_id>`, the same on every attempt, and leaves
it to `rail_answer` what the answer means. Configured by `CHIO_RAIL_*` when loaded by its path.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from reliability.clock import Clock, SystemClock
from reliability.errors import InvalidInputError
from reliability.failures import SettlementFailureCode, SettlementFailureReason
from reliability.outcomes import Permanent, SettlementResult
from reliability.settlement import SettlementObservation
from tasks.hooks import http_url, rail_answer
from tasks.hooks.address_guard import AddressGuard
from tasks.hooks.http_client import HttpClient, HttpClientOptions
from tasks.hooks.http_exchange import HttpRequest
from tasks.hooks.rail_settings import RailSettings

IDEMPOTENCY_KEY = "Idempotency-Key"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettlementHook:
    """Settle by HTTP POST. Safe to share between threads and across a fork."""

    url: str
    total_deadline_s: float
    client: HttpClient = field(default_factory=HttpClient)
    token: str | None = field(default=None, repr=False)
    #: Whether every 409 of this rail means that the key is settled.
    conflict_is_finished: bool = False
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        http_url.checked_url("url", self.url)

    def observe(self, observation: SettlementObservation) -> SettlementResult:
        """Post the observation once and decide what the answer means; raises nothing for what the rail does."""
        try:
            request = self._request(observation)
        except InvalidInputError as error:
            # An id that no header can carry, or a number without a canonical form: no repeat makes it sendable.
            return Permanent(SettlementFailureReason.from_detail(SettlementFailureCode.INVALID_OBSERVATION, str(error)))
        exchange = self.client.post(request)
        now = datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC)
        return rail_answer.result_of(exchange, now, conflict_is_finished=self.conflict_is_finished)

    def _request(self, observation: SettlementObservation) -> HttpRequest:
        return HttpRequest(
            url=self.url,
            body=observation.canonical_json(),
            headers=self._headers(observation.receipt_id),
            total_deadline_s=self.total_deadline_s,
        )

    def _headers(self, receipt_id: str) -> Mapping[str, str]:
        headers = {"Accept": "application/json", "Content-Type": "application/json", IDEMPOTENCY_KEY: receipt_id}
        return headers if self.token is None else {**headers, "Authorization": f"Bearer {self.token}"}


def from_environment() -> HttpSettlementHook:
    """
    Make the hook that `CHIO_RAIL_*` describes; the path to load is `tasks.hooks.http_settlement:from_environment`.

    Raises:
        ConfigurationError: With the variable that is wrong and what to do.

    """
    settings = RailSettings.from_environment()
    guard = AddressGuard.public_only() if settings.block_private_addresses else AddressGuard.open_to_all()
    options = HttpClientOptions(
        guard=guard,
        tls=settings.tls_files,
        max_response_bytes=settings.max_response_bytes,
        keepalive_s=settings.keepalive_s,
    )
    return HttpSettlementHook(
        url=settings.url,
        total_deadline_s=settings.deadline_s,
        client=HttpClient(options),
        token=settings.bearer_token(),
        conflict_is_finished=settings.conflict_is_finished,
    )
