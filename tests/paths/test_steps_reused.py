"""Columns that share one price are known, combined and refined as any others, and never above the price asked for."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from tests.paths.worlds import a_world, policy, write

import sfumato
from sfumato.planning.quote import AnswerSource
from sfumato.prepare import RequestedPrice

PIVOT = ("dept = 'er'", "dept = 'icu'", "dept = 'surgery'")
FUNNEL = ("urgent", "urgent AND dept = 'er'", "urgent AND dept = 'er' AND age > 4")
EPSILON = 2000
"""Noise of a count is below a half: numbers are as exact as they are told."""


def _asked(conditions: tuple[str, ...]) -> str:
    listed = ", ".join(f"COUNT(*) FILTER (WHERE {one}) AS c{at}" for at, one in enumerate(conditions))
    return f"SELECT {listed} FROM visits"  # noqa: S608


@pytest.fixture(params=[0, "1e-6"], ids=["pure", "with a delta"])
def own(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[sfumato.Database]:
    write(tmp_path, a_world(5, people=60))
    with sfumato.open(policy(tmp_path, budget={"epsilon": 10**6, "delta": request.param})) as database:
        yield database


@pytest.mark.parametrize("conditions", [PIVOT, FUNNEL], ids=["a pivot", "a funnel"])
def test_more_accuracy_is_bought_and_never_above_the_price(own: sfumato.Database, conditions: tuple[str, ...]) -> None:
    """Three columns that are one vector: asked again at a higher price, they become as exact as a fresh answer."""
    sql = _asked(conditions)
    fresh = {price: own.explain(sql, epsilon=price).margins for price in ("0.1", "0.25", "0.5")}
    for before, price in (("0", "0.1"), ("0.1", "0.25"), ("0.25", "0.5")):
        quote = own.explain(sql, epsilon=price)
        assert all((quote.margins[name] or 0) <= (fresh[price][name] or 0) + 1 for name in quote.margins)
        charged = own.ask(sql, epsilon=price).loss.epsilon
        assert charged == quote.loss.epsilon <= Fraction(price)
        if own.policy.budget.delta == 0 and before != "0":
            assert quote.source is AnswerSource.REFINED
            assert charged == Fraction(price) - Fraction(before)
    for price in ("0.1", "0.25", "0.5"):  # what is as exact as this is free
        assert own.explain(sql, epsilon=price).loss.epsilon == 0


def test_each_count_of_a_funnel_is_known_and_the_whole_from_its_parts(own: sfumato.Database) -> None:
    (row,) = own.ask(_asked(FUNNEL), epsilon=EPSILON).rows()
    for place, condition in enumerate(FUNNEL):
        release = own.ask(f"SELECT COUNT(*) AS n FROM visits WHERE {condition}", epsilon=EPSILON)  # noqa: S608
        assert release.rows()[0]["n"] == row[f"c{place}"]
        (known,) = own.ask(_asked((condition,)), epsilon=0).rows()
        assert known["c0"] == row[f"c{place}"]
    pair = own.ask(_asked(FUNNEL[:2]), epsilon=0)
    assert pair.rows()[0] == {"c0": row["c0"], "c1": row["c1"]}


def test_a_funnel_is_known_from_counts_asked_apart(own: sfumato.Database) -> None:
    sql = "SELECT COUNT(*) FILTER (WHERE age > 4) AS a, COUNT(*) FILTER (WHERE dept = 'er') AS b, COUNT(*) AS n "
    (row,) = own.ask(f"{sql} FROM visits", epsilon=EPSILON).rows()
    known = own.ask("SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE age > 4) AS a FROM visits", epsilon=0)
    assert known.rows() == [{"n": row["n"], "a": row["a"]}]
    low, high = known.intervals()[0]["n"]
    assert low <= row["n"] <= high


def test_cells_of_a_grouped_funnel_add_up(own: sfumato.Database) -> None:
    rows = own.ask(
        "SELECT urgent, COUNT(*) AS n, COUNT(*) FILTER (WHERE age > 4) AS a FROM visits GROUP BY urgent",
        epsilon=EPSILON,
    ).rows()
    known = own.ask("SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE age > 4) AS a FROM visits", epsilon=0)
    exact = own.ask("SELECT COUNT(*) AS n FROM visits WHERE urgent IS NOT NULL", epsilon=EPSILON).rows()
    assert known.rows()[0]["n"] >= sum(row["n"] for row in rows) == exact[0]["n"]


def test_a_funnel_that_is_nothing_but_noise_says_so(own: sfumato.Database) -> None:
    margins, release = own.explain(_asked(FUNNEL), epsilon="0.01").margins, own.ask(_asked(FUNNEL), epsilon="0.01")
    (row,) = release.rows()
    within = [name for name, value in row.items() if abs(value) <= (margins[name] or 0)]
    assert [note.split("`")[1] for note in release.notes if note.startswith("No value of")] == within


def test_rows_outside_the_bounds_of_a_key_are_those_of_all_steps(tmp_path: Path) -> None:
    """60 of 200 rows lie outside, and half of them are urgent: the note tells of all."""
    rows: dict[str, Any] = {
        "patient_id": list(range(200)),
        "age": [3] * 140 + [90] * 60,
        "urgent": [at % 2 == 0 for at in range(200)],
    }
    (tmp_path / "extra").mkdir()
    pyarrow.parquet.write_table(pyarrow.table(rows), tmp_path / "extra" / "visits.parquet")
    columns: dict[str, Any] = {"patient_id": {"type": "integer"}, "age": {"type": "integer", "bounds": [0, 9]}}
    words: dict[str, Any] = {
        "source": f"parquet:{tmp_path}/extra",
        "ledger": f"sqlite:{tmp_path}/extra.ledger",
        "budget": {"epsilon": 10**6, "delta": 0},
        "tables": {
            "visits": {
                "unit": "patient_id",
                "rows_per_unit": 5,
                "columns": {**columns, "urgent": {"type": "boolean"}},
            }
        },
    }
    sql = "SELECT age, COUNT(*) AS n, COUNT(*) FILTER (WHERE urgent) AS u FROM visits GROUP BY age"
    with sfumato.open(words) as database:
        assert database.prepare(sql, None, RequestedPrice(EPSILON)).plan.groups[0].sums
        (note,) = [note for note in database.ask(sql, epsilon=EPSILON).notes if "outside" in note]
    assert "about 60 rows" in note
