"""Values that are measured first: charged with the rest, used as constants, and the same when an answer is shown again.

The noise comes from fixed bits. Laws over small databases hold for every neighbour and every value that is tried.
"""

# ruff: noqa: S608 - questions are written by hand here, never from anybody's input

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from tests.refusals import refusing

import sfumato
from sfumato.accounting.event import Composed
from sfumato.accounting.pure import epsilon
from sfumato.errors import UnreachableMargin, UnsupportedSql
from sfumato.planning.noise import event_of
from sfumato.prepare import RequestedPrice
from sfumato.release.stages import bind

AVERAGE = "(SELECT AVG(pay) FROM people)"
QUESTIONS = (
    f"SELECT COUNT(*) AS n FROM people WHERE pay > {AVERAGE}",
    f"SELECT SUM(CASE WHEN pay <= 1.5 * {AVERAGE} THEN pay ELSE 0 END) AS n FROM people",
    f"SELECT city, COUNT(*) AS n FROM people WHERE pay > {AVERAGE} GROUP BY city",
    "SELECT COUNT(*) AS n FROM people WHERE pay < (SELECT SUM(days) FROM visits WHERE days > 1) AND EXISTS (SELECT * "
    "FROM visits v WHERE v.person = people.person)",
    f"SELECT COUNT(*) AS n FROM visits v JOIN people p ON p.person = v.person WHERE p.pay > {AVERAGE} AND v.days > "
    "(SELECT COUNT(*) FROM visits) / 9",
    f"SELECT COUNT(*) AS n FROM people WHERE pay > (SELECT AVG(pay) FROM people WHERE pay > {AVERAGE})",
    "SELECT COUNT(*) AS n FROM people WHERE pay > (SELECT MAX(n) FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY "
    "city) t)",
)
PEOPLE = [(1, 10, "rome"), (2, 40, "oslo"), (3, 90, "rome"), (4, 55, "oslo"), (5, 0, None)]
VISITS = [(1, 2), (1, 5), (2, 1), (3, 9), (3, 9), (4, 3)]


KEY = {"type": "integer"}
TABLES: dict[str, object] = {
    "people": {
        "unit": "person",
        "rows_per_unit": 1,
        "columns": {
            "person": KEY | {"unique": True},
            "pay": {"type": "integer", "bounds": [0, 100]},
            "city": {"type": "text", "values": ["rome", "oslo"]},
        },
    },
    "visits": {
        "unit": "person",
        "rows_per_unit": 2,
        "columns": {"person": KEY, "days": {"type": "integer", "bounds": [0, 9]}},
    },
    "towns": {"public": True},
}


def rows_of(without: int | None = None) -> dict[str, pa.Table]:
    """Return the tables, perhaps without a person."""
    people = [row for row in PEOPLE if row[0] != without]
    visits = [row for row in VISITS if row[0] != without]
    return {
        "people": pa.table({name: [row[at] for row in people] for at, name in enumerate(("person", "pay", "city"))}),
        "visits": pa.table({name: [row[at] for row in visits] for at, name in enumerate(("person", "days"))}),
        "towns": pa.table({"town": ["rome", "oslo", "oslo"], "code": [1, 2, 3]}),
    }


def _open(folder: Path, without: int | None = None, delta: float = 0) -> sfumato.Database:
    folder.mkdir(parents=True)
    return sfumato.open(
        {
            "name": "pay",
            "source": rows_of(without),
            "ledger": f"sqlite:{folder / 'ledger'}",
            "budget": {"epsilon": 50, "delta": delta},
            "tables": TABLES,
        }
    )


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[sfumato.Database]]:
    folder = tmp_path_factory.mktemp("pay")
    opened = [_open(folder / str(person), person) for person in (None, 1, 3)]
    yield opened
    for db in opened:
        db.close()


