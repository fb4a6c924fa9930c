"""CSV has no types: `init --types` writes what every value reads as, `check` tells what reads otherwise."""

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import sfumato
from sfumato.cli import main
from sfumato.engines.duckdb.column import number_pattern, written_as
from sfumato.engines.duckdb.column import stored as as_stored
from sfumato.engines.duckdb.connection import closed_connection, execute
from sfumato.engines.engine import Limits
from sfumato.engines.opening import inspected
from sfumato.engines.sql.builder import select, subquery
from sfumato.errors import BadPolicy, BadSource
from sfumato.policy.policy import Bounds, Column, ColumnType, CsvFormat
from sfumato.policy.reading import read_policy

OPTIONS = ["--unit", "rows", "--epsilon", "1", "--delta", "0"]


def _draft(folder: Path, text: str, *options: str) -> tuple[dict[str, Any], str, CsvFormat]:
    """Return the columns of the policy that init --types drafts for a file, what it says, and the form."""
    (folder / "visits.csv").write_text(text, encoding="utf-8")
    output = folder / "visits.toml"
    output.unlink(missing_ok=True)
    shown = CliRunner().invoke(
        main, ["init", str(folder / "visits.csv"), "--types", *OPTIONS, *options, "-o", str(output)]
    )
    assert shown.exit_code == 0, shown.output
    policy = read_policy(output)
    columns = {column.name: column for column in policy.tables[0].columns}
    return columns, shown.output, policy.csv


@pytest.mark.parametrize(
    ("values", "type", "form"),
    [
        (["1", "-2", "30"], "integer", CsvFormat()),
        (["1.5e3", "2.0", "NA"], "integer", CsvFormat(null=("NA",))),
        (["1", "N/A", "-", "null"], "integer", CsvFormat(null=("-", "N/A", "null"))),
        (["1.5", "2"], "decimal", CsvFormat()),
        (["1.55e1", "2"], "decimal", CsvFormat()),
        (['"1,234.5"', "12"], "decimal", CsvFormat(thousands=",")),
        (['"1,234,567"', '"12,000"'], "integer", CsvFormat(thousands=",")),
        (["1'234", "5"], "integer", CsvFormat(thousands="'")),
        (["1 234", "5"], "integer", CsvFormat(thousands=" ")),
        (["12.5%", "3 %"], "decimal", CsvFormat(symbols=("%",))),
        (["$5.25", "-$1"], "decimal", CsvFormat(symbols=("$",))),
        (["5 EUR", "7 €"], "integer", CsvFormat(symbols=("EUR", "€"))),
        (["yes", "No"], "boolean", CsvFormat()),
        (["ja", "Nein", ""], "boolean", CsvFormat(true=("ja",), false=("nein",))),
        (["2024-01-31", "1999-12-01"], "date", CsvFormat()),
        (["31/01/2024", "01/02/2024"], "date", CsvFormat()),
        (["2024-01-31T10:00:00Z", "2024-01-31 11:30:00"], "timestamp", CsvFormat()),
        # doubt: each of these stays text
        (["007", "12"], "text", CsvFormat()),
        (['"1,234"', '"5,678"'], "text", CsvFormat()),
        (["01/02/2024", "03/04/2024"], "text", CsvFormat()),
        (["1", "2", "many"], "text", CsvFormat()),
        (["er", "icu"], "text", CsvFormat()),
        (["", ""], "text", CsvFormat()),
    ],
)
def test_the_type_is_written_as_which_every_value_reads(
    tmp_path: Path, values: list[str], type: str, form: CsvFormat
) -> None:
    columns, _, found = _draft(tmp_path, "id,x\n" + "".join(f"{at},{value}\n" for at, value in enumerate(values)))
    assert (columns["x"].type, found) == (type, form)
    assert columns["id"].type == "integer"


def test_a_decimal_comma_is_found_where_no_point_contradicts_it(tmp_path: Path) -> None:
    columns, said, form = _draft(tmp_path, "id;x;y\n1;1,5;1.234,25\n2;2;7,5\n")
    assert (columns["x"].type, columns["y"].type) == ("decimal", "decimal")
    assert (form.decimal, form.thousands) == (",", ".")
    assert 'Read from the values of the CSV files: [csv] decimal = ",", thousands = "."' in said
    columns, said, form = _draft(tmp_path, "id;x;y\n1;1,5;1.5\n2;2;7.25\n")
    assert form.decimal == "."
    assert (columns["x"].type, columns["y"].type) == ("text", "decimal")


