"""The key of a sealed database: 32 bytes in a file, from which every other key is derived  [RFC 5869]."""

import os
import stat
from pathlib import Path
from typing import NoReturn

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sfumato.errors import BadParameter, WrongKey, quote_value
from sfumato.randomness.source import read_exactly, system_source

KEY_BYTES = 32
_SALT = b"sfumato sealed 1"


class Key:
    """A secret of 32 bytes that cannot be printed, pickled or copied."""

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if not isinstance(secret, bytes | bytearray) or len(secret) != KEY_BYTES:
            raise WrongKey(
                "The key is not 32 bytes long.", "Every other key is derived from 32 random bytes.", "Use create_key."
            )
        self._secret = bytes(secret)

    def derive(self, *labels: str) -> bytes:
        """Return the 32-byte key of these labels; different labels have unrelated keys."""
        try:
            texts = [str.encode(label) for label in labels]
        except (TypeError, UnicodeEncodeError):
            raise BadParameter(
                "A label is not text.", "Keys are derived from text labels.", "Give each label as a str."
            ) from None
        encoded = b"".join(len(text).to_bytes(8, "big") + text for text in texts)
        return HKDF(hashes.SHA256(), KEY_BYTES, _SALT, len(labels).to_bytes(8, "big") + encoded).derive(self._secret)

    def __repr__(self) -> str:
        return "<key>"

    def _no_copy(self, *_: object) -> NoReturn:
        raise BadParameter(
            "A key was asked for a copy of itself.",
            "A pickled or copied key is not protected.",
            "Read the key from its file where it is needed: sfumato.sealed.keys.read_key.",
        )

    __reduce__ = __copy__ = __deepcopy__ = _no_copy


def create_key(path: str | os.PathLike[str]) -> None:
    """Write a new key atomically, readable by its owner only; refuse an existing file."""
    try:
        target = Path(path)
        aside = target.with_name(f".{target.name}.{os.getpid()}.aside")
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(read_exactly(system_source(), KEY_BYTES))
                stream.flush()
                os.fsync(stream.fileno())
            os.link(aside, target)  # fails if the name is taken, where a rename would replace a key in use
        finally:
            aside.unlink()
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except FileExistsError:
        raise BadParameter(
            f"{quote_value(str(path))} exists already.",
            "Writing over a key makes everything that was sealed with it unreadable.",
            "Choose another name, or read this key.",
        ) from None
    except (OSError, TypeError, ValueError):  # no name of a file, or none that can be written
        raise BadParameter(
            f"The key could not be written to {quote_value(str(path))}.",
            "The folder is missing, or may not be written to.",
            "Name a file in a folder of yours, outside the store.",
        ) from None


def read_key(path: str | os.PathLike[str], label: str = "") -> Key:
    """Read a key; refuse a file that others can read, or that is no key. Messages repeat the path, or `label`."""
    name = label or f"at {quote_value(str(path))}"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except (OSError, TypeError, ValueError):
        raise WrongKey(
            f"There is no key {name}.",
            "Without it nothing that was sealed can be read.",
            "Name the key's file in [sealed], or make one with create_key.",
        ) from None
    try:
        status = os.fstat(descriptor)
        content = os.read(descriptor, KEY_BYTES + 1) if stat.S_ISREG(status.st_mode) else b""
    finally:
        os.close(descriptor)
    if stat.S_IMODE(status.st_mode) & 0o077 and stat.S_ISREG(status.st_mode):
        raise WrongKey(
            f"The key {name} can be read by others.",
            "Anyone who can read both the key and the store can read the data.",
            "Make it readable by its owner only: chmod 600.",
        )
    if len(content) != KEY_BYTES:
        raise WrongKey(
            f"The file of the key {name} is not a key.",
            "A key is 32 bytes, as create_key writes them.",
            "Name the right file in [sealed].",
        )
    return Key(content)
