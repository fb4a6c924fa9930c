"""Whoever does what a refusal says is not refused again: the question that a remedy spells out is asked."""

import pytest
from tests.query.clinic import CLINIC, Clinic, ClinicTable
from tests.refusals import spelled_question

from sfumato.errors import BadSql, Refusal
from sfumato.query.canonical import canonical
from sfumato.query.parse import parse

RESERVED = Clinic(
    {
        "t": ClinicTable(
            {"id": "integer", "union": "text", "case": "text", "left": "integer", "from": "date"}, unit="id"
        ),
        "select": ClinicTable({"id": "integer", "all": "boolean"}, unit="id"),
    }
)


def refused(sql: str, catalog: Clinic = CLINIC) -> Refusal:
    """Return how a question is refused."""
    with pytest.raises(Refusal) as caught:
        parse(sql, catalog)
    return caught.value


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("SELECT union, COUNT(*) FROM t GROUP BY union", "union"),
        ("SELECT COUNT(*) FROM t WHERE Union = 'a'", "Union"),
        ("SELECT COUNT(*) FROM t WHERE case = 'a'", "case"),
        ("SELECT COUNT(*) FROM t WHERE from > DATE '2024-01-01'", "from"),
        ("SELECT COUNT(*) FROM select", "select"),
        ("SELECT COUNT(*) FROM t LEFT JOIN select USING (id) WHERE t.union = 'a' AND all", "select"),
    ],
)
def test_a_name_that_is_a_word_of_sql_is_answered_with_the_quotes_it_needs(sql: str, word: str) -> None:
    refusal = refused(sql, RESERVED)
    assert isinstance(refusal, BadSql)
    assert f"`{word}`: this is a word of SQL." in refusal.what
    assert f'"{word}"' in refusal.remedy
    assert canonical(parse(spelled_question(refusal), RESERVED))


def test_quotes_are_not_recommended_where_they_do_not_help() -> None:
    assert "word of SQL" not in str(refused("SELECT union, COUNT(*) FROM t GROUP BY union"))
    assert "word of SQL" not in str(refused("SELECT nothing, union FROM t", RESERVED))


@pytest.mark.parametrize(
    ("sql", "instead"),
    [
        ("SELECT bool_and(urgent) FROM visits", "COUNT(*) FILTER (WHERE NOT urgent)"),
        ("SELECT BOOL_OR(age > 3 OR urgent) FROM visits", "COUNT(*) FILTER (WHERE age > 3 OR urgent)"),
        ("SELECT every(urgent) FILTER (WHERE age > 3) FROM visits", "COUNT(*) FILTER (WHERE age > 3 AND NOT urgent)"),
        ("SELECT dept, any_value(age) AS a FROM visits GROUP BY dept", "dept, age AS a, COUNT(*)"),
        ("SELECT any_value(age) FROM visits", "age, COUNT(*)"),
    ],
)
def test_what_one_row_would_decide_is_answered_with_a_count(sql: str, instead: str) -> None:
    shown = parse(spelled_question(refused(sql)), CLINIC)
    keys = " GROUP BY dept, age" if "dept" in sql else " GROUP BY age" if "any_value" in sql else ""
    assert canonical(shown) == canonical(parse(f"SELECT {instead} FROM visits{keys}", CLINIC))  # noqa: S608
