"""Calendar periods (hours, days, weeks, months, years), one per step of a stream."""

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from sfumato.errors import BadParameter, quote_value
from sfumato.query.expression import Call, Column, Expression, Literal, conjuncts
from sfumato.query.functions import Function
from sfumato.query.relation import Filter, GroupBy, Project, Relation, Scan

LENGTHS = ("hour", "day", "week", "month", "year")
_PERIOD_PARAMETER = re.compile(r"(?<![\w:]):(from|to)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Periods:
    """Consecutive periods of one length; without a first day they only have numbers."""

    every: str
    first: datetime | None

    @property
    def words(self) -> str:
        """Return a description, as it is stored with the stream."""
        return f"every {self.every}" + ("" if self.first is None else f" from {self.first:%Y-%m-%d}")

    def start_of(self, time: int) -> datetime | None:
        """Return the start of the period of this step."""
        if self.first is None:
            return None
        done = time - 1
        match self.every:
            case "hour":
                return self.first + timedelta(hours=done)
            case "day":
                return self.first + timedelta(days=done)
            case "week":
                return self.first + timedelta(weeks=done)
        months = self.first.month - 1 + done * (12 if self.every == "year" else 1)
        return self.first.replace(year=self.first.year + months // 12, month=months % 12 + 1)

    def label(self, time: int) -> object:
        """Return the name of the period in a row: its first day, its hour, or its number."""
        start = self.start_of(time)
        return time if start is None else start if self.every == "hour" else start.date()

    def question(self, sql: str, time: int) -> str:
        """Return the query of one period: `:from` and `:to` become its start and its end (exclusive)."""
        if not isinstance(sql, str) or not _PERIOD_PARAMETER.search(sql):
            return sql  # the parser refuses what is no SQL
        start, end = self.start_of(time), self.start_of(time + 1)
        if start is None or end is None:
            raise BadParameter(
                "The question uses a period, and the start of the first one is not given.",
                "`:from` and `:to` stand for its ends.",
                "Give start, for example start='2026-01-01'.",
            )
        hours = self.every == "hour"
        kind, form = ("TIMESTAMP", "%Y-%m-%d %H:%M:%S") if hours else ("DATE", "%Y-%m-%d")
        literals = {"from": f"{kind} '{start:{form}}'", "to": f"{kind} '{end:{form}}'"}
        return _PERIOD_PARAMETER.sub(lambda match: literals[match[1].lower()], sql)


def read_periods(every: object, start: object) -> Periods:
    """Read a length and a first day, or refuse them."""
    if every not in LENGTHS:
        raise BadParameter(
            f"every = {quote_value(every)} is not a period.",
            "It says how long a step is.",
            f"Write one of {', '.join(LENGTHS)}.",
        )
    first: datetime | None = None
    try:
        if isinstance(start, str):
            first = datetime.fromisoformat(start)
        elif isinstance(start, datetime):
            first = start
        elif isinstance(start, date):
            first = datetime(start.year, start.month, start.day)
        known = start is None or first is not None
    except ValueError:
        known = False
    if not known or (first is not None and not _is_period_start(str(every), first)):
        raise BadParameter(
            f"start = {quote_value(start)} is not where a period of this length begins.",
            "It is a day, without a time zone; of months and years the first day, of hours a full hour.",
            "Write for example start='2026-01-01'.",
        )
    return Periods(str(every), first)


def _is_period_start(every: str, first: datetime) -> bool:
    if first.tzinfo is not None or first.minute or first.second or first.microsecond or first.year > 9000:
        return False
    return every == "hour" or (not first.hour and (every in ("day", "week") or first.day == 1))


def lies_in_one_period(relation: Relation, periods: Periods, time: int) -> bool:
    """Tell whether each row counts in the period of one step only: plain rows with start <= column < end."""
    start, end = periods.start_of(time), periods.start_of(time + 1)
    match relation:
        case Project(GroupBy(Filter(Scan(), condition))) if start is not None and end is not None:
            parts = conjuncts(condition)
            lows = {_compared_column(part, Function.AT_MOST, start, 0) for part in parts}
            highs = {_compared_column(part, Function.LESS, end, 1) for part in parts}
            return bool(lows & highs - {None})
        case _:
            return False


def _compared_column(part: Expression, function: Function, moment: datetime, literal_index: int) -> Column | None:
    """Return the column that `part` compares with this moment; the literal is the argument at `literal_index`."""
    if not isinstance(part, Call) or part.function is not function or len(part.arguments) != 2:
        return None
    literal, column = part.arguments[literal_index], part.arguments[1 - literal_index]
    if not isinstance(literal, Literal) or not isinstance(column, Column):
        return None
    value = literal.value
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    return column if value == moment else None
