"""Caps and bounds that a question chooses: one person moves no level by more than it is charged for, and bars hold.

The bits of the noise are fixed. Error bars at 95 % that hold with exactly that would fall below 93 % of 150 with
probability 0.1; these hold nearly always, because all levels have to hold at once.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.sources import HashSource

import sfumato
from sfumato.database import Database
from sfumato.engines.after_noise import evaluate
from sfumato.errors import BadPolicy
from sfumato.planning.aggregates.raced import Raced, RacedMean
from sfumato.planning.plan import Plan
from sfumato.policy.canonical import canonical_text
from sfumato.policy.reading import read_policy
from sfumato.preparing import Price
from sfumato.release.publish import publish
from sfumato.release.release import make_release

Rows = list[tuple[int, str, int]]
SMALL: Rows = [
    *[(1, "er", 9), (1, "er", 1), (1, "icu", 40), (1, "icu", 3), (1, "er", 0)],
    *[(2, "er", 64)] * 6,
    *[(3, "icu", 5)],
    *[(4, "er", 17), (4, "icu", 17)],
]
QUESTIONS = (
    "SELECT COUNT(*) AS x FROM visits",
    "SELECT dept, COUNT(*) AS x FROM visits WHERE cost > 2 GROUP BY dept",
    "SELECT dept, SUM(cost) AS x FROM visits GROUP BY dept",
    "SELECT AVG(cost) AS x FROM visits",
    "SELECT COUNT(*) AS x FROM visits JOIN wards ON visits.dept = wards.dept",
)
MOST, WITHIN = 6, 64


def _policy(
    folder: Path, rows: object, bounds: object, neighbours: str = "add-remove", **budget: object
) -> dict[str, Any]:
    return {
        "name": "race",
        "source": f"csv:{folder}/data",
        "ledger": f"sqlite:{folder}/race.ledger",
        "neighbours": neighbours,
        "budget": {"epsilon": 1000, "delta": 0, **budget},
        "tables": {
            "visits": {
                "unit": "who",
                "rows_per_unit": rows,
                "columns": {
                    "who": {"type": "integer"},
                    "dept": {"type": "text", "values": ["er", "icu"]},
                    "cost": {"type": "integer", "bounds": bounds},
                },
            },
            "wards": {"public": True},
        },
    }


def _write(folder: Path, rows: Rows) -> None:
    (folder / "data").mkdir(exist_ok=True)
    lines = [f"{who},{dept},{cost}" for who, dept, cost in rows]
    (folder / "data" / "visits.csv").write_text("\n".join(["who,dept,cost", *lines]) + "\n", encoding="utf-8")
    (folder / "data" / "wards.csv").write_text("dept,ward\ner,a\ner,b\nicu,c\n", encoding="utf-8")


CHOSEN = {
    "rows": ({"most": MOST, "choose": "private"}, [0, WITHIN]),
    "bounds": (MOST, {"within": [0, WITHIN], "choose": "private"}),
    "both": ({"most": MOST, "choose": "private"}, {"within": [0, WITHIN], "choose": "private"}),
}


def _exact(database: Database, sql: str) -> tuple[Plan, list[dict[str, Any]]]:
    asked = database._prepare(sql, None, Price("1"))
    found = asked.engine.run(asked.job)
    return asked.plan, [{name: np.asarray(values) for name, values in group.columns.items()} for group in found.groups]


@pytest.mark.parametrize(
    ("chosen", "neighbours"),
    [("rows", "add-remove"), ("bounds", "add-remove"), ("both", "add-remove"), ("both", "replace")],
)
def test_one_person_moves_no_difference_of_levels_by_more_than_its_noise_was_made_for(
    tmp_path: Path, chosen: str, neighbours: str
) -> None:
    _write(tmp_path, SMALL)
    others = [[row for row in SMALL if row[0] != person] for person in (1, 2)]
    if neighbours == "replace":
        others = [[*rows, *[(person, "icu", 64)] * 6] for person, rows in zip((1, 2), others, strict=True)]
    policy = _policy(tmp_path, *CHOSEN[chosen], neighbours)
    with sfumato.open(policy) as database:  # one ledger and so one salt: everybody else's rows keep their ranks
        whole = {sql: _exact(database, sql) for sql in QUESTIONS}
        tight = False
        for rows in others:
            _write(tmp_path, rows)
            database.refresh()
            for sql, (plan, exact) in whole.items():
                _, without = _exact(database, sql)
                for group, mine, theirs in zip(plan.groups, exact, without, strict=True):
                    for one in group.measured:
                        moved = np.abs(mine[one.name] - theirs[one.name])
                        assert moved.sum() <= one.sensitivity.l1, (sql, one.name)
                        assert (moved**2).sum() <= one.sensitivity.l2_squared
                        tight |= bool(moved.sum() == one.sensitivity.l1)
        assert tight  # no more noise than needed


def test_nothing_is_raced_for_where_a_condition_leaves_a_person_fewer_rows(tmp_path: Path) -> None:
    _write(tmp_path, SMALL)
    policy = _policy(tmp_path, {"most": MOST, "choose": "private"}, [0, WITHIN])
    policy["tables"]["visits"]["columns"]["cost"]["unique"] = True
    with sfumato.open(policy) as database:
        plan = database._prepare("SELECT COUNT(*) AS x FROM visits WHERE cost <= 1", None, Price("1")).plan
        assert [one.sensitivity.l1 for one in plan.groups[0].measured] == [2]
        plan = database._prepare("SELECT COUNT(*) AS x FROM visits WHERE cost > 1", None, Price("1")).plan
        assert isinstance(plan.groups[0].derived[0], Raced)


@pytest.mark.parametrize("chosen", CHOSEN)
def test_levels_rise_to_what_the_policy_admits(tmp_path: Path, chosen: str) -> None:
    _write(tmp_path, SMALL)
    plain = {
        "SELECT COUNT(*) AS x FROM visits": [len(SMALL)],
        "SELECT SUM(cost) AS x FROM visits": [sum(cost for *_, cost in SMALL)],
        "SELECT dept, SUM(cost) AS x FROM visits GROUP BY dept": [
            sum(cost for _, dept, cost in SMALL if dept == key) for key in ("er", "icu")
        ],
    }
    with sfumato.open(_policy(tmp_path, *CHOSEN[chosen])) as database:
        for sql, truth in plain.items():
            plan, [exact] = _exact(database, sql)
            (made,) = plan.groups[0].derived
            if chosen == "bounds" and "COUNT" in sql:
                assert not isinstance(made, Raced)
                continue
            assert isinstance(made, Raced)
            assert (made.rows_chosen, made.bounds_chosen) == (chosen != "bounds", chosen != "rows" and "SUM" in sql)
            levels = np.cumsum([exact[name] for name in made.parts], axis=0)
            assert (np.diff(levels, axis=0) >= 0).all()
            assert levels[-1].tolist() == truth


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Nobody has more than two rows, and no value is above 100; the policy admits 1,000 rows of 1,000,000."""
    folder = tmp_path_factory.mktemp("light")
    _write(folder, [(who, "er", 20 + who % 80) for who in range(3000) for _ in range(1 + who % 2)])
    wide = ({"most": 1000, "choose": "private"}, {"within": [0, 10**6], "choose": "private"})
    with sfumato.open(_policy(folder, *wide, truncation=1)) as database:
        yield database


