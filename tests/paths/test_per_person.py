"""What is computed of one person's rows is exact, so that nobody else's rows, nor their order, can change it."""

from collections import Counter
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.paths.test_sensitivity import Opened

from sfumato.engines.duckdb.engine import DuckDB
from sfumato.engines.duckdb.registration import register
from sfumato.engines.engine import Limits
from sfumato.policy.reading import read_policy

PEOPLE, FAR = 400, 10**8


class Meters(Opened):
    """People with numbers whose cubes need more than 64 bits, and with zeros of both signs."""

    def __init__(self, folder: Path, rows: list[tuple[int, int, float]]) -> None:
        (folder / "data").mkdir(parents=True)
        columns = {
            "who": pa.array([row[0] for row in rows]),
            "x": [row[1] for row in rows],
            "w": [row[2] for row in rows],
        }
        pq.write_table(pa.table(columns), folder / "data" / "meters.parquet")
        declared: dict[str, Any] = {
            "who": {"type": "integer"},
            "x": {"type": "integer", "bounds": [-FAR, FAR]},
            "w": {"type": "decimal"},
        }
        self.policy = read_policy(
            {
                "name": "meters",
                "source": f"parquet:{folder}/data",
                "ledger": f"sqlite:{folder}/meters.ledger",
                "budget": {"epsilon": 10, "delta": 0},
                "tables": {"meters": {"unit": "who", "rows_per_unit": 8, "columns": declared}},
            }
        )
        self.engine = DuckDB(self.policy, register(self.policy, lambda phase, table: None), Limits(threads=2))


@pytest.fixture(scope="module")
def rows() -> list[tuple[int, int, float]]:
    random = Random(4)
    return [
        (person, random.choice([-7, 11, random.randint(-FAR, FAR)]), random.choice([0.0, -0.0]))
        for person in range(PEOPLE)
        for _ in range(random.randint(1, 8))
    ]


@pytest.fixture(scope="module")
def meters(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, float]]) -> Meters:
    return Meters(tmp_path_factory.mktemp("meters"), rows)


def _rounded(value: Fraction) -> Fraction:
    """Return an average as it is kept: in thousandths, half away from zero."""
    scaled = abs(value) * 1000
    whole = (2 * scaled.numerator + scaled.denominator) // (2 * scaled.denominator)
    return Fraction(whole if value >= 0 else -whole, 1000)


def _truncated(value: int) -> int:
    return value % 7 if value >= 0 else -(-value % 7)


@pytest.mark.parametrize(
    ("computed", "expected"),
    [
        ("FLOOR(AVG(POWER(x, 3)))", lambda cubes: _rounded(Fraction(sum(cubes), len(cubes))) // 1),
        ("SUM(POWER(x, 3))", sum),
        ("SUM(DISTINCT POWER(x, 3))", lambda cubes: sum(set(cubes))),
        ("FLOOR(AVG(DISTINCT POWER(x, 3)))", lambda cubes: _rounded(Fraction(sum(set(cubes)), len(set(cubes)))) // 1),
    ],
)
def test_long_integers_of_one_person_are_added_exactly(
    meters: Meters, rows: list[tuple[int, int, float]], computed: str, expected: Any
) -> None:
    """Doubles would be wrong in the last digits, differently for another order of the rows."""
    own: dict[int, list[int]] = {}
    for person, x, _ in rows:
        own.setdefault(person, []).append(x**3)
    exact = Counter(_truncated(int(expected(cubes))) for cubes in own.values())
    sql = f"SELECT r, COUNT(*) FROM (SELECT who, ({computed}) % 7 AS r FROM meters GROUP BY who) t GROUP BY r"  # noqa: S608
    ((plan, found),) = meters.aggregates(sql)
    assert plan.measured[0].sensitivity.l1 == 1
    counted = {key[0]: int(n) for key, n in zip(found.keys, found.columns[plan.measured[0].name], strict=True) if n}
    assert counted == exact


@pytest.mark.parametrize(
    "zero",
    ["MAX(w)", "MIN(w)", "MAX(-w)", "MIN(w * -1)", "MAX(ROUND(w - 0.3, 0))", "MAX(w / 3)"],
)
def test_there_is_one_zero(meters: Meters, zero: str) -> None:
    """Which of two equal doubles comes first is decided by everybody's rows; so they must not be told apart."""
    inner = f"(SELECT who, {zero} AS m FROM meters GROUP BY who)"  # noqa: S608
    sql = f"SELECT COUNT(*) FROM {inner} t WHERE CAST(m AS text) = '0.0'"  # noqa: S608
    ((plan, found),) = meters.aggregates(sql)
    assert int(found.columns[plan.measured[0].name][0]) == PEOPLE


def test_one_zero_stands_for_a_group_of_one_person(meters: Meters) -> None:
    inner = "(SELECT who, w, COUNT(*) AS n FROM meters GROUP BY who, w)"
    sql = f"SELECT COUNT(*) FROM {inner} t WHERE CAST(w AS text) = '0.0'"  # noqa: S608
    ((plan, found),) = meters.aggregates(sql)
    assert int(found.columns[plan.measured[0].name][0]) == PEOPLE


def test_the_rows_of_the_copy_lie_in_the_order_of_all_their_columns(meters: Meters) -> None:
    stored = meters.engine._reader.rows('SELECT who, w, x FROM copy.main."meters" ORDER BY rowid')
    assert stored == sorted(stored)
