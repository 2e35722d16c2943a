"""Whether a partner that is down, with many deliveries waiting for it, slows the deliveries of another."""

import contextlib
import socket
from collections.abc import Iterator
from typing import Final

from benchmarks import arithmetic, partners, runs
from benchmarks.bench import Bench, Scenario
from benchmarks.contenders import Contender
from benchmarks.figures import Findings, Goal, Table
from benchmarks.fleet import Fleet
from benchmarks.partners import Receiver

_PROCESSES: Final = 2
_RATE_PER_S: Final = 50
_PERCENT: Final = 95
_ALONE: Final = "alone"
_BESIDE: Final = "beside a partner that is down"
_LIMIT: Final = 1.1


def _run(bench: Bench) -> Findings:
    found: dict[str, list[float]] = {_ALONE: [], _BESIDE: []}
    with partners.receiver(bench) as receiver, _closed_port() as port:
        urls = {"live": receiver.url, "dead": f"http://127.0.0.1:{port}/hook"}
        live = partners.own(bench.folder_for("live"), urls, "live")
        dead = partners.own(bench.folder_for("dead"), urls, "dead")
        for order in arithmetic.alternating((_ALONE, _BESIDE), bench.scale.rounds):
            for case in order:
                waiting = bench.scale.waiting_deliveries if case == _BESIDE else 0
                found[case].append(_p95_ms(bench, live, dead, receiver, waiting))
                bench.say(f"{case}: p{_PERCENT} {found[case][-1]:.1f} ms")
    medians = {case: arithmetic.median(each) for case, each in found.items()}
    slower = arithmetic.ratio(medians[_BESIDE], medians[_ALONE])
    table = Table.of(
        f"Milliseconds to a live partner at {_RATE_PER_S} deliveries/s, {bench.scale.waiting_deliveries:,} waiting",
        ("case", f"p{_PERCENT}"),
        list(medians.items()),
    )
    goal = Goal.at_most("p95 of a partner beside one that is down", _LIMIT, "x that alone", slower)
    return Findings(tables=(table,), goals=(goal,))


def _p95_ms(bench: Bench, live: Contender, dead: Contender, receiver: Receiver, waiting: int) -> float:
    bench.renew()
    folder = bench.folder_for(live.name)
    if waiting:
        runs.enqueue(bench, dead, waiting, folder)
    with Fleet(live.launch(_PROCESSES, bench.address, folder)) as fleet:
        receiver.forget()
        runs.enqueue(bench, live, _RATE_PER_S, folder)
        bench.wait_for(receiver.received, _RATE_PER_S, "the first deliveries arrive", fleet)
        receiver.forget()
        count = _RATE_PER_S * bench.scale.paced_s
        runs.enqueue(bench, live, count, folder, _RATE_PER_S)
        bench.wait_for(receiver.received, count, "deliveries arrive", fleet)
        return arithmetic.percentile(receiver.latencies_ms(), _PERCENT)


@contextlib.contextmanager
def _closed_port() -> Iterator[int]:
    """Hold a port on which nobody listens, so that nobody else comes to listen there."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        port: int = holder.getsockname()[1]
        yield port


SCENARIO: Final = Scenario(
    name="isolation",
    title="A partner that is down",
    question="Whether thousands of deliveries that wait for a partner that is down slow those to another partner.",
    run=_run,
)
