"""The columns of a table: their types, exact bounds on a grid of integers, and public keys."""

import re
from collections.abc import Callable
from datetime import date, datetime
from fractions import Fraction
from math import ceil, floor

from sfumato.policy.entry import Entry, flag, items, missing, number, quote_entry, refuse, text
from sfumato.policy.forms import read_format
from sfumato.policy.kinds import SectionValues
from sfumato.policy.policy import Bounds, Column, ColumnType, Reference, Value, position
from sfumato.policy.table_keys import COLUMN, DEFAULT_TEXT_CHARS, MAX_DECLARED_VALUES, MAX_VALUE_CHARS, TYPE_SYNONYMS

_INT64 = range(-(2**63), 2**63)
_STEPS = (Fraction(1, 10**18), Fraction(10**18))
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ISO_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:?[0-9]{2})?"
)
_SUMMABLE_TYPES = (ColumnType.INTEGER, ColumnType.DECIMAL)
_BOUNDED_TYPES = (ColumnType.INTEGER, ColumnType.DECIMAL, ColumnType.DATE, ColumnType.TIMESTAMP)


def read_column(name: str, entry: Entry) -> Column:
    """Read one column; a reference in `values` is checked by `tables`, once all tables are known."""
    if isinstance(entry.value, str):
        raise refuse(
            entry,
            f"is {quote_entry(entry.value)}.",
            "A column is declared in braces, with at least a type.",
            f'Write {{ type = "{_suggest_type(entry.value)}" }}.',
        )
    keys = COLUMN.read_keys(entry)
    fields = keys.fields
    kind: ColumnType = fields["type"]
    step = fields["step"] = _step(kind, fields["step"], keys.written.get("step"))
    ends, chosen = keys.values["bounds"]
    if chosen and kind not in _SUMMABLE_TYPES:
        raise refuse(
            keys["bounds"],
            f"is chosen by each question, for a column of type {kind}.",
            "Only numbers that are summed are clipped at bounds that a question selects.",
            "Write bounds = [LOW, HIGH].",
        )
    bounds = _bounds(kind, ends) if ends else None
    if kind is ColumnType.DECIMAL and step is None and ("bounds" in keys or "values" in keys):
        raise missing(
            entry,
            "step",
            "Decimals are stored as whole numbers of steps, so bounds and public keys of a decimal need a step.",
            "Add the precision that matters, for example step = 0.01.",
        )
    if bounds is not None:
        _check_grid(ends, bounds, step)
    values = _values(kind, keys["values"], bounds, step) if "values" in keys else None
    fields["length"] = _length(kind, fields["length"], values, keys)
    written_as = read_format(keys["format"], kind) if "format" in keys else None
    if "total_per_unit" in keys:
        _check_total(keys["total_per_unit"], fields["total_per_unit"], bounds, step, chosen)
    return Column(name, bounds=bounds, values=values, format=written_as, bounds_chosen=chosen, **fields)


def _check_total(entry: Entry, total: Fraction, bounds: Bounds | None, step: Fraction | None, free: bool) -> None:
    if bounds is None or step is None or free or position(bounds.low) < 0:
        raise refuse(
            entry,
            "is written for a column that has no bounds from 0 on.",
            "A total per person needs bounds from 0 on that the policy fixes.",
            "Leave it out, or write bounds = [0, HIGH].",
        )
    if total < position(bounds.high):
        raise refuse(
            entry,
            f"is {quote_entry(entry.value)}, less than the upper bound.",
            "One row alone may have as much as that.",
            f"Write at least {format_value(bounds.high)}, or lower the bound.",
        )
    if (total / step).denominator != 1:
        raise refuse(
            entry,
            f"is {quote_entry(entry.value)}, not a whole number of steps of {format_value(step)}.",
            "Values are summed as whole steps.",
            f"Write {format_value(floor(total / step) * step)}.",
        )
    _check_width(entry, total / step)


def _suggest_type(word: str) -> str:
    return TYPE_SYNONYMS.get(word, word if word in set(ColumnType) else "integer")


