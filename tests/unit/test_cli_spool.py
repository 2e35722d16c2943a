"""`chio-worker status` shows what waits on this host's disk."""

from pathlib import Path

import pytest

from storage.jobs import FinishedAs
from tasks import steps
from tasks.recording import Outcome
from tests.support import claims
from tests.support.cli import command_line
from worker import bootstrap
from worker.quarantine_spool import SetAside
from worker.settings import Settings


def test_status_counts_what_is_spooled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What waits for the ledger and for the quarantine is counted, in the document and in the table."""
    monkeypatch.setenv("CHIO_DATA_DIR", str(tmp_path))
    spool = bootstrap.outcome_spool_of(Settings.load())
    spool.keep(Outcome(claims.settlement_claim(), steps.Done(finished_as=FinishedAs.SETTLED)))
    for raw in (b"{", b"["):
        bootstrap.quarantine_spool_of(Settings.load()).keep(SetAside(raw=raw, queue="settlement", reason="undecodable"))
    capsys.readouterr()  # The spool's own line in the log.
    line = command_line(monkeypatch, capsys)

    document, table = line.run("status", "--json"), line.run("status")

    assert (document.document["spooled_here"], document.document["set_aside_here"]) == (1, 2)
    assert "outcomes that wait on this host's disk" in table.out
    assert "messages that wait on this host's disk" in table.out
