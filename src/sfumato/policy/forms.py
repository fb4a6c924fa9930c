"""How values are written in text: the form of CSV files, and the formats of dates."""

import re

from sfumato.policy.entry import Entry, quote_entry, refuse, text
from sfumato.policy.keys import CSV
from sfumato.policy.policy import ColumnType, CsvFormat
from sfumato.policy.schemes import reads_csv
from sfumato.policy.table_keys import MAX_FORMAT_CHARS

_DATE_PARTS = frozenset("YymbBdj")
_TIME_PARTS = frozenset("HIMSfp")
_FORMAT = re.compile(r"(?:%-?[A-Za-z]|[ /.,:T_-])+")


def read_csv_form(entry: Entry) -> CsvFormat:
    """Read how CSV files are written."""
    form: CsvFormat = CSV.read(entry)
    check_csv_form(entry, form)
    return form


def check_csv_form(entry: Entry, form: CsvFormat) -> None:
    """Refuse a sign or a word with two meanings."""
    if form.delimiter == form.decimal:
        raise refuse(
            entry.below("decimal", form.decimal),
            "is a comma, and so is the delimiter.",
            "A comma between two digits could mean either.",
            'Write delimiter = ";", if the fields are separated by it.',
        )
    if form.thousands == form.decimal:
        raise refuse(
            entry.below("thousands", form.thousands),
            f"is {quote_entry(form.thousands)}, and so is the decimal separator.",
            "That sign in a number could mean either.",
            "Write another thousands, or another decimal.",
        )
    both = sorted({word.casefold() for word in form.true} & {word.casefold() for word in form.false})
    if both:
        raise refuse(
            entry.below("true", list(form.true)),
            f"names {quote_entry(both[0])}, and so does false.",
            "A word means one truth value.",
            "Remove it from one of them.",
        )


def read_format(entry: Entry, kind: ColumnType) -> str:
    """Read how a date or timestamp is written: every part is a number or an English name, and a day is whole."""
    words = text(entry, MAX_FORMAT_CHARS)
    if kind not in (ColumnType.DATE, ColumnType.TIMESTAMP):
        raise refuse(
            entry,
            f"is written for a column of type {kind}.",
            "A format says how dates and timestamps are written.",
            'Leave out format. Numbers with a decimal comma: [csv] decimal = ",".',
        )
    parts = [part[-1] for part in re.findall(r"%-?[A-Za-z]", words)]
    allowed = _DATE_PARTS | (_TIME_PARTS if kind is ColumnType.TIMESTAMP else frozenset())
    day = {"d", "j"} & set(parts) and {"Y", "y"} & set(parts) and {"m", "b", "B", "j"} & set(parts)
    if _FORMAT.fullmatch(words) and set(parts) <= allowed and len(parts) == len(set(parts)) and day:
        return words
    times = ", %H, %I, %M, %S, %f, %p" if kind is ColumnType.TIMESTAMP else ""
    raise refuse(
        entry,
        f"is {quote_entry(entry.value)}.",
        f"A format names year, month and day once each, by %Y or %y, %m, %b or %B, %d (or %j){times}, and between them "
        "blanks, slashes, dots, commas, colons or dashes.",
        'Write for example format = "%d/%m/%Y".',
    )


def check_csv_source(entry: Entry, scheme: str) -> None:
    """Refuse a form of CSV files where there are none: a key without effect is a mistake."""
    if not reads_csv(scheme):
        raise refuse(
            entry,
            f"is written for a source that starts with {scheme}:.",
            "It says how CSV files are written, and there are none.",
            "Remove [csv], or correct source.",
        )
