"""Tools learn columns and types at no cost, and no row of people is read for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.paths.shapes import SHAPES
from tests.paths.worlds import a_world, policy, write
from tests.refusals import refusing

import sfumato
from sfumato.engines.duckdb.engine import DuckDB
from sfumato.errors import EngineFailed, RawRows, Refusal, UnsupportedSql
from sfumato.prepare import RequestedPrice

EMPTY = (
    "SELECT * FROM visits WHERE 0=1",
    'SELECT * FROM "visits" AS "q01" WHERE 0=1',
    "SELECT * FROM visits WHERE FALSE",
    "SELECT * FROM visits WHERE NULL",
    "SELECT TRUE FROM visits WHERE 1 <> 1 LIMIT 0",
    "SELECT * FROM visits LIMIT 0",
    "SELECT * FROM visits WHERE age > 3 AND 1 = 0 ORDER BY day LIMIT 10",
    "SELECT * FROM visits v JOIN patients p USING (patient_id) WHERE 1 = 0",
    "SELECT * FROM (SELECT * FROM visits WHERE 1 = 0) AS t",
    "SELECT dept, COUNT(*) AS n, AVG(cost) FROM visits GROUP BY dept LIMIT 0",
    "SELECT dept, COUNT(*) FROM visits WHERE 'a' = 'b' GROUP BY dept",
    "SELECT dept, COUNT(*) FROM visits GROUP BY dept HAVING NOT TRUE",
    "SELECT DISTINCT city FROM visits WHERE 1 = 0",
    "SELECT city FROM visits WHERE FALSE UNION ALL SELECT ward FROM patients LIMIT 0",
)


@pytest.fixture
def clinic(tmp_path: Path) -> Iterator[sfumato.Database]:
    write(tmp_path, a_world(5, people=30))
    with sfumato.open(policy(tmp_path)) as database:
        yield database


def _unread(*_: object) -> object:
    raise AssertionError("a probe reads no row")


@pytest.mark.parametrize("sql", EMPTY)
def test_a_question_without_rows_is_free_and_reads_nothing(
    clinic: sfumato.Database, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DuckDB, "run", _unread)
    probe = clinic.ask(sql)
    assert (len(probe), clinic.charges(), float(probe.loss.epsilon)) == (0, 0, 0.0)
    described = clinic.describe(sql, {}).columns
    assert [facts.type for facts in probe.facts] == [type for _, type in described]


def test_a_probe_of_every_shape_has_the_columns_and_types_of_its_answer(clinic: sfumato.Database) -> None:
    compared = 0
    for sql in SHAPES:
        try:
            answer = clinic.prepare(sql, None, RequestedPrice("1", None, None, "1e-7"))
            probe = clinic.ask(f"SELECT * FROM ({sql}) AS t WHERE 1 = 0")  # noqa: S608
        except EngineFailed:
            raise
        except Refusal:
            continue
        assert len(probe) == 0
        assert len(probe.columns) == len(answer.plan.private.names)
        compared += 1
    assert compared > 100
    assert clinic.charges() == 0


@pytest.mark.parametrize("sql", ["SELECT 1 FROM visits LIMIT 1", "SELECT 1 AS x FROM (SELECT * FROM visits) t LIMIT 1"])
def test_a_constant_for_one_row_is_answered_without_reading(
    clinic: sfumato.Database, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DuckDB, "run", _unread)
    assert [tuple(row.values()) for row in clinic.ask(sql).rows()] == [(1,)]
    assert clinic.charges() == 0


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 FROM visits WHERE age > 3 LIMIT 1",
        "SELECT 1 FROM visits LIMIT 2",
        "SELECT 1 FROM visits LIMIT 1 OFFSET 5",
        "SELECT 1 FROM visits v JOIN patients p USING (patient_id) LIMIT 1",
    ],
)
def test_whether_or_how_many_rows_there_are_is_not_answered_by_a_constant(clinic: sfumato.Database, sql: str) -> None:
    with pytest.raises((UnsupportedSql, RawRows)):
        clinic.ask(sql, epsilon=1)


@pytest.mark.parametrize("sql", ["SELECT * FROM visits LIMIT 100", "SELECT age, dept FROM visits ORDER BY 1 LIMIT 5"])
def test_a_preview_is_refused_with_a_message_that_a_tool_can_show(clinic: sfumato.Database, sql: str) -> None:
    with pytest.raises(RawRows, match=r"A preview of visits is not available.*preview = \"synthetic\""):
        clinic.ask(sql)


def test_made_up_rows_are_marked_and_follow_the_policy_and_not_the_data(tmp_path: Path) -> None:
    found = []
    for seed in (5, 6):
        folder = tmp_path / str(seed)
        write(folder, a_world(seed, people=30))
        with sfumato.open(policy(folder, preview="synthetic")) as clinic:
            preview = clinic.ask("SELECT * FROM visits LIMIT 1000")
            assert (len(preview), clinic.charges()) == (100, 0)
            assert {row["synthetic"] for row in preview.rows()} == {True}
            assert {row["dept"] for row in preview.rows()} == {"er", "icu", "surgery"}
            assert all(0 <= row["age"] <= 20 and -5 <= row["cost"] <= 10 for row in preview.rows())
            with pytest.raises(RawRows):
                clinic.ask("SELECT age + 1 FROM visits LIMIT 10")
            with refusing():
                clinic.ask("SELECT * FROM visits WHERE age > 3 LIMIT 10")
            found.append(preview.rows())
    assert found[0] == found[1]
