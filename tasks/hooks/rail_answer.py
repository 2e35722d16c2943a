"""
What a rail's HTTP answer means for a settlement: the rail rows of the situations table, as pure decisions.

`HttpSettlementHook` calls `result_of` with what is known after the exchange. What the rail said goes into the digest of
the failure's detail and nowhere else.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from http import HTTPStatus
from types import MappingProxyType

from reliability import canonical
from reliability.errors import InvalidInputError
from reliability.failures import SettlementFailureCode, SettlementFailureReason
from reliability.outcomes import Accepted, Pending, Permanent, Retryable, SettlementResult
from reliability.retry_after import parse_retry_after
from reliability.settlement import SettlementOutcome
from tasks.hooks.http_exchange import ErrorKind, HttpExchange, is_header_safe

#: What a status from 400 to 499 says is wrong; one that is not here says `invalid_input`. None of these may retry.
PERMANENT_CODES: Mapping[int, SettlementFailureCode] = MappingProxyType(
    {
        400: SettlementFailureCode.INVALID_INPUT,
        401: SettlementFailureCode.INVALID_DISPATCH,
        403: SettlementFailureCode.INVALID_DISPATCH,
        404: SettlementFailureCode.INVALID_BINDING,
        405: SettlementFailureCode.UNSUPPORTED,
        406: SettlementFailureCode.UNSUPPORTED,
        410: SettlementFailureCode.INVALID_BINDING,
        413: SettlementFailureCode.INVALID_INPUT,
        415: SettlementFailureCode.UNSUPPORTED,
        # The key was used before with other parameters.
        422: SettlementFailureCode.INVALID_INPUT,
    }
)
#: Statuses below 500 that say "later", not "no".
RETRYABLE_STATUSES = frozenset({408, 421, 425, 429})
#: Where a 409 says one of these in `state`, the settlement of our key is finished.
FINISHED_STATES = frozenset({"exists", "finished", "settled"})

_OUTCOME_SCHEMA_FAMILY = "chio.settle.outcome."
_MAX_TRANSCRIPT_ID_LENGTH = 200
_SUCCESS = 2


def result_of(exchange: HttpExchange, now: datetime, *, conflict_is_finished: bool = False) -> SettlementResult:
    """
    Decide what an exchange with a rail means.

    `conflict_is_finished` is for a rail whose every 409 says that it has settled this key; otherwise a 409 has to
    prove it, because other rails answer 409 while the first request still runs.
    """
    status = exchange.status
    if status is None:
        return _without_answer(exchange)
    if status == HTTPStatus.ACCEPTED:
        return Pending(_transcript_id(exchange, _document(exchange)))
    match status // 100:
        case 2:
            return _succeeded(exchange)
        case 3:
            return _permanent(exchange, SettlementFailureCode.INVALID_DISPATCH)
        case 4:
            return _refused(exchange, status, now, conflict_is_finished=conflict_is_finished)
        case _:
            return _retryable(exchange, _retry_after(exchange, now))


def status_of(exchange: HttpExchange, now: datetime) -> SettlementResult:
    """
    Decide what a rail's answer about a receipt it had taken means.

    An answer that says nothing of the settlement (404, 401, a redirect) is no failure of it: only an outcome document
    can say that for certain. The receipt is observed again then, which the rail takes once.
    """
    result = result_of(exchange, now)
    is_told = exchange.status is not None and exchange.status // 100 == _SUCCESS
    if isinstance(result, Permanent) and not is_told:
        return _retryable(exchange, None)
    return result


def _without_answer(exchange: HttpExchange) -> SettlementResult:
    if exchange.error is ErrorKind.BLOCKED:
        return _permanent(exchange, SettlementFailureCode.INVALID_DISPATCH)
    return _retryable(exchange, None)


def _succeeded(exchange: HttpExchange) -> SettlementResult:
    document = _document(exchange)
    if not _is_outcome(document):
        return Accepted(_transcript_id(exchange, document))
    try:
        outcome = SettlementOutcome.from_wire(document)
    except InvalidInputError:
        return _permanent(exchange, SettlementFailureCode.SERIALIZATION)
    return Accepted(_transcript_id(exchange, document)) if isinstance(outcome, Accepted) else outcome


def _refused(exchange: HttpExchange, status: int, now: datetime, *, conflict_is_finished: bool) -> SettlementResult:
    wait = _retry_after(exchange, now)
    if status == HTTPStatus.CONFLICT:
        document = _document(exchange)
        if conflict_is_finished or _says_finished(document):
            return Accepted(_transcript_id(exchange, document))
        return _retryable(exchange, wait)
    if status in RETRYABLE_STATUSES or (status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE and wait is not None):
        return _retryable(exchange, wait)
    return _permanent(exchange, PERMANENT_CODES.get(status, SettlementFailureCode.INVALID_INPUT))


def _document(exchange: HttpExchange) -> Mapping[str, object]:
    """Return the answer's JSON object; an empty one where the body is something else, or not all of it is here."""
    if exchange.body_truncated or exchange.error is not None or not exchange.body.lstrip().startswith(b"{"):
        return {}
    try:
        document = canonical.strict_json(exchange.body)
    except InvalidInputError:
        return {}
    return document if isinstance(document, dict) else {}


def _is_outcome(document: Mapping[str, object]) -> bool:
    schema = document.get("schema")
    return isinstance(schema, str) and schema.startswith(_OUTCOME_SCHEMA_FAMILY)


def _says_finished(document: Mapping[str, object]) -> bool:
    return bool(document.get("transcript_id")) or document.get("state") in FINISHED_STATES


def _transcript_id(exchange: HttpExchange, document: Mapping[str, object]) -> str:
    """Return the rail's transcript id if it is one that can be shown; else the digest of what it said."""
    named = document.get("transcript_id")
    if isinstance(named, str) and 0 < len(named) <= _MAX_TRANSCRIPT_ID_LENGTH and is_header_safe(named):
        return named
    return f"sha256:{exchange.body_sha256}"


def _retry_after(exchange: HttpExchange, now: datetime) -> timedelta | None:
    value = exchange.headers.get("retry-after")
    return None if value is None else parse_retry_after(value, now)


def _retryable(exchange: HttpExchange, wait: timedelta | None) -> Retryable:
    asked_ms = None if wait is None else wait // timedelta(milliseconds=1)
    return Retryable(_reason(exchange, SettlementFailureCode.RPC), retry_after_ms=asked_ms)


def _permanent(exchange: HttpExchange, code: SettlementFailureCode) -> Permanent:
    return Permanent(_reason(exchange, code))


def _reason(exchange: HttpExchange, code: SettlementFailureCode) -> SettlementFailureReason:
    said = exchange.body.decode("utf-8", "backslashreplace")
    detail = f"status={exchange.status} phase={exchange.phase} error={exchange.error} body={said}"
    return SettlementFailureReason.from_detail(code, detail)
