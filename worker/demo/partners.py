"""
The demo's three partners, simulated on this host: one is down at first, one confirms late, one never confirms.

They know nothing of the ledger. What they logged is the account from outside that the demo compares with its counts.
"""

import base64
import json
import secrets
from pathlib import Path
from typing import Final

from reliability.delivery_request import delivery_job_id
from worker import ports
from worker.demo import stack
from worker.demo.processes import Processes
from worker.simulators import partner_log
from worker.simulators.effect_log import Tally

DOWN: Final = "harbour"
LATE: Final = "lantern"
SILENT: Final = "ember"

_SECRET: Final = "CHIO_SECRET_DEMO"  # noqa: S105  # the variable's name
_SECRET_BYTES: Final = 32
#: What the partner file says, and the demo replaces by the ports it got.
_DOWN_ADDRESS: Final = "127.0.0.1:8474"
_OTHER_ADDRESS: Final = "127.0.0.1:8475"


class Partners:
    """Run the partners of one demo, with programs that somebody else ends."""

    def __init__(self, processes: Processes, file: Path, script: Path) -> None:
        self._processes = processes
        self._file = file
        self._script = script
        self._down_port = ports.free_port()
        self._logs: list[Path] = []

    @property
    def receipts(self) -> Path:
        """Return the file that gets a line for each receipt."""
        return self._processes.folder / "receipts.jsonl"

    def start(self) -> None:
        """Start those that are up, and tell the programs that come later where all of them are."""
        key = base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode("ascii")
        self._processes.environment[_SECRET] = f"whsec_{key}"
        address = self._simulate("partners", 0)
        text = self._file.read_text(encoding="utf-8")
        text = text.replace(_DOWN_ADDRESS, f"127.0.0.1:{self._down_port}").replace(_OTHER_ADDRESS, address)
        copy = self._processes.folder / "partners.toml"
        copy.write_text(text, encoding="utf-8")
        self._processes.environment["CHIO_PARTNERS_FILE"] = str(copy)

    def come_back(self) -> None:
        """Start the one that was down."""
        self._simulate(DOWN, self._down_port)

    def tally(self) -> Tally:
        """Count what all of them logged."""
        return partner_log.tally(entry for log in self._logs for entry in partner_log.read(log))

    def confirmed(self) -> frozenset[str]:
        """Return the jobs that receipts were written for."""
        if not self.receipts.exists():
            return frozenset()
        whole, _, _ = self.receipts.read_text(encoding="utf-8").rpartition("\n")
        return frozenset(_job_of(line) for line in whole.splitlines())

    def _simulate(self, name: str, port: int) -> str:
        log = self._processes.folder / f"{name}-effects.jsonl"
        self._logs.append(log)
        return stack.start_partner(self._processes, name, port, self._script, log)


def _job_of(line: str) -> str:
    receipt = json.loads(json.loads(line)["body"])
    return delivery_job_id(receipt["partner_id"], receipt["message_id"])
