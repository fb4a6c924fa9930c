"""The bounded copy of Spark: row for row what the definition says, of many people with hostile values at once."""

from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from math import inf, nan
from random import Random

import pytest
from tests.engines.builds import SALT
from tests.engines.reference import Row, bounded_reference
from tests.engines.spark.laws_operators import assert_on_the_grid
from tests.engines.spark_under_law import SparkUnderLaw
from tests.engines.test_bounded_copy import POLICY, SCHEMAS, arrow
from tests.engines.test_bounding_by_shuffle import copied_by, policy_with, tables_of

from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.sql.bounding import by_shuffle
from sfumato.sensitivity.grid import Grid

TEXTS = ["", "er", "icu", "zz", "1:a", "-", "é", "ß", "İ", "a\\b", "it's", "${x}", None]
COSTS = [None, nan, inf, -inf, -0.0, 0.25, 0.75, 1.0, 7.5, -9.0, 5e-324, 1.7976931348623157e308, 0.2500000001]
DAYS = [None, date(2019, 12, 30), date(2020, 1, 2), date(1, 1, 1), date(9999, 12, 31)]
CLOCKS = [None, datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1970, 1, 1), datetime(1, 1, 1)]
CLOCKS += [datetime(9999, 12, 31, 23, 59, 59, 999999)]


def _database(people: int) -> dict[str, list[Row]]:
    random = Random(5)
    orders: list[Row] = []
    for _ in range(6 * people):
        person = random.choice([*range(people), None, -(2**63), 2**63 - 1])
        orders.append(
            {
                "person": person,
                "key": random.choice([*range(people), None]),
                "cost": random.choice(COSTS),
                "dept": random.choice(TEXTS),
                "code": random.choice(TEXTS),
                "day": random.choice(DAYS),
                "at": random.choice(CLOCKS),
                "ok": random.choice([None, True, False]),
                "undeclared": "x",
            }
        )
    lines: list[Row] = [
        {"link": random.choice([*range(people), None]), "amount": random.randint(-5, 9), "Note": random.choice(TEXTS)}
        for _ in range(4 * people)
    ]
    votes: list[Row] = [{"choice": None if at % 5 == 0 else Decimal(at) / 2 - 3} for at in range(40)]
    return {
        "orders": orders + orders[:people],  # some rows are there twice
        "lines": lines + lines[:people],
        "votes": votes,
        "codes": [{"code": "1:a"}, {"code": "er"}, {"code": None}],
    }


def test_the_copy_is_what_the_definition_says() -> None:
    database = _database(60)
    copy = SparkUnderLaw().bounded(POLICY, arrow(database), SALT)
    expected = bounded_reference(POLICY, database, SALT)
    for name in ("orders", "lines", "votes"):
        assert copy[name] == expected[name], name
    assert copy["codes"] == Counter([("1:a",), ("er",), (None,)])
    assert set(SCHEMAS) == set(copy)


@pytest.mark.parametrize("very_many", [4, 1 << 17], ids=["apart", "together"])
@pytest.mark.parametrize("unique", [(), ("visit",)], ids=["none", "unique"])
def test_rows_numbers_removed_rows_and_losses_are_those_of_duckdb(
    unique: tuple[str, ...], very_many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_shuffle, "HEAVY_UNIT_ROWS", very_many)
    words = {"rows_per_unit": {"most": 6, "choose": "private"}} if very_many == 4 and not unique else {}
    policy, tables = policy_with(unique, "0.1", **words), tables_of(3)
    here, there = SparkUnderLaw().bounded(policy, tables, SALT, hidden=1), copied_by(DUCKDB, policy, tables)
    for name in there:
        assert here[name] == there[name], name
    assert len(there) == 7 + bool(words)


def test_wide_ranges_are_on_the_grid_too() -> None:
    assert_on_the_grid([Grid(Fraction(-5 * 10**15), Fraction(10**16), Fraction(1, 100))])
