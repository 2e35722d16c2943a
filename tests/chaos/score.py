"""
The verdict of a run: what producers were told against what ledger, dead letters, quarantine and simulators say.

Pure but for reading logs and stores. `lost` is work that ended nowhere, or well without its effect; `duplicated` is an
effect that was carried out twice, a key that came with two bodies, or a hook that was called more often than there
were attempts; `stuck` is work that was still in flight when everything had been well for a while.
"""

import base64
import contextlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from storage.bundle import Storage
from storage.jobs import FinishedAs
from tests.chaos.work import Piece
from worker.simulators.effect_log import Tally

#: Endings after which the simulators must have carried the effect out.
_WITH_EFFECT: Final = frozenset({FinishedAs.SETTLED, FinishedAs.CONFIRMED})
_LAST_LINES: Final = frozenset({"settled", "confirmed", "skipped", "dead_lettered"})


@dataclass(kw_only=True)
class Score:
    """Hold what was found."""

    lost: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    #: Whatever else must not be.
    findings: list[str] = field(default_factory=list)
    recovered: int = 0
    longest_recovery_s: float = 0.0
    facts: dict[str, object] = field(default_factory=dict)

    @property
    def is_clean(self) -> bool:
        """Tell whether the run holds every promise."""
        return not (self.lost or self.duplicated or self.stuck or self.findings)

    def last_line(self) -> str:
        """Return what the run ends with."""
        return (
            f"lost {len(self.lost)} duplicated {len(self.duplicated)} stuck {len(self.stuck)}"
            f" recovered {self.recovered} longest_recovery_s {self.longest_recovery_s:.1f}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Hold everything a verdict is made of."""

    told: Mapping[str, Piece]
    offered: Mapping[str, Piece]
    storage: Storage
    #: What the rail and the partner saw, together: their keys are job ids.
    tallies: tuple[Tally, Tally]
    attempts: Mapping[str, int]
    poisoned: Iterable[bytes]


def judge(account: Account) -> Score:
    """Compare."""
    score, endings = Score(), Counter[str]()
    for job_id, piece in account.told.items():
        endings[_judge_job(account, job_id, piece, score)] += 1
    for job_id, piece in account.offered.items():
        if _is_known(account.storage, job_id):
            _judge_job(account, job_id, piece, score)
        else:
            endings["offered to a broker that lost it"] += 1
    for tally in account.tallies:
        score.duplicated += [f"{key}: its effect was carried out twice" for key in tally.keys_with_several_effects]
        score.duplicated += [f"{key}: it came with two bodies" for key in tally.keys_with_differing_bodies]
    _judge_quarantine(account, score)
    score.facts["endings"] = dict(sorted(endings.items()))
    score.facts["repeats beyond the script, with the same key and bytes"] = _repeats(account)
    return score


def _judge_job(account: Account, job_id: str, piece: Piece, score: Score) -> str:
    storage = account.storage
    if storage.jobs.get(job_id) is not None:
        score.stuck.append(job_id)
        return "stuck"
    effects = sum(tally.effects_per_key[job_id] for tally in account.tallies)
    requests = sum(tally.requests_per_key[job_id] for tally in account.tallies)
    if (most := account.attempts.get(job_id)) is not None and requests > most:
        score.duplicated.append(f"{job_id}: its hook was called {requests} times in {most} attempts")
    if storage.dead_letters.get(job_id) is not None:
        return "dead as it must be" if not piece.way.ends_well else "dead with its attempts spent on faults"
    ending = storage.jobs.ending(job_id)
    if ending is None:
        score.lost.append(f"{job_id}: it ended nowhere")
        return "lost"
    if not piece.way.ends_well:
        score.findings.append(f"{job_id}: it ended as {ending} though it can only be refused")
    if ending in _WITH_EFFECT and not effects:
        score.lost.append(f"{job_id}: it ended as {ending} without its effect")
    return ending.value


def _is_known(storage: Storage, job_id: str) -> bool:
    known = (storage.jobs.get(job_id), storage.jobs.ending(job_id), storage.dead_letters.get(job_id))
    return any(found is not None for found in known)


def _judge_quarantine(account: Account, score: Score) -> None:
    """See that nothing is in quarantine but poison, and work whose process died before it was admitted."""
    reasons, strange = Counter[str](), Counter[str]()
    poison = {_as_sent(raw) for raw in account.poisoned}
    for entry in account.storage.quarantine.list(100_000):
        reasons[entry.reason] += 1
        raw = account.storage.quarantine.raw(entry.entry_id)
        if entry.reason != "worker_lost" and poison.isdisjoint({_as_sent(raw or b""), _written_out(raw or b"")}):
            strange[entry.reason] += 1
    score.facts["quarantine"] = dict(sorted(reasons.items()))
    score.findings += [
        f"{count} messages were quarantined as {why} and are no poison" for why, count in strange.items()
    ]


def _as_sent(raw: bytes) -> bytes:
    """Return the message without the note that a killed worker had it in hand and it came again."""
    try:
        message = json.loads(raw)
    except (ValueError, RecursionError):
        return raw
    for part in (_member(message, "headers"), _member(_member(message, "properties"), "delivery_info")):
        part.pop("redelivered", None)
    return json.dumps(message, sort_keys=True).encode()


def _member(value: Any, name: str) -> dict[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _written_out(raw: bytes) -> bytes:
    """Return what was published to a broker that keeps no list elements: the body of what stands for it."""
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
        return _as_sent(base64.b64decode(json.loads(raw)["body"]))
    return raw


def _repeats(account: Account) -> int:
    """Count the requests that the simulators' scripts do not explain: their attempts died or lost their lease."""
    pieces = {**account.offered, **account.told}
    beyond = (
        tally.requests_per_key[job_id] - piece.way.requests
        for tally in account.tallies
        for job_id, piece in pieces.items()
    )
    return sum(count for count in beyond if count > 0)


def attempts_told(logs: Iterable[Path]) -> dict[str, int]:
    """Return how many attempts each job had whose last line is in a log; those of batches that ended well have none."""
    found: dict[str, int] = {}
    for line in lines_in(logs):
        kind, _, what = str(line.get("event", "")).partition(".")
        if kind in {"settlement", "delivery"} and what in _LAST_LINES and "job_id" in line:
            attempts = int(line["attempts"]) if "attempts" in line else int(line["attempt"]) + 1
            found[line["job_id"]] = max(attempts, found.get(line["job_id"], 0))
    return found


def woken(logs: Iterable[Path]) -> dict[str, set[str]]:
    """Return the jobs that a pump brought back, by why."""
    found: dict[str, set[str]] = defaultdict(set)
    for line in lines_in(logs):
        if line.get("event") == "pump.woke" and "job_id" in line:
            found[line["cause"]].add(line["job_id"])
    return found


def lines_in(logs: Iterable[Path]) -> Iterable[dict[str, Any]]:
    """Yield every line of the workers' logs that is one; a killed worker may have cut its last one."""
    for log in logs:
        with log.open(encoding="utf-8", errors="replace") as lines:
            for text in lines:
                if text.startswith('{"event"') and text.endswith("}\n"):
                    yield json.loads(text)
