"""The engine against plain Python: exact aggregates, public cells, and people who are bounded one by one."""

import os
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.engines.engines import UnderLaw, engine_under_law
from tests.engines.opened import answers, measured, of, opened, owner, planned, read

from sfumato.analysis.private_query import Key
from sfumato.engines.engine import Engine
from sfumato.engines.spark.dialect import SPARK
from sfumato.errors import EngineFailed, QueryTooLarge
from sfumato.language.numbers import clip_scalar
from sfumato.language.rel_nodes import AggregateItem, AggregateNode, FilterNode, Item
from sfumato.language.scalar import Operator, Scalar, column, literal
from sfumato.planning.plan import Plan
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import Aggregation

pytestmark = pytest.mark.usefixtures("every_engine")

COUNT, SUM = Aggregation.COUNT, Aggregation.SUM
DEPT = "de'pt #1"
ROWS = 12


def _declared(keys: list[str] | None) -> dict[str, Any]:
    dept = {"type": "text"} if keys is None else {"type": "text", "values": keys}
    return {
        "Visits": {
            "unit": "Patient",
            "rows_per_unit": ROWS,
            "columns": {
                "Patient": {"type": "integer"},
                DEPT: dept,
                "flag": {"type": "boolean"},
                "cost": {"type": "decimal", "bounds": [-5, 50], "step": "0.01"},
                "site": {"type": "integer", "bounds": [0, 4]},
                "who": {"type": "integer", "bounds": [0, 99]},
            },
        }
    }


Visit = tuple[int, str | None, bool | None, int | None, int]


def _visits(seed: int, people: int = 25) -> list[Visit]:
    random = Random(seed)
    return [
        (
            person,
            random.choice(["er", "icu", "lab", "ent", None]),
            random.choice([True, False, None]),
            random.choice([None, random.randint(-500, 5000)]),
            random.randint(0, 4),
        )
        for person in range(people)
        for _ in range(random.randint(1, ROWS))
    ]


def _open(root: Path, visits: list[Visit], keys: list[str] | None = None) -> Engine:
    names = ["Patient", DEPT, "flag", "cost", "site"]
    columns: dict[str, list[Any]] = {name: [visit[at] for visit in visits] for at, name in enumerate(names)}
    columns["cost"] = [None if cost is None else cost / 100 for cost in columns["cost"]]
    columns["who"] = columns["Patient"]
    return opened(root, _declared(keys), {"visits": pa.table(columns)})


