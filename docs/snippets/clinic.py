"""A clinic that does not exist, for the examples of the pages about SQL."""

from pathlib import Path
from tempfile import mkdtemp

import sfumato

folder = Path(mkdtemp())
(folder / "data").mkdir()
(folder / "data" / "visits.csv").write_text("patient_id,dept,city,age,cost,day\n1,er,rome,20,35,2024-01-05\n")
(folder / "data" / "patients.csv").write_text("patient_id,sex\n1,f\n")
(folder / "data" / "survey.csv").write_text("mood,x\ngood,1\n")
(folder / "data" / "staff.csv").write_text("name,dept\nann,er\nbob,er\neve,icu\n")
(folder / "clinic.toml").write_text("""
source = "csv:data"
budget = { epsilon = 10, delta = 1e-6 }

[tables.visits]
unit = "patient_id"
rows_per_unit = 5

[tables.visits.columns]
patient_id = { type = "integer" }
dept = { type = "text", values = ["er", "icu"] }
city = { type = "text" }
age  = { type = "integer", bounds = [0, 110] }
cost = { type = "decimal", bounds = [0, 1000], step = 0.01 }
day  = { type = "date", bounds = [2024-01-01, 2024-12-31] }

[tables.patients]
unit = "patient_id"
rows_per_unit = 1
columns = { patient_id = { type = "integer" }, sex = { type = "text", values = ["f", "m"] } }

[tables.survey]
unit = "rows"
columns = { mood = { type = "text" }, x = { type = "integer", bounds = [0, 5] } }

[tables.staff]
public = true
""")
db = sfumato.open(folder / "clinic.toml")


def explain(sql: str) -> None:
    try:
        print(db.explain(sql, epsilon=1))
    except sfumato.Refusal as refusal:
        print(f"{refusal.code}: {refusal.what} {refusal.why}")
