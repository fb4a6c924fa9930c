"""Outcomes that need no engine: columns, comparisons, an order and a limit over one noisy table.

Most questions ask for nothing else, and an engine takes longer to read its statement than they take here. Whatever is
not listed here is `after_noise`'s; where both can answer, they answer the same, value for value.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import eq, le, lt, ne
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.language.facts import MAX_INTERMEDIATE_STEPS, Facts, Kind
from sfumato.language.rel_nodes import FilterNode, InputNode, LimitNode, ProjectNode, RelNode, SortNode
from sfumato.language.scalar import Operator, Scalar

_Value = int | float | str | bool | None
_Column = list[_Value]
_InputTables = Mapping[str, Mapping[str, Sequence[_Value] | npt.NDArray[np.generic]]]

MAX_PYTHON_ROWS = 10_000
"""Of more rows an engine's arrays are faster."""
_INT64 = np.iinfo(np.int64)
_COMPARISONS: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQUAL: eq,
    Operator.DIFFERENT: ne,
    Operator.LESS: lt,
    Operator.AT_MOST: le,
}
_ORDERED_KINDS = (Kind.INTEGER, Kind.REAL, Kind.TEXT)
"""Kinds whose values Python compares as an engine does: texts by code point, doubles none of which is NaN."""


class _NotPlainError(Exception):
    """Something that is not listed here."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Some rows, in their order: every column that can be used above them."""

    columns: Mapping[tuple[str, str], _Column]
    count: int

    def chosen(self, places: Sequence[int]) -> "_Rows":
        return _Rows({name: [column[at] for at in places] for name, column in self.columns.items()}, len(places))


def plain_outcome(flow: RelNode, given: _InputTables) -> list[_Column] | None:
    """Return the columns of a flow over noisy tables as `after_noise.evaluate` would; None where it is not plain."""
    if not isinstance(flow, ProjectNode) or not flow.items:
        return None
    try:
        rows = _rows(flow, given)
    except _NotPlainError:
        return None
    return [rows.columns[flow.label, item.name] for item in flow.items]


def _rows(flow: RelNode, given: _InputTables) -> _Rows:
    match flow:
        case InputNode(label, columns, None) if columns:
            count = len(given[label][columns[0][0]])
            if count > MAX_PYTHON_ROWS:
                raise _NotPlainError
            return _Rows({(label, name): _check_column(given[label][name], facts) for name, facts in columns}, count)
        case FilterNode(source, condition):
            rows = _rows(source, given)
            truths = _values(condition, rows)
            return rows.chosen([at for at, truth in enumerate(truths) if truth is True])
        case SortNode(source, keys):
            return _order_rows(_rows(source, given), keys)
        case LimitNode(source, count, offset):
            rows = _rows(source, given)
            return rows.chosen(range(rows.count)[offset : None if count is None else offset + count])
        case ProjectNode(source, label, items):
            rows = _rows(source, given)
            return replace(rows, columns={(label, item.name): _values(item.scalar, rows) for item in items})
    raise _NotPlainError


def _order_rows(rows: _Rows, keys: Sequence[tuple[Scalar, bool, bool]]) -> _Rows:
    """Sort by the last key first: rows with equal keys keep their order."""
    places = list(range(rows.count))
    for scalar, descending, nulls_first in reversed(keys):
        values = _values(scalar, rows)
        if scalar.facts.kind not in (*_ORDERED_KINDS, Kind.BOOLEAN):
            raise _NotPlainError
        absent = [at for at in places if values[at] is None]
        present = [at for at in places if values[at] is not None]
        present.sort(key=values.__getitem__, reverse=descending)  # type: ignore[arg-type]  # of one kind, and not None
        places = absent + present if nulls_first else present + absent
    return rows.chosen(places)


def _values(scalar: Scalar, rows: _Rows) -> _Column:
    match scalar.operator:
        case Operator.COLUMN:
            return rows.columns[scalar.constant]  # type: ignore[index]  # of a column, label and name
        case Operator.CONSTANT if not isinstance(scalar.constant, tuple):
            return [scalar.constant] * rows.count
        case Operator.IS_NULL:
            return [value is None for value in _values(scalar.arguments[0], rows)]
        case Operator.NOT:
            return [None if value is None else not value for value in _values(scalar.arguments[0], rows)]
        case Operator.AND | Operator.OR:
            sides = zip(*(_values(argument, rows) for argument in scalar.arguments), strict=True)
            ends = scalar.operator is Operator.OR
            return [_either(side, ends) for side in sides]
        case Operator.EQUAL | Operator.DIFFERENT | Operator.LESS | Operator.AT_MOST:
            return _compare(scalar, rows)
    raise _NotPlainError


def _either(side: Sequence[_Value], ends: bool) -> bool | None:
    """Return `ends` if one is, else NULL if one is NULL: OR where it is true, AND where it is false."""
    if ends in side:
        return ends
    return None if None in side else not ends


def _compare(scalar: Scalar, rows: _Rows) -> _Column:
    one, other = scalar.arguments
    if one.facts.kind is not other.facts.kind or one.facts.kind not in _ORDERED_KINDS:
        raise _NotPlainError
    holds = _COMPARISONS[scalar.operator]
    pairs = zip(_values(one, rows), _values(other, rows), strict=True)
    return [None if left is None or right is None else holds(left, right) for left, right in pairs]


def _check_column(values: Sequence[_Value] | npt.NDArray[np.generic], facts: Facts) -> _Column:
    """Return a column as it may stand in an answer: integers within their facts, doubles that are finite."""
    match facts.kind:
        case Kind.INTEGER:
            low, high = max(facts.low, -MAX_INTERMEDIATE_STEPS), min(facts.high, MAX_INTERMEDIATE_STEPS)
            if isinstance(values, np.ndarray) and values.dtype.kind == "i":
                near = values.astype(np.int64, copy=False)
                return list(near.clip(max(low, _INT64.min), min(high, _INT64.max)).tolist())
            if len(values) and None not in values and low <= min(values) and max(values) <= high:
                return list(map(int, values))
            return [None if value is None else min(max(int(value), low), high) for value in values]
        case Kind.REAL:
            reals = np.asarray(values, dtype=np.float64)  # None becomes NaN
            if np.isfinite(reals).all():
                return list(reals.tolist())
            return [value if finite else None for value, finite in zip(reals.tolist(), np.isfinite(reals), strict=True)]
        case Kind.BOOLEAN:
            return [None if value is None else value is True for value in values]
        case Kind.TEXT:
            return [None if value is None else str(value) for value in values]
    raise _NotPlainError
