"""The ways to measure what was asked, before any price: cells, quantities, and splits of a price among them."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sfumato.analysis.private_query import Group, PrivateQuery
from sfumato.language.rel_nodes import ProjectNode
from sfumato.planning.bounding.selection import selects_a_bound, with_candidate_bounds
from sfumato.planning.bounding.total_bounds import with_total_bounds
from sfumato.planning.disjoint_conditions import with_vector
from sfumato.planning.hierarchies import Hierarchy
from sfumato.planning.hierarchy_choice import blocked_needs
from sfumato.planning.key_selection import select_keys_at_bound
from sfumato.planning.marginal_budget_split import balance_marginals, split_measurements, weight_marginals
from sfumato.planning.measurements import MeasurementSet, needs_of
from sfumato.planning.nested_conditions import with_steps
from sfumato.planning.null_counts import WITH_NULL_COUNTS
from sfumato.planning.outside_cells import with_outside_cells
from sfumato.planning.range_strategies import OrderedSum
from sfumato.planning.shared_marginals import ContingencyTable, common_tables, has_large_table, with_remainder_cells
from sfumato.planning.top_lists import with_top_lists


@dataclass(frozen=True, slots=True)
class Asked:
    """What decides, beside the query, what is measured: nothing of it is a price."""

    margins_before_data: bool
    within: bool
    weights: tuple[tuple[str, Fraction], ...]
    outcomes: tuple[ProjectNode, ...]
    split: tuple[tuple[str, str, Fraction], ...] | None = None

    @property
    def fixed(self) -> tuple[bool, bool]:
        """The part that decides it for a query that is asked alone."""
        return self.margins_before_data, self.within


@dataclass(frozen=True, slots=True)
class Needs:
    """All that is measured, with one split of the price, and the same where the largest cells are found as a list."""

    every: tuple[MeasurementSet, ...]
    lists: tuple[MeasurementSet, ...]


@dataclass(frozen=True, slots=True)
class Ways:
    """One way to measure what was asked, whatever it may cost: the usual split, and perhaps balanced ones."""

    usual: Needs
    balanced: tuple[Needs, ...]
    """For Laplace and for Gaussian noise; none where no table is common."""
    tables: tuple[ContingencyTable, ...]
    choices: tuple[MeasurementSet, ...]
    """The selections of bounds."""
    steps: "Ways | None" = None
    """The same with conditions that contain others measured as steps."""
    null_counts: tuple["Ways", ...] = ()
    """The same with rows where a column is NULL counted by themselves."""
    hierarchies: tuple[Hierarchy, ...] = ()
    blocks: tuple[tuple["Ways", Mapping[str, tuple[OrderedSum, ...]]], ...] = ()
    """The same with ordered keys measured in blocks, too, and the sums that are shown of the cells of each group."""
    preferred: dict[Hashable, int | None] = field(default_factory=dict, compare=False)
    """Which of these is the best, by the rounded wish."""


class KnownNeeds:
    """What the plans of one query measure, before any price: each way is found when a price first needs it.

    It is of the first kind of price that was planned, because the bytes of a question are counted then.
    """

    def __init__(self) -> None:
        self.fixed: tuple[bool, bool] | None = None
        """Whether margins are fixed, and named; None as long as nothing was planned."""
        self.cells: tuple[tuple[Group, ...], ...] = ()
        """The groups with and without the cell of what lies outside: an answer given either way is still found."""
        self._found: dict[int, tuple[Ways, ...]] = {}
        self._large: tuple[tuple[Ways, ...], ...] | None = None
        self._private: PrivateQuery
        self._asked: Asked

    def begin(self, private: PrivateQuery, asked: Asked) -> "KnownNeeds":
        """Find the cells of a query."""
        groups = with_remainder_cells(private.groups)
        wider = groups if asked.margins_before_data else with_outside_cells(groups)
        self.cells = (groups,) if wider == groups else (wider, groups)
        self._private, self._asked, self.fixed = private, asked, asked.fixed
        return self

    def ways_of(self, place: int) -> tuple[Ways, ...]:
        """Return the ways to measure the cells at a place, the preferred first."""
        found = self._found.get(place)
        if found is None:
            found = self._found[place] = _ways_of(self._private, self.cells[place], self._asked)
        return found

    @property
    def ways(self) -> tuple[tuple[Ways, ...], ...]:
        """All ways to measure, by their cells, the preferred first."""
        found = tuple(map(self.ways_of, range(len(self.cells))))
        if self._large is None:
            self._large = self._of_large_table(found)
        return (*self._large, *found)

    def _of_large_table(self, found: tuple[tuple[Ways, ...], ...]) -> tuple[tuple[Ways, ...], ...]:
        private, asked = self._private, self._asked
        if asked.margins_before_data or asked.within or not has_large_table(private.groups):
            return ()
        if any(way.usual.lists != way.usual.every for ways in found for way in ways):
            return ()  # a few of many cells are found with less noise than all of them
        # what was answered up to version 0.14, without the common table, in the last place
        return (_ways_of(private, with_remainder_cells(private.groups, large=True), asked, large=True),)


def known_needs(private: PrivateQuery, asked: Asked, known: KnownNeeds | None) -> KnownNeeds:
    """Return what is known of a query, or begin anew where that is of another kind of price."""
    if known is not None and known.fixed in (None, asked.fixed):
        return known if known.fixed is not None else known.begin(private, asked)
    return KnownNeeds().begin(private, asked)


def _ways_of(
    private: PrivateQuery, groups: tuple[Group, ...], asked: Asked, *, large: bool = False
) -> tuple[Ways, ...]:
    fixed = asked.margins_before_data or asked.within or asked.split is not None
    needs = tuple(needs_of(group, private.neighbours, fixed=fixed) for group in groups)
    needs, choices = with_candidate_bounds(needs, private.neighbours)
    better = tuple(with_vector(select_keys_at_bound(need), private.neighbours) for need in needs)
    way = _way(private, better, choices, asked, large=large)
    stepped = tuple(with_steps(need, private.neighbours) for need in better)
    if stepped != better and len(needs) == 1 and not fixed:
        way = replace(way, steps=_way(private, stepped, choices, asked, large=large))
    if len(needs) == 1 and not fixed:
        counted = [tuple(count(need, private.neighbours) for need in better) for count in WITH_NULL_COUNTS]
        ways = [_way(private, each, choices, asked, large=large) for each in counted if each != better]
        way = replace(way, null_counts=tuple(ways))
    if not (fixed or choices or way.tables or private.first):
        found = blocked_needs(way.usual.every, private.groups, asked.outcomes, private.neighbours)
        blocks = (
            (Ways(Needs(one.needs, one.needs), (), (), (), hierarchies=one.hierarchies), one.sums) for one in found
        )
        way = replace(way, blocks=tuple(blocks))
    # keys selected by people, and conditions measured each by itself, in the last place, as above
    return (way,) if better == needs else (way, _way(private, needs, choices, asked, large=large))


def _way(
    private: PrivateQuery,
    needs: tuple[MeasurementSet, ...],
    choices: tuple[MeasurementSet, ...],
    asked: Asked,
    *,
    large: bool,
) -> Ways:
    tables = common_tables(needs, large=large)
    if not asked.margins_before_data:  # a stream cuts no person off over all its periods
        needs = with_total_bounds(needs, tables, private.neighbours)
    weights = dict(asked.weights)
    needs = _with_weights(needs, weights)
    splits = [weight_marginals(needs, tables)]
    if asked.split:
        splits = [split_measurements(needs, asked.split, power) for power in (2, 2, 1)]
    elif tables and not asked.margins_before_data and not asked.within:
        splits += [balance_marginals(needs, tables, weights, power) for power in (2, 1)]
    usual, *balanced = (_with_lists(private, each, tables, asked) for each in splits)
    return Ways(usual, tuple(balanced), tables, choices)


def _with_lists(
    private: PrivateQuery, needs: tuple[MeasurementSet, ...], tables: tuple[ContingencyTable, ...], asked: Asked
) -> Needs:
    lists = with_top_lists(needs, asked.outcomes, tables, private.neighbours)
    # a list is found by noise that is known before; where a level is chosen, all cells are measured at it
    pairs = zip(needs, lists, strict=True)
    return Needs(needs, tuple(need if selects_a_bound(need) else other for need, other in pairs))


def _with_weights(needs: tuple[MeasurementSet, ...], weights: Mapping[str, Fraction]) -> tuple[MeasurementSet, ...]:
    """Return the needs, with the errors of each group counted as often as its weight says."""
    return tuple(
        replace(
            need,
            measurements=tuple(replace(one, importance=one.importance * weight) for one in need.measurements),
        )
        if (weight := weights.get(need.group.label, Fraction(1))) != 1
        else need
        for need in needs
    )
