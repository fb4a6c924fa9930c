"""A plan: what is measured in every cell, with which noise, at which price. Data is still untouched."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sfumato.accounting.event import Concentrated, Event, Pure
from sfumato.accounting.gaussian_curve import NoisyVector
from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.private_query import Group, PrivateQuery
from sfumato.language.rel_nodes import noisy_tables
from sfumato.mechanisms.bounded_flow import BoundedFlow
from sfumato.mechanisms.counted_keys import CountedKeys
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.key_rounds import KeyRounds
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.matched_count import MatchedCount
from sfumato.mechanisms.max_norm import MaxNormPart
from sfumato.mechanisms.meetings import Meetings
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.mechanisms.permute_and_flip import PermuteAndFlip
from sfumato.mechanisms.quantiles import Quantiles
from sfumato.mechanisms.renyi_selection import RenyiSelection
from sfumato.mechanisms.spelled_list import SpelledList
from sfumato.mechanisms.top_list import TopList
from sfumato.planning.aggregates.distinct_count import different_values
from sfumato.planning.aggregates.families import OutputColumn
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.bounding.candidates import ContributionBound, candidates_in
from sfumato.planning.derived_measurement import DerivedMeasurement, SumOfSteps
from sfumato.planning.hierarchies import Hierarchy
from sfumato.planning.notes.note import Note
from sfumato.planning.shared_marginals import ContingencyTable
from sfumato.query.functions import Aggregation
from sfumato.sensitivity.norms import Sensitivity

KeySelection = OptimalSelection | RenyiSelection | KeyRounds | CountedKeys | TopList | SpelledList
"""What releases the keys of a group where they are not public, or a few of many."""


@dataclass(frozen=True, slots=True)
class PlannedMeasurement:
    """What is measured in every cell, and the noise it gets: all cells together are one vector of integers."""

    name: str
    """Unique within its group."""
    quantity: Quantity
    sensitivity: Sensitivity
    mechanism: Laplace | Gaussian | MaxNormPart
    bound: ContributionBound | None = None
    """A further bound on each person's contribution; the noise above is that of its last threshold."""
    selected: int | None = None
    """The index of the threshold that was selected; then the noise above is that of this threshold."""

    @property
    def candidates(self) -> ContributionBound | None:
        """Its bound, where the answer selects the threshold."""
        return candidates_in(self.bound)

    @property
    def selection_label(self) -> str:
        """The label of the group that selects its threshold; empty where none is selected."""
        return "" if self.bound is None else self.bound.selection_label

    @property
    def bounds_rows(self) -> bool:
        """Whether its candidate bounds count rows, not amounts."""
        return self.candidates is None or self.candidates.bounds_rows

    @property
    def bounds_groups(self) -> bool:
        """Whether its candidate bounds count groups of a person."""
        return self.candidates is not None and self.candidates.bounds_groups

    @property
    def candidate_bounds(self) -> tuple[Fraction, ...]:
        """The bounds among which one is selected privately: rows, or amounts in the column's own unit."""
        return () if self.candidates is None else tuple(bound * self.bound_step for bound in self.candidates.thresholds)

    @property
    def bound_step(self) -> Fraction:
        """The unit of its candidate bounds: one row, or one grid step of the column."""
        return Fraction(1) if self.bounds_rows else self.quantity.arguments[0].facts.step

    @property
    def buckets(self) -> range | None:
        """The values at which a histogram counts; None where a cell has one integer."""
        if self.quantity.function is not Aggregation.HISTOGRAM:
            return None
        facts = self.quantity.arguments[0].facts
        return range(facts.low, facts.high + 1)