def _step(kind: ColumnType, step: Fraction | None, entry: Entry | None) -> Fraction | None:
    if entry is None or step is None:
        return Fraction(1) if kind is ColumnType.INTEGER else None
    if kind is ColumnType.INTEGER and step == 1:
        return step
    if kind is not ColumnType.DECIMAL:
        raise refuse(
            entry,
            f"is {quote_entry(entry.value)}, for a column of type {kind}.",
            "Only decimals have a step: integers count in ones, dates in days, timestamps in microseconds.",
            'Leave out step, or write type = "decimal".',
        )
    if not _STEPS[0] <= step <= _STEPS[1]:
        raise refuse(
            entry,
            f"is {quote_entry(entry.value)}.",
            "Values are stored as whole numbers of steps, and a step lies between 1e-18 and 1e18.",
            "Write the precision that matters, for example step = 0.01.",
        )
    return step


def _length(kind: ColumnType, written: int | None, values: object, keys: SectionValues) -> int | None:
    if kind is not ColumnType.TEXT:
        if written is None:
            return None
        raise refuse(
            keys["length"],
            f"is written for a column of type {kind}.",
            "Only texts have a length; numbers, dates and timestamps have bounds.",
            "Leave out length.",
        )
    length = DEFAULT_TEXT_CHARS if written is None else written
    for index, value in enumerate(values if isinstance(values, tuple) else ()):
        if len(str(value)) > length:
            raise refuse(
                keys["values"].below(index, value),
                f"has {len(str(value))} characters, more than length = {length}.",
                "Texts are cut to that length, so no row could ever have this key.",
                "Raise length, or shorten the value.",
            )
    return length


def _bounds(kind: ColumnType, entry: Entry) -> Bounds:
    if kind not in _BOUNDED_TYPES:
        raise refuse(
            entry,
            f"is written for a column of type {kind}.",
            f"Bounds are for columns of type {', '.join(_BOUNDED_TYPES)}.",
            "Leave out bounds." + (" List public keys in values." if kind is ColumnType.TEXT else ""),
        )
    ends = items(entry, MAX_DECLARED_VALUES)
    if len(ends) != 2:
        raise refuse(
            entry,
            f"is {quote_entry(entry.value)}.",
            "Bounds are two values, the smallest and the largest that count; values beyond them are clipped.",
            "Write bounds = [LOW, HIGH].",
        )
    low, high = (_READERS[kind](end) for end in ends)
    if position(low) > position(high):
        raise refuse(
            entry,
            f"is reversed: {quote_entry(ends[0].value)} is above {quote_entry(ends[1].value)}.",
            "The lower bound comes first.",
            f"Write bounds = [{quote_entry(ends[1].value)}, {quote_entry(ends[0].value)}].",
        )
    return Bounds(low, high)


def _check_grid(entry: Entry, bounds: Bounds, step: Fraction | None) -> None:
    """Refuse bounds that are not themselves whole numbers of steps in 64 bits: what is clipped must stay inside."""
    unit = Fraction(1) if step is None else step
    for end, outwards in ((bounds.low, floor), (bounds.high, ceil)):
        steps = Fraction(position(end)) / unit
        if steps.denominator != 1:
            raise refuse(
                entry,
                f"is {quote_entry(entry.value)}: {format_value(end)} is not a whole number of steps "
                f"of {format_value(unit)}.",
                "Values are rounded to whole steps, and the bounds must hold after rounding.",
                f"Write {format_value(outwards(steps) * unit)} instead of {format_value(end)}, or change step.",
            )
        _check_width(entry, steps)


def _check_width(entry: Entry, steps: Fraction) -> None:
    if steps.numerator not in _INT64:
        raise refuse(
            entry,
            f"is {quote_entry(entry.value)}: too many steps from zero.",
            "Values are stored as whole steps in 64 bits.",
            "Choose values nearer to zero, or make step larger.",
        )


def _values(
    kind: ColumnType, entry: Entry, bounds: Bounds | None, step: Fraction | None
) -> tuple[Value, ...] | Reference:
    if isinstance(entry.value, str):
        return _reference(entry)
    values: dict[Value, None] = {}
    for element in items(entry, MAX_DECLARED_VALUES):
        value = _READERS[kind](element)
        if value in values:
            raise refuse(
                element, f"repeats {quote_entry(element.value)}.", "A public key is listed once.", "Remove it here."
            )
        _check_key(element, value, bounds, step)
        values[value] = None
    if not values:
        raise refuse(
            entry,
            "is empty.",
            "An empty list has no meaning; without values, the keys are selected privately.",
            "List the keys, or leave out values.",
        )
    return tuple(values)


