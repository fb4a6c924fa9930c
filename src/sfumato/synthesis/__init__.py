"""Synthetic tables: marginals are measured once; rows, counts and SQL answers with stated error are free."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.synthesis.domain import Range
    from sfumato.synthesis.sql_answers import Answer
    from sfumato.synthesis.synthesize import synthesize, synthesize_table
    from sfumato.synthesis.synthetic import Marginal, Synthetic

__all__ = ["Answer", "Marginal", "Range", "Synthetic", "synthesize", "synthesize_table"]
_HOMES = {
    "Answer": "sql_answers",
    "Marginal": "synthetic",
    "Range": "domain",
    "Synthetic": "synthetic",
    "synthesize_table": "synthesize",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used; `synthesize` is a file of that name, which can be called."""
    if name == "synthesize":
        return import_module("sfumato.synthesis.synthesize")
    if name not in _HOMES:
        raise AttributeError(f"module 'sfumato.synthesis' has no attribute {name!r}")
    return getattr(import_module(f"sfumato.synthesis.{_HOMES[name]}"), name)
