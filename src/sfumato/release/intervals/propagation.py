"""An outcome from the noisy groups upwards: every aggregate becomes a table of forms for what is above it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from sfumato.analysis.private_query import visible_key
from sfumato.engines.post_processing.values import Values
from sfumato.language.facts import Facts, Kind
from sfumato.language.interval_ends import END_COLUMN
from sfumato.language.rel_nodes import (
    FOUND,
    FOUND_FACTS,
    AggregateItem,
    AggregateNode,
    InputNode,
    Item,
    MarkJoinNode,
    ProjectNode,
    RelNode,
    UnionAllNode,
    WindowNode,
    noisy_tables,
    outputs,
)
from sfumato.language.scalar import Operator, Scalar, column, columns_read
from sfumato.planning.plan import Plan
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import Aggregation
from sfumato.query.types import Type
from sfumato.release.aggregates.families import leaf_forms
from sfumato.release.decode import EngineValue
from sfumato.release.estimates import estimates
from sfumato.release.intervals.computed_rows import ComputedRows, rows_of
from sfumato.release.intervals.extension import undecided, unknown
from sfumato.release.intervals.folding import FoldedRows, doubtful_rows, folded
from sfumato.release.intervals.form_algebra import limited
from sfumato.release.intervals.forms import Exact, NoiseForm, Opaque, Truth
from sfumato.release.intervals.measured_cells import Indices, MeasuredCells
from sfumato.release.intervals.possible_rows import PossibleRows, settled_values, stacked_table
from sfumato.release.intervals.row_forms import Evaluate, FormTable, JoinedForms
from sfumato.release.intervals.tracing import (
    Computed,
    Noise,
    PossibleFlow,
    Traced,
    conjuncts,
    place_name,
    possible_rows,
    tables_below,
    written_out,
)
from sfumato.release.intervals.window_forms import window_form
from sfumato.release.marginal_consistency import shown_cells
from sfumato.release.noisy import NoisyResult

_MAX_ROWS = 250_000
"""Maximum rows below an aggregate that are evaluated one by one."""
SPREAD = frozenset({Type.INTEGER, Type.DECIMAL, Type.DATE, Type.TIMESTAMP, Type.INTERVAL})
"""The types whose values have bars."""


@dataclass(frozen=True, slots=True)
class TopForms:
    """The form of every column of an answer, None for what has no bar."""

    forms: tuple[NoiseForm | None, ...]
    candidates: int
    """Number of rows among which noise chose those that are shown; 0 where it chose none."""


@dataclass(frozen=True, slots=True)
class Layers:
    """What the tables of an outcome are made from."""

    plan: Plan
    noisy: NoisyResult
    evaluate: Evaluate
    cells: MeasuredCells
    ends: Mapping[str, Mapping[str, Values]] = field(default_factory=dict)
    """The columns of noisy tables that hold the ends of bars, by label."""
    _chosen: list[str] = field(default_factory=list)
    """The aggregates below which noise decided about rows."""

    def top(self, traced: Traced, places: Mapping[str, Indices], known: Mapping[str, ComputedRows]) -> "TopForms":
        """Return the form of every column of the answer, and among how many rows noise chose."""
        tables, moved = {}, dict(places)
        for given in traced.tables:
            table, node = self._table(given, traced.computed), _named(traced.computed, given.label)
            if node is not None:
                at = rows_of(node, table, known)
                table = _lost(node, known[given.label].size) if at is None else table
                moved[given.label] = moved[given.label] if at is None else _through(at, moved[given.label])
            tables[given.label] = table
        rows = len(next(iter(moved.values()))) if moved else 0
        joined = JoinedForms(tables, moved, rows, self.evaluate, self.cells, self._shaky(traced, tables))
        measured = {(label, name) for label, table in tables.items() for name in table.measured}
        wanted = [
            scalar
            for scalar in traced.items
            if scalar is not None and scalar.facts.type in SPREAD and not columns_read(scalar).isdisjoint(measured)
        ]
        forms = iter(joined.forms(wanted))
        kept = {id(scalar) for scalar in wanted}
        found: list[NoiseForm | None] = []
        for scalar, item in zip(traced.items, self.plan.private.outcome.items, strict=True):
            if scalar is None and item.scalar.facts.type in SPREAD:
                found.append(unknown(item.scalar.facts, rows))
            else:
                found.append(next(forms) if scalar is not None and id(scalar) in kept else None)
        chosen = any(condition is None or joined.noisy(condition) for condition in traced.conditions)
        return TopForms(tuple(found), self._candidates(traced, tables) if chosen or self._chosen else 0)

    def _candidates(self, traced: Traced, tables: Mapping[str, FormTable]) -> int:
        """Return how many rows the answer could have, whatever the noise: any of them may have been chosen by it."""
        most = prod(table.rows + (len(tables) > 1) for table in tables.values())  # or no row of a table at all
        if len(tables) > 1:
            loose = possible_rows(self.plan.private.outcome.source, self._noise(traced.tables, traced.computed, tables))
            if loose is not None:
                most = min(most, self._count(loose.flow.source, _exact_tables(loose, tables)))
        return max(most, 1)

    def _noise(
        self, givens: Sequence[InputNode], computed: Sequence[Computed], tables: Mapping[str, FormTable]
    ) -> Noise:
        def noisy(scalar: Scalar | None) -> bool:
            return scalar is None or any(name not in tables[label].exact for label, name in columns_read(scalar))

        doubtful = frozenset(label for label, table in tables.items() if table.present)
        sizes = {label: table.rows for label, table in tables.items()}
        return Noise(noisy, sizes, doubtful, self._partial(givens, computed))

    def _shaky(self, traced: Traced, tables: Mapping[str, FormTable]) -> frozenset[str]:
        """Return the tables of which noise, or a selection of keys, decides whether a left join meets a row."""

        def noisy(scalar: Scalar | None) -> bool:
            return scalar is None or any(name not in tables[label].exact for label, name in columns_read(scalar))

        partial = self._partial(traced.tables, traced.computed)
        return frozenset(
            label
            for label, conditions in traced.met.items()
            if label in partial or tables[label].present or any(map(noisy, conditions))
        )

    def _partial(self, givens: Sequence[InputNode], computed: Sequence[Computed]) -> frozenset[str]:
        """Return the tables that lack what was not selected."""
        selected = {group.group.label for group in self.plan.groups if group.selection is not None}
        own = {given.label for given in givens if given.table in selected}
        return frozenset(own | ({node.label for node in computed} if selected else set()))

    def _table(self, given: InputNode, computed: Sequence[Computed]) -> FormTable:
        if given.rows is not None:
            names = [name for name, _ in given.columns]
            exact = {name: [row[index] for row in given.rows] for index, name in enumerate(names)}
            return FormTable(len(given.rows), exact, {})
        match _named(computed, given.label):
            case None:
                return _with_ends(self._group(given.table), given)
            case AggregateNode() as fold:
                return self._fold(fold)
            case WindowNode() as windowed:
                return self._windowed(windowed)
            case MarkJoinNode() as marked:
                return self._marked(marked)
            case UnionAllNode() as stacked:
                return self._stacked(stacked)

    def _group(self, label: str) -> FormTable:
        place = next(at for at, group in enumerate(self.plan.groups) if group.group.label == label)
        group, found = self.plan.groups[place], self.noisy.groups[place]
        shown = [found.keys[cell] for cell in shown_cells(found)]
        exact = {key.name: [visible_key(cells[at]) for cells in shown] for at, key in enumerate(group.group.keys)}
        forms, measured = leaf_forms(group, self.cells, found), frozenset(output.name for output in group.derived)
        return FormTable(len(shown), exact, forms, measured=measured)

    def _loosened(self, flow: RelNode) -> "PossibleRows | None":
        """Return every row that a flow can have, whatever the noise; None where that cannot be said."""
        givens, computed = tables_below(flow)
        tables = {given.label: self._table(given, computed) for given in givens}
        loose = possible_rows(flow, self._noise(givens, computed, tables))
        if loose is None or any(table.open for table in tables.values()):
            return None
        joined = self._joined(loose, tables)
        if joined is None:
            return None
        conditions = tuple(_condition(doubt, joined) for doubt in loose.doubts)
        return PossibleRows(loose, joined, (*conditions, *joined.present()))

    def _fold(self, fold: AggregateNode) -> FormTable:
        found = self._loosened(fold.source)
        keys = None if found is None else found.exact([key.scalar for key in fold.keys])
        if found is None or keys is None:
            return _lost(fold, 0)
        loose, joined = found.loose, found.joined
        places: dict[tuple[EngineValue, ...], int] = {}
        listed = list(zip(*joined.exact_columns(keys), strict=True)) if keys else [()] * joined.rows
        groups = np.array([places.setdefault(key, len(places)) for key in listed], dtype=np.int64)
        size = len(places) if keys else 1
        if not keys:
            places = {(): 0}
        rows = FoldedRows(fold.label, groups, size, found.conditions)
        self._chosen.extend([fold.label] if rows.conditions else [])
        exact: dict[str, Sequence[EngineValue]] = {
            key.name: [cells[at] for cells in places] for at, key in enumerate(fold.keys)
        }
        forms: dict[str, NoiseForm] = {}
        for measure in fold.measures:
            form = self._measure(measure, rows, joined, loose)
            if isinstance(form, Exact):
                whole = measure.facts.kind is Kind.INTEGER
                exact[measure.name] = [_kept(value, whole) for value in form.values.tolist()]
            forms[measure.name] = form
        present = (doubtful_rows(rows),) if keys and rows.conditions else ()
        measured = frozenset(measure.name for measure in fold.measures if not _is_of_ends(measure, loose))
        return FormTable(size, exact, forms, present, places, measured)

    def _windowed(self, windowed: WindowNode) -> FormTable:
        found = self._loosened(windowed.source)
        if found is None:
            return _lost(windowed, 0)
        self._chosen.extend([windowed.label] if found.conditions else [])
        exact, forms = found.columns(outputs(windowed.source))
        for value in windowed.values:
            forms[value.name] = window_form(value, found, self.cells)
            settled = settled_values(forms[value.name], value.facts)
            if settled is not None:
                exact[value.name] = settled
        return _extended(windowed, found, exact, forms)

    def _marked(self, marked: MarkJoinNode) -> FormTable:
        found, other = self._loosened(marked.left), self._loosened(marked.right)
        if found is None:
            return _lost(marked, 0)
        exact, forms = found.columns(outputs(marked.left))
        used = set() if marked.condition is None else columns_read(marked.condition)
        mine = {name for label, name, _ in outputs(marked.left) if (label, name) in used}
        theirs = [column(*output) for output in outputs(marked.right) if output[:2] in used]
        if mine <= set(exact) and self._settled(marked.right, other, theirs):
            exact[FOUND] = self._found(marked, {name: exact[name] for name in sorted(mine)}, found.joined.rows)
        else:
            forms[FOUND] = replace(undecided(found.joined.rows), has_no_interval=False)
        return _extended(marked, found, exact, forms)

    def _settled(self, flow: RelNode, rows: PossibleRows | None, used: Sequence[Scalar]) -> bool:
        """Whether no noise decides which rows a flow has, or about these columns of it."""
        givens, computed = tables_below(flow)
        partial = self._partial(givens, computed)
        if rows is None or rows.conditions or any(given.label in partial for given in givens):
            return False
        return rows.exact(used) is not None

    def _found(self, marked: MarkJoinNode, known: Mapping[str, Sequence[EngineValue]], rows: int) -> list[EngineValue]:
        """Ask the engine which rows meet one of the others, where no noise decides about that."""
        facts = {name: one for _, name, one in outputs(marked.left)}
        place = Facts(Type.INTEGER, Kind.INTEGER, nullable=False, high=1 << 62)
        given = InputNode(marked.label, (*((name, facts[name]) for name in known), ("#", place)), None)
        items = (
            Item("found", column(marked.label, FOUND, FOUND_FACTS)),
            Item("row", column(marked.label, "#", place)),
        )
        estimated = estimates(self.plan, self.noisy, self.cells.consistent)
        tables: dict[str, Mapping[str, Values]] = {**estimated, marked.label: {**known, "#": range(rows)}}
        tables |= {
            given.label: {**tables[given.table], **self.ends.get(given.label, {})}
            for given in noisy_tables(marked.right)
        }
        values, at = self.evaluate(ProjectNode(replace(marked, left=given), "marked", items), tables)
        return [value for _, value in sorted(zip(at, values, strict=True))]

    def _stacked(self, stacked: UnionAllNode) -> FormTable:
        sides = [self._loosened(side.source) for side in (stacked.left, stacked.right)]
        left, right = sides
        if left is None or right is None:
            return _lost(stacked, 0)
        if left.conditions or right.conditions:
            self._chosen.append(stacked.label)
        return stacked_table(stacked, left, right, self.cells)

    def _measure(self, measure: AggregateItem, rows: FoldedRows, joined: JoinedForms, loose: PossibleFlow) -> NoiseForm:
        aggregate = measure.aggregate.mapped(lambda scalar: written_out(scalar, loose.origins))
        lost = any(part is None for part in aggregate.arguments)
        if lost or (aggregate.where is None) != (measure.aggregate.where is None):
            return unknown(measure.facts, rows.size)
        arguments = [
            _narrowed(joined.forms([scalar])[0], scalar, loose.doubts, joined)
            for scalar in aggregate.arguments
            if scalar is not None
        ]
        if aggregate.where is not None:
            (where,) = joined.forms([aggregate.where])
            condition = where if isinstance(where, Truth) else undecided(joined.rows)
            rows = replace(rows, conditions=(*rows.conditions, condition))
        return folded(measure, rows, arguments, self.cells)

    def _joined(self, loose: PossibleFlow, tables: Mapping[str, FormTable]) -> JoinedForms | None:
        """Find the rows: those of the one table, or what the engine makes of exact columns; None if too many."""
        if len(tables) == 1 and isinstance(loose.flow.source, InputNode):
            ((label, table),) = tables.items()
            return JoinedForms(tables, {label: np.arange(table.rows)}, table.rows, self.evaluate, self.cells)
        given = _exact_tables(loose, tables)
        if self._count(loose.flow.source, given) > _MAX_ROWS:
            return None
        found = self.evaluate(loose.flow, given)
        places = {
            one.label: np.array([-1 if place is None else int(place) for place in at], dtype=np.int64)
            for one, at in zip(loose.tables, found, strict=True)
        }
        return JoinedForms(tables, places, len(found[0]), self.evaluate, self.cells)

    def _count(self, flow: RelNode, given: Mapping[str, Mapping[str, Values]]) -> int:
        """Count rows before they are listed: a join of large tables may have more than fit into memory."""
        facts = Facts(Type.INTEGER, Kind.INTEGER, False, high=1 << 62)
        fold = AggregateNode(flow, "counted", (), (AggregateItem("n", Aggregate(Aggregation.COUNT), facts),))
        ((count,),) = self.evaluate(ProjectNode(fold, "count", (Item("n", column("counted", "n", facts)),)), given)
        return int(count)


def _exact_tables(loose: PossibleFlow, tables: Mapping[str, FormTable]) -> dict[str, dict[str, Values]]:
    """Return the exact columns that a flow of all possible rows reads, with the numbers of rows."""
    given: dict[str, dict[str, Values]] = {}
    for one in loose.tables:
        if one.rows is None:
            table = tables[one.label]
            given[one.label] = {name: table.exact[name] for name, _ in one.columns[:-1]}
            given[one.label][place_name(one)] = range(table.rows)
    return given


def _is_of_ends(measure: AggregateItem, loose: PossibleFlow) -> bool:
    """Whether an aggregate is computed from ends of bars and from nothing else: it has no bar of its own."""
    parts = [written_out(part, loose.origins) for part in measure.aggregate.arguments]
    names = [name for part in parts if part is not None for _, name in columns_read(part)]
    return None not in parts and bool(names) and all(name.startswith(END_COLUMN) for name in names)


def _with_ends(table: FormTable, given: InputNode) -> FormTable:
    """Return a noisy table with its columns that hold ends of bars: noise decides about them, and they have no bars."""
    ends = {name: unknown(facts, table.rows) for name, facts in given.columns if name.startswith(END_COLUMN)}
    return replace(table, forms={**table.forms, **ends}) if ends else table


def _named(computed: Sequence[Computed], label: str) -> Computed | None:
    return next((node for node in computed if node.label == label), None)


def _extended(
    node: WindowNode | MarkJoinNode,
    found: PossibleRows,
    exact: Mapping[str, Sequence[EngineValue]],
    forms: Mapping[str, NoiseForm],
) -> FormTable:
    """Return rows as they were below, with what was added to them."""
    below = outputs(node.left if isinstance(node, MarkJoinNode) else node.source)
    measured = found.measured({name: column(label, name, facts) for label, name, facts in below})
    added = {name for _, name, _ in outputs(node)} - {name for _, name, _ in below}
    rows, tables = found.joined.rows, found.joined.tables
    return FormTable(rows, exact, forms, found.conditions, found.places, measured | added, tables)


def _narrowed(form: NoiseForm, scalar: Scalar, doubts: Sequence[Scalar | None], joined: JoinedForms) -> NoiseForm:
    """Return an argument between the exact numbers that conditions compare it with: they hold where a row is there."""
    if isinstance(form, Truth | Opaque):
        return form
    plain, factor = scalar, 1.0
    match scalar.operator, scalar.constant:
        case Operator.REAL, (int(numerator), int(denominator)):
            plain, factor = scalar.arguments[0], numerator / denominator
    least, most = np.full(joined.rows, -np.inf), np.full(joined.rows, np.inf)
    for part in (part for doubt in doubts if doubt is not None for part in conjuncts(doubt)):
        if part.operator not in {Operator.LESS, Operator.AT_MOST} or plain not in part.arguments:
            continue
        other = part.arguments[1 - part.arguments.index(plain)]
        (bound,) = joined.forms([other])
        if isinstance(bound, Exact) and not np.isnan(bound.values).any():
            if other is part.arguments[0]:
                least = np.maximum(least, bound.values * factor)
            else:
                most = np.minimum(most, bound.values * factor)
    return limited(form, least, most)


def _condition(doubt: Scalar | None, joined: JoinedForms) -> Truth:
    """Return a doubt as a form; of a row that a LIMIT may have left out, both is possible."""
    if doubt is None:
        return replace(undecided(joined.rows), has_no_interval=False)
    (form,) = joined.forms([doubt])
    return form if isinstance(form, Truth) else undecided(joined.rows)


def _lost(node: Computed, rows: int) -> FormTable:
    """Return a table of which it is unknown which rows it has."""
    forms = {name: _unknown(facts, rows) for _, name, facts in outputs(node)}
    return FormTable(rows, {}, forms, measured=frozenset(forms), open=True)


def _unknown(facts: Facts, rows: int) -> NoiseForm:
    if facts.kind is Kind.BOOLEAN:
        return undecided(rows)
    return unknown(facts, rows) if facts.kind in {Kind.INTEGER, Kind.REAL} else Opaque(rows, has_no_interval=True)


def _through(at: Indices, places: Indices) -> Indices:
    return np.where(places < 0, -1, at[np.maximum(places, 0)] if len(at) else -1)


def _kept(value: float, whole: bool) -> EngineValue:
    if np.isnan(value):
        return None
    return int(value) if whole else value
