"""How each partner is doing in the whole fleet: its circuit, and what holds its deliveries back. Reads only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from rich.table import Table

from reliability.circuit import CircuitState, Closed, HalfOpen, Open
from storage.bundle import Storage
from storage.gates import GateWait, HeldBy
from tasks.partners import PartnerDirectory
from worker.cli import output, rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Hold one partner's state."""

    partner_id: str
    circuit: CircuitState
    held: GateWait | None

    def to_json(self) -> dict[str, object]:
        """Return one member of the document."""
        return {
            "partner_id": self.partner_id,
            "circuit": circuit_name(self.circuit),
            "failures_in_a_row": self.circuit.consecutive_failures if isinstance(self.circuit, Closed) else None,
            "opened_at": None if isinstance(self.circuit, Closed) else rows.instant(self.circuit.opened_at_ms),
            "held_back_by": self.held and self.held.why.value,
            # A stop ends when somebody ends it.
            "held_back_ms": self.held.wait_ms if self.held and self.held.why is HeldBy.SLOWED else None,
        }


def of_all(storage: Storage, directory: PartnerDirectory) -> list[Standing]:
    """
    Look at every partner of the file.

    Raises:
        StorageUnavailableError: The store did not answer.

    """
    return [
        Standing(
            partner_id=partner_id,
            circuit=storage.circuits.load(partner_id),
            held=storage.gates.held_by(partner_id, partner.terms.limits.gate.endpoint),
        )
        for partner_id, partner in directory.partners.items()
    ]


def circuit_name(state: CircuitState) -> str:
    """Name a circuit's state."""
    match state:
        case Closed():
            return "closed"
        case Open():
            return "open"
        case HalfOpen():
            return "half open"
        case _:
            assert_never(state)


def table(found: Sequence[Standing]) -> Table:
    """Return what a person reads."""
    columns = ("partner_id", "circuit", "failures_in_a_row", "opened_at", "held_back_by", "held_back_ms")
    documents = [standing.to_json() for standing in found]
    return output.table("Partners", columns, [[document[column] for column in columns] for document in documents])
