"""Fits through the database: one charge, free and equal when repeated, refused at the cap, public afterwards."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.learn.models import MODELS, PRICE, fitted_of

import sfumato
from sfumato.accounting import pld
from sfumato.database import Database
from sfumato.errors import BadParameter, BudgetExhausted, Refusal, UnitRevealed, UnsupportedSql
from sfumato.learn.linear_regression import LinearRegression
from sfumato.learn.model import Model

COUNT = 3000
SPELT = {
    "age": "SELECT age, bmi, {} FROM visits",
    "AGE": 'select "age" as a, BMI, {} from public.visits;',
    "with": "WITH v AS (SELECT * FROM visits) SELECT v.age, v.bmi, {} FROM v",
}


def opened(folder: Path, epsilon: int = 30, **more: Any) -> Database:
    generator = np.random.default_rng(11)
    age, bmi = generator.integers(20, 90, COUNT), generator.uniform(15, 40, COUNT)
    columns = {
        "patient_id": np.arange(COUNT) // 2,
        "age": age,
        "bmi": bmi,
        "cost": age * 20 + bmi * 50 + generator.normal(0, 100, COUNT),
        "ward": [("er", "icu", "kids")[int(a > 50) + int(b > 30)] for a, b in zip(age, bmi, strict=True)],
    }
    (folder / "data").mkdir(parents=True)
    parquet.write_table(pa.table(columns), folder / "data" / "visits.parquet")
    policy: dict[str, Any] = {
        "name": "clinic",
        "source": f"parquet:{folder / 'data'}",
        "ledger": f"sqlite:{folder / 'clinic.ledger'}",
        "budget": {"epsilon": epsilon, "delta": "1e-5"},
        "tables": {
            "visits": {
                "unit": "patient_id",
                "rows_per_unit": 2,
                "columns": {
                    "patient_id": {"type": "integer"},
                    "age": {"type": "integer", "bounds": [0, 120]},
                    "bmi": {"type": "decimal", "bounds": [10, 50], "step": 0.1},
                    "cost": {"type": "decimal", "bounds": [0, 5000], "step": 0.01},
                    "ward": {"type": "text", "values": ["er", "icu", "kids"]},
                },
            }
        },
    }
    return sfumato.open({**policy, **more})


def model_of(name: str, **more: Any) -> Any:
    make, _ = MODELS[name]
    return make(**{**PRICE, **more})


def target_of(name: str) -> str:
    return "ward" if "classes" in MODELS[name][1] else "cost"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with opened(tmp_path_factory.mktemp("learn") / "clinic") as found:
        yield found


def attributes(model: Model) -> dict[str, Any]:
    return {
        key: value.tolist() if isinstance(value, np.ndarray) else str(value) for key, value in fitted_of(model).items()
    }


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_is_one_charge_and_the_same_again_is_free_and_equal(database: Database, name: str) -> None:
    before = len(database.history())
    texts = [sql.format(target_of(name)) for sql in SPELT.values()]
    quote = model_of(name).explain(database, texts[0])
    assert len(database.history()) == before, "a quote is free"
    first = model_of(name).fit(database, texts[0])
    spent = database.budget().spent
    assert quote.loss == first.loss_
    for sql in texts:
        again = model_of(name).fit(database, sql)
        assert attributes(again) == attributes(first)
    assert len(database.history()) == before + 1
    assert database.history()[0].sql == f"learn.{type(first).__name__}: {texts[0]}"
    assert database.budget().spent == spent
    assert first.receipt_ is not None
    assert first.receipt_.loss == first.loss_
    lower, upper = pld.bounds(first.event_, "1e-5")
    assert 0.97 <= lower <= upper <= 1
    asked = [[40, 25.0, 900.0], [80, 35.0, 2000.0]]
    if hasattr(first, "predict"):
        assert len(first.predict([row[: first.n_features_in_] for row in asked])) == 2


def test_the_model_is_good_and_its_intervals_hold_its_weights(database: Database) -> None:
    model: Any = LinearRegression(**{**PRICE, "epsilon": "5"}).fit(database, "SELECT age, bmi, cost FROM visits")
    assert model.coef_ == pytest.approx([20, 50], rel=0.35)
    assert model.predict([[50, 30]]) == pytest.approx(2500, rel=0.1)
    assert (model.coef_intervals_[:, 0] < model.coef_).all()
    assert (model.coef_ < model.coef_intervals_[:, 1]).all()


def test_at_the_cap_nothing_is_fitted_and_old_models_still_answer(tmp_path: Path) -> None:
    database = opened(tmp_path, epsilon=2)
    sql = "SELECT age, bmi, cost FROM visits"
    model = LinearRegression(**PRICE).fit(database, sql)
    with pytest.raises(BudgetExhausted):
        LinearRegression(epsilon="3", delta="1e-5").fit(database, sql)
    LinearRegression(epsilon="3", delta="1e-5").explain(database, sql)
    again = LinearRegression(**PRICE).fit(database, sql)
    assert again.coef_.tolist() == model.coef_.tolist()
    database.close()
    assert len(model.predict([[50, 30]])) == 1
    with pytest.raises(BadParameter):
        LinearRegression(**PRICE).fit(database, sql)


@pytest.mark.parametrize(
    ("sql", "refusal"),
    [
        ("SELECT patient_id, age, cost FROM visits", UnitRevealed),
        ("SELECT ward, cost FROM visits", UnsupportedSql),
        ("SELECT cost FROM visits", UnsupportedSql),
        ("SELECT COUNT(*) FROM visits", UnsupportedSql),
        (None, BadParameter),
        ("SELECT nobody FROM visits", Refusal),
    ],
)
def test_what_cannot_be_fitted_is_refused_and_costs_nothing(
    database: Database, sql: Any, refusal: type[Refusal]
) -> None:
    before = len(database.history())
    for method in ("fit", "explain"):
        if sql is not None or method == "fit":
            with pytest.raises(refusal):
                getattr(LinearRegression(**PRICE), method)(database, sql)
    assert len(database.history()) == before


@pytest.mark.parametrize(
    "more", [{"bounds": (0, 1)}, {"bounds_y": (0, 1)}, {"neighbours": "replace"}, {"rows_per_person": 2}], ids=str
)
def test_what_the_policy_says_cannot_be_said_again(database: Database, more: dict[str, Any]) -> None:
    model = LinearRegression(**PRICE, **more)
    for method in (model.fit, model.explain):
        with pytest.raises(BadParameter):
            method(database, "SELECT age, bmi, cost FROM visits")
    with pytest.raises(BadParameter):
        LinearRegression(**PRICE).fit(database, "SELECT age, bmi, cost FROM visits", groups=[1])


def test_classes_must_be_declared(database: Database) -> None:
    with pytest.raises(UnsupportedSql):
        model_of("centroid").fit(database, "SELECT age, bmi, cost FROM visits")


def test_replace_is_the_policys_word(tmp_path: Path) -> None:
    with opened(tmp_path, neighbours="replace") as database:
        with pytest.raises(BadParameter):
            model_of("mlp").explain(database, SPELT["age"].format("ward"))
        for name in MODELS.keys() - {"mlp"}:
            model = model_of(name).fit(database, SPELT["age"].format(target_of(name)))
            assert "replace" in str(model.event_)
