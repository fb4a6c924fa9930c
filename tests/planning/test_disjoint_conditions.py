"""Counts and sums whose conditions exclude each other are one vector: proved from text, checked on all small rows."""

from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path

import duckdb
import pytest

from sfumato.accounting.event import Pure
from sfumato.lab.audits.replay import compare, neighbours_of, price_alarms, record
from sfumato.lab.audits.subject import Subject, open_subject
from sfumato.lab.generators.clinic import clinic
from sfumato.lab.generators.population import populate
from sfumato.planning.plan import Plan

CONDITIONS = (
    "dept = 'er'",
    "'icu' = dept",
    "dept IN ('icu', 'surgery')",
    "dept IS NULL",
    "dept <> 'er'",
    "NOT dept = 'er'",
    "urgent",
    "NOT urgent",
    "urgent AND dept = 'icu'",
    "age < 5",
    "age <= 5",
    "age >= 5",
    "5 < age",
    "NOT age < 5",
    "age BETWEEN 7 AND 9",
    "age IN (3, 7)",
    "age = 7",
    "age > 5 OR urgent",
    "age + 1 < 5",
    "age IS NOT NULL",
)
FOUND = {
    ("dept = 'er'", "'icu' = dept"),
    ("dept = 'er'", "dept IN ('icu', 'surgery')"),
    ("dept = 'er'", "NOT dept = 'er'"),
    ("urgent", "NOT urgent"),
    ("dept = 'er'", "urgent AND dept = 'icu'"),
    ("age < 5", "age >= 5"),
    ("age <= 5", "5 < age"),
    ("age < 5", "NOT age < 5"),
    ("age <= 5", "age BETWEEN 7 AND 9"),
    ("age < 5", "age = 7"),
}
ROWS = list(product(["er", "icu", "surgery", None], [True, False, None], [0, 3, 4, 5, 6, 7, 9, None]))


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    policy = clinic()
    with open_subject(policy, populate(policy, 5), tmp_path_factory.mktemp("clinic")) as opened:
        yield opened


def _vector(plan: Plan) -> int:
    return max(0 if group.sums else len(group.vector) for group in plan.groups)


def _counts(*conditions: str) -> str:
    columns = ", ".join(f"COUNT(*) FILTER (WHERE {one}) AS c{at}" for at, one in enumerate(conditions))
    return f"SELECT {columns} FROM visits"  # noqa: S608


def test_conditions_that_are_taken_to_exclude_each_other_do_in_every_row(subject: Subject) -> None:
    found = set()
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE visits (dept VARCHAR, urgent BOOLEAN, age INTEGER)")
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?)", ROWS)
        for one, other in combinations(CONDITIONS, 2):
            if _vector(subject.plan(_counts(one, other))) == 2:
                found.add((one, other))
                both = f"SELECT COUNT(*) FROM visits WHERE ({one}) AND ({other})"  # noqa: S608
                assert connection.execute(both).fetchall() == [(0,)], (one, other)
    assert found >= FOUND


def test_a_pivot_has_the_noise_of_the_table_of_the_same_counts(subject: Subject) -> None:
    pivot = subject.plan(_counts("dept = 'er'", "dept = 'icu'", "dept = 'surgery'"))
    table = subject.plan("SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept")
    assert len({one.mechanism for plan in (pivot, table) for one in plan.groups[0].measured}) == 1
    assert pivot.event is not None
    assert Pure(pivot.loss.epsilon, pivot.private.neighbours) in pivot.event.events  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("sql", "size"),
    [
        (
            "SELECT SUM(CASE WHEN urgent THEN age ELSE 0 END), COUNT(CASE WHEN NOT urgent THEN 1 END) FROM visits",
            2,
        ),
        ("SELECT urgent, SUM(age) FILTER (WHERE age < 4), COUNT(*) FILTER (WHERE age >= 4) FROM visits GROUP BY 1", 2),
        (
            "SELECT SUM(CASE WHEN urgent THEN age ELSE 1 END), COUNT(CASE WHEN NOT urgent THEN 1 END) FROM visits",
            0,
        ),
        ("SELECT COUNT(CASE WHEN dept = 'er' THEN 1 ELSE 0 END), COUNT(*) FILTER (WHERE dept = 'icu') FROM visits", 0),
        ("SELECT COUNT(DISTINCT age) FILTER (WHERE urgent), COUNT(*) FILTER (WHERE NOT urgent) FROM visits", 0),
        ("SELECT COUNT(*) FILTER (WHERE age < 6), COUNT(*) FILTER (WHERE age > 3) FROM visits", 0),
    ],
)
def test_only_what_a_row_moves_once_is_in_a_vector(subject: Subject, sql: str, size: int) -> None:
    assert _vector(subject.plan(sql)) == size


def test_neighbours_move_a_vector_no_further_than_one_of_its_parts(tmp_path: Path) -> None:
    queries = (
        _counts("dept = 'er'", "dept = 'icu'", "dept = 'surgery'"),
        "SELECT city, SUM(age) FILTER (WHERE urgent), COUNT(*) FILTER (WHERE NOT urgent) FROM visits GROUP BY city",
        "SELECT SUM(CASE WHEN age < 6 THEN age ELSE 0 END), COUNT(*) FILTER (WHERE age >= 6) FROM visits",
    )
    policy = clinic()
    population = populate(policy, 5)
    with open_subject(policy, population, tmp_path / "all") as subject:
        recorded = {sql: record(subject, subject.plan(sql), 5) for sql in queries}
    assert all(_vector(one.plan) >= 2 for one in recorded.values())
    assert not [message for one in recorded.values() for message in price_alarms(one)]
    for place, (other, distance) in enumerate(neighbours_of(population, policy, 5).values()):
        with open_subject(policy, other, tmp_path / str(place)) as neighbour:
            for sql, one in recorded.items():
                assert list(compare(one, record(neighbour, neighbour.plan(sql), 5), distance)) == []


def test_under_replace_nothing_is_a_vector(tmp_path: Path) -> None:
    policy = clinic(neighbours="replace")
    with open_subject(policy, populate(policy, 5), tmp_path) as subject:
        assert _vector(subject.plan(_counts("dept = 'er'", "dept = 'icu'"))) == 0
