"""Convert arrays to rows of integers; a row with a value that is no number or no class is absent."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import BadParameter
from sfumato.learn.rows import UNIT_STEPS, Integers, Rows, blocks
from sfumato.learn.table_metadata import MAX_MODEL_COLUMNS, Floats, TableMetadata, inverse
from sfumato.randomness.source import Source, read_exactly

_MAX_SCALE = 1e300


def read_matrix(values: object) -> Floats:
    """Read a table of numbers; a cell that is no number becomes NaN, and only the shape and the type are refused."""
    array = None if _declares_texts(values) else _as_array(values, 2)
    if (
        array is None
        or array.ndim != 2
        or array.dtype.kind not in "biufO"
        or not 1 <= array.shape[1] <= MAX_MODEL_COLUMNS
    ):
        raise BadParameter(
            "X is not a table of numbers.",
            f"It has one line per row and 1 to {MAX_MODEL_COLUMNS} columns of numbers.",
            "Give a two-dimensional array; encode texts and dates as numbers first.",
        )
    return _floats(array)


def _declares_texts(values: object) -> bool:
    """Whether the columns of a frame are declared as texts, times or categories: no value decides it."""
    kinds = getattr(values, "dtypes", None)
    names = [str(kind) for kind in kinds] if isinstance(kinds, Iterable) else []
    return any(name.startswith(("str", "datetime", "timedelta", "category", "period")) for name in names)


def read_column(values: object, length: int, name: str) -> npt.NDArray[Any]:
    """Read one value per row, of any kind."""
    array = _as_array(values, 1)
    if array is not None and array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array is None or array.ndim != 1 or len(array) != length:
        raise BadParameter(
            f"{name} is not one value per row.",
            "It belongs to the rows of X, in their order.",
            "Give a list of that length.",
        )
    return array


def _as_array(values: object, depth: int) -> npt.NDArray[Any] | None:
    """Return an array; lists keep their values as they are: which of them are numbers must not decide its type."""
    if isinstance(values, list | tuple):
        return _fill_array(values, depth)
    if values is None or type(values).__module__.startswith("scipy.sparse"):
        return None
    try:
        return np.asarray(values)
    except (ValueError, TypeError):
        return None


def _fill_array(values: list[Any] | tuple[Any, ...], depth: int) -> npt.NDArray[Any] | None:
    rows = values
    width = 0
    if depth == 2:
        if not values or not all(isinstance(row, list | tuple | np.ndarray) for row in values):
            return None
        width = len(values[0])
        if any(len(row) != width for row in values):
            return None
    array = np.empty((len(values), width) if depth == 2 else len(values), dtype=object)
    for index, row in enumerate(rows):
        if depth == 1:
            array[index] = row
            continue
        for column, value in enumerate(row):
            array[index, column] = value
    return array


def _floats(array: npt.NDArray[Any]) -> Floats:
    if array.dtype.kind != "O":
        with np.errstate(all="ignore"):
            return array.astype(np.float64, copy=False)
    return np.array([_float(value) for value in array.flat], dtype=np.float64).reshape(array.shape)


def _float(value: object) -> float:
    try:
        return float(value) if not isinstance(value, str | bytes) else np.nan  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return np.nan


def bounded_rows(
    X: object,  # noqa: N803
    y: object,
    groups: object,
    metadata: TableMetadata,
    source: Source,
) -> Rows:
    """Return the rows that count, as integers: at most `metadata.most` of each person, none with anything missing."""
    table = read_matrix(X)
    if groups is None and metadata.rows_per_person > 1:
        raise BadParameter(
            f"rows_per_person = {metadata.rows_per_person} is given without groups.",
            "Without groups each row is a separate person, who has one row.",
            "Pass groups, the person of each row, or leave rows_per_person out.",
        )
    present = np.ones(len(table), dtype=bool)
    labels = np.zeros(len(table), dtype=np.int64)
    if metadata.numeric_target:
        target = read_column(y, len(table), "y")
        if target.dtype.kind not in "biufO":
            raise BadParameter(
                f"y is an array of type {target.dtype}.",
                "The target of this model is a number.",
                "Convert y to numbers first, for example with y.astype(float).",
            )
        table = np.column_stack([table, _floats(target)])
    elif metadata.classes:
        labels = _labels(read_column(y, len(table), "y"), metadata.classes)
        present &= labels >= 0
    if not _all_finite(table):
        present &= np.isfinite(table).all(axis=1)
    people = np.arange(len(table))
    if groups is not None:
        people = _person_numbers(read_column(groups, len(table), "groups"))
        present &= people >= 0
    if not present.all():
        table, labels, people = table[present], labels[present], people[present]
    if groups is not None:
        places = _sample_rows_per_person(people, metadata.rows_per_person, source)
        table, labels, people = table[places], labels[places], people[places]
    return Rows(integers_of(table, metadata), labels, people, max(1, len(metadata.classes)))


def _all_finite(table: Floats) -> bool:
    """Tell whether the sum shows that every number is finite; if it does not, they may still be finite."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite(table.sum()))


def integers_of(table: Floats, metadata: TableMetadata) -> Floats:
    """Scale each value from its column's bounds to an integer in [-UNIT, UNIT]."""
    middle, scale = metadata.middle, np.minimum(UNIT_STEPS * inverse(metadata.half), _MAX_SCALE)
    low, high = np.array(metadata.low), np.array(metadata.high)
    integers = np.empty(table.shape, order="F")
    for part in blocks(len(table)):
        values = np.minimum(np.maximum(np.asfortranarray(table[part]), low), high)
        values -= middle
        values *= scale
        np.rint(values, out=integers[part])  # at most UNIT in size: a value is at most half a range from the middle
    return integers


def _labels(target: npt.NDArray[Any], classes: tuple[Any, ...]) -> Integers:
    places = {value: number for number, value in enumerate(classes)}
    labels = np.full(len(target), -1, dtype=np.int64)
    if target.dtype.kind in "biuf" and all(isinstance(value, bool | int | float) for value in classes):
        for value, number in places.items():
            labels[target == value] = number
        return labels
    for index, value in enumerate(target.tolist()):
        try:
            labels[index] = places.get(value, -1)
        except TypeError:  # it cannot be hashed, so it is no class
            continue
    return labels


def _person_numbers(groups: npt.NDArray[Any]) -> Integers:
    """Return a number for each person; -1 where the unit is missing."""
    if groups.dtype.kind in "biuSU":
        return np.unique(groups, return_inverse=True)[1].astype(np.int64)
    numbers: dict[object, int] = {}
    found = np.full(len(groups), -1, dtype=np.int64)
    for index, value in enumerate(groups.tolist()):
        try:
            if value is not None and value == value:
                found[index] = numbers.setdefault(value, len(numbers))
        except (TypeError, ValueError):
            continue
    return found


def _sample_rows_per_person(people: Integers, most: int, source: Source) -> npt.NDArray[np.intp]:
    """Return places of at most `most` rows of each person, drawn by coins of that person's own rows."""
    coins = np.frombuffer(read_exactly(source, 8 * len(people)), dtype=np.uint64)
    order = np.lexsort((coins, people))
    ordered = people[order]
    first = np.searchsorted(ordered, ordered, side="left")
    return np.sort(order[np.arange(len(ordered)) - first < most])
