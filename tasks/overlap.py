"""Make the next while the last is used: a producer reads and checks lines while the ledger admits those before them."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def overlapped(items: Iterable[Item], use: Callable[[Item], Result]) -> Iterator[Result]:
    """
    Yield what `use` returns for each item, in order; the next item is made meanwhile, and never more than one.

    What `use` raises is raised in the place of its result; nothing after that item is used.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="overlap") as thread:
        under_way: Future[Result] | None = None
        for item in items:
            if under_way is not None:
                yield under_way.result()
            under_way = thread.submit(use, item)
        if under_way is not None:
            yield under_way.result()
