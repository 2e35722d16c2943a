"""One run of the demo as a person starts it, and a look at what it leaves behind."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

from reliability.errors import InvalidInputError
from reliability.settlement import SettlementObservation

ROOT = Path(__file__).parents[2]
OBSERVATIONS = ROOT / "examples" / "observations.jsonl"
#: What `make demo` reads from the checkout, by the option that names it elsewhere.
FILES = {
    "--observations": "observations.jsonl",
    "--rail-script": "rail_script.json",
    "--deliveries": "deliveries.jsonl",
    "--partners": "demo_partners.toml",
    "--partner-script": "partner_script.json",
}
LIMIT_S = 170.0
_POLL_S = 0.1


def example_observations() -> Iterator[SettlementObservation]:
    """Yield the valid observations of the example file."""
    for line in OBSERVATIONS.read_bytes().splitlines():
        with suppress(InvalidInputError):
            yield SettlementObservation.from_json(line)


class DemoRun:
    """Run `python -m worker.demo` in a folder of its own; leaving the block ends it."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self._output = folder / "output.txt"
        files = [word for option, file in FILES.items() for word in (option, str(ROOT / "examples" / file))]
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "worker.demo", *files, *options],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def output(self) -> str:
        """Return everything it printed so far."""
        return self._output.read_text(errors="replace")

    @property
    def flower(self) -> str:
        """Return the address of Flower, as it was printed."""
        found = re.search(r"http://127\.0\.0\.1:\d+", self.output)
        assert found, self.output
        return found[0]

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait for something while the demo runs."""
        give_up_at = time.monotonic() + LIMIT_S
        while not condition():
            assert self._process.poll() is None, self.output
            assert time.monotonic() < give_up_at, self.output
            time.sleep(_POLL_S)

    def wait(self) -> int:
        """Wait until the demo ends and return its exit code."""
        return self._process.wait(LIMIT_S)

    def interrupt(self, number: signal.Signals) -> int:
        """Send the signal and return the exit code."""
        self._process.send_signal(number)
        return self.wait()

    def running(self) -> list[str]:
        """Name the programs of this demo that still run, whoever their parent is."""
        return running_in(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.interrupt(signal.SIGTERM)


def running_in(folder: Path) -> list[str]:
    """Name the programs whose data directory is this folder or in it."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            data_dir = Path(process.environ().get("CHIO_DATA_DIR", "/"))
            if data_dir.is_relative_to(folder.resolve()):
                found.append(" ".join(process.cmdline()))
    return sorted(found)
