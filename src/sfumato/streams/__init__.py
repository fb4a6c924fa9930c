"""Streams: sums and tables released again after every step, at one charge."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.streams.dashboard import Dashboard, publish
    from sfumato.streams.plans import GaussianSums, PeriodTables, TreeSums, UnboundedSums, WindowEvents
    from sfumato.streams.stream import Released, Stream

__all__ = [
    "Dashboard",
    "GaussianSums",
    "PeriodTables",
    "Released",
    "Stream",
    "TreeSums",
    "UnboundedSums",
    "WindowEvents",
    "publish",
]
_HOMES = {
    "Dashboard": "dashboard",
    "GaussianSums": "plans",
    "PeriodTables": "plans",
    "Released": "stream",
    "Stream": "stream",
    "TreeSums": "plans",
    "UnboundedSums": "plans",
    "WindowEvents": "plans",
    "publish": "dashboard",
}


def __getattr__(name: str) -> object:
    """Import a class when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'sfumato.streams' has no attribute {name!r}")
    return getattr(import_module(f"sfumato.streams.{_HOMES[name]}"), name)
