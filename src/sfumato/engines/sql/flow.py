"""Flows as SQL: one SELECT, in which every column is addressed as "label"."name".

A flow becomes a frame, the clauses of a SELECT whose list is still open, so that filters and joins add to it and only
what must be computed apart is nested. Rows have a place: whatever an Order leaves equal stays as it was, and a Take
keeps the same rows each time it is asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from sfumato.analysis.facts import Facts, Kind
from sfumato.analysis.flow import Flow, Fold, Given, Keep, Kept, Order, Pair, Read, Show, Take, outputs
from sfumato.analysis.scalar import Operator, Scalar
from sfumato.engines.duckdb.connection import RANK, once_name, quoted
from sfumato.engines.sql.fold import finished, one_zero, parts
from sfumato.engines.sql.scalar import scalar_sql
from sfumato.query.relation import JoinKind

PLACE = '"place"'
"""The hidden column that tells the order of rows. No name of a query or policy holds a quotation mark."""


@runtime_checkable
class KeptRows(Protocol):
    """Where the engine keeps public rows that were computed once."""

    @property
    def relation(self) -> str:
        """The SQL after FROM: a table with the columns c0, c1, … and RANK."""


Tables = Mapping[str, str]
"""For each table, and for each noisy table by its label, the SQL after FROM. Where rows are shown, it has a PLACE."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The clauses of a SELECT but its list."""

    source: str
    labels: tuple[str, ...]
    conditions: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    ties: tuple[str, ...] = ()
    """What tells any two rows apart, where somebody needs an order."""
    count: int | None = None
    offset: int = 0

    @property
    def limited(self) -> bool:
        return self.count is not None or self.offset > 0

    def select(self, listed: Sequence[str]) -> str:
        """Return the whole statement."""
        where = _where(self.conditions)
        order = f" ORDER BY {', '.join((*self.order, *self.ties))}" if self.order or self.ties else ""
        limit = "" if self.count is None else f" LIMIT {self.count}"
        offset = f" OFFSET {self.offset}" if self.offset else ""
        return f"SELECT {', '.join(listed)} FROM {self.source}{where}{order}{limit}{offset}"  # noqa: S608


def flow_sql(flow: Flow, tables: Tables) -> str:
    """Return one statement for the columns and rows of a flow, in its order."""
    if isinstance(flow, Show):
        frame, shown = _frame(flow.source, tables, ordered=True), [scalar_sql(item.scalar) for item in flow.items]
    else:
        frame, shown = _frame(flow, tables, ordered=True), [_name(label, name) for label, name, _ in outputs(flow)]
    return frame.select([f"{sql} AS c{at}" for at, sql in enumerate(shown)] or ["0 AS c0"])


def projected(flow: Flow, tables: Tables, columns: Mapping[str, Scalar]) -> str:
    """Return one statement for some scalars over the rows of a flow, in no order."""
    frame = replace(_apart(_frame(flow, tables, ordered=False)), order=(), ties=())
    return frame.select([f"{scalar_sql(scalar)} AS {name}" for name, scalar in columns.items()] or ["0 AS none"])


def _frame(flow: Flow, tables: Tables, *, ordered: bool) -> Frame:
    match flow:
        case Read():
            return _read(flow, tables, ordered)
        case Given():
            return _given(flow, tables, ordered)
        case Kept():
            return _kept(flow, ordered)
        case Keep(source, condition):
            frame = _apart(_frame(source, tables, ordered=ordered))
            return replace(frame, conditions=(*frame.conditions, scalar_sql(condition)))
        case Pair():
            return _pair(flow, tables, ordered)
        case Fold():
            return _fold(flow, tables, ordered)
        case Show():
            return _show(flow, tables, ordered)
        case Order(source, keys):
            frame = _apart(_frame(source, tables, ordered=True))
            return replace(frame, order=(*(_sort_key(*key) for key in keys), *frame.order))
        case Take(source, count, offset):
            return replace(_apart(_frame(source, tables, ordered=True)), count=count, offset=offset)


def _name(label: str, name: str) -> str:
    return f"{quoted(label)}.{quoted(name)}"


def _sort_key(scalar: Scalar, descending: bool, nulls_first: bool) -> str:
    return f"{scalar_sql(scalar)} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"


def _placed(label: str, ordered: bool) -> tuple[str, ...]:
    return (_name(label, PLACE),) if ordered else ()


def _read(read: Read, tables: Tables, ordered: bool) -> Frame:
    listed = [f"{_decoded(stored, facts)} AS {quoted(name)}" for name, stored, facts in read.columns]
    if ordered or not listed:
        listed.append(quoted(PLACE) if ordered else f"0 AS {quoted(PLACE)}")
    # What was accounted for is what is read. The engine knows the greatest rank of the table and skips a test that
    # nothing fails, so that this costs nothing as long as the copy is what it should be.
    tests = [] if read.most is None else [f"{quoted(RANK)} <= {read.most}"]
    tests += [f"{quoted(once_name(name))} = 1" for name in read.once]
    source = f"(SELECT {', '.join(listed)} FROM {tables[read.table]}{_where(tests)}) AS {quoted(read.label)}"  # noqa: S608
    return Frame(source, (read.label,), ties=_placed(read.label, ordered))


def _where(tests: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(tests)}" if tests else ""


