"""What is refused, why and where; and that nothing else than a Refusal ever comes out, in time."""

# ruff: noqa: S608  (SQL is what is tested here, and no engine sees it)

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.query.clinic import CLINIC

from sfumato.errors import BadSql, QueryTooLarge, Refusal, UnknownName, UnsupportedSql
from sfumato.query.canonical import canonical
from sfumato.query.parse import parse

HERE = Path(__file__).parent
BLOCKS = (HERE / "refused.txt").read_text(encoding="utf-8").strip().split("\n\n")
ACCEPTED = [block.split("\n")[0] for block in (HERE / "accepted.txt").read_text(encoding="utf-8").strip().split("\n\n")]
KINDS = {BadSql, QueryTooLarge, UnknownName, UnsupportedSql}


def test_there_are_enough_refused_spellings() -> None:
    assert len(BLOCKS) >= 120


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("\n")[0][:60])
def test_sql_is_refused_by_name_and_place(block: str) -> None:
    sql, expected = block.split("\n")
    with pytest.raises(Refusal) as caught:
        parse(sql, CLINIC)
    assert type(caught.value) in KINDS
    assert f"{caught.value.code}: {caught.value}" == expected
    assert caught.value.what.startswith("At 1:")
    assert all(part[-1] in ".?" for part in (caught.value.what, caught.value.why, caught.value.remedy))


def test_a_place_is_line_and_column() -> None:
    with pytest.raises(UnknownName, match=r"^At 3:7, `aeg`: .*Did you mean `age`\?$"):
        parse("SELECT COUNT(*)\nFROM visits\nWHERE aeg > 3", CLINIC)


def test_a_quoted_fragment_has_sixty_characters_at_most() -> None:
    with pytest.raises(BadSql) as caught:
        parse(f"SELECT lower({'age + ' * 30}age) FROM visits", CLINIC)
    assert len(caught.value.what.split("`")[1]) == 60


def _chain(n: int) -> str:
    parts = "".join(f", a{i} AS (SELECT x + x AS x FROM a{i - 1})" for i in range(1, n))
    return f"WITH a0 AS (SELECT age AS x FROM visits){parts} SELECT x FROM a{n - 1}"


def _doubling(n: int) -> str:
    parts = "".join(f", a{i} AS (SELECT p.x FROM a{i - 1} p, a{i - 1} q)" for i in range(1, n))
    return f"WITH a0 AS (SELECT age AS x FROM visits){parts} SELECT x FROM a{n - 1}"


HOSTILE = {
    "brackets": "SELECT " + "(" * 9000 + "1" + ")" * 9000,
    "open brackets": "(" * 20_000,
    "quotes": "'" * 19_999,
    "commas": "SELECT " + "," * 19_000,
    "minus": "SELECT " + "- " * 9000 + "1",
    "not": "SELECT " + "NOT " * 4900 + "TRUE",
    "sum": "SELECT " + "1+" * 9000 + "1",
    "case": "SELECT " + "CASE WHEN TRUE THEN " * 900 + "1" + " END" * 900,
    "case of case": "SELECT " + "CASE " * 59 + "1" + " WHEN 1 THEN 1 WHEN 2 THEN 2 END" * 59,
    "between": "SELECT " + "(" * 59 + "TRUE" + " BETWEEN TRUE AND TRUE)" * 59,
    "casts": "SELECT 1" + "::int" * 3900,
    "joins without condition": "SELECT 1 FROM visits " + "JOIN visits " * 1500,
    "joins": "SELECT 1 FROM visits a0 " + "".join(f"NATURAL JOIN visits a{i} " for i in range(1, 66)),
    "in": f"SELECT 1 FROM visits WHERE age IN ({', '.join('1' * 1001)})",
    "columns": f"SELECT {', '.join('1' * 201)}",
    "too long": "SELECT 1 " + " " * 20_000,
    "100,000 characters": "a" * 100_000,
    "doubling expressions": _chain(60),
    "doubling joins": _doubling(40),
    "subqueries": "SELECT * FROM " + "(SELECT * FROM " * 61 + "staff" + ") x" * 61,
    "types": "SELECT CAST(1 AS " + "array<" * 3000 + ")",
    "huge number": "SELECT " + "9" * 19_000,
    "exponent": "SELECT 1e999999",
    "nul": "SELECT '\0'",
    "surrogate": "SELECT '\ud800'",
    "unterminated comment": "SELECT 1 /* " + "/*" * 5000,
    "unterminated string": "SELECT 'abc",
}


@pytest.mark.parametrize("sql", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_refused_at_once(sql: str) -> None:
    start = time.process_time()
    with pytest.raises(Refusal):
        parse(sql, CLINIC)
    assert time.process_time() - start < 1


@pytest.mark.parametrize("value", [None, 3, b"SELECT 1", ["SELECT 1"]])
def test_what_is_not_text_is_refused(value: object) -> None:
    with pytest.raises(BadSql):
        parse(value, CLINIC)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [2, 30, 200])
def test_a_long_list_of_conditions_is_not_a_deep_one(n: int) -> None:
    for word in ("AND", "OR"):
        conditions = f" {word} ".join(f"age <> {i}" for i in range(n))
        assert str(parse(f"SELECT COUNT(*) FROM visits WHERE {conditions}", CLINIC)).count("<>") == n


WORDS = sorted({word for sql in ACCEPTED for word in sql.replace("(", " ( ").replace(")", " ) ").split()})
NASTY = ["'", '"', "/*", "--", "\n", ";", "$1", "::", "\0", "é", "\ud800", "1e9", ".", "[", "{", "OVER", "UNION", "\\"]


def _only_refuses(sql: str) -> None:
    try:
        query = parse(sql, CLINIC)
    except (BadSql, QueryTooLarge, UnknownName, UnsupportedSql):
        return
    assert canonical(query)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(WORDS + NASTY), max_size=30).map(" ".join))
def test_a_soup_of_words_is_a_question_or_a_refusal(sql: str) -> None:
    _only_refuses(f"SELECT {sql}")


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(ACCEPTED), st.data())
def test_a_damaged_question_is_a_question_or_a_refusal(sql: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(sql)))
        end = data.draw(st.integers(start, min(len(sql), start + 8)))
        sql = sql[:start] + data.draw(st.sampled_from(["", " ", *WORDS, *NASTY])) + sql[end:]
    _only_refuses(sql)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_question_or_a_refusal(text: str) -> None:
    _only_refuses(text)
    _only_refuses(f"SELECT {text} FROM visits")
