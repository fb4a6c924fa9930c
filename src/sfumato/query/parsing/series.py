"""generate_series and range as tables: numbers or days that the text itself spells out, so they are public rows."""

from datetime import date, timedelta

from sfumato.query.expression import Expression, Literal
from sfumato.query.parameters import MAX_LIST_ITEMS
from sfumato.query.position import SourceSpan
from sfumato.query.types import Interval, Type

SERIES = {"generate_series": True, "range": False}
"""Whether the end is in it."""
_EXAMPLE = (
    "Write for example generate_series(1, 31), or "
    "generate_series(DATE '2024-01-01', DATE '2024-01-31', INTERVAL '1 day')."
)


def series(name: str, arguments: list[Expression], place: SourceSpan) -> list[Literal]:
    """Return the values of a series; one end alone begins with 0."""
    values = [expression.value if isinstance(expression, Literal) else None for expression in arguments]
    if len(values) == 1:
        values = [0, *values]
    if not 2 <= len(values) <= 3 or None in values:
        raise place.unsupported(f"{name} is not spelled out.", "Its rows have to follow from the text.", _EXAMPLE)
    start, end = values[0], values[1]
    step = values[2] if len(values) == 3 else 1
    if isinstance(start, date) and isinstance(end, date) and isinstance(step, Interval):
        if step.months or step.microseconds % 86_400_000_000 or type(start) is not date or type(end) is not date:
            raise place.unsupported(f"{name} of dates takes whole days here.", "Months differ.", _EXAMPLE)
        days = step.days + step.microseconds // 86_400_000_000
        numbers = _number_series(0, (end - start).days, days, name, place)
        return [Literal(start + timedelta(days=number), Type.DATE, place.at) for number in numbers]
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in (start, end, step)):
        raise place.unsupported(f"{name} takes whole numbers, or dates and days.", "Others have no steps.", _EXAMPLE)
    return [Literal(number, Type.INTEGER, place.at) for number in _number_series(start, end, step, name, place)]


def _number_series(start: object, end: object, step: object, name: str, place: SourceSpan) -> range:
    if not (isinstance(start, int) and isinstance(end, int) and isinstance(step, int)) or step == 0:
        raise place.bad(f"{name} has a step of 0.", "It would never end.", _EXAMPLE)
    if SERIES[name]:
        end += 1 if step > 0 else -1
    numbers = range(start, end, step)
    if numbers[MAX_LIST_ITEMS:]:  # Python cannot tell the length of the longest ones
        raise place.too_large(
            f"{name} has more than {MAX_LIST_ITEMS} rows.",
            "They are part of the text.",
            "Declare a public table instead.",
        )
    if not numbers:
        raise place.bad(f"{name} has no rows.", "Its end comes before its beginning.", _EXAMPLE)
    return numbers
