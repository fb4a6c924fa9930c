"""Console sessions: a random id in the browser's cookie, everything else in the store of the grants.

The token itself is in no cookie. A session ends at log-out, when a person ends it, when the grant that it began with is
revoked, replaced or expires, when the `[identity]` that it began under has changed, after `session_idle_seconds`
without a request, and after `session_seconds` in all. Servers that share their grants share sessions, too.
"""

from collections.abc import Callable
from hashlib import sha256
from time import time

from sfumato.randomness.identity import fresh_id
from sfumato.randomness.source import Source, system_source
from sfumato.server.grant_stores.stored import Grant, GrantKind, StoredSession
from sfumato.server.grants import Grants

IDLE_SECONDS = 3600.0
LIFETIME_SECONDS = 8 * 3600.0
MAX_SESSIONS = 1024
MAX_SESSIONS_PER_ACCOUNT = 16


class Sessions:
    """The console sessions of one server. They belong to one event loop."""

    def __init__(
        self,
        grants: Grants,
        clock: Callable[[], float] = time,
        source: Source | None = None,
        idle_seconds: float = IDLE_SECONDS,
        seconds: float = LIFETIME_SECONDS,
    ) -> None:
        self._grants = grants
        self._clock = clock
        self._source = source or system_source()
        self._idle_seconds = idle_seconds
        self._seconds = seconds

    @property
    def count(self) -> int:
        """Number of sessions, including expired ones that are not yet removed."""
        return len(self._grants.sessions())

    def begin(self, grant: Grant, address: str = "") -> str:
        """Begin a session and return its id. Where there are too many, the oldest of the account with most ends."""
        now = self._clock()
        sessions = self._grants.sessions()
        ended = [session.key for session in sessions if self._is_over(session, now)]
        running = [session for session in sessions if session.key not in set(ended)]
        own = [session for session in running if _person(session) == _person(grant)]
        if len(own) >= MAX_SESSIONS_PER_ACCOUNT:
            ended.append(own[0].key)
        elif len(running) >= MAX_SESSIONS:
            ended.append(_oldest_of_the_most(running).key)
        if ended:
            self._grants.end_sessions(ended)
        identity = fresh_id(self._source) + fresh_id(self._source)
        began_with = grant.id if grant.kind is GrantKind.TOKEN else ""
        self._grants.begin_session(
            StoredSession(
                *(session_key(identity), grant.account, began_with, grant.person, now, now, address, grant.expires),
                roles=grant.roles,
                identity=grant.identity,
            )
        )
        return identity

    def grant_of(self, identity: str) -> Grant | None:
        """Return whose session this is, or None where it is over."""
        key, now = session_key(identity), self._clock()
        session = self._grants.session(key)
        if session is None:
            return None
        if self._is_over(session, now):
            self._grants.end_sessions([key])
            return None
        self._grants.use_session(key, now)
        return self._grants.session_grant(session)

    def end(self, identity: str) -> None:
        """End a session."""
        self._grants.end_sessions([session_key(identity)])

    def _is_over(self, session: StoredSession, now: float) -> bool:
        used = self._grants.session(session.key)
        last = session.used if used is None else used.used
        expired = now - last >= self._idle_seconds or now - session.began >= self._seconds
        return expired or self._grants.session_grant(session) is None


def _person(one: StoredSession | Grant) -> tuple[str, str]:
    return one.account, one.person


def _oldest_of_the_most(sessions: list[StoredSession]) -> StoredSession:
    by_person: dict[tuple[str, str], list[StoredSession]] = {}
    for session in sessions:
        by_person.setdefault(_person(session), []).append(session)
    return max(by_person.values(), key=len)[0]


def session_key(identity: str) -> str:
    """Return the digest under which a session is stored."""
    return sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
