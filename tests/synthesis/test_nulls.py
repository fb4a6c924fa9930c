"""NULL as a value: a cell of its own in every marginal, exactly one cell for each row, NULL in rows; and fresh ids."""

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.refusals import refusing
from tests.sources import HashSource
from tests.synthesis.tables import made
from tests.synthesis.test_database import ROWS, opened, policy

import sfumato
from sfumato.errors import BadParameter, UnknownName, UnsupportedSql
from sfumato.synthesis.domain import Nullable, Range, read_domain
from sfumato.synthesis.synthesize import synthesize, synthesize_table

BIG: dict[str, Any] = {
    "epsilon": 10_000,
    "delta": "0.4",
}  # noise of a deviation far below 1: the counts can be read off
DOMAINS: list[tuple[Any, list[Any], list[int]]] = [
    (["er", "icu"], ["icu", None, float("nan"), "nowhere", "er", pd.NA, pd.NaT], [1, 2, 2, -1, 0, 2, 2]),
    ([1, 2.5], [2.5, None, 3], [1, 2, -1]),
    (Range(0, 10, 5), [9.0, None, float("nan"), float("inf"), 99], [4, 5, 5, -1, 4]),
    (Range(0, 3, 9, whole=True), [3, None, "x", 0], [3, 4, -1, 0]),
    (Range(date(2024, 1, 1), date(2024, 1, 4), 2), [date(2024, 1, 4), None, pd.NaT, 5], [1, 2, 2, -1]),
]


@pytest.mark.parametrize(("domain", "values", "cells"), DOMAINS)
def test_null_has_the_last_cell_and_what_is_not_declared_has_none(domain: Any, values: Any, cells: list[int]) -> None:
    column = Nullable(*read_domain({"c": domain}))
    assert column.codes(values).tolist() == cells
    assert [column.codes([value]).tolist() for value in values] == [[cell] for cell in cells]  # each alone
    drawn = column.drawn(np.arange(column.size), np.full(column.size, 0.5))
    assert (drawn.null_count, drawn[column.size - 1].as_py()) == (1, None)
    assert drawn.type == column.arrow
    assert column.label(column.size - 1) == "NULL"


def test_without_a_declaration_null_is_absent_as_before() -> None:
    for domain in (["er", "icu"], Range(0, 10, 5)):
        (column,) = read_domain({"c": domain})
        assert column.codes([None, float("nan")]).tolist() == [-1, -1]
    for bad in ([None], ["er", None]):
        with pytest.raises(BadParameter):
            read_domain({"c": bad})
    for wrong in ("c", ["d"], [1]):
        with pytest.raises((BadParameter, UnknownName)):
            made(HashSource("nulls"), data={"c": [1]}, domain={"c": [1]}, nulls=wrong)


def test_nulls_follow_the_other_columns() -> None:
    random = np.random.default_rng(1)
    dept = random.choice(["er", "icu"], 4000)
    cost = [None if where == "icu" and random.random() < 0.8 else float(random.random()) for where in dept]
    given: dict[str, Any] = {
        "data": {"dept": dept.tolist(), "cost": cost},
        "domain": {"dept": ["er", "icu"], "cost": Range(0, 1, 4)},
    }
    found = made(HashSource("nulls"), epsilon=5, nulls=["cost"], **given)
    rows = found.table().to_pandas()
    assert abs(rows[rows.dept == "icu"].cost.isna().mean() - 0.8) < 0.05
    assert rows[rows.dept == "er"].cost.isna().mean() < 0.05
    answer = found.sql(
        "SELECT COUNT(*) AS n, COUNT(cost) AS known, COUNT(*) FILTER (WHERE cost IS NULL) AS gone FROM t"
    )
    (everybody, known, gone) = answer.rows[0]
    assert abs(everybody - 4000) < 50
    assert abs(known + gone - everybody) < 1e-6
    assert abs(gone - sum(value is None for value in cost)) <= answer.margins[0][2]
    answer = found.sql("SELECT AVG(cost) AS c FROM t")
    (mean,), (margin,) = answer.rows[0], answer.margins[0]
    assert margin is not None
    assert abs(mean - 0.5) <= margin


