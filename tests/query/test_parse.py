"""The algebra of accepted SQL, as printed: tests/query/accepted.txt holds the SQL, its algebra and its columns."""

from fractions import Fraction
from pathlib import Path

import pytest
from tests.query.clinic import CLINIC

from sfumato.errors import Refusal
from sfumato.query.parse import parse
from sfumato.query.relation import Filter, GroupBy, Join, JoinKind, Options, Project, Scan, inputs

BLOCKS = (Path(__file__).parent / "accepted.txt").read_text(encoding="utf-8").strip().split("\n\n")


def test_there_are_enough_accepted_spellings() -> None:
    assert len(BLOCKS) >= 120
    assert len({block.split("\n")[0] for block in BLOCKS}) == len(BLOCKS)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("\n")[0][:60])
def test_sql_becomes_its_algebra(block: str) -> None:
    sql, *expected = block.split("\n")
    query = parse(sql, CLINIC)
    assert [*str(query).split("\n"), f"-> {', '.join(query.names)}"] == expected


def test_a_query_is_frozen_and_equal_whatever_its_layout() -> None:
    first = parse("SELECT COUNT(*) FROM visits WHERE age > 3", CLINIC)
    second = parse("select\n  count( * )\nfrom VISITS as v -- all\nwhere (v.Age) > 3;", CLINIC)
    assert first == second
    assert hash(first) == hash(second)


def test_the_per_unit_subquery_is_a_nested_aggregate() -> None:
    sql = "SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) t"
    outer = parse(sql, CLINIC).relation.source
    assert isinstance(outer, GroupBy)
    inner = outer.source
    assert isinstance(inner, GroupBy)
    assert [key.expression for key in inner.keys] == [Scan("visits", "visits", inner.source.schema).columns[0]]  # type: ignore[union-attr]


def test_identical_measures_are_measured_once() -> None:
    group = parse("SELECT SUM(cost) / COUNT(*), SUM(cost) FROM visits HAVING COUNT(*) > 3", CLINIC).relation.source
    assert isinstance(group, Filter)
    assert isinstance(group.source, GroupBy)
    assert len(group.source.measures) == 2


def test_a_comma_binds_less_than_a_join() -> None:
    joined = parse(
        "SELECT 1 FROM patients, staff RIGHT JOIN visits ON staff.dept = visits.dept", CLINIC
    ).relation.source
    assert isinstance(joined, Join)
    assert joined.kind is JoinKind.INNER
    assert isinstance(joined.left, Scan)
    assert isinstance(joined.right, Join)
    assert joined.right.kind is JoinKind.LEFT


def test_the_padded_side_of_a_left_join_keeps_its_expressions_below_the_join() -> None:
    sql = "SELECT x FROM visits LEFT JOIN (SELECT dept, 1 AS x FROM staff) s ON visits.dept = s.dept"
    join = parse(sql, CLINIC).relation.source
    assert isinstance(join, Join)
    assert isinstance(join.right, Project)
    assert inputs(join.right) == (join.right.source,)


def test_options_are_exact() -> None:
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.1, max_rows_contributed = 5) COUNT(*) FROM visits"
    assert parse(sql, CLINIC).options == Options(epsilon=Fraction(1, 10), max_rows_contributed=5)


def test_sixty_brackets_are_read_and_sixty_one_are_not_whatever_the_stack() -> None:
    def deep(frames: int) -> str:
        if frames:
            return deep(frames - 1)
        return str(parse("SELECT " + "(" * 60 + "1" + ")" * 60, CLINIC))

    assert deep(0) == deep(500)


@pytest.mark.parametrize("pattern", ["(" * 3000 + "a" + ")" * 3000, "|".join(["a"] * 3000), "(a|b)" * 60, "(" * 3000])
def test_patterns_that_nest_or_branch_without_end_are_refused(pattern: str) -> None:
    for test in ("dept ~ '{}'", "dept SIMILAR TO '{}'", "regexp_matches(dept, '{}')"):
        with pytest.raises(Refusal, match="regular expression is not supported"):
            parse(f"SELECT COUNT(*) FROM visits WHERE {test.format(pattern)}", CLINIC)  # noqa: S608


def test_only_the_parser_knows_sqlglot_and_the_catalogue_which_reads_postgresqls_own_language() -> None:
    room = Path(__file__).resolve().parents[2] / "src" / "sfumato"
    knowing = {path for path in room.rglob("*.py") if "sqlglot import" in path.read_text(encoding="utf-8")}
    knowing |= {path for path in room.rglob("*.py") if "from sqlglot" in path.read_text(encoding="utf-8")}
    assert knowing
    parsers = {
        path for path in knowing if (room / "query" / "parsing") in path.parents or path == room / "query" / "parse.py"
    }
    assert {path for path in knowing - parsers if path.parent != room / "server" / "wire" / "pg_catalog"} == set()
