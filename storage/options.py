"""The numbers of the stores that settings may change; both back ends take the same ones."""

from dataclasses import dataclass, fields
from datetime import timedelta

from reliability.errors import InvalidInputError

#: How long a dedup key is remembered unless told otherwise.
DEFAULT_DEDUP_TTL = timedelta(hours=48)
#: How long after it was stored a dead letter is left to the worker that stored it to publish, in milliseconds.
PUBLICATION_GRACE_MS = 5_000
#: Longest expiry a store is asked for, ten years, in seconds.
_LONGEST_TTL_S = 315_360_000
#: No wait, and a queue that takes nothing.
_MAY_BE_ZERO = frozenset({"waitaof_ms", "reconciliation_capacity"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerOptions:
    """
    Hold what the ledger needs to know beside its content.

    Raises:
        InvalidInputError: A number is out of range.

    """

    #: How long an ended job's id stays known, in seconds; longer than any retry envelope should run.
    dedup_ttl_s: int = 172_800
    #: How far a queue's watermark has to be past a message before it counts as lost, in milliseconds.
    lost_message_slack_ms: int = 2_000
    #: How long `admit` waits for the append-only file to be on disk, in milliseconds; 0 does not wait.
    waitaof_ms: int = 0
    #: Most entries the reconciliation queue holds; past it new ones are refused.
    reconciliation_capacity: int = 1_000_000
    #: How long a resolved reconciliation key is remembered, in seconds.
    resolved_ttl_s: int = 604_800

    def __post_init__(self) -> None:
        for field in fields(self):
            least = 0 if field.name in _MAY_BE_ZERO else 1
            value = getattr(self, field.name)
            if not least <= value <= _LONGEST_TTL_S:
                raise InvalidInputError(field.name, f"expected {least} to {_LONGEST_TTL_S}, got: {value}")
