"""A join of rows of people with an aggregate of them moves above the GROUP BY exactly where it means the same."""

# ruff: noqa: S608  (the texts are of this file)

import random
import sqlite3

import pytest
from tests.query.clinic import CLINIC

from sfumato.query.parse import parse
from sfumato.query.relation import GroupBy, Join, Relation, inputs

TOP = "(SELECT dept AS d, COUNT(*) AS m FROM visits WHERE age > 3 GROUP BY dept ORDER BY m DESC, d LIMIT 2) AS s"
PLACES = "(SELECT dept AS d, urgent AS u, SUM(age) AS m FROM visits GROUP BY dept, urgent) AS s"
MOVED = {
    f"SELECT dept, COUNT(*) AS n FROM visits JOIN {TOP} ON dept = d GROUP BY dept": (
        f"SELECT dept, n FROM (SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept) AS o JOIN {TOP} ON o.dept = d"
    ),
    f"SELECT dept, urgent, SUM(cost) AS n FROM visits JOIN {TOP} ON d = dept WHERE age < 60 GROUP BY dept, urgent": (
        "SELECT dept, urgent, n FROM (SELECT dept, urgent, SUM(cost) AS n FROM visits WHERE age < 60 "
        f"GROUP BY dept, urgent) AS o JOIN {TOP} ON o.dept = d"
    ),
    f"SELECT dept, urgent, COUNT(*) AS n FROM {PLACES} JOIN visits ON dept = d AND urgent = u GROUP BY urgent, dept": (
        "SELECT dept, urgent, n FROM (SELECT dept, urgent, COUNT(*) AS n FROM visits GROUP BY urgent, dept) AS o "
        f"JOIN {PLACES} ON o.dept = d AND o.urgent = u"
    ),
}
KEPT = {
    "a measure reads the aggregate": f"SELECT dept, SUM(m) AS n FROM visits JOIN {TOP} ON dept = d GROUP BY dept",
    "a condition reads it": f"SELECT dept, COUNT(*) AS n FROM visits JOIN {TOP} ON dept = d WHERE m > 3 GROUP BY dept",
    "a key reads it": f"SELECT dept, m, COUNT(*) AS n FROM visits JOIN {TOP} ON dept = d GROUP BY dept, m",
    "it is not joined by a key": f"SELECT urgent, COUNT(*) AS n FROM visits JOIN {TOP} ON dept = d GROUP BY urgent",
    "one row meets several": f"SELECT dept, COUNT(*) AS n FROM visits JOIN {PLACES} ON dept = d GROUP BY dept",
    "it is no equality": f"SELECT dept, COUNT(*) AS n FROM visits JOIN {TOP} ON dept > d GROUP BY dept",
    "an outer join": f"SELECT dept, COUNT(*) AS n FROM visits LEFT JOIN {TOP} ON dept = d GROUP BY dept",
}


def joins_below_a_group(relation: Relation) -> int:
    """Count the joins that people's rows are grouped after."""
    own = isinstance(relation, GroupBy) and any(isinstance(node, Join) for node in below(relation))
    return int(own) + sum(joins_below_a_group(source) for source in inputs(relation))


def below(relation: Relation) -> list[Relation]:
    nodes: list[Relation] = []
    for source in inputs(relation):
        nodes += [source] if isinstance(source, GroupBy) else [source, *below(source)]
    return nodes


@pytest.mark.parametrize("sql", MOVED)
def test_a_join_by_keys_moves_above_the_groups(sql: str) -> None:
    assert joins_below_a_group(parse(sql, CLINIC).relation) == 0


@pytest.mark.parametrize("why", KEPT)
def test_a_join_that_groups_need_stays_where_it_is(why: str) -> None:
    assert joins_below_a_group(parse(KEPT[why], CLINIC).relation) == 1


@pytest.mark.parametrize("sql", MOVED)
def test_both_forms_mean_the_same_in_a_database_without_noise(sql: str) -> None:
    """The oracle is SQLite over random tables, with NULLs."""
    dice = random.Random(20_261_118)
    for _ in range(50):
        database = sqlite3.connect(":memory:")
        database.execute("CREATE TABLE visits (dept TEXT, urgent INTEGER, age INTEGER, cost INTEGER)")
        rows = [
            (dice.choice(["er", "icu", "lab", None]), dice.choice([0, 1, None]), dice.randrange(90), dice.randrange(9))
            for _ in range(dice.randrange(40))
        ]
        database.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", rows)
        first, second = (sorted(database.execute(text), key=repr) for text in (sql, MOVED[sql]))
        assert first == second
