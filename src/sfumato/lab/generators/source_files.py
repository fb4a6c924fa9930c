"""Made-up source files, well-formed and hostile: what people could have written into them, and what it means.

A sheet is one file of a table. What its values mean is said here, in plain Python, from the policy's words alone.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from fractions import Fraction
from math import inf, isfinite, nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv as arrow_csv

from sfumato.lab.generators.scalars import Dice

COLUMNS: dict[str, Any] = {
    "person": {"type": "integer"},
    "n": {"type": "integer", "bounds": [0, 100]},
    "amount": {"type": "decimal", "bounds": [-1000, 1000], "step": 0.01},
    "city": {"type": "text"},
    "day": {"type": "date", "bounds": [date(2020, 1, 1), date(2024, 12, 31)]},
    "seen": {"type": "timestamp", "bounds": [datetime(2020, 1, 1), datetime(2024, 12, 31)]},
    "flag": {"type": "boolean"},
    "weight": {"type": "decimal"},
}
NAMES = (*COLUMNS, "note")
"""The columns of every file; the last one is declared nowhere."""
_HARD_TEXTS = (
    *('"', 'a"b', '""', "a\nb", "a\r\nb", "a\rb", "\n", "\r", ",", ",,,,,,,,,,", "a,b\n1,2,3", "'", "\\", '\\"', "\t"),
    *("\x1b[31mred", "</script><script>", "=1+1", "@sum(a)", "é\u2028\u2029\ufeff", "\U0001f9ea", " ", "NULL", "#"),
    *("x" * 3_000, '"' * 1_001, "\n" * 500),
)
HARD: dict[str, tuple[str, ...]] = {
    "person": ("1.4", "1,4", "-", "NaN", '"1"', "x" * 2_000),
    "n": ("abc", "9" * 400, "1e999", "NaN", "inf", "-inf", str(2**63), str(2**53 + 1), "1;2", "0x1p3", "\n5", "--5"),
    "amount": ("NaN", "-inf", "1e400", "1" * 300 + ".5", "12,34", "0.1.2", "\u0661\u0662", "1e-400", "-0.0", '1"2'),
    "city": (*_HARD_TEXTS, "a\x00b", "caf\udce9"),
    "day": ("05/01/2024", "2024-02-30", "290000-01-01", "-0044-03-15", "infinity", "today", "2024-1", "9999-12-31"),
    "seen": ("05/01/2024 10:00", "2024-01-01T25:00:00", "290000-01-01 00:00:00", "epoch", "2024-06-30 23:59:60"),
    "flag": ("yes", "2", "truee", "\n", "-1"),
    "weight": ("NaN", "-inf", "1e400", "-0.0", "0x10", "1e-400"),
    "note": _HARD_TEXTS,
}
"""Texts of the wrong type in a CSV file; one byte is not UTF-8. None affects the rows of other people."""
PLAIN: dict[str, tuple[tuple[str, Any], ...]] = {
    "n": (("5", 5), ("100", 100), ("250", 100), ("-3", 0), ("007", 7), ("", None), ("abc", None)),
    "amount": (("12.34", 1234), ("0.005", 0), ("0.015", 2), ("-1e2", -10000), ("5000", 100000), ("", None)),
    "city": (
        ("rome", "rome"),
        ("oslo", "oslo"),
        ('a "quoted", text', 'a "quoted", text'),
        ("two\nlines", "two\nlines"),
    ),
    "day": (("2024-02-29", True), ("1999-01-01", True), ("05/01/2024", None), ("", None)),
    "seen": (("2024-02-29 12:30:00", True), ("", None)),
    "flag": (("true", 1), ("false", 0), ("", None)),
    "weight": (("1.5", True), ("-0.0", True), ("", None)),
    "note": (("x", None), ("a,b", None), ("", None)),
}
"""Ordinary texts and their meaning: an integer in steps, whether there is a date, or NULL."""

TYPED_VALUES: dict[str, tuple[tuple[Any, tuple[Any, ...]], ...]] = {
    "person": ((pa.int64(), (None,)), (pa.float64(), (1.4, nan, inf, 2.0**60)), (pa.int32(), (None,))),
    "n": (
        (pa.int64(), (2**63 - 1, -(2**63), 2**53 + 1)),
        (pa.float64(), (nan, inf, -inf, 2.0**63, 1e300, -0.0, 2.5)),
        (pa.int16(), (-(2**15), 2**15 - 1)),
        (pa.decimal128(20, 0), (10**19, -(10**19))),
    ),
    "amount": (
        (pa.float64(), (nan, inf, -inf, 1e308, 5e-324, -0.0, 0.005, 2.0**53 + 2)),
        (pa.decimal128(38, 10), (10**27, -(10**27))),
        (pa.float32(), (nan, 3e38)),
    ),
    "city": ((pa.string(), (*_HARD_TEXTS, "a\x00b", "x" * 2_000_000)), (pa.large_string(), _HARD_TEXTS)),
    "day": ((pa.date32(), (10**8, -(10**8), 2**31 - 1, -(2**31))), (pa.timestamp("us"), (2**62, -(2**62), 2**63 - 1))),
    "seen": (
        (pa.timestamp("us"), (2**62, -(2**62), 2**63 - 1, -(2**63) + 1)),
        (pa.timestamp("ns"), (2**62,)),
        (pa.timestamp("ms"), (2**62, -(2**62), 2**63 - 1)),
        (pa.timestamp("us", tz="UTC"), (2**62, 2**63 - 1)),
        (pa.date32(), (10**8, 2**31 - 1)),
    ),
    "flag": ((pa.bool_(), (True,)), (pa.int64(), (2, -1, 2**62))),
    "weight": ((pa.float64(), (nan, inf, -inf, -0.0, 5e-324)), (pa.float32(), (nan, -0.0))),
    "note": ((pa.string(), ("\x00",)), (pa.binary(), (b"\xff\xfe\x00", b"\x80")), (pa.int64(), (1,))),
}
"""The types in which Parquet files store a column, and what is hard in each of them."""
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
INVALID = (b"\xff\xfe", b"caf\xe9", b"\xed\xa0\x80", b"\x80" * 40)
"""Bytes that are not UTF-8, which a Parquet file may hold as text."""

Writer = Callable[[Path, "Sheet", int], None]
"""Writes a sheet; the number chooses among the ways in which a library can write it."""


@dataclass(frozen=True, slots=True)
class SheetRow:
    """A record, its owner, and its values as they are written: texts in CSV, numbers and texts in Parquet."""

    owner: int
    values: Mapping[str, Any]
    hard: bool = False
    """Whether it was made to disturb; its contribution is not predicted."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """One file of a table, and in Parquet the types of its columns."""

    name: str
    rows: tuple[SheetRow, ...]
    types: Mapping[str, Any]

    def column(self, name: str) -> list[Any]:
        """Return the values of a column."""
        return [row.values[name] for row in self.rows]

    def texts(self, name: str) -> list[str]:
        """Return the texts of a column as UTF-8 can have them."""
        return [value.encode("utf-8", "replace").decode() for value in self.column(name)]


@dataclass(frozen=True, slots=True)
class Sheets:
    """The files of one table, their format, and who writes each of them in which manner."""

    scheme: str
    sheets: tuple[Sheet, ...]
    writers: tuple[tuple[str, int], ...]

    @property
    def owners(self) -> tuple[int, ...]:
        """All people who have a row."""
        return tuple(dict.fromkeys(row.owner for sheet in self.sheets for row in sheet.rows))

    @property
    def rows(self) -> list[SheetRow]:
        """All rows."""
        return [row for sheet in self.sheets for row in sheet.rows]

    def without(self, owner: int) -> "Sheets":
        """Return the files without the rows of one person; the files stay, if only with their headers."""
        return self._with_rows(lambda sheet: tuple(row for row in sheet.rows if row.owner != owner))

    def with_hard(self, owner: int, dice: Dice) -> "Sheets":
        """Return the files in which every row of one person is as hostile as its format allows."""
        return self._with_rows(
            lambda sheet: tuple(
                _hard(self.scheme, sheet, owner, dice) if row.owner == owner else row for row in sheet.rows
            )
        )

    def _with_rows(self, rows: Callable[[Sheet], tuple[SheetRow, ...]]) -> "Sheets":
        return replace(self, sheets=tuple(replace(sheet, rows=rows(sheet)) for sheet in self.sheets))

    def write(self, folder: Path, writers: Mapping[str, Writer]) -> None:
        """Write every file with its writer."""
        folder.mkdir(parents=True, exist_ok=True)
        for sheet, (name, manner) in zip(self.sheets, self.writers, strict=True):
            writers[name](folder / f"{sheet.name}.{self.scheme}", sheet, manner)


def generate_files(scheme: str, writers: Sequence[str], dice: Dice, people: int = 5) -> Sheets:
    """Return files of ordinary people, most of them with several rows, some of them in several files."""
    number = dice.randint(1, 3)
    made = []
    for index in range(number):
        types = {name: dice.choice(TYPED_VALUES[name])[0] for name in NAMES}
        rows = tuple(
            _plain_row(scheme, types, owner, dice)
            for owner in range(1, people + 1)
            for _ in range(dice.randint(0 if index else 1, 3))
        )
        made.append(Sheet(f"part{index}", () if index and dice.random() < 0.2 else rows, types))
    chosen = tuple((dice.choice(writers), dice.randint(0, 99)) for _ in made)
    return Sheets(scheme, tuple(made), chosen)


def _plain_row(scheme: str, types: Mapping[str, Any], owner: int, dice: Dice) -> SheetRow:
    if scheme == "csv":
        return SheetRow(owner, {"person": str(owner), **{name: dice.choice(PLAIN[name])[0] for name in PLAIN}})
    values = {name: _ordinary(name, types[name], dice) for name in NAMES if name != "person"}
    return SheetRow(owner, {"person": float(owner) if pa.types.is_floating(types["person"]) else owner, **values})


def _ordinary(name: str, type: Any, dice: Dice) -> Any:
    """Return an ordinary value of a Parquet column."""
    if dice.random() < 0.15:
        return None
    if pa.types.is_boolean(type) or name == "flag":
        return dice.choice([True, False]) if pa.types.is_boolean(type) else dice.choice([0, 1])
    if pa.types.is_floating(type):
        return dice.choice([1.5, 0.25, 12.0, -3.0, 250.0])
    if pa.types.is_decimal(type):
        return dice.choice([12, -3, 250])
    if pa.types.is_temporal(type):
        days = dice.choice([19_000, 18_500, 10_000])
        return days if pa.types.is_date(type) else days * 86_400 * _PER_SECOND[type.unit]
    if pa.types.is_binary(type):
        return b"plain"
    if pa.types.is_integer(type):
        return dice.choice([5, 100, 250, -3, 7])
    return dice.choice(["rome", "oslo", 'a "quoted", text', "two\nlines"])


def _hard(scheme: str, sheet: Sheet, owner: int, dice: Dice) -> SheetRow:
    """Return a hostile row of a person; sometimes without a unit."""
    if scheme == "csv":
        texts = {name: dice.choice(HARD[name]) for name in NAMES if name != "person"}
        return SheetRow(owner, {"person": dice.choice([str(owner)] * 6 + [*HARD["person"]]), **texts}, hard=True)
    values: dict[str, Any] = {
        name: dice.choice(dict(TYPED_VALUES[name])[sheet.types[name]]) for name in NAMES if name != "person"
    }
    if dice.random() < 0.3 and not pa.types.is_binary(sheet.types["city"]):
        values["city"] = dice.choice(INVALID)
    hard = dice.choice(dict(TYPED_VALUES["person"])[sheet.types["person"]])
    own = float(owner) if pa.types.is_floating(sheet.types["person"]) else owner
    return SheetRow(owner, {"person": dice.choice([own, own, hard]), **values}, hard=True)


# ── writers that need no further library ──


def line_end(manner: int) -> str:
    """Return the end of lines; before Python 3.13, csv leaves a carriage return bare that is no part of it."""
    return "\r\n" if manner % 3 == 0 else ("\n", "\r\n")[manner % 2]


def write_csv(path: Path, sheet: Sheet, manner: int) -> None:
    """Write with Python's csv: quoting where needed, everywhere or around texts; lines end in LF or CRLF."""
    quoting: Any = (csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC)[manner % 3]
    encoding = "utf-8-sig" if manner % 7 == 0 else "utf-8"
    with path.open("w", encoding=encoding, errors="surrogateescape", newline="") as stream:
        writer = csv.writer(stream, quoting=quoting, lineterminator=line_end(manner))
        writer.writerow(NAMES)
        writer.writerows([row.values[name] for name in NAMES] for row in sheet.rows)


