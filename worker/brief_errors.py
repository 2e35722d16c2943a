"""
Errors that pool processes hand to their worker, made short: billiard would send tens of kilobytes for each retry.

A message longer than a page may be written and read in parts. A process that is killed between two parts, or a main
loop that starts anew between them, leaves half a message in the pipe, and the worker ends over what it reads next. So
nothing longer than a page is sent: the places an error passed, and the end of its text.
"""

import itertools
from collections.abc import Iterator
from typing import Any, Final

from billiard import einfo

#: A write of so many bytes to a pipe is whole or not at all.
PAGE_BYTES: Final = 4_096
#: How many of the innermost places are sent; the log shows no more.
_MOST_FRAMES: Final = 8
#: How much of the text is sent, twice: on its own, and as what the error says of itself.
_MOST_TEXT: Final = 400


class NoPositions:
    """Stand for the columns of every instruction of a function, which nobody looks at."""

    def __iter__(self) -> Iterator[tuple[None, None, None, None]]:
        return itertools.repeat((None, None, None, None))


class _BriefCode(einfo._Code):  # type: ignore[misc]  # noqa: SLF001  # billiard ships no types, and no other way
    """Name a place without everything that its function contains."""

    def __init__(self, code: Any) -> None:
        super().__init__(code)
        self.co_names = ()
        self._co_positions = NoPositions()


def install() -> None:
    """Send short errors from this process from now on."""
    einfo._Frame.Code = _BriefCode  # noqa: SLF001  # as above
    einfo.ExceptionInfo.__getstate__ = _brief


def _brief(info: einfo.ExceptionInfo) -> dict[str, object]:
    text = info.traceback[-_MOST_TEXT:]
    state = {**vars(info), "traceback": text, "tb": _innermost(info.tb)}
    if isinstance(info.exception, einfo.ExceptionWithTraceback):
        state["exception"] = einfo.ExceptionWithTraceback(info.exception.exc, text)
    return state


def _innermost(places: Any) -> Any:
    """Return the traceback from its last places on."""
    chain = []
    while places is not None:
        chain.append(places)
        places = getattr(places, "tb_next", None)
    return chain[-_MOST_FRAMES:][0] if chain else None