TRUTH = {
    "SELECT COUNT(*) AS x FROM visits": 4500.0,
    "SELECT SUM(cost) AS x FROM visits": float(sum((20 + who % 80) * (1 + who % 2) for who in range(3000))),
}


@pytest.mark.parametrize("sql", TRUTH)
def test_a_question_pays_for_the_tail_that_its_data_has_and_its_bars_hold(light: Database, sql: str) -> None:
    asked = light._prepare(sql, None, Price("1"))
    aggregates, receipt, source = asked.engine.run(asked.job), light._receipt(asked, "race"), HashSource(5)
    errors, held = [], 0
    for _ in range(75):
        release = make_release(asked.plan, publish(asked.plan, aggregates, source), receipt, evaluate)
        [row], [ends] = release.rows(), release.intervals()
        errors.append(abs(row["x"] - TRUTH[sql]))
        held += ends["x"][0] <= TRUTH[sql] <= ends["x"][1]
    fixed = 1000 * (1 if "COUNT" in sql else 10**6)  # the mean error at epsilon 1 under the policy's own caps
    assert np.median(errors) < fixed / 10
    assert held >= 0.93 * 75


def test_it_is_said_what_was_chosen_and_the_interval_with_bias_holds_the_truth(light: Database) -> None:
    quote = light.explain("SELECT COUNT(*) AS x FROM visits", epsilon=1)
    assert "chooses privately how many rows of a person count among 1, 2, 4, …, 1,000" in str(quote)
    assert quote.margins == {"x": None}
    for sql, truth in TRUTH.items():
        release = light.ask(sql, epsilon=5)
        assert any(note.startswith("Chosen privately: ") for note in release.notes)
        assert not any("rank" in note for note in release.notes)
        [ends] = release.intervals(bias=True)
        assert ends["x"][0] <= truth <= ends["x"][1]
        assert light.ask(sql, epsilon=5).rows() == release.rows()
    average = light.ask("SELECT AVG(cost) AS x FROM visits", epsilon=5).rows()[0]["x"]
    assert average == pytest.approx(TRUTH["SELECT SUM(cost) AS x FROM visits"] / 4500, rel=0.5)


def test_what_is_raced_for_has_no_fixed_margin_to_ask_for(light: Database) -> None:
    with pytest.raises(sfumato.Refusal) as refused:
        light.ask("SELECT COUNT(*) AS x FROM visits", within={"x": 10})
    assert refused.value.code == "unreachable_margin"


def test_averages_use_the_counts_of_their_own_level(tmp_path: Path) -> None:
    _write(tmp_path, SMALL)
    with sfumato.open(_policy(tmp_path, *CHOSEN["both"])) as database:
        plan, _ = _exact(database, "SELECT AVG(cost) AS x FROM visits")
        (made,) = plan.groups[0].derived
        assert isinstance(made, RacedMean)
        assert len(made.counts) == len(made.total.parts)


def test_the_policy_says_it_in_one_spelling_and_refuses_half_of_it(tmp_path: Path) -> None:
    policy = read_policy(_policy(tmp_path, *CHOSEN["both"]))
    text = canonical_text(policy)
    assert 'rows_per_unit = { most = 6, choose = "private" }' in text
    assert 'bounds = { within = [0, 64], choose = "private" }' in text
    assert policy.tables[0].rows_per_unit == 6
    for rows, bounds in (
        ({"most": 6}, [0, 1]),
        ({"choose": "private"}, [0, 1]),
        ({"most": 6, "choose": "public"}, [0, 1]),
        (1, {"within": [0, 1]}),
        (1, {"within": [1, 0], "choose": "private"}),
    ):
        with pytest.raises(BadPolicy):
            read_policy(_policy(tmp_path, rows, bounds))
