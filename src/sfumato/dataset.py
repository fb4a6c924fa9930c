"""What the accounts of one open dataset have in common: its snapshot and its ledger."""

from threading import Lock

from sfumato.engines.engine import Engine
from sfumato.ledger.ledger import Ledger


class SharedDataset:
    """What the accounts of one open dataset have in common. The last handle that is closed lets go of it."""

    def __init__(self, engine: Engine, ledger: Ledger) -> None:
        self.engine = engine
        self.ledger = ledger
        self._handles = 0
        self._lock = Lock()

    def take(self) -> None:
        """Count one more handle."""
        with self._lock:
            self._handles += 1

    def replace(self, engine: Engine) -> None:
        """Answer from another snapshot from now on; questions that are under way keep theirs."""
        with self._lock:
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
