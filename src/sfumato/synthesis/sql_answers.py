"""SQL over what was measured: every number comes with a margin, and never touches the data again.

The house parses and analyses the text as for a private table. Where all columns of a question lie inside one measured
marginal, its answer is a weighted sum of that marginal's cells, unbiased, with the exact deviation of its noise; else
it comes from the fitted model, and its margin from redrawing the noise. Proof: proofs/marginals.md §5
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from sfumato.accounting.event import Neighbours
from sfumato.analysis.analyse import analyse
from sfumato.analysis.catalog import Catalog, PublicRows, Table
from sfumato.analysis.groups import noisy_facts
from sfumato.analysis.private_query import Cell, Group, KeyValue, RequestedAggregate, visible_key
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.errors import RawRows, UnsupportedSql
from sfumato.language.facts import Kind
from sfumato.language.rel_nodes import (
    AggregateNode,
    FilterNode,
    InputNode,
    Item,
    LimitNode,
    ProjectNode,
    RelNode,
    ScanNode,
    SortNode,
)
from sfumato.language.scalar import Operator, Scalar, address, column, columns_read
from sfumato.policy.policy import fold_name
from sfumato.query.functions import Aggregation
from sfumato.query.parse import parse
from sfumato.query.types import Type
from sfumato.release.decode import decode
from sfumato.synthesis.combining import JointEstimate
from sfumato.synthesis.design import Axes
from sfumato.synthesis.domain import Codes, ColumnDomain, Floats
from sfumato.synthesis.fields import OWNER, field_of, points, stored_values
from sfumato.synthesis.model import Fitted

NORMAL_95 = 1.959963984540054
MODELLED_NOTE = (
    "modelled, not measured: these columns lie in no measured marginal, and the margin does not cover the model"
)
_SUPPORTED_AGGREGATES = frozenset({Aggregation.COUNT, Aggregation.SUM, Aggregation.AVG})
_ROW = '"row"'


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows of numbers with their margins."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    margins: tuple[tuple[float | None, ...], ...]
    """For each row one margin per column: half the width of the 95 % interval; None for keys."""
    notes: tuple[str, ...] = ()
    """What has to be known to read it: whether it was modelled, or margins are approximate."""

    @property
    def modelled(self) -> bool:
        """Whether the numbers come from the model."""
        return MODELLED_NOTE in self.notes


@dataclass(frozen=True, slots=True, eq=False)
class AnswerContext:
    """All that questions are answered from."""

    table: str | None
    """The name of the table; None where any name will do."""
    columns: tuple[ColumnDomain, ...]
    combined: JointEstimate
    fitted: Callable[[], Fitted]
    redrawn: Callable[[], Sequence[tuple[float, Floats]]]
    """Totals and weights of the model as they might have come out with other noise."""
    notes: tuple[str, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(column.size for column in self.columns)


def answer_query(text: str, known: AnswerContext) -> Answer:
    """Return the answer to a SELECT of COUNT, SUM or AVG over the synthetic table, or refuse it from its text."""
    fields = tuple(field_of(column) for column in known.columns)
    name = known.table or _table_name(text)
    catalog = Catalog({name: Table(name, fields, public=False, unit=None, owner=OWNER)}, Neighbours.ADD_REMOVE)
    query = parse(text, catalog)
    try:
        private = analyse(query, catalog, _Literals())
    except RawRows:
        raise UnsupportedSql(
            "This question shows rows.",
            "Answers have margins, and single synthetic rows have none.",
            "Take the rows from `table()` or `sample(rows)`, or ask for COUNT, SUM or AVG.",
        ) from None
    if len(private.groups) != 1 or private.groups[0].combinations is not None:
        raise _unsupported_by_model(
            "It is one SELECT with COUNT, SUM or AVG, WHERE and GROUP BY; no joins and no subqueries."
        )
    (group,) = private.groups
    _refuse_unsupported(group, private.outcome)
    estimated = _estimate_groups(group, known)
    order = _shown_groups(private.outcome, group, estimated)
    shown, margins = [], []
    for item in private.outcome.items:
        values, errors = _answer_column(item.scalar, group, estimated)
        shown.append([values[index] for index in order])
        margins.append([errors[index] for index in order])
    return Answer(
        private.names,
        tuple(zip(*shown, strict=True)),
        tuple(zip(*margins, strict=True)),
        (*known.notes, *((MODELLED_NOTE,) if estimated.modelled else ())),
    )


def _table_name(text: str) -> str:
    """Return the name after FROM: a table of arrays has none of its own, and there is only one."""
    match = re.search(r'\bfrom\s+("?)(\w+)\1', text, re.IGNORECASE) if isinstance(text, str) else None
    return fold_name(match[2]) if match else "data"


class _Literals:
    """What can be computed from the text alone: there is no public table beside the synthetic one."""

    def materialize(self, flow: RelNode, columns: tuple[Item, ...], keys: tuple[Scalar, ...]) -> PublicRows:
        raise _unsupported_by_model("There are no other tables to join with.")

    def value_range(self, flow: RelNode, scalar: Scalar) -> tuple[int, int] | None:
        values = [value for (value,) in self._rows(flow, (scalar,)) if isinstance(value, int)]
        return (min(values), max(values)) if values else None

    def distinct(self, flow: RelNode, scalar: Scalar, most: int) -> tuple[Cell, ...] | None:
        values = {value for (value,) in self._rows(flow, (scalar,)) if isinstance(value, int | str | bool)}
        return tuple(sorted(values)) if len(values) <= most else None

    def rows(
        self, flow: RelNode, scalars: tuple[Scalar, ...], most: int
    ) -> tuple[tuple[Cell | float | None, ...], ...] | None:
        found = self._rows(flow, scalars)
        return found if len(found) <= most else None

    def _rows(self, flow: RelNode, scalars: tuple[Scalar, ...]) -> tuple[tuple[Any, ...], ...]:
        items = tuple(Item(f"s{at}", scalar) for at, scalar in enumerate(scalars))
        return tuple(zip(*evaluate(ProjectNode(flow, "distinct", items), {}), strict=True))


def _unsupported_by_model(why: str) -> UnsupportedSql:
    return UnsupportedSql(
        "This question is not supported over a synthetic table.", why, "Ask its parts, and compute the rest from them."
    )


def _refuse_unsupported(group: Group, outcome: ProjectNode) -> None:
    if _scanned_table(group.rows) is None:
        raise _unsupported_by_model("It is one SELECT from one table; no joins and no subqueries.")
    for asked in group.asked:
        aggregate = asked.aggregate
        bad = any(argument.facts.kind is not Kind.INTEGER for argument in aggregate.arguments)
        counts = aggregate.function is Aggregation.COUNT
        if aggregate.function not in _SUPPORTED_AGGREGATES or aggregate.distinct or (bad and not counts):
            raise _unsupported_by_model("The aggregates are COUNT, SUM and AVG, without DISTINCT.")
    flow = outcome.source
    while isinstance(flow, FilterNode | SortNode | LimitNode):
        flow = flow.source
    if not isinstance(flow, InputNode):
        raise _unsupported_by_model("It is one SELECT; what is computed from its answer is yours to compute.")
    measures = {(group.label, asked.name) for asked in group.asked}
    for item in outcome.items:
        if columns_read(item.scalar) & measures and item.scalar.operator is not Operator.COLUMN:
            raise _unsupported_by_model(
                "Numbers are shown as they are estimated, each with its margin; no arithmetic on them."
            )


def _scanned_table(flow: RelNode) -> ScanNode | None:
    """Return the table under filters and projections; None where there is more than that."""
    while isinstance(flow, FilterNode | ProjectNode):
        flow = flow.source
    return flow if isinstance(flow, ScanNode) else None


@dataclass(frozen=True, slots=True, eq=False)
class _Estimated:
    """The cells of a question's groups, and for each aggregate a number and a margin per cell."""

    cells: tuple[tuple[KeyValue, ...], ...]
    numbers: Mapping[str, Floats]
    margins: Mapping[str, Floats]
    modelled: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Probed:
    """Points in the cells of some columns: in which cell each lies, whether it counts, its group, its numbers."""

    place: Codes
    group: Codes
    """The number of its group, -1 where the point is filtered out or has no key."""
    values: Mapping[str, Floats]
    """Contribution of one such row to each aggregate; NaN if it contributes nothing."""


