"""How a command starts quickly: most of its processor time would otherwise go into loading libraries."""

import gc
import os
import sys
from importlib import import_module

_COMMANDS_WITHOUT_MATRICES = frozenset(
    {"ask", "explain", "sql", "budget", "history", "verify", "requests", "check", "codes", "schema"}
)
"""Commands that multiply no matrices: a thread pool for linear algebra would cost them more than all their work."""
_BEFORE_THE_ENGINE = ("sfumato.approvals", "sfumato.views", "sfumato.release.rendering.encoding")
"""Modules that together load everything between a question and its answer, except an engine."""


def start_quickly(command: str | None) -> None:
    """Load libraries without searching for garbage and without threads for linear algebra; called before any of them.

    Modules are never garbage. The garbage collector starts again with `load_before_engine`, or when the command ends.
    """
    if command in _COMMANDS_WITHOUT_MATRICES:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()


def load_before_engine() -> None:
    """Load what every question needs, and tell the garbage collector to leave it out, also when the process ends.

    An engine is loaded afterwards: its driver checks when the process ends that its own objects were collected.
    """
    for module in _BEFORE_THE_ENGINE:
        import_module(module)
    if "duckdb" not in sys.modules:
        gc.freeze()
    gc.enable()
