"""The shell of one attempt: what it claims, what it quarantines, and when its message comes again."""

from collections.abc import Callable

import pytest
from celery.exceptions import Retry

from reliability.errors import StorageUnavailableError
from storage.jobs import JobKind, JobState
from tasks import raw_message
from tasks.observe_settlement import ObserveSettlement
from tests.support import observations
from tests.support.batches import BUSY, WRONG, Hook, answering
from tests.support.shells import Shell

MakeShell = Callable[[Hook], Shell]


@pytest.fixture
def make_shell(monkeypatch: pytest.MonkeyPatch) -> MakeShell:
    """Return what makes a shell around a hook."""
    return lambda hook: Shell(hook, monkeypatch, ObserveSettlement)


def test_a_foreign_observation_is_admitted_and_settled(make_shell: MakeShell) -> None:
    """A whole observation needs no admission before: the same message admits and settles it."""
    shell = make_shell(hook := Hook())

    shell.run_with({"observation": observations.observation(receipt_id="a").to_wire()})

    assert (shell.bench.settled(), hook.asked) == (1, ["a"])


def test_the_same_foreign_observation_again_changes_nothing(make_shell: MakeShell) -> None:
    """The second message with the same bytes finds the receipt finished; the hook is not asked again."""
    shell = make_shell(hook := Hook())
    message = {"observation": observations.observation(receipt_id="a").to_wire()}
    shell.run_with(message)

    shell.run_with(message)

    assert (shell.bench.settled(), hook.asked) == (1, ["a"])


def test_a_foreign_observation_with_other_bytes_is_kept_for_a_person(make_shell: MakeShell) -> None:
    """Known id, other bytes: the hook is not asked, and the message is in quarantine as it came."""
    shell = make_shell(hook := Hook())
    shell.run_with({"observation": observations.observation(receipt_id="a").to_wire()})
    other = {"observation": observations.observation(receipt_id="a", tool_name="other").to_wire()}

    shell.run_with(other)

    ((raw, queue, reason),) = shell.quarantine.entries
    assert (raw_message.arguments_of(raw), queue, reason) == (other, "settlement", "invalid_message:conflict")
    assert hook.asked == ["a"]


@pytest.mark.parametrize(
    "kwargs, field",
    [
        ({}, "job_id"),
        ({"job_id": 7}, "job_id"),
        ({"job_id": "a", "attempt": -1}, "attempt"),
        ({"job_id": "a", "attempt": True}, "attempt"),
        ({"job_id": "a", "priority": 1}, "priority"),
        ({"observation": {}, "attempt": 0}, "attempt"),
        ({"observation": "text"}, "observation.observation"),
        ({"observation": {"schema": "chio.settle.observation.v9"}}, "observation.schema"),
    ],
)
def test_a_message_outside_the_contract_is_quarantined(
    make_shell: MakeShell, kwargs: dict[str, object], field: str
) -> None:
    """It is kept with the field that is wrong, in a form that can be published again; nothing is admitted."""
    shell = make_shell(hook := Hook())

    shell.run_with(kwargs)

    ((raw, queue, reason),) = shell.quarantine.entries
    assert (raw_message.arguments_of(raw), queue, reason) == (kwargs, "settlement", f"invalid_message:{field}")
    assert (hook.asked, shell.bench.storage.jobs.counts(JobKind.SETTLEMENT).admitted) == ([], 0)


def test_a_refused_message_comes_back_while_the_quarantine_is_down(make_shell: MakeShell) -> None:
    """What cannot be kept is not dropped: the message comes again with the same arguments."""
    shell = make_shell(Hook())
    shell.quarantine.is_down = True

    with pytest.raises(Retry) as found:
        shell.run_with({"job_id": 7})

    assert found.value.sig.kwargs == {"job_id": 7}


def test_a_retry_asks_for_the_next_attempt_on_the_policys_countdown(make_shell: MakeShell) -> None:
    """The ledger is written first; then the same task comes again as attempt 1 in 100 ms."""
    shell = make_shell(Hook(answering(a=BUSY)))
    shell.bench.admit("a")

    with pytest.raises(Retry) as found:
        shell.run_with({"job_id": "a", "attempt": 0})

    row = shell.bench.row("a")
    assert (found.value.sig.kwargs, found.value.when) == ({"job_id": "a", "attempt": 1}, 0.1)
    assert (row.state, row.attempt) == (JobState.OUTSTANDING, 1)


def test_a_stale_message_ends_quietly(make_shell: MakeShell) -> None:
    """A repeat of an attempt that was made finds nothing to claim and asks no hook."""
    shell = make_shell(hook := Hook())
    shell.bench.admit("a")
    shell.run_with({"job_id": "a", "attempt": 0})

    shell.run_with({"job_id": "a", "attempt": 0})

    assert (hook.asked, shell.quarantine.entries) == (["a"], [])


def test_a_permanent_failure_is_stored_although_the_broker_is_down(make_shell: MakeShell) -> None:
    """The dead letter is in the store by the script that ended the job; its publication stays owed."""
    shell = make_shell(Hook(answering(a=WRONG)))
    shell.bench.admit("a")
    shell.broker_is_down = True

    shell.run_with({"job_id": "a", "attempt": 0})

    dead_letters = shell.bench.storage.dead_letters
    assert dead_letters.get("a") is not None
    assert shell.bench.row_is_gone("a")


def test_an_unreachable_ledger_spends_no_attempt(make_shell: MakeShell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is assumed: the message comes again in five seconds with what it said."""
    shell = make_shell(hook := Hook())
    shell.bench.admit("a")

    def claim(*_: object) -> None:
        raise StorageUnavailableError("claim", "a")

    monkeypatch.setattr(shell.bench.storage.jobs, "claim", claim)

    with pytest.raises(Retry) as found:
        shell.run_with({"job_id": "a", "attempt": 0})

    assert (found.value.sig.kwargs, found.value.when) == ({"job_id": "a", "attempt": 0}, 5.0)
    assert hook.asked == []
