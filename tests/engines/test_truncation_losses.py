"""The table of losses is what proofs/truncation.md says, and a person's row in it depends on their own rows alone."""

from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.engines.builds import SALT, bounded, policy_of
from tests.engines.engines import Rows, engine_under_law
from tests.engines.reference import keyed

from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.analyse import analyse
from sfumato.planning.bounding.selection import PEOPLE
from sfumato.planning.bounding.truncation import CUT
from sfumato.planning.planner import make_plan, parse_price_target
from sfumato.policy.policy import Budget, Policy
from sfumato.query.parse import parse

pytestmark = pytest.mark.usefixtures("every_engine")

VISITS = {
    "unit": "person",
    "rows_per_unit": 2,
    "columns": {
        "person": {"type": "integer"},
        "cost": {"type": "integer", "bounds": [-2, 5]},
        "fee": {"type": "decimal", "bounds": [0, 1], "step": "0.5"},
        "code": {"type": "integer", "values": [1, 2]},
    },
}
VOTES = {"unit": "rows", "columns": {"choice": {"type": "integer", "bounds": [0, 9]}}}
BUDGET = {"epsilon": 1, "delta": 0, "truncation": 0.05}
ROWS = [
    *[(1, cost, fee, code) for cost, fee, code in [(1, 0.5, 1), (9, 0.0, 2), (-7, 2.0, 7), (4, 1.0, 1)]],
    *[(2, 30, 0.25, 1), (2, None, None, 2)],
    *[(3, 1, 0.5, 1)],
    *[(4, 2**62, -8.0, 1), (4, 3, 0.5, 1), (4, 3, 0.5, 1)],
    (None, 99, 9.0, 1),
]


def _policy(**tables: object) -> Policy:
    return policy_of(tables, budget=BUDGET)


def _copied(rows: list[tuple[Any, ...]]) -> dict[str, Rows]:
    names = ("person", "cost", "fee", "code")
    types = (pa.int64(), pa.int64(), pa.float64(), pa.int64())
    columns = [pa.array(values, type) for values, type in zip(zip(*rows, strict=True), types, strict=True)]
    votes = pa.table({"choice": [3, 12, -4, None]})
    return bounded(_policy(visits=VISITS, votes=VOTES), {"visits": pa.table(columns, list(names)), "votes": votes})


def _expected(rows: list[tuple[Any, ...]], kept: Rows) -> Counter[tuple[int, ...]]:
    """Compute everybody's losses from their rows and from which of them the copy has."""
    found: Counter[tuple[int, ...]] = Counter()
    for person in {row[0] for row in rows if row[0] is not None}:
        unit = keyed(SALT, "unit", str(person))
        chosen = Counter({row[1:]: count for row, count in kept.items() if row[0] == unit})
        removed = beyond = 0
        sums = {"cost": [0, 0], "fee": [0, 0]}
        for _, cost, fee, code in (row for row in rows if row[0] == person):
            raw = {"cost": cost, "fee": None if fee is None else round(fee * 2)}
            clipped = {"cost": _clip(raw["cost"], -2, 5), "fee": _clip(raw["fee"], 0, 2)}
            # outside its bounds, a value is stored one step beyond them
            row = (code if code in (1, 2) else None, _clip(raw["cost"], -3, 6), _clip(raw["fee"], -1, 3))
            here = chosen[row] > 0
            chosen[row] -= here
            removed += not here
            beyond += here and raw != clipped
            for name, value in raw.items():
                lost = (value or 0) - (clipped[name] or 0) * here
                sums[name][lost < 0] += abs(lost)
        if removed or beyond:
            found[unit, removed, beyond, *sums["cost"], *sums["fee"]] += 1
    return found


def _clip(value: int | None, low: int, high: int) -> int | None:
    return None if value is None else min(max(value, low), high)


def _as_numbers(rows: Rows) -> Counter[tuple[int, ...]]:
    found: Counter[tuple[int, ...]] = Counter()
    for row, count in rows.items():
        unit = row[0]
        number = unit.int if hasattr(unit, "int") else int(unit)
        found[number, *map(int, row[1:])] += count
    return found


def test_everybody_s_losses_are_what_the_definition_says() -> None:
    copy = _copied(ROWS)
    kept = Counter({(_number(row[0]), *row[1:]): count for row, count in copy["visits"].items()})
    assert _as_numbers(copy["visits" + CUT]) == _expected(ROWS, kept)
    assert sum(copy["visits" + CUT].values()) == 3  # the third person lost nothing, and has no row
    assert Counter({tuple(map(int, row)): n for row, n in copy["votes" + CUT].items()}) == Counter(
        [(0, 1, 3, 0), (0, 1, 0, 4)]
    )


def _number(unit: Any) -> int:
    return unit.int if hasattr(unit, "int") else int(unit)


