"""The order of FROM changes nothing: verdict, bounds, groups and the identity of what is measured are the same."""

# ruff: noqa: S608  (SQL is what is tested here)

from collections.abc import Callable, Iterator
from itertools import islice, permutations
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.paths.test_tpch_questions import judged as judged
from tests.paths.worlds import a_world, policy, write

import sfumato
from sfumato.analysis.private_query import PrivateQuery
from sfumato.errors import EngineFailed, QueryTooLarge, Refusal
from sfumato.planning.canonical_flow import CanonicalFlow
from sfumato.prepare import RequestedPrice

Judge = Callable[[str], PrivateQuery]
TREES = {
    "public tables that meet only through people's rows": (
        "SELECT n_name, SUM(l_extendedprice) FROM {} WHERE l_partkey = p_partkey AND l_suppkey = s_suppkey AND "
        "s_nationkey = n_nationkey AND p_size > 2 GROUP BY n_name",
        ("part", "supplier", "lineitem", "nation"),
    ),
    "three tables of people and a public one": (
        "SELECT n_name, COUNT(*) FROM {} WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND c_nationkey = "
        "n_nationkey AND o_orderdate < DATE '1995-01-01' GROUP BY n_name",
        ("customer", "orders", "lineitem", "nation"),
    ),
    "a key of two columns": (
        "SELECT COUNT(*) FROM {} WHERE ps_partkey = l_partkey AND ps_suppkey = l_suppkey AND s_suppkey = l_suppkey "
        "AND p_partkey = l_partkey",
        ("partsupp", "lineitem", "supplier", "part"),
    ),
    "a table that hangs on another public one": (
        "SELECT n_name, COUNT(DISTINCT c_custkey) FROM {} WHERE c_nationkey = n_nationkey AND n_regionkey = "
        "r_regionkey AND r_name = 'r1' AND o_custkey = c_custkey GROUP BY n_name",
        ("region", "nation", "customer", "orders"),
    ),
}


def measured(private: PrivateQuery) -> list[object]:
    """Return what decides about price and noise, and what tells measurements apart."""
    return [
        (CanonicalFlow(group.rows).rows, group.contribution, group.combinations, [key.cells for key in group.keys])
        for group in private.groups
    ]


@pytest.mark.parametrize("name", TREES)
def test_all_orders_of_from_are_one_question(judged: Judge, name: str) -> None:
    sql, tables = TREES[name]
    found = [measured(judged(sql.format(", ".join(order)))) for order in permutations(tables)]
    assert len(found) == 24
    assert all(one == found[0] for one in found)


def test_joins_with_conditions_are_the_same_as_commas(judged: Judge) -> None:
    joined = (
        "SELECT n_name, SUM(l_extendedprice) FROM lineitem JOIN supplier ON s_suppkey = l_suppkey JOIN part ON "
        "p_partkey = l_partkey AND p_size > 2 JOIN nation ON n_nationkey = s_nationkey GROUP BY n_name"
    )
    sql, tables = TREES["public tables that meet only through people's rows"]
    assert measured(judged(joined)) == measured(judged(sql.format(", ".join(tables))))


def test_public_tables_that_meet_through_people_multiply_nothing(judged: Judge) -> None:
    sql, tables = TREES["public tables that meet only through people's rows"]
    (group,) = judged(sql.format(", ".join(tables))).groups
    (alone,) = judged("SELECT SUM(l_extendedprice) FROM lineitem").groups
    assert group.contribution.rows == alone.contribution.rows


def test_conditions_on_public_tables_choose_the_groups(judged: Judge) -> None:
    sql, tables = TREES["a table that hangs on another public one"]
    (group,) = judged(sql.format(", ".join(tables))).groups
    assert group.keys[0].cells == ("n1", "n3")  # two of four nations are in r1


def test_a_join_that_gives_one_person_too_many_rows_is_refused_in_every_order(judged: Judge) -> None:
    tables = ("partsupp", "lineitem", "partsupp AS again", "orders")
    for order in islice(permutations(tables), 24):
        with pytest.raises(QueryTooLarge):
            judged(f"SELECT COUNT(*) FROM {', '.join(order)}")


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    folder: Path = tmp_path_factory.mktemp("orders")
    write(folder, a_world(7, people=40))
    with sfumato.open(policy(folder)) as database:
        yield database


CLINIC_JOINS = (
    ("v.patient_id = p.patient_id", "v.dept = s.dept"),
    ("v.patient_id = p.patient_id", "v.dept = s.dept", "s.floor > 1"),
    ("v.patient_id = p.patient_id", "v.dept = s.dept", "p.income > v.age"),
    ("v.patient_id = p.patient_id",),
)


@pytest.mark.parametrize("conditions", CLINIC_JOINS)
def test_prices_and_answers_are_the_same_in_every_order(clinic: sfumato.Database, conditions: tuple[str, ...]) -> None:
    draw, seen = Random(3), set()
    for order in permutations(("visits AS v", "patients AS p", "staff AS s")):
        where = " AND ".join(draw.sample(conditions, len(conditions)))
        sql = f"SELECT v.dept, COUNT(*) AS n, SUM(v.age) AS a FROM {', '.join(order)} WHERE {where} GROUP BY v.dept"
        try:
            asked = clinic.prepare(sql, None, RequestedPrice("1", None, None, "1e-7"))
            seen.add((asked.fingerprint, str(clinic.explain(sql, epsilon="1", delta="1e-7").margins)))
        except EngineFailed:
            raise
        except Refusal as refusal:
            seen.add((refusal.code, ""))
    assert len(seen) == 1


@pytest.mark.parametrize(
    "impossible",
    [
        "v.age < 3 AND v.age > 4",
        "p.income < v.age AND p.income > v.age",
        "s.floor < 0",
        "s.floor < v.age AND s.floor > v.age",
    ],
)
def test_no_condition_is_lost_on_the_way(clinic: sfumato.Database, impossible: str) -> None:
    joined = "v.patient_id = p.patient_id AND v.dept = s.dept"
    for order in permutations(("visits AS v", "patients AS p", "staff AS s")):
        counts = []
        for where in (joined, f"{joined} AND {impossible}"):
            sql = f"SELECT COUNT(*) AS n FROM {', '.join(order)} WHERE {where}"
            asked = clinic.prepare(sql, None, RequestedPrice("1", None, None, "1e-7"))
            ((columns,),) = ([group.columns for group in asked.engine.run(asked.job).groups],)
            counts.append(sum(int(np.sum(column)) for column in columns.values()))
        assert counts[0] > 0 == counts[1]
