"""Names fold as in PostgreSQL, and unnamed columns are called what PostgreSQL calls them."""

# ruff: noqa: S608  (SQL is what is tested here, and no engine sees it)

import pytest
from tests.query.clinic import CLINIC, Clinic, ClinicTable

from sfumato.errors import BadSql, UnknownName
from sfumato.query.canonical import canonical
from sfumato.query.names import Name, lookup, number_duplicates, unused_name
from sfumato.query.parse import parse


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("COUNT(*)", "count"),
        ("SUM(cost)", "sum"),
        ("Avg(cost) FILTER (WHERE urgent)", "avg"),
        ("SUM(cost)::int", "sum"),
        ("COUNT(*) + 1", "?column?"),
        ("-COUNT(*)", "?column?"),
        ("COUNT(*) AS Total", "total"),
        ('COUNT(*) AS "Total"', "Total"),
        ("COUNT(*) total", "total"),
        ("CASE WHEN COUNT(*) > 1 THEN 1 END", "case"),
        ("CASE WHEN TRUE THEN 1 ELSE COUNT(*) END", "count"),
        ("1", "?column?"),
        ("'x'::text", "text"),
        ("DATE '2024-01-01'", "date"),
        ("TRUE", "bool"),
        ("coalesce(SUM(age), 0)", "coalesce"),
    ],
)
def test_an_output_column_has_postgresqls_name(text: str, name: str) -> None:
    assert parse(f"SELECT {text} FROM visits", CLINIC).names == (name,)


def test_names_of_the_answer_may_repeat_and_columns_of_the_relation_may_not() -> None:
    query = parse("SELECT COUNT(*), COUNT(age), COUNT(*) FROM visits", CLINIC)
    assert query.names == ("count", "count", "count")
    assert len({item.name for item in query.relation.items}) == 3


def test_names_match_whatever_their_case_quoted_or_not() -> None:
    for sql in ('SELECT "age" FROM "visits"', 'SELECT "Age" FROM "VISITS"', 'SELECT "Visits"."AGE" FROM visits'):
        assert (
            canonical(parse(sql, CLINIC)).split(" -> ")[0]
            == canonical(parse("SELECT AGE FROM Visits", CLINIC)).split(" -> ")[0]
        )
    assert parse('SELECT "odd name" FROM visits', CLINIC).names == ("odd name",)
    with pytest.raises(UnknownName):
        parse("SELECT odd name FROM visits", CLINIC)


def test_a_quoted_name_still_names_the_column_of_the_answer() -> None:
    assert parse('SELECT "AGE", age AS "Years" FROM visits', CLINIC).names == ("AGE", "Years")


def test_names_with_spaces_dots_and_capitals_are_found() -> None:
    catalog = Clinic({"besuche 2024": ClinicTable({"id": "integer"}), "visits.removed": ClinicTable({"n": "integer"})})
    assert "besuche 2024" in str(parse('SELECT id FROM "Besuche 2024"', catalog))
    assert "visits.removed" in str(parse('SELECT N FROM "Visits.removed"', catalog))


def test_what_is_spelled_exactly_so_comes_before_what_differs_in_case() -> None:
    both = Clinic({"t": ClinicTable({"ID": "integer", "Id": "integer"})})
    assert str(parse('SELECT "Id" FROM t', both).relation.items[0].expression) == 't."Id"'
    with pytest.raises(BadSql, match="ambiguous"):
        parse('SELECT "iD" FROM t', both)
    aliases = 'SELECT "A".age FROM visits a JOIN patients b USING (patient_id) JOIN visits "A" USING (patient_id)'
    assert str(parse(aliases, CLINIC).relation.items[0].expression) == "visits#2.age"
    with_names = 'WITH "Visits" AS (SELECT id FROM staff) SELECT age FROM visits'
    assert "scan visits" in str(parse(with_names, CLINIC))
    assert "scan staff" in str(parse(with_names.replace("SELECT age FROM visits", 'SELECT id FROM "Visits"'), CLINIC))
    using = 'SELECT "Id" FROM (SELECT 1 AS "ID", 2 AS "Id") l JOIN (SELECT 1 AS "ID") r USING ("ID")'
    assert str(parse(using, CLINIC).relation.items[0].expression) == "2"


