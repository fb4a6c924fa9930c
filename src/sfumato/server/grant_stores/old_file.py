"""Grants of version 0.10 and older: one JSON file with one token and one password per account."""

import json
from pathlib import Path

from sfumato.server.grant_stores.stored import SECRET_BYTES, Grant, StoredAccess
from sfumato.server.scram import ITERATIONS, Verifier

_FORMAT_VERSION = 1
_MAX_FILE_BYTES = 1 << 26


def read_old_file(path: Path) -> StoredAccess:
    """Read such a file; OSError, ValueError, KeyError, TypeError or RecursionError where it is none."""
    with path.open("rb") as stream:
        data = json.loads(stream.read(_MAX_FILE_BYTES))
    if data["format"] != _FORMAT_VERSION:
        raise ValueError
    secret = bytes.fromhex(data["secret"])
    if len(secret) != SECRET_BYTES:
        raise ValueError
    return StoredAccess(secret, tuple(_grant(entry) for entry in data["grants"]))


def _grant(data: dict[str, str]) -> Grant:
    salt, stored, server = (bytes.fromhex(data[key]) for key in ("salt", "stored_key", "server_key"))
    iterations = int(data["iterations"])
    if iterations < ITERATIONS or not salt or len(stored) != 32 or len(server) != 32:
        raise ValueError
    verifier = Verifier(salt, iterations, stored, server)
    return Grant(str(data["account"]), str(data["id"]), str(data["token"]), verifier, str(data["since"]))
