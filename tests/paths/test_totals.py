"""Sums that cut off what each person adds in all: nobody moves them by more, and it is said which bound is used."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato
from sfumato.database import Database
from sfumato.errors import BadPolicy
from sfumato.planning.plan import Plan
from sfumato.policy.canonical import canonical_text
from sfumato.policy.reading import read_policy
from sfumato.prepare import RequestedPrice

Rows = list[tuple[int, str, int]]
SMALL: Rows = [
    *[(1, "er", 9), (1, "er", 1), (1, "icu", 40), (1, "icu", 3), (1, "er", 0)],
    *[(2, "er", 64)] * 6,
    *[(3, "icu", 5)],
    *[(4, "er", 17), (4, "icu", 64), (4, "icu", 64)],
]
QUESTIONS = (
    "SELECT SUM(cost) AS x FROM visits",
    "SELECT dept, SUM(cost) AS x FROM visits GROUP BY dept",
    "SELECT dept, SUM(cost) AS x FROM visits WHERE cost > 2 GROUP BY dept",
    "SELECT SUM(cost) FILTER (WHERE dept = 'er') AS x, COUNT(*) AS n FROM visits",
)
MOST, WITHIN, TOTAL = 6, 64, 100


def _policy(folder: Path, total: object = TOTAL, neighbours: str = "add-remove", **cost: object) -> dict[str, Any]:
    return {
        "name": "totals",
        "source": f"csv:{folder}/data",
        "ledger": f"sqlite:{folder}/totals.ledger",
        "neighbours": neighbours,
        "budget": {"epsilon": 1000, "delta": "0.001", "truncation": 1},
        "tables": {
            "visits": {
                "unit": "who",
                "rows_per_unit": MOST,
                "columns": {
                    "who": {"type": "integer"},
                    "dept": {"type": "text", "values": ["er", "icu"]},
                    "cost": {"type": "integer", "bounds": [0, WITHIN], "total_per_unit": total, **cost},
                },
            }
        },
    }


def _write(folder: Path, rows: Rows) -> None:
    (folder / "data").mkdir(exist_ok=True)
    lines = [f"{who},{dept},{cost}" for who, dept, cost in rows]
    (folder / "data" / "visits.csv").write_text("\n".join(["who,dept,cost", *lines]) + "\n", encoding="utf-8")


def _exact(database: Database, sql: str) -> tuple[Plan, dict[str, Any]]:
    asked = database.prepare(sql, None, RequestedPrice("1"))
    (found,) = asked.engine.run(asked.job).groups
    return asked.plan, {name: np.asarray(values) for name, values in found.columns.items()}


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_one_person_moves_a_sum_by_no_more_than_its_noise_was_made_for(tmp_path: Path, neighbours: str) -> None:
    _write(tmp_path, SMALL)
    others = [[row for row in SMALL if row[0] != person] for person in (2, 4)]
    if neighbours == "replace":
        others = [[*rows, *[(person, "icu", 64)] * 6] for person, rows in zip((2, 4), others, strict=True)]
    reached = False
    with sfumato.open(_policy(tmp_path, neighbours=neighbours)) as database:
        whole = {sql: _exact(database, sql) for sql in QUESTIONS}
        for rows in others:
            _write(tmp_path, rows)
            database.refresh()
            for sql, (plan, mine) in whole.items():
                _, theirs = _exact(database, sql)
                for one in plan.groups[0].measured:
                    moved = np.abs(mine[one.name] - theirs[one.name])
                    assert moved.sum() <= one.sensitivity.l1, sql
                    assert (moved**2).sum() <= one.sensitivity.l2_squared, sql
                    reached = reached or bool(one.bound is not None and moved.sum() == one.sensitivity.l1)
                assert any(
                    one.bound is not None and one.bound.thresholds == (TOTAL,) for one in plan.groups[0].measured
                )
    assert reached  # no more noise than needed


def test_without_keys_no_order_of_rows_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, SMALL)
    with sfumato.open(_policy(tmp_path)) as database:
        for sql in QUESTIONS:
            _, by_totals = _exact(database, sql)
            with monkeypatch.context() as patched:
                patched.setattr("sfumato.engines.sql.group._has_own_totals", lambda plan: False)
                _, by_order = _exact(database, sql)
            assert by_totals.keys() == by_order.keys()
            assert all(np.array_equal(by_totals[name], by_order[name]) for name in by_order), sql


def test_the_planner_takes_what_errs_less_and_says_which(tmp_path: Path) -> None:
    _write(tmp_path, SMALL)
    with sfumato.open(_policy(tmp_path)) as database:
        quote = database.explain(QUESTIONS[0], epsilon=1)
        sentence = "Each person adds at most 100 to the sum of `cost`"
        assert f"{sentence}, which needs less noise than 6 rows of" in str(quote)
        release = database.ask(QUESTIONS[0], epsilon=200)
        assert any(sentence in note for note in release.notes)
        assert release.rows()[0]["x"] == pytest.approx(53 + 100 + 5 + 100, abs=20)
        [ends] = release.intervals(bias=True)
        assert ends["x"][1] is None  # nobody measures what is beyond
        narrow = "SELECT SUM(cost) AS x FROM visits WHERE cost <= 10"
        by_rows = "Each person adds at most 6 rows of up to 10 each to the sum of `cost`. The total of 100 is not used"
        assert by_rows in str(database.explain(narrow, epsilon=1))
        assert not any(
            "total" in note for note in database.explain("SELECT AVG(cost) AS x FROM visits", epsilon=1).notes
        )
        together = database.ask_all([QUESTIONS[0], QUESTIONS[1]], epsilon=1)
        assert all(any("is not used" in note for note in one.notes) for one in together)
    loose = _policy(tmp_path, total=MOST * WITHIN) | {"ledger": f"sqlite:{tmp_path}/loose.ledger"}
    with sfumato.open(loose) as database:  # as much as rows and values admit
        assert all(one.bound is None for one in _exact(database, QUESTIONS[0])[0].groups[0].measured)


def test_a_stream_is_bounded_by_rows_and_values(tmp_path: Path) -> None:
    _write(tmp_path, SMALL)
    with sfumato.open(_policy(tmp_path)) as database:
        asked = database.prepare(QUESTIONS[1], None, RequestedPrice("1", fixed=True))
        assert [one.sensitivity.l1 for one in asked.plan.groups[0].measured] == [MOST * WITHIN]


def test_the_policy_says_it_in_one_spelling_and_refuses_what_has_no_effect(tmp_path: Path) -> None:
    policy = read_policy(_policy(tmp_path, total="100"))
    assert 'bounds = [0, 64], total_per_unit = "100"' in canonical_text(policy)
    for total, cost in ((63, {}), (100, {"bounds": [-1, 64]}), ("100.5", {}), (100, {"bounds": None})):
        written = _policy(tmp_path, total, **cost)
        written["tables"]["visits"]["columns"]["cost"] = {
            key: value for key, value in written["tables"]["visits"]["columns"]["cost"].items() if value is not None
        }
        with pytest.raises(BadPolicy):
            read_policy(written)
    for change in ({"rows_per_unit": {"most": 6, "choose": "private"}}, {"unit": "rows", "rows_per_unit": 1}):
        written = _policy(tmp_path)
        written["tables"]["visits"] |= change
        with pytest.raises(BadPolicy, match="has no effect"):
            read_policy(written)


def test_bars_of_ratios_follow_what_a_total_cut_off(tmp_path: Path) -> None:
    _write(tmp_path, [(who, "er", 30) for who in range(50) for _ in range(MOST)])
    ratio = "SELECT SUM(cost) * 2.0 / COUNT(cost) AS x FROM visits"  # 100 of 180 are counted, by six rows
    with sfumato.open(_policy(tmp_path, bounds=[30, WITHIN])) as database:
        (row,), (ends,) = (found := database.ask(ratio, epsilon=200)).rows(), found.intervals()
    assert ends["x"][0] < row["x"] < ends["x"][1] < 40
