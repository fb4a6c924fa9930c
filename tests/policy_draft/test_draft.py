"""A draft comes from names and types alone; with what only its owner knows, it is a policy."""

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from sfumato.accounting.event import Neighbours, Pure
from sfumato.accounting.filter import Filter
from sfumato.engines.sql.column import Kind
from sfumato.errors import BadParameter, BadPolicy, BadSource, Refusal, UnknownName
from sfumato.policy.policy import Bounds, ColumnType, Policy, UnitColumn
from sfumato.policy.reading import read_policy
from sfumato.policy_draft.accuracy import estimate_budget_use
from sfumato.policy_draft.draft import DraftOptions, make_draft
from sfumato.policy_draft.file import check_output, default_output, write_policy
from sfumato.policy_draft.infer_from_data import MIN_PEOPLE_PER_KEY, infer_from_data
from sfumato.policy_draft.interview import interview
from sfumato.policy_draft.literals import value_text
from sfumato.policy_draft.options import column_options, merge_options, rows_per_unit
from sfumato.policy_draft.schema import SchemaColumn, SchemaTable, SourceSchema, read_source_schema
from sfumato.policy_draft.smartnoise import read_smartnoise
from sfumato.policy_draft.writing import FILL_IN, check_draft, policy_text

_DAY = "2024-01-01T00:00:00..2024-01-02T00:00:00"
WHOLE = DraftOptions(units=("patient_id",), rows_per_unit={"": 20}, epsilon="3", delta="1e-6")


def _write(path: Path, rows: int = 3, first: int = 0) -> Path:
    numbers = list(range(first, first + rows))
    table = pa.table(
        {
            "patient_id": numbers,
            "age": pa.array(numbers, pa.int32()),
            "dept": [f"dept {number}" for number in numbers],
            "cost": [number / 7 for number in numbers],
            "fee": pa.array([Decimal(number) for number in numbers], pa.decimal128(10, 2)),
            "urgent": [number % 2 == 0 for number in numbers],
            "day": [date(2024, 1, 1 + number % 28) for number in numbers],
            "seen": [datetime(2024, 1, 1, number % 24) for number in numbers],
            "tags": [[number] for number in numbers],
        }
    )
    parquet.write_table(table, path)
    return path


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    return _write(tmp_path / "visits.parquet")


def _policy(wishes: DraftOptions, data: Path, tmp_path: Path) -> Policy:
    output = tmp_path / "policy.toml"
    output.unlink(missing_ok=True)
    write_policy(make_draft(read_source_schema(data), wishes), data, output)
    return read_policy(output)


def test_types_are_read_from_the_schema(visits: Path) -> None:
    [table] = read_source_schema(visits).tables
    assert {column.name: column.type for column in table.columns} == {
        "patient_id": ColumnType.INTEGER,
        "age": ColumnType.INTEGER,
        "dept": ColumnType.TEXT,
        "cost": ColumnType.DECIMAL,
        "fee": ColumnType.DECIMAL,
        "urgent": ColumnType.BOOLEAN,
        "day": ColumnType.DATE,
        "seen": ColumnType.TIMESTAMP,
        "tags": None,
    }
    assert table.column("FEE") == SchemaColumn("fee", ColumnType.DECIMAL, Kind.DECIMAL, Fraction(1, 100))


def test_no_row_moves_a_draft(tmp_path: Path) -> None:
    texts = []
    for name, rows, first in (("one", 3, 0), ("other", 500, 1000)):
        (tmp_path / name).mkdir()
        draft = make_draft(read_source_schema(_write(tmp_path / name / "visits.parquet", rows, first)), WHOLE)
        texts.append(policy_text(draft, "clinic", "visits.parquet"))
    assert texts[0] == texts[1]


