"""What costs nothing has limits: of rows, of bytes and of seconds."""

# ruff: noqa: S608 - questions are written by hand here, never from anybody's input
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.paths.worlds import a_world, policy, write

import sfumato
from sfumato.engines import time_limit
from sfumato.engines.sql import public
from sfumato.errors import EngineFailed, FreeLimit, QueryTooLarge, Refusal

TEN = "(VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (0))"
CROSSED = " CROSS JOIN ".join(f"{TEN} AS t{place} (x)" for place in range(12))
DEPTS = "(SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept)"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    with sfumato.open(_clinic(tmp_path_factory.mktemp("free"), 200_000)) as opened:
        yield opened


def _clinic(folder: Path, rows: int) -> dict[str, Any]:
    """Write a clinic and a public table of so many rows; return its policy."""
    write(folder, a_world(1))
    pq.write_table(
        pa.table({"n": pa.array(range(rows)), "one": pa.array([1] * rows)}), folder / "data" / "many.parquet"
    )
    return policy(folder, tables={**policy(folder)["tables"], "many": {"public": True}})


def _seconds(action: Callable[[], object]) -> float:
    begun = time.monotonic()
    with pytest.raises((FreeLimit, QueryTooLarge)):
        action()
    return time.monotonic() - begun


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT COUNT(*) FROM {CROSSED}",
        f"SELECT COUNT(*) FROM visits v JOIN (SELECT t1.x FROM {CROSSED}) p ON v.age = p.x",
        f"SELECT COUNT(*) FROM visits v CROSS JOIN (SELECT t1.x FROM {CROSSED}) p",
        "SELECT COUNT(*) FROM many a CROSS JOIN many b",
        "SELECT COUNT(*) FROM many a JOIN many b ON a.n < b.n",
        "SELECT COUNT(*) FROM visits v JOIN (SELECT a.n FROM many a CROSS JOIN many b) p ON v.age = p.n",
        f"SELECT COUNT(*) FROM {', '.join(f'{DEPTS} d{place}' for place in range(18))}",
    ],
)
def test_what_the_text_shows_to_be_too_much_is_refused_at_once(database: sfumato.Database, sql: str) -> None:
    assert _seconds(lambda: database.explain(sql, epsilon="0.5")) < 2 if "visits" in sql else True
    assert _seconds(lambda: database.ask(sql, epsilon="0.5" if "visits" in sql else None)) < 2


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM many a JOIN many b ON a.one = b.one JOIN many c ON a.one = c.one",
        "SELECT COUNT(*) FROM visits v JOIN (SELECT a.n FROM many a JOIN many b ON a.one = b.one JOIN many c "
        "ON a.one = c.one WHERE a.n + b.n + c.n = -1) p ON v.age = p.n",
    ],
)
def test_what_takes_too_long_all_the_same_is_stopped(
    database: sfumato.Database, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    """Joins by an equality are taken to be cheap; here all rows are equal, and there are 8·10^15 pairs."""
    monkeypatch.setattr(time_limit, "FREE_QUERY_SECONDS", 0.5)
    assert _seconds(lambda: database.ask(sql, epsilon="0.5" if "visits" in sql else None)) < 10
    assert database.ask("SELECT COUNT(*) FROM staff").rows() == [{"count": 3}]


def test_public_rows_that_meet_people_are_limited(database: sfumato.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.engines.sql.public.MAX_MATERIALIZED_ROWS", 1000)
    with pytest.raises(FreeLimit):
        database.explain(
            "SELECT COUNT(*) FROM visits v JOIN (SELECT n * 2 AS n FROM many) m ON v.age = m.n", epsilon="0.5"
        )


def test_as_many_public_rows_meet_people_as_the_limits_of_rows_and_memory_allow(tmp_path: Path) -> None:
    """The limits are lowered: rows to 1,000, memory to what 500 rows of one number and their rank need."""
    at_most = "SELECT COUNT(*) FROM visits v JOIN (SELECT n FROM many WHERE n < {}) m ON v.age = m.n"

    def is_answered(rows: int) -> bool:
        with suppress(FreeLimit):
            return bool(opened.ask(at_most.format(rows), epsilon="0.1").rows())
        return False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(public, "MAX_MATERIALIZED_ROWS", 1000)
        with sfumato.open(_clinic(tmp_path / "rows", 2000)) as opened:
            assert [is_answered(rows) for rows in (999, 1000, 1001)] == [True, True, False]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(public, "MIN_MATERIALIZED_BYTES", 500 * 16)
        patch.setattr("sfumato.engines.engine.Limits.memory_bytes", 0)
        with sfumato.open(_clinic(tmp_path / "bytes", 2000)) as opened:
            assert [is_answered(rows) for rows in (499, 500, 501)] == [True, True, False]


def test_an_answer_over_public_tables_has_a_limit(database: sfumato.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.engines.duckdb.reader.MAX_PUBLIC_RESULT_ROWS", 15_000)
    with pytest.raises(FreeLimit):
        database.ask("SELECT n FROM many")
    assert len(database.ask("SELECT n FROM many WHERE n < 12000").rows()) == 12_000
    monkeypatch.setattr("sfumato.engines.duckdb.reader.MAX_PUBLIC_RESULT_CHARS", 100)
    with pytest.raises(FreeLimit):
        database.ask("SELECT CAST(n AS text) FROM many WHERE n < 1000")


@pytest.mark.parametrize("epsilon", ["1e-30", "1e-9", "0.1", "1", "1000000"])
@pytest.mark.parametrize("delta", ["0", "1e-30", "1e-6"])
def test_a_quote_takes_no_time_whatever_the_price(database: sfumato.Database, epsilon: str, delta: str) -> None:
    numbers = "SELECT dept, COUNT(*), AVG(cost), VAR_POP(age) FROM visits GROUP BY dept"
    selected = "SELECT city, COUNT(*), SUM(age) FROM visits GROUP BY city"
    for sql in (numbers, selected):
        begun = time.process_time()  # of the processor: a busy machine is not slow here
        try:
            database.explain(sql, epsilon=epsilon, delta=delta)
        except EngineFailed:
            raise
        except Refusal:
            pass  # some of these prices protect nobody, or choose no key
        assert time.process_time() - begun < 2
