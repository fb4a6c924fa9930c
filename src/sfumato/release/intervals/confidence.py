"""Error bars: for every number of an answer what the true number may be, at any level. They cover what the noise does.

A column that is a weighted sum of noisy integers has the margin of that sum's law; a ratio has Fieller's set, inside
what it can be; anything else the ends that follow from a box around all noisy numbers that it depends on.
Proof: proofs/intervals.md
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from math import ceil, floor, isfinite

import numpy as np

from sfumato.engines.post_processing.values import Values
from sfumato.language.facts import Facts, Kind
from sfumato.language.interval_ends import IntervalSide, ResolvedEnds, resolve_ends
from sfumato.language.rel_nodes import (
    FilterNode,
    Item,
    JoinNode,
    LimitNode,
    MarkJoinNode,
    ProjectNode,
    nodes,
    noisy_tables,
)
from sfumato.language.scalar import Operator, Scalar, columns_read
from sfumato.planning.aggregates.average import AverageColumn
from sfumato.planning.aggregates.count import CountColumn
from sfumato.planning.aggregates.families import OutputColumn
from sfumato.planning.aggregates.sum import SumColumn
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.planning.top_lists import is_a_list
from sfumato.release.decode import EngineValue
from sfumato.release.estimates import estimates
from sfumato.release.intervals.computed_rows import ComputedRows, as_places, compute, numbered
from sfumato.release.intervals.extension import unknown
from sfumato.release.intervals.forms import NEVER, Affine, NoiseForm, Number, Opaque, Truth
from sfumato.release.intervals.measured_cells import Indices, measured_cells
from sfumato.release.intervals.noise_law import Floats
from sfumato.release.intervals.propagation import SPREAD, Layers, TopForms
from sfumato.release.intervals.row_forms import Evaluate
from sfumato.release.intervals.tracing import Traced, trace
from sfumato.release.intervals.unforeseen import or_open
from sfumato.release.marginal_consistency import ConsistentMarginal, consistent, shown_cells
from sfumato.release.noisy import NoisyResult

Rounding = Callable[[float], int | float]
Bar = tuple[EngineValue, EngineValue]
"""The ends of an interval as an engine keeps them; None is an unbounded side."""

LEVEL = Fraction(95, 100)
"""The level of intervals where none is asked for."""
_MAX_REMEMBERED_BARS = 10_000
_PLAIN = (AverageColumn, CountColumn, SumColumn)
"""Aggregates whose bars never have an open side for want of knowing how they depend on the noise."""
_RELATIVE_ERROR, _WHOLE_NUMBER_ERROR = 4e-15, 1e-6
"""What floats may be off, relative to the numbers, and whole numbers beside: ends are moved outwards by so much."""


@dataclass(frozen=True, slots=True)
class EvaluatedAnswer:
    """The outcome of a plan over its noisy tables, and what each of its columns is in terms of the noise."""

    plan: Plan
    traced: Traced
    columns: tuple[tuple[EngineValue, ...], ...]
    _find: Callable[[], TopForms] = field(repr=False)
    """Returns forms and among how many rows noise chose; both are found when they are first needed."""
    shown_ends: Mapping[int, IntervalSide] = field(default_factory=dict)
    """The places of columns that show the ends of their bars instead of their values."""
    _bars: dict[Fraction, list[list[Bar | None] | None]] = field(default_factory=dict, compare=False, repr=False)
    """The bars of the last level, where they are few: plain intervals, those with bias and marks all need them."""

    @property
    def forms(self) -> tuple[NoiseForm | None, ...]:
        """What each column is; None for one that comes from keys and literals alone, or that is no number."""
        return self._find().forms

    @property
    def chosen(self) -> bool:
        """Whether noise decided which rows there are, at the top or below an aggregate."""
        return not self.plain and self._find().candidates > 0

    @property
    def candidates(self) -> int:
        """Among how many rows the noise of these numbers chose those that are shown: their bars hold together.

        A top list chooses by noise of its own, so that its bars hold one by one.
        """
        return self._find().candidates if self.chosen_by_noise else 1

    @property
    def chosen_by_noise(self) -> bool:
        """Whether the noise of the numbers that are shown chose their rows."""
        return self.chosen and not is_a_list(self.plan)

    def tail(self, level: Fraction) -> Fraction:
        """Return how often the bar of one row may miss, so that all that are shown hold at the level.

        Bonferroni over all rows that noise could have chosen.  Proof: proofs/intervals.md, 9
        """
        return (1 - level) / self.candidates

    @property
    def plain(self) -> bool:
        """Whether an answer shows every row of its groups, and keys, counts, sums and averages: all bars are known."""
        if self.traced.computed or self.traced.conditions or self.traced.met:
            return False
        known: set[tuple[str, str]] = set()
        for group in self.plan.groups:
            shown = [*group.group.keys, *(one for one in group.derived if isinstance(one, _PLAIN))]
            known.update((group.group.label, one.name) for one in shown)
        return all(
            item is not None and item.operator is Operator.COLUMN and columns_read(item) <= known
            for item in self.traced.items
        )

    def interval_facts(self, place: int) -> Facts:
        """Return what the bars of a column are: of a number that is shown as text, the number."""
        shown, behind = self.plan.private.outcome.items[place].scalar.facts, self.traced.items[place]
        return behind.facts if shown.kind is Kind.TEXT and behind is not None else shown

    def aggregate(self, scalar: Scalar | None) -> tuple[GroupPlan, OutputColumn] | None:
        """Return the aggregate that a scalar is, if it is nothing else."""
        if scalar is None or scalar.operator is not Operator.COLUMN:
            return None
        known = _aggregates(self.plan)
        return next((known[name] for name in columns_read(scalar) if name in known), None)


def answer(plan: Plan, noisy: NoisyResult, evaluate: Evaluate) -> EvaluatedAnswer:
    """Compute the outcome of a plan from its noisy tables."""
    resolved = resolve_ends(plan.private.outcome)
    ends = _end_columns(plan, noisy, evaluate, resolved) if resolved.columns else {}
    if resolved.columns or resolved.shown:
        plan = replace(plan, private=replace(plan.private, outcome=resolved.outcome))
    outcome = plan.private.outcome
    traced = trace(outcome)
    read = {given.table for given in noisy_tables(outcome)}  # one of the questions of a workload reads a few of many
    agreed = consistent(plan, noisy, read)
    known: dict[str, Mapping[str, Values]] = dict(estimates(plan, noisy, agreed, read))
    pairs = [pair for pair in zip(plan.groups, noisy.groups, strict=True) if pair[0].group.label in read]
    sizes = {group.group.label: len(shown_cells(found)) for group, found in pairs}
    for again in noisy_tables(outcome):
        known[again.label] = {**known[again.table], **ends.get(again.label, {})}
        sizes[again.label] = sizes[again.table]
    computed = compute(traced.computed, known, sizes, evaluate)
    known |= {label: one.columns for label, one in computed.items()}
    sizes |= {label: one.size for label, one in computed.items()}
    found = evaluate(traced.flow, numbered(traced.tables, known, sizes))
    shown = len(outcome.items)
    places = {given.label: as_places(column_of) for given, column_of in zip(traced.tables, found[shown:], strict=True)}

    forms = _FoundForms(plan, noisy, evaluate, agreed, traced, places, computed, ends)
    answered = EvaluatedAnswer(plan, traced, tuple(map(tuple, found[:shown])), forms, resolved.shown)
    if not answered.plain:
        forms()  # whatever can go wrong does so before the answer is kept, and is noted there
    return answered


def _end_columns(
    plan: Plan, noisy: NoisyResult, evaluate: Evaluate, resolved: ResolvedEnds
) -> dict[str, dict[str, Values]]:
    """Return the ends of bars, for every row of the noisy tables that have such columns.

    Where noise may choose rows, all bars of a table hold together.  Proof: proofs/intervals.md, 9
    """
    tables = {node.label: node for node in noisy_tables(plan.private.outcome)}
    keys = {(label, key.name) for label, node in tables.items() for key in _group_of(plan, node.table).group.keys}
    together = _chooses_rows(resolved.outcome, keys)
    found: dict[str, dict[str, Values]] = {}
    for label in dict.fromkeys(one.label for one in resolved.columns):
        own = [one for one in resolved.columns if one.label == label]
        flow = ProjectNode(tables[label], "ends", tuple(Item(one.name, one.argument) for one in own))
        names = tuple(one.name for one in own)
        answered = answer(
            replace(plan, private=replace(plan.private, outcome=flow, names=names, days=frozenset())), noisy, evaluate
        )
        rows = len(answered.columns[0])
        level = 1 - (1 - LEVEL) / rows if together and rows else LEVEL
        bars = confidence_intervals(answered, level)
        found[label] = {one.name: ends_of(answered, place, bars[place], one.side) for place, one in enumerate(own)}
    return found


def _group_of(plan: Plan, label: str) -> GroupPlan:
    return next(group for group in plan.groups if group.group.label == label)


def _chooses_rows(outcome: ProjectNode, keys: set[tuple[str, str]]) -> bool:
    """Whether anything but keys may decide which rows an outcome shows, or folds."""
    for node in nodes(outcome):
        match node:
            case LimitNode():
                return True
            case FilterNode(condition=condition) | JoinNode(condition=condition) | MarkJoinNode(condition=condition):
                if condition is not None and not columns_read(condition) <= keys:
                    return True
    return False


def ends_of(
    answered: EvaluatedAnswer, place: int, bars: list[Bar | None] | None, side: IntervalSide
) -> list[EngineValue]:
    """Return one side of the bars of a column, or their margins; a number without noise is its own bar."""
    values = answered.columns[place]
    listed = [value if value is None else (value, value) for value in values] if bars is None else bars
    return [_side(value, bar, side) for value, bar in zip(values, listed, strict=True)]


def _side(value: EngineValue, bar: Bar | None, side: IntervalSide) -> EngineValue:
    if bar is None or value is None or isinstance(value, str):
        return None
    low, high = bar
    if side is not IntervalSide.MARGIN:
        return low if side is IntervalSide.LOW else high
    if low is None or high is None or isinstance(low, str) or isinstance(high, str):
        return None
    return max(high - value, value - low)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _FoundForms:
    """Finds the forms of an answer when they are first asked for. It is data, so that answers can be pickled."""

    plan: Plan
    noisy: NoisyResult
    evaluate: Evaluate
    agreed: Mapping[tuple[str, str], ConsistentMarginal]
    traced: Traced
    places: Mapping[str, Indices]
    computed: Mapping[str, ComputedRows]
    ends: Mapping[str, Mapping[str, Values]]
    known: list[TopForms] = field(default_factory=list)

    def __call__(self) -> TopForms:
        if not self.known:
            self.known.append(or_open(self._found, self._unknown))
        return self.known[0]

    def _found(self) -> TopForms:
        cells = measured_cells(self.plan, self.noisy, self.agreed)
        layers = Layers(self.plan, self.noisy, self.evaluate, cells, self.ends)
        return layers.top(self.traced, self.places, self.computed)

    def _unknown(self) -> TopForms:
        """Return forms of which nothing is known but their facts; keys have none."""
        rows = len(next(iter(self.places.values()), ()))
        keys = {(group.group.label, key.name) for group in self.plan.groups for key in group.group.keys}
        found = [
            None if exact or item.scalar.facts.type not in SPREAD else unknown(item.scalar.facts, rows)
            for item, exact in zip(
                self.plan.private.outcome.items,
                (scalar is not None and columns_read(scalar) <= keys for scalar in self.traced.items),
                strict=True,
            )
        ]
        return TopForms(tuple(found), 1 if self.traced.conditions else 0)

    def __reduce__(self) -> tuple[object, ...]:
        """Leave out what was found: it is found again from the same numbers."""
        parts = (self.plan, self.noisy, self.evaluate, self.agreed, self.traced, self.places, self.computed)
        return _FoundForms, (*parts, self.ends)


def columns_without_interval(answered: EvaluatedAnswer) -> list[str]:
    """Return the names of columns that are computed in a way of which no bar can be told."""
    if answered.plain:
        return []
    names = answered.plan.private.names
    return [name for name, form in zip(names, answered.forms, strict=True) if form is not None and form.has_no_interval]


def confidence_intervals(answered: EvaluatedAnswer, level: Fraction) -> list[list[Bar | None] | None]:
    """Return the bars of every column, None for a NULL; a column without noise, or that is no number, has none."""
    known = answered._bars.get(level)
    if known is None:
        known = _find_intervals(answered, level)
        answered._bars.clear()
        if len(known) * len(next(iter(answered.columns), ())) <= _MAX_REMEMBERED_BARS:
            answered._bars[level] = known
    return known


def _find_intervals(answered: EvaluatedAnswer, level: Fraction) -> list[list[Bar | None] | None]:
    found: list[list[Bar | None] | None] = []
    for place, (form, scalar) in enumerate(zip(answered.forms, answered.traced.items, strict=True)):
        facts = answered.interval_facts(place)
        values = _numbers(answered.columns[place], facts)
        plain = answered.aggregate(scalar)
        if form is None or isinstance(form, Truth | Opaque):
            found.append(None)
        elif plain is not None and _is_alone(plain[1].plain, plain[0], answered.plan):
            found.append(_plain_bars(plain[0], plain[1].plain or "", values, 1 - answered.tail(level)))
        else:
            find = partial(_bars, form, values, answered.tail(level), facts.kind is Kind.INTEGER)
            found.append(or_open(find, partial(open_bars, values)))
    return found


def open_bars(values: Sequence[EngineValue]) -> list[Bar | None]:
    """Return bars that say nothing; NULL has none."""
    return [None if value is None or isinstance(value, str) else (None, None) for value in values]


def _is_alone(name: str | None, group: GroupPlan, plan: Plan) -> bool:
    """Whether a column is one measurement, with nothing else that bears on it."""
    margins = ((margin.label, margin.name) for table in plan.tables for margin in table.margins)
    levelled = (one.name for one in group.measured if one.selected is not None)
    if name is not None and plan.is_derived(group.group.label, name):
        return False
    return name is not None and (group.group.label, name) not in margins and name not in levelled


def _numbers(values: Sequence[EngineValue], facts: Facts) -> Sequence[EngineValue]:
    """Return a column as numbers, also where the answer shows them as text."""
    if facts.kind is Kind.INTEGER:
        return [round(Fraction(value) / facts.step) if isinstance(value, str) else value for value in values]
    return (
        [float(value) if isinstance(value, str) else value for value in values] if facts.kind is Kind.REAL else values
    )


def _plain_bars(group: GroupPlan, name: str, values: Sequence[EngineValue], level: Fraction) -> list[Bar | None]:
    if (passing := group.threshold_selection) is not None and name == group.selecting_measurement:
        return [None if value is None else passing.bar(int(value), level) for value in values]
    margin = next(one.mechanism for one in group.measured if one.name == name).margin(level)
    if (most := group.most_distinct(name)) is not None:  # proofs/intervals.md, 7
        ends = ((int(value) - margin, int(value) + margin) if value is not None else None for value in values)
        return [bar and (max(bar[0], 0), min(bar[1], most)) for bar in ends]
    return [None if value is None else (int(value) - margin, int(value) + margin) for value in values]


def _bars(form: Number, values: Sequence[EngineValue], tail: Fraction, whole: bool) -> list[Bar | None]:
    """Return the bars of one column, each with its own value inside, as far as the truth can be that value at all."""
    if isinstance(form, Affine):  # exact and symmetric, so that bars of counts can be added and compared
        low, high = form.bar(tail)
        least, most = np.full(len(low), -np.inf), np.full(len(low), np.inf)
    else:
        (low, high), (least, most) = _ends(form, tail, len(values)), form.ends(NEVER)
    size = np.maximum(_finite(low), _finite(high))
    close = (_WHOLE_NUMBER_ERROR if whole else 0) + _RELATIVE_ERROR * size
    low, high = np.maximum(low - close, least), np.minimum(high + close, most)
    # a bar that left out its own estimate would be read wrongly; a longer one covers no less
    shown = np.array([np.nan if value is None or isinstance(value, str) else float(value) for value in values])
    possible = (least <= shown) & (shown <= most)
    low, high = np.where(possible, np.minimum(low, shown), low), np.where(possible, np.maximum(high, shown), high)
    rounding: tuple[Rounding, Rounding] = (ceil, floor) if whole else (float, float)
    return [
        None
        if value is None or isinstance(value, str)
        else (_end(one, value, rounding[0]), _end(other, value, rounding[1]))
        for value, one, other in zip(values, low.tolist(), high.tolist(), strict=True)
    ]


def _end(end: float, value: int | float, rounding: Rounding) -> EngineValue:
    if not isfinite(end):
        return None
    return value if end == value else rounding(end)


def _ends(form: Number, tail: Fraction, rows: int) -> tuple[Floats, Floats]:
    """Return the ends of every row at its level: the events of the row share the probability of a miss."""
    counts = sum(form.events.values(), np.zeros(rows, dtype=np.int64))
    several = _rounded_up(np.maximum(counts, 1))
    low, high = np.zeros(rows), np.zeros(rows)
    for count in np.unique(several).tolist():
        here = several == count
        ends = form.ends(tail / count)  # Bonferroni: the events need not be independent
        low[here], high[here] = ends[0][here], ends[1][here]
    return low, high


def _rounded_up(counts: Indices) -> Indices:
    """Return counts rounded up to four binary digits, so that few different ones are left."""
    powers = 2 ** np.maximum(np.floor(np.log2(counts)).astype(np.int64) - 3, 0)
    return np.asarray(-(-counts // powers) * powers)


def _finite(values: Floats) -> Floats:
    return np.where(np.isfinite(values), np.abs(values), 0)


def _aggregates(plan: Plan) -> dict[tuple[str, str], tuple[GroupPlan, OutputColumn]]:
    return {(group.group.label, one.name): (group, one) for group in plan.groups for one in group.derived}