@pytest.fixture(scope="module")
def shared(every_engine: UnderLaw, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The visits of seed 2, opened once."""
    return _open(tmp_path_factory.mktemp("shared"), _visits(2))


def _exact(visits: list[Visit]) -> dict[str | None, tuple[int, ...]]:
    cells = defaultdict(list)
    for visit in visits:
        cells[visit[1]].append(visit)
    return {
        key: (
            len(rows),
            sum(cost for *_, cost, _ in rows if cost is not None),
            len({site for *_, site in rows}),
            sum(flag is True for _, _, flag, _, _ in rows),
            len({person for person, *_ in rows}),
        )
        for key, rows in cells.items()
    }


def _measures(engine: Engine) -> tuple[Any, ...]:
    table = engine.catalog.tables["visits"]
    return (
        measured("rows", COUNT),
        measured("cost", SUM, of(table, "cost")),
        measured("sites", COUNT, of(table, "site"), distinct=True),
        measured("flags", COUNT, where=of(table, "flag")),
        measured("people", COUNT, owner(table), distinct=True),
    )


def _dept(engine: Engine) -> Key:
    table = engine.catalog.tables["visits"]
    return Key("k", of(table, DEPT), table.field(DEPT).cells)


@pytest.mark.parametrize("seed", range(3))
def test_secret_keys_come_with_exact_aggregates_and_the_number_of_people(tmp_path: Path, seed: int) -> None:
    visits = _visits(seed)
    engine = _open(tmp_path, visits)
    found = answers(engine, planned(engine.catalog.tables["visits"], (_dept(engine),), _measures(engine)))
    assert found == {(key,): (*values, values[-1]) for key, values in _exact(visits).items() if key is not None}


def test_public_cells_are_all_there_in_their_order_and_nothing_else_is(tmp_path: Path) -> None:
    visits = _visits(7)
    engine = _open(tmp_path, visits, ["icu", "none", "er"])
    table = engine.catalog.tables["visits"]
    flag = Key("f", of(table, "flag"), table.field("flag").cells)
    found = answers(engine, planned(table, (_dept(engine), flag), _measures(engine)))
    expected = {
        (key, truth): _exact([visit for visit in visits if visit[2] is truth]).get(key, (0,) * 5)
        for key in ["icu", "none", "er"]
        for truth in [False, True]
    }
    assert list(found.items()) == list(expected.items())
    # a query may know fewer cells than the data holds
    fewer = replace(_dept(engine), cells=("er",))
    assert list(answers(engine, planned(table, (fewer,), _measures(engine)))) == [("er",)]


def test_no_keys_are_one_cell_also_where_no_row_is_left(tmp_path: Path) -> None:
    engine = _open(tmp_path, visits := _visits(1))
    table = engine.catalog.tables["visits"]
    ((_, values),) = answers(engine, planned(table, (), _measures(engine))).items()
    (whole,) = _exact([(person, None, *rest) for person, _, *rest in visits]).values()  # type: ignore[misc]
    assert values == whole
    never = Scalar(Operator.IS_NULL, (of(table, "site"),), of(table, "flag").facts)
    assert answers(engine, planned(table, (), _measures(engine), FilterNode(read(table), never))) == {(): (0,) * 5}


@pytest.mark.parametrize(("rows", "groups"), [(None, 1), (None, 2), (3, None), (3, 2)])
@pytest.mark.parametrize("distinct", [False, True])
def test_a_person_is_bounded_and_the_others_do_not_notice_who_else_is_there(
    shared: Engine, rows: int | None, groups: int | None, distinct: bool
) -> None:
    engine, visits = shared, _visits(2)
    table = engine.catalog.tables["visits"]
    who = of(table, "who")
    measures = tuple(one for one in _measures(engine) if distinct or one.name != "sites")

    def cells(without: int | None) -> dict[Any, tuple[int, ...]]:
        everybody = read(table)
        gone = literal(without, who.facts)
        kept = Scalar(Operator.DIFFERENT, (who, gone), of(table, "flag").facts)
        flow = everybody if without is None else FilterNode(everybody, kept)
        keys = (Key("who", who, None), _dept(engine))  # who is also a value, so that each one's cells are seen
        return answers(engine, planned(table, keys, measures, flow, rows, groups))

    whole = cells(None)
    assert cells(None) == whole
    for person in range(25):
        own = [visit for visit in visits if visit[0] == person and visit[1] is not None]
        kept = {key: values for key, values in whole.items() if key[0] == person}
        if groups is not None and rows is None:
            assert len(kept) == min(len({visit[1] for visit in own}), groups)
        assert len(kept) <= (groups or ROWS)
        assert sum(values[0] for values in kept.values()) <= min(len(own), rows or ROWS)
        if groups is None:
            assert sum(values[0] for values in kept.values()) == min(len(own), rows or ROWS)
    for person in (0, 13, 24):
        assert cells(person) == {key: values for key, values in whole.items() if key[0] != person}


def test_a_person_keeps_few_rows_and_identical_rows_are_interchangeable(tmp_path: Path) -> None:
    visits = _visits(4)
    engine = _open(tmp_path, visits)
    table = engine.catalog.tables["visits"]
    plan = planned(table, (), _measures(engine), most_rows=3)
    ((rows, *_, people),) = answers(engine, plan).values()
    own = [sum(who == person for who, *_ in visits) for person in range(25)]
    assert (rows, people) == (sum(min(count, 3) for count in own), 25)
    assert answers(engine, plan) == answers(engine, plan)


def test_what_is_no_stored_column_is_clipped_once_more(tmp_path: Path) -> None:
    engine = _open(tmp_path, visits := _visits(5))
    table = engine.catalog.tables["visits"]
    site = of(table, "site")
    narrowed = replace(site, facts=replace(site.facts, low=1, high=2))  # a promise that nothing keeps
    spelled = clip_scalar(site, 0, 3)
    plan = planned(table, (), (measured("a", SUM, narrowed), measured("b", SUM, spelled), measured("c", SUM, site)))
    sites = [visit[-1] for visit in visits]
    expected = (sum(min(max(s, 1), 2) for s in sites), sum(min(s, 3) for s in sites), sum(sites))
    assert answers(engine, plan) == {(): expected}


def test_a_person_s_own_aggregates_can_be_aggregated(tmp_path: Path) -> None:
    engine = _open(tmp_path, visits := _visits(6))
    table = engine.catalog.tables["visits"]
    site = of(table, "site")
    total = AggregateItem("t", Aggregate(SUM, (site,)), replace(site.facts, low=0, high=10))
    fold = AggregateNode(read(table), "own", (Item("u", owner(table)),), (total,))
    plan = planned(table, (), (measured("t", SUM, column("own", "t", total.facts)),), fold)
    group = replace(plan.groups[0].group, unit=column("own", "u", owner(table).facts))
    plan = replace(plan, groups=(replace(plan.groups[0], group=group),))
    sums = [sum(visit[-1] for visit in visits if visit[0] == person) for person in range(25)]
    assert answers(engine, plan) == {(): (sum(min(value, 10) for value in sums),)}


def test_each_row_is_a_person_also_where_a_column_is_called_rowid(tmp_path: Path) -> None:
    for name in ("rowid", "other"):
        declared = {"t": {"unit": "rows", "columns": {name: {"type": "integer", "bounds": [0, 9]}}}}
        engine = opened(tmp_path / name, declared, {"t": pa.table({name: [7, 7, 7, 1, None]})})
        table = engine.catalog.tables["t"]
        people = measured("p", COUNT, owner(table), distinct=True)
        wide = replace(table, rows_per_unit=2)  # so that people are counted rather than rows
        assert answers(engine, planned(wide, (), (people,))) == {(): (5,)}
        assert answers(engine, planned(table, (), (measured("n", COUNT),), most_rows=1)) == {(): (5,)}
        key = Key("k", of(table, name), None)
        assert answers(engine, planned(table, (key,), (), most_groups=1)) == {(7,): (3,), (1,): (1,)}


def _in_a_fork(engine: Engine, plan: Plan, expected: object) -> int:
    """Return how a forked process ends: 0 if it finds the same, 2 if it is refused."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if answers(engine, plan) == expected else 1
        except EngineFailed:
            code = 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_threads_share_an_engine_and_a_forked_process_opens_it_again(tmp_path: Path) -> None:
    engine = _open(tmp_path, _visits(8))
    plan = planned(engine.catalog.tables["visits"], (_dept(engine),), _measures(engine))
    expected = answers(engine, plan)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: answers(engine, plan), range(12))) == [expected] * 12
    refused = engine_under_law().dialect is SPARK  # the way to its Java is the parent's
    assert _in_a_fork(engine, plan, expected) == (2 if refused else 0)
    assert answers(engine, plan) == expected
    engine.close()
    with pytest.raises(EngineFailed):
        answers(engine, plan)


def test_a_statement_that_is_too_long_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    engine = _open(tmp_path, _visits(9))
    engine.close()  # nothing can be read any more
    table = engine.catalog.tables["visits"]
    many = tuple(measured("n" * 50_000 + str(at), COUNT, where=of(table, "flag")) for at in range(3))
    assert engine.prepare(planned(table, (), many)) is not None
    text = literal("x" * 150_000, of(table, DEPT).facts)
    long = tuple(measured(str(at), COUNT, replace(text, constant="x" * 150_000 + str(at))) for at in range(8))
    with pytest.raises(QueryTooLarge):
        engine.prepare(planned(table, (), long))


def test_aggregates_do_not_show_what_they_hold(tmp_path: Path) -> None:
    engine = _open(tmp_path, _visits(10))
    plan = planned(engine.catalog.tables["visits"], (_dept(engine),), _measures(engine))
    assert repr(engine.run(engine.prepare(plan))) == "Aggregates(groups=(GroupAggregates(5 columns),))"
