"""Through the database: one charge, durable first; free when repeated, however spelt; and answers when all is spent."""

from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.refusals import refusing
from tests.sources import HashSource

import sfumato
from sfumato.accounting import pld
from sfumato.accounting.event import GaussianNoise, Neighbours
from sfumato.accounting.loss import PrivacyLoss
from sfumato.database import Database
from sfumato.errors import BadParameter, BudgetExhausted, Refusal, UnitRevealed, UnknownName, UnsupportedSql
from sfumato.measure import MeasurementRequest, measure, prepare_measurement
from sfumato.synthesis.declared import select_declared_columns
from sfumato.synthesis.selecting import make_selection
from sfumato.synthesis.synthesize import _pack_tables, synthesize
from sfumato.synthesis.synthetic import Synthetic

COLUMNS = ["age", "dept", "cost", "day", "urgent"]
FEW = ["age", "dept", "urgent"]
Row = tuple[Any, ...]
ROWS: list[Row] = [
    (1, 30, "er", 1.5, date(2024, 1, 5), True),
    (1, 40, "icu", 2.0, date(2024, 2, 5), False),
    (1, 50, "er", 2.5, date(2024, 3, 5), True),
    (2, 130, "icu", 99.25, date(2024, 12, 31), True),
    (3, None, "er", 1.0, date(2024, 6, 1), True),
    (3, 20, "nowhere", 1.0, date(2024, 6, 1), True),
    (4, 20, "er", float("nan"), date(2024, 6, 1), True),
    (5, -3, "icu", 4.0, date(2023, 6, 1), False),
    (None, 30, "er", 1.0, date(2024, 6, 1), True),
]


def opened(folder: Path, rows: list[Row] = ROWS, epsilon: float = 10, **more: object) -> Database:
    types = (pa.int64(), pa.int64(), pa.string(), pa.float64(), pa.date32(), pa.bool_())
    names = ("patient_id", *COLUMNS)
    columns = {
        name: pa.array([row[at] for row in rows], type=kind)
        for at, (name, kind) in enumerate(zip(names, types, strict=True))
    }
    columns["note"] = pa.array(["x"] * len(rows), pa.string())
    (folder / "data").mkdir(parents=True)
    parquet.write_table(pa.table(columns), folder / "data" / "visits.parquet")
    parquet.write_table(pa.table({"dept": ["er"]}), folder / "data" / "staff.parquet")
    salt = folder / "clinic.ledger.copy.salt"  # neighbours share it
    salt.touch(mode=0o600)
    salt.write_bytes(bytes(range(32)))
    return sfumato.open(policy(folder, epsilon, **more))


def policy(folder: Path, epsilon: float, **more: object) -> dict[str, object]:
    declared: dict[str, object] = {
        "patient_id": {"type": "integer"},
        "age": {"type": "integer", "bounds": [0, 120]},
        "dept": {"type": "text", "values": ["er", "icu"]},
        "cost": {"type": "decimal", "bounds": [0, 8], "step": 0.5},
        "day": {"type": "date", "bounds": [date(2024, 1, 1), date(2024, 12, 31)]},
        "urgent": {"type": "boolean"},
        "note": {"type": "text"},
    }
    return {
        "name": "clinic",
        "source": f"parquet:{folder / 'data'}",
        "ledger": f"sqlite:{folder / 'clinic.ledger'}",
        "budget": {"epsilon": epsilon, "delta": "1e-6"},
        "tables": {
            "staff": {"public": True, "columns": {"dept": {"type": "text"}}},
            "visits": {"unit": "patient_id", "rows_per_unit": 2, "columns": declared},
        },
        "analysts": {"ann": {"epsilon": 1, "delta": "1e-6"}},
    } | more


def measured(database: Database, columns: list[str], **named: Any) -> Synthetic:
    asked: dict[str, Any] = {"epsilon": "1", "delta": "1e-6", "bins": 4} | named
    return synthesize(database, "visits", columns=columns, **asked)


def spent(database: Database) -> Fraction:
    return database.budget().spent.epsilon


def test_the_same_question_is_free_and_equal_however_it_is_spelt(tmp_path: Path) -> None:
    with opened(tmp_path) as database:
        first = measured(database, FEW)
        cost = spent(database)
        assert cost > 0
        again = synthesize(
            database,
            "Visits",
            columns=[name.upper() for name in FEW[::-1]],
            epsilon=1.0,
            delta=Fraction(1, 10**6),
            bins=4,
            rows=5,
            seconds=9,
        )
        assert spent(database) == cost
        assert again.receipt == first.receipt is not None
        assert again.columns == tuple(FEW[::-1])
        assert (again.marginal(["age", "urgent"]).counts == first.marginal(["age", "urgent"]).counts).all()
        assert again.table().num_rows == 5
        assert measured(database, FEW).table().equals(first.table())
        (entry,) = database.history()
        assert entry.sql.startswith("synthesize: ")
        measured(database, ["urgent"])
        assert spent(database) > cost
        database.verify()
    with sfumato.open(policy(tmp_path, 10)) as database:
        assert measured(database, FEW).table().equals(first.table())  # and so it is in another process


