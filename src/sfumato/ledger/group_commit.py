"""Group commit: many threads wait, one of them works for all.

The first thread leads: it takes all waiting tasks, in the order of their arrival, and does them together. Threads that
come meanwhile wait, and the first of them leads next. There is no separate thread that could die or be lost in a fork,
and no thread is overtaken.
"""

from collections.abc import Callable
from threading import Event as Signal
from threading import Lock

from sfumato.ledger.transaction import LedgerTransaction

Task = Callable[[LedgerTransaction], object]


class Turn:
    """A task that waits, and what came of it."""

    __slots__ = ("abandoned", "leads", "result", "signal", "task")

    def __init__(self, task: Task) -> None:
        self.task = task
        self.result: object = None
        self.signal = Signal()
        """Set when the task is done, or when this one shall lead."""
        self.leads = False
        self.abandoned = False
        """No thread waits for the result any more."""


class Turns:
    """Queue of ledger tasks; one thread commits all waiting tasks in one transaction.

    `work` does a list of them and sets all their results, also when it fails.
    """

    def __init__(self, work: Callable[[list[Turn]], None]) -> None:
        self._work = work
        self._mutex = Lock()
        self._waiting: list[Turn] = []
        self._led = False

    def take(self, turn: Turn) -> None:
        """Have a task done, by this thread or another. If waiting is interrupted, the turn is marked as abandoned."""
        with self._mutex:
            self._waiting.append(turn)
            turn.leads, self._led = not self._led, True
        try:
            if not turn.leads:
                turn.signal.wait()
            if turn.leads:
                self._lead()
        except BaseException:
            self._leave(turn)
            raise

    def _lead(self) -> None:
        with self._mutex:
            turns, self._waiting = self._waiting, []
        try:
            self._work(turns)
        finally:
            with self._mutex:
                self._hand_over()
            for turn in turns:
                turn.signal.set()

    def _hand_over(self) -> None:
        self._led = bool(self._waiting)
        if self._waiting:
            self._waiting[0].leads = True
            self._waiting[0].signal.set()

    def _leave(self, turn: Turn) -> None:
        with self._mutex:
            turn.abandoned = True
            if turn in self._waiting:
                self._waiting.remove(turn)
                if turn.leads:
                    self._hand_over()
