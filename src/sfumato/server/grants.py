"""Grants: one token and one password per account, stored as digests in a file that only its owner can read.

The file lies beside the ledger, or beside the policy where the ledger is on a server. Servers on several machines over
one PostgreSQL ledger have a file each, and a grant counts where it was given.

A token is looked up by a digest under a secret of this file, so that no client can choose a digest; the result
is compared in constant time. An unknown user gets a salt that never changes, and a proof that never fits: account names
stay hidden.
"""

import hmac
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from sfumato.errors import GrantsDamaged, UnknownName, quote_value
from sfumato.policy.policy import Policy, fold_name
from sfumato.randomness.source import Source, read_exactly, system_source
from sfumato.secure_files import FileLock, write_atomically
from sfumato.server.file_paths import sidecar_path
from sfumato.server.scram import ITERATIONS, Verifier, make_verifier, no_verifier, salt_of

OWNER = ""
"""The account of the dataset itself: its owner's."""
_FORMAT_VERSION = 1
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_."
_TOKEN_CHARS, _PASSWORD_CHARS = 43, 32
"""Characters of six bits each, well beyond guessing."""
_MAX_GRANTS_FILE_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class Secrets:
    """Token and password, shown once."""

    token: str = field(repr=False)
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Grant:
    """Stored digests of one account's token and password."""

    account: str
    id: str
    """Random; another one after the account was granted again. A connection that came in by an old one is over."""
    token: str = field(repr=False)
    """The keyed digest of the token."""
    verifier: Verifier
    since: str


@dataclass(frozen=True, slots=True)
class _StoredGrants:
    """The file as it was last read."""

    secret: bytes = field(repr=False)
    grants: dict[str, Grant]
    by_token: dict[str, Grant] = field(repr=False)


class Grants:
    """The grants of one policy. Threads and processes may share the file; what one writes the others see at once."""

    def __init__(self, policy: Policy, file: Path | None = None, source: Source | None = None) -> None:
        self._policy = policy
        self._source = source or system_source()
        self._path, self._lock_path = sidecar_path(policy, "grants", file), sidecar_path(policy, "grants.lock", file)
        self._reading = Lock()
        self._seen: tuple[int, ...] | None = None
        self._kept: _StoredGrants | None = None

    def grant(self, name: str) -> Secrets:
        """Draw a token and a password for an account, in place of those before. `OWNER` is the owner's own."""
        account = self._account(name)
        credentials = Secrets(self._drawn(_TOKEN_CHARS), self._drawn(_PASSWORD_CHARS))

        def add(secret: bytes, grants: dict[str, Grant]) -> None:
            verifier = make_verifier(credentials.password, salt_of(secret, account))
            identity, now = read_exactly(self._source, 16).hex(), datetime.now(UTC).isoformat(timespec="seconds")
            grants[account] = Grant(account, identity, _digest(secret, credentials.token), verifier, now)

        self._change(add)
        return credentials

    def revoke(self, name: str) -> bool:
        """Take token and password back; say whether there were any."""
        account = fold_name(name)
        removed: list[Grant] = []

        def remove(_: bytes, grants: dict[str, Grant]) -> None:
            removed.extend([grants.pop(account)] if account in grants else [])

        self._change(remove)
        return bool(removed)

    def of_token(self, token: str) -> Grant | None:
        """Return the grant of a token, or None."""
        stored = self._current()
        digest = _digest(stored.secret, token)
        grant = stored.by_token.get(digest)
        if grant is None or not hmac.compare_digest(grant.token, digest):
            return None
        return grant if self._is_named(grant.account) else None

    def of_user(self, user: str) -> tuple[Verifier, Grant | None]:
        """Return the verifier of a user's password, and the grant if it fits; None for a user without access.

        A user who is unknown, was revoked or never granted gets a verifier that no password fits. Its salt is that of
        the folded name, as a grant's is: neither spelling, nor a grant, nor its end changes it. The owner's grant has
        no user name.
        """
        stored = self._current()
        account = fold_name(user)
        grant = stored.grants.get(account) if account != OWNER and self._is_named(account) else None
        nobody = no_verifier(stored.secret, account)
        return (nobody, None) if grant is None else (grant.verifier, grant)

    def stands(self, grant: Grant) -> bool:
        """Tell whether a grant still counts: it was neither revoked nor replaced."""
        current = self._current().grants.get(grant.account)
        return current is not None and hmac.compare_digest(current.id, grant.id) and self._is_named(grant.account)

    def all(self) -> tuple[Grant, ...]:
        """Return every grant, for the owner to see."""
        return tuple(self._current().grants.values())

    def ready(self) -> None:
        """Create the file where there is none, and refuse one that cannot be used."""
        with self._held():
            if not self._path.exists():
                self._write(read_exactly(self._source, 32), {})
        self._current()

    def _account(self, name: str) -> str:
        if name == OWNER or self._policy.analyst(name) is not None:
            return fold_name(name)
        known = ", ".join(sorted(other.name for other in self._policy.analysts)[:12])
        raise UnknownName(
            f"There is no analyst {quote_value(name)} in this policy.",
            "An analyst spends from a budget that the owner wrote under [analysts].",
            f"There are: {known}." if known else "The policy names none: add [analysts.NAME] with an epsilon.",
        )

    def _is_named(self, account: str) -> bool:
        return account == OWNER or self._policy.analyst(account) is not None

    def _drawn(self, length: int) -> str:
        return "".join(_ALPHABET[byte & 63] for byte in read_exactly(self._source, length))

    def _change(self, change: Callable[[bytes, dict[str, Grant]], None]) -> None:
        with self._held():
            secret, grants = read_exactly(self._source, 32), {}
            if self._path.exists():
                stored = self._current()
                secret, grants = stored.secret, dict(stored.grants)
            change(secret, grants)
            self._write(secret, grants)

    @contextmanager
    def _held(self) -> Iterator[None]:
        try:
            lock = FileLock(self._lock_path)
        except OSError:
            lock = None
        if lock is None:
            raise _damaged("The folder in which they lie cannot be written to.")
        try:
            with lock.held():
                yield
        finally:
            lock.close()

    def _write(self, secret: bytes, grants: dict[str, Grant]) -> None:
        content = {
            "format": _FORMAT_VERSION,
            "secret": secret.hex(),
            "grants": [_to_json(grant) for grant in grants.values()],
        }
        try:
            write_atomically(self._path, json.dumps(content, indent=1).encode())
            return
        except OSError:
            pass  # the system's words hold the path
        raise _damaged("They cannot be written.")

    def _current(self) -> _StoredGrants:
        """Return the file's content; it is read again when it has changed, and a change counts at once."""
        with self._reading:
            try:
                status = os.stat(self._path)
                version = (status.st_ino, status.st_mtime_ns, status.st_size, status.st_ctime_ns)
                if self._kept is None or version != self._seen:
                    self._kept = None  # nobody comes in by what was read before
                    self._kept = _read(self._path)
                    self._seen = version
                return self._kept
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                self._kept = None
        raise _damaged("Their file is missing, or not what was written.")