def write_arrow_csv(path: Path, sheet: Sheet, manner: int) -> None:
    """Write with Arrow, which quotes every text."""
    table = pa.table({name: pa.array(sheet.texts(name), pa.string()) for name in NAMES})
    options = arrow_csv.WriteOptions(quoting_style=("needed", "all_valid")[manner % 2])
    arrow_csv.write_csv(table, path, options)


def arrow_table(sheet: Sheet) -> pa.Table:
    """Return a sheet as Arrow has it; bytes that are not UTF-8 count as text too."""
    return pa.table({name: _arrow_array(sheet.column(name), sheet.types[name]) for name in NAMES})


def _arrow_array(values: list[Any], type: Any) -> Any:
    if pa.types.is_string(type) or pa.types.is_large_string(type):
        octets = [value.encode() if isinstance(value, str) else value for value in values]
        wide = pa.large_binary() if pa.types.is_large_string(type) else pa.binary()
        plain = pa.array(octets, wide)
        return pa.Array.from_buffers(type, len(plain), plain.buffers())  # unchecked, as other writers may leave them
    if pa.types.is_temporal(type):
        stored = pa.int32() if pa.types.is_date32(type) else pa.int64()
        return pa.array(values, stored).view(type)
    return pa.array(values, type)


def write_parquet(path: Path, sheet: Sheet, manner: int) -> None:
    """Write with Arrow, in row groups of one or more rows, with and without dictionaries."""
    table = arrow_table(sheet)
    pq.write_table(table, path, row_group_size=1 + manner % 4, use_dictionary=manner % 2 == 0, version="2.6")