@pytest.mark.parametrize("sql", QUESTIONS)
def test_no_value_lets_a_person_move_what_comes_after_it_further(databases: list[sfumato.Database], sql: str) -> None:
    whole, *others = (db.prepare(sql, None, RequestedPrice("1")) for db in databases)
    for value in (None, 0, 7, 50 * 10**6, 10**15):
        bound = {first.label: (value,) * len(first.items) for first in whole.plan.private.first}
        stages = [bind(asked.plan, bound) for asked in (whole, *others)]
        first, *rest = (
            asked.engine.run(asked.engine.prepare(stage)).groups
            for asked, stage in zip((whole, *others), stages, strict=True)
        )
        for plan, mine, *theirs in zip(whole.plan.groups, first, *rest, strict=True):
            for measured in plan.measured:
                for other in theirs:
                    pairs = zip(mine.columns[measured.name], other.columns[measured.name], strict=True)
                    assert sum(abs(int(one) - int(two)) for one, two in pairs) <= measured.sensitivity.l1, (sql, value)


@pytest.mark.parametrize("sql", QUESTIONS)
def test_both_parts_are_charged(databases: list[sfumato.Database], sql: str) -> None:
    plan = databases[0].prepare(sql, None, RequestedPrice("1")).plan
    assert plan.private.first
    assert isinstance(plan.event, Composed)
    parts = [epsilon(event) for group in plan.groups if (event := event_of((group,))) is not None]
    assert len(parts) == len(plan.groups) >= 2
    assert sum(parts, Fraction(0)) == epsilon(plan.event) == plan.loss.epsilon <= 1


@pytest.mark.parametrize("sql", QUESTIONS)
def test_statements_name_the_value_that_is_not_known_yet(databases: list[sfumato.Database], sql: str) -> None:
    statements = databases[0].statements(sql, epsilon="1")
    plan = databases[0].prepare(sql, None, RequestedPrice("1")).plan
    values = sum(len(first.items) for first in plan.private.first)
    text = "\n".join(statement.sql for statement in statements)
    assert all(f":measured_first_{place}" in text for place in range(1, values + 1))
    assert "987654321" not in text


def test_a_quote_shows_the_split_and_an_answer_its_value(databases: list[sfumato.Database]) -> None:
    db, sql = databases[0], QUESTIONS[0]
    note = next(note for note in db.explain(sql, epsilon="4").notes if "measured first" in note)
    assert note.startswith("Rows are compared with a value that is measured first, for ε = 2.")
    assert "of 4." in note
    spent = db.budget().spent.epsilon
    release = db.ask(sql, epsilon="4")
    assert db.budget().spent.epsilon == spent + 4
    (value,) = (note for note in release.notes if note.startswith("Rows were compared"))
    assert db.ask(sql, epsilon="4").rows() == release.rows(), "the same question is free"
    again = db.reopen(release.receipt.id)
    assert again.rows() == release.rows()
    assert value in again.notes
    assert db.budget().spent.epsilon == spent + 4


def test_what_was_compared_with_another_value_answers_nothing(databases: list[sfumato.Database]) -> None:
    """A threshold is drawn anew with each charge: its rows are not those of another answer."""
    db, sql = databases[0], f"SELECT COUNT(*) AS n FROM people WHERE pay >= {AVERAGE}"
    db.ask(sql, epsilon="3")
    spent = db.budget().spent.epsilon
    finer = db.ask(sql, epsilon="4")
    coarser = db.ask(sql, epsilon="2")
    assert db.budget().spent.epsilon == spent + 6
    assert not finer.receipt.rests_on
    assert not finer.receipt.refines
    assert not coarser.receipt.rests_on
    with refusing() as refused:
        db.ask(f"SELECT SUM(pay) AS s FROM people WHERE pay >= {AVERAGE}", epsilon=0)
    assert refused.value.code == "not_known"


def test_gaussian_noise_is_split_too(tmp_path: Path) -> None:
    with _open(tmp_path / "delta", delta=1e-6) as db:
        quote = db.explain(f"SELECT city, COUNT(*) AS n FROM people WHERE pay > {AVERAGE} GROUP BY city", epsilon="0.1")
        assert any("measured first" in note for note in quote.notes)


