"""Columns as the house's SQL sees them: their facts, their public keys, and values as its engine keeps them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from math import ceil, lcm, log10, prod
from typing import Any

import numpy as np

from sfumato.analysis.catalog import Field
from sfumato.analysis.keys import MAX_GROUP_CELLS
from sfumato.exact import decimal_rational
from sfumato.language.facts import Facts, Kind
from sfumato.policy.policy import fold_name, position
from sfumato.query.types import Type
from sfumato.synthesis.domain import Choices, Codes, ColumnDomain, Continuum, Floats, Nullable, Stepped

OWNER = Field('"row"', '"row"', Facts(Type.INTEGER, Kind.UNIT, nullable=False))
"""Each row stands for itself. No question can spell this name."""
_TYPES = {bool: Type.BOOLEAN, int: Type.INTEGER, date: Type.DATE, datetime: Type.TIMESTAMP, str: Type.TEXT}
_CELL_PLACES = 5  # a cell of an interval has about this many decimal places of its own
_MAX_STEP_DENOMINATOR = 10**6
_MAX_POINTS = 400_000
_POINTS_PER_COLUMN = 65


def field_of(column: ColumnDomain) -> Field:
    """Return a column as a question may name it."""
    if isinstance(column, Nullable):
        held = field_of(column.present)
        return replace(held, facts=replace(held.facts, nullable=True))
    name = fold_name(column.name)
    if isinstance(column, Choices) and isinstance(column.values[0], bool):
        return Field(name, name, Facts(Type.BOOLEAN, Kind.BOOLEAN, nullable=False), cells=(False, True))
    if isinstance(column, Choices) and isinstance(column.values[0], str):
        texts = [str(value) for value in column.values]
        longest = max(map(len, texts))
        return Field(name, name, Facts(Type.TEXT, Kind.TEXT, nullable=False, max_chars=longest), cells=tuple(texts))
    step, low, high, kind = _grid(column)
    facts = Facts(kind, Kind.INTEGER, nullable=False, step=step, low=low, high=high)
    if isinstance(column, Choices):
        return Field(name, name, facts, cells=tuple(_steps(column, step)))
    few = high - low < MAX_GROUP_CELLS
    return Field(name, name, facts, cells=tuple(range(low, high + 1)) if few else None)


def stored_values(column: ColumnDomain, codes: Codes, within: Floats) -> Any:
    """Return values of the given cells as the engine stores them: integers in grid steps, texts, booleans, NULL."""
    if isinstance(column, Nullable):
        missing, held = column.held(codes)
        present = np.asarray(stored_values(column.present, held, within)).tolist()
        return [None if gone else value for gone, value in zip(missing.tolist(), present, strict=True)]
    if isinstance(column, Stepped):
        return column.steps(codes, within)
    step, low, high, _ = _grid(column) if not _has_listed_values(column) else (Fraction(1), 0, 0, Type.TEXT)
    if isinstance(column, Continuum):
        return np.clip(np.rint(column.numbers(codes, within) / float(step)), low, high).astype(np.int64)
    if _has_listed_values(column):
        return [column.values[code] for code in codes.tolist()]
    return np.array(_steps(column, step), dtype=np.int64)[codes]


def points(columns: Sequence[ColumnDomain]) -> tuple[list[Codes], list[Floats], Codes, Floats]:
    """Return points in every cell of a marginal: per column code and place within, the cell, and the share of it.

    A column with several values in a cell has several points there, its ends among them, evenly spread.
    """
    sizes = [column.size for column in columns]
    wide = [column for column in columns if not isinstance(_present(column), Choices)]
    most = int((_MAX_POINTS / prod(sizes)) ** (1 / max(len(wide), 1)))
    probe_points = [_probe_points(_present(column), max(2, min(most, _POINTS_PER_COLUMN))) for column in columns]
    grids = np.meshgrid(
        *(np.arange(size * len(column_points)) for size, column_points in zip(sizes, probe_points, strict=True)),
        indexing="ij",
    )
    codes = [grid.ravel() // len(column_points) for grid, column_points in zip(grids, probe_points, strict=True)]
    within = [
        column_points[grid.ravel() % len(column_points)]
        for grid, column_points in zip(grids, probe_points, strict=True)
    ]
    place = np.ravel_multi_index(tuple(codes), sizes)
    return codes, within, place, np.full(len(place), 1.0 / prod(len(column_points) for column_points in probe_points))


def _present(column: ColumnDomain) -> Choices | Continuum | Stepped:
    """Return what a column holds beside NULL."""
    return column.present if isinstance(column, Nullable) else column


def _probe_points(column: Choices | Continuum | Stepped, most: int) -> Floats:
    if isinstance(column, Choices):
        return np.zeros(1)
    values = most if isinstance(column, Continuum) else ceil(column.count / column.size)
    if values <= most:
        return (np.arange(values) + 0.5) / values
    return np.linspace(0.0, 1 - 2**-53, most)


def _has_listed_values(column: Choices | Continuum | Stepped) -> bool:
    return isinstance(column, Choices) and isinstance(column.values[0], str | bool)


def _grid(column: Choices | Continuum | Stepped) -> tuple[Fraction, int, int, Type]:
    """Return the step, the ends in steps and the type of a column of numbers or times."""
    match column:
        case Stepped():
            return column.step, column.least, column.greatest, _TYPES.get(column.kind, Type.DECIMAL)
        case Continuum():
            places = max(0, _CELL_PLACES - ceil(log10((column.high - column.low) / column.size)))
            step = Fraction(1, 10**places)
            return step, ceil(column.low / step), int(column.high // step), Type.DECIMAL
        case Choices():
            kinds = {type(value) for value in column.values}
            kind = _TYPES.get(next(iter(kinds)), Type.DECIMAL) if len(kinds) == 1 else Type.DECIMAL
            exact = [Fraction(_exact_value(value)) for value in column.values]
            step = Fraction(1, min(lcm(*(value.denominator for value in exact)), _MAX_STEP_DENOMINATOR))
            steps = _steps(column, step)
            return step, min(steps), max(steps), kind


def _exact_value(value: Any) -> int | Fraction:
    return position(value) if isinstance(value, date) else decimal_rational(value, "value")


def _steps(column: Choices, step: Fraction) -> list[int]:
    return [round(_exact_value(value) / step) for value in column.values]
