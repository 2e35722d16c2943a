"""
How long a job waits whose only worker is killed while another one starts: `python -m tests.chaos.recovery`.

Each round kills a worker with all its processes while a hook runs, starts another one at that instant, and measures
until the rail is asked again: lease, pump, the failed attempt's backoff and the new worker's start included. The
promise is the lease and two seconds. Exit code 0: every round kept it, and each job had one effect.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from tests.support import fleet as fleets
from tests.support import rabbit, servers
from tests.support.fleet import Fleet
from tests.support.rail import scripted
from tests.support.worker_process import WorkerProcess, poll
from worker.settings import Settings, env_name

#: What a recovery may take beyond the lease, in seconds.
ALLOWANCE_S: Final = 2.0
#: A rail that hangs when it is asked first, and settles when it is asked again.
_SCRIPT: Final = scripted({"hang-once": ["hang", "ok"]})
#: Times that a deployment with the default lease has; a hook may hang for long.
_DEFAULTS: Final = (
    *("lease_ms", "soft_time_limit_s", "hard_time_limit_s", "max_hop_s", "visibility_timeout_s", "restore_interval_s"),
    *("pump_period_ms", "mark_period_ms", "lost_message_slack_ms", "settlement_initial_backoff_ms"),
)
_SLOW_RAIL: Final[Mapping[str, str]] = {"CHIO_RAIL_DEADLINE_S": "25"}
_LIMIT_S: Final = 90.0
_POLL_S: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Hold one round's figures, in seconds since the kill."""

    asked_again_s: float
    #: When the new worker could take jobs.
    ready_s: float
    #: What its start took of a processor: on a busy machine much less than the time it took.
    start_cpu_s: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print one line of a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.recovery", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--broker", choices=["redis", "rabbitmq"], default="redis")
    parser.add_argument("--pool", choices=["prefork", "threads"], default="prefork")
    parser.add_argument("--default-times", action="store_true", help="not the tests' short times")
    given = parser.parse_args(arguments)
    settings = _default_times() if given.default_times else {}
    lease_s = int(settings.get("CHIO_LEASE_MS", fleets.SHORT["CHIO_LEASE_MS"])) / 1000
    with _fleet(given.broker, settings) as fleet:
        rounds = [measure(fleet, given.pool, f"recovery-{number}") for number in range(given.rounds)]
    sys.stdout.write(f"{_line(given.broker, given.pool, lease_s, rounds)}\n")
    return 0 if all(each.asked_again_s <= lease_s + ALLOWANCE_S for each in rounds) else 1


def measure(fleet: Fleet, pool: str, receipt: str) -> Round:
    """Kill the only worker while a hook of it runs, start another, and return when what happened."""
    first = fleet.worker(pool=pool).wait_until_ready()
    fleet.enqueue(receipt, tool="hang-once")
    poll(lambda: fleet.requests(receipt) == 1, fleets.LIMIT_S, "the hook to run")

    first.kill_session()
    killed_at_s = time.monotonic()
    second = fleet.worker(pool=pool)

    ready_s = asked_again_s = 0.0
    while not (ready_s and asked_again_s):
        assert time.monotonic() - killed_at_s < _LIMIT_S, f"waited {_LIMIT_S} s for {receipt} to be asked for again"
        asked_again_s = asked_again_s or (fleet.requests(receipt) == 2) * (time.monotonic() - killed_at_s)
        ready_s = ready_s or fleets.is_ready(second) * (time.monotonic() - killed_at_s)
        time.sleep(_POLL_S)
    start_cpu_s = _cpu_s(second)
    fleet.wait_until_ended(receipt)
    assert (fleet.requests(receipt), fleet.effects(receipt)) == (2, 1), f"{receipt} was not done once"
    second.kill_session()
    return Round(asked_again_s=asked_again_s, ready_s=ready_s, start_cpu_s=start_cpu_s)


def _cpu_s(worker: WorkerProcess) -> float:
    times = [psutil.Process(pid).cpu_times() for pid in (worker.pid, *worker.children())]
    return float(sum(each.user + each.system for each in times))


@contextmanager
def _fleet(broker: str, settings: Mapping[str, str]) -> Iterator[Fleet]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chio-recovery-")))
        redis, broker_url = stack.enter_context(servers.RedisServer(directory / "redis")), None
        if broker == "rabbitmq":
            broker_url = stack.enter_context(rabbit.RabbitServer(directory / "rabbitmq")).url
        deployment = fleets.running(directory, redis.url, broker_url=broker_url, script=_SCRIPT, settings=settings)
        yield stack.enter_context(deployment)


def _default_times() -> dict[str, str]:
    return {env_name(name): str(Settings.model_fields[name].default) for name in _DEFAULTS} | dict(_SLOW_RAIL)


def _line(broker: str, pool: str, lease_s: float, rounds: Sequence[Round]) -> str:
    asked, ready = [each.asked_again_s for each in rounds], [each.ready_s for each in rounds]
    cells = (
        *(broker, pool, f"{lease_s:g} s", len(rounds)),
        *(f"{statistics.median(asked):.1f} s", f"{max(asked):.1f} s", f"{lease_s + ALLOWANCE_S:g} s"),
        *(f"{statistics.median(ready):.1f} s", f"{statistics.median(each.start_cpu_s for each in rounds):.1f} s"),
    )
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    sys.exit(main())
