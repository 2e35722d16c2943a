"""
Lines of a stream, one at a time and bounded: a line past the limit is passed over without being kept.

Knows nothing of what a line holds. `worker.cli.intake` reads observations with it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

#: How much of a line past the limit is read and dropped at a time.
_SKIP_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Hold one line without its line feed. Lines are numbered from 1."""

    number: int
    content: bytes
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LongLine:
    """Name a line that was past the limit and was not kept."""

    number: int
    size_bytes: int


def bounded_lines(stream: BinaryIO, max_line_bytes: int) -> Iterator[Line | LongLine]:
    """Read the stream line by line, keeping at most `max_line_bytes` and a line feed in memory."""
    number = 0
    while raw := stream.readline(max_line_bytes + 1):
        number += 1
        content = raw.removesuffix(b"\n")
        if len(content) <= max_line_bytes:
            yield Line(number=number, content=content, size_bytes=len(raw))
        else:
            yield LongLine(number=number, size_bytes=len(raw) + _skip_rest(stream))


def _skip_rest(stream: BinaryIO) -> int:
    """Read up to the next line feed and tell how many bytes that were."""
    skipped_bytes = 0
    while rest := stream.readline(_SKIP_BYTES):
        skipped_bytes += len(rest)
        if rest.endswith(b"\n"):
            break
    return skipped_bytes
