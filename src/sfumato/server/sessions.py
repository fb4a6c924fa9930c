"""Console sessions: a random id in the browser's cookie, everything else here. The token itself is in no cookie.

A session ends at log-out, when its grant is revoked or replaced, after an hour without a request, after eight hours in
all, and with the server.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from time import monotonic

from sfumato.randomness.identity import fresh_id
from sfumato.randomness.source import Source, system_source
from sfumato.server.grants import Grant, Grants

IDLE_SECONDS = 3600.0
LIFETIME_SECONDS = 8 * 3600.0
MAX_SESSIONS = 1024
MAX_SESSIONS_PER_ACCOUNT = 16


@dataclass(slots=True)
class _Session:
    grant: Grant
    began: float
    used: float


class Sessions:
    """The console sessions of one server. They belong to one event loop."""

    def __init__(self, grants: Grants, clock: Callable[[], float] = monotonic, source: Source | None = None) -> None:
        self._grants = grants
        self._clock = clock
        self._source = source or system_source()
        self._sessions: dict[bytes, _Session] = {}
        """By the digest of their id, oldest first."""

    @property
    def count(self) -> int:
        """Number of sessions, including expired ones that are not yet removed."""
        return len(self._sessions)

    def begin(self, grant: Grant) -> str:
        """Begin a session and return its id. Where there are too many, the oldest of the account with most ends."""
        now = self._clock()
        for key in [key for key, session in self._sessions.items() if self._is_over(session, now)]:
            del self._sessions[key]
        own = [key for key, session in self._sessions.items() if session.grant.account == grant.account]
        if len(own) >= MAX_SESSIONS_PER_ACCOUNT:
            del self._sessions[own[0]]
        elif len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[self._oldest_of_the_most()]
        identity = fresh_id(self._source) + fresh_id(self._source)
        self._sessions[_digest(identity)] = _Session(grant, now, now)
        return identity

    def grant_of(self, identity: str) -> Grant | None:
        """Return whose session this is, or None where it is over."""
        key, now = _digest(identity), self._clock()
        session = self._sessions.get(key)
        if session is None:
            return None
        if self._is_over(session, now):
            del self._sessions[key]
            return None
        session.used = now
        return session.grant

    def end(self, identity: str) -> None:
        """End a session."""
        self._sessions.pop(_digest(identity), None)

    def _is_over(self, session: _Session, now: float) -> bool:
        expired = now - session.used >= IDLE_SECONDS or now - session.began >= LIFETIME_SECONDS
        return expired or not self._grants.stands(session.grant)

    def _oldest_of_the_most(self) -> bytes:
        by_account: dict[str, list[bytes]] = {}
        for key, session in self._sessions.items():
            by_account.setdefault(session.grant.account, []).append(key)
        return max(by_account.values(), key=len)[0]


def _digest(identity: str) -> bytes:
    return sha256(identity.encode("utf-8", "surrogatepass")).digest()
