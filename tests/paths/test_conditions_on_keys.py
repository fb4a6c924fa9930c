"""An OR of conditions on several keys leaves combinations of them: groups that it excludes are not shown."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import sfumato

KEYS = {"ward": ("x", "y", "z"), "year": (1, 2, 3)}
ROWS = [
    {"patient": at, "ward": ("x", "y", "z", None)[at % 4], "year": (1, 2, 3, 9, None)[at % 5], "place": "xyz"[at % 3]}
    for at in range(600)
]
"""Year 9 lies outside its bounds, and so is in no group."""


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    """Open people with two keys, one row each, beside a public table."""
    folder: Path = tmp_path_factory.mktemp("keys")
    texts = {"type": "text", "values": ["x", "y", "z"]}
    columns = {"patient": {"type": "integer"}, "ward": texts, "place": texts}
    policy: dict[str, Any] = {
        "source": {
            "visits": pa.Table.from_pylist(ROWS),
            "nation": pa.table({"code": ["x", "y", "z"], "name": ["FRANCE", "GERMANY", "ITALY"]}),
        },
        "ledger": f"sqlite:{folder}/ledger",
        "budget": {"epsilon": 10**6, "delta": 0},
        "tables": {
            "nation": {"public": True},
            "visits": {
                "unit": "patient",
                "rows_per_unit": 1,
                "columns": {**columns, "year": {"type": "integer", "bounds": [1, 3]}},
            },
        },
    }
    with sfumato.open(policy) as opened:
        yield opened


def _condition(random: Random) -> tuple[str, Any]:
    """Return an OR of two cases over both keys: as SQL, and as a test of a row in which nothing is NULL."""
    cases = []
    for _ in range(2):
        ward, year = random.choice(KEYS["ward"]), random.choice(KEYS["year"])
        both = random.random() < 0.6
        one = random.choice(("ward", "year"))
        cases.append((ward if both or one == "ward" else None, year if both or one == "year" else None))
    words = " OR ".join(
        "(" + " AND ".join([*([f"ward = '{w}'"] if w else []), *([f"year = {y}"] if y else [])]) + ")" for w, y in cases
    )
    return words, lambda ward, year: any((not w or ward == w) and (not y or year == y) for w, y in cases)


@pytest.mark.parametrize("seed", range(12))
def test_groups_are_those_that_the_condition_leaves(db: sfumato.Database, seed: int) -> None:
    words, holds = _condition(Random(seed))
    sql = f"SELECT ward, year, COUNT(*) AS n FROM visits WHERE {words} GROUP BY ward, year"  # noqa: S608
    shown = db.ask(sql, epsilon="200")
    found = {(row["ward"], row["year"]): row["n"] for row in shown.rows() if None not in (row["ward"], row["year"])}
    left = {pair for pair in product(*KEYS.values()) if holds(*pair)}
    assert set(found) == left
    assert found == {pair: sum((row["ward"], row["year"]) == pair for row in ROWS) for pair in left}
    for row in shown.rows():  # a group of NULL is there only where the other key alone fulfils a case
        assert holds(row["ward"], row["year"])


def test_keys_of_public_tables_that_are_renamed_on_the_way(db: sfumato.Database) -> None:
    pairs = db.ask(
        "SELECT here, there, SUM(one) AS n FROM (SELECT a.name AS here, b.name AS there, 1 AS one FROM visits, "
        "nation a, nation b WHERE ward = a.code AND place = b.code AND ((a.name = 'FRANCE' AND b.name = 'GERMANY') OR "
        "(a.name = 'GERMANY' AND b.name = 'FRANCE'))) AS s GROUP BY here, there ORDER BY here",
        epsilon="200",
    )
    truth = [sum((row["ward"], row["place"]) == pair for row in ROWS) for pair in (("x", "y"), ("y", "x"))]
    assert pairs.rows() == [
        {"here": "FRANCE", "there": "GERMANY", "n": truth[0]},
        {"here": "GERMANY", "there": "FRANCE", "n": truth[1]},
    ]


def test_what_is_measured_and_its_price_are_the_same(db: sfumato.Database) -> None:
    """Leaving groups out is post-processing: the same cells are measured as where the text leaves them out itself."""
    sql = (
        "SELECT ward, place, COUNT(*) AS n FROM visits WHERE "
        "(ward = 'x' AND place = 'y') OR (ward = 'y' AND place = 'x') "
        "GROUP BY ward, place"
    )
    first = db.ask(sql, epsilon="3")
    again = db.ask(f"{sql} HAVING ward <> place ORDER BY ward", epsilon="3")
    assert again.repeated
    assert again.rows() == sorted(first.rows(), key=lambda row: str(row["ward"]))
