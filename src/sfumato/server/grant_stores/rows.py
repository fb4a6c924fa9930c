"""Grants and sessions as rows of a table, and back."""

from collections.abc import Sequence
from typing import Any

from sfumato.server.grant_stores.stored import Grant, StoredSession
from sfumato.server.scram import ITERATIONS, Verifier

GRANT_COLUMNS = (
    *("id", "account", "person", "label", "token", "salt", "iterations", "stored_key", "server_key", "since"),
    *("expires", "used"),
)
SESSION_COLUMNS = ("key", "account", "grant_id", "person", "began", "used", "address", "expires")
NUMBERS = ("iterations", "expires", "used", "began")
NULLABLE = ("expires", "used")


def grant_to_row(grant: Grant) -> tuple[object, ...]:
    """Return a grant in the order of GRANT_COLUMNS."""
    verifier = grant.verifier
    if verifier is None:
        raise AssertionError("what is stored has a password")
    parts = (verifier.salt.hex(), verifier.iterations, verifier.stored_key.hex(), verifier.server_key.hex())
    named = (grant.id, grant.account, grant.person, grant.label, grant.token)
    return (*named, *parts, grant.since, grant.expires, grant.used)


def grant_from_row(row: Sequence[Any]) -> Grant:
    """Read a grant; ValueError or TypeError where it is none."""
    identity, account, person, label, token, salt, iterations, stored, server, since, expires, used = row
    keys = [bytes.fromhex(text) for text in (salt, stored, server)]
    if int(iterations) < ITERATIONS or not keys[0] or [len(key) for key in keys[1:]] != [32, 32] or len(token) != 64:
        raise ValueError
    verifier = Verifier(keys[0], int(iterations), keys[1], keys[2])
    ends = None if expires is None else float(expires)
    return Grant(account, identity, token, verifier, since, label, person, ends, used)


def session_to_row(session: StoredSession) -> tuple[object, ...]:
    """Return a session in the order of SESSION_COLUMNS."""
    times = session.began, session.used
    return (session.key, session.account, session.grant, session.person, *times, session.address, session.expires)


def session_from_row(row: Sequence[Any]) -> StoredSession:
    """Read a session."""
    key, account, grant, person, began, used, address, expires = row
    return StoredSession(key, account, grant, person, float(began), float(used), address, expires)
