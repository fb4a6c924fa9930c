"""Flows over noisy tables in an engine that holds nothing else: what `evaluate` cannot do without one."""

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from threading import local
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.diagnostics import record_engine_failure
from sfumato.engines.duckdb.connection import closed_connection
from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.engine import Limits
from sfumato.engines.post_processing.values import Values
from sfumato.engines.sql.builder import select, subquery
from sfumato.engines.sql.flow import flow_sql
from sfumato.engines.sql.names import PLACE, quoted
from sfumato.engines.time_limit import TimeLimit
from sfumato.errors import EngineFailed
from sfumato.language.facts import MAX_INTERMEDIATE_STEPS, Facts, Kind
from sfumato.language.rel_nodes import RelNode, noisy_tables

_INT64 = np.iinfo(np.int64)
_MIN_NUMPY_ROWS = 10_000
"""Columns so short are listed value by value: `to_numpy` would import pandas, too."""
_TIME_LIMIT_SECONDS = 120.0
"""Arithmetic on an answer that takes longer is stopped."""
_DECIMAL_38 = pa.decimal128(38, 0)  # FARTHEST has 38 digits


@dataclass(frozen=True, slots=True)
class _Evaluator:
    process: int
    connection: duckdb.DuckDBPyConnection


_evaluators = local()
_INHERITED_CONNECTIONS: list[_Evaluator] = []
"""Evaluators of a parent process: their threads do not exist here, so that even closing one could wait for ever."""


def evaluate_by_engine(flow: RelNode, given: Mapping[str, Mapping[str, Values]]) -> list[list[object]]:
    """Return what `evaluate` does, of any flow: an outcome that is plain takes a tenth of the time without it."""
    return [_python_values(column) for column in evaluate_table(flow, given).columns]


def evaluate_table(flow: RelNode, given: Mapping[str, Mapping[str, Values]]) -> pa.Table:
    """Return the same as an Arrow table with columns c0, c1, …; integers are int64 or decimals of 38 digits."""
    tables, bound = {}, {}
    for at, node in enumerate(noisy_tables(flow)):
        columns = {name: _column(given[node.label][name], facts) for name, facts in node.columns}
        length = len(next(iter(columns.values()))) if columns else _length(given[node.label])
        columns[PLACE] = _pack_array(pa.int64(), np.arange(length, dtype=np.int64), None)
        bound[f"given{at}"] = pa.Table.from_arrays(list(columns.values()), names=list(columns))
        listed = [_cast(name, array.type) for name, array in columns.items()]
        tables[node.label] = subquery(select(listed, f"given{at}"))
    return _run(flow_sql(flow, tables, DUCKDB), bound)


def _length(columns: Mapping[str, Values]) -> int:
    return max((len(values) for values in columns.values()), default=1)


def _cast(name: str, type: pa.DataType) -> str:
    return f"{quoted(name)}::HUGEINT AS {quoted(name)}" if type == _DECIMAL_38 else quoted(name)


def _column(values: Values, facts: Facts) -> pa.Array:
    """Return a column as the engine takes it; `pa.array` would import pandas where it is installed: half a second."""
    match facts.kind:
        case Kind.INTEGER:
            return _integers(values, facts)
        case Kind.REAL:
            reals = np.asarray(values, dtype=np.float64)  # None becomes NaN
            return _pack_array(pa.float64(), np.where(np.isfinite(reals), reals, 0.0), np.isfinite(reals))
        case Kind.BOOLEAN:
            truths = np.array([value is True for value in values], dtype=bool)
            return _pack_array(pa.bool_(), np.packbits(truths, bitorder="little"), _present(values), len(values))
        case _:
            return _texts(values)


def _integers(values: Values, facts: Facts) -> pa.Array:
    low, high = max(facts.low, -MAX_INTERMEDIATE_STEPS), min(facts.high, MAX_INTERMEDIATE_STEPS)
    if isinstance(values, np.ndarray) and values.dtype.kind == "i":
        near = np.clip(values.astype(np.int64, copy=False), max(low, _INT64.min), min(high, _INT64.max))
        return _pack_array(pa.int64(), near, None)
    within = [0 if value is None else min(max(int(value), low), high) for value in values]
    if -low <= 1 << 63 and high < 1 << 63:
        return _pack_array(pa.int64(), np.array(within, dtype=np.int64), _present(values))
    wide = b"".join(value.to_bytes(16, "little", signed=True) for value in within)
    return _pack_array(_DECIMAL_38, np.frombuffer(wide, dtype=np.uint8), _present(values), len(within))


def _texts(values: Values) -> pa.Array:
    parts = [b"" if value is None else str(value).encode() for value in values]
    ends = np.cumsum([0, *(len(part) for part in parts)], dtype=np.int64)
    mask = _mask(_present(values))
    buffers = [mask, pa.py_buffer(ends.tobytes()), pa.py_buffer(b"".join(parts))]
    return pa.Array.from_buffers(pa.large_string(), len(parts), buffers)


def _present(values: Values) -> npt.NDArray[np.bool_]:
    return np.array([value is not None for value in values], dtype=bool)


def _mask(present: npt.NDArray[np.bool_] | None) -> pa.Buffer | None:
    """Return the bits of what is not NULL; None where nothing is."""
    if present is None or bool(present.all()):
        return None
    return pa.py_buffer(np.packbits(present, bitorder="little").tobytes())


def _pack_array(
    type: pa.DataType, data: npt.NDArray[Any], present: npt.NDArray[np.bool_] | None, length: int | None = None
) -> pa.Array:
    buffer = pa.py_buffer(np.ascontiguousarray(data))
    return pa.Array.from_buffers(type, len(data) if length is None else length, [_mask(present), buffer])


def _run(statement: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """Run one statement over some tables; a failure is one fixed sentence, as everywhere."""
    try:
        with closing(_connection().cursor()) as cursor, TimeLimit(_TIME_LIMIT_SECONDS).running(cursor.interrupt):
            return _arrow(cursor, statement, tables)
    except duckdb.Error as error:
        record_engine_failure(error, statement)
    raise EngineFailed()


def _arrow(cursor: duckdb.DuckDBPyConnection, statement: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    try:
        for name, table in tables.items():
            cursor.register(name, table)
        return cursor.sql(statement).to_arrow_table()
    except (duckdb.Error, pa.ArrowException, MemoryError, OSError, OverflowError, RuntimeError) as error:
        record_engine_failure(error, statement)
    raise EngineFailed()


def _connection() -> duckdb.DuckDBPyConnection:
    """Return this thread's connection, made anew in a process that was forked."""
    evaluator: _Evaluator | None = getattr(_evaluators, "one", None)
    if evaluator is None or evaluator.process != os.getpid():
        if evaluator is not None:
            _INHERITED_CONNECTIONS.append(evaluator)
        evaluator = _Evaluator(os.getpid(), closed_connection([], Limits()))
        _evaluators.one = evaluator
    return evaluator.connection


def _python_values(column: pa.ChunkedArray) -> list[object]:
    """Return Python values; whole NumPy arrays at once where nothing is NULL."""
    if pa.types.is_decimal(column.type):
        return [None if value is None else int(value) for value in column.to_pylist()]
    if column.null_count or not pa.types.is_primitive(column.type) or len(column) < _MIN_NUMPY_ROWS:
        return list(column.to_pylist())
    return list(column.to_numpy().tolist())
