"""SUM(x) / COUNT(x), however it is spelt, is the plan of AVG(x); what only looks like it is not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import sfumato
from sfumato.planning.plan import GroupPlan
from sfumato.prepare import RequestedPrice

ROWS = "patient,dept,age,cost\n1,er,40,100.5\n2,icu,50,\n3,er,,20\n"


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    folder: Path = tmp_path_factory.mktemp("averages")
    (folder / "visits.csv").write_text(ROWS, encoding="utf-8")
    columns = {
        "patient": {"type": "integer"},
        "dept": {"type": "text", "values": ["er", "icu"]},
        "age": {"type": "integer", "bounds": [0, 100]},
        "cost": {"type": "decimal", "bounds": [0, 1000], "step": "0.01"},
    }
    policy: dict[str, object] = {
        "name": "clinic",
        "source": f"csv:{folder}/visits.csv",
        "ledger": f"sqlite:{folder}/clinic.ledger",
        "budget": {"epsilon": 10, "delta": 0},
        "tables": {"visits": {"unit": "patient", "rows_per_unit": 2, "columns": columns}},
    }
    with sfumato.open(policy) as opened:
        yield opened


def _measured(clinic: sfumato.Database, items: str, tail: str = "") -> list[tuple[object, ...]]:
    group: GroupPlan
    (group,) = clinic.prepare(f"SELECT {items} FROM visits {tail}", None, RequestedPrice("1")).plan.groups  # noqa: S608
    return [(one.quantity, one.sensitivity, one.mechanism) for one in group.measured]


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("SUM(cost) / COUNT(cost)", "AVG(cost)"),
        ("SUM(cost) / NULLIF(COUNT(cost), 0)", "AVG(cost)"),
        ("SUM(age) / COUNT(age)", "AVG(age)"),
        ("1.0 * SUM(age) / COUNT(age)", "AVG(age)"),
        ("CAST(SUM(age) AS decimal) / COUNT(age)", "AVG(age)"),
        ("ROUND(SUM(cost) / COUNT(cost), 1)", "ROUND(AVG(cost), 1)"),
        ("SUM(cost) FILTER (WHERE age > 3) / COUNT(cost) FILTER (WHERE age > 3)", "AVG(cost) FILTER (WHERE age > 3)"),
        ("SUM(cost) / COUNT(cost), AVG(cost)", "AVG(cost)"),
        ("SUM(cost) / COUNT(cost), COUNT(cost)", "AVG(cost), COUNT(cost)"),
        ("SUM(cost) / COUNT(cost), SUM(cost)", "SUM(cost), AVG(cost)"),
    ],
)
def test_a_quotient_that_is_an_average_is_measured_as_one(clinic: sfumato.Database, written: str, plain: str) -> None:
    assert sorted(map(repr, _measured(clinic, written))) == sorted(map(repr, _measured(clinic, plain)))


def test_a_quotient_that_chooses_and_orders_groups_is_one_too(clinic: sfumato.Database) -> None:
    quotient = "SUM(cost) / COUNT(cost)"
    tail = "GROUP BY dept HAVING {0} > 3 ORDER BY {0} LIMIT 2"
    written = _measured(clinic, f"dept, {quotient} AS a", tail.format(quotient))
    assert written == _measured(clinic, "dept, AVG(cost) AS a", tail.format("AVG(cost)"))


@pytest.mark.parametrize(
    "other",
    [
        "SUM(cost) / COUNT(*)",
        "SUM(cost) / COUNT(age)",
        "SUM(DISTINCT cost) / COUNT(DISTINCT cost)",
        "COUNT(cost) / SUM(cost)",
        "SUM(cost) / COUNT(cost) FILTER (WHERE age > 3)",
        "2.0 * SUM(cost) / COUNT(cost)",
    ],
)
def test_what_is_another_number_is_measured_as_it_is_written(clinic: sfumato.Database, other: str) -> None:
    arguments = [repr(quantity) for quantity, *_ in _measured(clinic, other)]
    assert not any("SUBTRACT" in argument for argument in arguments), "nothing is taken around the middle"
