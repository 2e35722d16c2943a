"""
The three ways to ask a hook about the jobs of a slice: one call for all, on the hooks' loop, or in threads.

A way begins jobs while there are some waiting, and leaves what each came to with the slice. It records nothing.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Final, Generic, Protocol

from reliability.errors import HookTransientError, StorageUnavailableError
from storage.jobs import Claim
from tasks import attempt_flow, crash_points, steps
from tasks.attempt_flow import AttemptFlow, QuestionT
from tasks.batch_slice import Slice
from tasks.crash_points import CrashPoint

#: The first wait for news, in seconds; a hook that takes longer gets more threads, and later waits are longer.
_FIRST_WAIT_S: Final = 0.005
#: The longest wait for news: what ended meanwhile is recorded at least this often, in seconds.
_LONGEST_WAIT_S: Final = 0.2


class Way(Protocol):
    """Ask the hook about the jobs of one slice."""

    @property
    def is_busy(self) -> bool:
        """Tell whether a job is begun and has not come to a step."""
        ...

    def advance(self) -> None:
        """Begin what may begin now, and wait a little for news."""
        ...

    def interrupt(self) -> None:
        """End what is under way, as far as that can be done."""
        ...


class _Waits:
    """Wait for a slice's news, longer each time."""

    def __init__(self, jobs: Slice) -> None:
        self._jobs = jobs
        self._wait_s = _FIRST_WAIT_S

    def wait(self) -> None:
        came = self._jobs.news.wait(self._wait_s)
        self._wait_s = _FIRST_WAIT_S if came else min(self._wait_s * 2, _LONGEST_WAIT_S)
        self._jobs.news.clear()


class InThreads:
    """Run whole attempts in threads: one at first, twice as many each time that was too slow; one job needs none."""

    def __init__(self, jobs: Slice, run: Callable[[Claim], steps.Step], threads: Executor, most: int) -> None:
        self._jobs = jobs
        self._run = run
        self._threads = threads
        self._most = most
        self._runners: list[Future[None]] = []
        self._waits = _Waits(jobs)

    @property
    def is_busy(self) -> bool:
        """Tell whether a thread is at work."""
        return not all(runner.done() for runner in self._runners)

    def advance(self) -> None:
        """Add threads while jobs are waiting; wait for news."""
        if self._jobs.size == 1:
            return self._work()
        more = min(max(1, len(self._runners)), self._most - len(self._runners), len(self._jobs.waiting))
        self._runners += [self._threads.submit(self._work) for _ in range(more)]
        return self._waits.wait()

    def interrupt(self) -> None:
        """Do nothing: a thread cannot be interrupted, so the hard limit ends what does not end by itself."""

    def _work(self) -> None:
        while claim := self._jobs.next():
            try:
                self._jobs.end(claim, attempt_flow.attempted(self._run, claim))
            except BaseException as error:  # noqa: BLE001  # told to the task's thread, which raises it; here it would be lost
                self._jobs.fail(claim, error)
        self._jobs.news.set()


class AtOnce(Generic[QuestionT]):
    """Ask about all jobs with one call."""

    is_busy = False

    def __init__(
        self,
        jobs: Slice,
        flow: AttemptFlow[QuestionT],
        ask: Callable[[Sequence[QuestionT]], Sequence[object]],
    ) -> None:
        self._jobs = jobs
        self._flow = flow
        self._ask = ask

    def advance(self) -> None:
        """Begin all, ask once, conclude all."""
        claims = list(self._jobs.waiting)
        begun = list(zip(claims, _begun(self._flow, claims), strict=True))
        # From here on no job may be given back as not begun: the hook may have seen it.
        self._jobs.waiting.clear()
        questions: list[QuestionT] = []
        for claim, found in begun:
            if isinstance(found, steps.Step):
                self._jobs.end(claim, found)
            else:
                questions.append(found)
        if questions:
            crash_points.reach(CrashPoint.BEFORE_HOOK)
            answers = _answers(self._ask, questions)
            crash_points.reach(CrashPoint.AFTER_HOOK)
            _conclude(self._jobs, self._flow, list(zip(questions, answers, strict=True)))

    def interrupt(self) -> None:
        """Do nothing: the call ran in the thread that was interrupted."""


