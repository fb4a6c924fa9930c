"""Conditions inside others are measured as steps: proved from text, checked on all small rows, and bars hold."""

from collections.abc import Iterator
from itertools import permutations, product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from scipy.stats import binom
from tests.release.bars_clinic import holds, losses_known, opened, released

from sfumato.lab.audits.replay import compare, neighbours_of, price_alarms, record
from sfumato.lab.audits.subject import Subject, open_subject
from sfumato.lab.generators.clinic import clinic
from sfumato.lab.generators.population import populate
from sfumato.planning.plan import GroupPlan
from sfumato.prepare import RequestedPrice

CONDITIONS = (
    "TRUE",
    "dept = 'er'",
    "dept IN ('er', 'icu')",
    "dept IN ('icu', 'surgery')",
    "dept <> 'er'",
    "urgent",
    "NOT urgent",
    "urgent AND dept = 'icu'",
    "urgent AND dept = 'icu' AND age > 5",
    "age > 3",
    "age > 5",
    "age >= 5",
    "NOT age < 6",
    "age BETWEEN 4 AND 6",
    "age = 7",
    "age IN (5, 7)",
    "age IS NOT NULL",
    "age > 5 OR urgent",
)
FOUND = {
    ("dept = 'er'", "TRUE"),
    ("dept = 'er'", "dept IN ('er', 'icu')"),
    ("urgent AND dept = 'icu'", "urgent"),
    ("urgent AND dept = 'icu' AND age > 5", "urgent AND dept = 'icu'"),
    ("urgent AND dept = 'icu' AND age > 5", "age > 3"),
    ("age > 5", "age > 3"),
    ("age > 5", "age >= 5"),
    ("NOT age < 6", "age >= 5"),
    ("age BETWEEN 4 AND 6", "age > 3"),
    ("age = 7", "age IN (5, 7)"),
    ("age IN (5, 7)", "age > 3"),
}
ROWS = list(product(["er", "icu", "surgery", None], [True, False, None], [0, 3, 4, 5, 6, 7, None]))
FUNNELS = {
    "a funnel": [
        "COUNT(*) FILTER (WHERE urgent)",
        "COUNT(*) FILTER (WHERE urgent AND dept = 'er')",
        "COUNT(*) FILTER (WHERE urgent AND dept = 'er' AND age > 4)",
    ],
    "thresholds": [f"COUNT(*) FILTER (WHERE age > {age})" for age in (2, 4, 6)] + ["COUNT(*)"],
    "cases": [
        "SUM(CASE WHEN age > 2 THEN 1 ELSE 0 END)",
        "SUM(CASE WHEN age > 4 THEN 1 ELSE 0 END)",
        "SUM(CASE WHEN age > 6 THEN 1 ELSE 0 END)",
    ],
    "counted cases": ["COUNT(CASE WHEN urgent THEN 1 END)", "COUNT(CASE WHEN urgent AND age > 4 THEN 2 END)"],
    "branches": [
        "COUNT(*)",
        "COUNT(*) FILTER (WHERE urgent)",
        "COUNT(*) FILTER (WHERE NOT urgent)",
        "COUNT(*) FILTER (WHERE urgent AND age > 4)",
    ],
    "sums": ["SUM(age)", "SUM(age) FILTER (WHERE urgent)", "SUM(age) FILTER (WHERE urgent AND dept = 'er')"],
}


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    policy = clinic()
    with open_subject(policy, populate(policy, 5), tmp_path_factory.mktemp("clinic")) as opened:
        yield opened


@pytest.fixture(scope="module")
def rows() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE visits (dept VARCHAR, urgent BOOLEAN, age INTEGER)")
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?)", ROWS)
        yield connection


def _ask(columns: list[str]) -> str:
    return f"SELECT {', '.join(f'{one} AS c{at}' for at, one in enumerate(columns))} FROM visits"  # noqa: S608


