"""The operators on dates and timestamps, from the few forms in which engines differ.

A day is in the years 1 to 9999 whenever a function of the calendar sees it, so that none of them can raise.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sfumato.engines.sql.dialect import Form
from sfumato.engines.sql.numbers import integer
from sfumato.language.scalar import Operator, Scalar

MICROSECONDS_PER_DAY = 86_400_000_000
_PARTS = ("year", "quarter", "month", "week", "day", "doy")
_PERIODS = ("year", "quarter", "month")


@dataclass(frozen=True, slots=True)
class TimeForms:
    """An engine's calendar; each form mentions its argument once."""

    date: Callable[[str], str]
    """A day of the calendar as the engine's date."""
    day: Callable[[str], str]
    """The engine's date as a day."""
    start: Callable[[str, str], str]
    """The date on which the year, quarter or month of a date begins."""
    part: Callable[[str, str], str]
    """The year, quarter, month, ISO week, day of the month or of the year of a date, as an integer."""
    later: Callable[[str, int], str]
    """The date a number of months after a date, at the month's end where it has no such day."""
    moment_later: Callable[[str, int], str]
    """The moment a number of months after a moment."""
    day_text: Callable[[str], str]
    """A date as text."""
    moment_text: Callable[[str], str]
    """A moment as text."""

    def forms(self) -> dict[Operator, Form]:
        """Return one form per operator on times."""
        return {
            Operator.PERIOD_START: self._period_start,
            Operator.DAY_PART: self._day_part,
            Operator.DAY_LATER: self._day_later,
            Operator.MOMENT_LATER: lambda scalar, arguments: self.moment_later(arguments[0], integer(scalar)),
            Operator.DAY_TEXT: lambda _, arguments: self.day_text(self.date(*arguments)),
            Operator.MOMENT_TEXT: lambda _, arguments: self.moment_text(arguments[0]),
        }

    def _period_start(self, scalar: Scalar, arguments: list[str]) -> str:
        unit = _PERIODS[_PERIODS.index(str(scalar.constant))]
        return self.day(self.start(self.date(*arguments), unit))

    def _day_part(self, scalar: Scalar, arguments: list[str]) -> str:
        return self.part(self.date(*arguments), _PARTS[_PARTS.index(str(scalar.constant))])

    def _day_later(self, scalar: Scalar, arguments: list[str]) -> str:
        return self.day(self.later(self.date(*arguments), integer(scalar)))
