"""The policy file while a server runs: which of its changes count at once, after the owner's word, or at a restart.

A server never records a policy: what the ledger holds as the policy in force, an owner has recorded by a command. A
file that says something else than the policy in force answers nothing until then. A file that cannot be read changes
nothing: the policy before it stays in force, and /ready says so. Proof: proofs/ledger.md
"""

import os
from dataclasses import replace
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
        self._found: Policy | None = policy
        """What the file says; None where it cannot be read."""

    def check(self) -> None:
        """Refuse if the file says something else than the policy in force."""
        found = self._look()
        if found is not None and not self._is_same(found):
            raise PolicyChanged(
                "The policy file has changed since the server read it.",
                "The server answers under a policy that the owner has recorded in the ledger, or not at all.",
                "Nothing was charged. Ask the owner to run `sfumato check POLICY`, or to start the server again.",
            )

    def is_in_force(self) -> bool:
        """Tell whether the file can be read and says what is in force."""
        found = self._look()
        return found is not None and self._is_same(found)

    def is_readable(self) -> bool:
        """Tell whether the file could be read when it last changed."""
        return self._look() is not None

    def difference(self) -> Policy | None:
        """Return what the file says where the server could take it over; None where there is nothing to take over.

        Another source or ledger, another name and other settings of [server] count after a restart.
        """
        found, now = self._look(), self._policy
        if found is None or not self._is_here(found):
            return None
        wanted = replace(found, server=now.server)
        return None if wanted == now else wanted

    def needs_restart(self) -> tuple[str, ...]:
        """Return the keys of the file that count only after a restart, where they have changed."""
        found, now = self._look(), self._policy
        if found is None:
            return ()
        names = ("name", "source", "ledger", "server")
        return tuple(name for name in names if getattr(found, name) != getattr(now, name))

    def take_over(self, policy: Policy) -> None:
        """Compare the file with this policy from now on: it is in force."""
        with self._reading:
            self._policy, self._hash = policy, policy_hash(policy)

    def _look(self) -> Policy | None:
        with self._reading:
            version = _seen(self._path)
            if version != self._seen:
                self._seen = version
                try:
                    self._found = read_policy(self._path)
                except BadPolicy:
                    self._found = None
            return self._found

    def _is_here(self, found: Policy) -> bool:
        now = self._policy
        return (found.name, found.source, found.ledger) == (now.name, now.source, now.ledger)

    def _is_same(self, found: Policy) -> bool:
        return self._is_here(found) and policy_hash(found) == self._hash


def _seen(path: Path) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return (status.st_ino, status.st_mtime_ns, status.st_size)