def test_a_draft_with_everything_said_is_a_policy_that_says_it(visits: Path, tmp_path: Path) -> None:
    options = column_options(
        types=[],
        bounds=[
            "age=0:120",
            "visits.cost=-5:5000",
            "day=2024-01-01:2024-12-31",
            "seen=2024-01-01T00:00:00..2024-12-31T23:59:59",
        ],
        steps=["COST=0.01"],
        values=["dept=er, icu"],
    )
    policy = _policy(merge_options(options, WHOLE), visits, tmp_path)
    table = policy.table("visits")
    assert table is not None
    assert (policy.name, policy.budget.epsilon, policy.budget.delta) == ("policy", Fraction(3), Fraction(1, 10**6))
    assert (table.unit, table.rows_per_unit) == (UnitColumn("patient_id"), 20)
    columns = {column.name: column for column in table.columns}
    assert columns["age"].bounds == Bounds(0, 120)
    assert (columns["cost"].bounds, columns["cost"].step) == (Bounds(Fraction(-5), Fraction(5000)), Fraction(1, 100))
    assert columns["fee"].step == Fraction(1, 100)
    assert columns["day"].bounds == Bounds(date(2024, 1, 1), date(2024, 12, 31))
    assert columns["seen"].bounds == Bounds(datetime(2024, 1, 1), datetime(2024, 12, 31, 23, 59, 59))
    assert columns["dept"].values == ("er", "icu")
    assert "tags" not in columns
    assert policy.source.path == visits


def test_what_must_still_be_said_is_marked_and_becomes_a_policy_by_removing_the_mark(
    visits: Path, tmp_path: Path
) -> None:
    draft = make_draft(read_source_schema(visits), DraftOptions(units=("patient_id",)))
    assert draft.unknown() == ["tables.visits.rows_per_unit", "budget.epsilon", "budget.delta"]
    text = policy_text(draft, "clinic", str(visits))
    filled = re.sub(rf"(?m)^# (\w+ = .*{FILL_IN})", r"\1", text)
    (tmp_path / "before.toml").write_text(text, encoding="utf-8")
    (tmp_path / "after.toml").write_text(filled, encoding="utf-8")
    with pytest.raises(BadPolicy, match="is missing"):
        read_policy(tmp_path / "before.toml")
    assert read_policy(tmp_path / "after.toml").budget.epsilon == 1


def test_a_table_that_names_nobody_stays_out_until_its_owner_says_whom_it_protects(
    visits: Path, tmp_path: Path
) -> None:
    parquet.write_table(pa.table({"floor": [1], "wing": ["north"]}), tmp_path / "wings.parquet")
    (tmp_path / "away").mkdir()
    output = tmp_path / "away" / "policy.toml"
    data = tmp_path / "data"
    data.mkdir()
    for file in tmp_path.glob("*.parquet"):
        file.rename(data / file.name)
    write_policy(make_draft(read_source_schema(data), WHOLE), data, output)
    assert [table.name for table in read_policy(output).tables] == ["visits"]
    assert "# [tables.wings]" in output.read_text(encoding="utf-8")
    policy = _policy(merge_options(DraftOptions(public=("wings",)), WHOLE), data, tmp_path)
    assert [table.name for table in policy.tables if table.public] == ["wings"]


def test_each_row_may_be_a_person(visits: Path, tmp_path: Path) -> None:
    policy = _policy(DraftOptions(units=("rows",), epsilon="1", delta="0"), visits, tmp_path)
    assert policy.tables[0].rows_per_unit == 1


