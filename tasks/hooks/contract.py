"""
What a user of this project implements: a settlement hook, a delivery hook.

A hook is asked once per attempt, from several threads or processes at once, and must be bounded in time. Its effects
must be idempotent by receipt id or message id, since an attempt whose worker died is made again with the same bytes.

A hook that also has one of the methods for batches is asked by it when a batch comes; the others are asked for each job
of the batch, several at a time.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from reliability.delivery import DeliveryOutcome
from reliability.delivery_request import DeliveryRequest
from reliability.outcomes import SettlementResult
from reliability.settlement import SettlementObservation


@runtime_checkable
class SettlementHook(Protocol):
    """Route a finalised receipt to a settlement rail."""

    def observe(self, observation: SettlementObservation) -> SettlementResult:
        """
        Settle the receipt, or say why not.

        A failure may be returned or raised as one of the `HookError` classes; any other exception counts as
        retryable, code backend. The answer's detail is hashed, never stored.
        """
        ...


@runtime_checkable
class VerifyingSettlementHook(SettlementHook, Protocol):
    """Tell what became of a settlement that the rail had taken without confirming it."""

    def verify(self, observation: SettlementObservation) -> SettlementResult:
        """Ask the rail without settling again; `Pending` if it still does not know."""
        ...


@runtime_checkable
class BatchSettlementHook(SettlementHook, Protocol):
    """Settle many receipts with one call, for rails that take them together."""

    def observe_many(self, observations: Sequence[SettlementObservation]) -> Sequence[SettlementResult | Exception]:
        """
        Settle each receipt on its own and answer in the same order; one failure must cost no other its answer.

        An answer may be the exception that `observe` would have raised. Fewer or more answers than observations, or an
        exception out of the call itself, count as a failed attempt of every one: retryable, code backend.
        """
        ...


@runtime_checkable
class AsyncSettlementHook(SettlementHook, Protocol):
    """Settle without blocking a thread, so that a batch keeps many receipts on their way at once."""

    async def observe_async(self, observation: SettlementObservation) -> SettlementResult:
        """Answer as `observe` would; runs on the loop that all hooks of the process share and must not block it."""
        ...


@runtime_checkable
class DeliveryHook(Protocol):
    """Deliver a message to a partner."""

    def send(self, request: DeliveryRequest) -> DeliveryOutcome:
        """Send the request's bytes once, under its message id, and say what is known afterwards."""
        ...


@runtime_checkable
class VerifyingDeliveryHook(DeliveryHook, Protocol):
    """Tell what became of a delivery that the partner had taken without confirming it."""

    def verify(self, request: DeliveryRequest) -> DeliveryOutcome:
        """Ask the partner without sending again; `AcceptedPendingVerification` if it still does not know."""
        ...


@runtime_checkable
class BatchDeliveryHook(DeliveryHook, Protocol):
    """Deliver many messages with one call, for transports that take them together."""

    def send_many(self, requests: Sequence[DeliveryRequest]) -> Sequence[DeliveryOutcome | Exception]:
        """
        Send each request on its own and answer in the same order; one failure must cost no other its answer.

        An answer may be the exception that `send` would have raised. Fewer or more answers than requests, or an
        exception out of the call itself, leave every outcome unknown.
        """
        ...


@runtime_checkable
class AsyncDeliveryHook(DeliveryHook, Protocol):
    """Deliver without blocking a thread, so that a batch keeps many messages on their way at once."""

    async def send_async(self, request: DeliveryRequest) -> DeliveryOutcome:
        """Answer as `send` would; runs on the loop that all hooks of the process share and must not block it."""
        ...
