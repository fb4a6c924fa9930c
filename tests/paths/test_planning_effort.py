"""Planning is free, so its work is bounded: it grows linearly with the text, and has limits that a refusal names."""

# ruff: noqa: S608 - questions are written by hand here, never from anybody's input
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.paths.worlds import MANY, a_world, policy, write

import sfumato
from sfumato.accounting.event import Neighbours
from sfumato.analysis.analyse import analyse
from sfumato.engines import time_limit
from sfumato.engines.sql import statements
from sfumato.engines.sql.statements import Statements
from sfumato.errors import FreeLimit, QueryTooLarge
from sfumato.lab.generators.clinic import VISITS
from sfumato.planning.bounding.selection import price_selections, with_candidate_bounds
from sfumato.planning.measurements import MeasurementSet, needs_of
from sfumato.prepare import RequestedPrice
from sfumato.query.parse import parse

Shape = Callable[[int], str]


def _listed(item: str, source: str = "visits") -> Shape:
    return lambda n: f"SELECT {', '.join(item.format(i=i, q=(i + 1) / (n + 1)) for i in range(n))} FROM {source}"


def _joined(word: str, condition: str) -> Shape:
    return lambda n: f"SELECT COUNT(*) FROM visits v WHERE {word.join(condition.format(i=i) for i in range(n))}"


OTHER = "SELECT 1 FROM visits w WHERE w.patient_id = v.patient_id AND"
SHAPES: dict[str, Shape] = {
    "quantiles of one column": _listed("QUANTILE_CONT(cost, {q:.6f})"),
    "medians": _listed("MEDIAN(cost + {i})"),
    "medians with conditions": _listed("MEDIAN(cost) FILTER (WHERE age > {i} / 64.0)"),
    "maxima": _listed("MAX(cost + {i})"),
    "modes": _listed("MODE(age + {i})"),
    "different values": _listed("COUNT(DISTINCT age % ({i} + 20))"),
    "sums": _listed("SUM(cost + {i})"),
    "sums with conditions": _listed("SUM(cost) FILTER (WHERE age > {i} / 64.0)"),
    "averages": _listed("AVG(cost + {i})"),
    "variances": _listed("VAR_POP(cost + {i})"),
    "correlations": _listed("CORR(cost + {i}, age)"),
    "FILTER": _listed("COUNT(*) FILTER (WHERE cost > {i} / 64.0)"),
    "EXISTS": _joined(" AND ", f"EXISTS ({OTHER} w.cost > {{i}} / 64.0)"),
    "NOT EXISTS": _joined(" AND ", f"NOT EXISTS ({OTHER} w.cost > v.cost + {{i}})"),
    "OR": _joined(" OR ", "cost = {i} / 4.0"),
    "AND": _joined(" AND ", "cost <> {i} / 4.0"),
    "IN": lambda n: f"SELECT COUNT(*) FROM visits WHERE cost IN ({', '.join(f'{i / 16}' for i in range(n))})",
    "CASE": lambda n: (
        f"SELECT SUM(CASE {' '.join(f'WHEN cost > {i} / 64.0 THEN {i}' for i in range(n))} ELSE 0 END) FROM visits"
    ),
    "WITH": lambda n: (
        f"WITH c0 AS (SELECT * FROM visits), "
        f"{', '.join(f'c{i + 1} AS (SELECT * FROM c{i} WHERE cost > {i} / 64.0)' for i in range(n))} "
        f"SELECT COUNT(*) FROM c{n}"
    ),
    "windows": lambda n: (
        f"SELECT dept, {', '.join(f'SUM(COUNT(*)) OVER (ORDER BY dept ROWS {i + 1} PRECEDING)' for i in range(n))} "
        "FROM visits GROUP BY dept"
    ),
    "columns": lambda n: (
        f"SELECT {', '.join(f'SUM(x{i})' for i in range(n))} FROM (SELECT patient_id, "
        f"{', '.join(f'MAX(cost) + {i} AS x{i}' for i in range(n))} FROM visits GROUP BY patient_id) t"
    ),
}


