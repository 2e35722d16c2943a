"""
Load the Lua scripts, one per atomic operation, and run them: alone, or many with one exchange.

A script names the parts it needs with `--! include` lines and the keys it touches as `K.<name>(id)`; both are resolved
here, once. Scripts are called by their digest; a server that lost them gets them again.
"""

import functools
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from typing import Any

import redis

from storage import redis_client
from storage.keys import Key, Keys

_INCLUDE = re.compile(r"^--! include (_\w+)$", re.MULTILINE)
_KEY_USE = re.compile(r"\bK\.(?P<key>[a-z_]+)\((?P<name>[^()]*)\)")

#: What a script or a pipeline takes as an argument.
Argument = str | bytes | int


class Script(StrEnum):
    """Name every script; the value is its file's name."""

    ADMIT = "admit"
    ADMIT_AND_CLAIM = "admit_and_claim"
    ADMIT_MANY = "admit_many"
    CANCEL = "cancel"
    CIRCUIT_SET = "circuit_set"
    CLAIM = "claim"
    CLAIM_MANY = "claim_many"
    CONCLUDE_BURY = "conclude_bury"
    CONCLUDE_FINISH = "conclude_finish"
    DEAD_APPEND = "dead_append"
    DEAD_CLEAR = "dead_clear"
    DEAD_LIST = "dead_list"
    DEAD_PAYLOAD = "dead_payload"
    DEAD_TAKE = "dead_take"
    DUE = "due"
    GATE_ENTER = "gate_enter"
    GATE_SLOW = "gate_slow"
    GATE_STOP = "gate_stop"
    GATE_TURN = "gate_turn"
    HOLD = "hold"
    MARK_CONSUMED = "mark_consumed"
    NEXT_MARK = "next_mark"
    QUARANTINE_KEEP = "quarantine_keep"
    QUARANTINE_LIST = "quarantine_list"
    QUARANTINE_PURGE = "quarantine_purge"
    QUARANTINE_REMOVE = "quarantine_remove"
    RECONCILE_COUNTS = "reconcile_counts"
    RECONCILE_ENQUEUE = "reconcile_enqueue"
    RECONCILE_ESCALATE = "reconcile_escalate"
    RECONCILE_RESOLVE = "reconcile_resolve"
    RECONCILE_STALE = "reconcile_stale"
    RECORD_AWAIT = "record_await"
    RECORD_BURY = "record_bury"
    RECORD_FINISH = "record_finish"
    RECORD_FINISH_MANY = "record_finish_many"
    RECORD_RESCHEDULE = "record_reschedule"
    RELEASE = "release"
    RENEW = "renew"
    REPLAY = "replay"
    RESUME = "resume"
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class Call:
    """Hold one run of a script; `subject` is the id, queue or key an error names."""

    script: Script
    subject: str
    arguments: tuple[Argument, ...] = ()


