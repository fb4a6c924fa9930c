"""The policy file while a server runs: which of its changes count at once, after the owner's word, or at a restart.

A server never records a policy: what the ledger holds as the policy in force, an owner has recorded by a command. A
file that says something else than the policy in force answers nothing until then. A file that cannot be read changes
nothing: the policy before it stays in force, and /ready says so. Proof: proofs/ledger.md
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

from sfumato.errors import BadPolicy, PolicyChanged
from sfumato.policy.canonical import policy_hash
from sfumato.policy.policy import Policy
from sfumato.policy.reading import read_policy

_FOR_RESTART = ("name", "source", "ledger", "server")
"""Keys of a policy that a running server does not take over."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the file says, compared with the policy in force."""

    found: Policy | None
    """None where it cannot be read."""
    is_in_force: bool
    taken_over: Policy | None = None
    """What the server could take over, where it differs."""
    for_restart: tuple[str, ...] = ()
    """Keys that count only after a restart, where they have changed."""


class PolicyWatch:
    """Looks at the file before every question; it is read again only when its size or time has changed."""

    def __init__(self, path: Path, policy: Policy) -> None:
        self._path = path
        self._policy = policy
        self._reading = Lock()
        self._seen = _file_state(path)
        self._last = _Reading(policy, True)

    def check(self) -> None:
        """Refuse if the file says something else than the policy in force."""
        last = self._look()
        if last.found is not None and not last.is_in_force:
            raise PolicyChanged(
                "The policy file has changed since the server read it.",
                "The server answers under a policy that the owner has recorded in the ledger, or not at all.",
                "Nothing was charged. Ask the owner to run `sfumato check POLICY`, or to start the server again.",
            )

    def is_in_force(self) -> bool:
        """Tell whether the file can be read and says what is in force."""
        return self._look().is_in_force

    def is_readable(self) -> bool:
        """Tell whether the file could be read when it last changed."""
        return self._look().found is not None

    def difference(self) -> Policy | None:
        """Return what the file says where the server could take it over; None where there is nothing to take over.

        Another source or ledger, another name and other settings of [server] count after a restart.
        """
        return self._look().taken_over

    def needs_restart(self) -> tuple[str, ...]:
        """Return the keys of the file that count only after a restart, where they have changed."""
        return self._look().for_restart

    def take_over(self, policy: Policy) -> None:
        """Compare the file with this policy from now on: it is in force."""
        with self._reading:
            self._policy = policy
            self._last = self._compare(self._last.found)

    def _look(self) -> _Reading:
        with self._reading:
            version = _file_state(self._path)
            if version != self._seen:
                self._seen = version
                try:
                    found = read_policy(self._path)
                except BadPolicy:
                    found = None
                self._last = self._compare(found)
            return self._last

    def _compare(self, found: Policy | None) -> _Reading:
        now = self._policy
        if found is None:
            return _Reading(None, False)
        for_restart = tuple(name for name in _FOR_RESTART if getattr(found, name) != getattr(now, name))
        if not set(for_restart) <= {"server"}:
            return _Reading(found, False, None, for_restart)
        wanted = replace(found, server=now.server)
        return _Reading(found, policy_hash(found) == policy_hash(now), None if wanted == now else wanted, for_restart)


def _file_state(path: Path) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return (status.st_ino, status.st_mtime_ns, status.st_size)
