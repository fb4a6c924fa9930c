"""CSV by RFC 4180: whatever is quoted survives, and what is malformed is refused by its line."""

import csv
import gzip
import io
import random
from pathlib import Path

import pytest
from tests.engines.test_registration import policy_for, quiet, rows_of

from sfumato.engines.duckdb import csv_records
from sfumato.engines.duckdb.csv_records import Malformed, header, record_batches
from sfumato.engines.duckdb.registration import register
from sfumato.errors import BadSource

Records = list[tuple[str | None, ...]]


def _read(path: Path, content: bytes) -> Records:
    path.write_bytes(content)
    found: Records = []
    for batch, count in record_batches(path, dict.fromkeys(header(path), None)):
        rows = [tuple(row.values()) for row in batch.to_pylist()]
        assert len(rows) == count
        found += rows
    return found


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a,b\n1,2\n", [("1", "2")]),
        (b"a,b\n1,2", [("1", "2")]),
        (b"\xef\xbb\xbfa,b\r\n1,2\r\n", [("1", "2")]),
        (b"a,b\r1,2\r3,4\r", [("1", "2"), ("3", "4")]),
        (b'a,b\n1,"x\r\ny\nz\rw"\n', [("1", "x\r\ny\nz\rw")]),
        (b'a,b\n1,"a,""b"""\n2,""""\n', [("1", 'a,"b"'), ("2", '"')]),
        (b'a,b\n,""\n', [(None, "")]),
        (b"a,b\n\n1,2\r\n\r\n\n", [("1", "2")]),
        (b"a\n1\n\n3\n", [("1",), (None,), ("3",)]),
        (b"a,b\n1,\x00z\n2,\xff\n3,4\n", [("1", "\0z"), ("2", None), ("3", "4")]),
        (b'"a\nc",b\n1,2\n', [("1", "2")]),
        (b"a,b\n", []),
        (b"a,b", []),
    ],
)
def test_every_record_is_read_by_itself(tmp_path: Path, content: bytes, expected: Records) -> None:
    assert _read(tmp_path / "x.csv", content) == expected


@pytest.mark.parametrize(
    ("content", "line", "why"),
    [
        (b'a,b\n1,2\n3,"4\n5,6\n', 3, "never closed"),
        (b'a,b\n1,x"y\n3,4"\n', 2, "inside a field"),
        (b'a,b\n1,"x"y\n3,4\n', 2, "inside a field"),
        (b'a,b\n1," x" \n', 2, "inside a field"),
        (b"a,b\n1,2\n3\n", 3, "1 fields"),
        (b"a,b\n1,2\n3,4,5\n", 3, "3 fields"),
        (b'a,b\n"1\n\n",2\n3\n', 5, "1 fields"),
        (b"a,b\n1,x\ry\n", 2, "carriage return"),
        (b"a,b\n1,x\r", 2, "carriage return"),
        (b"a,b\r1,2\r3,4\n5,6\r", 3, "line feed"),
        (b'"a,b\n1,2\n', 1, "does not end"),
        (b"\xff,b\n1,2\n", 1, "not UTF-8"),
    ],
)
def test_what_is_malformed_is_refused_by_line(tmp_path: Path, content: bytes, line: int, why: str) -> None:
    with pytest.raises(Malformed, match=why) as caught:
        _read(tmp_path / "x.csv", content)
    assert caught.value.line == line


def test_a_compressed_file_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(b"a,b\n" + b"1,2\n" * 1000)
    path = tmp_path / "x.csv.gz"
    assert len(_read(path, whole)) == 1000
    with pytest.raises(Malformed, match="to its end"):
        _read(path, whole[:-9])


