"""Whether a server can answer now: ledger, snapshot, disk, policy and certificate. No check reads a row of people."""

import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from time import monotonic

from sfumato.database import Database
from sfumato.errors import Refusal
from sfumato.server.tls import CertificateFiles
from sfumato.server.watch import PolicyWatch

MIN_FREE_BYTES = 64 << 20
"""Free space beside the ledger below which a server is not ready."""
_CACHE_SECONDS = 1.0
"""Seconds for which a result is given again: requests without a grant cannot keep the ledger busy."""


class Readiness:
    """The checks of one server. Threads may share it."""

    def __init__(
        self,
        database: Callable[[], Database],
        folder: Path,
        watch: PolicyWatch | None = None,
        certificate: CertificateFiles | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._database = database
        self._folder = folder
        self._watch = watch
        self._certificate = certificate
        self._clock = clock
        self._checking = Lock()
        self._known: tuple[float, dict[str, bool]] | None = None

    def checks(self) -> dict[str, bool]:
        """Return each check by name, and whether it holds."""
        with self._checking:
            if self._known is None or self._clock() - self._known[0] >= _CACHE_SECONDS:
                self._known = self._clock(), self._check()
            return dict(self._known[1])

    def _check(self) -> dict[str, bool]:
        database = self._database()
        return {
            "ledger": _holds(database.payer.ledger.require_ready),
            "snapshot": _holds(lambda: database.version),
            "disk": _free_bytes(self._folder) >= MIN_FREE_BYTES,
            "policy": self._watch is None or self._watch.is_in_force(),
            "certificate": self._certificate is None or self._certificate.is_valid,
        }


def _free_bytes(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def _holds(check: Callable[[], object]) -> bool:
    try:
        check()
    except Refusal:
        return False
    return True
