"""Partners that this project's workers deliver to in a benchmark, and the receiver behind them."""

import contextlib
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import contenders, effects
from benchmarks.bench import Bench
from benchmarks.contenders import Contender
from benchmarks.fleet import Fleet, Launch
from storage.jobs import FinishedAs, JobKind

#: The variable that holds every partner's secret.
_SECRET_VARIABLE: Final = "BENCHMARK_SECRET"  # noqa: S105  # the name of a variable
_SECRET: Final = "whsec_YmVuY2htYXJrLXNlY3JldC1vZi1ubyB1c2U="  # noqa: S105  # known to everybody
_ADDRESS_LINE: Final = "listens on "


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """Hold where webhooks go."""

    port: int

    @property
    def url(self) -> str:
        """Return where to post to."""
        return f"http://127.0.0.1:{self.port}/hook"

    def received(self) -> int:
        """Return how many came since it was told to forget."""
        return int(self._ask("count"))

    def latencies_ms(self) -> list[float]:
        """Return how long after it was sent each came."""
        told: list[float] = json.loads(self._ask("latencies"))
        return told

    def forget(self) -> None:
        """Count from none again."""
        self._ask("forget")

    def _ask(self, what: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{what}", timeout=10) as answer:
            told: bytes = answer.read()
        return told


@contextlib.contextmanager
def receiver(bench: Bench) -> Iterator[Receiver]:
    """Run a receiver in a process of its own."""
    folder = bench.folder_for("receiver")
    launch = Launch(
        commands=[contenders.own_command("benchmarks.receiver")],
        environment=contenders.CHIO.environment_in(bench.address, folder),
        folder=folder,
    )
    log = folder / "0.log"
    with Fleet(launch) as fleet:
        bench.wait_for(lambda: log.read_text().count(_ADDRESS_LINE), 1, "the receiver listens", fleet)
        yield Receiver(port=int(log.read_text().partition(_ADDRESS_LINE)[2].split()[0]))


def own(folder: Path, urls: dict[str, str], to: str) -> Contender:
    """Return this project with partners at these addresses, whose producer sends to one of them."""
    path = folder / "partners.toml"
    path.write_text("\n".join(_partner(name, url) for name, url in urls.items()), encoding="utf-8")
    return Contender(
        name=contenders.CHIO.name,
        workers=contenders.CHIO.workers,
        producer=("-m", "benchmarks.delivery_producer"),
        finished=contenders.in_ledger(JobKind.DELIVERY, FinishedAs.CONFIRMED),
        environment={
            "CHIO_SETTLEMENT_HOOK": "tasks.hooks.noop:NoopSettlementHook",
            "CHIO_PARTNERS_FILE": str(path),
            effects.PARTNER_VARIABLE: to,
            _SECRET_VARIABLE: _SECRET,
        },
    )


def _partner(name: str, url: str) -> str:
    return f"""
[partners.{name}]
url = "{url}"
secrets = ["env:{_SECRET_VARIABLE}"]
deadline_s = 5
allow_private_networks = ["127.0.0.0/8"]
"""
