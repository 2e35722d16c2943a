"""The demo's view of the ledger: the newest line that a running `chio-worker status --watch --json` wrote."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from reliability.errors import ChioError
from worker.demo import stack
from worker.demo.processes import Child, Processes

#: Pause between two looks, in seconds.
_INTERVAL_S = "0.25"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Hold what `status` counted at one instant."""

    #: Of settlements.
    counts: Mapping[str, int]
    in_flight_by_state: Mapping[str, int]
    deliveries: Mapping[str, int]
    deliveries_by_state: Mapping[str, int]
    is_balanced: bool

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Read one document of `status --json`."""
        document = json.loads(line)
        settlement, delivery = document["kinds"]["settlement"], document["kinds"]["delivery"]
        return cls(
            counts=_numbers(settlement),
            in_flight_by_state=settlement["in_flight_by_state"],
            deliveries=_numbers(delivery),
            deliveries_by_state=delivery["in_flight_by_state"],
            is_balanced=document["balanced"],
        )

    @property
    def ended(self) -> int:
        """Count the settlements that have ended one way or the other."""
        return self.counts["admitted"] - self.counts["in_flight"]


class Looks:
    """Follow the counts while the demo runs."""

    def __init__(self, processes: Processes) -> None:
        arguments = stack.command("status", "--watch", "--json", "--interval-s", _INTERVAL_S)
        self._child: Child = processes.start("status", arguments)
        processes.wait_until(self._lines, "the ledger is counted", stack.READY_LIMIT_S)

    def newest(self) -> Look:
        """
        Return the newest look.

        Raises:
            ChioError: The ledger's numbers did not add up, at any instant.

        """
        look = Look.from_json(self._lines()[-1])
        if not look.is_balanced:
            raise ChioError(f"the ledger's numbers do not add up: {dict(look.counts)}, {dict(look.deliveries)}")
        return look

    def _lines(self) -> list[str]:
        """Return the whole documents written so far; the last line may be half there."""
        whole, _, _ = self._child.written().rpartition("\n")
        return [line for line in whole.splitlines() if line.startswith("{")]


def _numbers(kind: Mapping[str, object]) -> dict[str, int]:
    return {name: number for name, number in kind.items() if type(number) is int}