def _check_key(entry: Entry, value: Value, bounds: Bounds | None, step: Fraction | None) -> None:
    if bounds is not None and not position(bounds.low) <= position(value) <= position(bounds.high):
        raise refuse(
            entry,
            f"is {quote_entry(entry.value)}, outside the bounds.",
            "Values are clipped to the bounds, so no row could ever have this key.",
            "Widen bounds, or remove the value.",
        )
    if step is None:
        return
    steps = Fraction(position(value)) / step
    if steps.denominator != 1:
        raise refuse(
            entry,
            f"is {quote_entry(entry.value)}, not a whole number of steps of {format_value(step)}.",
            "Values are rounded to whole steps, so no row could ever have this key.",
            "Change the value or step.",
        )
    _check_width(entry, steps)


def _reference(entry: Entry) -> Reference:
    table, dot, column = text(entry, MAX_VALUE_CHARS).partition(".")
    if not dot or not table or not column:
        raise refuse(
            entry,
            f"is {quote_entry(entry.value)}.",
            "Public keys are a list, or the name of a public table's column.",
            'Write values = ["…", "…"], or values = "table.column".',
        )
    return Reference(table, column)


def format_value(value: Value) -> str:
    """Return a number as a decimal if it has one, else as a fraction in quotes; a date as it is."""
    if not isinstance(value, Fraction):
        return quote_entry(value)
    digits = next((places for places in range(41) if (value * 10**places).denominator == 1), None)
    if digits is None:
        return f'"{value}"'
    whole = f"{abs(int(value * 10**digits)):0{digits + 1}d}"
    sign = "-" if value < 0 else ""
    return sign + (f"{whole[:-digits]}.{whole[-digits:]}" if digits else whole)


def _integer(entry: Entry) -> Value:
    if not isinstance(entry.value, str):  # text that looks like a number is text
        exact = number(entry)
        if exact.denominator == 1:
            return int(exact)
    raise _refuse_value(entry, ColumnType.INTEGER, "a whole number, for example 120")


def _decimal(entry: Entry) -> Value:
    return number(entry)


def _boolean(entry: Entry) -> Value:
    return flag(entry)


def _iso(entry: Entry, form: re.Pattern[str]) -> object:
    """Return the value; in a dict, a text of this form is the date or time that it writes (JSON has no dates)."""
    if entry.lines or not isinstance(entry.value, str) or not form.fullmatch(entry.value):
        return entry.value
    try:
        return date.fromisoformat(entry.value) if form is _ISO_DATE else datetime.fromisoformat(entry.value)
    except ValueError:
        return entry.value


def _date(entry: Entry) -> Value:
    value = _iso(entry, _ISO_DATE)
    if type(value) is date:
        return value
    raise _refuse_value(entry, ColumnType.DATE, "a TOML date without quotes, for example 2024-02-29")


def _timestamp(entry: Entry) -> Value:
    value = _iso(entry, _ISO_TIME)
    if type(value) is not datetime:
        raise _refuse_value(
            entry, ColumnType.TIMESTAMP, "a TOML date and time without quotes, such as 2024-02-29T12:00:00"
        )
    if value.tzinfo is not None:
        raise refuse(
            entry,
            f"is {quote_entry(entry.value)}, with an offset.",
            "Timestamps are used as the source stores them, without a time zone.",
            "Write what that clock shows, without an offset, such as 2024-02-29T12:00:00.",
        )
    return value.replace(fold=0)


def _text(entry: Entry) -> Value:
    return text(entry, MAX_VALUE_CHARS)


def _refuse_value(entry: Entry, kind: ColumnType, form: str) -> Exception:
    return refuse(
        entry,
        f"is {quote_entry(entry.value)}, in a column of type {kind}.",
        "Bounds and public keys must be values of the column's type, and NULL is not one.",
        f"Write {form}.",
    )


_READERS: dict[ColumnType, Callable[[Entry], Value]] = {
    ColumnType.INTEGER: _integer,
    ColumnType.DECIMAL: _decimal,
    ColumnType.BOOLEAN: _boolean,
    ColumnType.DATE: _date,
    ColumnType.TIMESTAMP: _timestamp,
    ColumnType.TEXT: _text,
}