def _estimate_groups(group: Group, known: AnswerContext) -> _Estimated:
    used = _columns_used(group, known)
    axes = used or (0,)
    if known.combined.knows(axes):
        return _estimate_from_marginal(group, known, axes)
    return _from_model(group, known)


def _columns_used(group: Group, known: AnswerContext) -> Axes:
    """Return the columns that the question looks at."""
    read = _scanned_table(group.rows)
    parts: list[Scalar] = [key.scalar for key in group.keys]
    parts += [part for asked in group.asked for part in asked.aggregate.parts]
    flow = group.rows
    while isinstance(flow, FilterNode | ProjectNode):
        parts += [flow.condition] if isinstance(flow, FilterNode) else [item.scalar for item in flow.items]
        flow = flow.source
    names = {
        name for scalar in parts for label, name in columns_read(scalar) if read is not None and label == read.label
    }
    return tuple(axis for axis, column in enumerate(known.columns) if field_of(column).name in names)


def _evaluate_points(
    group: Group, known: AnswerContext, axes: Axes, codes: Sequence[Codes], within: Sequence[Floats]
) -> _Probed:
    """Evaluate the query's rows, keys and aggregates on given points, in an engine without other data."""
    read = _scanned_table(group.rows)
    if read is None:
        raise AssertionError("checked before")
    rows = len(codes[0])
    needed = {field_of(known.columns[axis]).name: axis for axis in axes}
    columns = [(name, facts) for name, _, facts in read.columns if name in needed]
    row_facts = replace(OWNER.facts, kind=Kind.INTEGER, type=Type.INTEGER, low=0, high=rows)
    given = InputNode(read.label, (*columns, (_ROW, row_facts)), None)
    values: dict[str, Any] = {
        name: stored_values(known.columns[axis], codes[at], within[at])
        for at, axis in enumerate(axes)
        for name in [field_of(known.columns[axis]).name]
    }
    values[_ROW] = np.arange(rows, dtype=np.int64)
    flow, row = _replace_table(group.rows, given, column(read.label, _ROW, row_facts))
    items = [Item("row", row), *(Item(f"k{at}", key.scalar) for at, key in enumerate(group.keys))]
    for at, asked in enumerate(group.asked):
        items += [Item(f"a{at}", argument) for argument in asked.aggregate.arguments]
        items += [] if asked.aggregate.where is None else [Item(f"w{at}", asked.aggregate.where)]
    found = evaluate(ProjectNode(flow, "probed", tuple(items)), {read.label: values})
    by_name = dict(zip((item.name for item in items), found, strict=True))
    lying = np.array(by_name["row"], dtype=np.int64)
    numbers = {cell: index for index, cell in enumerate(group.all_cells())}
    keys = [by_name[f"k{at}"] for at in range(len(group.keys))]
    placed = np.full(rows, -1, dtype=np.int64)
    placed[lying] = [numbers.get(cell, -1) for cell in zip(*keys, strict=True)] if keys else 0
    adds = {}
    for at, asked in enumerate(group.asked):
        each = np.full(rows, np.nan)
        each[lying] = _row_contributions(asked, by_name.get(f"a{at}"), by_name.get(f"w{at}"), len(lying))
        adds[asked.name] = each
    return _Probed(np.arange(rows), placed, adds)