class OnLoop(Generic[QuestionT]):
    """Ask about many jobs at once on the hooks' loop; begin and conclude in the task's own thread."""

    def __init__(
        self,
        jobs: Slice,
        flow: AttemptFlow[QuestionT],
        ask: Callable[[QuestionT], Awaitable[object]],
        loop: asyncio.AbstractEventLoop,
        most: int,
    ) -> None:
        self._jobs = jobs
        self._flow = flow
        self._ask = ask
        self._loop = loop
        self._most = most
        #: So many places have to be free, or answers there, before the next exchange with the store is worth it.
        self._enough = max(1, most // 2)
        #: Begun, by job id.
        self._asked: dict[str, QuestionT] = {}
        #: Begun and not on the loop yet.
        self._outbox: deque[QuestionT] = deque()
        self._answers: deque[tuple[str, object]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._waits = _Waits(jobs)

    @property
    def is_busy(self) -> bool:
        """Tell whether an answer is to come."""
        return bool(self._asked)

    def advance(self) -> None:
        """Begin as many as may run at once, wait for news, conclude what was answered."""
        self._begin()
        if self._outbox:
            self._loop.call_soon_threadsafe(self._start)
        if self._asked:
            self._waits.wait()
        self._conclude()

    def interrupt(self) -> None:
        """Cancel what is under way; its outcome is unknown."""
        self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in self._tasks])

    def _begin(self) -> None:
        room = min(self._most - len(self._asked), len(self._jobs.waiting))
        # Jobs stay with those that wait until they are begun, since an interrupted exchange must not lose them.
        claims = [self._jobs.waiting[place] for place in range(room)]
        for claim, found in zip(claims, _begun(self._flow, claims), strict=True):
            self._jobs.waiting.popleft()
            if isinstance(found, steps.Step):
                self._jobs.end(claim, found)
            else:
                self._asked[claim.job_id] = found
                self._outbox.append(found)

    def _start(self) -> None:
        while self._outbox:
            task = self._loop.create_task(self._answer(self._outbox.popleft()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, question: QuestionT) -> None:
        try:
            crash_points.reach(CrashPoint.BEFORE_HOOK)
            answer = await self._ask(question)
            crash_points.reach(CrashPoint.AFTER_HOOK)
        except Exception as error:  # noqa: BLE001  # a hook is user code: whatever it raises is an answer
            answer = error
        except BaseException:
            self._keep(question, HookTransientError("the hook was interrupted"))
            raise
        self._keep(question, answer)

    def _keep(self, question: QuestionT, answer: object) -> None:
        self._answers.append((question.claim.job_id, answer))
        if len(self._answers) >= min(self._enough, len(self._asked)):
            self._jobs.news.set()

    def _conclude(self) -> None:
        # Interrupted anywhere here, the next round finds the answers again; what has ended twice is recorded once.
        answers = [self._answers[place] for place in range(len(self._answers))]
        answered = [(self._asked[job_id], answer) for job_id, answer in answers if job_id in self._asked]
        _conclude(self._jobs, self._flow, answered)
        for job_id, _ in answers:
            self._asked.pop(job_id, None)
            self._answers.popleft()


def _conclude(jobs: Slice, flow: AttemptFlow[QuestionT], answered: Sequence[tuple[QuestionT, object]]) -> None:
    if answered:
        for (question, _), step in zip(answered, flow.conclude_many(answered), strict=True):
            jobs.end(question.claim, step)


def _begun(flow: AttemptFlow[QuestionT], claims: Sequence[Claim]) -> Sequence[steps.Step | QuestionT]:
    try:
        return flow.begin_many(claims) if claims else []
    except StorageUnavailableError:
        return [attempt_flow.unreachable(claim) for claim in claims]


def _answers(ask: Callable[[Sequence[QuestionT]], Sequence[object]], questions: Sequence[QuestionT]) -> list[object]:
    """Ask once; a call that raises, or answers other than one for each, says nothing about any of them."""
    try:
        answers = list(ask(questions))
    except Exception as error:  # noqa: BLE001  # a hook is user code: whatever it raises is an answer
        return [error] * len(questions)
    if len(answers) != len(questions):
        return [HookTransientError(f"the hook gave {len(answers)} answers for {len(questions)}")] * len(questions)
    return answers