def test_whatever_is_quoted_survives_at_every_place_where_a_part_can_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = random.Random(11)
    alphabet = ["a", '"', ",", "\n", "\r", "é", " ", "\0", "\t", ""]
    for _ in range(400):
        width = order.randint(1, 3)
        rows = [
            tuple("".join(order.choices(alphabet, k=order.randint(0, 4))) for _ in range(width))
            for _ in range(order.randint(0, 6))
        ]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator=order.choice(["\n", "\r\n"]), quoting=csv.QUOTE_ALL)
        writer.writerow([f"c{at}" for at in range(width)])
        writer.writerows(rows)
        monkeypatch.setattr(csv_records, "_CHUNK_BYTES", order.choice([7, 40, 1 << 20]))
        monkeypatch.setattr(csv_records, "_MAX_HEADER_BYTES", order.choice([20, 1 << 20]))
        assert _read(tmp_path / "x.csv", text.getvalue().encode()) == rows


def test_what_is_accepted_is_what_the_strict_reader_of_the_standard_library_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = random.Random(12)
    accepted = 0
    for _ in range(800):
        content = b"c,d\n" + bytes(order.choices(b'a",,\n\r1', k=order.randint(0, 14)))
        monkeypatch.setattr(csv_records, "_CHUNK_BYTES", order.choice([7, 1 << 20]))
        try:
            mine = _read(tmp_path / "x.csv", content)
        except Malformed:
            continue
        accepted += 1
        theirs = [row for row in csv.reader(io.StringIO(content.decode(), newline=""), strict=True) if row]
        assert [[value or "" for value in row] for row in mine] == theirs[1:]
    assert accepted > 80


VISITS = {
    "unit": "who",
    "rows_per_unit": 1,
    "columns": {"who": {"type": "integer"}, "day": {"type": "date"}, "note": {"type": "text"}},
}


def _file(root: Path, content: str) -> None:
    (root / "data").mkdir(exist_ok=True)
    (root / "data" / "visits.csv").write_bytes(content.encode())


def test_dates_that_cannot_be_read_lose_no_row(tmp_path: Path) -> None:
    """The cast was pushed into the reader, which skipped the record: of 6,000 rows one was left."""
    _file(tmp_path, "who,day,note\n" + "".join(f"{who},05/01/2024,x\n" for who in range(6000)) + "6000,2024-01-05,x\n")
    rows = rows_of(register(policy_for(tmp_path, "csv", visits=VISITS), quiet))
    assert len(rows) == 6001
    assert sorted(row[1] for row in rows if row[1] is not None) == [19727]


@pytest.mark.parametrize(
    ("record", "line"),
    [("7,2024-01-05,x\ry", 4), ('7,2024-01-05,"x', 4), ("7,2024-01-05", 4), ('7,2024-01-05,x"y"', 4)],
)
def test_a_malformed_record_is_refused_to_the_owner_by_file_and_line(tmp_path: Path, record: str, line: int) -> None:
    """A stray carriage return made 6,001 rows of 1,001; an open quotation mark swallowed everybody after it."""
    others = "".join(f"{who},2024-01-05,x\n" for who in range(1000))
    _file(tmp_path, f"who,day,note\n8,,\n9,,\n{record}\n{others}")
    with pytest.raises(BadSource, match=rf"tables.visits: the file 'visits.csv' .* in line {line}:") as caught:
        register(policy_for(tmp_path, "csv", visits=VISITS), quiet)
    assert "2024" not in str(caught.value)
    assert not list(tmp_path.glob("*.copy*")) + list(tmp_path.glob("*.build-*"))


def test_one_record_with_anything_inside_it_changes_nobody_elses_row(tmp_path: Path) -> None:
    """A quoted line end made opening fail."""
    others = "".join(f"{who},2024-01-05,x\n" for who in range(1000))
    copies = []
    for root, record in ((tmp_path / "without", ""), (tmp_path / "with", '7000,2024-01-05,"a\r\nb"",\rc\nd"\n')):
        root.mkdir()
        (root / "small.ledger.copy.salt").write_bytes(bytes(32))
        (root / "small.ledger.copy.salt").chmod(0o600)
        _file(root, f"who,day,note\n{record}{others}")
        copies.append(rows_of(register(policy_for(root, "csv", visits=VISITS), quiet)))
    mine = [row for row in copies[1] if row not in copies[0]]
    assert [row[1:] for row in mine] == [(19727, 'a\r\nb",\rc\nd')]
    assert sorted(copies[0] + mine, key=repr) == copies[1]
