"""PostgreSQL's types of numbers: which of integer, bigint, numeric and double precision an expression has.

The algebra computes with exact integers and decimals. These types decide two things above it: whether `/` of two
integers truncates, and the type of a column that a client gets. A table's integer is a bigint, its decimal a double.
"""

from sfumato.query.expression import Call, Case, Cast, Expression, Literal
from sfumato.query.functions import PAIRS, Aggregation, Function
from sfumato.query.types import NUMBERS, NumberType, Type

_WIDTH = {kind: width for width, kind in enumerate(NumberType)}
_INTEGERS = frozenset({NumberType.INT4, NumberType.INT8})
_PLAIN = {Type.INTEGER: NumberType.INT8, Type.DECIMAL: NumberType.FLOAT8}
_INT4_END = 1 << 31
_SMALL_INTEGER_FUNCTIONS = frozenset({Function.LENGTH, Function.POSITION, Function.WIDTH_BUCKET, Function.ELAPSED})
_CURVES = frozenset(
    {Function.SIGN, Function.FLOOR, Function.CEIL, Function.ROUND, Function.TRUNC}
    | {Function.SQRT, Function.EXP, Function.LN, Function.LOG, Function.POWER}
)
"""Functions of double precision and of numeric: an integer becomes a double."""
_SUMS = frozenset(
    {Aggregation.SUM, Aggregation.AVG}
    | {Aggregation.VAR_SAMP, Aggregation.VAR_POP, Aggregation.STDDEV_SAMP, Aggregation.STDDEV_POP}
)
"""Aggregates of which those of a bigint are numeric; the SUM of shorter integers is a bigint."""
CALL_TYPES = {"div": NumberType.NUMERIC, "date_part": NumberType.FLOAT8}
"""Functions whose name alone decides their type: EXTRACT, which computes the same as date_part, is numeric."""
_DOUBLES = PAIRS | {Aggregation.SKEWNESS, Aggregation.KURTOSIS, Aggregation.QUANTILE_CONT}


def number_type(expression: Expression) -> NumberType | None:
    """Return PostgreSQL's type of a number; None for what is no number.

    >>> number_type(Call(Function.SQRT, (Literal(2, Type.INTEGER),), Type.DECIMAL))
    <NumberType.FLOAT8: 'float8'>
    """
    if expression.type not in NUMBERS or expression.number is not None:
        return expression.number
    match expression:
        case Literal(int(value), Type.INTEGER):
            return NumberType.INT4 if -_INT4_END <= value < _INT4_END else NumberType.INT8
        case Literal():
            return NumberType.NUMERIC
        case Cast(argument):  # without being asked: the type is that of the other side
            return number_type(argument) or _PLAIN[expression.type]
        case Case(branches, otherwise):
            return widest_type([*(then for _, then in branches), otherwise], expression.type)
        case Call(Function.ROUND | Function.TRUNC, (_, _)) | Call(Function.LOG, (_, _)):
            return NumberType.NUMERIC
        case Call(function, arguments) if function in _CURVES:
            return widest_type(arguments, expression.type, least=NumberType.FLOAT8)
        case Call(Function.EXTRACT):
            return NumberType.NUMERIC if expression.type is Type.DECIMAL else NumberType.INT8
        case Call(function) if function in _SMALL_INTEGER_FUNCTIONS:
            return NumberType.INT4
        case Call(Function.NULLIF, (first, _)):
            return number_type(first)
        case Call(Function.LOG2):
            return NumberType.FLOAT8
        case Call(arguments=arguments) if expression.type is Type.DECIMAL or all(a.type in NUMBERS for a in arguments):
            return widest_type(arguments, expression.type)
        case _:
            return _PLAIN[expression.type]


def aggregate_type(function: Aggregation, arguments: tuple[Expression, ...], type: Type) -> NumberType | None:
    """Return PostgreSQL's type of an aggregate over such arguments; None for what is no number."""
    if type not in NUMBERS:
        return None
    if function in _DOUBLES:
        return NumberType.FLOAT8
    argument = number_type(arguments[0]) if arguments and function is not Aggregation.COUNT else None
    if argument in _INTEGERS and function in _SUMS:
        short = function is Aggregation.SUM and argument is NumberType.INT4
        return NumberType.INT8 if short else NumberType.NUMERIC
    return argument or _PLAIN[type]


def divides_exactly(left: Expression, right: Expression) -> bool:
    """Whether `/` of two integers keeps its fraction: one of them, such as a SUM, is no bigint in PostgreSQL."""
    return not {number_type(left), number_type(right)} <= _INTEGERS


def widest_type(
    arguments: tuple[Expression, ...] | list[Expression], type: Type, least: NumberType | None = None
) -> NumberType | None:
    """Return the type that numbers have together; where all are integers, `least`."""
    if type not in NUMBERS:
        return None
    known = [kind for argument in arguments if not _is_null(argument) and (kind := number_type(argument)) is not None]
    widest = max(known, key=_WIDTH.__getitem__, default=_PLAIN[type])
    return least if least is not None and widest in _INTEGERS else widest


def _is_null(argument: Expression) -> bool:
    return isinstance(argument, Literal) and argument.value is None
