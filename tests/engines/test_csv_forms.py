"""CSV as it comes: delimiters, encodings, compression and marks that a policy names; each value is read by itself."""

import gzip
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import sfumato
from sfumato.engines.duckdb.csv_records import Malformed, header, record_batches
from sfumato.engines.duckdb.registration import register
from sfumato.errors import BadPolicy, BadSource
from sfumato.policy.policy import PLAIN, CsvFormat
from sfumato.policy.reading import read_policy
from sfumato.policy_draft.csv_form import infer_csv_form
from sfumato.policy_draft.draft import DraftOptions, make_draft
from sfumato.policy_draft.schema import read_source_schema
from sfumato.policy_draft.writing import notices, policy_text

ROWS = "id{0}größe{0}name\r\n1{0}1{1}5{0}Zoë\r\n2{0}{0}NA\r\n"


def _zstd(content: bytes) -> bytes:
    return pa.compress(content, "zstd", asbytes=True)  # type: ignore[no-any-return]


def _read(path: Path, form: CsvFormat) -> list[dict[str, Any]]:
    wanted = dict.fromkeys(header(path, form))
    return [row for batch, _ in record_batches(path, wanted, form) for row in batch.to_pylist()]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "windows-1252"])
def test_every_form_that_a_policy_can_name_is_found_and_read(delimiter: str, encoding: str, tmp_path: Path) -> None:
    plain = ROWS.format(delimiter, ".").encode(encoding)
    marked = [plain, b"\xef\xbb\xbf" + plain] if encoding == "utf-8" else [plain]
    marked.append(f"sep={delimiter}\r\n".encode() + plain)
    for at, content in enumerate(marked):
        for name, packed in (("a.csv", content), ("a.csv.gz", gzip.compress(content)), ("a.tsv.zst", _zstd(content))):
            path = tmp_path / f"{at}{name}"
            path.write_bytes(packed)
            found = infer_csv_form([path], {"null": ["NA"]})
            assert found.delimiter == delimiter
            assert (found.encoding == "utf-8") is (encoding == "utf-8")
            assert _read(path, found) == [
                {"id": "1", "größe": "1.5", "name": "Zoë"},
                {"id": "2", "größe": None, "name": None},
            ]


def test_a_byte_without_a_letter_takes_its_own_value_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"id;name\n1;a\x81b\n2;\xe9\n")
    assert _read(path, CsvFormat(";", "windows-1252")) == [{"id": "1", "name": None}, {"id": "2", "name": "é"}]


@given(st.lists(st.binary(max_size=6).map(lambda one: one.translate(None, b'";\r\n')), min_size=1, max_size=5))
def test_no_record_changes_how_another_is_read(values: list[bytes]) -> None:
    """One-byte encodings: each record alone reads as it does among the others, whatever its bytes are."""
    lines = [b"%d;%b\n" % pair for pair in enumerate(values)]
    with TemporaryDirectory() as folder:
        assert _records(folder, lines) == [row for line in lines for row in _records(folder, [line])]


