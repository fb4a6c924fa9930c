"""A schema of several tables: what its names propose is said, what its owner says is kept, and nothing is ignored."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from sfumato.engines.sql.column import Kind
from sfumato.errors import BadParameter, BadPolicy, Refusal, UnknownName
from sfumato.policy.policy import ColumnType, UnitPath
from sfumato.policy.reading import read_policy
from sfumato.policy_draft.command import InterviewAborted, Terminal, draft_policy
from sfumato.policy_draft.draft import Draft, DraftOptions, make_draft
from sfumato.policy_draft.interview import interview
from sfumato.policy_draft.naming import links, own_key, personal
from sfumato.policy_draft.options import column_options, rows_per_unit
from sfumato.policy_draft.schema import SchemaColumn, SchemaTable, SourceSchema, read_source_schema
from sfumato.policy_draft.unused_options import refuse_unused_options
from sfumato.policy_draft.writing import check_draft, notices, policy_text

_KINDS = {
    "i": (ColumnType.INTEGER, Kind.INTEGER),
    "d": (ColumnType.DECIMAL, Kind.FLOATING),
    "t": (ColumnType.TEXT, Kind.TEXT),
    "?": (ColumnType.TEXT, Kind.RAW),
}


def _seen(scheme: str = "parquet", **tables: str) -> SourceSchema:
    """Return a source without rows: name=letter, the letter for its type."""
    made = []
    for name, columns in tables.items():
        pairs = [column.partition(":") for column in columns.split()]
        made.append(SchemaTable(name, tuple(SchemaColumn(column, *_KINDS[kind or "i"]) for column, _, kind in pairs)))
    return SourceSchema(scheme, Path("data"), tuple(made))


SHOP = _seen(
    customer="c_custkey c_name:t c_nationkey c_comment:t",
    orders="o_orderkey o_custkey o_totalprice:d o_clerk:t",
    lineitem="l_orderkey l_partkey l_linenumber l_price:d",
    part="p_partkey p_name:t",
    nation="n_nationkey n_name:t",
    supplier="s_suppkey s_nationkey",
)
CLINIC = _seen(patients="id born name:t", visits="id patient_id cost:d dept:t", notes="id visit_id body:t")
PUBLIC = ("part", "nation", "supplier")


def _units(draft: Draft) -> dict[str, str | None]:
    return {table.name: table.unit for table in draft.tables}


def test_one_unit_and_the_names_of_foreign_keys_propose_the_others() -> None:
    draft = make_draft(SHOP, DraftOptions(units=("customer.c_custkey",)))
    assert _units(draft) == {
        "customer": "c_custkey",
        "orders": "o_custkey",
        "lineitem": "orders.o_custkey via l_orderkey = o_orderkey",
        "part": None,
        "nation": None,
        "supplier": None,  # it shares the nation with customers, and is nobody's
    }
    assert [table.name for table in draft.tables if table.proposed] == ["orders", "lineitem"]
    clinic = make_draft(CLINIC, DraftOptions(units=("patients.id",)))
    assert _units(clinic) == {
        "patients": "id",
        "visits": "patient_id",
        "notes": "visits.patient_id via visit_id = id",
    }


def test_units_are_said_of_each_table_and_paths_are_written_as_a_policy_reads_them(tmp_path: Path) -> None:
    said = ("customer.c_custkey", "orders=o_custkey", "lineitem=orders.o_custkey via l_orderkey = o_orderkey")
    rows = rows_per_unit(["orders=20", "lineitem=80"])
    draft = make_draft(SHOP, DraftOptions(units=said, rows_per_unit=rows, public=PUBLIC, epsilon="1", delta="0"))
    assert not any(table.proposed for table in draft.tables)
    (tmp_path / "shop.toml").write_text(policy_text(draft, "shop", "data"), encoding="utf-8")
    policy = read_policy(tmp_path / "shop.toml")
    tables = {table.name: table for table in policy.tables}
    assert tables["lineitem"].unit == UnitPath("orders", "o_custkey", "l_orderkey", "o_orderkey")
    assert [tables[name].rows_per_unit for name in ("customer", "orders", "lineitem")] == [1, 20, 80]


def test_what_is_proposed_left_out_or_assumed_is_said_in_the_file_and_at_the_terminal() -> None:
    wishes = DraftOptions(units=("customer.c_custkey",), bounds={"l_price": ("0", "1")}, rows_per_unit={"": 9})
    draft = make_draft(SHOP, wishes)
    text, said = policy_text(draft, "shop", "data"), "\n".join(notices(draft))
    assert 'unit = "o_custkey"    # rows with the same value belong to one person; PROPOSED by names alone' in text
    assert "in lineitem the person is orders.o_custkey via l_orderkey = o_orderkey" in said
    assert "orders.o_orderkey is a key (unique = true)" in said
    assert 'o_orderkey = { type = "integer", unique = true }    # unique is PROPOSED by its name' in text
    assert '# c_name = { type = "text" }    # LEFT OUT: it looks like a name' in text
    assert "Left out of customer, because of what they look like: c_name (a name), c_comment (free text)" in said
    assert "The default step of lineitem.l_price is 0.001." in said
    assert "bounds = [0, 1], step = 0.001 }" in text
    assert "Not in the policy, because their unit is not given: part, nation, supplier." in said


def test_a_column_that_looks_like_a_name_is_kept_when_its_owner_says_so() -> None:
    wishes = DraftOptions(units=("customer.c_custkey",), types={"c_name": "text"}, values={"c_comment": ("a", "b")})
    [customer, *_] = make_draft(SHOP, wishes).tables
    assert [column.name for column in customer.columns if column.personal is not None] == []


@pytest.mark.parametrize(
    "name", ["name", "LastName", "c_address", "e_mail", "phone_number", "doctors_notes", "ZIP", "Straße", "Bemerkung"]
)
def test_names_addresses_and_free_text_are_known_by_their_names(name: str) -> None:
    assert personal(name) is not None


@pytest.mark.parametrize("name", ["dept", "cost", "renamed", "unnamed", "ship", "context", "city", "state"])
def test_other_columns_stay(name: str) -> None:
    assert personal(name) is None


def test_a_key_of_another_table_is_no_key_of_this_one() -> None:
    tables = {table.name: table for table in (*SHOP.tables, *CLINIC.tables)}
    assert {name: own_key(table.names, tables) for name, table in tables.items()} == {
        "customer": "c_custkey",
        "orders": "o_orderkey",
        "lineitem": None,  # its first column is the key of orders: one row each would lose the others
        "part": "p_partkey",
        "nation": "n_nationkey",
        "supplier": "s_suppkey",
        "patients": "id",
        "visits": "id",
        "notes": "id",
    }
    others = _seen(patient_visits="patient_id day", order_lines="order_id", partsupp="ps_partkey ps_suppkey", part="id")
    assert [own_key(table.names, others.names) for table in others.tables] == [None, None, None, "id"]
    assert not links(tables["visits"].names, "id", tables["patients"].names, "id")


def test_a_primary_key_of_the_source_is_a_key_whatever_its_name(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute("CREATE TABLE stays (begun DATE, chart INTEGER PRIMARY KEY, who INTEGER)")
        connection.execute("CREATE TABLE beds (bed INTEGER, night DATE, PRIMARY KEY (bed, night))")
    keys = {table.name: own_key(table.names) for table in read_source_schema(tmp_path / "a.duckdb").tables}
    assert keys == {"stays": "chart", "beds": None}


def test_a_name_that_every_table_has_names_nobody_by_itself() -> None:
    with pytest.raises(BadParameter, match=r"several tables: patients, visits, notes.*--unit patients.id"):
        make_draft(CLINIC, DraftOptions(units=("id",)))


def test_where_names_propose_several_people_nobody_is_chosen() -> None:
    schema = _seen(patients="id born", transfers="id patient_id patientid bed")
    draft = make_draft(schema, DraftOptions(units=("patients.id",)))
    assert (draft.tables[1].unit, draft.tables[1].choices) == (None, ("patient_id", "patientid"))
    assert "these could be meant: patient_id; patientid" in policy_text(draft, "x", "data").replace("\n# ", " ")


def test_keys_are_those_of_a_public_table() -> None:
    schema = _seen(flights="tailnum carrier:t", airlines="carrier:t name:t")
    wishes = DraftOptions(units=("tailnum",), values={"flights.carrier": ("airlines.carrier",)}, rows_per_unit={"": 2})
    draft = make_draft(schema, replace(wishes, public=("airlines",), epsilon="1", delta="0"))
    assert 'carrier = { type = "text", values = "airlines.carrier" }' in policy_text(draft, "x", "data")
    check_draft(draft, "x", "data")
    with pytest.raises(BadParameter, match="add --public airlines"):
        make_draft(schema, wishes)


def test_csv_gives_one_person_one_type_in_all_tables() -> None:
    schema = _seen("csv", patients="id:? born:?", visits="id:? patient_id:?", notes="visit_id:? body:?")
    draft = make_draft(
        schema, DraftOptions(units=("patients.id",), types={"visits.id": "integer", "patients.id": "integer"})
    )
    types = {
        f"{table.name}.{column.name}": column.type
        for table in draft.tables
        for column in table.columns
        if "id" in column.name
    }
    assert set(types.values()) == {ColumnType.INTEGER}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bounds": ["part.p_partkey=0:9"]}, "part is public"),
        ({"bounds": ["c_custkey=0:9"]}, "names the person"),
        ({"bounds": ["o_clerk=0:9"]}, "of type text, and bounds would have no effect"),
        ({"steps": ["o_orderkey=0.01"]}, "only decimals have a step"),
        ({"types": ["p_name=text"]}, "part is public"),
        ({"values": ["n_name=a,b"]}, "nation is public"),
    ],
)
def test_an_option_of_a_column_that_has_no_effect_is_refused(options: dict[str, list[str]], words: str) -> None:
    said = column_options(*(options.get(name, []) for name in ("types", "bounds", "steps", "values")))
    said = replace(said, units=("customer.c_custkey",), public=PUBLIC)
    with pytest.raises(BadParameter, match=words):
        refuse_unused_options(make_draft(SHOP, said), said)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (DraftOptions(units=("customer.c_custkey",), rows_per_unit={"part": 2}, public=PUBLIC), "no limit per person"),
        (DraftOptions(units=("rows",), rows_per_unit={"": 2}, public=PUBLIC), "each row is a separate person"),
        (DraftOptions(units=("customer=rows",), rows_per_unit={"customer": 2}), "each row is a separate person"),
        (DraftOptions(units=("part.p_partkey",), public=PUBLIC), "also named by --public"),
        (DraftOptions(units=("p_partkey",), public=PUBLIC), "is public"),
        (DraftOptions(units=("orders.o_custkey", "orders=rows")), "given twice"),
        (DraftOptions(unique=("p_partkey",), public=PUBLIC), "part is public"),
    ],
)
def test_an_option_of_a_table_that_has_no_effect_is_refused(said: DraftOptions, words: str) -> None:
    with pytest.raises(BadParameter, match=words):
        refuse_unused_options(make_draft(SHOP, said), said)


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        ("order.o_custkey", "Did you mean"),
        ("orders.o_cust", "Did you mean o_custkey"),
        ("order=o_custkey", "Did you mean orders"),
        ("orders.o_custkey via l_orderkey = o_orderkey", "Write the table first"),
    ],
)
def test_a_unit_that_names_nothing_is_refused(unit: str, words: str) -> None:
    with pytest.raises((UnknownName, BadParameter), match=words):
        make_draft(SHOP, DraftOptions(units=(unit,)))


def test_how_many_rows_count_is_the_owners_word_against_a_proposed_key() -> None:
    [customer, *_] = make_draft(SHOP, DraftOptions(units=("c_custkey",), rows_per_unit={"customer": 3})).tables
    assert (customer.one_row, customer.rows_per_unit) == (False, 3)
    [customer, *_] = make_draft(SHOP, DraftOptions(units=("c_custkey",), rows_per_unit={"": 3})).tables
    assert (customer.one_row, customer.rows_per_unit) == (True, None)
    alone = _seen(people="id age")
    for rows, one_row in ((1, True), (3, False)):
        options = DraftOptions(units=("id",), rows_per_unit={"": rows})
        draft = make_draft(alone, options)
        refuse_unused_options(draft, options)  # nobody else would take it, so it is meant
        assert (draft.tables[0].one_row, draft.tables[0].rows_per_unit) == (one_row, rows)


def test_a_default_step_fits_the_bounds() -> None:
    for ends in (("0", "5000"), ("-0.5", "0.5"), ("0", "1e-3"), ("0.125", "9")):
        draft = make_draft(SHOP, DraftOptions(units=("orders.o_custkey",), bounds={"o_totalprice": ends}))
        step = draft.tables[1].columns[2].step
        assert step is not None
        assert all((Fraction(end) / Fraction(step)).denominator == 1 for end in ends)


def test_the_form_of_dates_is_said_and_checked_at_once() -> None:
    schema = _seen("csv", visits="patient_id:? day:? note_day:?")
    options = column_options(["day=date"], [], [], [], ["day=%d/%m/%Y"])
    draft = make_draft(schema, replace(options, units=("patient_id",)))
    assert 'day = { type = "date", format = "%d/%m/%Y" }' in policy_text(draft, "x", "data")
    with pytest.raises(BadPolicy, match="year, month and day"):
        make_draft(schema, column_options(["day=date"], [], [], [], ["day=%d/%m"]))
    with pytest.raises(BadParameter, match="--type note_day=date"):
        make_draft(schema, column_options([], [], [], [], ["note_day=%d/%m/%Y"]))
    budget = DraftOptions(units=("patient_id",), rows_per_unit={"": 1}, epsilon="1", delta="0")
    asked, _, _ = _interview(schema, budget, ["date", "%d/%m", "%d.%m.%Y", ""])
    assert asked.tables[0].columns[1].format == '"%d.%m.%Y"'


def test_a_workbook_among_the_files_is_said_to_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "visits.csv").write_text("patient_id\n1\n", encoding="utf-8")
    (tmp_path / "data" / "more.xlsx").write_bytes(b"PK")
    lines: list[str] = []
    draft_policy(
        tmp_path / "data", DraftOptions(), None, False, tmp_path / "a.toml", Terminal(None, lines.append, lines.append)
    )
    assert any("Not read: more.xlsx" in line for line in lines)


# --- at a terminal ---


def _interview(
    schema: SourceSchema, wishes: DraftOptions, answers: Sequence[str]
) -> tuple[Draft, list[str], list[str]]:
    left, prompts, lines = list(answers), list[str](), list[str]()

    def ask(question: str) -> str:
        prompts.append(question)
        return left.pop(0)

    draft = interview(make_draft(schema, wishes), schema, ask, lines.append)
    assert left == []
    return draft, prompts, lines


def test_an_interview_asks_who_is_protected_first_and_offers_what_names_propose() -> None:
    budget = DraftOptions(epsilon="1", delta="0")
    who = ["customers.id", "id", "patients.id", "", "visits.nobody via visit_id = id", ""]
    draft, prompts, lines = _interview(CLINIC, budget, [*who, *[""] * 5])
    assert prompts[0].startswith("Column (")
    assert prompts[3:6] == [
        "Unit of visits (Enter: patient_id)",
        "Unit of notes (Enter: visits.patient_id via visit_id = id)",
        "Unit of notes (Enter: visits.patient_id via visit_id = id)",
    ]
    assert _units(draft)["notes"] == "visits.patient_id via visit_id = id"
    assert not any(table.proposed for table in draft.tables)  # whoever presses Enter has said it
    assert any("does not lead to a privacy unit" in line for line in lines)
    assert any("Left out, because they look like names, addresses or free text: name" in line for line in lines)


def test_a_table_that_others_lead_to_is_asked_about_before_them() -> None:
    draft, prompts, _ = _interview(SHOP, DraftOptions(epsilon="1", delta="0"), ["c_custkey", "public", *[""] * 5])
    assert [question.split()[2] for question in prompts[1:6]] == ["orders", "lineitem", "part", "nation", "supplier"]
    assert _units(draft)["lineitem"] is None  # nobody is named in a public table


def test_a_wrong_answer_is_asked_again_at_once() -> None:
    wishes = DraftOptions(units=("patients.id", "visits.patient_id", "notes=rows"))
    wrong = ["9:1", "x", "1900:2030"]
    rows = ["0", "5"]
    cost = ["0:0.5", "0.3", "0.1"]  # a step that does not divide the bounds
    keys = ["er,er", "er,icu"]
    draft, _, lines = _interview(CLINIC, wishes, [*wrong, *rows, *cost, *keys, "", "", "-1", "1", "2", "1e-6"])
    check_draft(draft, "x", "data")
    refused = [line for line in lines if line.startswith("  ") and "Left out" not in line and "tables of" not in line]
    assert len(refused) == 7
    assert (draft.epsilon, draft.delta) == ("1", "1e-6")


def test_whoever_leaves_keeps_what_they_answered(tmp_path: Path) -> None:
    data = tmp_path / "visits.csv"
    data.write_text("patient_id,age\n1,30\n", encoding="utf-8")
    answers, lines = ["patient_id", "20"], list[str]()

    def ask(_question: str) -> str:
        if not answers:
            raise InterviewAborted
        return answers.pop(0)

    output = tmp_path / "visits.toml"
    draft_policy(data, DraftOptions(), None, False, output, Terminal(ask, lines.append, lines.append))
    assert "rows_per_unit = 20" in output.read_text(encoding="utf-8")
    assert any("Stopped" in line for line in lines)
    with pytest.raises(InterviewAborted):
        draft_policy(data, DraftOptions(), None, False, tmp_path / "b.toml", Terminal(ask, lines.append, lines.append))
    assert not (tmp_path / "b.toml").exists()


def test_looking_where_everything_is_known_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "visits.csv"
    data.write_text("patient_id,age\n1,30\n", encoding="utf-8")
    options = replace(column_options([], ["age=0:120"], [], []), units=("patient_id",), rows_per_unit={"": 1})
    with pytest.raises(Refusal, match="--look has no effect"):
        draft_policy(data, options, None, True, tmp_path / "a.toml", Terminal(None, print, print))


def test_the_types_of_a_public_csv_are_read_from_it_and_written_down(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "visits.csv").write_text("patient_id,dept\n1,7\n", encoding="utf-8")
    (tmp_path / "data" / "depts.csv").write_text("dept,opened,beds\n7,2020-01-01,2.5\n", encoding="utf-8")
    options = DraftOptions(units=("patient_id",), rows_per_unit={"": 1}, public=("depts",), epsilon="1", delta="0")
    draft_policy(tmp_path / "data", options, None, False, tmp_path / "a.toml", Terminal(None, print, print))
    table = read_policy(tmp_path / "a.toml").table("depts")
    assert table is not None
    assert [column.type for column in table.columns] == [ColumnType.INTEGER, ColumnType.DATE, ColumnType.DECIMAL]
