"""A database whose store sees no plaintext: cells of padded size, sums of ciphertexts, noise at the gate."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.sealed.ashe import Ashe
    from sfumato.sealed.keys import Key, create_key, read_key
    from sfumato.sealed.padding import Padding
    from sfumato.sealed.shares import PolyaShare

__all__ = ["Ashe", "Key", "Padding", "PolyaShare", "create_key", "read_key"]
_HOMES = {
    "Ashe": "ashe",
    "Key": "keys",
    "Padding": "padding",
    "PolyaShare": "shares",
    "create_key": "keys",
    "read_key": "keys",
}


def __getattr__(name: str) -> object:
    """Load a public class when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'sfumato.sealed' has no attribute {name!r}")
    return getattr(import_module(f"sfumato.sealed.{_HOMES[name]}"), name)
