"""
Every Redis key of the project, its type and what it holds.

Nothing else spells a key: Python asks `Keys.of`, and where a Lua script says `K.<name>(id)`, `scripts` writes the same
key. All keys share one namespace, so one server can serve several deployments. What celery-redbeat keeps for itself is
below `redbeat:` in the same namespace.
"""

from dataclasses import dataclass
from enum import Enum

from reliability.errors import InvalidInputError

#: The namespace unless the settings name another.
DEFAULT_NAMESPACE = "chio:"


class Key(Enum):
    """
    Name each kind of key: what follows the namespace, and the type Redis keeps there.

    A suffix that ends with a colon is completed by an id, a queue, a kind or a partner.
    """

    #: A row of the ledger: kind, queue, digest, attempt, version, state, due, ..., packed by the scripts.
    JOB = ("job:", "string")
    #: The bytes every attempt of a job works on; kept for a replay when it dies.
    PAYLOAD = ("payload:", "string")
    #: The dedup mark of a job id: the first 16 bytes of its digest, with an expiry.
    SEEN = ("seen:", "string")
    #: Job ids of a queue by the instant past which the queue's watermark tells that the message was lost.
    OUTSTANDING = ("outstanding:", "zset")
    #: Job ids by the end of their lease.
    LEASED = ("leased", "zset")
    #: Job ids by when they are due.
    PARKED = ("parked", "zset")
    #: Job ids by since when they wait for a receipt.
    AWAITING = ("awaiting", "zset")
    #: Job ids by when they would be due.
    HELD = ("held", "zset")
    #: Counters of a kind of job: admitted, duplicates, ..., and one per state.
    COUNTS = ("counts:", "hash")
    #: Queue -> everything published before this instant was consumed. Has a field for every queue ever used.
    WATERMARKS = ("watermarks", "hash")
    #: Present while a queue's next mark is not due yet.
    MARK = ("mark:", "string")
    #: Receipt id -> canonical bytes of its dead letter.
    DEAD = ("dead", "hash")
    #: Receipt ids by finalized_at.
    DEAD_INDEX = ("dead:index", "zset")
    #: Receipt ids whose publication is owed, by when it may be taken next.
    DEAD_UNPUBLISHED = ("dead:unpublished", "zset")
    #: The row of a dead job as it ended, for a replay.
    DEAD_JOB = ("dead:job:", "string")
    #: Idempotency key -> reconciliation request.
    RECONCILE = ("reconcile", "hash")
    #: Idempotency keys that wait for a receipt, by creation in microseconds.
    RECONCILE_PENDING = ("reconcile:pending", "zset")
    #: Idempotency keys whose outcome is unknown, by creation in microseconds.
    RECONCILE_INDETERMINATE = ("reconcile:indeterminate", "zset")
    #: Remembers a resolved idempotency key, with an expiry.
    RECONCILE_RESOLVED = ("reconcile:resolved:", "string")
    #: A key that `DedupStorage` has seen, with an expiry.
    DEDUP = ("dedup:", "string")
    #: The circuit of a partner.
    CIRCUIT = ("circuit:", "string")
    #: Tokens of the deliveries on their way to a partner, by when each is given up.
    GATE_INSIDE = ("gate:inside:", "zset")
    #: The instant in ms of a partner's next delivery at its steady rate, with an expiry.
    GATE_RATE = ("gate:rate:", "string")
    #: The instant in ms of the next turn of the deliveries held back from a partner, with an expiry.
    GATE_TURN = ("gate:turn:", "string")
    #: Present while a partner that asked for patience is left alone, with an expiry.
    GATE_SLOW = ("gate:slow:", "string")
    #: The address of a partner that wants no more deliveries there.
    GATE_STOP = ("gate:stop:", "string")
    #: Never there: whoever tries to overwrite it learns whether the server takes writes.
    WRITABLE = ("writable", "string")
    #: The name of the application that uses the namespace.
    APPLICATION = ("application", "string")
    #: One quarantined message: raw, queue, reason, received, size, sha256.
    QUARANTINE_ENTRY = ("quarantine:entry:", "hash")
    #: Ids of quarantined messages by their number, which is the order they came in.
    QUARANTINE_INDEX = ("quarantine:index", "zset")
    #: Counters of the quarantine: sequence, entries, bytes, dropped.
    QUARANTINE_COUNTS = ("quarantine:counts", "hash")

    def __init__(self, suffix: str, redis_type: str) -> None:
        self.suffix = suffix
        self.redis_type = redis_type

    @property
    def is_family(self) -> bool:
        """Tell whether an id completes the key."""
        return self.suffix.endswith(":")


@dataclass(frozen=True, slots=True)
class Keys:
    """
    Spell keys inside one namespace, such as `chio:`.

    Raises:
        InvalidInputError: The namespace is empty or does not end with a colon.

    """

    namespace: str = DEFAULT_NAMESPACE

    def __post_init__(self) -> None:
        if len(self.namespace) < 2 or not self.namespace.endswith(":"):  # noqa: PLR2004  # a name and its colon
            raise InvalidInputError("namespace", f"expected a name that ends with a colon, got: {self.namespace!r}")

    def of(self, key: Key, name: str = "") -> str:
        """Return the key of this kind for an id, queue, kind or partner; a single key takes no name."""
        if bool(name) is not key.is_family:
            wanted = "a name" if key.is_family else "no name"
            raise InvalidInputError("key", f"expected {wanted} for {key.name}, got: {name!r}")
        return f"{self.namespace}{key.suffix}{name}"

    def kind_of(self, key: str) -> Key | None:
        """Return which kind a key of the server is; None if it is none of ours."""
        rest = key.removeprefix(self.namespace)
        if rest == key:
            return None
        single = next((kind for kind in Key if kind.suffix == rest and not kind.is_family), None)
        families = (kind for kind in Key if kind.is_family and rest.startswith(kind.suffix) and rest != kind.suffix)
        return single or max(families, key=lambda kind: len(kind.suffix), default=None)
