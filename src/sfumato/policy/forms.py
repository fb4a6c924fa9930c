"""How values are written in text: the form of CSV files, and the formats of dates."""

import re

from sfumato.policy.entry import Entry, choice, items, refuse, section, shown, text
from sfumato.policy.policy import ColumnType, CsvFormat
from sfumato.policy.schemes import reads_csv

CSV_KEYS = ("delimiter", "encoding", "decimal", "null")
DELIMITERS = (",", ";", "\t", "|", ":")
ENCODINGS = ("utf-8", "latin-1", "windows-1252")
"""In each of them a byte below 128 is that character of ASCII, wherever it stands: so records stay what they are."""
DECIMALS = (".", ",")
_ENCODINGS = {
    **dict.fromkeys(("utf8", "utf-8-sig", "unicode", "ascii"), "utf-8"),
    **dict.fromkeys(("latin1", "iso-8859-1", "iso8859-1", "iso-8859-15", "latin"), "latin-1"),
    **dict.fromkeys(("cp1252", "windows1252", "ansi", "1252", "win-1252"), "windows-1252"),
}
_NAMED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "colon": ":"}
_LONGEST_FORMAT = 60
_MOST_NULLS, _LONGEST_NULL = 20, 40
_DATE_PARTS = frozenset("YymbBdj")
_TIME_PARTS = frozenset("HIMSfp")
_FORMAT = re.compile(r"(?:%-?[A-Za-z]|[ /.,:T_-])+")


def read_csv_form(entry: Entry) -> CsvFormat:
    """Read how CSV files are written."""
    keys = section(entry, CSV_KEYS)
    form = CsvFormat(
        _delimiter(keys["delimiter"]) if "delimiter" in keys else ",",
        choice(keys["encoding"], ENCODINGS, _ENCODINGS) if "encoding" in keys else "utf-8",
        choice(keys["decimal"], DECIMALS, {}) if "decimal" in keys else ".",
        tuple(sorted({_null(one) for one in items(keys["null"], _MOST_NULLS)})) if "null" in keys else (),
    )
    if form.delimiter == form.decimal:
        raise refuse(
            keys["decimal"],
            "is a comma, and so is the delimiter.",
            "A comma between two digits could mean either.",
            'Write delimiter = ";", if that is what stands between the fields.',
        )
    return form


def _delimiter(entry: Entry) -> str:
    words = text(entry, 20)
    if words in DELIMITERS:
        return words
    meant = _NAMED.get(words.strip().lower())
    advice = f"Did you mean {_written(meant)}? " if meant else ""
    raise refuse(
        entry,
        f"is {shown(entry.value)}.",
        f"Between the fields of a record stands one of: {' '.join(_written(one) for one in DELIMITERS)}.",
        f"{advice}Write one of these.",
    )


def _null(entry: Entry) -> str:
    words = text(entry, _LONGEST_NULL)
    if words and words == words.strip() and words.isprintable() and '"' not in words:
        return words
    raise refuse(
        entry,
        f"is {shown(entry.value)}.",
        "It is a text that stands in a field without quotation marks; an empty field has no value in any case.",
        'Write for example null = ["NA"].',
    )


def _written(delimiter: str) -> str:
    return '"\\t"' if delimiter == "\t" else f'"{delimiter}"'


def read_format(entry: Entry, kind: ColumnType) -> str:
    """Read how a date or timestamp is written: every part is a number or an English name, and a day is whole."""
    words = text(entry, _LONGEST_FORMAT)
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
        f"is {shown(entry.value)}.",
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
