"""COVAR, CORR and REGR: pairs (y, x) of which both are present, their sums, squares and products around public offsets.

What AVG and VARIANCE of one of the columns need, over the same rows, is measured once.
"""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.analysis.private_query import Group, RequestedAggregate
from sfumato.language.numbers import multiplied, squared
from sfumato.language.scalar import Scalar
from sfumato.planning.aggregates.average import COUNT_IMPORTANCE
from sfumato.planning.aggregates.centred_sums import Centred, around, bounded, centred, count_of, sum_of_values
from sfumato.planning.aggregates.others import Others, parts_of
from sfumato.planning.aggregates.recipe import Quantity, Recipe
from sfumato.planning.aggregates.variance import Divisor, VarianceColumn
from sfumato.query.functions import Aggregation
from sfumato.query.types import Type

_SUM_IMPORTANCE, _COUNT_IMPORTANCE, _SQUARES_IMPORTANCE = Fraction(1, 4), Fraction(1, 16), Fraction(1, 4)
"""Importance of sums, count and squares; the products have importance 1 (proofs/planning.md, §5)."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """The names of what is measured of pairs, and the grids: N, the sums of x - o and y - p, and of their product."""

    count: str
    x_total: str
    y_total: str
    products: str
    x: Centred
    y: Centred

    @property
    def measured(self) -> tuple[str, ...]:
        """The measurements, in the order of the recipe."""
        return (self.count, self.x_total, self.y_total, self.products)


@dataclass(frozen=True, slots=True)
class CovarianceColumn:
    """With SXY the sum of (x - mean)(y - mean): SXY over its divisor."""

    name: str
    pairs: Pairs
    divisor: Divisor

    @property
    def measured(self) -> tuple[str, ...]:
        """The measurements that it is computed from."""
        return self.pairs.measured

    @property
    def plain(self) -> None:
        """No measurement is it."""
        return None

    @property
    def step(self) -> Fraction:
        """The value of one step of a product."""
        return self.pairs.x.step * self.pairs.y.step


@dataclass(frozen=True, slots=True)
class RegressionColumn:
    """The line through the pairs: the slope SXY/SXX, or the `intercept`: the mean of y less slope times mean of x."""

    name: str
    pairs: Pairs
    x_squares: str
    intercept: bool

    @property
    def measured(self) -> tuple[str, ...]:
        """The measurements that it is computed from."""
        return (*self.pairs.measured, self.x_squares)

    @property
    def plain(self) -> None:
        """No measurement is it."""
        return None

    @property
    def step(self) -> Fraction:
        """The value of one step of y, over one of x for a slope."""
        return self.pairs.y.step if self.intercept else self.pairs.y.step / self.pairs.x.step


@dataclass(frozen=True, slots=True)
class CorrelationColumn:
    """The correlation SXY/√(SXX·SYY), or its `square`."""

    name: str
    pairs: Pairs
    x_squares: str
    y_squares: str
    square: bool

    @property
    def measured(self) -> tuple[str, ...]:
        """The measurements that it is computed from."""
        return (*self.pairs.measured, self.x_squares, self.y_squares)

    @property
    def plain(self) -> None:
        """No measurement is it."""
        return None

    @property
    def step(self) -> Fraction:
        """It has no unit."""
        return Fraction(1)


@dataclass(frozen=True, slots=True)
class _Pair:
    """The quantities of pairs, and how their names become `Pairs`."""

    quantities: tuple[tuple[Quantity, Fraction], ...]
    x: Centred
    y: Centred

    def named(self, count: str, x_total: str, y_total: str, products: str) -> Pairs:
        return Pairs(count, x_total, y_total, products, self.x, self.y)


def covaried(asked: RequestedAggregate, group: Group, others: Others) -> Recipe[CovarianceColumn]:
    """COVAR_POP, COVAR_SAMP and REGR_SXY."""
    pair = _pair(asked, group, others)
    divisor = _DIVISORS[asked.aggregate.function]

    def make(*names: str) -> CovarianceColumn:
        return CovarianceColumn(asked.name, pair.named(*names), divisor)

    return Recipe(pair.quantities, make)


def regressed(asked: RequestedAggregate, group: Group, others: Others) -> Recipe[RegressionColumn]:
    """REGR_SLOPE and REGR_INTERCEPT."""
    pair = _pair(asked, group, others)
    intercept = asked.aggregate.function is Aggregation.REGR_INTERCEPT

    def make(*names: str) -> RegressionColumn:
        return RegressionColumn(asked.name, pair.named(*names[:4]), names[4], intercept)

    _, x = parts_of(asked)
    return Recipe((*pair.quantities, (_squares(x, pair.x, group), _SQUARES_IMPORTANCE)), make)


def correlated(asked: RequestedAggregate, group: Group, others: Others) -> Recipe[CorrelationColumn]:
    """CORR and REGR_R2."""
    pair = _pair(asked, group, others)
    square = asked.aggregate.function is Aggregation.REGR_R2

    def make(*names: str) -> CorrelationColumn:
        return CorrelationColumn(asked.name, pair.named(*names[:4]), names[4], names[5], square)

    y, x = parts_of(asked)
    squares = _squares(x, pair.x, group), _squares(y, pair.y, group)
    return Recipe((*pair.quantities, *((one, _SQUARES_IMPORTANCE) for one in squares)), make)


def squares_of_x(asked: RequestedAggregate, group: Group, others: Others) -> Recipe[VarianceColumn]:
    """REGR_SXX: the squared deviations of x, of the rows where y is present, too."""
    _, x = parts_of(asked)
    grid, argument = centred(x, group, others), bounded(x, group)

    def make(count: str, total: str, squares: str) -> VarianceColumn:
        return VarianceColumn(asked.name, count, total, squares, grid, Divisor.NOTHING, root=False)

    total = sum_of_values(x, around(argument, grid), group)
    return Recipe(
        ((_count(asked), COUNT_IMPORTANCE), (total, Fraction(1)), (_squares(x, grid, group), Fraction(1))), make
    )


def _squares(part: RequestedAggregate, grid: Centred, group: Group) -> Quantity:
    """Return the sum of squares around the offset."""
    return sum_of_values(part, squared(around(bounded(part, group), grid)), group)


_DIVISORS = {
    Aggregation.COVAR_POP: Divisor.ROWS,
    Aggregation.COVAR_SAMP: Divisor.OTHERS,
    Aggregation.REGR_SXY: Divisor.NOTHING,
}


def _count(asked: RequestedAggregate) -> Quantity:
    """Return the number of pairs; where only one of the two can be NULL, it is the count of that one."""
    y, x = parts_of(asked)
    only_y = y.aggregate.arguments[0].facts.nullable and not x.aggregate.arguments[0].facts.nullable
    return count_of(y if only_y else x)


def _product(one: Scalar, other: Scalar) -> Scalar:
    """Return the product of two values, the same in whichever order they come."""
    first, second = sorted((one, other), key=repr)
    alike = first.facts.type is second.facts.type
    return multiplied(first, second, first.facts.type if alike else Type.DECIMAL)


def _pair(asked: RequestedAggregate, group: Group, others: Others) -> _Pair:
    y, x = parts_of(asked)
    arguments = bounded(y, group), bounded(x, group)
    grids = centred(y, group, others), centred(x, group, others)
    above, along = (around(argument, grid) for argument, grid in zip(arguments, grids, strict=True))
    quantities = (
        (_count(asked), _COUNT_IMPORTANCE),
        (sum_of_values(x, along, group), _SUM_IMPORTANCE),
        (sum_of_values(y, above, group), _SUM_IMPORTANCE),
        (sum_of_values(asked, _product(above, along), group), Fraction(1)),
    )
    return _Pair(quantities, grids[1], grids[0])