def test_through_the_database_a_row_with_null_is_in_one_cell_of_every_marginal(tmp_path: Path) -> None:
    given = [row for place, row in enumerate(ROWS) if place != 2]  # at most two rows of each person
    with opened(tmp_path, given, epsilon=100_000) as db:
        plain = synthesize(db, "visits", columns=["age", "dept"], **BIG)
        same = synthesize(db, "visits", columns=["age", "dept"], **BIG, nulls=[], ids=["patient_id", "note"])
        assert (same.receipt, same.event) == (plain.receipt, plain.event)
        found = synthesize(db, "visits", columns=["age", "dept"], **BIG, nulls=["AGE"], bins=11)
        assert found.receipt != plain.receipt
        both = synthesize(
            db, "visits", columns=["age", "dept", "urgent"], **BIG, nulls=["dept", "age", "urgent"], bins=11
        )
    present = [row for row in given if row[0] is not None and row[2] != "nowhere"]
    wanted = np.zeros((12, 2))
    for row in present:
        cell = 11 if row[1] is None else min(max(row[1], 0), 120) * 11 // 121
        wanted[cell, ["er", "icu"].index(row[2])] += 1
    assert wanted[11].sum() == 1
    assert wanted[10].sum() == 1  # 130 is at the bound, and not NULL
    assert found.marginal(["age", "dept"]).counts.round().astype(int).tolist() == wanted.astype(int).tolist()
    assert {round(both.marginal(name).counts.sum()) for name in ("age", "dept", "urgent")} == {len(present) + 1}
    assert both.marginal("dept").counts.round().tolist()[2] == 1  # a text that was not declared is NULL in a database
    assert both.marginal("urgent").counts.round().tolist()[2] == 0
    assert same.table().column_names == ["patient_id", "note", "age", "dept"]


@pytest.mark.parametrize("column", ["cost", "day"])
def test_every_kind_of_column_can_hold_null(tmp_path: Path, column: str) -> None:
    rows: list[tuple[Any, ...]] = [
        (1, 30, "er", None, None, True),
        (2, 30, "er", 1.5, date(2024, 1, 5), None),
        (3, 30, None, 8.0, date(2024, 12, 31), None),
    ]
    with opened(tmp_path, rows, epsilon=100_000) as db:
        found = synthesize(db, "visits", columns=[column, "dept"], **BIG, nulls=[column, "dept"])
        counts = found.marginal([column, "dept"]).counts.round().astype(int)
    assert counts.sum() == 3
    assert (counts[-1, 0], counts[-2, 2], counts[:, 1].sum()) == (1, 1, 0)  # NULL, er; the last value, NULL; icu
    assert found.table().num_rows == 3


def test_names_of_nulls_and_ids_are_checked_before_anything_is_charged(tmp_path: Path) -> None:
    with opened(tmp_path) as db:
        given: dict[str, Any] = {"columns": ["age", "dept"], "epsilon": 1, "delta": "1e-6"}
        for wrong, kind in (
            ({"nulls": "age"}, BadParameter),
            ({"nulls": ["urgent"]}, UnknownName),
            ({"ids": "id"}, BadParameter),
            ({"ids": ["age"]}, BadParameter),
            ({"ids": ["nobody"]}, UnknownName),
            ({"ids": ["urgent"]}, BadParameter),
        ):
            with refusing() as caught:
                synthesize(db, "visits", **given, **wrong)
            assert isinstance(caught.value, kind)
        assert db.budget().used == 0


def test_null_is_refused_where_no_date_is_left_for_it(tmp_path: Path) -> None:
    rows: list[tuple[Any, ...]] = [(1, 30, "er", 1.0, None, True), (2, 30, "er", 1.0, date.max, True)]
    opened(tmp_path, rows).close()
    declared: Any = policy(tmp_path, 100_000)
    declared["ledger"] = f"sqlite:{tmp_path / 'other.ledger'}"
    declared["tables"]["visits"]["columns"]["day"]["bounds"] = [date(9990, 1, 1), date.max]
    with sfumato.open(declared) as db:
        with pytest.raises(UnsupportedSql, match="no value left for NULL"):
            synthesize(db, "visits", columns=["day", "dept"], **BIG, nulls=["day"])
        assert db.budget().used == 0


def test_ids_are_new_and_different_in_every_row() -> None:
    data, domain = {"a": [True, False] * 50}, {"a": [False, True]}
    found = synthesize_table(data, domain, epsilon=2, delta="1e-6", rows=40, ids=["id"])
    assert found.columns == ("a",)
    for rows in (0, 1, 500):
        table = found.sample(rows)
        assert table.column_names == ["id", "a"]
        assert table["id"].to_pylist() == list(range(1, rows + 1))
    assert found.table()["id"].type == pa.int64()
    with pytest.raises(BadParameter, match="twice"):
        synthesize_table(data, domain, epsilon=2, delta="1e-6", ids=["A"])