WRITERS: dict[str, dict[str, Writer]] = {
    "csv": {"csv": write_csv, "arrow": write_arrow_csv},
    "parquet": {"arrow": write_parquet},
}


# ── what it means ──


@dataclass(frozen=True, slots=True)
class Meaning:
    """Expected counts and sums of ordinary rows, computed in plain Python; `sums` are in grid steps."""

    rows: int
    counts: Mapping[str, int]
    sums: Mapping[str, int]


def expected_sums(sheets: Sheets) -> Meaning:
    """Return the expected counts and sums of ordinary rows under the policy, where nothing is truncated."""
    columns = ("n", "amount", "day", "flag")
    values = {name: [_meant_integer(sheets.scheme, name, row.values[name]) for row in sheets.rows] for name in columns}
    return Meaning(
        len(sheets.rows),
        {name: sum(value is not None for value in values[name]) for name in columns},
        {name: sum(value for value in values[name] if value is not None) for name in ("n", "amount", "flag")},
    )


def _meant_integer(scheme: str, name: str, value: Any) -> int | None:
    if scheme == "csv":
        number: int | None = dict(PLAIN[name])[value]
        return number
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return None
    if name == "day":
        return 1
    low, high, step = {"n": (0, 100, 1), "amount": (-1000, 1000, 100), "flag": (0, 1, 1)}[name]
    clipped = min(max(Fraction(value), Fraction(low)), Fraction(high))
    return round(clipped * step)  # half to even
