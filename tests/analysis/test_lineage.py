"""Each group says how many rows and cells of it one person can have, from text and policy alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import sfumato
from sfumato.database import Database
from sfumato.errors import Refusal
from sfumato.prepare import RequestedPrice

ROWS, GROUPS = 3, 2
COLUMNS = {
    "person": {"type": "integer"},
    "ward": {"type": "text", "values": ["a", "b"]},
    "age": {"type": "integer", "bounds": [0, 100]},
}


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    folder: Path = tmp_path_factory.mktemp("lineage")
    (folder / "data").mkdir()
    (folder / "data" / "visits.csv").write_text("person,ward,age\n1,a,30\n2,b,40\n", encoding="utf-8")
    table = {"unit": "person", "rows_per_unit": ROWS, "groups_per_unit": GROUPS, "columns": COLUMNS}
    policy: dict[str, object] = {
        "source": f"csv:{folder / 'data'}",
        "ledger": f"sqlite:{folder / 'ledger'}",
        "budget": {"epsilon": 1, "delta": 1e-6},
        "tables": {"visits": table},
    }
    with sfumato.open(policy) as database:
        yield database


@pytest.mark.parametrize(
    ("sql", "rows", "groups"),
    [
        ("SELECT COUNT(*) FROM visits", ROWS, 1),
        ("SELECT ward, COUNT(*) FROM visits GROUP BY ward", ROWS, GROUPS),
        ("SELECT ward, COUNT(*) FROM visits WHERE age > 20 GROUP BY ward", ROWS, GROUPS),
        ("SELECT COUNT(*) FROM (SELECT person FROM visits GROUP BY person) AS p", 1, 1),
        ("SELECT COUNT(*) FROM visits AS v JOIN visits AS w ON v.person = w.person", ROWS**2, 1),
        ("SELECT SUM(age) FROM (SELECT age FROM visits UNION ALL SELECT age FROM visits) AS both", 2 * ROWS, 1),
    ],
)
def test_a_person_has_at_most_so_many_rows_and_groups(clinic: Database, sql: str, rows: int, groups: int) -> None:
    (group,) = clinic.prepare(sql, None, RequestedPrice("1")).plan.private.groups
    assert (group.contribution.rows, group.contribution.groups) == (rows, groups)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT age FROM visits",
        "SELECT person, COUNT(*) FROM visits GROUP BY person",
        "SELECT SUM(v.age) FROM visits AS v JOIN visits AS w ON v.person <> w.person",
    ],
)
def test_what_has_no_bound_per_person_is_refused(clinic: Database, sql: str) -> None:
    with pytest.raises(Refusal):
        clinic.prepare(sql, None, RequestedPrice("1"))
