"""
The values that cross the gate's border: how a partner's traffic is bounded, and what holds a delivery back.

The back ends are `memory_gates` and `redis_gates`; `tasks.partner_gate` asks them.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

#: How long a delivery waits that found the partner's places taken, in ms.
FULL_WAIT_MS: Final = 250
#: Deliveries that were held back come again at this rate where no other is named, per second.
DEFAULT_RETURNS_PER_SECOND: Final = 50.0
#: How long a delivery waits whose partner wants no more; only an operator or a new address ends that, in ms.
STOPPED_WAIT_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLimits:
    """Bound one partner's traffic; None means no bound."""

    max_per_second: float | None = None
    max_concurrent: int | None = None
    #: How many that were held back come again in a second; None is the rate of the partner, or the default.
    max_returns_per_second: float | None = None
    #: A worker that died inside the gate stops counting after this, in ms; longer than the hook's time limit.
    entry_lease_ms: int = 60_000
    #: Names the address deliveries go to: a stop holds for the address that asked for it and for no other.
    endpoint: str = ""

    @property
    def rate_interval_ms(self) -> float:
        """Return the time between two deliveries at the full rate, 0 without a bound."""
        return 1_000 / self.max_per_second if self.max_per_second else 0.0

    @property
    def rate_slack_ms(self) -> float:
        """Return how far ahead of the steady rate a burst may run: one second's worth, less the one delivery."""
        return max(0.0, 1_000 - self.rate_interval_ms)

    @property
    def return_interval_ms(self) -> float:
        """Return the time between two deliveries that were held back: more at once would be held back again."""
        return 1_000 / (self.max_returns_per_second or self.max_per_second or DEFAULT_RETURNS_PER_SECOND)


class HeldBy(StrEnum):
    """Name what holds a delivery back."""

    #: The partner wants no more deliveries at this address.
    STOPPED = "partner stopped"
    #: The partner asked for patience.
    SLOWED = "partner slowed"
    FULL = "too many at once"
    RATE = "rate limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateWait:
    """Say what holds a delivery back and when to ask again."""

    why: HeldBy
    wait_ms: int
