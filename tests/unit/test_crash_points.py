"""Crash points cost nothing until a test arms them, and an order is obeyed once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tasks import crash_points
from tasks.crash_points import ORDERS_VARIABLE, CrashPoint, Order
from tests.support.worker_process import ROOT, clean_environ


def run(code: str, directory: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a few lines in a process of their own."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=clean_environ(directory, environ),
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


REACH_TWICE = """
from tasks.crash_points import CrashPoint, reach
for number in (1, 2):
    reach(CrashPoint.AFTER_CLAIM)
    print("passed", number, flush=True)
"""


def test_an_unarmed_process_passes_every_point() -> None:
    """Without the variable in the environment every point is passed."""
    assert ORDERS_VARIABLE not in os.environ

    for point in CrashPoint:
        crash_points.reach(point)


def test_an_armed_process_dies_at_the_ordered_pass_and_takes_the_order_along(tmp_path: Path) -> None:
    """The process ends by SIGKILL at the pass that was ordered, and nobody obeys the order again."""
    orders = tmp_path / "orders"
    orders.write_text(Order(point=CrashPoint.AFTER_CLAIM, number=2).to_text(), encoding="ascii")

    died = run(REACH_TWICE, tmp_path, **{ORDERS_VARIABLE: str(orders)})
    lived = run(REACH_TWICE, tmp_path, **{ORDERS_VARIABLE: str(orders)})

    assert (died.returncode, died.stdout) == (-9, "passed 1\n")
    assert (lived.returncode, lived.stdout) == (0, "passed 1\npassed 2\n")
    assert not orders.exists()


def test_an_order_for_two_is_obeyed_twice(tmp_path: Path) -> None:
    """Two processes die of it, one after the other, and the third lives."""
    orders = tmp_path / "orders"
    orders.write_text(Order(point=CrashPoint.AFTER_CLAIM, times=2).to_text(), encoding="ascii")

    codes = [run(REACH_TWICE, tmp_path, **{ORDERS_VARIABLE: str(orders)}).returncode for _ in range(3)]

    assert codes == [-9, -9, 0]


def test_an_order_for_another_point_is_left_alone(tmp_path: Path) -> None:
    """A process passes the points that no order names, and leaves the order to others."""
    orders = tmp_path / "orders"
    orders.write_text(Order(point=CrashPoint.BEFORE_HOOK).to_text(), encoding="ascii")

    lived = run(REACH_TWICE, tmp_path, **{ORDERS_VARIABLE: str(orders)})

    assert lived.returncode == 0
    assert orders.exists()


@pytest.mark.parametrize(
    "order",
    [Order(point=CrashPoint.AFTER_HOOK), Order(point=CrashPoint.PUMP_AFTER_TAKE, number=3, times=2, whole_worker=True)],
    ids=lambda order: order.to_text(),
)
def test_an_order_is_read_as_it_was_written(order: Order) -> None:
    """What is written into the file is what is read from it."""
    assert Order.from_text(order.to_text()) == order


@pytest.mark.parametrize("text", ["", "nowhere", "after_hook:x", "after_hook@planet"])
def test_an_order_nobody_understands_is_refused(text: str) -> None:
    """A misspelt order raises: a test that kills nobody would prove nothing."""
    with pytest.raises(ValueError, match=r".+"):
        Order.from_text(text)