class Scripts:
    """Run scripts in one namespace. Safe to share between threads, as the client is."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._namespace = keys.namespace

    def run(self, call: Call) -> Any:
        """
        Run one script in one exchange and return its reply.

        Raises:
            StorageUnavailableError: The server did not answer, or refused.

        """
        with redis_client.translated(call.script, call.subject):
            try:
                return self._send(*self._command(call))
            except redis.exceptions.NoScriptError:
                self._load([call])
                return self._send(*self._command(call))

    def run_many(self, calls: Sequence[Call], *trailing: tuple[Argument, ...]) -> list[Any]:
        """
        Run scripts in order with one exchange, each on its own; a refused one has its error in its place.

        `trailing` are plain commands that go last on the same connection; their replies come last.

        Raises:
            StorageUnavailableError: The server did not answer; some of the scripts may have run.

        """
        if not calls:
            return []
        with redis_client.translated(calls[0].script, calls[0].subject):
            replies = self._exchange([*map(self._command, calls), *trailing])
            return self._with_lost_ones(calls, replies, trailing)

    def run_as_made(self, calls: Iterable[Call], *trailing: tuple[Argument, ...]) -> list[Any]:
        """
        As `run_many`, but each script is sent when it is made: the server runs one while the caller makes the next.

        Raises:
            StorageUnavailableError: As `run_many`. What making a call raises comes through; others may have run.

        """
        made: list[Call] = []
        with redis_client.conversation(self._client) as server:
            for call in calls:
                made.append(call)
                with redis_client.translated(call.script, call.subject):
                    server.send(*self._command(call))
            if not made:
                return []
            with redis_client.translated(made[0].script, made[0].subject):
                for command in trailing:
                    server.send(*command)
                return self._with_lost_ones(made, server.replies(), trailing)

    def command(self, operation: str, subject: str, *command: Argument) -> Any:
        """
        Run one plain command, which is atomic by itself, and return its reply.

        Raises:
            StorageUnavailableError: The server did not answer, or refused.

        """
        with redis_client.translated(operation, subject):
            return self._send(*command)

    def commands(self, operation: str, subject: str, commands: Sequence[tuple[Argument, ...]]) -> list[Any]:
        """
        Run plain commands with one exchange, each on its own, and return their replies.

        Raises:
            StorageUnavailableError: The server did not answer, or refused one of them.

        """
        if not commands:
            return []
        with redis_client.translated(operation, subject):
            replies = self._exchange(commands)
            for refused in (reply for reply in replies if isinstance(reply, redis.RedisError)):
                raise refused
            return replies

    def _command(self, call: Call) -> tuple[Argument, ...]:
        return ("EVALSHA", digest_of(call.script), 1, self._namespace, *call.arguments)

    def _exchange(self, commands: Sequence[tuple[Argument, ...]]) -> list[Any]:
        with self._client.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command)  # type: ignore[no-untyped-call]  # redis-py leaves it untyped
            return pipe.execute(raise_on_error=False)

    def _with_lost_ones(
        self, calls: Sequence[Call], replies: list[Any], trailing: Sequence[tuple[Argument, ...]]
    ) -> list[Any]:
        """Return the replies, with those of scripts that the server did not know taken from a second exchange."""
        lost = [place for place, reply in enumerate(replies) if isinstance(reply, redis.exceptions.NoScriptError)]
        if lost:
            unknown = [calls[place] for place in lost]
            self._load(unknown)
            again = self._exchange([*map(self._command, unknown), *trailing])
            replies[len(calls) :] = again[len(lost) :]
            for place, reply in zip(lost, again, strict=False):
                replies[place] = reply
        return replies

    def _load(self, calls: Sequence[Call]) -> None:
        for script in {call.script for call in calls}:
            self._send("SCRIPT LOAD", source_of(script))

    def _send(self, *command: Argument) -> Any:
        return self._client.execute_command(*command)  # type: ignore[no-untyped-call]  # redis-py leaves it untyped


@functools.cache
def source_of(script: Script) -> str:
    """Return the whole text of a script: key names, parts, body."""
    return "local NS = KEYS[1]\n" + _KEY_USE.sub(_spelled, _with_parts(script, set()))


@functools.cache
def digest_of(script: Script) -> str:
    """Return the name under which servers know a script."""
    return hashlib.sha1(source_of(script).encode(), usedforsecurity=False).hexdigest()


def _with_parts(name: str, included: set[str]) -> str:
    text = resources.files("storage").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
    parts = []
    for part in _INCLUDE.findall(text):
        if part not in included:
            included.add(part)
            parts.append(_with_parts(part, included))
    return "\n".join([*parts, text])


def _spelled(use: re.Match[str]) -> str:
    key, name = Key[use["key"].upper()], use["name"]
    if key.is_family is not bool(name):
        raise AssertionError(f"expected {key.name} to be {'completed' if key.is_family else 'complete'}: {use[0]}")
    return f"(NS .. '{key.suffix}' .. {name})" if name else f"(NS .. '{key.suffix}')"
