"""
The hooks: what users implement, how one is loaded by its path, and the HTTP rail that ships with the project.

Nothing here knows Celery, Redis or the ledger. Flows in `tasks` call hooks; `worker.bootstrap` loads them.
"""

from reliability.delivery_request import DeliveryRequest
from tasks.hooks.contract import DeliveryHook, SettlementHook, VerifyingDeliveryHook, VerifyingSettlementHook

__all__ = ["DeliveryHook", "DeliveryRequest", "SettlementHook", "VerifyingDeliveryHook", "VerifyingSettlementHook"]
