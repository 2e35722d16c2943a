"""
The defaults for webhooks, as data: what each status and each phase without a status means.

Each rule names the row of the table of situations (docs/partners.md) that backs it. `partner_rules` reads the tables;
a partner's own status rules come before them.
"""

from dataclasses import dataclass
from typing import Final

from reliability.exchange import Phase
from reliability.failures import SettlementFailureCode
from reliability.status_rules import CLASS_SIZE, HIGHEST_STATUS, LOWEST_STATUS, StatusRule, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRule:
    """Say what an exchange means that ended in this phase, without a status."""

    verdict: Verdict
    row: int
    code: SettlementFailureCode = SettlementFailureCode.RPC
    #: The request never left whole, so the partner cannot have acted on it.
    not_sent: bool = False


def _each(*statuses: int, verdict: Verdict, row: int) -> tuple[StatusRule, ...]:
    return tuple(StatusRule(first=status, last=status, verdict=verdict, row=row) for status in statuses)


def _class(hundreds: int, verdict: Verdict, row: int, code: SettlementFailureCode) -> StatusRule:
    first = hundreds * CLASS_SIZE
    return StatusRule(first=first, last=first + CLASS_SIZE - 1, verdict=verdict, row=row, code=code)


#: For a status no other rule knows.
ANY_STATUS: Final = StatusRule(first=LOWEST_STATUS, last=HIGHEST_STATUS, verdict=Verdict.INDETERMINATE, row=18)

#: Of the rules that cover a status the narrowest counts, so the classes come last.
STATUS_RULES: Final = (
    *_each(202, verdict=Verdict.SUCCESS_CONFIRMED, row=8),
    # Sources differ on these: a webhook treats them as ordinary failures, since an endpoint is often mended soon.
    *_each(400, 401, 403, 404, 405, 415, verdict=Verdict.INDETERMINATE, row=14),
    *_each(408, 421, 425, verdict=Verdict.INDETERMINATE, row=20),
    StatusRule(
        first=410,
        last=410,
        verdict=Verdict.FAILURE_CONFIRMED,
        row=13,
        code=SettlementFailureCode.INVALID_BINDING,
        disables_endpoint=True,
    ),
    StatusRule(
        first=413,
        last=413,
        verdict=Verdict.FAILURE_CONFIRMED,
        row=15,
        code=SettlementFailureCode.INVALID_INPUT,
        verdict_with_retry_after=Verdict.INDETERMINATE,
    ),
    # It asks for patience and says nothing about the partner's health.
    StatusRule(first=429, last=429, verdict=Verdict.INDETERMINATE, row=16, counts_for_breaker=False),
    *_each(500, verdict=Verdict.INDETERMINATE, row=18),
    # Ambiguous: the origin behind the gateway may have acted. The same id makes the repeat safe.
    *_each(502, 504, verdict=Verdict.INDETERMINATE, row=19),
    *_each(503, verdict=Verdict.INDETERMINATE, row=17),
    _class(2, Verdict.SUCCESS_CONFIRMED, 7, SettlementFailureCode.BACKEND),
    # A redirect is never followed: its owner has to write the new address into the file.
    _class(3, Verdict.FAILURE_CONFIRMED, 21, SettlementFailureCode.INVALID_DISPATCH),
    _class(4, Verdict.INDETERMINATE, 14, SettlementFailureCode.BACKEND),
    _class(5, Verdict.INDETERMINATE, 18, SettlementFailureCode.BACKEND),
)

PHASE_RULES: Final = {
    Phase.POLICY: PhaseRule(
        verdict=Verdict.FAILURE_CONFIRMED, row=22, code=SettlementFailureCode.INVALID_DISPATCH, not_sent=True
    ),
    Phase.DNS: PhaseRule(verdict=Verdict.INDETERMINATE, row=23, not_sent=True),
    Phase.CONNECT: PhaseRule(verdict=Verdict.INDETERMINATE, row=23, not_sent=True),
    Phase.TLS: PhaseRule(verdict=Verdict.INDETERMINATE, row=23, not_sent=True),
    Phase.SENDING: PhaseRule(verdict=Verdict.INDETERMINATE, row=26, not_sent=True),
    Phase.SENT: PhaseRule(verdict=Verdict.INDETERMINATE, row=25),
}