def _replace_table(flow: RelNode, given: InputNode, row: Scalar) -> tuple[RelNode, Scalar]:
    """Return filters and projections over given rows instead of the table; each projection keeps the row's number."""
    if isinstance(flow, FilterNode):
        source, below = _replace_table(flow.source, given, row)
        return FilterNode(source, flow.condition), below
    if isinstance(flow, ProjectNode):
        source, below = _replace_table(flow.source, given, row)
        items = tuple(item for item in flow.items if item.scalar.facts.kind is not Kind.UNIT)
        return ProjectNode(source, flow.label, (*items, Item(_ROW, below))), column(flow.label, _ROW, row.facts)
    return given, row


def _row_contributions(
    asked: RequestedAggregate, argument: list[Any] | None, where: list[Any] | None, rows: int
) -> Floats:
    """Return what each row adds: 1 to a count, its value to a sum; NaN where it does not count."""
    if argument is None:
        added = np.ones(rows)
    elif asked.aggregate.function is Aggregation.COUNT:
        added = np.array([np.nan if value is None else 1.0 for value in argument])
    else:
        step = asked.aggregate.arguments[0].facts.step
        added = np.array([np.nan if value is None else float(value) for value in argument]) * float(step)
    return added if where is None else np.where([value is True for value in where], added, np.nan)


def _estimate_from_marginal(group: Group, known: AnswerContext, axes: Axes) -> _Estimated:
    """Estimate from the measured marginal of these columns: weighted sums of its cells, each with its exact noise."""
    shape = [known.sizes[axis] for axis in axes]
    codes, within, place, share = points([known.columns[axis] for axis in axes])
    probed = _evaluate_points(group, known, axes, codes, within)
    table = known.combined.table(axes)
    cells = group.all_cells()
    numbers: dict[str, Floats] = {asked.name: np.zeros(len(cells)) for asked in group.asked}
    margins: dict[str, Floats] = {asked.name: np.zeros(len(cells)) for asked in group.asked}
    for asked in group.asked:
        for number in range(len(cells)):
            mine = (probed.group == number) & ~np.isnan(probed.values[asked.name])
            cover = _Cover.of(mine, np.nan_to_num(probed.values[asked.name]), place, share, prod(shape))
            found = _estimate_with_margin(
                asked, cover, table.ravel(), lambda weights: known.combined.deviation_of(axes, weights.reshape(shape))
            )
            numbers[asked.name][number], margins[asked.name][number] = found
    return _Estimated(cells, numbers, margins, False)