@pytest.mark.parametrize("person", [1, 2, 3, 4])
def test_removing_a_person_changes_no_other_row(person: int) -> None:
    whole, without = (
        _as_numbers(_copied(rows)["visits" + CUT]) for rows in (ROWS, [r for r in ROWS if r[0] != person])
    )
    unit = keyed(SALT, "unit", str(person))
    assert Counter({row: count for row, count in whole.items() if row[0] != unit}) == without


def test_which_of_rows_that_bounds_made_equal_is_kept_does_not_depend_on_where_they_lie() -> None:
    rows = [(5, 9, 0.5, 1), (5, 5, 0.5, 1), (5, 2**62, 0.5, 1), (5, 7, 0.5, 7)]
    found = [_copied(order)["visits" + CUT] for order in (rows, rows[::-1], rows[2:] + rows[:2], rows[1:] + rows[:1])]
    assert found == found[:1] * 4


def test_without_truncation_in_the_policy_nothing_is_written() -> None:
    rows = pa.table({"choice": [12]})
    assert set(bounded(policy_of({"votes": VOTES}), {"votes": rows})) == {"votes"}


def test_every_engine_reads_ranks_and_bounds_that_a_question_chooses(tmp_path: Path) -> None:
    cost = {"type": "integer", "bounds": {"within": [0, 64], "choose": "private"}}
    code = {"type": "integer", "values": [1, 2, 3]}
    visits = {"unit": "who", "rows_per_unit": {"most": 6, "choose": "private"}}
    policy = {
        "name": "small",
        "budget": {"epsilon": 1, "delta": 0},
        "tables": {"visits": {**visits, "columns": {"who": {"type": "integer"}, "cost": cost, "code": code}}},
    }
    rows = pa.table({"who": [1, 1, 1, 2, 2, 3], "cost": [1, 90, 3, 64, 7, 8], "code": [1, 2, 2, 1, 1, 2]})
    engine = engine_under_law().opened(tmp_path, policy, {"visits": rows})
    try:
        for sql, people in (
            ("SELECT COUNT(*) FROM visits", (3, 2, 1)),
            ("SELECT COUNT(*) FROM visits WHERE cost > 1", (2, 2, 1)),
            ("SELECT code, COUNT(*) FROM visits GROUP BY code", (3, 2, 1)),
            ("SELECT SUM(cost) FROM visits", (68, 71, 8)),
        ):
            query = parse(sql, engine.catalog)
            with engine.public.one_question():
                private = analyse(query, engine.catalog, engine.public)
            budget = Budget(Fraction(1), Fraction(0), Fraction(0))
            plan = make_plan(
                private, parse_price_target("1", None, None, query.options, budget, PrivacyLoss(Fraction(1)))
            )
            main, choice = engine.run(engine.prepare(plan)).groups
            (one,) = plan.groups[0].measured
            assert one.candidates is not None
            levels = [sum(min(person, level) for person in people) for level in one.candidates.thresholds]
            cells = [[int(value) for value in cell] for cell in main.columns[one.name]]
            assert [sum(values) for values in zip(*cells, strict=True)] == levels
            assert [int(value) for value in choice.columns[PEOPLE][0]] == levels
    finally:
        engine.close()


def test_every_engine_cuts_off_what_a_person_adds_in_all(tmp_path: Path) -> None:
    cost = {"type": "integer", "bounds": [0, 64], "total_per_unit": 70}
    columns = {"who": {"type": "integer"}, "cost": cost, "code": {"type": "integer", "values": [1, 2]}}
    policy = {
        "name": "small",
        "budget": {"epsilon": 1, "delta": 0},
        "tables": {"visits": {"unit": "who", "rows_per_unit": 6, "columns": columns}},
    }
    who, costs = [1, 1, 1, 2, 2, 3, 3], [1, 90, 3, 64, 64, 8, None]
    rows = pa.table({"who": who, "cost": costs, "code": [1, 2, 1, 1, 2, 2, 1]})
    engine = engine_under_law().opened(tmp_path, policy, {"visits": rows})
    try:
        for sql, total in (
            ("SELECT SUM(cost) FROM visits", 68 + 70 + 8),
            ("SELECT code, SUM(cost) FROM visits GROUP BY code", 68 + 70 + 8),
            ("SELECT SUM(cost) FROM visits WHERE cost > 3", 64 + 70 + 8),
        ):
            query = parse(sql, engine.catalog)
            with engine.public.one_question():
                private = analyse(query, engine.catalog, engine.public)
            budget = Budget(Fraction(1), Fraction(0), Fraction(0))
            plan = make_plan(
                private, parse_price_target("1", None, None, query.options, budget, PrivacyLoss(Fraction(1)))
            )
            (found,) = engine.run(engine.prepare(plan)).groups
            (one,) = plan.groups[0].measured
            assert one.sensitivity.l1 == 70
            assert sum(int(value) for value in found.columns[one.name]) == total
    finally:
        engine.close()
