"""Window functions as SQL: what an engine computes for each row, and the arithmetic that follows from it.

Whatever depends on the order of rows is told apart by `ties`, so that the same rows give the same answer each time.
Functions of the rows that are equal in the sort keys are written without them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.fold import finished, one_zero, parts
from sfumato.engines.sql.scalar import Columns, scalar_sql
from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import WindowAggregate, WindowSpec, WindowValue
from sfumato.language.scalar import Scalar
from sfumato.query.windows import SHARES, SHIFTS, WindowFrame, WindowFunction

_OF_EQUALS = SHARES | {WindowFunction.RANK, WindowFunction.DENSE_RANK}
"""Functions with the same value for rows that are equal in the sort keys."""


@dataclass(frozen=True, slots=True)
class WindowRows:
    """The rows that windows look at: their columns, and what tells any two of them apart."""

    columns: Columns
    ties: tuple[str, ...]
    dialect: Dialect

    def key(self, scalar: Scalar) -> str:
        """Return what rows of one partition agree in."""
        sql = scalar_sql(scalar, self.columns, self.dialect)
        return one_zero(sql, self.dialect) if scalar.facts.kind is Kind.REAL else sql

    def order(self, around: WindowSpec) -> list[str]:
        """Return the items of an ORDER BY."""
        return [self._sort_key(*key, wide=around.frame.has_distances) for key in around.order]

    def _sort_key(self, scalar: Scalar, descending: bool, nulls_first: bool, *, wide: bool) -> str:
        """Return one item of an ORDER BY; one to which distances are added has room for them, whatever it holds."""
        value = self.dialect.sortable(scalar_sql(scalar, self.columns, self.dialect), scalar.facts.kind)
        value = f"CAST({value} AS {self.dialect.wide})" if wide else value
        return f"{value} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"


def window_parts(value: WindowValue | WindowAggregate, rows: WindowRows) -> list[str]:
    """Return what is computed for a row: SQL with OVER."""
    partition = [rows.key(key) for key in value.around.partition]
    order = rows.order(value.around)
    frame = value.around.frame
    if isinstance(value, WindowAggregate):
        tied = [*order, *rows.ties] if frame.rows else order
        over = _over(partition, tied, frame)
        return [f"{part} {over}" for part in parts(value.folded, rows.columns, rows.dialect)]
    function, count = value.call.function, value.call.count
    arguments = [scalar_sql(argument, rows.columns, rows.dialect) for argument in value.call.arguments]
    tied = [*order, *rows.ties]
    if function in _OF_EQUALS:  # without an order all rows are equal, and some engines want to be told
        order = order or [f"CAST(NULL AS {rows.dialect.text_type})"]
        return [_widened(f"{function}() {_over(partition, order)}", value.facts, rows.dialect)]
    if function is WindowFunction.ROW_NUMBER:
        return [_widened(f"row_number() {_over(partition, tied)}", value.facts, rows.dialect)]
    if function is WindowFunction.NTILE:
        return [_widened(f"ntile({count}) {_over(partition, tied)}", value.facts, rows.dialect)]
    if function in SHIFTS:
        if value.facts.kind is Kind.INTEGER:  # an engine would bring the default to the type of the first, or fail
            type = rows.dialect.integer_type(value.facts)
            arguments = [f"CAST({argument} AS {type})" for argument in arguments]
        return [f"{function}({', '.join([arguments[0], str(count), *arguments[1:]])}) {_over(partition, tied)}"]
    return [_placed(value, arguments[0], rows)]


def _widened(sql: str, facts: Facts, dialect: Dialect) -> str:
    """Return the number of a row in the type in which it is computed with: engines number rows in 32 bits, too."""
    return f"CAST({sql} AS {dialect.integer_type(facts)})" if facts.kind is Kind.INTEGER else sql


def window_finished(value: WindowValue | WindowAggregate, named: Sequence[str], dialect: Dialect) -> str:
    """Return the value from the names of its parts."""
    return finished(value.folded, named, dialect) if isinstance(value, WindowAggregate) else named[0]


def _placed(value: WindowValue, argument: str, rows: WindowRows) -> str:
    """Return the value of the first, last or n-th row of a frame.

    A frame that ends with the rows that are equal in the sort keys ends, or begins, with the last, or first, of those:
    the rows of a partition of their own.
    """
    frame, function, count = value.around.frame, value.call.function, value.call.count
    partition = [rows.key(key) for key in value.around.partition]
    order = rows.order(value.around)
    tied = [*order, *rows.ties]
    called = f"{function}({argument}{f', {count}' if function is WindowFunction.NTH_VALUE else ''})"
    if frame.rows or frame.whole:
        return f"{called} {_over(partition, tied, WindowFrame(True, frame.start, frame.end))}"
    equals = [*partition, *(rows.key(key) for key, _, _ in value.around.order)]
    whole = WindowFrame(rows=True)
    if function is WindowFunction.NTH_VALUE:  # from the first row on: the frame has this many rows
        found = f"{called} {_over(partition, tied, whole)}"
        return f"CASE WHEN count(*) {_over(partition, order, frame)} >= {count} THEN {found} END"
    ends_here = (frame.end if function is WindowFunction.LAST_VALUE else frame.start) is not None
    return f"{called} {_over(equals if ends_here else partition, tied, whole)}"


def _over(partition: Sequence[str], order: Sequence[str], frame: WindowFrame | None = None) -> str:
    clauses = [f"PARTITION BY {', '.join(partition)}"] if partition else []
    clauses += [f"ORDER BY {', '.join(order)}"] if order else []
    if frame is not None and (order or frame.rows):
        unit = "ROWS" if frame.rows else "RANGE"
        clauses.append(f"{unit} BETWEEN {_end(frame.start, 'PRECEDING')} AND {_end(frame.end, 'FOLLOWING')}")
    return f"OVER ({' '.join(clauses)})"


def _end(distance: Fraction | None, unbounded: str) -> str:
    if distance is None:
        return f"UNBOUNDED {unbounded}"
    if distance == 0:
        return "CURRENT ROW"
    return f"{abs(int(distance))} {'PRECEDING' if distance < 0 else 'FOLLOWING'}"
