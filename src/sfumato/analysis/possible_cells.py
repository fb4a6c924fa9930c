"""The public values of scalars, found when a key needs them: most columns of a condition are no keys."""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain

from sfumato.analysis.private_query import Cell

Computation = tuple[object, ...]
"""A scalar without its facts."""
KnownCells = tuple[Cell, ...] | None
"""The values of a scalar, sorted; None where they are not public or too many."""


class DeferredCells:
    """Values that are found when they are first asked for, and once: those before, and what a condition leaves."""

    __slots__ = ("_before", "_cells", "_find")

    def __init__(self, find: Callable[[KnownCells], KnownCells], before: "DeferredCells | None" = None) -> None:
        self._find: Callable[[KnownCells], KnownCells] | None = find
        self._before = before
        self._cells: KnownCells = None

    def resolve(self) -> KnownCells:
        """Return the values. A long chain of conditions needs no recursion."""
        waiting, first = list[DeferredCells](), self
        while first._find is not None and first._before is not None:
            waiting.append(first)
            first = first._before
        cells = first._resolve_after(None)
        for node in reversed(waiting):
            cells = node._resolve_after(cells)
        return cells

    def _resolve_after(self, before: KnownCells) -> KnownCells:
        if self._find is not None:
            self._cells = self._find(before)
            self._find = self._before = None
        return self._cells


class PossibleCells(Mapping[Computation, tuple[Cell, ...]]):
    """The public values of scalars, by their computation."""

    __slots__ = ("_known", "too_many")

    def __init__(
        self, known: Mapping[Computation, KnownCells | DeferredCells], too_many: frozenset[Computation] = frozenset()
    ) -> None:
        self._known = known
        self.too_many = too_many
        """The scalars that have more declared values than an answer shows, unless a condition leaves few of them."""

    def __getitem__(self, scalar: Computation) -> tuple[Cell, ...]:
        """Return the values; what turns out not to be public is not there."""
        found = self._known[scalar]
        cells = found.resolve() if isinstance(found, DeferredCells) else found
        if cells is None:
            raise KeyError(scalar)
        return cells

    def __iter__(self) -> Iterator[Computation]:
        """Give the scalars whose values may be public."""
        return iter(self._known)

    def __len__(self) -> int:
        """Return of how many scalars the values may be public."""
        return len(self._known)

    def may_have(self, scalar: Computation) -> bool:
        """Whether the values of a scalar may be public; they are not looked for."""
        return scalar in self._known

    def narrowed(self, scalar: Computation, find: Callable[[KnownCells], KnownCells]) -> "PossibleCells":
        """Return them with what `find` leaves of the values of one scalar; it is given None where none are known."""
        found = self._known.get(scalar)
        before = found if isinstance(found, DeferredCells) else DeferredCells(lambda _: found)
        return PossibleCells({**self._known, scalar: DeferredCells(find, before)}, self.too_many)

    @staticmethod
    def merged(*several: "PossibleCells") -> "PossibleCells":
        """Return those of several relations as one."""
        known = dict(chain.from_iterable(cells._known.items() for cells in several))
        return PossibleCells(known, frozenset().union(*(cells.too_many for cells in several)))
