"""Public domain of a column: a list of values, or a range cut into cells. It never comes from the data.

Every row lies in one cell of each column, or in none: None, NaN, infinities and undeclared values are absent, and a
number beyond its range counts at the nearer end. Where NULL is declared as a value, None and NaN have a cell of their
own. The cell depends on that one value only.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import BadParameter, quote_value
from sfumato.exact import decimal_rational, integer
from sfumato.policy.policy import Value, position

Codes = npt.NDArray[np.int64]
"""The cell of each row in one column, from 0; -1 where it is absent."""
Floats = npt.NDArray[np.float64]

MAX_COLUMN_VALUES = 10**6
"""More cells than a marginal may have."""
_ABSENT_CODE = -1
_DAY = date(1970, 1, 1)
_INSTANT = datetime(1970, 1, 1)
_MAX_EXACT_FLOAT = 2**53  # every integer up to here is a float64
_MAX_BINNED_STEPS = 2**62


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers or dates from `low` to `high`, cut into `bins` equal cells; `whole` numbers and dates keep their steps.

    >>> Range(0, 18, 19, whole=True).bins
    19
    """

    low: Any
    high: Any
    bins: int
    whole: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "bins", integer(self.bins, "bins", 1))
        ends = (self.low, self.high)
        dated = [isinstance(end, date) for end in ends]
        if any(dated):
            if not all(dated) or isinstance(self.low, datetime) != isinstance(self.high, datetime):
                raise _no_range(self, "One end is a date or a timestamp and the other is something else.")
            low, high = (Fraction(position(end)) for end in ends)
        else:
            low, high = (decimal_rational(end, name) for end, name in zip(ends, ("low", "high"), strict=True))
        if not isinstance(self.whole, bool):
            raise _no_range(self, "`whole` is True or False.")
        if low > high or (low == high and not (self.whole or all(dated))):
            raise _no_range(self, "Its low end is not below its high end.")
        if max(abs(low), abs(high)) > _MAX_EXACT_FLOAT:
            raise _no_range(self, "Its ends are beyond 2^53, where floats are no longer exact.")
        if (high - low + 1) * self.bins > _MAX_BINNED_STEPS:
            raise _no_range(self, "It has too many values for this number of cells.")
        if self.whole and (low.denominator, high.denominator) != (1, 1):
            raise _no_range(self, "The ends of a range of whole numbers are whole.")


def _no_range(given: Range, why: str) -> BadParameter:
    return BadParameter(
        f"Range({quote_value(given.low)}, {quote_value(given.high)}, …) is not a range.",
        why,
        "Give a low end below the high one.",
    )


@dataclass(frozen=True, slots=True)
class Choices:
    """A column of declared values, one cell each."""

    name: str
    values: tuple[Value | float, ...]

    @property
    def size(self) -> int:
        return len(self.values)

    def codes(self, values: Sequence[object]) -> Codes:
        """Return the cell of each value; whatever is not declared is absent."""
        places = {value: index for index, value in enumerate(self.values)}
        return np.array([_look_up(places, value) for value in values], dtype=np.int64).reshape(len(values))

    def label(self, cell: int) -> str:
        """Return what a person calls a cell."""
        return str(self.values[cell])

    def drawn(self, codes: Codes, within: Floats) -> pa.Array:
        """Return the value of each cell; there is only one."""
        plain_values = [float(value) if isinstance(value, Fraction) else value for value in self.values]
        return pa.array(plain_values, self.arrow).take(pa.array(codes))

    @property
    def arrow(self) -> pa.DataType:
        kinds = {type(value) for value in self.values}
        if kinds <= {int, float, Fraction} and kinds != {int}:
            return pa.float64()
        return _ARROW[next(iter(kinds))]


@dataclass(frozen=True, slots=True)
class Continuum:
    """A column of numbers between two ends, cut into equal cells."""

    name: str
    low: Fraction
    high: Fraction
    size: int

    def codes(self, values: Sequence[object]) -> Codes:
        """Return the cell of each number; values that are no finite numbers are absent."""
        numbers = _as_floats(values)
        share = (np.clip(numbers, float(self.low), float(self.high)) - float(self.low)) / float(self.high - self.low)
        cells = np.clip(np.nan_to_num(share * self.size), 0, self.size - 1).astype(np.int64)
        return np.where(np.isfinite(numbers), cells, _ABSENT_CODE)

    def label(self, cell: int) -> str:
        """Return the ends of a cell."""
        low, high = (float(self.low + (self.high - self.low) * at / self.size) for at in (cell, cell + 1))
        return f"{low:.6g} – {high:.6g}"

    def drawn(self, codes: Codes, within: Floats) -> pa.Array:
        """Return a number in each cell, this far from its low end to its high one."""
        return pa.array(self.numbers(codes, within))

    def numbers(self, codes: Codes, within: Floats) -> Floats:
        """Return the numbers of `drawn` as floats."""
        low, width = float(self.low), float(self.high - self.low) / self.size
        return np.clip(low + (codes + within) * width, low, float(self.high))

    @property
    def arrow(self) -> pa.DataType:
        return pa.float64()


