"""Sealed databases: the store sees no plaintext, only cells of padded size, and adds up ciphertexts."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.sealed.ashe import Ashe
    from sfumato.sealed.database import Batch, SealedDatabase, open_sealed, rotate, seal
    from sfumato.sealed.keys import Key, create_key, read_key
    from sfumato.sealed.padding import Padding
    from sfumato.sealed.providers import Bfv, Paillier, Provider
    from sfumato.sealed.shares import PolyaShare
    from sfumato.sealed.split import Padkeeper, Storekeeper, combine

__all__ = [
    "Ashe",
    "Batch",
    "Bfv",
    "Key",
    "Padding",
    "Padkeeper",
    "Paillier",
    "PolyaShare",
    "Provider",
    "SealedDatabase",
    "Storekeeper",
    "combine",
    "create_key",
    "open_sealed",
    "read_key",
    "rotate",
    "seal",
]
_HOMES = {
    "Ashe": "ashe",
    "Batch": "batches",
    "Bfv": "providers",
    "Key": "keys",
    "Padding": "padding",
    "Padkeeper": "split",
    "Paillier": "providers",
    "PolyaShare": "shares",
    "Provider": "providers",
    "SealedDatabase": "database",
    "Storekeeper": "split",
    "combine": "split",
    "create_key": "keys",
    "open_sealed": "database",
    "read_key": "keys",
    "rotate": "database",
    "seal": "database",
}


def __getattr__(name: str) -> object:
    """Load a public class when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'sfumato.sealed' has no attribute {name!r}")
    return getattr(import_module(f"sfumato.sealed.{_HOMES[name]}"), name)