@dataclass(frozen=True, slots=True)
class PlannedSelection:
    """What is chosen in every cell among public buckets or limits; one person moves them by `weight` together.

    Or what finds its own noise: meetings of different people.
    """

    name: str
    """Unique within its group, also among `measured`."""
    quantity: Quantity
    weight: int
    mechanism: Quantiles | PermuteAndFlip | Meetings | MatchedCount | BoundedFlow


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What is measured in one group. `selection` releases the keys where they are not public, or a few of many.

    All but `OptimalSelection`, `RenyiSelection` and `KeyRounds` release with them the numbers of the measurement that
    is called `selecting_measurement`.
    """

    group: Group
    selection: KeySelection | None
    measured: tuple[PlannedMeasurement, ...]
    derived: tuple[OutputColumn, ...]
    chosen: tuple[PlannedSelection, ...] = ()
    selecting_measurement: str | None = None
    vector: tuple[str, ...] = ()
    """The names of measurements that are charged as one: a row moves one of them at most."""
    sums: tuple[SumOfSteps, ...] = ()
    """What columns are made of that is no measurement."""

    @property
    def vector_event(self) -> Event:
        """What the measurements of the vector cost together.

        Proof: proofs/disjoint_conditions.md; proofs/null_counts.md
        """
        together = [one.mechanism for one in self.measured if one.name in self.vector]
        smooth = [one for one in together if isinstance(one, Gaussian)]
        if smooth and len(smooth) < len(together):
            raise AssertionError("a vector has Gaussian noise, or none of it has")
        if smooth:
            moved, variance = dominating(smooth)
            return Concentrated(moved / (2 * variance), smooth[0].neighbours)
        losses = [
            one.joint.epsilon if isinstance(one, MaxNormPart) else Fraction(one.sensitivity) / one.scale
            for one in together
            if isinstance(one, Laplace | MaxNormPart)
        ]
        return Pure(max(losses), together[0].neighbours)

    @property
    def gaussian_parts(self) -> list[NoisyVector]:
        """The Gaussian noise of all measurements, a vector as one part."""
        found = [
            (one.mechanism.sensitivity_squared, one.mechanism.sigma_squared)
            for one in self.measured
            if isinstance(one.mechanism, Gaussian) and one.name not in self.vector
        ]
        vector = [one.mechanism for one in self.measured if one.name in self.vector]
        smooth = [one for one in vector if isinstance(one, Gaussian)]
        return [*found, dominating(smooth)] if smooth else found

    @property
    def is_bound_selection(self) -> bool:
        """Whether a bound is selected here, for other groups; no column shows it."""
        return any(one.selection_label == self.group.label for one in self.measured)

    @property
    def bound_selection_epsilon(self) -> Fraction:
        """What selecting a bound costs, where this group does that."""
        (one,) = self.measured
        return one.mechanism.sensitivity / one.mechanism.scale if isinstance(one.mechanism, Laplace) else Fraction(0)

    @property
    def all_outputs(self) -> tuple[PlannedMeasurement | PlannedSelection, ...]:
        """What is released of every cell, in that order."""
        return (*self.measured, *self.chosen)

    @property
    def threshold_selection(self) -> CountedKeys | None:
        """What released cells by the noisy numbers of `selecting_measurement`, if anything did."""
        if isinstance(self.selection, TopList | SpelledList):
            return self.selection.counted
        return self.selection if isinstance(self.selection, CountedKeys) else None

    @property
    def measured_after_selection(self) -> tuple[PlannedMeasurement, ...]:
        """What is measured after the keys were selected, or without a selection."""
        return tuple(one for one in self.measured if one.name != self.selecting_measurement)

    def most_distinct(self, name: str | None) -> int | None:
        """Return how many different values a measurement can count, where that is public; None for any other."""
        return next((different_values(one.quantity) for one in self.measured if one.name == name), None)

    def steps_of(self, name: str) -> tuple[str, ...]:
        """Return the measurements that a number is the sum of: one of that name alone, or its steps."""
        return tuple(step for step, _ in self.terms_of(name))

    def terms_of(self, name: str) -> tuple[tuple[str, int], ...]:
        """Return the same with the sign that each of them has in the sum."""
        return next((one.terms for one in self.sums if one.name == name), ((name, 1),))

    @property
    def joint_noise_measurements(self) -> tuple[PlannedMeasurement, ...]:
        """The measurements that share their noise, in the order of its sides; there are none, or several."""
        return tuple(one for one in self.measured if isinstance(one.mechanism, MaxNormPart))


def dominating(vector: Sequence[Gaussian]) -> NoisyVector:
    """Return one vector that costs as much as several of which a row moves one at most.

    It moves as little as the least of them, and has the largest loss of them.  Proof: proofs/null_counts.md, 1
    """
    least = min(one.sensitivity_squared for one in vector)
    return least, min(one.sigma_squared * least / one.sensitivity_squared for one in vector)


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is decided before data is read. A free plan (`event` None) measures nothing."""

    private: PrivateQuery
    groups: tuple[GroupPlan, ...]
    loss: PrivacyLoss
    event: Event | None
    tables: tuple[ContingencyTable, ...] = ()
    """The measurements that are margins of one table, and are made consistent."""
    notes: tuple[Note, ...] = ()
    """What is known about the answer before data is read."""
    derived: tuple[DerivedMeasurement, ...] = ()
    """The measurements that are shown as weighted sums of kept cells; the groups of these stand last."""
    hierarchies: tuple[Hierarchy, ...] = ()
    """The measurements that are also made in blocks of an ordered key, and are made consistent."""

    @property
    def combines_groups(self) -> bool:
        """Whether measurements of several of its groups are combined with each other."""
        return bool(self.tables or self.hierarchies)

    @property
    def cohorts(self) -> tuple[str, ...] | None:
        """The cohorts that pay, whose people alone are read; None: all of them."""
        return self.private.cohorts

    def is_derived(self, label: str, name: str) -> bool:
        """Whether a measurement is shown as a weighted sum of kept cells, or of steps."""
        sums = (one for group in self.groups if group.group.label == label for one in group.sums)
        return self.is_combined(label, name) or any(one.name == name for one in sums)

    def is_combined(self, label: str, name: str) -> bool:
        """Whether a measurement is shown as a weighted sum of kept cells."""
        return any((one.label, one.name) == (label, name) for one in self.derived)

    def for_outcome(self) -> "Plan":
        """Return the plan with the groups and measurements that its outcome reads, and the selections of their bounds.

        Of queries that were asked together, each outcome reads its own.
        """
        read: dict[str, set[str]] = {}
        for table in noisy_tables(self.private.outcome):
            read.setdefault(table.table, set()).update(name for name, _ in table.columns)
        groups = [_restrict(group, read[group.group.label]) for group in self.groups if group.group.label in read]
        used = {measurement.selection_label for group in groups for measurement in group.measured}
        selections = [group for group in self.groups if group.is_bound_selection and group.group.label in used]
        return replace(self, groups=(*groups, *selections))


def _restrict(group: GroupPlan, columns: set[str]) -> GroupPlan:
    derived = tuple(one for one in group.derived if one.name in columns)
    used = {name for one in derived for name in one.measured} | {group.selecting_measurement}
    sums = tuple(one for one in group.sums if one.name in used)
    used |= {step for one in sums for step in one.steps}
    measured = tuple(one for one in group.measured if one.name in used)
    return replace(
        group,
        derived=derived,
        measured=measured,
        chosen=tuple(one for one in group.chosen if one.name in used),
        sums=sums,
    )
