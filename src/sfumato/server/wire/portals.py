"""Portals: statements with their values, whose rows leave in parts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sfumato.server.quota import Holding
from sfumato.server.wire.answers import Answer, ReadyStatement
from sfumato.server.wire.sqlstates import violation
from sfumato.server.wire.values import read_value


@dataclass(slots=True)
class Portal:
    """A bound statement that is run and charged at most once and sends its rows in batches."""

    prepared: ReadyStatement
    values: list[object] = field(repr=False)
    formats: tuple[int, ...]
    holding: Holding = field(repr=False)
    """The memory of its statement and values."""
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


def read_values(values: Sequence[bytes | None], types: Sequence[int], formats: Sequence[int]) -> list[object]:
    """Return the values of parameters as they were sent in text or in binary."""
    return [
        None if value is None else read_value(value, oid, form == 1, f"${number}")
        for number, (value, oid, form) in enumerate(zip(values, types, formats, strict=True), 1)
    ]
