"""The operators + - * / % on numbers, dates and intervals: which meaning is meant follows from the types."""

from sfumato.query.expression import Call, Expression, Literal
from sfumato.query.functions import Function
from sfumato.query.position import SourceSpan
from sfumato.query.resolve import convert_implicitly, to_common_type, type_with_article
from sfumato.query.types import NUMBERS, TIMES, Interval, Type


def arithmetic(function: Function, left: Expression, right: Expression, place: SourceSpan) -> Expression:
    """Return `left function right`."""
    if left.type in TIMES or right.type in TIMES:
        shifted = _on_times(function, left, right, place)
        if shifted is not None:
            return shifted
        raise _no_meaning(function, left, right, place)
    first, second = _as_numbers(function, left, right, place)
    if function is Function.DIVIDE and first.type is Type.INTEGER:
        function = Function.QUOTIENT  # integer / integer truncates, as in PostgreSQL
    if function is Function.QUOTIENT and first.type is not Type.INTEGER:
        raise place.bad(
            "// divides integers.", "One side is a decimal.", "Divide with /, and take FLOOR or TRUNC of it."
        )
    return Call(function, (first, second), first.type, place.at)


def _as_numbers(function: Function, left: Expression, right: Expression, place: SourceSpan) -> list[Expression]:
    pair = [left, right]
    for i, other in ((0, right), (1, left)):
        part = pair[i]
        if isinstance(part, Literal) and (part.value is None or part.type is Type.TEXT):
            pair[i] = convert_implicitly(part, other.type if other.type in NUMBERS else Type.DECIMAL, place)
    if not {part.type for part in pair} <= NUMBERS:
        raise _no_meaning(function, left, right, place)
    return to_common_type(pair, place)


def negate(argument: Expression, place: SourceSpan) -> Expression:
    """Return the negative of a number or interval; a literal is negated at once."""
    if isinstance(argument, Literal) and isinstance(argument.value, Interval):
        return Literal(-argument.value, argument.type, place.at)
    if isinstance(argument, Literal) and argument.type in NUMBERS and argument.value is not None:
        return Literal(-argument.value, argument.type, place.at)  # type: ignore[operator]
    if argument.type not in NUMBERS:
        raise place.bad(
            f"the minus sign is before {type_with_article(argument.type)}.",
            "Only a number has a negative.",
            "Negate a number.",
        )
    return Call(Function.NEGATE, (argument,), argument.type, place.at)


def _on_times(function: Function, left: Expression, right: Expression, place: SourceSpan) -> Expression | None:
    if function is Function.ADD and right.type in TIMES and left.type not in TIMES:
        left, right = right, left
    if function not in {Function.ADD, Function.SUBTRACT} or left.type not in TIMES | {Type.TEXT}:
        return None
    if function is Function.SUBTRACT and (right.type in TIMES or (_is_literal_text(right) and right.type is Type.TEXT)):
        first, second = to_common_type([left, right], place)
        gives = Type.INTEGER if first.type is Type.DATE else Type.INTERVAL
        return Call(Function.ELAPSED, (first, second), gives, place.at)
    amount = right if function is Function.ADD else None
    if right.type is Type.INTEGER and left.type is Type.DATE:
        return Call(Function.SHIFT, (left, amount or negate(right, place)), Type.DATE, place.at)
    if right.type is Type.INTERVAL:
        if not _is_literal_text(right):
            raise place.unsupported(
                "a date is moved by an interval that is not spelled out.",
                "How far a date moves may not differ from row to row, except by whole days.",
                "Write INTERVAL '…', or add an integer number of days to a date.",
            )
        return Call(Function.SHIFT, (left, amount or negate(right, place)), Type.TIMESTAMP, place.at)
    return None


def _is_literal_text(argument: Expression) -> bool:
    return isinstance(argument, Literal)


def _no_meaning(function: Function, left: Expression, right: Expression, place: SourceSpan) -> Exception:
    return place.bad(
        f"{type_with_article(left.type)} {function} {type_with_article(right.type)} has no meaning.",
        "Arithmetic is for numbers; a date may be moved by days or by an interval, and dates may be subtracted.",
        "Cast one side, or use other columns.",
    )
