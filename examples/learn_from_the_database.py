"""Fit a model to people's rows at one charge: the same fit again is free, and predicting costs nothing."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import sfumato
from sfumato.learn import LinearRegression

generator = np.random.default_rng(1)  # people who do not exist
count = 20_000
age, bmi = generator.integers(18, 90, count), generator.uniform(16, 40, count)
cost = 20 * age + 60 * bmi + generator.normal(0, 300, count)

with tempfile.TemporaryDirectory() as folder:
    data = Path(folder) / "data"
    data.mkdir()
    table = pa.table({"patient_id": np.arange(count), "age": age, "bmi": bmi, "cost": cost})
    parquet.write_table(table, data / "visits.parquet")
    policy: dict[str, object] = {
        "name": "clinic",
        "source": f"parquet:{data}",
        "ledger": f"sqlite:{folder}/clinic.ledger",
        "budget": {"epsilon": 3, "delta": "1e-6"},
        "tables": {
            "visits": {
                "unit": "patient_id",
                "rows_per_unit": 1,
                "columns": {
                    "patient_id": {"type": "integer"},
                    "age": {"type": "integer", "bounds": [0, 120]},
                    "bmi": {"type": "decimal", "bounds": [10, 60], "step": 0.1},
                    "cost": {"type": "decimal", "bounds": [0, 8000], "step": 0.01},
                },
            }
        },
    }
    with sfumato.open(policy) as db:
        question = "SELECT age, bmi, cost FROM visits"
        model = LinearRegression(epsilon="1", delta="1e-6")
        print(model.explain(db, question))
        model.fit(db, question)
        for name, weight, (low, high) in zip(("age", "bmi"), model.coef_, model.coef_intervals_, strict=True):
            print(f"{name}: {weight:.1f} per unit, between {low:.1f} and {high:.1f} by what the noise does (95 %)")
        again = LinearRegression(epsilon="1", delta="1e-6").fit(db, "select AGE, bmi, cost from visits;")
        print("asked again:", "the same model" if (again.coef_ == model.coef_).all() else "another one")
        print(f"charges: {len(db.history())}; left of the budget: {db.budget().remaining}")
    print(f"a patient of 50 with a bmi of 25: {model.predict([[50, 25.0]])[0]:,.0f}; the database is closed by now")
