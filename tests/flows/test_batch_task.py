"""The shell of a batch: what it refuses, what it publishes, and when its message comes again."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from reliability.errors import StorageUnavailableError
from reliability.outcomes import Accepted
from storage.jobs import JobState
from tasks import raw_message, send_delivery
from tasks.send_deliveries import SendDeliveries
from tests.support import builders
from tests.support.batches import BOX_MS, BUSY, WRONG, Hook, ManyHook, answering, names
from tests.support.shells import Shell

MakeShell = Callable[[Hook], Shell]


@pytest.fixture
def make_shell(monkeypatch: pytest.MonkeyPatch) -> MakeShell:
    """Return what makes a shell around a hook."""
    return lambda hook: Shell(hook, monkeypatch)


def test_a_batch_settles_and_sends_nothing(make_shell: MakeShell) -> None:
    """Jobs that end well need no message."""
    shell = make_shell(Hook())
    shell.bench.admit("a", "b")

    shell.run(["a", 0], ["b", 0])

    assert (shell.bench.settled(), shell.sent, shell.quarantine.entries) == (2, [], [])


@pytest.mark.parametrize(
    "kwargs, field",
    [
        ({}, "jobs"),
        ({"jobs": None}, "jobs"),
        ({"jobs": {"a": 0}}, "jobs"),
        ({"jobs": "ab"}, "jobs"),
        ({"jobs": []}, "jobs"),
        ({"jobs": [["a", 0]] * 1_001}, "jobs"),
        ({"jobs": [["a", 0]], "more": 1}, "more"),
        ({"job_id": "a", "attempt": 0}, "attempt"),
    ],
)
def test_a_message_that_is_no_batch_is_quarantined_whole(
    make_shell: MakeShell, kwargs: dict[str, Any], field: str
) -> None:
    """Its arguments are kept with the field that is wrong; nothing is claimed."""
    shell = make_shell(hook := Hook())
    shell.bench.admit("a")

    shell.run_with(kwargs)

    ((raw, queue, reason),) = shell.quarantine.entries
    assert (raw_message.arguments_of(raw), queue, reason) == (kwargs, "settlement", f"invalid_message:{field}")
    assert hook.asked == []


@pytest.mark.parametrize(
    "pair", ["x", [], ["b"], ["b", 0, 0], ["b", "0"], ["b", True], ["b", -1], ["", 0], [7, 0], None]
)
def test_a_pair_that_is_none_is_quarantined_alone(make_shell: MakeShell, pair: object) -> None:
    """It costs no other pair of the message anything."""
    shell = make_shell(Hook())
    shell.bench.admit("a", "c")

    shell.run(["a", 0], pair, ["c", 0])

    ((raw, _, reason),) = shell.quarantine.entries
    assert (raw_message.arguments_of(raw), reason) == ({"jobs": [pair]}, "invalid_message:jobs")
    assert shell.bench.settled() == 2


def test_a_quarantine_that_is_down_brings_the_message_back(make_shell: MakeShell) -> None:
    """What cannot be kept is not dropped: the whole message comes again, and nothing was claimed."""
    shell = make_shell(hook := Hook())
    shell.bench.admit("a")
    shell.quarantine.is_down = True

    assert shell.comes_back(["a", 0], "x") == ([["a", 0], "x"], 5.0)
    assert hook.asked == []


def test_an_unreachable_ledger_brings_back_what_was_not_claimed(make_shell: MakeShell) -> None:
    """The message comes again in five seconds with all of its jobs, with no attempt spent."""
    shell = make_shell(hook := Hook())
    shell.bench.admit("a", "b")
    unreachable: Any = Unreachable()
    shell.runtime = dataclasses.replace(
        shell.runtime, storage=dataclasses.replace(shell.bench.storage, jobs=unreachable)
    )

    assert shell.comes_back(["a", 0], ["b", 0]) == ([["a", 0], ["b", 0]], 5.0)
    assert hook.asked == []


class Unreachable:
    """Answer nothing."""

    def __getattr__(self, name: str) -> Any:
        """Raise for any operation."""
        raise StorageUnavailableError(name, "a batch")


def test_what_did_not_fit_in_time_comes_again_at_once(make_shell: MakeShell) -> None:
    """The batch's own message is sent again for the jobs that were not begun."""

    def slow(found: Any) -> list[Accepted]:
        shell.bench.ticks.advance(BOX_MS)
        return [Accepted()] * len(found)

    shell = make_shell(ManyHook(many=slow))
    wanted = shell.bench.admit(*names(20))

    left, when = shell.comes_back(*map(list, wanted))

    assert shell.bench.settled() == 16
    assert (left, when) == ([[name, 0] for name in names(20)[16:]], 0)


