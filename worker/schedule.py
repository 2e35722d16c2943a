"""
What beat sends and how often. Every entry is level-triggered: it does all that is overdue, whichever tick it is.

So a missed tick costs one period and two beats cost one empty sweep. A tick that waited longer than its period expires.
"""

from typing import Any, Final

from tasks import names, publishing
from worker.settings import Settings

#: Longest pause of beat between two looks at its schedule, in seconds.
_LONGEST_PAUSE_S: Final = 30


def beat_schedule(settings: Settings) -> dict[str, Any]:
    """Return beat's entries."""
    period_s = settings.escalation_period_s
    return {
        "escalate-stale-entries": {
            "task": names.ESCALATE_RECONCILIATION,
            "schedule": float(period_s),
            "options": {"queue": names.HOUSEKEEPING_QUEUE, "expires": float(period_s), **publishing.NO_LIMITS},
        }
    }


def max_loop_interval_s(settings: Settings) -> int:
    """Return how long beat may pause: no longer than its shortest period."""
    return min(_LONGEST_PAUSE_S, settings.escalation_period_s)
