"""Ask about frames of pandas and polars: the policy is words, the frames are the source, a snapshot of them answers."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import polars as pl

import sfumato

patients = [patient for patient in range(2000) for _ in range(1 + patient % 3)]
visits = pd.DataFrame(
    {
        "patient_id": patients,
        "ward": ["abc"[place % 3] for place in range(len(patients))],
        # each value is read alone: the text is absent, and changes no other
        "cost": ["unknown" if patient == 7 else 100.5 + patient % 50 for patient in patients],
    }
)
wards = pl.DataFrame({"ward": ["a", "b", "c"], "floor": [1, 2, 2]})
frames = {"visits": visits, "wards": wards}


def policy(folder: str) -> dict[str, object]:
    """Return what is promised of the people in `visits`; `wards` is about nobody."""
    columns = {
        "patient_id": {"type": "integer"},
        "ward": {"type": "text", "values": "wards.ward"},
        "cost": {"type": "decimal", "bounds": [0, 200], "step": "0.01"},
    }
    return {
        "name": "clinic",
        "source": frames,
        "ledger": f"sqlite:{Path(folder) / 'clinic.ledger'}",  # a frame has no place beside which it could lie
        "budget": {"epsilon": 3, "delta": 0},
        "tables": {
            "visits": {"unit": "patient_id", "rows_per_unit": 3, "columns": columns},
            "wards": {"public": True, "columns": {"ward": {"type": "text"}, "floor": {"type": "integer"}}},
        },
    }


question = "SELECT floor, COUNT(*) AS n, AVG(cost) AS cost FROM visits JOIN wards USING (ward) GROUP BY floor"
with TemporaryDirectory() as folder, sfumato.open(policy(folder)) as db:
    print(db.ask(question, epsilon=1), end="\n\n")

    frames["visits"] = visits.head(1000)  # answers come from the snapshot until a new one is taken
    print("the source has changed:", db.source_changed())
    db.refresh()
    print(db.ask(question, epsilon=1))
