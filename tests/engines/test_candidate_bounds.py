"""At which levels rows count is read from the copy, or found by the statement: the same integers on every engine."""

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, product
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.engines.engines import engine_under_law

from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.analyse import analyse
from sfumato.engines.engine import Engine
from sfumato.engines.sql.statements import Statements, _counted_together
from sfumato.planning.bounding.selection import PEOPLE
from sfumato.planning.plan import Plan
from sfumato.planning.planner import make_plan, parse_price_target
from sfumato.policy.policy import Budget
from sfumato.query.parse import parse

pytestmark = pytest.mark.usefixtures("every_engine")

MOST, HIGH, TOTAL = 6, 64, 70
COLUMNS = {
    "who": {"type": "integer"},
    "code": {"type": "integer", "values": [1, 2, 3]},
    "cost": {"type": "integer", "bounds": [0, HIGH]},
    "fee": {"type": "decimal", "step": "0.5", "bounds": {"within": [0, 4], "choose": "private"}},
    "change": {"type": "integer", "bounds": [-3, 9]},
}
TABLES = {
    "free": {"unit": "who", "rows_per_unit": {"most": MOST, "choose": "private"}, "columns": COLUMNS},
    "fixed": {
        "unit": "who",
        "rows_per_unit": MOST,
        "columns": {**COLUMNS, "cost": {"type": "integer", "bounds": [0, HIGH], "total_per_unit": TOTAL}},
    },
    "codes": {"public": True},
    "spread": {
        "unit": "who",
        "rows_per_unit": MOST,
        "groups_per_unit": {"most": MOST, "choose": "private"},
        "columns": COLUMNS,
    },
}
POLICY: dict[str, object] = {"name": "small", "budget": {"epsilon": 1, "delta": 0}, "tables": TABLES}
_RANDOM = Random(5)
ROWS: list[dict[str, Any]] = [
    {
        "who": who,
        "code": _RANDOM.choice([None, 1, 2, 3, 4]),
        "cost": _RANDOM.choice([None, 0, 1, 5, 40, HIGH, HIGH]),
        "fee": _RANDOM.choice([None, 0.0, 0.5, 4.0]),
        "change": _RANDOM.choice([None, -3, 0, 9]),
    }
    for who in range(12)
    for _ in range(_RANDOM.randint(0, MOST))
]
KEPT = (
    "SELECT COUNT(*) FROM free",
    "SELECT SUM(cost) FROM free",
    "SELECT code, COUNT(*) FROM free GROUP BY code",
    "SELECT code, COUNT(*), AVG(change), COUNT(fee) FROM free GROUP BY code",
    "SELECT code, COUNT(*), SUM(cost), SUM(fee) FROM free GROUP BY code",
    "SELECT AVG(change * 2 + 1), SUM(change) FROM free",
    "SELECT SUM(fee), COUNT(*) FROM fixed",
)
BY_BITS = (
    "SELECT code, COUNT(*), COUNT(cost) FROM free WHERE change >= 0 GROUP BY code",
    "SELECT code, COUNT(*), COUNT(DISTINCT who) FROM free WHERE cost > 0 GROUP BY code",
    "SELECT name, COUNT(*), AVG(change) FROM free JOIN codes ON free.code = codes.number GROUP BY name",
    "SELECT COUNT(*), AVG(change) FROM free LEFT JOIN codes ON free.code = codes.number WHERE cost > 0",
)
IN_ORDER = (
    "SELECT code, COUNT(*), SUM(cost) FROM free WHERE change >= 0 GROUP BY code",
    "SELECT code, SUM(cost + 1), COUNT(*) FILTER (WHERE fee > 0) FROM free GROUP BY code",
    "SELECT name, SUM(cost) FROM free JOIN codes ON free.code = codes.number GROUP BY name",
)
GROUPS = (
    "SELECT change, COUNT(DISTINCT who) FROM spread GROUP BY change",
    "SELECT change, COUNT(DISTINCT who), COUNT(DISTINCT who) FILTER (WHERE cost > 3) FROM spread GROUP BY change",
)