def _kept(kept: Kept, ordered: bool) -> Frame:
    if ordered or not isinstance(kept.rows, KeptRows):
        raise AssertionError("kept rows meet people's rows, which have no order, in the engine that keeps them")
    listed = [f"c{at} AS {quoted(item.name)}" for at, item in enumerate(kept.columns)] or ["0 AS none"]
    cut = f"SELECT {', '.join(listed)} FROM {kept.rows.relation} WHERE {quoted(RANK)} <= {kept.most}"  # noqa: S608
    return Frame(f"({cut}) AS {quoted(kept.label)}", (kept.label,))


def _decoded(stored: str, facts: Facts) -> str:
    """Return a stored column as scalars expect it: truth values are integers in the copy."""
    return f"({quoted(stored)} = 1)" if facts.kind is Kind.BOOLEAN else quoted(stored)


def _given(given: Given, tables: Tables, ordered: bool) -> Frame:
    label, names = given.label, [quoted(name) for name in (PLACE, *(name for name, _ in given.columns))]
    if given.rows is None:
        source = f"{tables[label]} AS {quoted(label)}"
    elif given.rows:
        kinds = [facts for _, facts in given.columns]
        rows = [
            ", ".join([str(at), *(_constant(value, facts) for value, facts in zip(row, kinds, strict=True))])
            for at, row in enumerate(given.rows)
        ]
        values = "), (".join(rows)
        source = f"(VALUES ({values})) AS {quoted(label)}({', '.join(names)})"
    else:
        listed = [f"{_constant(None, facts)} AS {quoted(name)}" for name, facts in given.columns]
        source = f"(SELECT {', '.join([f'0 AS {names[0]}', *listed])} WHERE false) AS {quoted(label)}"
    return Frame(source, (label,), ties=_placed(label, ordered))


def _constant(value: int | float | str | bool | None, facts: Facts) -> str:
    return scalar_sql(Scalar(Operator.CONSTANT, (), facts, value))


def _pair(pair: Pair, tables: Tables, ordered: bool) -> Frame:
    left, right = (_apart(_frame(side, tables, ordered=ordered)) for side in (pair.left, pair.right))
    if pair.kind is JoinKind.LEFT and right.conditions:
        right = _nested(right)  # a row that they drop has not been met; the left side's may be tested after the join
    other = f"({right.source})" if len(right.labels) > 1 else right.source
    on = "true" if pair.condition is None else scalar_sql(pair.condition)
    return Frame(
        f"{left.source} {'LEFT' if pair.kind is JoinKind.LEFT else 'INNER'} JOIN {other} ON {on}",
        left.labels + right.labels,
        left.conditions + right.conditions,
        order=left.order + left.ties + right.order if left.order or right.order else (),
        ties=left.ties + right.ties,
    )


def _fold(fold: Fold, tables: Tables, ordered: bool) -> Frame:
    """Aggregate in one SELECT and finish what needs arithmetic in another, so that no argument is written twice."""
    frame = _apart(_frame(fold.source, tables, ordered=ordered))
    inner = [f"{_key(key.scalar)} AS k{at}" for at, key in enumerate(fold.keys)]
    outer = [f"k{at} AS {quoted(key.name)}" for at, key in enumerate(fold.keys)]
    for at, measure in enumerate(fold.measures):
        named = {f"p{at}_{nth}": part for nth, part in enumerate(parts(measure))}
        inner += [f"{part} AS {name}" for name, part in named.items()]
        outer.append(f"{finished(measure, list(named))} AS {quoted(measure.name)}")
    if ordered or not outer:
        inner.append(f"{f'min({frame.ties[0]})' if ordered else 'count(*)'} AS place")
        outer.append(f"place AS {quoted(PLACE)}")
    # by position: a name could also be a column's
    grouped = f" GROUP BY {', '.join(str(at) for at in range(1, len(fold.keys) + 1))}" if fold.keys else ""
    folded = replace(frame, order=(), ties=()).select(inner) + grouped
    source = f"(SELECT {', '.join(outer)} FROM ({folded}) AS folded) AS {quoted(fold.label)}"  # noqa: S608
    apart = [_name(fold.label, key.name) for key in fold.keys] if ordered else []
    return Frame(source, (fold.label,), ties=(*_placed(fold.label, ordered), *apart))


def _key(scalar: Scalar) -> str:
    """Return what rows are grouped by: of equal doubles, always the same one stands for the group."""
    return one_zero(scalar_sql(scalar)) if scalar.facts.kind is Kind.REAL else scalar_sql(scalar)


def _show(show: Show, tables: Tables, ordered: bool) -> Frame:
    frame = _frame(show.source, tables, ordered=ordered)
    listed = [f"{scalar_sql(item.scalar)} AS {quoted(item.name)}" for item in show.items]
    if ordered or not listed:
        place = f"row_number() OVER (ORDER BY {', '.join((*frame.order, *frame.ties))})" if ordered else "0"
        listed.append(f"{place} AS {quoted(PLACE)}")
    source = f"({frame.select(listed)}) AS {quoted(show.label)}"
    return Frame(source, (show.label,), ties=_placed(show.label, ordered))


def _apart(frame: Frame) -> Frame:
    """Return a frame to which clauses can be added: rows that were taken are taken first."""
    return _nested(frame) if frame.limited else frame


def _nested(frame: Frame) -> Frame:
    """Return the frame as one subselect. Its labels stay: of several, each is a column that holds a whole row."""
    if len(frame.labels) == 1:
        label = quoted(frame.labels[0])
        source = f"({frame.select([f'{label}.*'])}) AS {label}"
    else:
        rows = quoted(f'"{frame.labels[0]}"')
        source = f"({frame.select([quoted(label) for label in frame.labels])}) AS {rows}"
    return Frame(source, frame.labels, order=frame.order, ties=frame.ties)