def test_a_with_name_and_an_alias_match_whatever_their_case() -> None:
    assert "scan staff" in str(
        parse('WITH "Depts" AS (SELECT dept FROM staff) SELECT d.Dept FROM depts AS "D"', CLINIC)
    )


def test_a_column_declared_in_capitals_is_found_without_quotes_when_no_other_could_be_meant() -> None:
    catalog = Clinic({"t": ClinicTable({"ID": "integer", "Name": "text", "name": "text"})})
    assert str(parse("SELECT id, name FROM t", catalog).relation.items[0].expression) == 't."ID"'
    assert str(parse("SELECT id, name FROM t", catalog).relation.items[1].expression) == "t.name"
    ambiguous = Clinic({"t": ClinicTable({"ID": "integer", "Id": "integer"})})
    with pytest.raises(BadSql, match="ambiguous"):
        parse("SELECT id FROM t", ambiguous)


def test_labels_of_tables_with_dots_stay_apart() -> None:
    catalog = Clinic({"a": ClinicTable({"b.c": "integer"}), "a.b": ClinicTable({"c": "integer"})})
    query = parse('SELECT a."b.c", "a.b".c FROM a, "a.b"', catalog)
    assert len({str(item.expression) for item in query.relation.items}) == 2


def test_group_by_prefers_columns_and_order_by_prefers_aliases() -> None:
    with pytest.raises(BadSql, match="neither a group"):
        parse("SELECT age AS dept FROM visits GROUP BY dept", CLINIC)
    assert "sort visits.age" in str(parse("SELECT age AS dept FROM visits ORDER BY dept", CLINIC))


def test_a_with_name_hides_a_table_and_a_later_one_sees_an_earlier_one() -> None:
    sql = "WITH staff AS (SELECT age AS id FROM visits), b AS (SELECT id FROM staff) SELECT id FROM b"
    assert "scan visits" in str(parse(sql, CLINIC))
    with pytest.raises(UnknownName, match="`later`"):
        parse("WITH a AS (SELECT * FROM later), later AS (SELECT 1) SELECT 1 FROM a", CLINIC)


def test_a_joined_column_needs_its_table_unless_using_merges_it() -> None:
    with pytest.raises(BadSql, match="ambiguous"):
        parse("SELECT dept FROM visits JOIN staff ON visits.dept = staff.dept", CLINIC)
    assert parse("SELECT dept, staff.dept FROM visits JOIN staff USING (dept)", CLINIC).names == ("dept", "dept")


def test_lookup_and_numbering() -> None:
    assert lookup(Name("A"), {"a": 1}) == 1
    assert lookup(Name("A", quoted=True), {"a": 1}) == 1
    assert lookup(Name("A", quoted=True), {"a": 1, "A": 2}) == 2
    assert lookup(Name("bA", quoted=True), {"ba": 1, "BA": 2}) is None
    assert number_duplicates(["a", "a", "a#2"]) == ["a", "a#2", "a#2#2"]
    assert unused_name("a", set()) == "a"


KELVIN = "\N{KELVIN SIGN}"


@pytest.mark.parametrize(("one", "other"), [("É", "é"), (KELVIN, "k"), ("ſ", "s"), ("İ", "i"), ("Σ", "ς"), ("ẞ", "ß")])
def test_only_a_to_z_fold(one: str, other: str) -> None:
    assert Name("AbZ").matches("aBz")
    for left, right in ((one, other), (other, one)):
        assert not Name(left).matches(right)
        assert lookup(Name(left), {right: 1}) is None
        assert lookup(Name(left), {left: 1, right: 2}) == 1
    assert str(Name(one)) == one


def test_a_column_of_another_letter_is_unknown() -> None:
    for table, column in (("visits", "urgent"), ("visits", "age")):
        assert parse(f"SELECT COUNT({column.upper()}) FROM {table.upper()}", CLINIC).names == ("count",)
    with pytest.raises(UnknownName):
        parse("SELECT COUNT(*) FROM vi\N{LATIN SMALL LETTER LONG S}its", CLINIC)
