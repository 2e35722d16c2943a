"""What a pool process tells of an error fits one page of a pipe and still says where the error was."""

import pickle
import traceback

import pytest
from billiard import einfo
from celery.exceptions import Reject

from worker import brief_errors


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install for one test."""
    monkeypatch.setattr(einfo._Frame, "Code", einfo._Frame.Code)
    monkeypatch.setattr(einfo.ExceptionInfo, "__getstate__", None, raising=False)
    brief_errors.install()


def deep(depth: int, error: Exception) -> None:
    """Raise an error at a depth, out of another one with a long text."""
    if depth:
        deep(depth - 1, error)
    try:
        fail(OSError("x" * 2_000))
    except OSError as cause:
        raise error from cause


def fail(error: Exception) -> None:
    """Raise it."""
    raise error


def handed_in(error: Exception, depth: int = 30) -> bytes:
    """Return what a pool process sends of the error."""
    try:
        deep(depth, error)
    except type(error):
        return pickle.dumps(einfo.ExceptionInfo(), protocol=pickle.HIGHEST_PROTOCOL)
    raise AssertionError("expected an error")


@pytest.mark.parametrize("error", [RuntimeError("why"), Reject("why", requeue=True)])
def test_an_error_fits_one_page(error: Exception) -> None:
    """However deep it was raised and whatever led to it, an error takes less than a page with room for its envelope."""
    assert len(handed_in(error)) < brief_errors.PAGE_BYTES - 256


def test_the_places_are_still_told() -> None:
    """The worker can still say in which lines the error was."""
    info = pickle.loads(handed_in(RuntimeError("why")))  # noqa: S301  # what this test pickled itself

    places = traceback.extract_tb(info.tb)

    assert 0 < len(places) <= 8
    assert places[-1].name == "deep"
    assert places[-1].filename == __file__
    assert isinstance(info.exception, RuntimeError)
    assert info.type is RuntimeError
