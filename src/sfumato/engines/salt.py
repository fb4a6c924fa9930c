"""The secret that decides which rows of a person are kept: 32 bytes beside the ledger, drawn once.

Nothing about privacy hangs on it (proofs/bounded_copy.md holds for every salt); it keeps those who write rows from
choosing which of them count, and opaque ids from being guessed.
"""

import stat
from pathlib import Path

from sfumato.errors import BadSource
from sfumato.randomness.source import Source, read_exactly

SALT_BYTES = 32


def read_or_draw_salt(path: Path, source: Source) -> bytes:
    """Return the salt of this file; draw one where there is none, which is written when the copy is complete."""
    return read_salt(path) if path.exists() else read_exactly(source, SALT_BYTES)


def read_salt(path: Path) -> bytes:
    """Return the salt, or refuse a file that others can read or that is not one."""
    status = path.stat()
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise BadSource(
            "The salt beside the ledger can be read by others.",
            "Anyone who knows the salt can influence which of their rows are kept.",
            "Let only its owner read it (chmod 600 on the file that ends in .salt), or remove it: a new one is drawn.",
        )
    salt = path.read_bytes()
    if len(salt) != SALT_BYTES:
        raise BadSource(
            "The salt beside the ledger is damaged.",
            f"It is {SALT_BYTES} random bytes, written once and never changed.",
            "Restore the file that ends in .salt, or remove it: a new one is drawn and the copy is built again.",
        )
    return salt
