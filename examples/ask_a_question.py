"""Ask SQL of a table of people: counts with error bars, what they cost, and the same answer again for free."""

from pathlib import Path
from tempfile import TemporaryDirectory

import sfumato

DEPARTMENTS = ("er", "icu", "surgery")
POLICY = """
name = "clinic"
source = "csv:data"

[budget]
epsilon = 1
delta = 1e-6

[tables.visits]
unit = "patient_id"        # whom we protect
rows_per_unit = 4          # so many visits count for one patient

[tables.visits.columns]
patient_id = { type = "integer" }
dept = { type = "text", values = ["er", "icu", "surgery"] }
cost = { type = "decimal", bounds = [0, 1000], step = 0.01 }
"""


def visits() -> str:
    """Return made-up visits: most patients come once, some come six times."""
    lines = ["patient_id,dept,cost"]
    for patient in range(6000):
        for visit in range(6 if patient % 10 == 0 else 1):
            dept = DEPARTMENTS[(patient + visit) % 7 % 3]
            lines.append(f"{patient},{dept},{100 + (patient * 37 + visit * 11) % 800}.50")
    return "\n".join(lines)


with TemporaryDirectory() as folder:
    (Path(folder) / "data").mkdir()
    (Path(folder) / "data" / "visits.csv").write_text(visits(), encoding="utf-8")
    (Path(folder) / "clinic.toml").write_text(POLICY, encoding="utf-8")

    question = "SELECT dept, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY dept"
    with sfumato.open(Path(folder) / "clinic.toml") as db:
        print(db.explain(question, epsilon="0.5"), end="\n\n")  # price and margins: reads no data, costs nothing
        print(db.ask(question, epsilon="0.5"), end="\n\n")
        db.ask(question, epsilon="0.5")  # the same release, at no cost
        print(f"spent {db.budget().spent}; left {db.budget().remaining}")
