"""The same policy, rows and salt on Spark and on DuckDB: the same refusals, quotes, keys and exact integers."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from tests.engines.spark_under_law import Rows, SparkUnderLaw, as_integer, spark
from tests.engines.test_same_answers import REFUSED, Both
from tests.paths.shapes import SHAPES
from tests.paths.worlds import a_world

from sfumato.engines.spark.dialect import quoted as in_backticks
from sfumato.engines.spark.engine import Spark
from sfumato.engines.sql.names import NUMBER, PATH_UNIT
from sfumato.engines.sql.names import quoted as standard_quoted

EVERY = 10
"""Of the shapes, one in so many: `python -m tests.engines.spark` asks all of them, and 200 more."""


def rows_of_copy(engine: Any, hidden: dict[str, list[str]]) -> dict[str, Rows]:
    """Return every private table of a copy: values, and where people have rows their ids and every hidden number."""
    found, quoted = {}, in_backticks if isinstance(engine, Spark) else standard_quoted
    for name in hidden:
        table = engine.catalog.tables[name]
        columns = [field.stored for field in table.fields]
        columns += [table.owner.stored, *hidden[name]] if table.identity else []
        listed = ", ".join(quoted(column) for column in columns)
        rows = engine._reader.rows(f"SELECT {listed} FROM {engine._tables[name]}")  # noqa: S608
        found[name] = Counter(tuple(map(as_integer, row)) for row in rows)
    return found


def hidden_columns(engine: Spark, name: str) -> list[str]:
    """Return the columns of a table of the copy that no question can name."""
    engine._reader.rows("SELECT 1")  # then the session knows its tables
    columns = spark().table(engine._tables[name]).columns
    return [column for column in columns if column.startswith('"') and column not in (NUMBER, PATH_UNIT)]


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    both = Both(tmp_path_factory.mktemp("same"), SparkUnderLaw(), a_world(2, people=12), groups_per_unit=2)
    yield both
    for engine in both.engines:
        engine.close()


def test_copies_are_the_same_row_for_row(clinic: Both) -> None:
    spark_engine = clinic.engines[1]
    assert isinstance(spark_engine, Spark)
    hidden = {name: hidden_columns(spark_engine, name) for name in ("visits", "patients", "survey")}
    assert len(hidden["visits"]) > 5
    here, there = (rows_of_copy(engine, hidden) for engine in clinic.engines)
    assert here == there
    assert sum(rows.total() for rows in here.values()) > 20


def test_questions_have_the_same_quote_keys_and_integers(clinic: Both) -> None:
    for sql in SHAPES[::EVERY]:
        here, there = (clinic.shown(engine, sql) for engine in clinic.engines)
        assert here == there, sql
        assert len(here) > 2, sql


def test_what_is_refused_is_refused_in_the_same_words(clinic: Both) -> None:
    for sql in REFUSED:
        here, there = (clinic.shown(engine, sql) for engine in clinic.engines)
        assert here == there, sql