def test_a_refused_table_costs_nothing_and_a_made_one_answers_when_all_is_spent(tmp_path: Path) -> None:
    database = opened(tmp_path, epsilon=2)
    synthetic = measured(database, FEW)
    before = spent(database)
    with pytest.raises(BudgetExhausted):
        measured(database, ["urgent"], epsilon=5)
    assert spent(database) == before
    with pytest.raises(BudgetExhausted):
        database.ask("SELECT COUNT(*) FROM visits", epsilon=2)
    database.close()
    answer = synthetic.sql("SELECT dept, COUNT(*) AS n, AVG(age) FROM visits GROUP BY dept")
    assert [row[0] for row in answer.rows] == ["er", "icu"]
    assert all(margin is not None for row in answer.margins for margin in row[1:])
    assert synthetic.table().schema.names == FEW
    with refusing():
        synthetic.sql("SELECT COUNT(*) FROM staff")


def test_the_event_is_that_of_the_policy_and_at_most_the_price(tmp_path: Path) -> None:
    for neighbours, moved in (("add-remove", 4), ("replace", 8)):
        with opened(tmp_path / neighbours, neighbours=neighbours) as database:
            synthetic = measured(database, FEW, epsilon="0.5")
            assert {event.sensitivity_squared for event in synthetic.event.events} == {moved}  # type: ignore[union-attr]
            assert all(isinstance(event, GaussianNoise) for event in synthetic.event.events)  # type: ignore[union-attr]
            upper = pld.bounds(synthetic.event, "1e-6")[1]
            assert 0.97 * 0.5 <= upper <= 0.5
            assert (synthetic.loss.epsilon, synthetic.loss.delta) == (Fraction(1, 2), Fraction(1, 10**6))


def test_domains_are_the_policys(tmp_path: Path) -> None:
    with opened(tmp_path) as database:
        synthetic = measured(database, COLUMNS, bins=16)
        assert synthetic.marginal(COLUMNS[:1]).counts.shape == (16,)
        assert synthetic.marginal(["dept", "cost"]).counts.shape == (2, 16)
        assert synthetic.marginal(["urgent", "day"]).counts.shape == (2, 16)
        table = synthetic.sample(400)
        assert table.schema.types == [pa.int64(), pa.string(), pa.float64(), pa.date32(), pa.bool_()]
        assert set(table["dept"].to_pylist()) <= {"er", "icu"}
        assert min(table["day"].to_pylist()) >= date(2024, 1, 1)
        assert max(table["day"].to_pylist()) <= date(2024, 12, 31)
        assert all(0 <= 2 * cost <= 16 and 2 * cost == int(2 * cost) for cost in table["cost"].to_pylist())
        assert measured(database, ["cost"], bins=100).marginal("cost").counts.shape == (17,)  # no more than values


REFUSED: list[tuple[Any, Any, dict[str, Any], type[Refusal]]] = [
    ("visits", ["patient_id", "age"], {}, UnitRevealed),
    ("visits", ["note"], {}, UnsupportedSql),
    ("visits", ["wages"], {}, UnknownName),
    ("nowhere", ["age"], {}, UnknownName),
    (7, ["age"], {}, UnknownName),
    ("staff", ["dept"], {}, UnsupportedSql),
    ("visits", [], {}, BadParameter),
    ("visits", "age", {}, BadParameter),
    ("visits", ["age", "Age"], {}, BadParameter),
    ("visits", ["age"], {"delta": 0}, BadParameter),
    ("visits", ["age"], {"epsilon": "much"}, BadParameter),
    ("visits", ["age"], {"bins": 0}, BadParameter),
    ("visits", ["age"], {"bins": 10**6}, BadParameter),
    ("visits", ["age"], {"rows": -1}, BadParameter),
    ('visits" --', ["age"], {}, UnknownName),
]


def test_what_cannot_be_measured_is_refused_and_nothing_is_charged(tmp_path: Path) -> None:
    with opened(tmp_path, []) as database:
        for table, columns, more, kind in REFUSED:
            asked: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"} | more
            with pytest.raises(kind):
                synthesize(database, table, columns=columns, **asked)
        assert spent(database) == 0
        assert database.history() == ()


