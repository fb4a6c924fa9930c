"""Grants and sessions as rows of a table, and back."""

import json
from collections.abc import Sequence
from typing import Any

from sfumato.server.grant_stores.stored import Grant, StoredSession
from sfumato.server.scram import ITERATIONS, Verifier

GRANT_COLUMNS = (
    *("id", "account", "person", "label", "token", "salt", "iterations", "stored_key", "server_key", "since"),
    *("expires", "used", "roles", "identity"),
)
SESSION_COLUMNS = ("key", "account", "grant_id", "person", "began", "used", "address", "expires", "roles", "identity")
ONCE_COLUMNS = ("key", "expires")
"""Digests of what counts once: states of log-ins and exchanged tokens of the identity provider."""
NUMBERS = ("iterations", "expires", "used", "began")
NULLABLE = ("expires", "used", "roles", "identity")
MAX_ONCE_ROWS = 65_536
"""Maximum number of digests that are kept until they expire."""


def grant_to_row(grant: Grant) -> tuple[object, ...]:
    """Return a grant in the order of GRANT_COLUMNS."""
    verifier = grant.verifier
    if verifier is None:
        raise AssertionError("what is stored has a password")
    parts = (verifier.salt.hex(), verifier.iterations, verifier.stored_key.hex(), verifier.server_key.hex())
    named = (grant.id, grant.account, grant.person, grant.label, grant.token)
    return (*named, *parts, grant.since, grant.expires, grant.used, _roles_text(grant.roles), grant.identity)


def grant_from_row(row: Sequence[Any]) -> Grant:
    """Read a grant; ValueError or TypeError where it is none."""
    identity, account, person, label, token, salt, iterations, stored, server, since, *more = row
    expires, used, roles, vouched = more
    keys = [bytes.fromhex(text) for text in (salt, stored, server)]
    if int(iterations) < ITERATIONS or not keys[0] or [len(key) for key in keys[1:]] != [32, 32] or len(token) != 64:
        raise ValueError
    verifier = Verifier(keys[0], int(iterations), keys[1], keys[2])
    ends = None if expires is None else float(expires)
    given = {"roles": _read_roles(roles), "identity": vouched}
    return Grant(account, identity, token, verifier, since, label, person, ends, used, **given)


def session_to_row(session: StoredSession) -> tuple[object, ...]:
    """Return a session in the order of SESSION_COLUMNS."""
    times = session.began, session.used
    who = session.key, session.account, session.grant, session.person
    return (*who, *times, session.address, session.expires, _roles_text(session.roles), session.identity)


def session_from_row(row: Sequence[Any]) -> StoredSession:
    """Read a session."""
    key, account, grant, person, began, used, address, expires, roles, vouched = row
    times = float(began), float(used)
    return StoredSession(key, account, grant, person, *times, address, expires, _read_roles(roles), vouched)


def _roles_text(roles: tuple[str, ...] | None) -> str | None:
    return None if roles is None else json.dumps(list(roles))


def _read_roles(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    found = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(role, str) for role in found):
        raise ValueError
    return tuple(found)