def _stepped(subject: Subject, columns: list[str]) -> GroupPlan | None:
    """Return the group of the plan that measures steps, whether or not it is preferred."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sfumato.planning.planner.prefers_steps", lambda *_: True)
        (group,) = subject.plan(_ask(columns)).groups
    return group if group.sums else None


def test_what_is_taken_to_be_inside_is_inside_in_every_row(subject: Subject, rows: duckdb.DuckDBPyConnection) -> None:
    found = set()
    for inner, outer in permutations(CONDITIONS, 2):
        columns = [f"COUNT(*) FILTER (WHERE {outer})", f"COUNT(*) FILTER (WHERE {inner})"]
        group = _stepped(subject, columns)
        if group is not None and {one.name for one in group.sums} == {group.derived[0].plain}:
            found.add((inner, outer))
            lost = f"SELECT COUNT(*) FROM visits WHERE ({inner}) AND ({outer}) IS NOT TRUE"  # noqa: S608
            assert rows.execute(lost).fetchall() == [(0,)], (inner, outer)
    assert found >= FOUND


@pytest.mark.parametrize("name", FUNNELS)
def test_steps_add_up_to_what_was_asked(subject: Subject, name: str) -> None:
    """In exact numbers: the sums of steps are what is measured without steps."""
    columns = FUNNELS[name]
    group = _stepped(subject, columns)
    assert group is not None, "no steps"
    assert len(group.vector) == len(columns)
    plan = subject.plan(_ask(columns))
    apart = [subject.engine.run(subject.engine.prepare(subject.plan(_ask([one])))).groups[0] for one in columns]
    (found,) = subject.engine.run(subject.engine.prepare(plan)).groups
    numbers = {key: int(np.asarray(values)[0]) for key, values in found.columns.items()}
    for made, alone in zip(plan.groups[0].derived, apart, strict=True):
        steps = plan.groups[0].steps_of(made.plain or "")
        assert sum(numbers[step] for step in steps) == int(np.asarray(alone.columns["m1"])[0])


def test_neighbours_move_all_steps_together_no_further_than_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.planning.planner.prefers_steps", lambda *_: True)
    queries = [_ask(FUNNELS[name]) for name in ("a funnel", "branches", "sums")]
    policy = clinic()
    population = populate(policy, 5)
    with open_subject(policy, population, tmp_path / "all") as subject:
        recorded = {sql: record(subject, subject.plan(sql), 5) for sql in queries}
    assert all(one.plan.groups[0].sums for one in recorded.values())
    assert not [message for one in recorded.values() for message in price_alarms(one)]
    for place, (other, distance) in enumerate(neighbours_of(population, policy, 5).values()):
        with open_subject(policy, other, tmp_path / str(place)) as neighbour:
            for sql, one in recorded.items():
                assert list(compare(one, record(neighbour, neighbour.plan(sql), 5), distance)) == []


def test_what_does_not_contain_is_not_stepped(subject: Subject) -> None:
    for columns in (
        ["COUNT(*) FILTER (WHERE age > 3)", "COUNT(*) FILTER (WHERE urgent)"],
        ["SUM(age) FILTER (WHERE urgent)", "COUNT(*) FILTER (WHERE urgent AND age > 4)"],
        ["COUNT(DISTINCT age)", "COUNT(DISTINCT age) FILTER (WHERE urgent)"],
        ["SUM(CASE WHEN urgent THEN 1 ELSE 2 END)", "SUM(CASE WHEN urgent AND age > 4 THEN 1 ELSE 2 END)"],
    ):
        assert _stepped(subject, columns) is None


@pytest.mark.parametrize("most", [1, 20])
def test_bars_of_steps_hold_and_are_not_longer_than_without(tmp_path: Path, most: int) -> None:
    """Five thresholds, 200 releases with fixed bits: bars of exactly 95 % miss 23 or more with probability 1e-4."""
    order = np.arange(4000)
    rows: dict[str, Any] = {"p": order % 1000, "age": (order * 37) % 100}
    table = {"rows_per_unit": most, "columns": {"age": {"type": "integer", "bounds": [0, 99]}}}
    ages = (10, 20, 40, 60, 80)
    columns = ", ".join(f"COUNT(*) FILTER (WHERE age >= {age}) AS n{age}" for age in ages)
    sql = f"SELECT {columns}, n20 - n40 AS between FROM (SELECT {columns} FROM v) AS t".replace(  # noqa: S608
        f"SELECT {columns}, n20", f"SELECT {', '.join(f'n{age}' for age in ages)}, n20", 1
    )
    with opened(tmp_path, rows, table) as database:
        quote = database.explain(f"SELECT {columns} FROM v", epsilon="0.5")  # noqa: S608
        assert database.prepare(sql, None, RequestedPrice("0.5")).plan.groups[0].sums
        found = list(released(database, sql, 200, "0.5"))
        (exact,) = released(database, sql, 1, "5000")
        alone = database.explain("SELECT COUNT(*) AS n FROM v", epsilon="0.1").margins["n"]
    truth = exact.rows()[0]
    for name, true in truth.items():
        missed = sum(not holds(one.intervals()[0][name], true) for one in found)
        assert binom.sf(missed - 1, 200, 0.05) > 1e-4, name
        assert missed > 0  # and are not far too long
    for age in ages:
        low, high = found[0].intervals()[0][f"n{age}"]
        margin = quote.margins[f"n{age}"]
        assert margin is not None
        assert alone is not None
        assert abs((high - low) / 2 - margin) <= 1
        assert margin < alone  # a fifth of the price for each


def test_bars_with_bias_hold_where_rows_are_in_another_step_than_they_seem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nearly without noise: 500 values lie beyond their bounds, and the condition holds of what they are."""
    monkeypatch.setattr("sfumato.planning.planner.prefers_steps", lambda *_: True)
    people, inside = np.arange(1000), "COUNT(*) FILTER (WHERE x * x < 50)"
    table = {"rows_per_unit": 1, "columns": {"x": {"type": "integer", "bounds": [0, 5]}}}
    sql = f"SELECT COUNT(*) AS n, {inside} AS i, 2 * {inside} - COUNT(*) AS d FROM v"  # noqa: S608
    with opened(tmp_path, {"p": people, "x": np.where(people % 2, 6, 1)}, table, truncation=1000) as database:
        assert database.prepare(sql, None, RequestedPrice("1000")).plan.groups[0].sums
        (found,) = released(database, sql, 1, "1000", losses_known(database))
    assert holds(found.intervals(bias=True)[0]["d"], 1000)
