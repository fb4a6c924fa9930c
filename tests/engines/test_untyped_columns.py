"""Each value is read alone: none decides whether the source opens, or how another one is read."""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engines.builds import SALT
from tests.engines.reference import keyed
from tests.engines.test_registration import policy_for, quiet, rows_of

from sfumato.engines.duckdb.build import Build
from sfumato.engines.duckdb.registration import register
from sfumato.engines.sql import bounded_copy as bounded_copy
from sfumato.errors import BadSource

VISITS: dict[str, Any] = {
    "unit": "who",
    "rows_per_unit": 2,
    "columns": {"who": {"type": "integer"}, "note": {"type": "text", "length": 5}, "at": {"type": "timestamp"}},
}
MIDNIGHT = 19_727 * 86_400_000_000


def _write(root: Path, *files: dict[str, Any]) -> None:
    (root / "data" / "visits").mkdir(parents=True)
    (root / "small.ledger.copy.salt").touch(mode=0o600)
    (root / "small.ledger.copy.salt").write_bytes(SALT)
    for at, columns in enumerate(files):
        pq.write_table(pa.table(columns), root / "data" / "visits" / f"{at}.parquet")


def _copy(root: Path, scheme: str = "parquet", **changes: Any) -> dict[int, list[tuple[Any, ...]]]:
    """Return the rows of the copy by the number that names the person."""
    people = {keyed(SALT, "unit", str(who)): who for who in (*range(-5, 100), 2**53, 2**53 + 1, 2**70)}
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in rows_of(register(policy_for(root, scheme, visits={**VISITS, **changes}), quiet)):
        found.setdefault(people[row[0]], []).append(row[1:])
    return found


def _raw_texts(values: Sequence[bytes]) -> pa.Array:
    return pa.array(values, pa.binary()).view(pa.string())


def test_text_that_is_not_utf8_and_times_that_do_not_fit_are_null(tmp_path: Path) -> None:
    """Either made the whole registration fail."""
    at = pa.array([2**62, 1, -(2**63)], pa.timestamp("ms"))
    _write(tmp_path, {"who": [1, 2, 3], "note": _raw_texts([b"\xff\xfe", "é☃".encode(), b"c"]), "at": at})
    assert _copy(tmp_path) == {1: [(None, None)], 2: [(1000, "é☃")], 3: [(None, "c")]}


@pytest.mark.parametrize("note", [b"b", b"b\xff"])
def test_far_times_in_the_old_form_of_96_bits_are_the_same_whether_a_file_is_mended_or_not(
    tmp_path: Path, note: bytes
) -> None:
    """One person's text that is not UTF-8 turned everybody's year 9999 into 1816, and 1500 into 2084."""
    far = [253_402_214_400_000_000, -14_831_769_600_000_000, 1]
    columns = {"who": [1, 2, 3], "note": _raw_texts([b"a", b"a", note]), "at": pa.array(far, pa.timestamp("us"))}
    _write(tmp_path)
    place = tmp_path / "data" / "visits" / "0.parquet"
    pq.write_table(pa.table(columns), place, use_deprecated_int96_timestamps=True)
    last = "b" if note == b"b" else None
    assert _copy(tmp_path) == {1: [(far[0], "a")], 2: [(far[1], "a")], 3: [(1, last)]}


def test_a_person_that_is_not_utf8_is_nobody_and_changes_nobody(tmp_path: Path) -> None:
    _write(tmp_path, {"who": _raw_texts([b"7", b"7\xff", b"8"]), "note": ["a", "b", "c"], "at": pa.nulls(3)})
    columns = {**VISITS["columns"], "who": {"type": "text"}}
    assert _copy(tmp_path, columns=columns) == {7: [(None, "a")], 8: [(None, "c")]}


def test_every_file_of_a_table_may_store_a_column_in_a_type_of_its_own(tmp_path: Path) -> None:
    """A far date in one file beside timestamps in another made the cast of all of them overflow."""
    _write(
        tmp_path,
        {"who": [1, 2], "note": ["aaaaaaa", "b"], "at": pa.array([19_727, -(2**31)], pa.date32())},
        {"who": [1.0, 2.5], "note": pa.nulls(2), "at": pa.array([MIDNIGHT * 1000 + 1, 5], pa.timestamp("ns"))},
        {"who": pa.array([3, 4], pa.uint8()), "note": [10, 11]},
        {"at": pa.array([1], pa.timestamp("us")), "note": ["x"], "who": pa.nulls(1), "more": [1]},
    )
    assert _copy(tmp_path) == {
        1: [(MIDNIGHT, "aaaaa"), (MIDNIGHT, None)],
        2: [(None, "b")],
        3: [(None, "10")],
        4: [(None, "11")],
    }


def test_a_type_that_no_value_could_have_is_refused_by_the_policys_key(tmp_path: Path) -> None:
    _write(tmp_path, {"who": [1], "note": ["a"], "at": ["b"]})
    with pytest.raises(BadSource, match=r"tables.visits.columns.at.type is timestamp, and the source stores text"):
        _copy(tmp_path)


@pytest.mark.parametrize("scheme", ["parquet", "csv"])
def test_a_text_of_120_megabytes_is_cut_and_nobody_else_notices(tmp_path: Path, scheme: str) -> None:
    long = "é" * 60_000_000
    if scheme == "parquet":
        _write(tmp_path, {"who": [1, 2], "note": [long, "bb"], "at": pa.nulls(2)})
    else:
        _write(tmp_path)
        (tmp_path / "data" / "visits" / "0.csv").write_text(f'who,note,at\n1,"{long}",\n2,bb,\n', encoding="utf-8")
    assert _copy(tmp_path, scheme) == {1: [(None, "ééééé")], 2: [(None, "bb")]}


