"""Total scalar expressions: what an engine computes for one row, with what is known of every part.

`lowering.lower` makes them from the expressions of a query. Each operator is total on every value that its arguments'
facts allow: it cannot raise, overflow or take long. Every engine has one SQL form per operator.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum, auto
from fractions import Fraction
from types import NoneType
from typing import NamedTuple

from sfumato.language.facts import Facts

MAX_EXP_ARGUMENT = 709.78
"""From here on, EXP has no double."""


class ColumnRef(NamedTuple):
    """Which column of which flow node below."""

    label: str
    name: str


class Factor(NamedTuple):
    """Rational factor of an integer in steps."""

    numerator: int
    denominator: int


class Sides(NamedTuple):
    """A range of integers; a side may be open."""

    low: int | None
    high: int | None


class Substitution(NamedTuple):
    """Text to replace and its replacement."""

    old: str
    new: str


class LogarithmCurve(NamedTuple):
    """Parameters of the logarithm of an integer, defined in `curves.logarithm`."""

    base: Fraction | None
    """Above 1; None for e."""
    step: Fraction
    """Of the argument."""
    grain: Fraction
    """The step of the result."""
    zero: int | None = None
    """Result for 0; None for NULL."""


class PowerCurve(NamedTuple):
    """Parameters of a constant raised to an integer, defined in `curves.exponential`."""

    base: Fraction | None
    """Above 1; None for e."""
    step: Fraction
    """Of the argument."""
    grain: Fraction
    """The step of the result."""


class ListedResults(NamedTuple):
    """The result for each integer from `first` on; NULL below it."""

    first: int
    values: tuple[int, ...]


LiteralValue = int | float | str | bool | None
Constant = LiteralValue | ColumnRef | Factor | Sides | Substitution | LogarithmCurve | PowerCurve | ListedResults


class Operator(StrEnum):
    """Every operator. NULL in any argument gives NULL unless it says otherwise."""

    COLUMN = auto()
    """`constant` is an Address in the flow node below."""
    STORED = auto()
    """A column as the copy holds it: one step beyond its bounds where the value lies outside them."""
    CONSTANT = auto()
    """`constant` is the value: an integer in steps, a float (REAL), a text, a truth value, or None for NULL."""

    # ── numbers and logic ── integers are in steps; a form never depends on the size of a step, only on what is here
    REAL = auto()
    """The double nearest to an integer times the Factor `constant`."""
    WHOLE = auto()
    """A double rounded half away from zero to 64 bits; NULL beyond them."""
    FLAG = auto()
    """0 or 1 for a truth value."""
    ADD = auto()
    SUBTRACT = auto()
    MULTIPLY = auto()
    NEGATE = auto()
    ABS = auto()
    SIGN = auto()
    """-1, 0 or 1, an integer also of a double."""
    POWER = auto()
    """To the exponent `constant`, at least 1."""
    QUOTIENT = auto()
    """Towards zero; NULL where the divisor is 0."""
    MODULO = auto()
    """Remainder of QUOTIENT, with the sign of the dividend; NULL where the divisor is 0."""
    DIVIDE = auto()
    """Of integers a, b and the Factor n / d: a · n / (b · d) rounded half away from zero. NULL where b is 0."""
    FLOORED = auto()
    CEILED = auto()
    ROUNDED = auto()
    """Half away from zero."""
    TRUNCATED = auto()
    """These four bring an integer times a Factor to an integer; a double to `constant` decimal places."""
    SQRT = auto()
    """The root of an integer times a Factor, rounded; of a double, without one. NULL where it is negative."""
    EXP = auto()
    """Of a double, NULL from 709.78 on, where doubles end; of an integer, what PowerCurve says."""
    LOG = auto()
    """Of a double to the base `constant`: 2, 10, or 0 for e; of an integer, what LogarithmCurve says. NULL below 0."""
    LOOKUP = auto()
    """Result listed for an integer."""
    CLIPPED = auto()
    """An integer brought between the Sides `constant`."""
    LEAST = auto()
    """Of those that are not NULL; NULL if all are."""
    GREATEST = auto()
    COALESCE = auto()
    """The first that is not NULL."""
    NULLIF = auto()
    """The first argument, or NULL where it equals the second."""
    CASE = auto()
    """Conditions and values in turn, and at last the value where no condition is true."""
    EQUAL = auto()
    DIFFERENT = auto()
    LESS = auto()
    AT_MOST = auto()
    DISTINCT_FROM = auto()
    """DIFFERENT, with NULL as a value like any other: never NULL."""
    IN = auto()
    """Whether the first argument equals one of the others; NULL if none does and one of all is NULL."""
    IS_NULL = auto()
    AND = auto()
    OR = auto()
    NOT = auto()
    """These three by three-valued logic."""

    INTERVAL_END = auto()
    """The `constant` (an IntervalSide) of the error bar of a noisy number; `resolve_ends` takes it out for engines."""

    # ── times and texts ── a day is days since 1970-01-01, a moment microseconds; both in the years 1 to 9999
    WITHIN = auto()
    """An integer between the Sides `constant`, or NULL beyond."""
    PERIOD_START = auto()
    """The first day of the `constant` (year, quarter or month) of a day."""
    DAY_PART = auto()
    """The `constant` of a day: year, quarter, month, week, day or doy."""
    DAY_LATER = auto()
    """A day moved by `constant` months, to the last day of the month where the month is too short."""
    MOMENT_LATER = auto()
    """A moment moved by `constant` months, as its day is."""
    LOWER = auto()
    UPPER = auto()
    """These two character by character: a text keeps its length."""
    LENGTH = auto()
    LEFT = auto()
    """The first n characters; of a negative n, all but the last -n."""
    RIGHT = auto()
    """The last n characters; of a negative n, all but the first -n."""
    FROM = auto()
    """The characters from the n-th on, n at least 1."""
    CONCAT = auto()
    """The texts that are not NULL, one after the other; never NULL."""
    JOINED = auto()
    TRIM = auto()
    LTRIM = auto()
    RTRIM = auto()
    """These three without the characters of `constant` at both ends, the left or the right."""
    REPLACE = auto()
    """With the new text of a Substitution wherever the old one stood."""
    STARTS_WITH = auto()
    POSITION = auto()
    """Where the second text begins in the first, from 1; 0 if nowhere."""
    LIKE = auto()
    """Whether the text is like the pattern `constant`, whose escape is the backslash."""
    READ_INTEGER = auto()
    READ_DECIMAL = auto()
    """In billionths, rounded half away from zero."""
    READ_BOOLEAN = auto()
    READ_DAY = auto()
    READ_MOMENT = auto()
    """These five of a text; NULL where it spells no such value that 64 bits hold."""
    NUMBER_TEXT = auto()
    """An integer with the point before its last `constant` digits."""
    REAL_TEXT = auto()
    BOOLEAN_TEXT = auto()
    DAY_TEXT = auto()
    """As 2024-12-31."""
    MOMENT_TEXT = auto()
    """As 2024-12-31 23:59:59, with as many places of the second as are not zero."""


_TAKES: dict[Operator, tuple[type, ...]] = {
    Operator.COLUMN: (ColumnRef,),
    Operator.CONSTANT: (int, float, str, bool, NoneType),
    Operator.REAL: (Factor,),
    Operator.POWER: (int,),
    Operator.DIVIDE: (Factor, NoneType),
    Operator.FLOORED: (Factor, int),
    Operator.CEILED: (Factor, int),
    Operator.ROUNDED: (Factor, int),
    Operator.TRUNCATED: (Factor, int),
    Operator.SQRT: (Factor, NoneType),
    Operator.EXP: (PowerCurve, NoneType),
    Operator.LOG: (LogarithmCurve, int),
    Operator.LOOKUP: (ListedResults,),
    Operator.CLIPPED: (Sides,),
    Operator.WITHIN: (Sides,),
    Operator.INTERVAL_END: (str,),
    Operator.PERIOD_START: (str,),
    Operator.DAY_PART: (str,),
    Operator.DAY_LATER: (int,),
    Operator.MOMENT_LATER: (int,),
    Operator.TRIM: (str,),
    Operator.LTRIM: (str,),
    Operator.RTRIM: (str,),
    Operator.REPLACE: (Substitution,),
    Operator.LIKE: (str,),
    Operator.NUMBER_TEXT: (int,),
}
"""Constant argument types of each operator; others take none."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """One operator over others, with its constant spelled out: nothing else can be expressed."""

    operator: Operator
    arguments: tuple["Scalar", ...]
    facts: Facts
    constant: Constant = None
    _hash: int | None = field(default=None, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if type(self.constant) not in _TAKES.get(self.operator, (NoneType,)):
            raise AssertionError(f"{self.operator} does not take such a constant")

    def __hash__(self) -> int:
        """Return the hash; it is computed once, because parts are looked up again at each level of nesting."""
        if self._hash is None:
            object.__setattr__(self, "_hash", hash((self.operator, self.arguments, self.facts, self.constant)))
        return self._hash  # type: ignore[return-value]

    def __reduce__(self) -> tuple[type["Scalar"], tuple[object, ...]]:
        """Pickle without the hash: hashes of texts differ between processes."""
        return type(self), (self.operator, self.arguments, self.facts, self.constant)


def column(label: str, name: str, facts: Facts) -> Scalar:
    """Return a reference to a column of the flow node below."""
    return Scalar(Operator.COLUMN, (), facts, ColumnRef(label, name))


def literal(value: LiteralValue, facts: Facts) -> Scalar:
    """Return a value as an engine keeps it: an integer in steps, a float, a text, a truth value, or None for NULL."""
    return Scalar(Operator.CONSTANT, (), facts, value)


def address(scalar: Scalar) -> ColumnRef | None:
    """Return the column that a scalar is, if it is nothing else."""
    return scalar.constant if isinstance(scalar.constant, ColumnRef) else None


def walk(scalar: Scalar) -> Iterator[Scalar]:
    """Give every part, without recursion."""
    waiting = [scalar]
    while waiting:
        part = waiting.pop()
        yield part
        waiting.extend(part.arguments)


def columns_read(scalar: Scalar) -> set[tuple[str, str]]:
    """Return the columns that are read."""
    return {ref for part in walk(scalar) if (ref := address(part)) is not None}