@dataclass(frozen=True, slots=True, eq=False)
class _Cover:
    """How a question reads a table: per cell what part of its rows counts, what they add, and how wrong that can be.

    Where the rows of a cell lie inside it is unknown, so each may be as far off as the farthest point of its cell.
    """

    share: Floats
    some: Floats
    every: Floats
    """Whether some point of a cell counts, and whether every point does."""
    total: Floats
    low: Floats
    high: Floats
    """What the points of a cell that count add at least and at most; 0 where none counts."""

    @classmethod
    def of(cls, mine: Any, values: Floats, place: Codes, share: Floats, cells: int) -> "_Cover":
        """Put points together: `mine` are those that count."""
        some, every = np.zeros(cells), np.ones(cells)
        np.maximum.at(some, place, mine.astype(float))
        np.minimum.at(every, place, mine.astype(float))
        low, high = np.full(cells, np.inf), np.full(cells, -np.inf)
        np.minimum.at(low, place[mine], values[mine])
        np.maximum.at(high, place[mine], values[mine])
        return cls(
            np.bincount(place, share * mine, cells).astype(np.float64),
            some,
            every,
            np.bincount(place, share * mine * values, cells).astype(np.float64),
            np.where(some > 0, low, 0.0),
            np.where(some > 0, high, 0.0),
        )

    @property
    def count_error(self) -> Floats:
        return np.maximum(self.some - self.share, self.share - self.every)

    @property
    def total_error(self) -> Floats:
        return self.deviation_around(0.0)

    def deviation_around(self, middle: float) -> Floats:
        """Return how far the contribution of a row of each cell, less `middle`, may be from its expectation."""
        expected, low, high = self.total - middle * self.share, self.low - middle, self.high - middle
        partly = self.every < 1  # such a row may also add nothing
        low, high = np.where(partly, np.minimum(low, 0.0), low), np.where(partly, np.maximum(high, 0.0), high)
        return np.where(self.some > 0, np.maximum(high - expected, expected - low), 0.0)

    @property
    def least(self) -> float:
        return float(self.low[self.some > 0].min()) if self.some.any() else 0.0

    @property
    def greatest(self) -> float:
        return float(self.high[self.some > 0].max()) if self.some.any() else 0.0


def _estimate_with_margin(
    asked: RequestedAggregate, cover: _Cover, table: Floats, deviation: Callable[[Floats], float]
) -> tuple[float, float]:
    """Return an aggregate of one group and its margin: noise, and the uncertainty inside cells."""

    def _margin(weights: Floats, errors: Floats) -> float:
        inside = max(float(errors @ table), 0.0) + NORMAL_95 * deviation(errors) if errors.any() else 0.0
        return NORMAL_95 * deviation(weights) + inside

    count, summed = float(cover.share @ table), float(cover.total @ table)
    if asked.aggregate.function is Aggregation.COUNT:
        return count, _margin(cover.share, cover.count_error)
    if asked.aggregate.function is Aggregation.SUM:
        return summed, _margin(cover.total, cover.total_error)
    least, greatest = cover.least, cover.greatest
    mean = min(max(summed / count, least), greatest) if count > 0 else (least + greatest) / 2
    surely = count - _margin(cover.share, cover.count_error)
    if surely <= 0:  # there may be no row at all: every value between the ends is possible
        return mean, greatest - least
    centred = _margin(cover.total - mean * cover.share, cover.deviation_around(mean))
    return mean, min(centred / surely, greatest - least)  # proofs/marginals.md §5


def _from_model(group: Group, known: AnswerContext) -> _Estimated:
    """Estimate from the fitted model's weighted rows; the margin is the spread over redraws of the noise."""
    fitted, axes = known.fitted(), tuple(range(len(known.columns)))
    rows = len(fitted.weights)
    probes = [
        _evaluate_points(group, known, axes, fitted.rows, [np.full(rows, at) for _ in axes])
        for at in (0.5, 0.0, 1 - 2**-53)
    ]
    cells = group.all_cells()
    worlds = [(max(known.combined.total, 0.0), fitted.weights), *known.redrawn()]
    numbers: dict[str, Floats] = {}
    margins: dict[str, Floats] = {}
    for asked in group.asked:
        middle, *ends = [
            _weigh_worlds(asked, probe, worlds if not at else worlds[:1], len(cells)) for at, probe in enumerate(probes)
        ]
        spread = NORMAL_95 * middle[1:].std(axis=0, ddof=1)
        inside = np.max([np.abs(end[0] - middle[0]) for end in ends], axis=0)
        numbers[asked.name], margins[asked.name] = middle[0], spread + inside
    return _Estimated(cells, numbers, margins, True)


