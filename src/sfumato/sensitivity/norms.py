"""How far one unit moves a vector of counts or sums: exact integers, in steps of the public grid.

Every function states what one unit can do, takes the neighbour relation it is derived for, and returns the smallest
L1, squared L2 and L-infinity distances that are never exceeded. Each bound is attained by some pair of neighbours.
The derivations are in proofs/sensitivity.md; its numbering is used below.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor

from sfumato.accounting.event import Neighbours, as_neighbours
from sfumato.errors import BadParameter
from sfumato.exact import integer, positive_rational, rational


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The most that two neighbouring databases can differ by, in grid steps, under one neighbour relation."""

    l1: int
    l2_squared: int
    linf: int
    neighbours: Neighbours

    def __post_init__(self) -> None:
        for name in ("l1", "l2_squared", "linf"):
            object.__setattr__(self, name, integer(getattr(self, name), name, 1))
        object.__setattr__(self, "neighbours", as_neighbours(self.neighbours))
        # ‖v‖∞² ≤ ‖v‖₂² ≤ ‖v‖₁·‖v‖∞ and ‖v‖∞ ≤ ‖v‖₁ hold for every vector, so for the three maxima too.
        if not (self.linf**2 <= self.l2_squared <= self.l1 * self.linf and self.linf <= self.l1):
            raise BadParameter(
                f"l1 = {self.l1}, l2_squared = {self.l2_squared}, linf = {self.linf} contradict each other.",
                "For every vector linf² ≤ l2² ≤ l1·linf.",
                "Derive all three from the same bound on one unit.",
            )

    def group(self, units: int) -> "Sensitivity":
        """What `units` units can do together: the triangle inequality along a chain of neighbours (§7)."""
        units = integer(units, "units", 1)
        return Sensitivity(self.l1 * units, self.l2_squared * units**2, self.linf * units, self.neighbours)


def count(rows_per_unit: int, neighbours: Neighbours) -> Sensitivity:
    """COUNT(*) with any filter: a unit holds 0 … rows_per_unit of the counted rows (§1).

    >>> count(3, Neighbours.REPLACE).l1
    3
    """
    return counts(1, rows_per_unit, neighbours)


def counts(queries: int, rows_per_unit: int, neighbours: Neighbours) -> Sensitivity:
    """Several counting queries together; one unit may be in all of them with all its rows (§2).

    Replace costs no more than add-remove: each count of one unit lies in 0 … rows_per_unit either way.
    """
    queries = integer(queries, "queries", 1)
    rows = integer(rows_per_unit, "rows_per_unit", 1)
    return Sensitivity(queries * rows, queries * rows**2, rows, neighbours)


def histogram(
    rows_per_unit: int, groups_per_unit: int, neighbours: Neighbours, *, rows_per_group: int | None = None
) -> Sensitivity:
    """Counts of disjoint cells: at most `rows_per_unit` rows, in at most `groups_per_unit` cells (§3).

    `rows_per_group` additionally bounds what one unit has in one cell (without it, all its rows may lie in one).

    >>> histogram(1, 1, Neighbours.REPLACE)
    Sensitivity(l1=2, l2_squared=2, linf=1, neighbours=<Neighbours.REPLACE: 'replace'>)
    """
    rows = integer(rows_per_unit, "rows_per_unit", 1)
    groups = integer(groups_per_unit, "groups_per_unit", 1)
    cell = rows if rows_per_group is None else min(rows, integer(rows_per_group, "rows_per_group", 1))
    rows = min(rows, groups * cell)
    full, rest = divmod(rows, cell)  # the squared norm is convex: fill as few cells as possible
    # Counts have one sign, so replacing is at worst leaving some cells and entering others: both norms add.
    sides = 2 if as_neighbours(neighbours) is Neighbours.REPLACE else 1
    return Sensitivity(sides * rows, sides * (full * cell**2 + rest**2), cell, neighbours)


def total(low: object, high: object, step: object, rows_per_unit: int, neighbours: Neighbours) -> Sensitivity:
    """SUM of values in [low, high] on a grid of `step`; a unit has 0 … rows_per_unit values (§4).

    A row may be filtered out or hold no value, so under replace a unit may go from nothing to something: the width
    counts from 0, which is more than high - low when 0 lies outside [low, high]. For exactly one present value per
    unit see `fixed_total`.

    >>> total(5, 10, 1, 1, Neighbours.REPLACE).l1, fixed_total(5, 10, 1, 1, Neighbours.REPLACE).l1
    (10, 5)
    """
    return totals([(low, high)], step, rows_per_unit, neighbours)


