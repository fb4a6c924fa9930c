"""Margins that depend on the data: pilots set a price, the answer is fresh, and all of it is charged and bounded.

The noise comes from fixed bits.
"""

# ruff: noqa: S608 - questions are written by hand here, never from anybody's input

import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.refusals import refusing
from tests.sources import HashSource

import sfumato
from sfumato.errors import BudgetExhausted, UnknownName, UnreachableMargin
from sfumato.pilots import PILOT_SHARES, with_goal_note
from sfumato.planning.margin_targets import AccuracyGoal, goal_from_json, read_targets
from sfumato.prepare import RequestedPrice

PEOPLE = 3000
QUESTIONS: dict[str, tuple[str, dict[str, object]]] = {
    "relative count": ("SELECT COUNT(*) AS x FROM visits WHERE age > {}", {"x": "5%"}),
    "relative sum": ("SELECT SUM(cost) AS x FROM visits WHERE age > {}", {"x": "5%"}),
    "average": ("SELECT AVG(cost) AS x FROM visits WHERE age > {}", {"x": 25}),
    "median": ("SELECT MEDIAN(cost) AS x FROM visits WHERE age > {}", {"x": 60}),
    "percentile": (
        "SELECT PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY cost) AS x FROM visits WHERE age > {}",
        {"x": 60},
    ),
    "deviation": ("SELECT STDDEV(age) AS x FROM visits WHERE age > {}", {"x": 2}),
    "ratio of sums": ("SELECT SUM(cost) / SUM(age) AS x FROM visits WHERE age > {}", {"x": "5%"}),
    "share": (
        "SELECT COUNT(*) FILTER (WHERE cost > 500) * 1.0 / COUNT(*) AS x FROM visits WHERE age > {}",
        {"x": 0.03},
    ),
    "by groups": (
        "SELECT dept, AVG(cost) AS x, COUNT(*) AS n FROM visits WHERE age > {} GROUP BY dept",
        {"x": 60, "n": "10%"},
    ),
    "selected bound": ("SELECT SUM(bill) AS x FROM visits WHERE age > {}", {"x": "10%"}),
}


@cache
def rows_of() -> list[tuple[int, str, float, int]]:
    """Return the rows of the clinic: person, department, cost, age."""
    draw = Random(5)
    return [
        (person, draw.choice(["er", "er", "icu"]), round(draw.gammavariate(2, 300), 2), draw.randint(18, 90))
        for person in range(PEOPLE)
    ]


def clinic_of(folder: Path, budget: dict[str, object], seed: str = "pilots") -> sfumato.Database:
    """Open the clinic with a ledger of its own, whose noise comes from fixed bits."""
    rows = rows_of()
    columns = {name: [row[at] for row in rows] for at, name in enumerate(("person", "dept", "cost", "age"))}
    folder.mkdir(parents=True, exist_ok=True)
    found = sfumato.open(
        {
            "name": "clinic",
            "source": {"visits": pa.table({**columns, "bill": columns["cost"]})},
            "ledger": f"sqlite:{folder / 'ledger'}",
            "budget": budget,
            "tables": {
                "visits": {
                    "unit": "person",
                    "rows_per_unit": 1,
                    "columns": {
                        "person": {"type": "integer"},
                        "dept": {"type": "text", "values": ["er", "icu"]},
                        "cost": {"type": "decimal", "bounds": [0, 4000], "step": 0.01},
                        "bill": {"type": "decimal", "bounds": {"within": [0, 100000], "choose": "private"}, "step": 1},
                        "age": {"type": "integer", "bounds": [0, 120]},
                    },
                }
            },
            "analysts": {"guest": {"epsilon": "1/1000"}},
        }
    )
    found.payer = replace(found.payer, source=HashSource(seed))
    return found


