"""Portals: statements with their values, whose rows leave in parts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sfumato.server.quota import Holding
from sfumato.server.wire.ready import Answer, ReadyStatement
from sfumato.server.wire.sqlstates import WireError, too_large, violation
from sfumato.server.wire.values import read_value

MAX_PORTALS = 100
"""Maximum number of open portals of a session."""


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


class Portals:
    """The portals of one session, by name."""

    def __init__(self) -> None:
        self._portals: dict[str, Portal] = {}
        self.clear = self._portals.clear

    def known(self, name: str) -> Portal:
        """Return a portal that there is."""
        found = self._portals.get(name)
        if found is None:
            raise WireError("34000", f'portal "{name[:63]}" does not exist')
        return found

    def check_new(self, name: str) -> None:
        """Refuse a name that is taken, or one portal too many."""
        known = self._portals.get(name)
        if name and known is not None and not known.old:
            raise WireError("42P03", f'cursor "{name[:63]}" already exists')
        if len(self._portals) >= MAX_PORTALS and name not in self._portals:
            for old in [key for key, portal in self._portals.items() if portal.old]:
                del self._portals[old]
            if len(self._portals) >= MAX_PORTALS:
                raise too_large("Too many portals are open.", "Close some.")

    def open(self, name: str, portal: Portal) -> None:
        """Keep a portal; the one without a name is replaced by the next."""
        self._portals[name] = portal

    def close(self, name: str) -> None:
        """Let go of a portal, if there is one of this name."""
        self._portals.pop(name, None)

    def end_transaction(self) -> None:
        """Let the names be given again."""
        for portal in self._portals.values():
            portal.old = True


def formats_of(formats: Sequence[int], count: int) -> tuple[int, ...]:
    """Return one format for each: none given is text for all, one given is for all."""
    if any(code not in (0, 1) for code in formats):
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