def test_retries_of_a_batch_travel_together(make_shell: MakeShell) -> None:
    """Jobs that are due again at the same time share a message with the policy's countdown."""
    shell = make_shell(Hook(answering(a=BUSY, c=BUSY)))
    shell.bench.admit("a", "b", "c")

    shell.run(["a", 0], ["b", 0], ["c", 0])

    assert shell.sent == [("chio.settle.observe_many", {"jobs": [["a", 1], ["c", 1]]}, 0.1)]


def test_a_retry_alone_is_a_message_of_its_own(make_shell: MakeShell) -> None:
    """One job that fails goes on as a single attempt."""
    shell = make_shell(Hook(answering(a=BUSY)))
    shell.bench.admit("a", "b")

    shell.run(["a", 0], ["b", 0])

    assert shell.sent == [("chio.settle.observe", {"job_id": "a", "attempt": 1}, 0.1)]


def test_a_retry_that_cannot_be_sent_is_owed(make_shell: MakeShell) -> None:
    """The broker is down: the batch ends all the same, and the row says what is owed."""
    shell = make_shell(Hook(answering(a=BUSY)))
    shell.bench.admit("a", "b")
    shell.broker_is_down = True

    shell.run(["a", 0], ["b", 0])

    assert shell.bench.row("a").state is JobState.OUTSTANDING
    assert shell.bench.row("a").attempt == 1


def test_dead_letters_of_a_batch_are_fed(make_shell: MakeShell) -> None:
    """Each dead letter is sent to the feed, and noted as sent."""
    shell = make_shell(Hook(answering(a=WRONG, b=WRONG)))
    shell.bench.admit("a", "b")

    shell.run(["a", 0], ["b", 0])

    assert shell.bench.storage.dead_letters.count() == 2
    assert shell.bench.storage.dead_letters.unpublished_count() == 0


def test_an_attempt_that_raises_past_its_flow_fails_the_task_after_the_rest_was_given_away(
    make_shell: MakeShell,
) -> None:
    """What was not begun is sent on, then the task tells what happened."""

    def end() -> object:
        shell.bench.ticks.advance(BOX_MS)
        raise SystemExit(3)

    shell = make_shell(Hook({"rcpt-0000": end}))
    wanted = shell.bench.admit(*names(20))

    with pytest.raises(SystemExit):
        shell.run(*map(list, wanted))

    assert ("chio.settle.observe_many", {"jobs": [[name, 0] for name in names(20)[16:]]}, None) in shell.sent


def test_deliveries_wait_for_a_worker_that_knows_the_partners(make_shell: MakeShell) -> None:
    """A worker without partners gives a batch of deliveries back for a minute, with no attempt spent."""
    shell = make_shell(Hook())
    jobs = [builders.delivery_job(message_id=f"msg-{number}") for number in range(2)]
    shell.bench.storage.jobs.admit_many(jobs)
    task = shell.app.register_task(SendDeliveries(lambda: shell.runtime))

    shell.run(*([job.job_id, 0] for job in jobs), task=task)

    ((name, kwargs, countdown),) = shell.sent
    assert (name, countdown) == ("chio.deliver.send_many", send_delivery.NO_PARTNERS_DELAY_MS / 1000)
    assert kwargs == {"jobs": [[job.job_id, 0] for job in jobs]}
