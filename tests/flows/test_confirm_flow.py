"""What a receipt means for its job, on the memory ledger."""

from datetime import UTC, datetime

from reliability.failures import SettlementFailureCode, SettlementFailureReason
from reliability.receipt import DeliveryReceipt
from reliability.reconciliation import ReconciliationReason, ReconciliationRequest
from storage import jobs
from storage.bundle import Storage, memory_storage
from tasks import steps
from tasks.confirm_flow import ConfirmFlow, ReceiptAnswer
from tasks.settlement_flow import dead_letter_of
from tests.support.claims import FIRST_ATTEMPT_AT_MS, delivery_request
from tests.support.clock import ManualClock

JOB_ID = "delivery:acme:msg-1"
LEASE = jobs.Lease(owner="worker-1", token="token-1", lease_ms=15_000)


def admitted() -> Storage:
    """Return a ledger with one delivery that nobody has sent yet."""
    storage = memory_storage(ManualClock(FIRST_ATTEMPT_AT_MS))
    request = delivery_request()
    job = jobs.NewJob(
        job_id=JOB_ID,
        kind=jobs.JobKind.DELIVERY,
        queue="delivery",
        payload=request.canonical_json(),
        finalized_at=request.created_at,
    )
    assert isinstance(storage.jobs.admit(job), jobs.Admitted)
    return storage


def claimed(storage: Storage) -> jobs.Claim:
    """Claim the delivery's first attempt."""
    claim = storage.jobs.claim(JOB_ID, 0, LEASE)
    assert isinstance(claim, jobs.Claim)
    return claim


def awaiting() -> Storage:
    """Return a ledger whose delivery was accepted and waits for its receipt."""
    storage = admitted()
    request = ReconciliationRequest.new(
        ReconciliationReason.PENDING_VERIFICATION,
        "msg-1",
        "acme",
        datetime.fromtimestamp(FIRST_ATTEMPT_AT_MS / 1000, UTC),
    )
    storage.jobs.record(claimed(storage), jobs.Await(request=request))
    return storage


def confirm(storage: Storage, verdict: str = "confirmed", message_id: str = "msg-1") -> ReceiptAnswer:
    """Hand in a receipt."""
    receipt = DeliveryReceipt.from_wire(
        {"schema": "chio.deliver.receipt.v1", "partner_id": "acme", "message_id": message_id, "verdict": verdict}
    )
    return ConfirmFlow(ledger=storage.jobs, dead_letters=storage.dead_letters).run(receipt)


def test_a_receipt_ends_the_job_and_its_entry() -> None:
    """A confirmed receipt of a pending delivery leaves neither row nor reconciliation entry."""
    storage = awaiting()

    answer = confirm(storage)

    assert answer is ReceiptAnswer.RESOLVED
    assert storage.jobs.get(JOB_ID) is None
    assert list(storage.reconciliation.queued_requests()) == []
    assert storage.jobs.counts(jobs.JobKind.DELIVERY).finished[jobs.FinishedAs.CONFIRMED] == 1


def test_a_failed_receipt_is_a_dead_letter() -> None:
    """A receipt that says failed ends the job with code verification, counting the attempt that was made."""
    storage = awaiting()

    answer = confirm(storage, "failed")

    record = storage.dead_letters.get(JOB_ID)
    assert answer is ReceiptAnswer.RESOLVED
    assert record is not None
    assert (record.attempts, record.reason.code) == (1, SettlementFailureCode.VERIFICATION)


def test_a_receipt_resolves_an_escalated_delivery_too() -> None:
    """After the escalation the entry has another key; the receipt resolves whichever is there."""
    storage = awaiting()
    (request,) = storage.reconciliation.queued_requests()
    assert storage.reconciliation.escalate(request.idempotency_key, request.escalated(request.created_at))

    answer = confirm(storage)

    assert answer is ReceiptAnswer.RESOLVED
    assert list(storage.reconciliation.queued_requests()) == []
    assert storage.jobs.get(JOB_ID) is None


def test_the_same_receipt_again_changes_nothing() -> None:
    """The second identical receipt is a no-op, for a confirmed and for a failed delivery."""
    storage, failed = awaiting(), awaiting()
    confirm(storage)
    confirm(failed, "failed")

    answers = confirm(storage), confirm(failed, "failed")

    assert answers == (ReceiptAnswer.REPEATED, ReceiptAnswer.REPEATED)


def test_a_receipt_that_disagrees_is_a_conflict() -> None:
    """A confirmed delivery stays confirmed and a dead one stays dead, whatever a later receipt says."""
    storage, failed = awaiting(), awaiting()
    confirm(storage)
    confirm(failed, "failed")

    answers = confirm(storage, "failed"), confirm(failed)

    assert answers == (ReceiptAnswer.CONFLICTING, ReceiptAnswer.CONFLICTING)
    assert storage.dead_letters.get(JOB_ID) is None
    assert failed.dead_letters.get(JOB_ID) is not None


def test_a_receipt_for_an_unknown_message_is_unknown() -> None:
    """Nothing is created for it."""
    storage = awaiting()

    answer = confirm(storage, message_id="msg-2")

    assert answer is ReceiptAnswer.UNKNOWN


def test_a_receipt_before_the_first_attempt_is_unknown() -> None:
    """Nothing was sent yet, so nobody can have received it; the job goes on."""
    storage = admitted()

    answer = confirm(storage)

    assert answer is ReceiptAnswer.UNKNOWN
    assert storage.jobs.get(JOB_ID) is not None


def test_a_receipt_that_comes_while_an_attempt_runs_takes_the_job() -> None:
    """The running attempt loses its claim, so its outcome cannot overwrite the receipt's."""
    storage = admitted()
    claim = claimed(storage)

    answer = confirm(storage)

    reason = SettlementFailureReason.from_detail(SettlementFailureCode.RPC, "late failure")
    step = steps.DeadLettered(record=dead_letter_of(claim, reason))
    (late,) = storage.jobs.record_many([(claim, steps.transition_for(step, 60_000))])
    assert answer is ReceiptAnswer.RESOLVED
    assert late is not None
    assert storage.dead_letters.get(JOB_ID) is None