def test_what_depends_on_the_row_around_it_or_is_one_of_several_is_refused(databases: list[sfumato.Database]) -> None:
    db = databases[0]
    for sql in (
        "SELECT COUNT(*) FROM people p WHERE pay > (SELECT AVG(pay) FROM people q WHERE q.city = p.city)",
        "SELECT COUNT(*) FROM people p WHERE pay > (SELECT pay FROM people q WHERE q.city = 'rome')",
        "SELECT COUNT(*) FROM people p WHERE city = (SELECT MODE(city) FROM people)",
        "SELECT COUNT(*) FROM people p LEFT JOIN (SELECT city, COUNT(*) AS n FROM people GROUP BY city) t ON TRUE",
    ):
        with refusing():
            db.explain(sql, epsilon="1")
    with pytest.raises(UnreachableMargin):
        db.explain(QUESTIONS[0], within={"n": 5})
    with pytest.raises(UnsupportedSql):
        db.ask_all([QUESTIONS[0], "SELECT COUNT(*) FROM visits"], epsilon="1")


def test_a_public_row_that_is_the_only_one_is_a_value(databases: list[sfumato.Database]) -> None:
    db = databases[0]
    inner = "SELECT code FROM towns WHERE town = city"
    assert db.explain(f"SELECT COUNT(*) FROM people WHERE pay > ({inner} AND code < 3)", epsilon="1")
    assert db.ask("SELECT (SELECT code FROM towns WHERE town = 'rome') AS c FROM towns").rows() == [{"c": 1}] * 3
    for sql in (
        f"SELECT COUNT(*) FROM people WHERE pay > ({inner})",
        "SELECT (SELECT code FROM towns) AS c FROM towns",
    ):
        with pytest.raises(UnsupportedSql, match="several rows"):
            db.explain(sql, epsilon="1")


def test_rows_of_one_person_from_several_tables_are_that_persons(databases: list[sfumato.Database]) -> None:
    db = databases[0]
    both = "(SELECT person AS p, days AS x FROM visits UNION ALL SELECT person, pay FROM people)"
    twice = f"SELECT p, COUNT(*) AS c FROM {both} t GROUP BY p"
    for sql, most in (
        (f"SELECT COUNT(*) FROM {both} t", 3),
        (f"SELECT COUNT(*) FROM people WHERE EXISTS (SELECT * FROM {both} t WHERE p = person AND x > 3)", 1),
        (
            "SELECT COUNT(*) FROM people WHERE person IN (SELECT person FROM visits UNION ALL SELECT person FROM "
            "people)",
            1,
        ),
        (f"SELECT COUNT(*) FROM ({twice}) t WHERE c > 1", 1),
        (
            f"SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY p ORDER BY x) AS r FROM {both} t) u "
            "WHERE r = 1",
            1,
        ),
        (f"SELECT COUNT(*) FROM {both} t JOIN people ON person = p", 3),
    ):
        (group,) = db.prepare(sql, None, RequestedPrice("1")).plan.groups
        assert group.group.contribution.rows == most, sql
    with refusing():
        db.explain(
            "SELECT COUNT(*) FROM people WHERE EXISTS (SELECT * FROM (SELECT days AS p FROM visits UNION ALL "
            "SELECT person FROM people) t WHERE p = person)",
            epsilon="1",
        )


def test_rows_that_were_compared_with_different_values_are_not_one_table(tmp_path: Path) -> None:
    """Two groups over the same rows but for the value: averaged as margins of one table, both would be wrong."""
    sql = (
        f"SELECT a.n, b.city, b.m FROM (SELECT COUNT(*) AS n FROM people WHERE pay > {AVERAGE}) a, (SELECT city, "
        "COUNT(*) AS m FROM people WHERE pay > (SELECT AVG(days) FROM visits) GROUP BY city) b"
    )
    with _open(tmp_path / "both") as db:
        plan = db.prepare(sql, None, RequestedPrice("40")).plan
        assert len(plan.private.first) == len({"average of pay", "average of days"})
        assert not plan.tables
        margins = sql.replace("(SELECT AVG(days) FROM visits)", "7").replace(AVERAGE, "7")
        assert db.prepare(margins, None, RequestedPrice("40")).plan.tables, "of one value they are"
