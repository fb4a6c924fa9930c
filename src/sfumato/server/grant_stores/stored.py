"""What is stored of a grant and of a console session, and what a store of them does."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from sfumato.errors import GrantsDamaged
from sfumato.server.scram import Verifier

DEFAULT_LABEL = "default"
"""Name of a token that was granted without one."""
SECRET_BYTES = 32


class GrantKind(StrEnum):
    """How a caller logged in."""

    TOKEN = "token"  # noqa: S105 - a kind, not a token
    """A token or password that was granted, which is stored."""
    SESSION = "session"
    """A session of the console that began without a stored token."""
    IDENTITY = "identity"
    """A signed token of the identity provider, which is not stored."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The right to use one account, until it expires or is revoked."""

    account: str
    id: str
    """Random; another one after the account was granted again. A connection that came in by an old one is over."""
    token: str = field(repr=False)
    """The keyed digest of the token; empty where it is not stored."""
    verifier: Verifier | None
    since: str
    """When it was granted, in UTC."""
    label: str = DEFAULT_LABEL
    """The name that its user gave it, such as `laptop`."""
    person: str = ""
    """Who it is where an account has several people, as the owner's has; empty for an analyst."""
    expires: float | None = None
    """Seconds since 1970; None where it does not expire."""
    used: float | None = field(default=None, compare=False)
    """When it was last used, up to a minute late; None where it never was."""
    kind: GrantKind = GrantKind.TOKEN
    roles: tuple[str, ...] | None = None
    """Folded names of the roles that the identity provider gave its person; None where the policy alone decides."""
    identity: str | None = None
    """Digest of the `[identity]` section under which the provider vouched for its person; None where none did."""

    @property
    def who(self) -> str:
        """The name for the audit log: the account, or the owner with a name."""
        return f"owner:{self.person}" if self.person and not self.account else self.account


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session of the console. The browser holds its id, and the store only a digest."""

    key: str
    """SHA-256 of its id, in hexadecimal digits."""
    account: str
    grant: str
    """Id of the grant that it began with; empty where the identity provider vouched for it."""
    person: str
    began: float
    used: float
    address: str
    expires: float | None = None
    roles: tuple[str, ...] | None = None
    identity: str | None = None


@dataclass(frozen=True, slots=True)
class StoredAccess:
    """Everything that a store holds."""

    secret: bytes = field(repr=False)
    """Keys the digests of tokens and the salts of passwords."""
    grants: tuple[Grant, ...] = ()
    sessions: tuple[StoredSession, ...] = ()


class GrantStore(Protocol):
    """A store of grants and sessions that threads, processes and servers share. Every change is durable at once."""

    def create(self, secret: Callable[[], bytes]) -> None:
        """Create what is missing; do nothing where it exists."""

    def exists(self) -> bool:
        """Whether it was ever created."""

    def version(self) -> object:
        """Return what changes with the content; it is cheap. Refuse where the store cannot be used."""

    def read(self) -> StoredAccess:
        """Return the content."""

    def put_grant(self, grant: Grant) -> None:
        """Add a grant in place of those of the same account, person and label."""

    def remove_grants(self, ids: Iterable[str]) -> int:
        """Remove grants and their sessions; return how many grants there were."""

    def put_session(self, session: StoredSession) -> None:
        """Add a session."""

    def remove_sessions(self, keys: Iterable[str]) -> int:
        """Remove sessions, and return how many there were."""

    def note_uses(self, grants: Mapping[str, float], sessions: Mapping[str, float]) -> None:
        """Write when grants and sessions were last used, by id and key."""

    def use_once(self, key: str, expires: float, now: float) -> bool:
        """Note that something was used, until it expires; False where it was used before, or too much is noted."""

    def watch(self) -> None:
        """Look for changes of others from now on, without delaying the caller of `version`."""

    def close(self) -> None:
        """Let go of files and connections. Closing twice is fine."""


def grants_damaged(why: str, remedy: str = "Remove the file that ends in .grants, and grant again.") -> GrantsDamaged:
    """Return the refusal of grants that cannot be used."""
    return GrantsDamaged("The grants beside the ledger cannot be used.", why, remedy)
