"""Say how accurate the answer must be, and pay the least that buys it."""

from pathlib import Path
from tempfile import TemporaryDirectory

import sfumato

POLICY = """
name = "clinic"
source = "csv:data"
budget = { epsilon = 1, delta = 0 }

[tables.visits]
unit = "patient_id"
rows_per_unit = 2
columns = { patient_id = { type = "integer" }, urgent = { type = "boolean" } }
"""

with TemporaryDirectory() as folder:
    lines = [f"{patient},{patient % 3 == 0}" for patient in range(5000)]
    (Path(folder) / "data").mkdir()
    (Path(folder) / "data" / "visits.csv").write_text("\n".join(["patient_id,urgent", *lines]), encoding="utf-8")
    (Path(folder) / "clinic.toml").write_text(POLICY, encoding="utf-8")

    with sfumato.open(Path(folder) / "clinic.toml") as db:
        question = "SELECT urgent, COUNT(*) AS n FROM visits GROUP BY urgent"
        for margin in (200, 100, 50, 25):
            print(f"± {margin:>3} costs {db.explain(question, within={'n': margin}).loss}")

        try:  # the whole budget does not buy this: the refusal says which margin it does buy
            db.explain(question, within={"n": 1})
        except sfumato.Refusal as refusal:
            print(f"±   1 is refused ({refusal.code}): {refusal.remedy}")

        print()
        print(db.ask(question, within={"n": 25}))
        print(f"left: {db.budget().remaining}")