@pytest.fixture(scope="module", params=[{"epsilon": 60, "delta": 0}, {"epsilon": 60, "delta": 1e-6}], ids=str)
def clinic(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    with clinic_of(tmp_path_factory.mktemp("clinic"), request.param) as database:
        yield database


def _reached(release: sfumato.Release, within: dict[str, Any], times: float = 1.0) -> bool:
    for row, ends in zip(release.rows(), release.intervals(), strict=True):
        for name, asked in within.items():
            low, high = ends[name]
            relative = isinstance(asked, str) and asked.endswith("%")
            allowed = abs(row[name]) * float(asked[:-1]) / 100 if relative else float(asked)
            if max(high - row[name], row[name] - low) > allowed * times * (1 + 1e-9):
                return False
    return True


@pytest.mark.parametrize("kind", QUESTIONS)
def test_measurements_are_charged_within_the_most_that_was_quoted(clinic: sfumato.Database, kind: str) -> None:
    text, within = QUESTIONS[kind]
    sql, most = text.format(20), Fraction(2)
    first = clinic.explain(sql, within=within, epsilon=most)
    assert first.most is not None
    assert first.most.epsilon == most
    assert first.loss.epsilon <= most * PILOT_SHARES[0] * Fraction(201, 200)
    before = clinic.charges()
    release = clinic.ask(sql, within=within, epsilon=most)
    made = clinic.history(limit=clinic.charges() - before)
    assert 2 <= len(made) <= len(PILOT_SHARES) + 1
    assert made[-1].loss == first.loss
    assert made[0].loss == release.loss
    assert sum((entry.loss.epsilon for entry in made), Fraction(0)) <= most
    # the answer says what is so
    assert release.notes[0].startswith("Reached at 95 %" if _reached(release, within) else "Not reached")
    # one answer in five may miss its margin, by what pilots cannot know: it is not far off
    assert _reached(release, within, times=1.5), release.notes[0]
    # the same again is the same, and free; the quote says so
    again = clinic.ask(sql, within=within, epsilon=most)
    assert again.repeated
    assert again.rows() == release.rows()
    assert again.notes == release.notes
    assert clinic.charges() == before + len(made)
    assert clinic.explain(sql, within=within, epsilon=most).loss.epsilon == 0
    assert clinic.reopen(release.receipt.id).notes[0] == release.notes[0]
    clinic.verify()


@pytest.mark.parametrize("place", range(14))
def test_margins_at_the_edge_of_what_may_be_spent_stay_below_it(clinic: sfumato.Database, place: int) -> None:
    most, before = Fraction(1, 2), clinic.charges()
    sql = f"SELECT COUNT(*) AS n FROM visits WHERE cost > {place + 1}"
    clinic.ask(sql, within={"n": f"{Fraction(18 + place, 100)}%"}, epsilon=most)
    made = clinic.history(limit=clinic.charges() - before)
    assert len(made) >= 2
    assert sum((entry.loss.epsilon for entry in made), Fraction(0)) <= most


@pytest.mark.parametrize("ends", [(None, 3.0), (3.0, None), (None, None), None, (9.0, 9.5)], ids=str)
def test_an_interval_that_is_open_or_beside_its_value_reaches_nothing(clinic: sfumato.Database, ends: Any) -> None:
    asked = clinic._with_sources("SELECT AVG(cost) AS x FROM visits WHERE age > 25", None, RequestedPrice("1"))
    goal = AccuracyGoal(read_targets({"x": 50}), Fraction(1), Fraction(0), is_pilot=False)
    release = clinic.ask("SELECT AVG(cost) AS x FROM visits WHERE age > 25", epsilon="1")
    changed = replace(release, values=((3.0,),), ranges=lambda _: [[ends]], _known={})
    told = with_goal_note(changed, replace(asked, price_target=replace(asked.price_target, goal=goal)))
    assert told.notes[0].startswith("Not reached")


@pytest.mark.parametrize("kind", QUESTIONS)
def test_the_answer_is_another_measurement_than_every_pilot(clinic: sfumato.Database, kind: str) -> None:
    text, within = QUESTIONS[kind]
    sql, before = text.format(21), clinic.charges()
    release = clinic.ask(sql, within=within, epsilon="1.5")
    answer, *pilots = clinic.history(limit=clinic.charges() - before)
    stored = [clinic.entry(entry.receipt) for entry in (answer, *pilots)]
    contents = [json.loads(entry.release or "") for entry in stored if entry is not None]
    numbers = [content["noisy"] for content in contents]
    assert len({json.dumps(one) for one in numbers}) == len(numbers)
    goals = [goal_from_json(content["wish"]["goal"]) for content in contents]
    assert [goal is not None and goal.is_pilot for goal in goals] == [False, *[True] * len(pilots)]
    assert not release.receipt.rests_on
    assert not release.receipt.refines


def test_what_refines_a_pilot_is_not_the_answer(tmp_path: Path) -> None:
    """Its noise was drawn given that of the pilot, which decided the price."""
    sql, within = "SELECT COUNT(*) AS n FROM visits WHERE age > 22", {"n": "5%"}
    with clinic_of(tmp_path, {"epsilon": 60, "delta": 0}) as database:
        for _ in range(len(PILOT_SHARES) + 1):
            target = database._with_sources(sql, None, RequestedPrice("1", within)).price_target
            assert target.goal is not None
            last = database.ask(sql, epsilon=target.epsilon)
            if not target.goal.is_pilot:
                break
        assert last.receipt.refines
        quote = database.explain(sql, within=within, epsilon=1)
        release = database.ask(sql, within=within, epsilon=1)
        assert not release.receipt.refines
        assert release.loss == quote.loss
        assert database.ask(sql, within=within, epsilon=1).receipt == release.receipt
        assert database.explain(sql, within=within, epsilon=1).loss.epsilon == 0


@pytest.mark.parametrize("most", [2, 6, 60])
def test_a_price_at_which_a_number_would_be_exact_is_not_out_of_reach(tmp_path: Path, most: int) -> None:
    sql = "SELECT COUNT(*) AS n, SUM(cost) AS s FROM visits WHERE age > 23"
    with clinic_of(tmp_path, {"epsilon": 60, "delta": 0}) as database:
        release = database.ask(sql, within={"n": "5%"}, epsilon=most)
        assert release.notes[0].startswith("Reached")
        assert database.budget().spent.epsilon < Fraction(1, 2)


def test_decisions_that_another_thread_forgets_are_made_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Forgetful(dict[object, object]):
        def __setitem__(self, key: object, value: object) -> None:
            """Forget it at once, as if another thread had been there."""

    monkeypatch.setattr("sfumato.pilots._DECISIONS", Forgetful())
    with clinic_of(tmp_path, {"epsilon": 60, "delta": 0}) as database:
        assert database.ask("SELECT AVG(cost) AS x FROM visits", within={"x": 50}).notes[0].startswith("Reached")


def test_a_margin_that_is_out_of_reach_is_said_so_and_costs_little(clinic: sfumato.Database) -> None:
    sql = "SELECT AVG(cost) AS x FROM visits WHERE age > 22"
    before = clinic.charges()
    release = clinic.ask(sql, within={"x": 0.01}, epsilon="0.5")
    assert release.notes[0].startswith("Not reached: `x` ±0.01. ")
    assert "At most ε = " in release.notes[0]
    made = clinic.history(limit=clinic.charges() - before)
    assert sum(entry.loss.epsilon for entry in made) <= Fraction(1, 2) * Fraction(3, 10)


def test_rows_that_cannot_reach_it_do_not_stop_the_others(clinic: sfumato.Database) -> None:
    sql = "SELECT CASE WHEN age < 80 THEN 'many' ELSE 'few' END AS g, AVG(cost) AS x FROM visits WHERE age >= 23 AND "
    sql += "(age < 80 OR cost < 8) GROUP BY 1"
    release = clinic.ask(sql, within={"x": 40}, epsilon="2")
    assert "in 1 of 2 rows" in release.notes[0]
    rows = {row["g"]: (row["x"], ends["x"]) for row, ends in zip(release.rows(), release.intervals(), strict=True)}
    value, (low, high) = rows["many"]
    assert max(high - value, value - low) <= 40


def test_what_no_pilot_tells_is_refused_before_anything_is_charged(clinic: sfumato.Database) -> None:
    before = clinic.charges()
    for sql, within in (
        ("SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept", {"dept": "5%"}),
        ("SELECT MODE(dept) AS n FROM visits", {"n": "5%"}),
        ("SELECT COUNT(*) AS n FROM visits WHERE cost > (SELECT AVG(cost) FROM visits)", {"n": "5%"}),
    ):
        with pytest.raises(UnreachableMargin):
            clinic.ask(sql, within=within)
        with pytest.raises(UnreachableMargin):
            clinic.explain(sql, within=within)
    with pytest.raises(UnknownName):
        clinic.ask("SELECT COUNT(*) AS n FROM visits", within={"m": "5%"})
    for margin in ("0%", "-5%", "%", "x%"):
        with refusing():
            clinic.ask("SELECT COUNT(*) AS n FROM visits", within={"n": margin})
    assert clinic.charges() == before


def test_what_does_not_fit_is_refused_and_the_pilot_is_not_charged_again(tmp_path: Path) -> None:
    with clinic_of(tmp_path, {"epsilon": 1, "delta": 0}) as owner, owner.as_analyst("guest") as guest:
        release = guest.ask("SELECT AVG(cost) AS x FROM visits", within={"x": 1})
        assert release.notes[0].startswith("Not reached")
        assert guest.budget().spent.epsilon <= Fraction(1, 1000)
        owner.ask("SELECT COUNT(*) FROM visits", epsilon="0.9999")
        for _ in range(2):
            with pytest.raises(BudgetExhausted):
                owner.ask("SELECT AVG(cost) AS x FROM visits", within={"x": 50})
        assert owner.charges() <= 2


def test_an_attempt_that_ended_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sql, within = "SELECT AVG(cost) AS x FROM visits", {"x": 30}
    with clinic_of(tmp_path / "one", {"epsilon": 3, "delta": 0}) as database:
        whole = database.ask(sql, within=within)
        charges = [entry.loss for entry in database.history()]
    with clinic_of(tmp_path / "two", {"epsilon": 3, "delta": 0}) as database:
        answered = database._answer
        for left in range(len(charges)):
            monkeypatch.setattr(database, "_answer", _ending_after(answered, min(left, 1)))
            if left < len(charges) - 1:
                with pytest.raises(KeyboardInterrupt):
                    database.ask(sql, within=within)
        monkeypatch.undo()
        assert database.ask(sql, within=within).rows() == whole.rows()
        assert [entry.loss for entry in database.history()] == charges


def _ending_after(answer: Any, left: int) -> Any:
    def ending(*asked: Any) -> Any:
        nonlocal left
        if not left:
            raise KeyboardInterrupt
        left -= 1
        return answer(*asked)

    return ending


def test_a_relative_margin_covers_as_often_as_it_says(tmp_path: Path) -> None:
    """60 answers that are wrong 5 times in 100: more than 10 misses have a probability below 1/3,000."""
    misses = 0
    with clinic_of(tmp_path, {"epsilon": 30, "delta": 0}) as database:
        for age in range(20, 80):
            release = database.ask(
                f"SELECT COUNT(*) AS n FROM visits WHERE age > {age}", within={"n": "20%"}, epsilon=1
            )
            assert not release.repeated
            [row] = release.intervals()
            misses += not row["n"][0] <= sum(one[3] > age for one in rows_of()) <= row["n"][1]
    assert misses <= 10


@pytest.mark.parametrize("epsilon", ["0.2", "3"])
def test_epsilon_beside_a_fixed_margin_is_the_most_that_it_may_cost(clinic: sfumato.Database, epsilon: str) -> None:
    sql = "SELECT COUNT(*) AS n FROM visits WHERE age > 24"
    needed = clinic.explain(sql, within={"n": 5})
    if Fraction(epsilon) < needed.loss.epsilon:
        with pytest.raises(UnreachableMargin, match="beside"):
            clinic.explain(sql, within={"n": 5}, epsilon=epsilon)
    else:
        assert clinic.explain(sql, within={"n": 5}, epsilon=epsilon).loss == needed.loss
