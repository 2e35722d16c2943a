"""
The hooks: what users implement, how one is loaded by its path, and the HTTP rail that ships with the project.

Nothing here knows Celery, Redis or the ledger. Flows in `tasks` call hooks; `worker.bootstrap` loads them.
"""

from reliability.delivery_request import DeliveryRequest
from tasks.hooks.contract import (
    AsyncDeliveryHook,
    AsyncSettlementHook,
    BatchDeliveryHook,
    BatchSettlementHook,
    DeliveryHook,
    SettlementHook,
    VerifyingDeliveryHook,
    VerifyingSettlementHook,
)

__all__ = [
    "AsyncDeliveryHook",
    "AsyncSettlementHook",
    "BatchDeliveryHook",
    "BatchSettlementHook",
    "DeliveryHook",
    "DeliveryRequest",
    "SettlementHook",
    "VerifyingDeliveryHook",
    "VerifyingSettlementHook",
]
