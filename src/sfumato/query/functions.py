"""The closed table of functions: what SQL may call, in PostgreSQL's and DuckDB's spelling, and what it becomes.

A function that is not here does not exist for a query. Every one of them is total: the engine's form is written by
us, and gives NULL where SQL would raise an error.
"""

from dataclasses import dataclass
from enum import StrEnum, auto

from sfumato.query.types import Type


class Function(StrEnum):
    """Every scalar function and operator of the algebra. `a > b` is `b < a`; BETWEEN is two comparisons."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"  # of decimals
    QUOTIENT = "div"  # of integers, towards zero
    MODULO = "%"  # the sign of the dividend
    NEGATE = "neg"
    EQUAL = "="
    DIFFERENT = "<>"
    LESS = "<"
    AT_MOST = "<="
    DISTINCT_FROM = "distinct_from"  # <>, with NULL as a value like any other
    IS_NULL = "is_null"
    IN = "in"  # the first argument is among the others
    AND = "and"
    OR = "or"
    NOT = "not"
    LIKE = "like"  # the pattern's escape is always the backslash
    ILIKE = "ilike"
    COALESCE = "coalesce"
    NULLIF = "nullif"
    LEAST = "least"  # of those that are not NULL
    GREATEST = "greatest"
    ABS = "abs"
    SIGN = "sign"
    FLOOR = "floor"
    CEIL = "ceil"
    ROUND = "round"  # half away from zero
    TRUNC = "trunc"
    SQRT = "sqrt"
    EXP = "exp"
    LN = "ln"
    LOG = "log"  # to the base 10, or to that of the first of two arguments
    LOG2 = "log2"
    POWER = "power"
    WIDTH_BUCKET = "width_bucket"
    DATE_TRUNC = "date_trunc"
    EXTRACT = "extract"
    SHIFT = "shift"  # a date moved by days, a date or timestamp moved by an interval
    ELAPSED = "elapsed"  # days between two dates, the interval between two timestamps
    LOWER = "lower"
    UPPER = "upper"
    LENGTH = "length"
    SUBSTRING = "substring"
    LEFT = "left"
    RIGHT = "right"
    CONCAT = "concat"  # skips NULL
    JOINED = "||"  # NULL if any part is
    TRIM = "trim"
    LTRIM = "ltrim"
    RTRIM = "rtrim"
    REPLACE = "replace"
    STARTS_WITH = "starts_with"
    POSITION = "position"
    DP_LOW = "dp_low"  # the ends of the error bar of a noisy number, and how far they are from it
    DP_HIGH = "dp_high"
    DP_MARGIN = "dp_margin"


INTERVAL_FUNCTIONS = frozenset({Function.DP_LOW, Function.DP_HIGH, Function.DP_MARGIN})
"""Functions of an error bar: they stand above the noise."""

INFIX = frozenset(
    {Function.ADD, Function.SUBTRACT, Function.MULTIPLY, Function.DIVIDE, Function.MODULO, Function.JOINED}
    | {Function.EQUAL, Function.DIFFERENT, Function.LESS, Function.AT_MOST, Function.AND, Function.OR}
)
"""Operators that are printed between their operands."""


class Takes(StrEnum):
    """Kind of argument that a function takes."""

    ALIKE = auto()  # anything, but all such arguments of one call have one type
    NUMBER = auto()  # an integer or decimal; all such arguments of one call have one type
    INTEGER = auto()
    TEXT = auto()
    BOOLEAN = auto()
    TIME = auto()  # a date or timestamp
    SPAN = auto()  # a date, a timestamp or an interval
    WORD = auto()  # text spelled out in the query
    COUNT = auto()  # an integer spelled out in the query
    UNIT = auto()  # what a date is truncated to, spelled out
    PART = auto()  # what is extracted from a date, spelled out


@dataclass(frozen=True, slots=True)
class Form:
    """One way to call a function: its names in PostgreSQL and what else DuckDB calls it, what it takes and gives.

    `gives` is None where the result has the type of the arguments. `optional` arguments may be left out from the end;
    with `repeats` the last may come any number of times.
    """

    function: Function
    takes: tuple[Takes, ...]
    gives: Type | None
    postgres: tuple[str, ...]
    duckdb: tuple[str, ...] = ()
    optional: int = 0
    repeats: bool = False
    part: str | None = None  # DuckDB's year(d) is EXTRACT(year FROM d) as an integer


_PARTS = ("year", "quarter", "month", "week", "day", "hour", "minute", "dayofyear", "dayofweek", "isodow")
_ISO_PARTS = {"dayofyear": "doy", "dayofweek": "dow"}

FORMS: tuple[Form, ...] = (
    Form(Function.COALESCE, (Takes.ALIKE,), None, ("coalesce",), ("ifnull",), repeats=True),
    Form(Function.NULLIF, (Takes.ALIKE, Takes.ALIKE), None, ("nullif",)),
    Form(Function.LEAST, (Takes.ALIKE,), None, ("least",), repeats=True),
    Form(Function.GREATEST, (Takes.ALIKE,), None, ("greatest",), repeats=True),
    Form(Function.ABS, (Takes.NUMBER,), None, ("abs",)),
    Form(Function.SIGN, (Takes.NUMBER,), Type.DECIMAL, ("sign",)),
    Form(Function.FLOOR, (Takes.NUMBER,), Type.DECIMAL, ("floor",)),
    Form(Function.CEIL, (Takes.NUMBER,), Type.DECIMAL, ("ceil", "ceiling")),
    Form(Function.ROUND, (Takes.NUMBER, Takes.COUNT), Type.DECIMAL, ("round",), optional=1),
    Form(Function.TRUNC, (Takes.NUMBER, Takes.COUNT), Type.DECIMAL, ("trunc",), optional=1),
    Form(Function.MODULO, (Takes.NUMBER, Takes.NUMBER), None, ("mod",)),
    Form(Function.QUOTIENT, (Takes.INTEGER, Takes.INTEGER), Type.INTEGER, ("div",)),
    Form(Function.SQRT, (Takes.NUMBER,), Type.DECIMAL, ("sqrt",)),
    Form(Function.POWER, (Takes.NUMBER, Takes.NUMBER), Type.DECIMAL, ("power", "pow")),
    Form(Function.EXP, (Takes.NUMBER,), Type.DECIMAL, ("exp",)),
    Form(Function.LN, (Takes.NUMBER,), Type.DECIMAL, ("ln",)),
    Form(Function.LOG, (Takes.NUMBER, Takes.NUMBER), Type.DECIMAL, ("log",), optional=1),
    Form(Function.LOG, (Takes.NUMBER,), Type.DECIMAL, ("log10",)),
    Form(Function.LOG2, (Takes.NUMBER,), Type.DECIMAL, (), ("log2",)),
    Form(
        Function.WIDTH_BUCKET,
        (Takes.NUMBER, Takes.NUMBER, Takes.NUMBER, Takes.COUNT),
        Type.INTEGER,
        ("width_bucket",),
    ),
    Form(Function.DATE_TRUNC, (Takes.UNIT, Takes.TIME), Type.TIMESTAMP, ("date_trunc",), ("datetrunc",)),
    Form(Function.EXTRACT, (Takes.PART, Takes.SPAN), Type.DECIMAL, ("date_part",), ("datepart",)),
    *(
        Form(Function.EXTRACT, (Takes.TIME,), Type.INTEGER, (), (name,), part=_ISO_PARTS.get(name, name))
        for name in _PARTS
    ),
    Form(Function.LOWER, (Takes.TEXT,), Type.TEXT, ("lower",), ("lcase",)),
    Form(Function.UPPER, (Takes.TEXT,), Type.TEXT, ("upper",), ("ucase",)),
    Form(
        Function.LENGTH,
        (Takes.TEXT,),
        Type.INTEGER,
        ("length", "char_length", "character_length"),
        ("len",),
    ),
    Form(
        Function.SUBSTRING,
        (Takes.TEXT, Takes.INTEGER, Takes.INTEGER),
        Type.TEXT,
        ("substring", "substr"),
        optional=1,
    ),
    Form(Function.LEFT, (Takes.TEXT, Takes.INTEGER), Type.TEXT, ("left",)),
    Form(Function.RIGHT, (Takes.TEXT, Takes.INTEGER), Type.TEXT, ("right",)),
    Form(Function.CONCAT, (Takes.TEXT,), Type.TEXT, ("concat",), repeats=True),
    Form(Function.TRIM, (Takes.TEXT, Takes.WORD), Type.TEXT, ("trim", "btrim"), optional=1),
    Form(Function.LTRIM, (Takes.TEXT, Takes.WORD), Type.TEXT, ("ltrim",), optional=1),
    Form(Function.RTRIM, (Takes.TEXT, Takes.WORD), Type.TEXT, ("rtrim",), optional=1),
    Form(Function.REPLACE, (Takes.TEXT, Takes.WORD, Takes.WORD), Type.TEXT, ("replace",)),
    Form(Function.STARTS_WITH, (Takes.TEXT, Takes.TEXT), Type.BOOLEAN, ("starts_with",), ("prefix",)),
    Form(Function.POSITION, (Takes.TEXT, Takes.TEXT), Type.INTEGER, ("strpos",), ("instr",)),
    Form(Function.DP_LOW, (Takes.NUMBER,), None, ("dp_low", "dp_interval_low")),
    Form(Function.DP_HIGH, (Takes.NUMBER,), None, ("dp_high", "dp_interval_high")),
    Form(Function.DP_MARGIN, (Takes.NUMBER,), None, ("dp_margin",)),
)
"""Every function that is called by name. EXTRACT, POSITION, SUBSTRING and TRIM have SQL's own syntax besides."""

UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
"""Units of DATE_TRUNC."""

PARTS = ("year", "quarter", "month", "week", "day", "dow", "isodow", "doy", "hour", "minute", "second", "epoch")
"""Parts of EXTRACT."""

CLOCK_PARTS = frozenset({"hour", "minute", "second"})
"""Parts that a date does not have."""

MAX_EXPONENT = 9
MAX_SCALE_DIGITS = 18


class Aggregation(StrEnum):
    """Every aggregate of the algebra."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    VAR_SAMP = "var_samp"
    VAR_POP = "var_pop"
    STDDEV_SAMP = "stddev_samp"
    STDDEV_POP = "stddev_pop"
    SKEWNESS = "skewness"
    KURTOSIS = "kurtosis"
    MIN = "min"
    MAX = "max"
    QUANTILE_CONT = "quantile_cont"
    QUANTILE_DISC = "quantile_disc"
    APPROX_QUANTILE = "approx_quantile"
    MODE = "mode"
    COVAR_POP = "covar_pop"
    COVAR_SAMP = "covar_samp"
    CORR = "corr"
    REGR_SLOPE = "regr_slope"
    REGR_INTERCEPT = "regr_intercept"
    REGR_R2 = "regr_r2"
    REGR_SXX = "regr_sxx"
    REGR_SXY = "regr_sxy"
    HISTOGRAM = "histogram"  # is measured, and has no name in SQL
    QUANTILES = "quantiles"  # so are these two: with ends, and without
    QUANTILES_ALONE = "quantiles_alone"
    CROSS_UNIT_COUNT = "meetings"  # how many rows of different people meet: is measured, too
    BOUNDED_FLOW = "flow"  # the largest total of rows with two owners in which no person's share is above a bound
    MATCHED = "matched"  # and COUNT(DISTINCT …) by matching, whose parameters are the limits


DEVIATIONS = frozenset({Aggregation.STDDEV_SAMP, Aggregation.STDDEV_POP})
SAMPLES = frozenset({Aggregation.VAR_SAMP, Aggregation.STDDEV_SAMP})
LEVELLED = frozenset({Aggregation.QUANTILE_CONT, Aggregation.QUANTILE_DISC, Aggregation.APPROX_QUANTILE})
"""Their parameter is the share of values below."""
CHOSEN = frozenset(
    {
        Aggregation.QUANTILES,
        Aggregation.QUANTILES_ALONE,
        Aggregation.MODE,
        Aggregation.CROSS_UNIT_COUNT,
        Aggregation.BOUNDED_FLOW,
        Aggregation.MATCHED,
    }
)
"""Aggregates without fixed noise: chosen among public buckets or limits, or with noise found privately."""
PAIRS = frozenset(
    {Aggregation.COVAR_POP, Aggregation.COVAR_SAMP, Aggregation.CORR, Aggregation.REGR_SLOPE}
    | {Aggregation.REGR_INTERCEPT, Aggregation.REGR_R2, Aggregation.REGR_SXX, Aggregation.REGR_SXY}
)
"""Functions of pairs (y, x): rows where one of them is NULL do not count."""


@dataclass(frozen=True, slots=True)
class AggregateForm:
    """One aggregate: its names, what it takes, what it gives (None: the argument's type), whether DISTINCT matters.

    Of pairs it takes two, y and x, and no DISTINCT. `power` is the highest power of its argument that is summed, with
    products of two arguments as a second power; 0 where nothing is summed. `plain_row_refusal` says why public or noisy
    rows are not aggregated with it, and what to write instead; None where they are.
    """

    aggregation: Aggregation
    takes: Takes
    gives: Type | None
    postgres: tuple[str, ...]
    duckdb: tuple[str, ...] = ()
    distinct: bool = True
    power: int = 0
    plain_row_refusal: tuple[str, str] | None = None


_NOT_EVERYWHERE = ("Not every engine has this function.", "Combine AVG(x), AVG(x * x) and averages of higher powers.")
_TIES = (
    "Where several values are equally common, engines choose differently.",
    "Group by the value, and order by the count.",
)

AGGREGATES: tuple[AggregateForm, ...] = (
    AggregateForm(Aggregation.COUNT, Takes.ALIKE, Type.INTEGER, ("count",)),
    AggregateForm(Aggregation.SUM, Takes.NUMBER, None, ("sum",), power=1),
    AggregateForm(Aggregation.AVG, Takes.NUMBER, Type.DECIMAL, ("avg",), ("mean",), power=1),
    AggregateForm(Aggregation.VAR_SAMP, Takes.NUMBER, Type.DECIMAL, ("var_samp", "variance"), power=2),
    AggregateForm(Aggregation.VAR_POP, Takes.NUMBER, Type.DECIMAL, ("var_pop",), power=2),
    AggregateForm(Aggregation.STDDEV_SAMP, Takes.NUMBER, Type.DECIMAL, ("stddev_samp", "stddev"), power=2),
    AggregateForm(Aggregation.STDDEV_POP, Takes.NUMBER, Type.DECIMAL, ("stddev_pop",), power=2),
    AggregateForm(
        Aggregation.SKEWNESS, Takes.NUMBER, Type.DECIMAL, (), ("skewness",), power=3, plain_row_refusal=_NOT_EVERYWHERE
    ),
    AggregateForm(
        Aggregation.KURTOSIS, Takes.NUMBER, Type.DECIMAL, (), ("kurtosis",), power=4, plain_row_refusal=_NOT_EVERYWHERE
    ),
    AggregateForm(Aggregation.MIN, Takes.ALIKE, None, ("min",), distinct=False),
    AggregateForm(Aggregation.MAX, Takes.ALIKE, None, ("max",), distinct=False),
    AggregateForm(Aggregation.QUANTILE_CONT, Takes.SPAN, None, ("percentile_cont",), ("quantile_cont", "median")),
    AggregateForm(Aggregation.QUANTILE_DISC, Takes.SPAN, None, ("percentile_disc",), ("quantile_disc", "quantile")),
    AggregateForm(Aggregation.APPROX_QUANTILE, Takes.SPAN, None, (), ("approx_quantile",)),
    AggregateForm(Aggregation.MODE, Takes.ALIKE, None, ("mode",), plain_row_refusal=_TIES),
    *(
        AggregateForm(function, Takes.NUMBER, Type.DECIMAL, (str(function),), power=2)
        for function in Aggregation
        if function in PAIRS
    ),
)

FUNCTION_NAMES = {name: form for form in FORMS for name in (*form.postgres, *form.duckdb)}
AGGREGATE_NAMES = {name: form for form in AGGREGATES for name in (*form.postgres, *form.duckdb)}

_BY_FUNCTION = {form.aggregation: form for form in AGGREGATES}


def power_of(function: Aggregation) -> int:
    """Return the highest power of its argument that an aggregate sums; 0 where it sums nothing."""
    return _BY_FUNCTION[function].power if function in _BY_FUNCTION else 0


def plain_row_refusal(function: Aggregation) -> tuple[str, str] | None:
    """Return why public or noisy rows are not aggregated with a function, and the remedy; None where they are."""
    return _BY_FUNCTION[function].plain_row_refusal


SUMMING = frozenset(
    {Aggregation.COUNT} | {form.aggregation for form in AGGREGATES if form.power and form.aggregation not in PAIRS}
)
"""Aggregates computed from counts and from sums of powers of one argument."""
