"""A short GROUP BY can stand for any number of sets of keys: they are counted before they are written out."""

from itertools import chain

import pytest
from sqlglot import exp, parse_one
from tests.query.clinic import CLINIC

from sfumato.errors import QueryTooLarge
from sfumato.query.parse import parse
from sfumato.query.parsing import grouping
from sfumato.query.parsing.grouping import MAX_GROUPING_SETS

COLUMNS = ", ".join(["dept"] * 60)
LARGE = [
    f"CUBE ({COLUMNS})",
    f"GROUPING SETS (CUBE ({COLUMNS}), ())",
    ", ".join(["GROUPING SETS ((dept), ())"] * 60),
    ", ".join(["ROLLUP (dept, dept)"] * 60),
    ", ".join(["CUBE (dept)"] * 60),
]
SMALL = ["CUBE (a, b)", "ROLLUP (a, b, c)", "GROUPING SETS ((a, b), a, (), ROLLUP (a, b), CUBE (b, c))", "a, CUBE (b)"]


@pytest.mark.parametrize("keys", LARGE, ids=range(len(LARGE)))
def test_too_many_sets_are_refused_and_not_written_out(keys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(part: exp.Expr) -> list[tuple[exp.Expr, ...]]:
        raise AssertionError(f"the sets of {part} are written out")

    monkeypatch.setattr(grouping, "_sets", write)
    with pytest.raises(QueryTooLarge, match=f"At most {MAX_GROUPING_SETS} are answered at once"):
        parse(f"SELECT COUNT(*) FROM visits GROUP BY {keys}", CLINIC)  # noqa: S608


@pytest.mark.parametrize("keys", SMALL)
def test_as_many_are_counted_as_are_written_out(keys: str) -> None:
    group = parse_one(f"SELECT 1 FROM t GROUP BY {keys}", read="duckdb").args["group"]  # noqa: S608
    named = (group.args.get(name) or [] for name in ("grouping_sets", "cube", "rollup"))
    parts = [*group.expressions, *chain.from_iterable(named)]
    assert parts
    assert all(isinstance(part, exp.Expr) for part in parts)
    for part in parts:
        assert grouping._count_sets(part) == len(grouping._sets(part))
