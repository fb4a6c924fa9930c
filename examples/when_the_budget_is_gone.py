"""A synthetic table is measured once; when the budget is gone it still answers, and says how far off it is."""

import tempfile
from pathlib import Path

import sfumato
from sfumato.synthesis import synthesize

folder = Path(tempfile.mkdtemp())
(folder / "data").mkdir()
lines = [
    f"{patient},{20 + patient * 7 % 70},{'er' if patient % 3 else 'surgery'},{patient * 37 % 900 + patient % 3 * 50}\n"
    for patient in range(6000)
]
(folder / "data" / "visits.csv").write_text("patient,age,dept,cost\n" + "".join(lines))
policy: dict[str, object] = {
    "source": f"csv:{folder / 'data'}",
    "ledger": f"sqlite:{folder / 'clinic.ledger'}",
    "budget": {"epsilon": 1, "delta": "1e-5"},
    "tables": {
        "visits": {
            "unit": "patient",
            "rows_per_unit": 1,
            "columns": {
                "patient": {"type": "integer"},
                "age": {"type": "integer", "bounds": [0, 99]},
                "dept": {"type": "text", "values": ["er", "surgery", "icu"]},
                "cost": {"type": "decimal", "bounds": [0, 1000], "step": 0.01},
            },
        }
    },
}
with sfumato.open(policy) as database:
    synthetic = synthesize(database, "visits", columns=["age", "dept", "cost"], epsilon="0.8", delta="1e-5")
    try:
        database.ask("SELECT COUNT(*) FROM visits", epsilon=1)
    except sfumato.Refusal as refusal:
        print(f"the database: {refusal.code}")
for sql in (
    "SELECT dept, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY dept ORDER BY dept",
    "SELECT COUNT(*) AS n FROM visits WHERE age >= 65 AND dept = 'er'",
):
    answer = synthetic.sql(sql)
    for row, margins in zip(answer.rows, answer.margins, strict=True):
        cells = (
            str(value) if margin is None else f"{value:.0f} ± {margin:.0f}"
            for value, margin in zip(row, margins, strict=True)
        )
        print("the synthetic table:", ", ".join(cells))
print(f"and {synthetic.table().num_rows} rows, such as {synthetic.sample(1).to_pylist()[0]}")