@pytest.mark.parametrize(
    ("wishes", "kind", "words"),
    [
        (DraftOptions(units=("patient",)), UnknownName, "Did you mean patient_id"),
        (DraftOptions(bounds={"agee": ("0", "1")}), UnknownName, "Did you mean age"),
        (DraftOptions(public=("visit",)), UnknownName, "Did you mean visits"),
        (DraftOptions(bounds={"age": ("0", "x")}), BadParameter, "whole number"),
        (DraftOptions(bounds={"age": ("0", "012")}), BadParameter, "whole number"),
        (DraftOptions(bounds={"day": ("2024-13-01", "2024-12-31")}), BadParameter, "a date"),
        (DraftOptions(types={"age": "integr"}), BadParameter, "Did you mean integer"),
        (DraftOptions(units=("patient_id",), bounds={"age": ("9", "1")}), BadPolicy, "reversed"),
        (DraftOptions(units=("patient_id",), epsilon="-1"), BadPolicy, "above zero"),
        (DraftOptions(units=("cost",)), BadPolicy, "identifies people"),
        (DraftOptions(epsilon="much"), BadParameter, "exact number"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_written(
    wishes: DraftOptions, kind: type[Refusal], words: str, visits: Path, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=words):
        write_policy(make_draft(read_source_schema(visits), wishes), visits, tmp_path / "policy.toml")
    assert not (tmp_path / "policy.toml").exists()


@given(st.text(max_size=30), st.lists(st.text(max_size=8), min_size=1, max_size=4, unique=True))
def test_no_name_or_key_breaks_out_of_its_place_in_the_file(name: str, keys: list[str]) -> None:
    column = SchemaColumn(name, ColumnType.TEXT, Kind.TEXT)
    known = SchemaColumn("patient_id", ColumnType.INTEGER, Kind.INTEGER)
    schema = SourceSchema("parquet", Path("visits.parquet"), (SchemaTable("visits", (known, column)),))
    with suppress(BadPolicy):  # a name or key that no policy may have
        draft = make_draft(schema, merge_options(DraftOptions(values={f"visits.{name}": tuple(keys)}), WHOLE))
        check_draft(draft, "clinic", "visits.parquet")  # reads the text back as a policy


@given(st.text(max_size=20), st.sampled_from(sorted(set(ColumnType) - {ColumnType.TEXT})))
def test_a_typed_value_reads_as_its_type_or_is_refused(typed: str, kind: ColumnType) -> None:
    try:
        text = value_text(typed, kind, "bounds")
    except BadParameter:
        return
    assert re.fullmatch(r"[-+\w.:]+", text, re.ASCII)


def test_options_name_a_column_and_a_value() -> None:
    with pytest.raises(BadParameter, match="--bounds age=0:120"):
        column_options([], ["age"], [], [])
    with pytest.raises(BadParameter, match="LOW:HIGH"):
        column_options([], ["age=3"], [], [])
    assert rows_per_unit(["20", "patients=1"]) == {"": 20, "patients": 1}
    for wrong in ("0", "-1", "x", "visits=", "1.5", "9" * 30):
        with pytest.raises(BadParameter, match="number of rows"):
            rows_per_unit([wrong])


# --- where data and policy lie ---


def test_csv_says_no_types_and_a_draft_takes_them_from_its_owner(tmp_path: Path) -> None:
    data = tmp_path / "visits.csv"
    data.write_text("patient_id,age,day,dept\n1,30,2024-01-01,er\n", encoding="utf-8")
    bare = {column.name: column for column in make_draft(read_source_schema(data), WHOLE).tables[0].columns}
    assert all(column.type is ColumnType.TEXT and column.untyped for column in bare.values())
    wishes = column_options(["patient_id=integer"], ["age=0:120", "day=2024-01-01:2024-12-31"], [], [])
    columns = {
        column.name: column.type for column in _policy(merge_options(wishes, WHOLE), data, tmp_path).tables[0].columns
    }
    assert columns == {
        "patient_id": ColumnType.INTEGER,
        "age": ColumnType.INTEGER,
        "day": ColumnType.DATE,
        "dept": ColumnType.TEXT,
    }


def test_a_duckdb_file_and_a_folder_of_parts_are_read_too(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "it's.duckdb")) as connection:
        connection.execute("CREATE TABLE visits (patient_id INTEGER, cost DECIMAL(8, 3))")
    schema = read_source_schema(tmp_path / "it's.duckdb")
    assert (schema.scheme, [table.name for table in schema.tables]) == ("duckdb", ["visits"])
    for year in (2023, 2024):
        (tmp_path / "visits" / f"year={year}").mkdir(parents=True)
        _write(tmp_path / "visits" / f"year={year}" / "part-0.parquet")
    [table] = read_source_schema(tmp_path / "visits").tables
    assert table.name == "visits"
    assert table.column("year") is not None


@pytest.mark.parametrize("name", ["missing.parquet", "notes.txt", "empty"])
def test_what_holds_no_table_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadSource):
        read_source_schema(tmp_path / name)


def test_a_policy_never_lies_among_the_data_or_over_another_file(visits: Path, tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="inside the data"):
        check_output(tmp_path, tmp_path / "policy.toml")
    with pytest.raises(BadParameter, match="never overwritten"):
        check_output(visits, visits)
    with pytest.raises(BadParameter, match="folder that does not exist"):
        check_output(visits, tmp_path / "missing" / "policy.toml")
    check_output(visits, tmp_path / "policy.toml")
    assert (default_output(visits), default_output(tmp_path)) == (Path("visits.toml"), Path(f"{tmp_path.name}.toml"))


# --- what only the owner knows ---


def _interview(data: Path, wishes: DraftOptions, answers: Sequence[str]) -> tuple[str, list[str], list[str]]:
    left, prompts, lines = list(answers), list[str](), list[str]()

    def ask(question: str) -> str:
        prompts.append(question)
        return left.pop(0)

    draft = interview(make_draft(read_source_schema(data), wishes), read_source_schema(data), ask, lines.append)
    assert left == []
    return policy_text(draft, "clinic", str(data)), prompts, lines


def test_an_interview_asks_for_what_is_unknown_until_it_can_be_read(visits: Path, tmp_path: Path) -> None:
    answers = ["nobody", "patient_id", "0", "20", "0:120", "er,icu", "0:5000", "0.01", "0:9", "", "", "-3", "3", "1e-6"]
    text, prompts, lines = _interview(visits, DraftOptions(), answers)
    (tmp_path / "policy.toml").write_text(text, encoding="utf-8")
    table = read_policy(tmp_path / "policy.toml").tables[0]
    assert (table.unit, table.rows_per_unit) == (UnitColumn("patient_id"), 20)
    assert {column.name for column in table.columns if column.bounds} == {"age", "cost", "fee"}
    assert [question.split(" ")[0] for question in prompts[4:9]] == ["age", "dept", "cost", "cost:", "fee"]
    assert any("about 20 tables of counts, each count ±399" in line for line in lines)


def test_an_interview_asks_nothing_that_was_said(visits: Path) -> None:
    columns = column_options(
        types=[],
        bounds=[*(f"{name}=0:9" for name in ("age", "cost", "fee")), "day=2024-01-01:2024-01-02", f"seen={_DAY}"],
        steps=["cost=1"],
        values=["dept=a"],
    )
    _, prompts, _ = _interview(visits, merge_options(columns, WHOLE), [])
    assert prompts == []


def test_a_table_that_names_nobody_is_asked_about(visits: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    visits.rename(data / "visits.parquet")
    parquet.write_table(pa.table({"wing": ["north"]}), data / "wings.parquet")
    text, prompts, lines = _interview(data, WHOLE, ["maybe", "y", "yes", "p", "public", *[""] * 6])
    assert prompts[:5] == ["Unit of wings (Enter leaves the table out)"] * 5
    assert "wings (wing)" in lines
    assert "public = true" in text


def test_an_offer_is_what_the_filter_would_let_through() -> None:
    bought = estimate_budget_use(Fraction(1), Fraction(1, 10**6), 3, Neighbours.ADD_REMOVE)
    budget, event = Filter(Fraction(1), Fraction(1, 10**6)), Pure(bought.epsilon, Neighbours.ADD_REMOVE)
    for _ in range(bought.tables):
        budget = budget.charge(event)
    assert not budget.accepts(event)
    assert bought.margin == pytest.approx(3 * 20 * 3, rel=0.01)  # ln 20 scales at 95 %


# --- what is taken from the data ---


def test_looking_rounds_outwards_leaves_out_rare_keys_and_marks_each_line(tmp_path: Path) -> None:
    data = tmp_path / "visits.parquet"
    count = 10 * MIN_PEOPLE_PER_KEY
    names = ["often"] * (count - 1) + ["once"]
    table = pa.table(
        {
            "patient_id": list(range(count)) + [0] * 3,
            "age": [*range(17, 17 + count), 17, 17, 17],
            "dept": [*names, "often", "often", "often"],
            "day": [date(2023, 5, 5)] * (count + 3),
        }
    )
    parquet.write_table(table, data)
    draft = infer_from_data(
        make_draft(read_source_schema(data), DraftOptions(units=("patient_id",), epsilon="1", delta="0")), data
    )
    write_policy(draft, data, tmp_path / "policy.toml")
    policy = read_policy(tmp_path / "policy.toml").tables[0]
    columns = {column.name: column for column in policy.columns}
    assert columns["age"].bounds == Bounds(0, 300)
    assert columns["dept"].values == ("often",)
    assert columns["day"].bounds == Bounds(date(2023, 1, 1), date(2023, 12, 31))
    assert policy.rows_per_unit == 1  # all but one in a hundred people keep every row
    lines = (tmp_path / "policy.toml").read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if "your risk" in line]) == 4


