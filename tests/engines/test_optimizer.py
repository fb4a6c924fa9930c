"""What an engine knows of all values of a column decides no answer: one more row changes a count by one at most."""

from itertools import product
from pathlib import Path

import pytest

from sfumato.engines.duckdb.connection import closed_connection, execute
from sfumato.engines.engine import Limits

VALUES = {
    "text": ("'er'", "'oslo'", "'x'"),
    "integer": ("5::BIGINT", "7::BIGINT", "-1::BIGINT"),
    "double": ("2.5::DOUBLE", "0.0::DOUBLE", "-1.0::DOUBLE"),
    "date": ("DATE '2024-01-01'", "DATE '2024-01-02'", "DATE '1999-12-31'"),
    "boolean": ("true", "false", "NULL::BOOLEAN"),
}
ABSENT = (
    "nullif(v, v)",
    "nullif(v, {0})",
    "CASE WHEN v = v THEN NULL ELSE v END",
    "CASE WHEN v = {0} THEN NULL ELSE v END",
    "CASE WHEN v <> {0} THEN v END",
    "CASE WHEN v = {0} THEN NULL ELSE {0} END",
    "coalesce(nullif(v, {0}), v)",
    "list_transform([v], lambda x: CASE WHEN x = {0} THEN NULL ELSE x END)[1]",
    "v",
)
CONDITIONS = (
    "{e} IN ({0}, {1})",
    "{e} IN ({0}, {1}, {2})",
    "{e} NOT IN ({1}, {2})",
    "{e} = {0}",
    "{e} <> {1}",
    "{e} >= {0}",
    "{e} BETWEEN {0} AND {0}",
    "{e} IS NULL",
    "{e} IS NOT NULL",
    "coalesce({e}, {0}) = {0}",
    "NOT ({e} = {1})",
    "({e} = {0}) IS NOT FALSE",
    "CASE WHEN {e} = {0} THEN 1 ELSE 2 END IN (1, 3)",
)


@pytest.mark.parametrize("type", VALUES)
def test_a_condition_means_the_same_whatever_all_other_rows_hold(tmp_path: Path, type: str) -> None:
    """DuckDB 2.0 took `nullif(v, v) IN (…)` for true where every row held the same text."""
    values = VALUES[type]
    with closed_connection([tmp_path], Limits()) as connection:
        execute(connection, f"CREATE TABLE alike AS SELECT {values[0]} AS v FROM range(300)")  # noqa: S608
        execute(connection, f"CREATE TABLE other AS SELECT v FROM alike UNION ALL SELECT {values[1]}")  # noqa: S608
        execute(connection, "CREATE TABLE absent AS SELECT v FROM alike UNION ALL SELECT NULL")
        for expression, condition in product(ABSENT, CONDITIONS):
            where = condition.format(*values, e=expression.format(*values))
            alike, *more = (
                execute(connection, f"SELECT count(*) FROM {table} WHERE {where}")[0][0]  # noqa: S608
                for table in ("alike", "other", "absent")
            )
            assert all(abs(count - alike) <= 1 for count in more), where
