"""Grants: named tokens and passwords of accounts, stored as digests, and who may come in by them.

They lie in SQLite beside the ledger, or in the database of a PostgreSQL ledger, so that servers share them.

A token is looked up by a digest under a secret of the store, so that no client can choose a digest; the result
is compared in constant time. An unknown user gets a salt that never changes, and a proof that never fits: account names
stay hidden. Proof: proofs/access.md
"""

import hmac
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from time import time

from sfumato.errors import BadParameter, UnknownName, quote_value
from sfumato.policy.canonical import identity_digest
from sfumato.policy.policy import Policy, fold_name
from sfumato.policy.rights import claimed_roles
from sfumato.randomness.source import Source, read_exactly, system_source
from sfumato.server.file_paths import sidecar_path
from sfumato.server.grant_stores.postgres import PostgresGrants
from sfumato.server.grant_stores.sqlite import SqliteGrants
from sfumato.server.grant_stores.stored import (
    DEFAULT_LABEL,
    SECRET_BYTES,
    Grant,
    GrantKind,
    GrantStore,
    StoredAccess,
    StoredSession,
)
from sfumato.server.scram import ITERATIONS, Verifier, make_verifier, no_verifier, salt_of

OWNER = ""
"""The account of the dataset itself: its owner's."""
MAX_GRANTS_PER_PERSON = 32
"""Maximum number of named tokens of one analyst, or of one owner. Every log-in by password tries this many."""
MAX_LABEL_CHARS = 63
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_."
_TOKEN_CHARS, _PASSWORD_CHARS = 43, 32
"""Characters of six bits each, well beyond guessing."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """Token and password, shown once."""

    token: str = field(repr=False)
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Login:
    """A verifier that a password may fit, and the grant if it does; None for a user without access."""

    verifier: Verifier
    grant: Grant | None


@dataclass(frozen=True, slots=True)
class _Access:
    """What was last read, by what it is looked up by."""

    secret: bytes = field(repr=False)
    grants: dict[str, Grant]
    by_token: dict[str, Grant] = field(repr=False)
    sessions: dict[str, StoredSession] = field(repr=False)


class Grants:
    """The grants of one policy. Threads, processes and servers may share them; what one writes the others see.

    In one machine a change counts at once; over PostgreSQL, on other servers within two seconds.
    """

    def __init__(
        self,
        policy: Policy,
        file: Path | None = None,
        source: Source | None = None,
        clock: Callable[[], float] = time,
    ) -> None:
        self._policy = policy
        self._source = source or system_source()
        self._clock = clock
        self._store = _open_store(policy, file)
        self._reading = Lock()
        self._seen: object = None
        self._kept: _Access | None = None
        self._uses: dict[str, float] = {}
        self._session_uses: dict[str, float] = {}

    @property
    def policy(self) -> Policy:
        """The policy whose names count."""
        return self._policy

    def use_policy(self, policy: Policy) -> None:
        """Judge names by another version of the policy from now on."""
        self._policy = policy

    def grant(
        self,
        name: str,
        label: str = DEFAULT_LABEL,
        seconds: float | None = None,
        roles: tuple[str, ...] | None = None,
        identity: str | None = None,
        until: float | None = None,
    ) -> Secrets:
        """Draw a token and a password for an analyst or an owner, in place of those of the same label.

        `OWNER` is the owner without a name. With `seconds` they expire. `roles` and `identity` are those
        of the identity provider's grant that they are drawn with, and `until` is when what they are drawn with ends.
        """
        account, person = self._account(name)
        _check_label(label)
        self._store.create(self._new_secret)
        access = self._current()
        others = [grant for grant in access.grants.values() if (grant.account, grant.person) == (account, person)]
        if len([other for other in others if other.label != label]) >= MAX_GRANTS_PER_PERSON:
            raise BadParameter(
                f"{quote_value(name)} has {MAX_GRANTS_PER_PERSON} tokens.",
                "One person may have no more of them.",
                "Revoke one that is no longer used, or name the one to replace.",
            )
        credentials = Secrets(self._draw_token(_TOKEN_CHARS), self._draw_token(_PASSWORD_CHARS))
        now = self._clock()
        self._store.put_grant(
            Grant(
                account,
                read_exactly(self._source, 16).hex(),
                _digest(access.secret, credentials.token),
                make_verifier(credentials.password, salt_of(access.secret, account)),
                _time_text(now),
                label,
                person,
                min(
                    (end for end in (None if seconds is None else now + seconds, until) if end is not None),
                    default=None,
                ),
                roles=roles,
                identity=identity,
            )
        )
        return credentials

    def revoke(self, name: str, label: str | None = None) -> bool:
        """Take tokens and passwords back, or those of one label; say whether there were any."""
        self._store.create(self._new_secret)
        account, person = self._named_pair(name)
        found = [
            grant.id
            for grant in self._current().grants.values()
            if (grant.account, grant.person) == (account, person) and label in (None, grant.label)
        ]
        sessions = [
            session.key for session in self.sessions() if (session.account, session.person) == (account, person)
        ]
        if label is None:
            self._store.remove_sessions(sessions)
        return bool(self._store.remove_grants(found)) or (label is None and bool(sessions))

    def revoke_ids(self, ids: Iterable[str]) -> int:
        """Take grants back by their ids, and return how many there were."""
        return self._store.remove_grants(ids)

    def of_token(self, token: str) -> Grant | None:
        """Return the grant of a token, or None."""
        access = self._current()
        digest = _digest(access.secret, token)
        grant = access.by_token.get(digest)
        if grant is None or not hmac.compare_digest(grant.token, digest) or not self._counts(grant):
            return None
        self._uses[grant.id] = self._clock()
        return grant

    def of_user(self, user: str) -> tuple[Login, ...]:
        """Return the verifiers that a user's password may fit, always the same number of them.

        A user who is unknown, was revoked or never granted gets verifiers that no password fits. Their salt is that of
        the folded name, as a grant's is: neither spelling, nor a grant, nor its end changes it. The owner's grants have
        no user name.
        """
        access = self._current()
        account = fold_name(user)
        fake = no_verifier(access.secret, account)
        shape = (fake.salt, ITERATIONS)
        logins = [
            Login(grant.verifier, grant)
            for grant in access.grants.values()
            if grant.account == account != OWNER
            and grant.verifier is not None
            and (grant.verifier.salt, grant.verifier.iterations) == shape
            and self._counts(grant)
        ]
        return (*logins[:MAX_GRANTS_PER_PERSON], *[Login(fake, None)] * (MAX_GRANTS_PER_PERSON - len(logins)))

    def note_use(self, grant: Grant) -> None:
        """Note that a grant was used to log in."""
        if grant.kind is GrantKind.TOKEN:
            self._uses[grant.id] = self._clock()

    def stands(self, grant: Grant) -> bool:
        """Tell whether a grant still counts: it was neither revoked nor replaced, and has not expired."""
        if not self._counts(grant):
            return False
        if grant.kind is GrantKind.IDENTITY:
            return True
        access = self._current()
        if grant.kind is GrantKind.SESSION:
            return grant.id in access.sessions
        current = access.grants.get(grant.id)
        return current is not None and current.account == grant.account

    def all(self) -> tuple[Grant, ...]:
        """Return every grant, for the owner to see."""
        return tuple(self._current().grants.values())

    def of_person(self, grant: Grant) -> tuple[Grant, ...]:
        """Return the grants of the person whom a grant belongs to."""
        return tuple(other for other in self.all() if (other.account, other.person) == (grant.account, grant.person))

    def exists(self) -> bool:
        """Whether anything was ever granted."""
        return self._store.exists()

    def sessions(self) -> tuple[StoredSession, ...]:
        """Return every console session, oldest first."""
        return tuple(self._current().sessions.values())

    def session(self, key: str) -> StoredSession | None:
        """Return the session with this key, with its last use here."""
        found = self._current().sessions.get(key)
        if found is None:
            return None
        return replace(found, used=max(found.used, self._session_uses.get(key, found.used)))

    def session_grant(self, session: StoredSession) -> Grant | None:
        """Return the grant of a session, or None where it counts no longer."""
        if session.grant:
            found = self._current().grants.get(session.grant)
            return found if found is not None and self._counts(found) else None
        grant = Grant(
            session.account,
            session.key,
            "",
            None,
            _time_text(session.began),
            "",
            session.person,
            session.expires,
            kind=GrantKind.SESSION,
            roles=session.roles,
            identity=session.identity,
        )
        return grant if self._counts(grant) else None

    def begin_session(self, session: StoredSession) -> None:
        """Store a session."""
        self._store.put_session(session)

    def use_session(self, key: str, now: float) -> None:
        """Note that a session was used."""
        self._session_uses[key] = now

    def end_sessions(self, keys: Iterable[str]) -> int:
        """End sessions, and return how many there were."""
        return self._store.remove_sessions(keys)

    def write_uses(self) -> None:
        """Write down when grants and sessions were last used."""
        uses, self._uses = self._uses, {}
        sessions, self._session_uses = self._session_uses, {}
        self._store.note_uses(uses, sessions)

    def ready(self) -> None:
        """Create the store where there is none, and refuse one that cannot be used."""
        self._store.create(self._new_secret)
        self._store.watch()
        self._current()

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()

    def login_secret(self) -> bytes:
        """Return the secret that authenticates log-ins under way; servers that share their grants share it."""
        return hmac.digest(self._current().secret, b"login", "sha256")

    def use_once(self, key: str, expires: float) -> bool:
        """Note on all servers that something was used; False where it was used before."""
        return self._store.use_once(key, expires, self._clock())

    def identity_grant(
        self,
        name: str,
        since: float,
        expires: float | None,
        claimed: tuple[str, ...] | None = None,
        *,
        identity: str,
    ) -> Grant | None:
        """Return the grant of a person whom the identity provider names; None for a person whom the policy does not.

        `claimed` are the roles that the provider's token names. An analyst none of whose roles it names has no access.
        `identity` is the digest of the provider's settings: where the policy in force names others, nothing counts.
        """
        account, person = self._named_pair(name)
        if not account and not person:
            return None
        roles = None if claimed is None or not account else claimed_roles(self._policy, account, claimed)
        if roles == ():
            return None
        who = account, f"identity {name}", "", None, _time_text(since), "", person, expires
        grant = Grant(*who, kind=GrantKind.IDENTITY, roles=roles, identity=identity)
        return grant if self._counts(grant) else None

    def _named_pair(self, name: str) -> tuple[str, str]:
        """Return the account of a name, and who it is where the account has several people."""
        folded = fold_name(name)
        if folded != OWNER and any(fold_name(owner) == folded for owner in self._policy.owners):
            return OWNER, folded
        return folded, ""

    def _account(self, name: str) -> tuple[str, str]:
        pair = self._named_pair(name)
        if name == OWNER or pair[1] or self._policy.analyst(name) is not None:
            return pair
        known = ", ".join(sorted(other.name for other in self._policy.analysts)[:12])
        raise UnknownName(
            f"There is no analyst {quote_value(name)} in this policy.",
            "An analyst spends from a budget that the owner wrote under [analysts].",
            f"There are: {known}." if known else "The policy names none: add [analysts.NAME] with an epsilon.",
        )

    def _counts(self, grant: Grant) -> bool:
        """Whether a grant has not expired, and the policy in force names its person and how they came in."""
        policy, account = self._policy, grant.account
        if grant.expires is not None and self._clock() >= grant.expires:
            return False
        vouched = grant.kind is not GrantKind.TOKEN or grant.identity is not None
        if vouched and (policy.identity is None or grant.identity != identity_digest(policy.identity)):
            return False
        if account == OWNER:
            return not grant.person or grant.person in map(fold_name, self._policy.owners)
        if policy.analyst(account) is None:
            return False
        if grant.roles is None:  # a person for whom the provider vouches has the roles that it names, or none
            return grant.kind is GrantKind.TOKEN or policy.identity is None or policy.identity.roles is None
        return bool(claimed_roles(policy, account, grant.roles))

    def _draw_token(self, length: int) -> str:
        return "".join(_ALPHABET[byte & 63] for byte in read_exactly(self._source, length))

    def _new_secret(self) -> bytes:
        return read_exactly(self._source, SECRET_BYTES)

    def _current(self) -> _Access:
        """Return the store's content; it is read again when it has changed."""
        with self._reading:
            version = self._store.version()
            if self._kept is None or version != self._seen:
                self._kept = None  # what was read before lets no one in
                self._kept = _by_key(self._store.read())
                self._seen = version
            return self._kept


