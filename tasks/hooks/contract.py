"""
What a user of this project implements: a settlement hook, a delivery hook.

A hook is asked once per attempt, from several threads or processes at once, and must be bounded in time. Its effects
must be idempotent by receipt id or message id, since an attempt whose worker died is made again with the same bytes.
"""

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
