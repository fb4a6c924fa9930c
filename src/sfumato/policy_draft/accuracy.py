"""Estimate of a budget's use: the number of tables of counts and the margin of each."""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting.calibrate import most_queries
from sfumato.accounting.event import Neighbours, Pure
from sfumato.accounting.filter import Filter
from sfumato.mechanisms.laplace import Laplace
from sfumato.sensitivity.norms import count

SHARE = 20
"""A typical question is one that takes a twentieth of the budget."""
LEVEL = Fraction(95, 100)


@dataclass(frozen=True, slots=True)
class BudgetEstimate:
    """Number of tables at this price, whose counts are each within `margin` of the truth with 95 % confidence."""

    tables: int
    epsilon: Fraction
    margin: int


def estimate_budget_use(epsilon: Fraction, delta: Fraction, rows: int, neighbours: Neighbours) -> BudgetEstimate:
    """Return how far a budget reaches when `rows` rows of one person count and each question takes a twentieth.

    >>> estimate_budget_use(Fraction(2), Fraction(0), 10, Neighbours.ADD_REMOVE)
    BudgetEstimate(tables=20, epsilon=Fraction(1, 10), margin=300)
    """
    query_epsilon = epsilon / SHARE
    tables = most_queries(Filter(epsilon, delta), Pure(query_epsilon, neighbours))
    return BudgetEstimate(tables, query_epsilon, _table_margin(query_epsilon, rows, neighbours))


def count_margin(epsilon: Fraction, rows: int, neighbours: Neighbours) -> int:
    """Return the margin of one count of rows at this price, when `rows` rows of one person count.

    >>> count_margin(Fraction(1, 10), 10, Neighbours.REPLACE)
    300
    """
    moved = count(rows, neighbours).l1
    return Laplace(moved, moved / epsilon, neighbours).margin(LEVEL)


def _table_margin(query_epsilon: Fraction, rows: int, neighbours: Neighbours) -> int:
    moved = rows if neighbours is Neighbours.ADD_REMOVE else 2 * rows
    return Laplace(moved, moved / query_epsilon, neighbours).margin(LEVEL)
