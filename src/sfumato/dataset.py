"""What the accounts of one open dataset have in common: its snapshot and its ledger."""

import os
from threading import Lock, RLock
from weakref import WeakSet

from sfumato.engines.engine import Engine, Watch
from sfumato.ledger.ledger import Ledger


class SharedDataset:
    """What the accounts of one open dataset have in common. The last handle that is closed lets go of it."""

    def __init__(self, engine: Engine, ledger: Ledger, watch: Watch | None = None) -> None:
        self.engine = engine
        self.ledger = ledger
        self._watch = watch
        self._handles = 0
        self._renew_locks()
        _OPEN.add(self)

    def _renew_locks(self) -> None:
        """Make locks that nobody holds: after a fork, the threads that held them do not exist."""
        self._lock = Lock()
        self._changing = RLock()

    def current(self) -> Engine:
        """Return the current snapshot: another process may have taken one since the last question."""
        if self._watch is not None and self._changing.acquire(
            blocking=False
        ):  # who comes meanwhile asks the one before
            try:
                newer = self._watch.newer(self.engine.version, self.ledger.identity)
                if newer is not None:
                    self.replace(newer)
            finally:
                self._changing.release()
        return self.engine

    def known(self) -> str | None:
        """Return the id of the snapshot that answers, unless another one may have taken its place."""
        return None if self._watch is not None and self._watch.moved() else self.engine.version

    def take(self) -> None:
        """Count one more handle."""
        with self._lock:
            self._handles += 1

    def replace(self, engine: Engine) -> None:
        """Answer from another snapshot from now on; questions that are under way keep theirs."""
        with self._changing, self._lock:
            before, self.engine = self.engine, engine
        before.retire()

    def leave(self) -> None:
        """Count one handle less."""
        with self._lock:
            self._handles -= 1
            last = self._handles == 0
        if last:
            self.engine.close()
            self.ledger.close()


_OPEN: WeakSet[SharedDataset] = WeakSet()


def _after_fork() -> None:
    for dataset in list(_OPEN):
        dataset._renew_locks()


os.register_at_fork(after_in_child=_after_fork)
