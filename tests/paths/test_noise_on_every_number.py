"""Every number that is measured gets noise, however it is shared: four databases of the same rows are never alike.

At ε = 1/1,000 noise is a thousand wide or more, so that two independent draws of one cell agree at most once in a
thousand times, and four once in a billion times: with sixteen columns a run fails once in sixty million.
"""

from pathlib import Path

import pytest
from tests.paths.worlds import a_world, policy, write

import sfumato

QUERIES = (
    "SELECT COUNT(*) AS a, COUNT(x) AS b FROM survey",
    "SELECT urgent, COUNT(*) AS a, SUM(age) AS b FROM visits GROUP BY urgent",
    "SELECT urgent, SUM(cost) AS a, COUNT(cost) AS b FROM visits GROUP BY urgent",
    "SELECT dept, COUNT(age) AS a, COUNT(*) AS b FROM visits GROUP BY dept",
    "SELECT dept, COUNT(DISTINCT patient_id) AS a, COUNT(*) AS b FROM visits GROUP BY dept",
    "SELECT dept, SUM(age) AS a, SUM(cost) AS b, COUNT(*) AS c FROM visits GROUP BY dept",
)


def test_databases_of_the_same_rows_differ_in_every_column(tmp_path: Path) -> None:
    answers: dict[tuple[str, str], list[list[object]]] = {}
    for number in range(4):
        write(tmp_path / str(number), a_world(5, people=12))
        with sfumato.open(policy(tmp_path / str(number))) as database:
            for sql in QUERIES:
                rows = database.ask(sql, epsilon="0.001").rows()
                for name in sorted({"a", "b", "c"} & set(rows[0])):
                    answers.setdefault((sql, name), []).append([row[name] for row in rows])
    assert [place for place, given in answers.items() if all(one == given[0] for one in given)] == []


@pytest.mark.parametrize("sql", QUERIES[:1])
def test_two_counts_share_their_noise(tmp_path: Path, sql: str) -> None:
    write(tmp_path, a_world(5, people=12))
    with sfumato.open(policy(tmp_path)) as database:
        mechanisms = database.explain(sql, epsilon="0.001").mechanisms.values()
    assert all(mechanism.startswith("discrete max-norm of 2") for mechanism in mechanisms)
