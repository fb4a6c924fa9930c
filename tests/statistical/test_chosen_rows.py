"""Bars of rows that noise chose hold together: HAVING, LIMIT, QUALIFY and IN among equal groups, the worst case.

Each question is released 60 times with fixed bits, so that a failure is a bug. With other bits, bars of a column that
all hold with exactly 95 % would raise an alarm with probability below 1e-6 (binomial, exact).
"""

# ruff: noqa: S608 - questions are written by hand here, never from anybody's input

from collections.abc import Iterator

import numpy as np
import pytest
from scipy.stats import binom
from tests.release.bars_clinic import holds, opened, released

import sfumato

GROUPS, PEOPLE, RELEASES = 25, 60, 60
TRUE = {"n": PEOPLE, "s": 5 * PEOPLE, "a": 5.0, "r": 1 / GROUPS}
N = "SELECT g, COUNT(*) AS n FROM v GROUP BY g"
CHOSEN = {
    "the largest": f"{N} ORDER BY n DESC LIMIT 1",
    "several columns": "SELECT g, COUNT(*) AS n, SUM(y) AS s, AVG(y) AS a FROM v GROUP BY g ORDER BY a LIMIT 4",
    "above a number": f"{N} HAVING COUNT(*) > {PEOPLE + 8}",
    "by a window": f"{N} QUALIFY ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) <= 3",
    "the largest share": "SELECT * FROM (SELECT g, 1.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS r FROM v GROUP BY g) t "
    "ORDER BY r DESC LIMIT 2",
    "among a noisy list": f"WITH c AS ({N}) SELECT g, n FROM c WHERE g IN (SELECT g FROM c WHERE n > {PEOPLE + 6})",
    "of a join": f"WITH c AS ({N}), d AS (SELECT g, SUM(y) AS s FROM v GROUP BY g) "
    "SELECT c.g, n, s FROM c JOIN d ON c.g = d.g ORDER BY s DESC LIMIT 3",
    "of selected keys": "SELECT town, COUNT(*) AS n, SUM(y) AS s FROM v GROUP BY town ORDER BY s DESC LIMIT 3",
}


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    people = np.arange(GROUPS * PEOPLE)
    rows = {
        "p": people,
        "g": people % GROUPS,
        "town": np.array([f"t{place:02}" for place in range(GROUPS)])[people % GROUPS],
        "y": np.full(len(people), 5),
    }
    columns = {
        "g": {"type": "integer", "bounds": [0, GROUPS - 1]},
        "town": {"type": "text"},
        "y": {"type": "integer", "bounds": [0, 10]},
    }
    with opened(tmp_path_factory.mktemp("chosen"), rows, {"rows_per_unit": 1, "columns": columns}) as database:
        yield database


@pytest.mark.parametrize("sql", CHOSEN.values(), ids=CHOSEN)
def test_intervals_of_rows_that_noise_chose_hold_together(clinic: sfumato.Database, sql: str) -> None:
    wrong: dict[str, int] = {}
    for release in released(clinic, sql, RELEASES, "0.5"):
        for name in {*TRUE} & {*release.columns}:
            column = [row[name] for row in release.intervals()]
            missed = any(ends is not None and not holds(ends, TRUE[name]) for ends in column)
            wrong[name] = wrong.get(name, 0) + missed
    assert wrong
    for name, count in wrong.items():
        assert binom.sf(count - 1, RELEASES, 0.05) > 1e-6, (name, count)


def test_rows_that_no_noise_chose_keep_the_bar_of_one_row(clinic: sfumato.Database) -> None:
    (all_rows,), (first,) = (released(clinic, sql, 1, "0.5") for sql in (N, f"{N} ORDER BY g LIMIT 3"))
    widths = {high - low for release in (all_rows, first) for low, high in (row["n"] for row in release.intervals())}
    assert len(widths) == 1