@pytest.fixture(scope="module")
def engine(every_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    table = pa.Table.from_pylist(ROWS)
    codes = pa.table({"number": [1, 2], "name": ["one", "two"]})
    folder = tmp_path_factory.mktemp("levels")
    opened = engine_under_law().opened(folder, POLICY, {"free": table, "fixed": table, "codes": codes, "spread": table})
    yield opened
    opened.close()


def _plan(engine: Engine, sql: str) -> Plan:
    query = parse(sql, engine.catalog)
    with engine.public.one_question():
        private = analyse(query, engine.catalog, engine.public)
    budget = Budget(Fraction(1), Fraction(0), Fraction(0))
    return make_plan(private, parse_price_target("1", None, None, query.options, budget, PrivacyLoss(Fraction(1))))


def _ran(engine: Engine, plan: Plan) -> tuple[list[str], list[dict[str, Any]]]:
    job = engine.prepare(plan)
    assert isinstance(job, Statements)
    groups = [{name: np.asarray(one) for name, one in group.columns.items()} for group in engine.run(job).groups]
    return [text for text in job.statements if text is not None], groups


@pytest.mark.parametrize("sql", [*KEPT, *BY_BITS, *IN_ORDER])
def test_places_in_the_copy_count_as_a_persons_rows_in_their_order_do(
    engine: Engine, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = _plan(engine, sql)
    assert any(one.candidates for group in plan.groups for one in group.measured)
    texts, by_copy = _ran(engine, plan)
    assert any(" OVER (" in text for text in texts) == (sql in IN_ORDER)
    assert any("bit_or(" in text for text in texts) == (sql in BY_BITS)
    for patched, instead in (
        ("sfumato.engines.sql.group.totals_sql", lambda *_: None),
        ("sfumato.engines.sql.bounding.candidates.MAX_RANK_WORDS", 0),
        ("sfumato.engines.sql.bounding.bound_index.stored_bound_index", lambda *_: None),
        ("sfumato.engines.sql.group.is_additive", lambda _: False),
    ):
        monkeypatch.setattr(patched, instead)
        _, others = _ran(engine, plan)
        for mine, theirs in zip(by_copy, others, strict=True):
            assert mine.keys() == theirs.keys()
            assert all(np.array_equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize("sql", [*KEPT, *BY_BITS, *IN_ORDER, *GROUPS])
def test_at_the_level_that_is_chosen_the_same_is_measured_as_where_all_are(engine: Engine, sql: str) -> None:
    plan = _plan(engine, sql)
    job = engine.prepare(plan)
    every, labels = engine.run(job).groups, [one.group.label for one in plan.groups if one.is_bound_selection]
    histograms = engine.run_selection(job)
    assert sorted(histograms) == sorted(labels)
    for level, counted in product((0, 2, -1), (histograms, {})):
        selected = {label: range(_levels_of(plan, label))[level] for label in labels}
        found = engine.run(job, selected, counted).groups
        for group, mine, theirs in zip(plan.groups, found, every, strict=True):
            for one in group.measured:
                expected = np.asarray(theirs.columns[one.name])
                if one.candidates is not None and not group.is_bound_selection:
                    expected = expected[:, level]
                assert np.array_equal(np.asarray(mine.columns[one.name]), expected)


def test_of_very_many_sums_people_are_counted_some_at_a_time_and_no_statement_is_too_wide_for_an_engine(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = _plan(engine, f"SELECT {', '.join(f'SUM(cost + {more})' for more in range(9))}, COUNT(*) FROM free")  # noqa: S608
    job = engine.prepare(plan)
    assert isinstance(job, Statements)
    parted = _counted_together(job)
    labels = [group.group.label for some in parted for group in some]
    assert sorted(labels) == sorted(one.group.label for one in plan.groups if one.is_bound_selection)
    assert 1 < len(parted) < len(labels) and max(map(len, parted)) < 12  # noqa: PT018

    def people() -> dict[str, Any]:
        counted = engine.run_selection(job)
        return {label: np.asarray(one.columns[PEOPLE]).tolist() for label, one in counted.items()}

    some = people()
    monkeypatch.setattr("sfumato.engines.sql.statements.MAX_JOINT_PARTS", 1)
    assert _counted_together(job) == [[group] for group in job.plan.groups if group.is_bound_selection]
    assert people() == some
    monkeypatch.setattr("sfumato.engines.sql.statements.MAX_JOINT_PARTS", 1 << 200)
    assert [len(some) for some in _counted_together(job)] == [9, 1]  # what the copy has added up is by itself
    monkeypatch.setattr(
        "sfumato.engines.sql.statements.MAX_STATEMENT_CHARS", 4 * max(len(text or "") for text in job.statements)
    )
    assert 1 < len(_counted_together(job)) < len(labels)


@pytest.mark.parametrize("asked", ["SUM(cost) FROM free", "SUM(fee) FROM fixed", "SUM(fee * 2) FROM fixed"])
@pytest.mark.parametrize("condition", ["", " WHERE cost > 0"])
def test_margins_of_one_table_cut_off_the_same_rows_at_every_level(engine: Engine, asked: str, condition: str) -> None:
    plan = _plan(engine, f"SELECT code, change, {asked}{condition} GROUP BY ROLLUP (code, change)")
    found = dict(zip((one.group.label for one in plan.groups), engine.run(engine.prepare(plan)).groups, strict=True))
    (table,) = plan.tables
    cells = [
        dict(zip(found[one.label].keys, np.asarray(found[one.label].columns[one.name]), strict=True))
        for one in sorted(table.margins, key=lambda one: len(one.axes))
    ]
    for coarse, fine in pairwise(cells):
        for key, values in coarse.items():
            assert values.tolist() == sum(value for finer, value in fine.items() if finer[:-1] == key).tolist()


def test_where_what_is_read_decides_which_rows_are_cut_off_groups_are_no_margins_of_one_table(engine: Engine) -> None:
    pairs = "fixed AS a JOIN fixed AS b ON a.who = b.who"
    plan = _plan(engine, f"SELECT a.code, b.change, SUM(a.fee) FROM {pairs} GROUP BY ROLLUP (a.code, b.change)")  # noqa: S608
    assert any(one.candidates for group in plan.groups for one in group.measured)
    assert plan.tables == ()


def _levels_of(plan: Plan, label: str) -> int:
    (one,) = next(group.measured for group in plan.groups if group.group.label == label)
    assert one.candidates is not None
    return len(one.candidates.thresholds)


@pytest.mark.parametrize(("sql", "column"), [(KEPT[0], None), (KEPT[1], "cost"), (KEPT[6], "fee")])
def test_at_each_level_people_add_what_they_have_up_to_it(engine: Engine, sql: str, column: str | None) -> None:
    has: dict[int, int] = defaultdict(int)
    for row in ROWS:
        steps = 2 if column == "fee" else 1
        has[row["who"]] += 1 if column is None else int(steps * (row[column] or 0))
    plan = _plan(engine, sql)
    _, groups = _ran(engine, plan)
    for group, found in zip(plan.groups, groups, strict=True):
        for one in group.measured:
            if one.candidates is not None and one.name in (PEOPLE, group.measured[0].name):
                expected = [sum(min(amount, own) for own in has.values()) for amount in one.candidates.thresholds]
                assert found[one.name][0].tolist() == expected


def test_a_total_of_the_policy_is_cut_off_by_what_the_copy_knows(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    has: dict[int, int] = defaultdict(int)
    for row in ROWS:  # rows in no group are measured too
        has[row["who"]] += row["cost"] or 0
    plan = _plan(engine, "SELECT code, SUM(cost) FROM fixed GROUP BY code")
    (text,), (exact,) = _ran(engine, plan)
    assert " OVER (" not in text
    (total,) = exact.values()
    assert 0 < total.sum() <= sum(min(TOTAL, own) for own in has.values())
    monkeypatch.setattr("sfumato.engines.sql.bounding.bound_index.stored_bound_index", lambda *_: None)
    (text,), _ = _ran(engine, plan)
    assert " OVER (" in text
