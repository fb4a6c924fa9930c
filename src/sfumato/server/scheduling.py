"""Worker threads that accounts share fairly: each account in turn, and never more of the threads than are left free.

An account may begin another task only while it runs fewer tasks than there are free threads. So one account uses at
most half of the threads, a second at most half of the rest, and a third still finds one free. When all are busy, the
next free thread goes to the account whose turn it is, however many tasks others have waiting.

Proof: proofs/admission.md
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from sfumato.errors import Busy

T = TypeVar("T")


class FairPool:
    """Threads for the tasks of many accounts. It belongs to one event loop."""

    def __init__(self, threads: int, name: str, max_waiting: int) -> None:
        self._threads = ThreadPoolExecutor(threads, name)
        self._free = threads
        self._is_shut_down = False
        self._max_waiting = max_waiting
        self._running: dict[str, int] = {}
        self._waiting: dict[str, deque[tuple[Callable[[], Any], Future[Any]]]] = {}
        """Tasks by account; the account whose turn is next is first."""

    @property
    def is_idle(self) -> bool:
        """Whether no task runs or waits."""
        return not self._running and not self._waiting

    def submit(self, account: str, action: Callable[[], T]) -> Future[T] | None:
        """Run an action when it is the account's turn; None after shutdown, or if too many of its tasks wait already.

        A future that is cancelled before its task began leaves the queue.
        """
        if self._is_shut_down:
            return None
        future: Future[T] = Future()
        queue = self._waiting.setdefault(account, deque())
        queue.append((partial(copy_context().run, action), future))
        self._start()
        if len(self._waiting.get(account, ())) > self._max_waiting:
            self._remove(account, future)
            return None
        future.add_done_callback(partial(self._leave, account))  # it must not hold the future, which holds it
        return future

    def refuse_waiting(self, reason: Callable[[], Exception]) -> None:
        """Begin no task that waits: its future fails."""
        queues, self._waiting = self._waiting, {}
        for queue in queues.values():
            for _, future in queue:
                if future.set_running_or_notify_cancel():
                    future.set_exception(reason())

    def shutdown(self) -> None:
        """Let the threads go when their tasks have ended."""
        self._is_shut_down = True
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _leave(self, account: str, done: Future[Any]) -> None:
        if done.cancelled():
            self._remove(account, done)

    def _remove(self, account: str, future: Future[Any]) -> None:
        queue = self._waiting.get(account, deque())
        task = next((entry for entry in queue if entry[1] is future), None)
        if task is not None:
            queue.remove(task)
            if not queue:
                del self._waiting[account]

    def _start(self) -> None:
        while self._free and not self._is_shut_down:
            account = next((name for name in self._waiting if self._running.get(name, 0) < self._free), None)
            if account is None:
                return
            queue = self._waiting.pop(account)
            action, future = queue.popleft()
            if queue:
                self._waiting[account] = queue  # its next turn comes after the others'
            if not future.set_running_or_notify_cancel():
                continue
            self._free -= 1
            self._running[account] = self._running.get(account, 0) + 1
            self._threads.submit(self._run, account, [(action, future)], asyncio.get_running_loop())

    def _run(
        self, account: str, task: list[tuple[Callable[[], T], Future[T]]], loop: asyncio.AbstractEventLoop
    ) -> None:
        """Carry out a task. It is taken out of its list: an error holds this frame and the one that called it."""
        action, future = task.pop()
        try:
            result = action()
        except BaseException as error:  # it belongs to the caller that waits for the future
            self._give_back(account, loop)
            future.set_exception(error)
        else:
            self._give_back(account, loop)
            future.set_result(result)
        finally:
            del action, future  # an error that holds its own future stays, with all that was read before it

    def _give_back(self, account: str, loop: asyncio.AbstractEventLoop) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._end_task, account)

    def _end_task(self, account: str) -> None:
        self._free += 1
        left = self._running[account] - 1
        if left:
            self._running[account] = left
        else:
            del self._running[account]
        self._start()


class GateThreads:
    """Threads for questions, and for what is free. The datasets of one server share them."""

    def __init__(self, questions: int, others: int, max_waiting: int) -> None:
        self.questions = FairPool(questions, "question", max_waiting)
        self.others = FairPool(others, "other", max_waiting)
        self.in_flight = 0
        """Requests whose reply has not left."""

    @property
    def are_idle(self) -> bool:
        """Whether no task runs or waits."""
        return self.questions.is_idle and self.others.is_idle

    def shutdown(self) -> None:
        """Let the threads go when their tasks have ended."""
        self.questions.shutdown()
        self.others.shutdown()


def too_many_requests() -> Busy:
    """Return the refusal of an account whose requests wait already."""
    return Busy(
        "Too many concurrent requests.",
        "This account has reached its limit.",
        "Nothing was charged. Ask again in a moment.",
    )


def forget_exception(waited: "asyncio.Future[T]") -> None:
    """Retrieve the exception of an abandoned future, so that asyncio does not log it."""
    if not waited.cancelled():
        waited.exception()