def test_what_stays_text_is_named_with_its_reason(tmp_path: Path) -> None:
    text = "id,day,zip,mixed,nothing\n" + "".join(f"{at},0{at}/02/2024,0123{at},{at},\n" for at in range(1, 9))
    _, said, _ = _draft(tmp_path, text + "9,09/02/2024,01239,x,\n")
    assert "visits.day stays text: all of its values read as date; format can be %d/%m/%Y or %m/%d/%Y." in said
    assert "visits.nothing has no value in any row." in said
    assert "visits.mixed stays text: 88.8 % of its values read as integer." in said


def test_whole_bounds_make_no_integer_of_decimals_silently(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("id,cost\n1,2.5\n2,3\n3,4.25\n", encoding="utf-8")
    output = tmp_path / "visits.toml"
    words = ["init", str(tmp_path / "visits.csv"), *OPTIONS, "--bounds", "cost=0:100", "-o", str(output)]
    said = CliRunner().invoke(main, words).output
    assert "Taken as integer in visits, because the bounds are whole numbers: cost." in said
    checked = CliRunner().invoke(main, ["check", str(output)]).output
    assert "visits.cost is declared as integer, and 2 (66.7%) of its values have decimals" in checked
    columns, said, _ = _draft(tmp_path, "id,cost\n1,2.5\n2,3\n3,4.25\n", "--bounds", "cost=0:100")
    assert (columns["cost"].type, columns["cost"].bounds) == ("decimal", Bounds(0, 100))
    assert "Taken as integer" not in said


def test_bounds_of_a_date_keep_the_format_that_its_values_have(tmp_path: Path) -> None:
    text = "id;day;seen\n1;31.01.2024;2024-01-31 10:00\n2;01.02.2024;2024-02-01 11:30\n"
    bounds = ("--bounds", "day=2024-01-01:2024-12-31", "--bounds", "seen=2024-01-01T00:00:00..2024-12-31T23:59:59")
    columns, _, _ = _draft(tmp_path, text, *bounds)
    assert (columns["day"].type, columns["day"].format) == ("date", "%d.%m.%Y")
    assert (columns["seen"].type, columns["seen"].bounds is None) == ("timestamp", False)


def test_check_says_as_what_texts_read_and_names_empty_columns(tmp_path: Path) -> None:
    rows = "".join(f"{at},{at if at % 500 else 'x'},{'NA' if at % 10 == 0 else at / 2},\n" for at in range(1, 1001))
    (tmp_path / "visits.csv").write_text(f"id,air_time,speed,none\n{rows}", encoding="utf-8")
    output = tmp_path / "visits.toml"
    CliRunner().invoke(main, ["init", str(tmp_path / "visits.csv"), *OPTIONS, "-o", str(output)])
    shown = CliRunner().invoke(main, ["check", str(output)]).output
    assert 'visits.air_time reads as integer in 99.8 % of values: type = "integer".' in shown
    assert "visits.speed reads as decimal in 90.0 % of values, and the others are marks for a missing value: " in shown
    assert 'type = "decimal", [csv] null = ["NA"].' in shown
    assert "Columns without any value: visits.none." in shown


@pytest.mark.parametrize(("delimiter", "named"), [(";", 'delimiter = ";"'), ("\t", 'delimiter = "\\t"')])
def test_a_policy_by_hand_is_told_the_delimiter(tmp_path: Path, delimiter: str, named: str) -> None:
    (tmp_path / "visits.csv").write_text(f"id{delimiter}age\n1{delimiter}2\n", encoding="utf-8")
    words: dict[str, Any] = {
        "source": f"csv:{tmp_path / 'visits.csv'}",
        "ledger": f"sqlite:{tmp_path / 'a.ledger'}",
        "budget": {"epsilon": 1, "delta": 0},
        "tables": {"visits": {"unit": "rows", "columns": {"age": {"type": "integer", "bounds": [0, 9]}}}},
    }
    with pytest.raises(BadSource, match="fields that are not separated by a comma") as refused:
        sfumato.open(words)
    assert named in str(refused.value)
    with sfumato.open({**words, "csv": {"delimiter": delimiter}}) as database:
        assert database.ask("SELECT COUNT(*) AS n FROM visits", epsilon="0.5").rows()


def test_a_dict_takes_iso_texts_as_dates_and_a_file_does_not(tmp_path: Path) -> None:
    columns = {
        "day": {"type": "date", "bounds": ["2024-01-01", "2024-12-31"]},
        "at": {"type": "timestamp", "bounds": ["2024-01-01T00:00:00", "2024-12-31 23:59"]},
        "due": {"type": "date", "values": ["2024-02-29"]},
    }
    words: dict[str, Any] = {
        "source": "csv:a.csv",
        "budget": {"epsilon": 1, "delta": 0},
        "tables": {"a": {"unit": "rows", "columns": columns}},
    }
    day, at, due = read_policy(words).tables[0].columns
    assert day.bounds == Bounds(date(2024, 1, 1), date(2024, 12, 31))
    assert at.bounds == Bounds(datetime(2024, 1, 1), datetime(2024, 12, 31, 23, 59))
    assert due.values == (date(2024, 2, 29),)
    for wrong in ("2024-02-30", "20240101", "2024-W01-1", "1.1.2024"):
        columns["due"]["values"] = [wrong]
        with pytest.raises(BadPolicy, match="in a column of type date"):
            read_policy(words)
    (tmp_path / "a.toml").write_text(
        'source = "csv:a.csv"\n[budget]\nepsilon = 1\ndelta = 0\n[tables.a]\nunit = "rows"\n[tables.a.columns]\n'
        'day = { type = "date", bounds = ["2024-01-01", "2024-12-31"] }\n',
        encoding="utf-8",
    )
    with pytest.raises(BadPolicy, match="without quotes"):
        read_policy(tmp_path / "a.toml")


NUMBERS = st.decimals(-(10**9), 10**9, allow_nan=False, allow_infinity=False, places=2)
FORMS = st.sampled_from(
    [
        CsvFormat(thousands=","),
        CsvFormat(thousands="'", symbols=("€", "EUR")),
        CsvFormat(delimiter=";", decimal=",", thousands="."),
        CsvFormat(delimiter=";", decimal=",", thousands=" ", symbols=("%",)),
        CsvFormat(symbols=("$",)),
    ]
)


@given(st.lists(st.tuples(NUMBERS, st.booleans(), st.booleans()), min_size=1, max_size=20), FORMS)
def test_a_number_in_a_form_of_the_policy_is_that_number(numbers: list[Any], form: CsvFormat) -> None:
    def written(number: Any, before: bool, after: bool) -> str:
        grouped = f"{abs(number):,.2f}".replace(",", "_").replace(".", form.decimal).replace("_", form.thousands)
        symbol = form.symbols[0] if form.symbols else ""
        return f"{'-' if number < 0 else ''}{symbol * before}{grouped}{' ' * after}{symbol * after}"

    assert number_pattern(form)
    column = Column("x", ColumnType.DECIMAL)
    read = written_as(column, as_stored("v", "VARCHAR", raw=True), form).sql
    with closed_connection([], Limits()) as connection:
        for number, before, after in numbers:
            text = written(number, before, after)
            query = select(f"TRY_CAST({read} AS DECIMAL(38,2))", subquery("SELECT $1 AS v"))
            [[found]] = execute(connection, query, [text])
            assert found == number, text


@pytest.mark.parametrize("text", ["1,23", "12,34,567", "1,2345", ",123", "1,,234", "$$5", "5$5", "--5", "", "€"])
def test_what_is_not_written_in_the_form_is_absent(text: str) -> None:
    form = CsvFormat(thousands=",", symbols=("$", "€"))
    read = written_as(Column("x", ColumnType.INTEGER), as_stored("v", "VARCHAR", raw=True), form).sql
    with closed_connection([], Limits()) as connection:
        query = select(f"TRY_CAST({read} AS DECIMAL(38,2))", subquery("SELECT $1 AS v"))
        assert execute(connection, query, [text]) == [(None,)]


def test_the_words_of_a_policy_for_true_and_false_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x\n1,JA\n2,nein\n3,true\n4,vielleicht\n", encoding="utf-8")
    words: dict[str, Any] = {
        "source": f"csv:{tmp_path / 'a.csv'}",
        "ledger": f"sqlite:{tmp_path / 'a.ledger'}",
        "csv": {"true": ["ja"], "false": ["nein"]},
        "budget": {"epsilon": 1, "delta": 0},
        "tables": {"a": {"unit": "rows", "columns": {"x": {"type": "boolean"}}}},
    }
    report = inspected(read_policy(words))
    assert report is not None
    assert (report.columns[0].present, report.columns[0].unreadable) == (4, 1)
    before = inspected(read_policy({**words, "csv": {}}))
    assert before is not None
    assert before.columns[0].remedy == '[csv] true = ["ja"], false = ["nein"] reads 2'