def test_looking_keeps_what_the_owner_said_and_finds_the_types_of_csv(tmp_path: Path) -> None:
    data = tmp_path / "visits.csv"
    rows = ["patient_id,age,cost,day,seen", "1,30,2.5,2024-01-01,2024-01-01 10:30:00", "2,55,1,2024-02-01,2024-01-02"]
    data.write_text("\n".join(rows) + "\n", encoding="utf-8")
    wishes = merge_options(DraftOptions(bounds={"age": ("0", "120")}), WHOLE)
    columns = {
        column.name: column
        for column in infer_from_data(make_draft(read_source_schema(data), wishes), data).tables[0].columns
    }
    assert (columns["age"].bounds, columns["age"].inferred) == (("0", "120"), False)
    assert (columns["cost"].type, columns["cost"].bounds) == (ColumnType.DECIMAL, ("1", "3"))
    assert (columns["day"].type, columns["day"].inferred) == (ColumnType.DATE, True)
    assert columns["seen"].type is ColumnType.TIMESTAMP


# --- SmartNoise ---

METADATA = """
"":
  MySchema:
    visits:
      max_ids: 1
      max_contributions: 12
      rows: 1000
      patient_id: {private_id: True, type: int}
      age: {type: int, lower: 0, upper: 120}
      cost: {type: float, lower: 0.0, upper: 5000.0}
      dept: {type: string, cardinality: 8}
"""


