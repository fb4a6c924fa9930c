"""Values that a person typed, as TOML writes them. A value that does not read as the column's type is refused."""

import json
import re
from datetime import date, datetime
from fractions import Fraction

from sfumato.errors import BadParameter, Refusal, quote_value
from sfumato.exact import decimal_rational
from sfumato.policy.policy import ColumnType

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_WHOLE_NUMBER = re.compile(r"[+-]?(0|[1-9]\d{0,39})")
_DECIMAL = re.compile(r"[+-]?(0|[1-9]\d{0,39})(\.\d{1,40})?([eE][+-]?\d{1,2})?")
_FORMS = {
    ColumnType.INTEGER: "a whole number such as 120",
    ColumnType.DECIMAL: "a number such as 0.01",
    ColumnType.BOOLEAN: "true or false",
    ColumnType.DATE: "a date such as 2024-12-31",
    ColumnType.TIMESTAMP: "a time such as 2024-12-31T23:59:59",
}


def key_text(name: str) -> str:
    """Return a name as a TOML key.

    >>> key_text("patient_id"), key_text("old town")
    ('patient_id', '"old town"')
    """
    return name if _BARE.fullmatch(name) else quoted_text(name)


def quoted_text(text: str) -> str:
    """Return text as a TOML string; JSON's escapes are TOML's, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def number_text(typed: str, what: str) -> str:
    """Return a number as TOML writes it: a decimal as it is, a fraction in quotes."""
    text = typed.strip()
    try:
        decimal_rational(text, what)
    except Refusal:
        raise BadParameter(
            f"The {what} is {quote_value(typed)}.", "It is an exact number.", "Write a decimal such as 0.5 or 1e-6."
        ) from None
    if _DECIMAL.fullmatch(text):
        return text
    return quoted_text(text)


def value_text(typed: str, kind: ColumnType, what: str) -> str:
    """Return one value of a column as TOML writes it.

    >>> value_text("120", ColumnType.INTEGER, "bounds of age"), value_text("er", ColumnType.TEXT, "values of dept")
    ('120', '"er"')
    """
    text = typed.strip()
    if kind is ColumnType.TEXT:
        return quoted_text(text)
    if _reads_as(text, kind):
        return text
    raise BadParameter(
        f"The {what} hold {quote_value(typed)}.", f"The column is of type {kind}.", f"Write {_FORMS[kind]}."
    )


def ends_text(typed: str) -> tuple[str, str]:
    """Return the two ends of a range that was typed as LOW:HIGH; times hold colons and are typed as LOW..HIGH.

    >>> ends_text("0:120"), ends_text("2024-01-01T00:00:00..2024-12-31T23:59:59")[1]
    (('0', '120'), '2024-12-31T23:59:59')
    """
    ends = [end.strip() for end in typed.split(".." if ".." in typed else ":")]
    if len(ends) == 2 and all(ends):
        return ends[0], ends[1]
    raise BadParameter(
        f"{quote_value(typed)} is not a range.",
        "Bounds are two values.",
        "Write LOW:HIGH, for example 0:120; times as LOW..HIGH.",
    )


def decimal_text(value: Fraction) -> str:
    """Return a decimal fraction as decimal text.

    >>> decimal_text(Fraction(1, 100)), decimal_text(Fraction(30000))
    ('0.01', '30000')
    """
    places = 0
    while value.denominator != 1 and (value * 10**places).denominator != 1:
        places += 1
    digits = str(int(abs(value) * 10**places)).rjust(places + 1, "0")
    sign = "-" if value < 0 else ""
    return sign + (f"{digits[:-places]}.{digits[-places:]}" if places else digits)


def _reads_as(text: str, kind: ColumnType) -> bool:
    try:
        match kind:
            case ColumnType.INTEGER:
                return _WHOLE_NUMBER.fullmatch(text) is not None
            case ColumnType.DECIMAL:
                return _DECIMAL.fullmatch(text) is not None
            case ColumnType.BOOLEAN:
                return text in ("true", "false")
            case ColumnType.DATE:
                return date.fromisoformat(text).isoformat() == text
            case ColumnType.TIMESTAMP:
                return datetime.fromisoformat(text).isoformat() == text
    except ValueError:
        pass
    return False
