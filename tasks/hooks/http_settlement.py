"""
The settlement hook that ships with the project: a rail behind an HTTP URL.

It posts the observation's canonical bytes with `Idempotency-Key: <receipt_id>`, the same on every attempt, and leaves
it to `rail_answer` what the answer means. A rail that offers a status is asked what became of what it had taken.
Configured by `CHIO_RAIL_*` when loaded by its path.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from reliability.clock import Clock, SystemClock
from reliability.errors import InvalidInputError
from reliability.failures import SettlementFailureCode, SettlementFailureReason
from reliability.outcomes import Pending, Permanent, SettlementResult
from reliability.settlement import SettlementObservation
from tasks.hooks import http_url, rail_answer, status_urls
from tasks.hooks.address_guard import AddressGuard
from tasks.hooks.http_client import HttpClient, HttpClientOptions
from tasks.hooks.http_exchange import HttpExchange, HttpRequest, Method
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
    #: Where the rail tells what became of a receipt, with `{receipt_id}` in its place; None where it does not.
    status_url: str | None = None
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        http_url.checked_url("url", self.url)
        if self.status_url is not None:
            status_urls.checked_template("status_url", self.status_url)

    def observe(self, observation: SettlementObservation) -> SettlementResult:
        """Post the observation once and decide what the answer means; raises nothing for what the rail does."""
        request = self._sendable(observation)
        return request if isinstance(request, Permanent) else self._result(self.client.post(request))

    async def observe_async(self, observation: SettlementObservation) -> SettlementResult:
        """Settle as `observe` does, without blocking the loop."""
        request = self._sendable(observation)
        return request if isinstance(request, Permanent) else self._result(await self.client.post_async(request))

    def verify(self, observation: SettlementObservation) -> SettlementResult:
        """Ask the rail what became of the receipt, without settling again; `Pending` where it offers no answer."""
        url = self.status_url and status_urls.filled(self.status_url, observation.receipt_id)
        if url is None:
            return Pending("")
        request = HttpRequest(
            method=Method.GET,
            url=url,
            headers=self._authorised({"Accept": "application/json"}),
            total_deadline_s=self.total_deadline_s,
        )
        exchange = self.client.exchange(request)
        return rail_answer.status_of(exchange, datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC))

    def _result(self, exchange: HttpExchange) -> SettlementResult:
        now = datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC)
        return rail_answer.result_of(exchange, now, conflict_is_finished=self.conflict_is_finished)

    def _sendable(self, observation: SettlementObservation) -> HttpRequest | Permanent:
        try:
            return self._request(observation)
        except InvalidInputError as error:
            # An id that no header can carry, or a number without a canonical form: no repeat makes it sendable.
            return Permanent(SettlementFailureReason.from_detail(SettlementFailureCode.INVALID_OBSERVATION, str(error)))

    def _request(self, observation: SettlementObservation) -> HttpRequest:
        return HttpRequest(
            url=self.url,
            body=observation.canonical_json(),
            headers=self._headers(observation.receipt_id),
            total_deadline_s=self.total_deadline_s,
        )

    def _headers(self, receipt_id: str) -> Mapping[str, str]:
        accepted = {"Accept": "application/json", "Content-Type": "application/json"}
        return self._authorised({**accepted, IDEMPOTENCY_KEY: receipt_id})

    def _authorised(self, headers: Mapping[str, str]) -> Mapping[str, str]:
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
        status_url=settings.status_url,
    )