@dataclass(frozen=True, slots=True)
class Stepped:
    """A column of integers on a public grid (whole numbers, decimals, days, microseconds), cut into equal cells."""

    name: str
    least: int
    greatest: int
    bins: int
    step: Fraction
    kind: type[int] | type[Fraction] | type[date] | type[datetime]

    @property
    def count(self) -> int:
        """How many values there are."""
        return self.greatest - self.least + 1

    @property
    def size(self) -> int:
        return min(self.bins, self.count)

    def codes(self, values: Sequence[object]) -> Codes:
        """Return the cell of each value or date; values that are no finite numbers are absent."""
        if self.kind in (date, datetime):
            values = [_position(value, self.kind) for value in values]
        numbers = _as_floats(values)
        steps = np.clip(np.rint(np.nan_to_num(numbers) / float(self.step)), self.least, self.greatest)
        cells = self.of_steps(steps.astype(np.int64))
        return np.where(np.isfinite(numbers), cells, _ABSENT_CODE)

    def of_steps(self, steps: Codes) -> Codes:
        """Return the cell of each integer of the grid."""
        return (steps - self.least) * self.size // self.count

    def first(self, cell: int | Codes) -> Any:
        """Return the least integer of a cell: the integers before it are those of the cells before it."""
        return self.least - (-cell * self.count // self.size)

    def label(self, cell: int) -> str:
        """Return the value of a cell, or its first and its last."""
        ends = sorted({int(self.first(cell)), int(self.first(cell + 1)) - 1})
        return " – ".join(f"{_decode_position(end * self.step, self.kind)}" for end in ends)

    def drawn(self, codes: Codes, within: Floats) -> pa.Array:
        """Return a value in each cell, on the grid, this far from the cell's first value to its last."""
        steps = self.steps(codes, within)
        if self.kind is Fraction:
            return pa.array(steps * self.step.numerator / self.step.denominator)
        whole = pa.array(steps.astype(np.int32) if self.kind is date else steps * int(self.step))
        return whole.cast(self.arrow)

    def steps(self, codes: Codes, within: Floats) -> Codes:
        """Return the same as integers of the grid."""
        first, after = self.first(codes), self.first(codes + 1)
        return np.asarray(np.minimum(first + np.floor((after - first) * within).astype(np.int64), after - 1))

    @property
    def arrow(self) -> pa.DataType:
        return _ARROW[self.kind]


@dataclass(frozen=True, slots=True)
class Nullable:
    """A column in which NULL is a value, with the last cell for its own."""

    present: Choices | Continuum | Stepped
    """The other values that the column can hold."""

    @property
    def name(self) -> str:
        return self.present.name

    @property
    def size(self) -> int:
        return self.present.size + 1

    def codes(self, values: Sequence[object]) -> Codes:
        """Return the cell of each value: None and NaN are NULL; other undeclared values are absent."""
        missing = np.array([_is_missing(value) for value in values], dtype=bool).reshape(len(values))
        return np.where(missing, self.present.size, self.present.codes(values))

    def label(self, cell: int) -> str:
        """Return what a person calls a cell."""
        return "NULL" if cell == self.present.size else self.present.label(cell)

    def drawn(self, codes: Codes, within: Floats) -> pa.Array:
        """Return a value in each cell, and NULL in the last one."""
        missing, held = self.held(codes)
        return pc.if_else(pa.array(missing), pa.scalar(None, self.arrow), self.present.drawn(held, within))

    def held(self, codes: Codes) -> tuple[npt.NDArray[np.bool_], Codes]:
        """Return where NULL is, and cells of the other values, any of them where NULL is."""
        missing = codes == self.present.size
        return missing, np.where(missing, 0, codes)

    @property
    def arrow(self) -> pa.DataType:
        return self.present.arrow


ColumnDomain = Choices | Continuum | Stepped | Nullable
"""What one column can hold; each has a name, a size (its cells), and an Arrow type."""

_ARROW = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    Fraction: pa.float64(),
    str: pa.string(),
    date: pa.date32(),
    datetime: pa.timestamp("us"),
}