def _open_store(policy: Policy, file: Path | None) -> GrantStore:
    """Return where the grants of a policy are: in its ledger's database, or in a file beside the ledger."""
    if policy.ledger.path is None:
        return PostgresGrants(policy.ledger.target, lambda: _old_grants(policy, file))
    return SqliteGrants(sidecar_path(policy, "grants", file), sidecar_path(policy, "grants.lock", file))


def _old_grants(policy: Policy, file: Path | None) -> StoredAccess | None:
    """Return what lies beside the policy: grants of version 0.10 or older, or of a restored backup."""
    path = None if file is None else sidecar_path(policy, "grants", file)
    if path is None or not path.exists():
        return None
    return SqliteGrants(path, sidecar_path(policy, "grants.lock", file)).read()


def copy_grants(policy: Policy, file: Path, target: Path) -> None:
    """Write the grants of a policy into a file, for a backup; sessions are not part of it."""
    store = _open_store(policy, file)
    try:
        if store.exists():
            SqliteGrants(target, target.with_name(f"{target.name}.lock")).write(store.read())
    finally:
        store.close()


def _by_key(access: StoredAccess) -> _Access:
    grants = {grant.id: grant for grant in access.grants}
    by_token = {grant.token: grant for grant in access.grants}
    return _Access(access.secret, grants, by_token, {session.key: session for session in access.sessions})


def _digest(secret: bytes, token: str) -> str:
    return hmac.new(secret, b"token " + token.encode("utf-8", "surrogatepass"), "sha256").hexdigest()


def _time_text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _check_label(label: str) -> None:
    if not 0 < len(label) <= MAX_LABEL_CHARS or not label.isprintable() or label != label.strip():
        raise BadParameter(
            f"{quote_value(label)} cannot be the name of a token.",
            f"It has 1 to {MAX_LABEL_CHARS} printable characters, and no blank at either end.",
            "Name what it is for, such as laptop or dashboard.",
        )