def _records(folder: str, lines: list[bytes]) -> list[dict[str, Any]]:
    path = Path(folder) / "one.csv"
    path.write_bytes(b"id;v\n" + b"".join(lines))
    return _read(path, CsvFormat(";", "windows-1252"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (b" \r\n\n", "it is empty"),
        (b"\xff\xfei\x00d\x00", "UTF-16"),
        (b"PK\x03\x04rest", "Excel workbook"),
        (b"PAR1rest", "is a Parquet file"),
        (b"\x1f\x8b\x08rest", "compressed by gzip"),
        (b"sep=;\nid,age\n", "another delimiter"),
        ("größe,id\n1,2\n".encode("latin-1"), "not UTF-8"),
    ],
)
def test_what_is_something_else_is_named_as_such(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(Malformed) as caught:
        header(path)
    assert words in caught.value.why


# --- the policy says how values are written ---


def _copy(tmp_path: Path, content: bytes, columns: dict[str, Any], csv: dict[str, Any]) -> list[tuple[Any, ...]]:
    (tmp_path / "visits.csv").write_bytes(content)
    policy = read_policy(
        {
            "source": f"csv:{tmp_path / 'visits.csv'}",
            "ledger": f"sqlite:{tmp_path / 'a.ledger'}",
            "csv": csv,
            "budget": {"epsilon": 1, "delta": 0},
            "tables": {"visits": {"unit": "who", "rows_per_unit": 9, "columns": {"who": {"type": "text"}, **columns}}},
        }
    )
    registered = register(policy, lambda _phase, _table: None)
    with duckdb.connect(str(registered.path), read_only=True) as connection:
        names = ", ".join(columns)
        return connection.execute(f"SELECT {names} FROM visits ORDER BY ALL NULLS LAST").fetchall()  # noqa: S608


def test_dates_are_read_by_their_format_and_others_are_absent(tmp_path: Path) -> None:
    days = {"day": {"type": "date", "format": "%d/%m/%Y", "bounds": [date(2024, 1, 1), date(2024, 12, 31)]}}
    content = b"who,day\na,31/12/2024\nb,2024-12-31\nc,02/01/2024\nd,31/02/2024\ne,\nf,01/05/1999\n"
    first = (date(2024, 1, 1) - date(1970, 1, 1)).days
    assert _copy(tmp_path, content, days, {}) == [(first - 1,), (first + 1,), (first + 365,), (None,), (None,), (None,)]


def test_a_format_for_what_is_no_text_is_refused_and_text_in_parquet_is_read(tmp_path: Path) -> None:
    days = pa.table({"who": [1, 2], "day": [date(2024, 1, 1)] * 2, "text": ["31/12/2024", "x"]})
    parquet.write_table(days, tmp_path / "visits.parquet")
    form = {"type": "date", "format": "%d/%m/%Y", "bounds": [date(2024, 12, 1), date(2024, 12, 31)]}
    for name in ("text", "day"):
        (tmp_path / name).mkdir()
        person = {"unit": "who", "rows_per_unit": 1, "columns": {"who": {"type": "integer"}, name: form}}
        opening = (tmp_path / name, f"parquet:{tmp_path / 'visits.parquet'}")
        if name == "day":
            with pytest.raises(BadSource, match="format is written, and the source stores dates"):
                _opened(*opening, visits=person)
        else:
            with _opened(*opening, visits=person) as database:
                assert database.ask("SELECT COUNT(text) AS n FROM visits", epsilon="0.5").columns == ("n",)


def test_times_and_decimal_commas_are_read_as_the_policy_says(tmp_path: Path) -> None:
    columns = {
        "cost": {"type": "decimal", "bounds": [0, 100], "step": 0.01},
        "seen": {"type": "timestamp", "format": "%d.%m.%Y %H:%M"},
    }
    content = b"who;cost;seen\na;1,5;02.01.1970 00:01\nb;1.5;1970-01-02 00:01:00\nc;7;\n"
    day = 86_400_000_000
    assert _copy(tmp_path, content, columns, {"delimiter": ";", "decimal": ","}) == [
        (150, day + 60_000_000),
        (700, None),
        (None, None),
    ]


def test_rows_whose_person_is_null_belong_to_nobody(tmp_path: Path) -> None:
    age = {"age": {"type": "integer", "bounds": [0, 120]}}
    content = b'who,age\nNA,3\nNA,4\n"NA",5\na,NA\n'
    assert _copy(tmp_path, content, age, {"null": ["NA"]}) == [(5,), (None,)]  # in quotation marks it is a name


@pytest.mark.parametrize(
    ("csv", "words"),
    [
        ({"delimiter": "tab"}, "Did you mean"),
        ({"delimiter": ";;"}, "one of"),
        ({"encoding": "utf-16"}, "utf-8, latin-1, windows-1252"),
        ({"encoding": "cp1252"}, "windows-1252"),
        ({"decimal": ","}, "so is the delimiter"),
        ({"null": ["NA", ""]}, "An empty field|an empty field"),
        ({"quote": "'"}, "is not a key"),
    ],
)
def test_a_form_that_nobody_can_read_is_refused(csv: dict[str, Any], words: str) -> None:
    policy = {"source": "csv:a.csv", "budget": {"epsilon": 1, "delta": 0}, "tables": {"a": {"unit": "rows"}}}
    with pytest.raises(BadPolicy, match=words):
        read_policy({**policy, "csv": csv})
    with pytest.raises(BadPolicy, match="there are none"):
        read_policy({**policy, "source": "parquet:a", "csv": {"delimiter": ";"}})


@pytest.mark.parametrize(
    "words", ["%d/%m", "%d/%m/%Y%", "%Y-%m-%d %H", "%x", "%Y%Y%m%d", "%d/%m/%Y'", "", "%Y-%m-%d\n"]
)
def test_a_format_names_a_whole_day_and_nothing_else(words: str) -> None:
    columns = {"day": {"type": "date", "format": words}}
    with pytest.raises(BadPolicy, match="format"):
        read_policy(
            {
                "source": "csv:a.csv",
                "budget": {"epsilon": 1, "delta": 0},
                "tables": {"a": {"unit": "rows", "columns": columns}},
            }
        )


# --- sources ---


def _opened(tmp_path: Path, source: str, **tables: dict[str, Any]) -> sfumato.Database:
    return sfumato.open(
        {
            "source": source,
            "ledger": f"sqlite:{tmp_path / 'a.ledger'}",
            "budget": {"epsilon": 1, "delta": 0},
            "tables": tables,
        }
    )


def test_a_folder_may_hold_both_kinds_and_a_table_is_of_one(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "visits.csv").write_text("who,dept\n1,er\n", encoding="utf-8")
    parquet.write_table(pa.table({"dept": ["er"], "beds": [7]}), data / "depts.parquet")
    seen = read_source_schema(data)
    assert (seen.scheme, [table.name for table in seen.tables]) == ("files", ["depts", "visits"])
    person = {"unit": "who", "rows_per_unit": 1, "columns": {"who": {"type": "integer"}}}
    with _opened(tmp_path, f"files:{data}", visits=person, depts={"public": True}) as database:
        assert database.ask("SELECT beds FROM depts").rows() == [{"beds": 7}]
        assert database.ask("SELECT COUNT(*) AS n FROM visits", epsilon="0.5").columns == ("n",)
    (data / "mixed").mkdir()
    (data / "mixed" / "a.csv").write_text("who\n1\n", encoding="utf-8")
    parquet.write_table(pa.table({"who": [1]}), data / "mixed" / "b.parquet")
    (tmp_path / "other").mkdir()
    with pytest.raises(BadSource, match="has Parquet and CSV files"):
        _opened(tmp_path / "other", f"files:{data}", mixed={"public": True})


def test_tables_of_other_schemas_are_found_by_name_or_by_from(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    with duckdb.connect(str(path)) as connection:
        for schema, rows in (("main", 1), ("north", 2), ("south", 3)):
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            connection.execute(f"CREATE TABLE {schema}.visits AS SELECT range AS id FROM range({rows})")  # noqa: S608
        connection.execute("CREATE TABLE north.wards AS SELECT 7 AS beds")
    seen = {table.name: table.stored for table in read_source_schema(path).tables}
    assert seen == {"visits": None, "north_visits": "north.visits", "south_visits": "south.visits", "wards": None}
    assert 'from = "north.visits"' in policy_text(
        make_draft(read_source_schema(path), DraftOptions(units=("rows",))), "x", "a.duckdb"
    )
    public: dict[str, dict[str, Any]] = {
        name: {"public": True, "from": of} if of else {"public": True} for name, of in seen.items()
    }
    with _opened(tmp_path, f"duckdb:{path}", **public) as database:
        counts = {name: database.ask(f"SELECT COUNT(*) AS n FROM {name}").rows()[0]["n"] for name in seen}  # noqa: S608
    assert counts == {"visits": 1, "north_visits": 2, "south_visits": 3, "wards": 1}
    with duckdb.connect(str(path)) as connection:
        connection.execute("DROP TABLE main.visits")
    with pytest.raises(BadSource, match="in different schemas"):
        _opened(tmp_path, f"duckdb:{path}", visits={"public": True})


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.parquet", b"", "is empty"),
        ("a.parquet", b"nothing", "not a Parquet file"),
        ("a.parquet", b"PAR1" + b"x" * 40 + b"PAR1", "not a Parquet file"),
        ("a.csv", b"", "it is empty"),
        ("a.csv.gz", b"nothing", "it is damaged"),
        ("a.csv.zst", b"nothing", "it is damaged"),
        ("a.duckdb", b"", "not a DuckDB database"),
        ("a.duckdb", b"nothing" * 2000, "not a DuckDB database"),
        ("a.xlsx", b"PK\x03\x04", "is a workbook"),
    ],
)
def test_a_damaged_or_empty_file_is_named_as_such(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(BadSource, match=words):
        read_source_schema(path)
    scheme = {"gz": "csv", "zst": "csv", "xlsx": "csv"}.get(path.suffix[1:], path.suffix[1:])
    with pytest.raises(BadSource, match=words.replace("is a workbook", "Excel workbook")):
        _opened(tmp_path, f"{scheme}:{path}", a={"public": True})


def test_a_draft_says_how_its_files_are_written(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_bytes("id;größe\n1;2,5\n".encode("cp1252"))
    draft = make_draft(read_source_schema(path, {"decimal": ","}), DraftOptions(units=("rows",)))
    text, said = policy_text(draft, "x", "visits.csv"), "\n".join(notices(draft))
    assert '[csv]\ndelimiter = ";"\nencoding = "windows-1252"\ndecimal = ","\n' in text
    assert "not UTF-8" in said
    assert draft.csv != PLAIN
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.csv").write_bytes(b"id;x\n")
    (other / "b.csv").write_bytes(b"id,x\n")
    with pytest.raises(BadSource, match="written differently"):
        read_source_schema(other)
