"""
How each fault is carried out. A target that is in trouble already is left alone: that is told, and counted by the run.

Each returns when what it did is over, so those that take a server away run in threads of their own.
"""

import os
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Final, assert_never

import redis
from kombu.entity import Queue
from kombu.exceptions import OperationalError

from tasks import names
from tests.chaos.plan import Fault, Planned
from tests.chaos.site import Site, Slot, thaw
from tests.chaos.watch import Watch
from tests.support import poison
from tests.support.rabbit import RabbitServer
from tests.support.servers import RedisServer
from worker import routing

#: How many poisonous messages one fault sends.
_POISON_AT_ONCE: Final = 3


class Armoury:
    """Carry faults out on one site."""

    def __init__(self, site: Site, watch: Watch) -> None:
        self._site = site
        self._watch = watch
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self.done: dict[Fault, int] = defaultdict(int)
        self.skipped = 0
        self.poisoned: list[bytes] = []

    def strike(self, planned: Planned) -> None:
        """Carry the fault out unless its target is in trouble already."""
        with self._locks[self._target(planned)] as _:
            self._carry_out(planned)
            self.done[planned.fault] += 1

    def is_busy(self, planned: Planned) -> bool:
        """Tell whether the target is in trouble already."""
        return self._locks[self._target(planned)].locked()

    def _target(self, planned: Planned) -> str:
        fault = planned.fault.value
        if fault.endswith("_broker") and self._site.is_apart:
            return "broker"
        if fault.endswith(("_ledger", "_broker")):
            return "ledger"
        return "workers"

    def _carry_out(self, planned: Planned) -> None:  # noqa: C901, PLR0912  # a table
        site, hold_s = self._site, planned.hold_s
        match planned.fault:
            case Fault.KILL_WORKER:
                self._kill_worker(self._slot(planned))
            case Fault.KILL_MAIN:
                self._kill_main(self._slot(planned))
            case Fault.KILL_CHILD:
                self._kill_child(self._slot(planned), planned.pick)
            case Fault.KILL_AT_POINT:
                site.orders.give(planned.point, whole_worker=planned.pick % 4 == 0)
            case Fault.TERM_WORKER:
                self._term_worker(self._slot(planned))
            case Fault.FREEZE_WORKER:
                self._freeze_worker(self._slot(planned), hold_s)
            case Fault.KILL_BEAT:
                site.beat.kill() if site.beat else None
            case Fault.KILL_LEDGER:
                self._away(site.ledger, site.ledger.kill, hold_s)
            case Fault.RESTART_LEDGER:
                self._away(site.ledger, site.ledger.stop, hold_s)
            case Fault.FREEZE_LEDGER:
                self._freeze(site.ledger, hold_s)
            case Fault.FILL_LEDGER:
                self._fill(site.ledger, hold_s)
            case Fault.KILL_BROKER:
                self._away(site.broker, site.broker.kill, hold_s)
            case Fault.RESTART_BROKER:
                self._away(site.broker, site.broker.stop, hold_s)
            case Fault.FREEZE_BROKER:
                self._freeze(site.broker, hold_s)
            case Fault.CUT_CONNECTIONS:
                self._cut()
            case Fault.EMPTY_BROKER:
                self._empty()
            case Fault.POISON:
                self._poison(planned.pick)
            case _:
                assert_never(planned.fault)

    def _slot(self, planned: Planned) -> Slot:
        return self._site.slots[planned.pick % len(self._site.slots)]

    def _kill_worker(self, slot: Slot) -> None:
        with self._watch.kill_of(slot.worker):
            slot.worker.kill_session()

    def _kill_main(self, slot: Slot) -> None:
        slot.worker.kill_main()

    def _kill_child(self, slot: Slot, pick: int) -> None:
        children = slot.worker.children()
        if slot.pool != "prefork" or not children:
            return
        pid = children[pick % len(children)]
        with self._watch.kill_of_process(pid), suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def _term_worker(self, slot: Slot) -> None:
        slot.is_ending, slot.told_to_end_at_s = True, time.monotonic()
        with suppress(ProcessLookupError):
            slot.worker.terminate()

    def _freeze_worker(self, slot: Slot, hold_s: float) -> None:
        members = [slot.worker.pid, *slot.worker.children()]
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        time.sleep(hold_s)
        for pid in members:
            thaw(pid)

    def _away(self, server: RedisServer | RabbitServer, end: Callable[[], None], hold_s: float) -> None:
        with self._watch.outage():
            end()
            time.sleep(hold_s)
            server.start()

    def _freeze(self, server: RedisServer | RabbitServer, hold_s: float) -> None:
        with self._watch.outage():
            os.kill(server.pid, signal.SIGSTOP)
            time.sleep(hold_s)
            os.kill(server.pid, signal.SIGCONT)

    def _fill(self, server: RedisServer, hold_s: float) -> None:
        with self._watch.outage(), suppress(redis.RedisError), server.full():
            time.sleep(hold_s)

    def _cut(self) -> None:
        for server in {id(each): each for each in (self._site.ledger, self._site.broker)}.values():
            if isinstance(server, RedisServer):
                with server.client() as client, suppress(redis.RedisError):
                    client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                    client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")

    def _empty(self) -> None:
        broker = self._site.broker
        if isinstance(broker, RedisServer):
            with broker.client() as client, suppress(redis.RedisError):
                for key in client.scan_iter("chio:broker:*", count=1_000):
                    client.delete(key)
            return
        with suppress(OperationalError, OSError), self._site.operator.app.connection_for_write() as connection:
            for name in routing.QUEUES:
                Queue(name)(connection.default_channel).purge()

    def _poison(self, pick: int) -> None:
        elements = [raw for raw, _ in poison.POISON.values()]
        chosen = [elements[(pick + number) % len(elements)] for number in range(_POISON_AT_ONCE)]
        broker = self._site.broker
        if isinstance(broker, RedisServer):
            with broker.client() as client, suppress(redis.RedisError):
                client.lpush("chio:broker:settlement", *chosen)
                self.poisoned += chosen
            return
        with suppress(OperationalError, OSError), self._site.operator.app.connection_for_write() as connection:
            producer = connection.Producer()
            for raw in chosen:
                producer.publish(
                    raw,
                    exchange="",
                    routing_key=names.SETTLEMENT_QUEUE,
                    serializer=None,
                    content_type="application/json",
                    content_encoding="utf-8",
                )
                self.poisoned.append(raw)
