"""sfumato: a differentially private statistical database."""

from importlib import import_module
from typing import TYPE_CHECKING

from sfumato.errors import Refusal

if TYPE_CHECKING:
    from sfumato.database import Database
    from sfumato.notebook import load_ipython_extension
    from sfumato.opening import open
    from sfumato.planning.quote import Quote
    from sfumato.release.release import Release
    from sfumato.server.client import connect

__version__ = "0.15.0"
__all__ = ["Database", "Quote", "Refusal", "Release", "__version__", "connect", "load_ipython_extension", "open"]


if not TYPE_CHECKING:  # else a type checker takes every name for one of ours

    def __getattr__(name: str) -> object:
        """Import the database when it is first used: `import sfumato` and the command line's help come at once."""
        homes = {
            "Database": "database",
            "Quote": "planning.quote",
            "Release": "release.release",
            "connect": "server.client",
            "load_ipython_extension": "notebook",
            "open": "opening",
        }
        if name not in homes:
            raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
        return getattr(import_module(f"sfumato.{homes[name]}"), name)
