"""Lines of a stream, bounded."""

import io

import pytest

from worker.cli.lines import Line, LongLine, bounded_lines


def read(content: bytes, max_line_bytes: int = 8) -> list[Line | LongLine]:
    """Return all lines of the content."""
    return list(bounded_lines(io.BytesIO(content), max_line_bytes))


class CountingStream(io.BytesIO):
    """Note the largest piece that was ever asked for."""

    largest_read = 0

    def readline(self, size: int | None = -1, /) -> bytes:
        """Read as always and measure the piece."""
        piece = super().readline(-1 if size is None else size)
        self.largest_read = max(self.largest_read, len(piece))
        return piece


def test_lines_are_numbered_from_one_without_their_feed() -> None:
    """Each line comes with its number, its content without the line feed, and what it took of the stream."""
    found = read(b"ab\n\ncd\n")

    assert found == [
        Line(number=1, content=b"ab", size_bytes=3),
        Line(number=2, content=b"", size_bytes=1),
        Line(number=3, content=b"cd", size_bytes=3),
    ]


def test_last_line_needs_no_feed() -> None:
    """A last line without a line feed is a line; a line feed at the end begins no other."""
    assert [line.number for line in read(b"ab\ncd")] == [1, 2]
    assert [line.number for line in read(b"ab\ncd\n")] == [1, 2]


def test_empty_stream_has_no_line() -> None:
    """Nothing comes of an empty stream."""
    assert read(b"") == []


@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_line_at_the_limit_is_kept(ending: bytes) -> None:
    """A line of exactly the limit is kept, whether a line feed follows or not."""
    assert read(b"12345678" + ending) == [Line(number=1, content=b"12345678", size_bytes=8 + len(ending))]


@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_line_past_the_limit_is_only_measured(ending: bytes) -> None:
    """One byte more than the limit, and only the line's size is told."""
    assert read(b"123456789" + ending) == [LongLine(number=1, size_bytes=9 + len(ending))]


def test_line_after_a_long_one_is_read_whole() -> None:
    """A long line costs the next one nothing, not even its number."""
    found = read(b"x" * 200_000 + b"\nnext\n")

    assert found == [LongLine(number=1, size_bytes=200_001), Line(number=2, content=b"next", size_bytes=5)]


def test_long_line_is_never_held_whole() -> None:
    """No single read of a 1 MB line is larger than a fraction of it."""
    stream = CountingStream(b"x" * 1_000_000)

    list(bounded_lines(stream, 1_000))

    assert stream.largest_read <= 65_536


def test_sizes_add_up_to_the_stream() -> None:
    """The sizes of all lines together are the size of the stream, so that a progress bar ends at its end."""
    content = b"a\n" + b"x" * 100 + b"\n\nlast"

    assert sum(line.size_bytes for line in read(content)) == len(content)