def test_smartnoise_metadata_becomes_a_policy(visits: Path, tmp_path: Path) -> None:
    (tmp_path / "meta.yaml").write_text(METADATA, encoding="utf-8")
    wishes = merge_options(
        DraftOptions(steps={"cost": "0.01"}, epsilon="1", delta="0"), read_smartnoise(tmp_path / "meta.yaml")
    )
    table = _policy(wishes, visits, tmp_path).tables[0]
    assert (table.unit, table.rows_per_unit) == (UnitColumn("patient_id"), 12)
    columns = {column.name: column for column in table.columns}
    assert columns["age"].bounds == Bounds(0, 120)
    assert columns["cost"].bounds == Bounds(Fraction(0), Fraction(5000))


def test_row_privacy_means_that_each_row_is_a_person(tmp_path: Path) -> None:
    (tmp_path / "meta.yaml").write_text('"":\n  s:\n    t: {row_privacy: True, age: {type: int}}\n', encoding="utf-8")
    assert read_smartnoise(tmp_path / "meta.yaml").units == ("t=rows",)


@pytest.mark.parametrize("text", ["", "just words", "[1, 2", "a: {b: 1}", "!!python/object/apply:os.getcwd []"])
def test_what_is_no_metadata_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "meta.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(BadParameter, match="is not SmartNoise metadata"):
        read_smartnoise(tmp_path / "meta.yaml")
