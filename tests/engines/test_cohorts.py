"""On every engine that keeps cohorts: a person stays in their first cohort, and statements keep to those that pay."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engines.postgres_under_law import _load, fill, source_url, url

import sfumato
from sfumato.database import Database
from sfumato.engines.sql.names import quoted

People = dict[int, str | None]
Source = tuple[Any, Callable[[People], Any]]
HUGE = 10**6
"""At this epsilon the noise is 0 but once in e^HUGE."""


def tables_of(people: People) -> dict[str, pa.Table]:
    """Return the tables of some people: each has two visits."""
    ids = pa.array(list(people), pa.int64())
    visits = pa.array([one for one in people for _ in range(2)], pa.int64())
    return {
        "patients": pa.table({"id": ids, "region": pa.array(list(people.values()), pa.string())}),
        "visits": pa.table({"id": visits, "cost": pa.array([1] * len(visits), pa.int64())}),
    }


def _frames(people: People) -> Source:
    def changed(later: People) -> Any:
        return {name: pl.from_arrow(table) for name, table in tables_of(later).items()}

    return changed(people), changed


def _postgres(people: People) -> Source:
    schema = fill(tables_of(people))

    def changed(later: People) -> Any:
        with psycopg.connect(url(), autocommit=True) as connection:
            for name, table in tables_of(later).items():
                _load(connection, f"{schema}.{quoted(name)}", table, "TABLE")
        return source_url(schema)

    return source_url(schema), changed


def parquet_source(folder: Path, scheme: str) -> Callable[[People], Source]:
    """Return how people are written as Parquet files of a folder."""

    def written(people: People) -> Any:
        folder.mkdir(exist_ok=True)
        for name, table in tables_of(people).items():
            pq.write_table(table, folder / f"{name}.parquet")
        return f"{scheme}:{folder}"

    return lambda people: (written(people), written)


ENGINES: dict[str, Callable[[People], Source]] = {"duckdb": _frames, "postgres": _postgres}


@pytest.mark.parametrize("name", ENGINES)
def test_a_person_stays_in_their_first_cohort_on_every_engine(name: str, tmp_path: Path) -> None:
    require_first_cohorts(ENGINES[name], tmp_path)


def require_first_cohorts(source_of: Callable[[People], Source], folder: Path) -> None:
    """Check on one engine who is read before and after people moved; laws of other processes use it, too."""
    first: People = {1: "north", 2: "north", 3: "south", 4: None}
    later: People = {1: "south", 2: "north", 3: "north", 4: "north", 5: "north"}
    source, changed = source_of(first)
    columns = {"id": {"type": "integer"}, "region": {"type": "text", "values": ["north", "south"]}}
    cost = {"id": {"type": "integer"}, "cost": {"type": "integer", "bounds": [0, 9]}}
    policy = {
        "name": "clinic",
        "source": source,
        "ledger": f"sqlite:{folder / 'ledger'}",
        "cohort": "patients.region",
        "budget": {"epsilon": 20 * HUGE, "delta": "1e-6", "truncation": 1},
        "tables": {
            "patients": {"unit": "id", "rows_per_unit": 1, "columns": columns},
            "visits": {"unit": "id", "rows_per_unit": {"most": 4, "choose": "private"}, "columns": cost},
        },
    }
    with sfumato.open(policy) as database:
        assert _counted(database) == {"north": (2, 4), "south": (1, 2), "all": (4, 8)}
    with sfumato.open({**policy, "source": changed(later)}) as database:
        before = database.budget().cohorts
        database.refresh()
        # 2 and 5 live in the north and were registered there; nobody who was registered in the south lives there
        assert _counted(database) == {"north": (2, 4), "south": (0, 0), "all": (5, 10)}
        assert database.budget().cohorts.keys() == before.keys() == {"north", "south", "other"}
        database.verify()


def _counted(database: Database) -> dict[str, tuple[int, int]]:
    found = {}
    for cohort in ("north", "south", "all"):
        where = "" if cohort == "all" else f" WHERE region = '{cohort}'"
        people = f"SELECT COUNT(*) AS n FROM patients{where}"  # noqa: S608
        costs = f"SELECT SUM(cost) AS n FROM visits JOIN patients USING (id){where}"  # noqa: S608
        answers = [database.ask(sql, epsilon=HUGE) for sql in (people, costs)]
        assert {len(answer.receipt.cohorts) for answer in answers} == {3 if cohort == "all" else 1}
        found[cohort] = (answers[0].rows()[0]["n"], answers[1].rows()[0]["n"])
    return found