def read_domain(domain: object) -> tuple[Choices | Continuum | Stepped, ...]:
    """Read a public domain: a list of values or a Range for each column, by name."""
    if not isinstance(domain, Mapping) or not domain or not all(isinstance(name, str) and name for name in domain):
        raise BadParameter(
            "The domain does not name columns.",
            "The possible values of a column are declared in advance, never read from the data.",
            "Give a dict: for each column its list of values, or a Range.",
        )
    if len({name.lower() for name in domain}) < len(domain):
        raise BadParameter("Two columns differ only in case.", "SQL does not tell them apart.", "Rename one of them.")
    return tuple(_read_column(name, said) for name, said in domain.items())


def _read_column(name: str, said: object) -> Choices | Continuum | Stepped:
    if isinstance(said, Range):
        return _binned_column(name, said)
    if isinstance(said, str | bytes | Mapping) or not hasattr(said, "__iter__"):
        raise BadParameter(
            f"The domain of {quote_value(name)} is neither a list nor a Range.",
            "A column has values that are listed, or a range that is cut into cells.",
            "Give a list of values, or Range(low, high, bins).",
        )
    values: tuple[Any, ...] = tuple(plain_values(said))
    kinds = {type(value) for value in values}
    alike = len(kinds) == 1 or kinds <= {int, float, Fraction}
    finite = all(isfinite(value) for value in values if isinstance(value, float))
    if not values or not kinds <= set(_ARROW) or not alike or not finite or len(set(values)) < len(values):
        raise BadParameter(
            f"The values of {quote_value(name)} cannot be distinguished.",
            "A list holds different values of one type: texts, numbers, truth values, dates; no NULL and no NaN.",
            "List each value once.",
        )
    if len(values) > MAX_COLUMN_VALUES:
        raise BadParameter(
            f"{quote_value(name)} has more than {MAX_COLUMN_VALUES} values.",
            "A marginal cannot have that many.",
            "Declare fewer.",
        )
    return Choices(name, values)


def _binned_column(name: str, said: Range) -> Continuum | Stepped:
    if isinstance(said.low, date):
        least, greatest = int(position(said.low)), int(position(said.high))
        kind = datetime if isinstance(said.low, datetime) else date
        return Stepped(name, least, greatest, said.bins, Fraction(1), kind)
    low, high = decimal_rational(said.low, "low"), decimal_rational(said.high, "high")
    if said.whole:
        return Stepped(name, int(low), int(high), said.bins, Fraction(1), int)
    return Continuum(name, low, high, said.bins)


def plain_values(values: Any) -> Sequence[object]:
    """Return a sequence of NumPy, Arrow or pandas as Python values."""
    for way in ("to_pylist", "tolist"):
        if hasattr(values, way):
            listed = getattr(values, way)()
            return listed if isinstance(listed, list) else [listed]
    if not isinstance(values, Iterable):
        raise BadParameter("A column is not a list of values.", "Each row has one in it.", "Give {name: values, …}.")
    return values if isinstance(values, list | tuple) else list(values)


def _look_up(places: Mapping[Any, int], value: object) -> int:
    try:
        return places.get(value, _ABSENT_CODE)
    except TypeError:  # a value that cannot be a key is none that was declared
        return _ABSENT_CODE


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # pandas.NA is equal to nothing and different from nothing; an array is no value
        return not hasattr(value, "__len__")


def _as_floats(values: Sequence[object]) -> Floats:
    """Return numbers as floats, and NaN for whatever is none: one by one, so that no value decides about another."""
    if set(map(type, values)) <= {float, int, bool}:
        try:
            return np.array(values, dtype=np.float64).reshape(len(values))
        except OverflowError:
            pass
    return np.array([_as_float(value) for value in values], dtype=np.float64).reshape(len(values))


def _as_float(value: Any) -> float:
    if isinstance(value, str | bytes | complex) or value is None:
        return float("nan")
    try:
        return float(value)
    except OverflowError:
        return 1e300 if value > 0 else -1e300  # far beyond every range, and finite
    except (TypeError, ValueError, ArithmeticError):
        return float("nan")


def _position(value: object, kind: type) -> int | Fraction | None:
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            return None
        return position(value if kind is datetime else value.date())
    if isinstance(value, date):
        return position(datetime(value.year, value.month, value.day) if kind is datetime else value)
    return None


def _decode_position(steps: Fraction, kind: type) -> object:
    """Return the value at a position."""
    if kind is datetime:
        return _INSTANT + timedelta(microseconds=int(steps))
    if kind is date:
        return _DAY + timedelta(days=int(steps))
    return int(steps) if kind is int else float(steps)