def test_neighbouring_databases_differ_in_each_marginal_by_at_most_the_event(tmp_path: Path) -> None:
    def noisy(name: str, rows: list[Row]) -> list[np.ndarray]:
        with opened(tmp_path / name, rows) as database:
            database.payer = replace(database.payer, source=HashSource("the same coins"))
            found = measured(database, COLUMNS)._measured
            return list(found.tables)

    everybody = noisy("all", ROWS)
    reached = []
    for person in (1, 2, 3, 4, 5, None):
        without = noisy(f"without {person}", [row for row in ROWS if row[0] != person])
        moves = [int(((one - other) ** 2).sum()) for one, other in zip(everybody, without, strict=True)]
        assert max(moves) <= 4  # two rows at most, in one cell
        reached.append(max(moves))
    assert reached[0] > 1
    assert reached[2:4] == [0, 0]  # a NULL, an undeclared department, a NaN: absent from every marginal
    assert reached[-1] == 0  # nobody's row


def test_the_engine_counts_the_rows_that_the_house_counts(tmp_path: Path) -> None:
    with opened(tmp_path, budget={"epsilon": 10**5, "delta": "1e-6"}) as database:
        found = measured(database, ["dept", "urgent"], epsilon=1000)
        text = "SELECT dept, urgent, COUNT(*) AS n FROM visits GROUP BY dept, urgent ORDER BY dept, urgent"
        asked = [row["n"] for row in database.ask(text, epsilon=1000).rows()]
    # at epsilon 1000 the deviation of a cell is below 0.1: rounding finds the count
    assert np.round(found.marginal(["dept", "urgent"]).counts).ravel().astype(int).tolist() == asked


def test_no_data_is_measured_like_any_other(tmp_path: Path) -> None:
    shapes = set()
    for name, rows in (("some", ROWS), ("none", []), ("odd", ROWS[4:7])):
        with opened(tmp_path / name, rows) as database:
            found = measured(database, FEW)
            (entry,) = database.history()
            shapes.add((repr(found), found.event, found.loss, entry.sql, spent(database), found.sample(3).schema))
            assert found.receipt is not None
            assert found.table().num_rows >= 0
    assert len(shapes) == 1


def test_an_analyst_spends_their_own(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with sfumato.open(policy(tmp_path, 10), analyst="ann") as database:
        measured(database, ["urgent"], epsilon="0.5")
        assert 0 < spent(database) < 1
        with pytest.raises(BudgetExhausted):
            measured(database, ["urgent"], epsilon="3")


def test_a_wide_table_is_charged_once_and_comes_back_and_so_does_one_of_an_older_version(tmp_path: Path) -> None:
    """Up to 0.14 the rounds of a selection had one price: what was stored then is still known, with its own noise."""
    names = [f"c{at}" for at in range(18)]
    (tmp_path / "data").mkdir()
    random = np.random.default_rng(1)
    table = {"person": list(range(60))} | {name: random.integers(0, 12, 60).tolist() for name in names}
    parquet.write_table(pa.table(table), tmp_path / "data" / "wide.parquet")
    declared = {name: {"type": "integer", "bounds": [0, 11]} for name in names} | {"person": {"type": "integer"}}
    said: dict[str, object] = {
        "source": f"parquet:{tmp_path / 'data'}",
        "ledger": f"sqlite:{tmp_path / 'wide.ledger'}",
        "budget": {"epsilon": 4, "delta": "1e-6"},
        "tables": {"wide": {"unit": "person", "rows_per_unit": 1, "columns": declared}},
    }
    given: dict[str, Any] = {"columns": names, "epsilon": 1, "delta": "1e-6", "rows": 20}
    with sfumato.open(said) as db:
        found = synthesize(db, "wide", **given)
        used = db.budget().used
        again = synthesize(db, "wide", **given)
        assert (again.marginals, again.receipt, db.budget().used) == (found.marginals, found.receipt, used)
        assert again.table().equals(found.table())
        assert found.adaptive
        assert len(set(found._measured.sigma_squared)) > 2  # rounds became dearer, and each keeps its own noise
        plan = make_selection((12,) * 18, Fraction(2), Fraction(1, 10**6), 1, Neighbours.ADD_REMOVE)
        asked = prepare_measurement(db, select_declared_columns(db, "wide", names)[1])
        marginals = [(axis,) for axis in range(18)] + [(0, 1)]
        stored = {
            "marginals": marginals,
            "counts": _pack_tables([np.full([12] * len(axes), 12 ** (2 - len(axes))) for axes in marginals]),
            "seed": "00" * 16,
        }
        loss = PrivacyLoss(Fraction(2), Fraction(1, 10**6))
        request = MeasurementRequest("synthesize", {"sizes": (12,) * 18}, plan.earlier.event, loss)
        measure(db, asked, request, lambda _: stored)
        used = db.budget().used
        older = synthesize(db, "wide", **given | {"epsilon": 2})
        assert db.budget().used == used
        assert np.allclose(older.marginal(["c0", "c1"]).counts, 1)
        assert set(older._measured.sigma_squared) == {plan.earlier.one_way, plan.earlier.pair}
