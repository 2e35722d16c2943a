"""What a ledger's dedup mark holds: enough of the digest to tell other bytes, and how the job ended once it has."""

from storage.jobs import FinishedAs

#: How many bytes of the digest a mark keeps: enough that no producer meets another payload by chance.
DIGEST_BYTES = 16
#: How many letters of the ending a mark keeps: enough to tell the endings apart. The whole word, which marks had
#: before, makes the server take 16 bytes more for each.
ENDING_LETTERS = 2
_ENDINGS = {ending.value[:ENDING_LETTERS].encode(): ending for ending in FinishedAs}


def mark_of(digest: bytes, ending: FinishedAs | None = None) -> bytes:
    """Return the mark of a job that is in the ledger or dead, or that ended well."""
    return digest[:DIGEST_BYTES] + (ending.value[:ENDING_LETTERS].encode() if ending else b"")


def is_of(mark: bytes, digest: bytes) -> bool:
    """Tell whether the mark is of a payload with this digest."""
    return mark[:DIGEST_BYTES] == digest[:DIGEST_BYTES]


def ending_of(mark: bytes) -> FinishedAs | None:
    """Return how the job ended well; None while it has not."""
    letters = mark[DIGEST_BYTES : DIGEST_BYTES + ENDING_LETTERS]
    return _ENDINGS[letters] if letters else None