CHOSEN: dict[str, Any] = {
    **MANY,
    "columns": {**VISITS, "cost": {"type": "decimal", "bounds": {"within": [0, 10], "choose": "private"}, "step": 0.5}},
}
"""Bounds that every sum chooses: each has candidates and a histogram of its own."""
WITH_CHOICES = ("different values", "sums", "averages", "variances", "correlations", "FILTER", "sums with conditions")


@pytest.fixture(scope="module")
def choosing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    folder: Path = tmp_path_factory.mktemp("choices")
    write(folder, a_world(1))
    with sfumato.open(policy(folder, visits=CHOSEN)) as opened:
        yield opened


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    folder: Path = tmp_path_factory.mktemp("effort")
    write(folder, a_world(1))
    with sfumato.open(policy(folder)) as opened:
        yield opened


def _calls(action: Callable[[], object]) -> int:
    """Return how many functions an action calls: what work is counted by here, on every machine alike."""
    found = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal found
        found += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
    return found


def _characters(database: sfumato.Database, sql: str) -> int:
    prepared = database._preparation.prepare(sql, None, RequestedPrice(epsilon="1"), None, database.engine).job
    assert isinstance(prepared, Statements)
    chosen = [statement for each in prepared.histograms for statement in each.values()]
    return sum(len(statement or "") for statement in (*prepared.statements, *chosen))


def _candidate_bounds(needs: tuple[MeasurementSet, ...]) -> object:
    return price_selections(*reversed(with_candidate_bounds(needs, Neighbours.ADD_REMOVE)))


def test_candidate_bounds_of_n_sums_are_found_in_linear_work(choosing: sfumato.Database) -> None:
    engine, calls = choosing.engine, []
    for n in (16, 32, 64, 128):  # the first fills caches
        query = parse(SHAPES["sums"](n), engine.catalog)
        with engine.public.one_question():
            private = analyse(query, engine.catalog, engine.public)
        needs = tuple(needs_of(group, private.neighbours) for group in private.groups)
        calls.append(_calls(partial(_candidate_bounds, needs)))
    _, few, some, many = calls
    assert many - some <= 2.2 * (some - few), calls


@pytest.mark.parametrize("name", WITH_CHOICES)
def test_work_grows_no_faster_than_the_text_where_bounds_are_chosen(choosing: sfumato.Database, name: str) -> None:
    test_work_and_statements_grow_no_faster_than_the_text(choosing, name)


@pytest.mark.parametrize("name", SHAPES)
def test_work_and_statements_grow_no_faster_than_the_text(database: sfumato.Database, name: str) -> None:
    """From n to 2n to 4n parts: of linear work the second step takes 2 times the first, of quadratic work 4 times."""
    texts = [SHAPES[name](n) for n in (8, 16, 32)]
    database.explain(SHAPES[name](5), epsilon="1")  # what is computed once per process is no work of these
    calls = [_calls(lambda text=text: database.explain(text, epsilon="1")) for text in texts]  # type: ignore[misc]
    characters = [_characters(database, text) for text in texts]
    for few, some, many in (calls, characters):
        assert many - some <= 2.5 * (some - few) + 5000, (few, some, many)


def test_all_statements_of_a_plan_together_have_a_limit(
    database: sfumato.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = SHAPES["medians"](6)
    whole = _characters(database, sql)
    monkeypatch.setattr(statements, "MAX_PLAN_CHARS", whole)
    database.explain(sql, epsilon="1")
    monkeypatch.setattr(statements, "MAX_PLAN_CHARS", whole - 1)
    for ask in (database.explain, database.ask):
        with pytest.raises(QueryTooLarge, match=f"{whole - 1:,} characters"):
            ask(sql, epsilon="2")
    assert not database.history()


def test_reading_and_planning_have_a_last_limit_of_time(
    database: sfumato.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_limit, "PLANNING_SECONDS", -1.0)
    for ask in (database.explain, database.ask):
        with pytest.raises(FreeLimit, match="takes longer than"):
            ask("SELECT COUNT(*) FROM visits WHERE age > 3", epsilon="1")
    with pytest.raises(FreeLimit, match="takes longer than"):
        database.ask_all(["SELECT COUNT(*) FROM visits", "SELECT SUM(age) FROM visits"], epsilon="1")
    assert not database.history()
