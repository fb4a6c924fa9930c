"""How far one person moves a measurement, as one vector over all cells of its group.

`cells` is how many cells there are where that is public (1 without keys), else None. Proof: proofs/planning.md, whose
numbering is used below.
"""

from sfumato.accounting.event import Neighbours
from sfumato.analysis.private_query import Contribution
from sfumato.caches import remembered
from sfumato.language.facts import Kind
from sfumato.mechanisms.keys import touched_keys
from sfumato.planning.aggregates.distinct_count import different
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.query.functions import CHOSEN, Aggregation
from sfumato.sensitivity import norms
from sfumato.sensitivity.norms import Sensitivity

SHARED_WEIGHT = 720_720
"""It is divisible by all numbers up to 16; beyond, a row weighs a little less than its share."""


def of_quantity(
    quantity: Quantity, contribution: Contribution, cells: int | None, neighbours: Neighbours
) -> Sensitivity:
    """What is measured, whatever it is."""
    argument = quantity.argument
    if argument is None:
        return of_rows(contribution, cells, neighbours)
    if quantity.function is Aggregation.MATCHED:
        return of_matched_values(quantity, contribution, cells, neighbours)
    if quantity.function in CHOSEN:
        return norms.total(0, weight_of(contribution), 1, 1, neighbours)
    if quantity.function is Aggregation.HISTOGRAM:
        return of_histogram(quantity, contribution, neighbours)
    if quantity.function is Aggregation.SUM:
        return of_sum(contribution, cells, argument.facts.low, argument.facts.high, neighbours)
    if argument.facts.kind is Kind.UNIT and quantity.distinct:
        return of_people(contribution, cells, neighbours)
    if quantity.distinct:
        return of_distinct_values(contribution, cells, different(argument), neighbours)
    return of_rows(contribution, cells, neighbours)


def side_of(quantity: Quantity, cells: int | None, neighbours: Neighbours) -> int | None:
    """How far one row moves a count or sum, or under replace of one cell a row and the one in its place (§9).

    None where that is not how it moves: different values, histograms, choices.
    """
    if quantity.distinct:
        return None
    if quantity.function is Aggregation.COUNT:
        return 1
    if quantity.function is not Aggregation.SUM:
        return None
    facts = quantity.arguments[0].facts
    farthest = max(abs(facts.low), abs(facts.high), 1)
    if cells == 1 and neighbours is Neighbours.REPLACE:
        return max(facts.high, 0) - min(facts.low, 0) or farthest
    return farthest


def moves_of(contribution: Contribution, cells: int | None, neighbours: Neighbours) -> int:
    """How many rows one person moves: under replace each of them leaves one cell and enters another (§9)."""
    return contribution.rows * (1 if cells == 1 or neighbours is Neighbours.ADD_REMOVE else 2)


def of_histogram(quantity: Quantity, contribution: Contribution, neighbours: Neighbours) -> Sensitivity:
    """HISTOGRAM: every row is in one bucket of one cell, and adds 1 to it, or what is added up there (§2, §4)."""
    if len(quantity.arguments) == 1:
        return norms.histogram(contribution.rows, contribution.rows, neighbours)
    facts = quantity.arguments[1].facts
    return of_sum(contribution, None, facts.low, facts.high, neighbours)


def weight_of(contribution: Contribution) -> int:
    """What the rows of one person weigh together where something is chosen: equal parts of it are whole numbers.

    >>> weight_of(Contribution(1, 1, False, False)), weight_of(Contribution(20, 3, False, True)) % 15
    (1, 0)
    """
    return 1 if contribution.rows == 1 else SHARED_WEIGHT


def of_people(contribution: Contribution, cells: int | None, neighbours: Neighbours) -> Sensitivity:
    """COUNT of different people, and whether a cell has any: one person is one in each cell they touch (§1).

    >>> of_people(Contribution(20, 3, False, True), None, Neighbours.REPLACE).l1
    6
    """
    touched = touched_keys(min(contribution.rows, contribution.groups), neighbours)
    return norms.counts(touched if cells is None else min(touched, cells), 1, neighbours)


def of_rows(contribution: Contribution, cells: int | None, neighbours: Neighbours) -> Sensitivity:
    """COUNT of rows, or of the rows where something holds (§2)."""
    if cells == 1:
        return norms.count(contribution.rows, neighbours)
    return norms.histogram(contribution.rows, contribution.groups, neighbours)


def of_distinct_values(
    contribution: Contribution, cells: int | None, different: int | None, neighbours: Neighbours
) -> Sensitivity:
    """COUNT of different values, of which there are `different` at most, where that is public (§3)."""
    most = contribution.rows if different is None else min(contribution.rows, different)
    if cells == 1:
        return norms.count(most, neighbours)
    return norms.histogram(contribution.rows, contribution.groups, neighbours, rows_per_group=most)


def of_matched_values(
    quantity: Quantity, contribution: Contribution, cells: int | None, neighbours: Neighbours
) -> Sensitivity:
    """How many values are served within each limit: in each cell one person moves it by the limit.

    Proof: proofs/matching.md
    """
    limits = sum(int(limit) for limit in quantity.parameters)
    return norms.counts(of_people(contribution, cells, neighbours).l1, limits, neighbours)


@remembered(1024)  # a sum with levels asks for each of them, at every price
def of_sum(contribution: Contribution, cells: int | None, low: int, high: int, neighbours: Neighbours) -> Sensitivity:
    """SUM of integers in [low, high], all of them or the different ones (§4).

    A sum of zeros is no person's secret; it gets the noise of a sum that moves by 1, so that nothing depends on it.

    >>> of_sum(Contribution(2, 2, False, False), None, -1, 1, Neighbours.REPLACE)
    Sensitivity(l1=4, l2_squared=16, linf=4, neighbours=<Neighbours.REPLACE: 'replace'>)
    """
    high = 1 if low == high == 0 else high
    if cells == 1:
        return norms.total(low, high, 1, contribution.rows, neighbours)
    # All rows of a person in one cell are the worst case: then the person adds something in rows · [low, high] to it.
    return norms.cells(contribution.rows * low, contribution.rows * high, 1, 1, neighbours)