def totals(
    bounds: Sequence[tuple[object, object]], step: object, rows_per_unit: int, neighbours: Neighbours
) -> Sensitivity:
    """Several SUMs together, one per pair of bounds, on one grid; one unit's rows count in all of them (§4).

    With grids of their own, bring the columns to steps first: bounds = [(low / step, high / step), …], step = 1.
    """
    if not isinstance(bounds, list | tuple) or not bounds:
        raise BadParameter("bounds is empty or not a list.", "Each sum needs bounds.", "Give one (low, high) per sum.")
    rows = integer(rows_per_unit, "rows_per_unit", 1)
    spans = [_span(*grid_bounds(low, high, step), as_neighbours(neighbours)) for low, high in map(_pair, bounds)]
    moves = [rows * span for span in spans]
    return Sensitivity(sum(moves), sum(move**2 for move in moves), max(moves), neighbours)


def fixed_total(low: object, high: object, step: object, rows_per_unit: int, neighbours: Neighbours) -> Sensitivity:
    """SUM where every unit has exactly `rows_per_unit` present values, none filtered, none absent (§5).

    Only then does a replaced unit move the sum by no more than high - low per row.
    """
    least, greatest = grid_bounds(low, high, step)
    rows = integer(rows_per_unit, "rows_per_unit", 1)
    if as_neighbours(neighbours) is Neighbours.REPLACE:
        move = rows * (greatest - least)
    else:
        move = rows * _span(least, greatest, Neighbours.ADD_REMOVE)
    if move == 0:
        raise BadParameter(
            f"low = high = {low} makes the sum a constant.",
            "A sum that no unit can change is public and needs no noise.",
            "Give low < high, or compute it from the number of units.",
        )
    return Sensitivity(move, move**2, move, neighbours)


def cells(low: object, high: object, step: object, groups_per_unit: int, neighbours: Neighbours) -> Sensitivity:
    """Sums of disjoint cells: a unit adds, in at most `groups_per_unit` cells, something in [low, high] (§6).

    The bounds are those of one unit's total contribution to one cell, after clipping. A cell it does not touch moves
    by 0.

    >>> cells(-1, 1, 1, 1, Neighbours.REPLACE)
    Sensitivity(l1=2, l2_squared=4, linf=2, neighbours=<Neighbours.REPLACE: 'replace'>)
    """
    least, greatest = grid_bounds(low, high, step)
    groups = integer(groups_per_unit, "groups_per_unit", 1)
    most = _span(least, greatest, Neighbours.ADD_REMOVE)
    if as_neighbours(neighbours) is Neighbours.ADD_REMOVE:
        return Sensitivity(groups * most, groups * most**2, most, neighbours)
    width = _span(least, greatest, Neighbours.REPLACE)
    # Staying in a cell with the opposite sign moves it by `width`; leaving it for another moves two by `most`.
    return Sensitivity(2 * groups * most, groups * max(width**2, 2 * most**2), width, neighbours)


def grid_bounds(low: object, high: object, step: object) -> tuple[int, int]:
    """Return low / step and high / step as integers, rounded outwards.

    >>> grid_bounds("0.25", "1.25", "0.5")
    (0, 3)
    """
    unit = positive_rational(step, "step")
    least, greatest = rational(low, "low"), rational(high, "high")
    if least > greatest:
        raise BadParameter(
            f"low = {low} is above high = {high}.",
            "The lower bound must not be above the upper one.",
            "Give low ≤ high, in this order.",
        )
    return floor(least / unit), ceil(greatest / unit)


def _span(least: int, greatest: int, neighbours: Neighbours) -> int:
    """Return the largest change of a sum by one value, which is added, removed or, under replace, exchanged."""
    alone = max(abs(least), abs(greatest))
    span = alone if neighbours is Neighbours.ADD_REMOVE else max(greatest, 0) - min(least, 0)
    if span == 0:
        raise BadParameter(
            "low = high = 0 makes the sum a constant.",
            "A sum that no unit can change is public and needs no noise.",
            "Give bounds that allow a value other than 0.",
        )
    return span


def _pair(bounds: object) -> tuple[object, object]:
    if isinstance(bounds, list | tuple) and len(bounds) == 2:
        return bounds[0], bounds[1]
    raise BadParameter(
        "bounds holds something else than pairs.", "Each sum needs a low and a high.", "Give one (low, high) per sum."
    )
