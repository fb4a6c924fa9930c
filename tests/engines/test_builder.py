"""Statements are built from clauses in one place, and what is still written by hand only shrinks."""

from collections import Counter
from pathlib import Path

import pytest

from sfumato.engines.sql.builder import aliased, exists, select, subquery, union_all, with_tables

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "sfumato"
BUILDER = PACKAGE / "engines" / "sql" / "builder.py"
WRITTEN_BY_HAND = {
    "analysis": 4,
    "engines": 53,
    "lab": 43,
    "ledger": 11,
    "planning": 4,
    "policy_draft": 4,
    "server": 4,
    "synthesis": 1,
    "terminal": 6,
}
"""How many statements of each package are formatted without the builder. Nothing may be added."""


def test_no_more_statements_are_written_by_hand() -> None:
    found: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        if path != BUILDER:
            found[path.relative_to(PACKAGE).parts[0]] += path.read_text(encoding="utf-8").count("noqa: S608")
    assert {package: count for package, count in found.items() if count > WRITTEN_BY_HAND.get(package, 0)} == {}


def test_clauses_come_in_the_order_of_sql() -> None:
    everything = select("a", "t", where="b", group_by=["c", "d"], having="e", order_by=["f"], limit=0, offset=0)
    assert everything == "SELECT a FROM t WHERE b GROUP BY c, d HAVING e ORDER BY f LIMIT 0 OFFSET 0"
    assert select(["1", "2"]) == "SELECT 1, 2"
    assert select(aliased({"n": "1"})) == "SELECT 1 AS n"


def test_statements_nest() -> None:
    rows = union_all([select("a", "t"), select("a", "u")])
    assert subquery(rows, "r") == "(SELECT a FROM t UNION ALL SELECT a FROM u) AS r"
    assert exists("t", "a", "b") == "EXISTS (SELECT 1 FROM t WHERE a AND b)"
    assert with_tables({"r": "SELECT 1", "s": "SELECT 2"}, "SELECT 3") == (
        "WITH r AS (SELECT 1), s AS (SELECT 2) SELECT 3"
    )


@pytest.mark.parametrize(("columns", "where"), [("", ()), ((), ()), ("a", ""), ("a", ("b", ""))])
def test_a_clause_that_got_lost_is_a_mistake(columns: str, where: str) -> None:
    with pytest.raises(AssertionError):
        select(columns, "t", where=where)
