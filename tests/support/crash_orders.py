"""Orders to die at a crash point: written by a test, obeyed once by whichever armed process reaches the point."""

from dataclasses import dataclass
from pathlib import Path

from tasks.crash_points import ORDERS_VARIABLE, CrashPoint, Order
from tests.support.worker_process import poll

_LIMIT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """Hold the file with the order that stands."""

    path: Path

    def environ(self) -> dict[str, str]:
        """Return what arms a process."""
        return {ORDERS_VARIABLE: str(self.path)}

    def give(self, point: CrashPoint, *, number: int = 1, times: int = 1, whole_worker: bool = False) -> None:
        """Order whoever reaches the point for the given time first to die there, and so many in all."""
        draft = self.path.with_suffix(".new")
        draft.write_text(
            Order(point=point, number=number, times=times, whole_worker=whole_worker).to_text(), encoding="ascii"
        )
        draft.replace(self.path)

    def wait_until_obeyed(self) -> None:
        """Wait until somebody died."""
        poll(lambda: not self.path.exists(), _LIMIT_S, "a process to die where it was told to")
