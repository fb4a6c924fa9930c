"""A small clinic behind a server: a policy file, its data, and two analysts."""

from pathlib import Path

POLICY = """
name = "clinic"
source = "csv:data"
ledger = "sqlite:clinic.ledger"
{top}

[budget]
epsilon = {epsilon}
delta = 0

[tables.visits]
unit = "patient"
rows_per_unit = 4

[tables.visits.columns]
patient = {{ type = "integer" }}
dept = {{ type = "text", values = ["er", "icu", "surgery"] }}
cost = {{ type = "integer", bounds = [0, 100] }}

[tables.wards]
public = true

[tables.wards.columns]
dept = {{ type = "text" }}
floor = {{ type = "integer" }}

[analysts.research]
epsilon = {analyst}

[analysts.press]
epsilon = {analyst}

[analysts.visitor]
epsilon = {analyst}
"""
DEPTS = ("er", "icu", "surgery")
COUNT = "SELECT COUNT(*) AS n FROM visits"
BY_DEPT = "SELECT dept, COUNT(*) AS n, SUM(cost) AS cost FROM visits GROUP BY dept"


def make_clinic(
    folder: Path, *, epsilon: str = "100", analyst: str = "50", top: str = "", people: range = range(300)
) -> Path:
    """Write policy and data into a folder and return the policy's path; `people` may leave somebody out."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    rows = [
        f"{person},{DEPTS[(person + visit) % 3]},{person % 97}" for person in people for visit in range(1 + person % 3)
    ]
    (folder / "data" / "visits.csv").write_text("patient,dept,cost\n" + "\n".join(rows) + "\n")
    (folder / "data" / "wards.csv").write_text("dept,floor\ner,1\nicu,2\nsurgery,3\n")
    policy = folder / "clinic.toml"
    policy.write_text(POLICY.format(epsilon=epsilon, analyst=analyst, top=top))
    return policy
