"""Flows as SQL: one SELECT, in which relations are t0, t1, … and their columns c0, c1, …

No name of a query reaches an engine. A flow becomes a frame, the clauses of a SELECT whose list is still open, so that
filters and joins add to it and only what must be computed apart is nested. Rows have a place: whatever an Order leaves
equal stays as it was, and a Take keeps the same rows each time it is asked.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Protocol, runtime_checkable

from sfumato.engines.sql.builder import aliased, exists, select, subquery, union_all
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.fold import finished, one_zero, parts
from sfumato.engines.sql.names import PLACE, RANK, duplicate_rank_column
from sfumato.engines.sql.scalar import Columns, scalar_sql
from sfumato.engines.sql.window import WindowRows, window_finished, window_parts
from sfumato.language.facts import Facts, Kind
from sfumato.language.outside import is_stored, stored
from sfumato.language.rel_nodes import (
    FOUND,
    AggregateNode,
    FilterNode,
    InputNode,
    JoinNode,
    LimitNode,
    MarkJoinNode,
    MaterializedNode,
    ProjectNode,
    RelNode,
    ScanNode,
    SortNode,
    UnionAllNode,
    WindowNode,
    outputs,
)
from sfumato.language.scalar import Operator, Scalar, address, literal
from sfumato.query.relation import JoinKind


@runtime_checkable
class MaterializedRows(Protocol):
    """Where the engine keeps public rows that were computed once."""

    @property
    def relation(self) -> str:
        """The SQL after FROM: a table with the columns c0, c1, … and RANK."""


Tables = Mapping[str, str]
"""For each table, and for each noisy table by its label, the SQL after FROM. Where rows are shown, it has a PLACE."""


@dataclass(frozen=True, slots=True)
class Writing:
    """Dialect, tables and alias counter while one SQL statement is generated."""

    dialect: Dialect
    tables: Tables
    numbers: Iterator[int] = field(default_factory=count)

    def alias(self) -> str:
        """Return a name for one more relation."""
        return f"t{next(self.numbers)}"

    def sql(self, scalar: Scalar, columns: Columns) -> str:
        """Return the SQL of a scalar over these columns."""
        return scalar_sql(scalar, columns, self.dialect)

    def passed_on(self, scalar: Scalar, columns: Columns) -> str:
        """Return the SQL of a column of a subquery: values outside its bounds stay outside."""
        return self.sql(stored(scalar) if is_stored(scalar) else scalar, columns)


@dataclass(frozen=True, slots=True)
class Frame:
    """The clauses of a SELECT but its list."""

    source: str
    columns: Columns
    """The columns that can be used above it."""
    conditions: tuple[str, ...] = ()
    order: tuple[tuple[str, str], ...] = ()
    """The sort keys of the rows, with their directions."""
    ties: tuple[str, ...] = ()
    """Columns that tell any two rows apart, where an order is needed."""
    count: int | None = None
    offset: int = 0
    joined: bool = False

    @property
    def limited(self) -> bool:
        return self.count is not None or self.offset > 0

    @property
    def ordered(self) -> str:
        """The text after ORDER BY."""
        return ", ".join([*(f"{sql} {direction}" for sql, direction in self.order), *self.ties])

    def select(self, listed: Sequence[str]) -> str:
        """Return the whole statement."""
        return select(
            listed,
            self.source,
            where=self.conditions,
            order_by=self.ordered,
            limit=self.count,
            offset=self.offset or None,
        )


def flow_sql(flow: RelNode, tables: Tables, dialect: Dialect) -> str:
    """Return one statement for the columns and rows of a flow, in its order."""
    writing = Writing(dialect, tables)
    if isinstance(flow, ProjectNode):
        frame = _frame(flow.source, writing, ordered=True)
        shown = [writing.sql(item.scalar, frame.columns) for item in flow.items]
    else:
        frame = _frame(flow, writing, ordered=True)
        shown = [frame.columns[label, name] for label, name, _ in outputs(flow)]
    return frame.select([f"{sql} AS c{at}" for at, sql in enumerate(shown)] or ["0 AS c0"])


def projected(flow: RelNode, tables: Tables, columns: Mapping[str, Scalar], dialect: Dialect) -> str:
    """Return one statement for some scalars over the rows of a flow, in no order."""
    writing = Writing(dialect, tables)
    frame = replace(_apart(_frame(flow, writing, ordered=False), writing), order=(), ties=())
    listed = [f"{writing.sql(scalar, frame.columns)} AS {name}" for name, scalar in columns.items()]
    return frame.select(listed or ["0 AS none"])


def _frame(flow: RelNode, writing: Writing, *, ordered: bool) -> Frame:
    match flow:
        case ScanNode():
            return _read(flow, writing, ordered)
        case InputNode():
            return _given(flow, writing, ordered)
        case MaterializedNode():
            return _kept(flow, writing, ordered)
        case FilterNode():
            return _filtered(flow, writing, ordered)
        case JoinNode():
            return _pair(flow, writing, ordered)
        case AggregateNode():
            return _fold(flow, writing, ordered)
        case ProjectNode():
            return _show(flow, writing, ordered)
        case SortNode(source, keys):
            frame = _apart(_frame(source, writing, ordered=True), writing)
            return replace(frame, order=(*(_sort_key(*key, frame, writing) for key in keys), *frame.order))
        case LimitNode(source, most, offset):
            return replace(_apart(_frame(source, writing, ordered=True), writing), count=most, offset=offset)
        case WindowNode():
            return _windowed(flow, writing)
        case UnionAllNode():
            return _stacked(flow, writing, ordered)
        case MarkJoinNode():
            return _marked(flow, writing, ordered)


def _sort_key(scalar: Scalar, descending: bool, nulls_first: bool, frame: Frame, writing: Writing) -> tuple[str, str]:
    value = writing.dialect.sortable(writing.sql(scalar, frame.columns), scalar.facts.kind)
    return value, f"{'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"


def _addressed(flow: RelNode, alias: str) -> Columns:
    """Return the columns of a relation in which they are c0, c1, …"""
    return {(label, name): f"{alias}.c{at}" for at, (label, name, _) in enumerate(outputs(flow))}


def _placed(alias: str, ordered: bool) -> tuple[str, ...]:
    return (f"{alias}.place",) if ordered else ()


def _read(read: ScanNode, writing: Writing, ordered: bool) -> Frame:
    quoted, alias = writing.dialect.quote_identifier, writing.alias()
    listed = [f"{_decoded(quoted(stored), facts)} AS c{at}" for at, (_, stored, facts) in enumerate(read.columns)]
    if ordered or not listed:
        # a person's rows are told apart by their numbers within the person, which concern no other person
        place = quoted(PLACE) if read.max_rows_per_unit is None else quoted(RANK)
        listed.append(f"{place if ordered else 0} AS place")
    # What was accounted for is what is read. The engine knows the greatest rank of the table and skips a test that
    # nothing fails, so that this costs nothing as long as the copy is what it should be.
    tests = [] if read.max_rows_per_unit is None else [f"{quoted(RANK)} <= {read.max_rows_per_unit}"]
    tests += [f"{quoted(duplicate_rank_column(name))} = 1" for name in read.unique]
    source = subquery(select(listed, writing.tables[read.table], where=tests), alias)
    return Frame(source, _addressed(read, alias), ties=_placed(alias, ordered))


def _kept(kept: MaterializedNode, writing: Writing, ordered: bool) -> Frame:
    if not isinstance(kept.rows, MaterializedRows):
        raise AssertionError("kept rows meet people's rows in the engine that keeps them")
    quoted, alias = writing.dialect.quote_identifier, writing.alias()
    listed = [f"c{at}" for at in range(len(kept.columns))]
    if ordered or not listed:
        # a row of a person meets rows that agree in all keys, which are told apart by their numbers among those
        listed.append(f"{quoted(RANK) if ordered else 0} AS place")
    cut = select(listed, kept.rows.relation, where=f"{quoted(RANK)} <= {kept.most}")
    return Frame(subquery(cut, alias), _addressed(kept, alias), ties=_placed(alias, ordered))


def _decoded(stored: str, facts: Facts) -> str:
    """Return a stored column as scalars expect it: truth values are integers in the copy."""
    return f"({stored} = 1)" if facts.kind is Kind.BOOLEAN else stored


def _given(given: InputNode, writing: Writing, ordered: bool) -> Frame:
    quoted, alias = writing.dialect.quote_identifier, writing.alias()
    if given.rows is None:
        columns = {(given.label, name): f"{alias}.{quoted(name)}" for name, _ in given.columns}
        ties = (f"{alias}.{quoted(PLACE)}",) if ordered else ()
        return Frame(f"{writing.tables[given.label]} AS {alias}", columns, ties=ties)
    kinds = [facts for _, facts in given.columns]
    names = ["place", *(f"c{at}" for at in range(len(kinds)))]
    if given.rows:
        rows = [
            ", ".join([str(at), *(_constant(value, facts, writing) for value, facts in zip(row, kinds, strict=True))])
            for at, row in enumerate(given.rows)
        ]
        source = f"(VALUES ({'), ('.join(rows)})) AS {alias}({', '.join(names)})"
    else:
        values = ["0", *(_constant(None, facts, writing) for facts in kinds)]
        source = subquery(select(aliased(dict(zip(names, values, strict=True))), where="false"), alias)
    return Frame(source, _addressed(given, alias), ties=_placed(alias, ordered))


def _constant(value: int | float | str | bool | None, facts: Facts, writing: Writing) -> str:
    return writing.sql(literal(value, facts), {})


def _pair(pair: JoinNode, writing: Writing, ordered: bool) -> Frame:
    left, right = (_apart(_frame(side, writing, ordered=ordered), writing) for side in (pair.left, pair.right))
    if pair.kind is not JoinKind.INNER and right.conditions:
        right = _nested(right, writing)  # a row that they drop has not been met; the left side's may be tested later
    if pair.kind is JoinKind.FULL and left.conditions:
        left = _nested(left, writing)
    other = f"({right.source})" if right.joined else right.source
    columns = {**left.columns, **right.columns}
    on = "true" if pair.condition is None else writing.sql(pair.condition, columns)
    between = tuple((tie, "ASC NULLS LAST") for tie in left.ties)
    return Frame(
        f"{left.source} {pair.kind.upper()} JOIN {other} ON {on}",
        columns,
        left.conditions + right.conditions,
        order=left.order + between + right.order if left.order or right.order else (),
        ties=left.ties + right.ties,
        joined=True,
    )


def _fold(fold: AggregateNode, writing: Writing, ordered: bool) -> Frame:
    """Aggregate in one SELECT and finish what needs arithmetic in another, so that no argument is written twice."""
    frame, alias = _apart(_frame(fold.source, writing, ordered=ordered), writing), writing.alias()
    inner = [f"{_key(key.scalar, frame, writing)} AS k{at}" for at, key in enumerate(fold.keys)]
    outer = [f"k{at}" for at in range(len(fold.keys))]
    for at, measure in enumerate(fold.measures):
        named = {f"p{at}_{nth}": part for nth, part in enumerate(parts(measure, frame.columns, writing.dialect))}
        inner += aliased(named)
        outer.append(finished(measure, list(named), writing.dialect))
    outer = [f"{sql} AS c{at}" for at, sql in enumerate(outer)]
    if ordered or not outer:
        inner.append(f"{f'min({frame.ties[0]})' if ordered else 'count(*)'} AS place")
        outer.append("place AS place")
    # by position: a name could also be a column's
    positions = [str(at) for at in range(1, len(fold.keys) + 1)]
    folded = select(inner, frame.source, where=frame.conditions, group_by=positions)
    source = subquery(select(outer, subquery(folded, "folded")), alias)
    apart = [f"{alias}.c{at}" for at in range(len(fold.keys))] if ordered else []
    return Frame(source, _addressed(fold, alias), ties=(*_placed(alias, ordered), *apart))


def _key(scalar: Scalar, frame: Frame, writing: Writing) -> str:
    """Return what rows are grouped by: of equal doubles, always the same one stands for the group."""
    sql = writing.sql(scalar, frame.columns)
    return one_zero(sql, writing.dialect) if scalar.facts.kind is Kind.REAL else sql


def _show(show: ProjectNode, writing: Writing, ordered: bool) -> Frame:
    frame, alias = _frame(show.source, writing, ordered=ordered), writing.alias()
    listed = [f"{writing.passed_on(item.scalar, frame.columns)} AS c{at}" for at, item in enumerate(show.items)]
    if ordered or not listed:
        place = f"row_number() OVER (ORDER BY {frame.ordered})" if ordered else "0"
        listed.append(f"{place} AS place")
    source = subquery(frame.select(listed), alias)
    return Frame(source, _addressed(show, alias), ties=_placed(alias, ordered))


def _windowed(windowed: WindowNode, writing: Writing) -> Frame:
    """Compute for each row what windows say of it; what needs arithmetic is finished in another SELECT."""
    frame = _nested(_frame(windowed.source, writing, ordered=True), writing)
    rows = WindowRows(frame.columns, frame.ties, writing.dialect)
    inner, outer = [], []
    for at, value in enumerate(windowed.values):
        named = {f"p{at}_{nth}": part for nth, part in enumerate(window_parts(value, rows))}
        inner += aliased(named)
        outer.append(window_finished(value, list(named), writing.dialect))
    looked, alias = writing.alias(), writing.alias()
    source = subquery(select(["*", *inner], frame.source), looked)
    names = {f"v{at}": sql for at, sql in enumerate(outer)}
    here = {old: f"{alias}.{old.partition('.')[2]}" for old in (*frame.columns.values(), *frame.ties)}
    columns = {key: here[old] for key, old in frame.columns.items()}
    values = {(windowed.label, one.name): f"{alias}.{name}" for one, name in zip(windowed.values, names, strict=True)}
    return Frame(
        subquery(select(["*", *aliased(names)], source), alias),
        {**columns, **values},
        order=tuple((f"{alias}.{sql.partition('.')[2]}", way) for sql, way in frame.order),
        ties=tuple(here[tie] for tie in frame.ties),
    )


def _stacked(stacked: UnionAllNode, writing: Writing, ordered: bool) -> Frame:
    """Write both sides one behind the other; a row of the left side comes before one of the right."""
    sides = [_frame(side.source, writing, ordered=ordered) for side in (stacked.left, stacked.right)]
    texts = []
    for at, (side, frame) in enumerate(zip((stacked.left, stacked.right), sides, strict=True)):
        listed = [f"{writing.sql(item.scalar, frame.columns)} AS c{nth}" for nth, item in enumerate(side.items)]
        listed += [f"row_number() OVER (ORDER BY {frame.ordered}) AS place"] if ordered else []
        texts.append(frame.select([*listed, f"{at} AS side"]))
    both, alias = writing.alias(), writing.alias()
    union = union_all(map(subquery, texts))
    names = [f"c{nth}" for nth in range(len(stacked.left.items))]
    place = ["row_number() OVER (ORDER BY side, place) AS place"] if ordered else []
    source = subquery(select([*names, *place] or "0 AS none", subquery(union, both)), alias)
    return Frame(source, _addressed(stacked, alias), ties=_placed(alias, ordered))


def _marked(marked: MarkJoinNode, writing: Writing, ordered: bool) -> Frame:
    """Ask for each left row whether there is a right one; whatever it meets, it stays one row."""
    frame = _nested(_frame(marked.left, writing, ordered=ordered), writing)
    other = _nested(_frame(marked.right, writing, ordered=False), writing)
    on = "true" if marked.condition is None else writing.sql(marked.condition, {**frame.columns, **other.columns})
    found = exists(other.source, on)
    return _nested(replace(frame, columns={**frame.columns, (marked.label, FOUND): found}), writing)


def _filtered(filtered: FilterNode, writing: Writing, ordered: bool) -> Frame:
    """Keep the rows for which a condition is true; marks that it needs true or false are semi- and anti-joins."""
    parts, source, marks = list(_parts(filtered.condition)), filtered.source, list[tuple[MarkJoinNode, bool]]()
    while isinstance(source, MarkJoinNode):
        wanted = [is_true for is_true in (True, False) if _mark(source, is_true) in map(_bare, parts)]
        if len(wanted) != 1:
            break
        marks.append((source, wanted[0]))
        source = source.left
    if not marks:
        frame = _apart(_frame(source, writing, ordered=ordered), writing)
        return replace(frame, conditions=(*frame.conditions, writing.sql(filtered.condition, frame.columns)))
    # each engine looks for a row in its own way; the result is known from here on
    known = {(mark.label, FOUND): str(is_true).lower() for mark, is_true in marks}
    frame = _apart(_frame(source, writing, ordered=ordered), writing)
    columns, used = {**frame.columns, **known}, {_mark(mark, is_true) for mark, is_true in marks}
    tests = [writing.sql(part, columns) for part in parts if _bare(part) not in used]
    for mark, is_true in reversed(marks):
        other = _nested(_frame(mark.right, writing, ordered=False), writing)
        on = "true" if mark.condition is None else writing.sql(mark.condition, {**columns, **other.columns})
        tests.append(exists(other.source, on) if is_true else f"NOT {exists(other.source, on)}")
    return replace(frame, columns=columns, conditions=(*frame.conditions, *tests))


def _parts(condition: Scalar) -> Iterator[Scalar]:
    """Give what has to be true of a row that a condition keeps."""
    match condition.operator, condition.arguments:
        case Operator.AND, arguments:
            yield from (part for argument in arguments for part in _parts(argument))
        case Operator.NOT, (inner,) if inner.operator is Operator.OR:
            for argument in inner.arguments:
                yield from _parts(replace(condition, arguments=(argument,)))
        case _:
            yield condition


def _mark(marked: MarkJoinNode, is_true: bool) -> tuple[tuple[str, str], bool]:
    return (marked.label, FOUND), is_true


def _bare(part: Scalar) -> tuple[tuple[str, str] | None, bool]:
    """Return the column that a part is, and whether it has to be true; None where it is no column."""
    if part.operator is Operator.NOT:
        return address(part.arguments[0]), False
    return address(part), True


def _apart(frame: Frame, writing: Writing) -> Frame:
    """Return a frame to which clauses can be added: rows that were taken are taken first."""
    return _nested(frame, writing) if frame.limited else frame


def _nested(frame: Frame, writing: Writing) -> Frame:
    """Return the frame as one subselect: what can be used above it, and what its order needs, are columns of it."""
    alias = writing.alias()
    columns = {key: f"c{at}" for at, key in enumerate(frame.columns)}
    order = {f"o{at}": sql for at, (sql, _) in enumerate(frame.order)}
    ties = {f"p{at}": sql for at, sql in enumerate(frame.ties)}
    listed = [f"{frame.columns[key]} AS {name}" for key, name in columns.items()]
    listed += aliased(order | ties)
    return Frame(
        subquery(frame.select(listed or ["0 AS none"]), alias),
        {key: f"{alias}.{name}" for key, name in columns.items()},
        order=tuple((f"{alias}.{name}", way) for name, (_, way) in zip(order, frame.order, strict=True)),
        ties=tuple(f"{alias}.{name}" for name in ties),
    )
