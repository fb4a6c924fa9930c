"""Window functions: their names, and the rows around a row that they read."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum, auto
from fractions import Fraction
from typing import Generic, TypeVar

Part = TypeVar("Part")
Other = TypeVar("Other")


class WindowFunction(StrEnum):
    """Functions that only a window computes; every aggregate may stand there, too."""

    ROW_NUMBER = auto()
    RANK = auto()
    DENSE_RANK = auto()
    PERCENT_RANK = auto()
    CUME_DIST = auto()
    NTILE = auto()
    """`count` says how many tiles."""
    LAG = auto()
    LEAD = auto()
    """The value a number of rows before or after, or the second argument where there is none."""
    FIRST_VALUE = auto()
    LAST_VALUE = auto()
    NTH_VALUE = auto()


NUMBERING = frozenset({WindowFunction.ROW_NUMBER, WindowFunction.RANK, WindowFunction.DENSE_RANK, WindowFunction.NTILE})
SHARES = frozenset({WindowFunction.PERCENT_RANK, WindowFunction.CUME_DIST})
SHIFTS = frozenset({WindowFunction.LAG, WindowFunction.LEAD})
PLACED = frozenset({WindowFunction.FIRST_VALUE, WindowFunction.LAST_VALUE, WindowFunction.NTH_VALUE})


@dataclass(frozen=True, slots=True)
class WindowCall(Generic[Part]):
    """A window function of the values of rows, in whatever language they are; `count` is the number that it takes."""

    function: WindowFunction
    arguments: tuple[Part, ...] = ()
    count: int = 1

    @property
    def parts(self) -> tuple[Part, ...]:
        """Everything that is computed from a row."""
        return self.arguments

    def mapped(self, change: Callable[[Part], Other]) -> "WindowCall[Other]":
        """Return the same function of other values."""
        return WindowCall(self.function, tuple(change(argument) for argument in self.arguments), self.count)

    def written(self, text: Callable[[Part], str]) -> str:
        """Return it as it is printed, `text` printing its values."""
        return f"{self.function}({', '.join([*map(text, self.arguments), str(self.count)])})"


@dataclass(frozen=True, slots=True)
class WindowFrame:
    """Which rows of a partition count: from `start` to `end`, relative to the row; None is as far as there are rows.

    With `rows` the distance is a number of rows; else it is a distance in the one sort key, and 0 means the rows that
    are equal in all sort keys.
    """

    rows: bool = False
    start: Fraction | None = None
    end: Fraction | None = None

    @property
    def whole(self) -> bool:
        """Whether all rows of the partition count."""
        return self.start is None and self.end is None

    @property
    def has_distances(self) -> bool:
        """Whether it reaches a distance in the sort key before or behind the row."""
        return not self.rows and bool(self.start or self.end)

    def __str__(self) -> str:
        ends = ["all" if end is None else str(end) for end in (self.start, self.end)]
        return f"{'rows' if self.rows else 'range'} {ends[0]} to {ends[1]}"


WHOLE_PARTITION = WindowFrame()
UP_TO_CURRENT_ROW = WindowFrame(end=Fraction(0))
"""Frame of an ORDER BY without one: all rows before, and those that are equal."""