def _weigh_worlds(
    asked: RequestedAggregate, probe: _Probed, worlds: Sequence[tuple[float, Floats]], cells: int
) -> Floats:
    """Return an aggregate of every group in every world."""
    values = probe.values[asked.name]
    mine = (probe.group >= 0) & ~np.isnan(values)
    group, added = probe.group[mine], values[mine]
    found = []
    for total, weights in worlds:
        count = total * np.bincount(group, weights[mine], cells)
        summed = total * np.bincount(group, weights[mine] * added, cells)
        if asked.aggregate.function is Aggregation.AVG:
            middle = (added.min() + added.max()) / 2 if added.size else 0.0
            summed = np.where(count > 0, summed / np.where(count > 0, count, 1.0), middle)
        found.append(count if asked.aggregate.function is Aggregation.COUNT else summed)
    return np.array(found)


def _shown_groups(outcome: ProjectNode, group: Group, estimated: _Estimated) -> list[int]:
    """Return which groups are shown, in which order: HAVING, ORDER BY and LIMIT over the estimates."""
    columns = dict(_given_columns(outcome, group.label))
    number = replace(OWNER.facts, kind=Kind.INTEGER, type=Type.INTEGER, low=0, high=len(estimated.cells))
    values: dict[str, Any] = {_ROW: np.arange(len(estimated.cells), dtype=np.int64)}
    for name, facts in columns.items():
        if name in estimated.numbers:
            scaled = estimated.numbers[name] / float(facts.step)
            values[name] = scaled if facts.kind is Kind.REAL else [round(float(number)) for number in scaled]
        else:
            at = [key.name for key in group.keys].index(name)
            values[name] = [cell[at] for cell in estimated.cells]
    flow = _with_group_number(outcome.source, group.label, number)
    shown = ProjectNode(flow, outcome.label, (Item("row", column(group.label, _ROW, number)),))
    (order,) = evaluate(shown, {group.label: values})
    return [int(index) for index in order]  # type: ignore[call-overload]


def _given_columns(flow: RelNode, label: str) -> tuple[tuple[str, Any], ...]:
    while not isinstance(flow, InputNode):
        flow = flow.source  # type: ignore[union-attr]
    if flow.label != label:
        raise AssertionError("one group, one table of estimates")
    return flow.columns


def _with_group_number(flow: RelNode, label: str, facts: Any) -> RelNode:
    """Rewrite the post-processing so that estimates carry the number of their group."""
    if isinstance(flow, InputNode):
        return replace(flow, columns=(*flow.columns, (_ROW, facts)))
    if isinstance(flow, AggregateNode | ProjectNode | ScanNode):
        raise _unsupported_by_model("It is one SELECT; what is computed from its answer is yours to compute.")
    return replace(flow, source=_with_group_number(flow.source, label, facts))  # type: ignore[union-attr, arg-type]


def _multiple(scalar: Scalar, group: Group, name: str) -> float:
    (asked,) = (asked for asked in group.asked if asked.name == name)
    step = noisy_facts(asked.aggregate, scalar.facts.type).step
    return float(scalar.facts.step / step) if scalar.facts.kind is Kind.INTEGER else 1.0


def _answer_column(scalar: Scalar, group: Group, estimated: _Estimated) -> tuple[list[Any], list[float | None]]:
    """Return one column of the answer for every group: an estimate with its margin, or something computed from keys."""
    name = place.name if (place := address(scalar)) is not None else ""
    if name in estimated.numbers:
        times = _multiple(scalar, group, name)  # 100 * COUNT(*) is the same column in other steps
        return (times * estimated.numbers[name]).tolist(), (abs(times) * estimated.margins[name]).tolist()
    names = tuple((key.name, replace(key.scalar.facts, nullable=False)) for key in group.keys)
    given = InputNode(group.label, names, None)
    values = {key.name: [visible_key(cell[at]) for cell in estimated.cells] for at, key in enumerate(group.keys)}
    values = values or {"none": [0] * len(estimated.cells)}
    (found,) = evaluate(ProjectNode(given, "keys", (Item("key", scalar),)), {group.label: values})
    return [decode(value, scalar.facts) for value in found], [None] * len(estimated.cells)  # type: ignore[arg-type]
