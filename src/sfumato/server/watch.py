"""The policy file while a server runs: one that says something else than when it started is not in force here."""

import os
from pathlib import Path
from threading import Lock

from sfumato.errors import BadPolicy, PolicyChanged
from sfumato.policy.canonical import policy_hash
from sfumato.policy.policy import Policy
from sfumato.policy.reading import read_policy


class PolicyWatch:
    """Looks at the file before every question; it is read again only when its size or time has changed."""

    def __init__(self, path: Path, policy: Policy) -> None:
        self._path = path
        self._policy = policy
        self._hash = policy_hash(policy)
        self._reading = Lock()
        self._seen = _seen(path)
        self._changed = False

    def check(self) -> None:
        """Refuse if the file no longer says what this server was started with."""
        with self._reading:
            version = _seen(self._path)
            if version != self._seen:
                self._seen, self._changed = version, not self._is_same()
            changed = self._changed
        if changed:
            raise PolicyChanged(
                "The policy file has changed since the server was started.",
                "The server answers under the policy that it was started with, or not at all.",
                "Nothing was charged. Ask the owner to start the server again.",
            )

    def _is_same(self) -> bool:
        try:
            now = read_policy(self._path)
        except BadPolicy:
            return False
        places = (now.source, now.ledger) == (self._policy.source, self._policy.ledger)
        return places and policy_hash(now) == self._hash


def _seen(path: Path) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return (status.st_ino, status.st_mtime_ns, status.st_size)
