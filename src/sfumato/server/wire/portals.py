"""Portals: statements with their values, whose rows leave in parts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sfumato.server.wire.answers import Answer, ReadyStatement
from sfumato.server.wire.sqlstates import violation


@dataclass(slots=True)
class Portal:
    """A statement with its values. It is run, and charged, at most once; its rows leave in as many parts as asked."""

    prepared: ReadyStatement
    values: list[object] = field(repr=False)
    formats: tuple[int, ...]
    answer: Answer | None = field(default=None, repr=False)
    shown: int = 0
    old: bool = False
    """Whether its transaction is over: its name may be given again."""


def formats_of(formats: Sequence[int], count: int) -> tuple[int, ...]:
    """Return one format for each: none given is text for all, one given is for all."""
    if any(one not in (0, 1) for one in formats):
        raise violation("There is no such format.", fatal=False)
    if len(formats) <= 1:
        return (formats[0] if formats else 0,) * count
    if len(formats) != count:
        raise violation(f"{len(formats)} formats are given for {count} values.", fatal=False)
    return tuple(formats)