def test_numbers_and_dates_of_a_csv_file_that_are_absurdly_long_are_null(tmp_path: Path) -> None:
    _write(tmp_path)
    long = "0" * 3000
    (tmp_path / "data" / "visits" / "0.csv").write_text(
        f"who,note,at\n{long}7,a,\n1,b,{long}\n2,c,2024-01-05\n", encoding="utf-8"
    )
    assert _copy(tmp_path, "csv") == {1: [(None, "b")], 2: [(MIDNIGHT, "c")]}


UNITS = ["1", "1.0", "+1", "01", " 1", "1.4", "1.5", "0.9999999999999999999", "1e0", "one", "", "9007199254740993"]


def test_a_person_is_never_rounded(tmp_path: Path) -> None:
    """The text "1.4" was the person 1, and 0.9999999999999999999 too."""
    _write(tmp_path)
    lines = "".join(f'"{unit}",{at},\n' for at, unit in enumerate(UNITS))
    (tmp_path / "data" / "visits" / "0.csv").write_text(f"who,note,at\n{lines}", encoding="utf-8")
    found = _copy(tmp_path, "csv", rows_per_unit=100)
    assert {who: sorted(int(note) for _, note in rows) for who, rows in found.items()} == {
        1: [0, 1, 2, 3, 4],
        2**53 + 1: [11],
    }


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([1.0, 1.4, float("nan"), float("inf"), -0.0, 2.0**53, 1e300]), [0, 1]),
        (pa.array([Decimal("1.00"), Decimal("1.40"), Decimal("2.01")], pa.decimal128(12, 2)), [1]),
        (pa.array([Decimal(2**70), Decimal("0.5")], pa.decimal128(38, 10)), [2**70]),
        (pa.array([2**53 + 1], pa.uint64()), [2**53 + 1]),
    ],
)
def test_a_stored_number_that_is_no_integer_is_nobody(tmp_path: Path, values: pa.Array, expected: list[int]) -> None:
    _write(tmp_path, {"who": values, "note": ["x"] * len(values), "at": pa.nulls(len(values))})
    assert sorted(_copy(tmp_path)) == expected


@pytest.mark.parametrize(
    ("kind", "texts", "people"),
    [
        ("date", ["2024-01-05", "2024-01-05 00:00:00", "2024-01-05 13:00:00", "05/01/2024"], {"19727": 2}),
        (
            "timestamp",
            ["2024-01-05", "2024-01-05 00:00:00.0000001", "2024-01-05 00:00:00.000000"],
            {str(MIDNIGHT): 2},
        ),
        ("text", ["abcde", "abcdef", "abcdeg"], {"abcde": 1}),
    ],
)
def test_days_times_and_texts_that_name_people_are_exact_too(
    tmp_path: Path, kind: str, texts: list[str], people: dict[str, int]
) -> None:
    _write(tmp_path)
    (tmp_path / "data" / "visits" / "0.csv").write_text("who\n" + "".join(f"{text}\n" for text in texts))
    who = {"type": kind, "length": 5} if kind == "text" else {"type": kind}
    rows = rows_of(
        register(
            policy_for(tmp_path, "csv", visits={"unit": "who", "rows_per_unit": 9, "columns": {"who": who}}), quiet
        )
    )
    counted = {name: sum(row[0] == keyed(SALT, "unit", name) for row in rows) for name in people}
    assert (counted, len(rows)) == (people, sum(people.values()))


@pytest.mark.parametrize("scheme", ["parquet", "csv", "duckdb"])
@pytest.mark.parametrize("unit", ["who", "rows"])
def test_a_row_that_gets_lost_is_a_refusal_without_a_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, unit: str
) -> None:
    """Rows read = rows kept + rows removed + rows without an owner, for every format."""
    rows = "SELECT CASE WHEN x < 790 THEN x % 50 END AS who, 'x' AS note, NULL::TIMESTAMP AS at FROM range(800) t(x)"
    with duckdb.connect() as connection:
        if scheme == "duckdb":
            connection.execute(f"ATTACH '{tmp_path}/data' AS d; CREATE TABLE d.visits AS {rows}")
        else:
            (tmp_path / "data").mkdir()
            connection.execute(f"COPY ({rows}) TO '{tmp_path}/data/visits.{scheme}'")
    columns = {name: kind for name, kind in VISITS["columns"].items() if unit == "who" or name != "who"}
    table = {"unit": unit, "columns": columns} | ({"rows_per_unit": 2} if unit == "who" else {})
    policy = policy_for(tmp_path, scheme, visits=table)
    assert len(rows_of(register(policy, quiet))) == (100 if unit == "who" else 800)
    whole = bounded_copy._write

    def losing(build: Build, table: Any, columns: Any, kept: Any) -> None:
        whole(build, table, columns, kept)
        build.rows(f'DELETE FROM copy.main."{table.name}" WHERE rowid = 7')  # noqa: S608

    monkeypatch.setattr(bounded_copy, "_write", losing)
    with pytest.raises(BadSource, match=r"tables.visits: not every row of the source was accounted for") as caught:
        register(policy, quiet, again=True)  # what the copy before has is carried over
    (tmp_path / "small.ledger.copy.manifest").unlink()
    with pytest.raises(BadSource, match=r"tables.visits: not every row of the source was accounted for"):
        register(policy, quiet)
    assert not any(character.isdigit() for character in str(caught.value))