def _digest(secret: bytes, token: str) -> str:
    return hmac.new(secret, b"token " + token.encode("utf-8", "surrogatepass"), "sha256").hexdigest()


def _read(path: Path) -> _StoredGrants:
    with path.open("rb") as stream:
        if stat.S_IMODE(os.fstat(stream.fileno()).st_mode) & 0o077:
            raise _damaged("Their file can be read by others.", "Let only its owner read it (chmod 600), then go on.")
        data = json.loads(stream.read(_MAX_GRANTS_FILE_BYTES))
    if data["format"] != _FORMAT_VERSION:
        raise ValueError
    grants = [_from_json(entry) for entry in data["grants"]]
    secret = bytes.fromhex(data["secret"])
    if len(secret) != 32:
        raise ValueError
    return _StoredGrants(secret, {grant.account: grant for grant in grants}, {grant.token: grant for grant in grants})


def _to_json(grant: Grant) -> dict[str, object]:
    return {
        "account": grant.account,
        "id": grant.id,
        "token": grant.token,
        "salt": grant.verifier.salt.hex(),
        "iterations": grant.verifier.iterations,
        "stored_key": grant.verifier.stored_key.hex(),
        "server_key": grant.verifier.server_key.hex(),
        "since": grant.since,
    }


def _from_json(data: dict[str, str]) -> Grant:
    salt, stored, server = (bytes.fromhex(data[key]) for key in ("salt", "stored_key", "server_key"))
    iterations = int(data["iterations"])
    if iterations < ITERATIONS or not salt or len(stored) != 32 or len(server) != 32:
        raise ValueError
    verifier = Verifier(salt, iterations, stored, server)
    return Grant(str(data["account"]), str(data["id"]), str(data["token"]), verifier, str(data["since"]))


def _damaged(why: str, remedy: str = "Remove the file that ends in .grants, and grant again.") -> GrantsDamaged:
    return GrantsDamaged("The grants beside the ledger cannot be used.", why, remedy)
