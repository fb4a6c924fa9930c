"""Count pairs of different people who were in one place on one day: such a pair belongs to both of them."""

from pathlib import Path
from tempfile import TemporaryDirectory

import sfumato

POLICY = """
name = "clinic"
source = "csv:data"
budget = { epsilon = 4, delta = 0 }

[tables.visits]
unit = "patient_id"
rows_per_unit = 4

[tables.visits.columns]
patient_id = { type = "integer" }
dept = { type = "text", values = ["er", "icu"] }
day = { type = "integer", bounds = [1, 20], unique = true }     # nobody is in two places on one day
"""
MET = "FROM visits a JOIN visits b ON a.dept = b.dept AND a.day = b.day AND a.patient_id < b.patient_id"

with TemporaryDirectory() as folder:
    days = [(i % 6000, 1 + (i * i + i // 6000) % 20) for i in range(18_000)]
    visits = [f"{patient},{('er', 'icu')[(patient + day) % 3 // 2]},{day}" for patient, day in days]
    (Path(folder) / "data").mkdir()
    (Path(folder) / "data" / "visits.csv").write_text("\n".join(["patient_id,dept,day", *visits]), encoding="utf-8")
    (Path(folder) / "clinic.toml").write_text(POLICY, encoding="utf-8")

    with sfumato.open(Path(folder) / "clinic.toml") as db:
        # what it costs is known before; how exact it is depends on how full the fullest day was, so it comes with it
        print(db.explain(f"SELECT COUNT(*) AS pairs {MET}", epsilon="1"), end="\n\n")
        print(db.ask(f"SELECT COUNT(*) AS pairs {MET}", epsilon="1"), end="\n\n")
        print(db.ask(f"SELECT a.dept, COUNT(*) AS pairs {MET} GROUP BY a.dept", epsilon="1"), end="\n\n")

        # three at once; `<` counts every three once, and `<>` would count them in each of six orders
        third = "JOIN visits c ON b.dept = c.dept AND b.day = c.day AND b.patient_id < c.patient_id"
        print(db.ask(f"SELECT COUNT(*) AS threes {MET} {third}", epsilon="1"), end="\n\n")

        try:  # anything but a count of rows that meet by equal columns has no proof, and is refused
            db.ask("SELECT COUNT(*) FROM visits a JOIN visits b ON a.patient_id <> b.patient_id", epsilon="1")
        except sfumato.Refusal as refusal:
            print(refusal)
