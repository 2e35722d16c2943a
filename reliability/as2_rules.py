"""
Decide what an AS2 exchange means: the HTTP answer, the disposition of its receipt (MDN) and the MIC (RFC 4130).

Pure, for an AS2 hook that parses the receipt and checks its signature. HTTP only tells that the transfer worked: even
an error comes with status 200, so the receipt decides.
"""

import re
from dataclasses import dataclass, replace
from enum import StrEnum, auto
from typing import Final, Self

from reliability import partner_rules
from reliability.delivery import (
    AcceptedPendingVerification,
    DeliveryOutcome,
    FailureConfirmed,
    Indeterminate,
    SuccessConfirmed,
)
from reliability.exchange import Exchange
from reliability.failures import SettlementFailureCode, SettlementFailureReason
from reliability.partner_rules import PartnerRules
from reliability.status_rules import StatusRule, Verdict

#: A repeat of ours that the partner had already: the delivery is done.
DUPLICATE_DOCUMENT: Final = "duplicate-document"
#: Statuses that say our agreement is wrong; they are not transient, so nothing is sent again (RFC 4130, 5.4).
NOT_TRANSIENT: Final = (400, 401, 403, 404, 405, 415)
#: `action-mode/sending-mode; type/modifier: text`, the modifier and its text being optional.
_DISPOSITION: Final = re.compile(
    r"\s*[\w-]+/[\w-]+\s*;\s*(?P<type>processed|failed|displayed)"
    r"(\s*/\s*(?P<modifier>error|warning|failure)\s*(:\s*(?P<text>.*?))?)?\s*",
    re.IGNORECASE | re.ASCII | re.DOTALL,
)
_RULES: Final = PartnerRules(
    status_rules=tuple(
        StatusRule(
            first=status,
            last=status,
            verdict=Verdict.FAILURE_CONFIRMED,
            row=14,
            code=SettlementFailureCode.INVALID_BINDING,
        )
        for status in NOT_TRANSIENT
    )
)


class ReceiptMode(StrEnum):
    """Name how the receipt was asked for."""

    #: In the answer to the request.
    SYNCHRONOUS = auto()
    #: In a request of the partner's own, later.
    ASYNCHRONOUS = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Disposition:
    """Hold a receipt's disposition: `processed`, or `failed`, with what qualifies it."""

    type: str
    modifier: str = ""
    text: str = ""

    @classmethod
    def parse(cls, value: str) -> Self | None:
        """Read the Disposition field; None if it does not follow the grammar (RFC 4130, 7.4.3)."""
        found = _DISPOSITION.fullmatch(value)
        if not found:
            return None
        parts = (found["type"], found["modifier"] or "", found["text"] or "")
        kind, modifier, text = (part.strip().lower() for part in parts)
        return cls(type=kind, modifier=modifier, text=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Hold what a parsed receipt says. A receipt that was not signed as asked must not be made into one."""

    disposition: Disposition
    #: The partner's MIC equals ours; None where the receipt has none.
    mic_matches: bool | None


def as2_outcome(mode: ReceiptMode, exchange: Exchange, receipt: Receipt | None) -> DeliveryOutcome:
    """Return what the exchange means; `receipt` is None where none came, or none that can be trusted."""
    if not exchange.is_success:
        return partner_rules.decide(_RULES, exchange)
    if mode is ReceiptMode.ASYNCHRONOUS:
        return AcceptedPendingVerification(rule="as2.asynchronous")
    if receipt is None:
        return _unknown("as2.receipt.missing")
    outcome = receipt_outcome(receipt)
    if isinstance(outcome, SuccessConfirmed):
        return replace(outcome, evidence_sha256=exchange.body_sha256)
    return outcome


def receipt_outcome(receipt: Receipt) -> DeliveryOutcome:
    """Return what a receipt means, whichever way it came."""
    disposition = receipt.disposition
    match disposition.type, disposition.modifier:
        case "failed", _:
            return _failed("as2.failed", SettlementFailureCode.UNSUPPORTED, disposition)
        case "processed", "error" | "failure":
            return _failed("as2.processed.error", SettlementFailureCode.VERIFICATION, disposition)
        case "processed", "warning" if disposition.text == DUPLICATE_DOCUMENT:
            return SuccessConfirmed(rule="as2.processed.duplicate_document")
        case "processed", "" | "warning":
            return _by_mic(receipt)
        case _:
            return _unknown("as2.receipt.unreadable")


def _by_mic(receipt: Receipt) -> DeliveryOutcome:
    match receipt.mic_matches:
        case True:
            return SuccessConfirmed(rule="as2.processed")
        case False:
            return _failed("as2.mic_mismatch", SettlementFailureCode.VERIFICATION, receipt.disposition)
        case None:
            return _unknown("as2.receipt.without_mic")


def _failed(rule: str, code: SettlementFailureCode, disposition: Disposition) -> FailureConfirmed:
    detail = f"{disposition.type}/{disposition.modifier}: {disposition.text}"
    return FailureConfirmed(reason=SettlementFailureReason.from_detail(code, detail), rule=rule)


def _unknown(rule: str) -> Indeterminate:
    return Indeterminate(reason=SettlementFailureReason.from_detail(SettlementFailureCode.BACKEND, rule), rule=rule)
