"""Join people's rows with a table about nobody: its columns become public keys, and its rows are read exactly."""

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

[tables.visits.columns]
patient_id = { type = "integer" }
dept = { type = "text", values = "departments.dept" }     # the keys are those of the public table

[tables.departments]
public = true
columns = { dept = { type = "text" }, wing = { type = "text" }, beds = { type = "integer" } }
"""
DEPARTMENTS = "dept,wing,beds\ner,south,20\nicu,north,12\nsurgery,north,40\nhospice,south,8\n"

with TemporaryDirectory() as folder:
    visits = [f"{patient},{('er', 'icu', 'surgery')[patient % 3]}" for patient in range(4000)]
    (Path(folder) / "data").mkdir()
    (Path(folder) / "data" / "visits.csv").write_text("\n".join(["patient_id,dept", *visits]), encoding="utf-8")
    (Path(folder) / "data" / "departments.csv").write_text(DEPARTMENTS, encoding="utf-8")
    (Path(folder) / "clinic.toml").write_text(POLICY, encoding="utf-8")

    with sfumato.open(Path(folder) / "clinic.toml") as db:
        print(db.ask("SELECT * FROM departments ORDER BY beds"), end="\n\n")  # about nobody: exact and free

        by_wing = "SELECT d.wing, COUNT(*) AS n FROM visits v JOIN departments d USING (dept) GROUP BY d.wing"
        print(db.ask(by_wing, epsilon="0.2"), end="\n\n")

        # a department without visits appears all the same: that nobody came is as private as that somebody did
        print(db.ask("SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept", epsilon="0.2"))
        print(f"left: {db.budget().remaining}")
