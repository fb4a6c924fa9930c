"""What a restriction of a monotone computation says of the one column that it reads: years, periods, days of times."""

from sfumato.language.calendar import day_of, months_later, period_start
from sfumato.language.narrowing import Restriction, ScalarShape, shape_of
from sfumato.language.scalar import Constant, Operator, Scalar

_MONTHS = {"month": 1, "quarter": 3, "year": 12}


def column_restriction(shape: ScalarShape, limit: Restriction) -> tuple[Constant, Restriction] | None:
    """Return the column of a monotone computation, and its restriction where the computation is not NULL.

    None where the computation is another one. Each step is a function that never decreases, so its value lies within
    limits exactly if its argument lies within those that are returned.
    """
    operator, arguments, constant = shape
    match operator, arguments:
        case (Operator.COLUMN, ()):
            return constant, limit
        case (Operator.CASE, (_, Scalar(Operator.CONSTANT, (), _, None), value)):
            return column_restriction(shape_of(value), limit)  # not NULL, so it is this value
        case (Operator.DAY_PART, (day,)) if constant == "year":
            return column_restriction(shape_of(day), _days_of_years(limit))
        case (Operator.PERIOD_START, (day,)) if constant in _MONTHS:
            return column_restriction(shape_of(day), _days_of_periods(limit, str(constant)))
        case (Operator.MULTIPLY, (value, Scalar(Operator.CONSTANT, (), facts, _))) if facts.low > 0:
            low, high = limit.low, limit.high
            inner = Restriction(
                None if low is None else -(-low // facts.low), None if high is None else high // facts.low
            )
            return column_restriction(shape_of(value), inner)
        case (Operator.ADD, (value, Scalar(Operator.CONSTANT, (), facts, _))):
            return column_restriction(shape_of(value), _shift_limit(limit, -facts.low))
        case (Operator.SUBTRACT, (value, Scalar(Operator.CONSTANT, (), facts, _))):
            return column_restriction(shape_of(value), _shift_limit(limit, facts.low))
        case (Operator.FLOORED, (value,)):
            ratio = getattr(constant, "denominator", 0) if getattr(constant, "numerator", 0) == 1 else 0
            if ratio > 0:
                low, high = limit.low, limit.high
                inner = Restriction(
                    None if low is None else low * ratio, None if high is None else high * ratio + ratio - 1
                )
                return column_restriction(shape_of(value), inner)
    return None


def _shift_limit(limit: Restriction, steps: int) -> Restriction:
    low, high = limit.low, limit.high
    return Restriction(None if low is None else low + steps, None if high is None else high + steps)


def _days_of_years(limit: Restriction) -> Restriction:
    low, high = limit.low, limit.high
    return Restriction(None if low is None else day_of(low, 1, 1), None if high is None else day_of(high + 1, 1, 1) - 1)


def _days_of_periods(limit: Restriction, unit: str) -> Restriction:
    """Return the days whose period begins within limits."""
    low, high = limit.low, limit.high
    if low is not None and (begun := period_start(low, unit)) < low:
        low = months_later(begun, _MONTHS[unit])
    if high is not None:
        high = months_later(period_start(high, unit), _MONTHS[unit]) - 1
    return Restriction(low, high)
