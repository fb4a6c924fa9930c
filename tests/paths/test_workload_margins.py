"""Margins for the questions of a workload: all are reached, for less than the questions cost one by one."""

from fractions import Fraction
from pathlib import Path

import pytest
from tests.paths.worlds import a_world, policy, write
from tests.refusals import refusing

import sfumato
from sfumato.errors import BadParameter, UnreachableMargin
from sfumato.release.marginal_consistency import _Solved

QUESTIONS = [
    "SELECT COUNT(*) AS n FROM visits",
    "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept",
    "SELECT urgent, COUNT(*) AS n FROM visits GROUP BY urgent",
    "SELECT dept, urgent, COUNT(*) AS n FROM visits GROUP BY dept, urgent",
]
MARGINS = [[150, 150, 150, 150], [40, 400, 400, 400], [400, 400, 400, 100], [3000, 2000, 2500, 1000]]


@pytest.fixture
def database(tmp_path: Path) -> sfumato.Database:
    write(tmp_path, a_world(1))
    return sfumato.open(policy(tmp_path, budget={"epsilon": 100, "delta": "1e-6"}))


def _reach(release: sfumato.Release) -> float:
    ends = [row["n"] for row in release.intervals(bias=False)]
    return float(max((high - low) / 2 for low, high in ends))


def _price(database: sfumato.Database) -> Fraction:
    return database.history()[0].loss.epsilon


@pytest.mark.parametrize("margins", MARGINS, ids=str)
def test_all_margins_are_reached_for_less_than_one_by_one(
    database: sfumato.Database, monkeypatch: pytest.MonkeyPatch, margins: list[int]
) -> None:
    # a bar is lengthened to hold what is shown: with all rests in it, that is the nearest whole number
    monkeypatch.setattr(_Solved, "_is_there", lambda *_: True)
    within = [{"n": margin} for margin in margins]
    with database:
        apart = sum(
            (database.explain(sql, within=one).loss.epsilon for sql, one in zip(QUESTIONS, within, strict=True)),
            Fraction(0),
        )
        releases = database.ask_all(QUESTIONS, within=within)
        assert all(_reach(one) <= margin + 1 for one, margin in zip(releases, margins, strict=True))
        assert _price(database) < apart
        again = database.ask_all(QUESTIONS, within=within)
        assert [one.rows() for one in again] == [one.rows() for one in releases]
        assert len(database.history()) == 1
        receipt = database.history()[0].receipt
        for place, release in enumerate(releases, 1):
            reopened = database.reopen(receipt, question=place)
            assert (reopened.rows(), reopened.intervals()) == (release.rows(), release.intervals())


def test_the_price_is_nearly_the_least(database: sfumato.Database) -> None:
    """The same split for 5 % less misses a margin, and a total that all marginals tell of costs less than alone."""
    with database:
        database.ask_all(QUESTIONS, within=[{"n": 100}, None, None, None])
        alone = database.explain(QUESTIONS[0].replace("COUNT(*)", "COUNT(cost)"), within={"n": 100}).loss.epsilon
        assert _price(database) < 4 * alone
        even = [{"n": 300}] * 4
        database.ask_all(QUESTIONS, within=even)
        price = _price(database)
        cheaper = database.ask_all(QUESTIONS, epsilon=price * Fraction(9, 10))
        assert max(map(_reach, cheaper)) > 290


def test_margins_that_cost_too_much_are_refused_with_nothing_charged(tmp_path: Path) -> None:
    write(tmp_path, a_world(1))
    with sfumato.open(policy(tmp_path, budget={"epsilon": 1, "delta": 0})) as database:
        with pytest.raises(UnreachableMargin, match="times as wide"):
            database.ask_all(QUESTIONS, within=[{"n": 1}] * 4)
        with pytest.raises(UnreachableMargin):
            database.ask_all(QUESTIONS, within=[{"n": 300}] * 4, epsilon="0.001")
        assert not database.history()


@pytest.mark.parametrize("within", [{"n": 25}, [{"n": 25}], "n=25", [None] * 4, [{"m": 25}, None, None, None], 5])
def test_margins_that_say_nothing_are_refused(database: sfumato.Database, within: object) -> None:
    with database:
        with refusing():
            database.ask_all(QUESTIONS, within=within)
        with pytest.raises(BadParameter):
            database.ask_all(QUESTIONS, within=[{"n": 25}] * 4, share="1%")
        assert not database.history()


def test_a_workload_of_one_question_has_its_own_margins(database: sfumato.Database) -> None:
    with database:
        (release,) = database.ask_all(QUESTIONS[:1], within=[{"n": 100}])
        assert _reach(release) <= 100


@pytest.mark.parametrize("delta", ["1e-6", 0], ids=str)
@pytest.mark.parametrize(
    "questions",
    [
        ["SELECT COUNT(*) AS n FROM visits", "SELECT AVG(cost) AS a FROM visits"],
        [
            "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept",
            "SELECT dept, SUM(cost) AS s, AVG(cost) AS a FROM visits GROUP BY dept",
        ],
        [
            "SELECT COUNT(*) FILTER (WHERE age >= 5) AS n FROM visits",
            "SELECT COUNT(*) FILTER (WHERE age >= 10) AS b, COUNT(*) FILTER (WHERE age >= 15) AS c FROM visits",
        ],
    ],
    ids=["null count", "null count of groups", "funnel"],
)
def test_a_plain_count_has_the_margin_it_is_named_of_however_it_is_measured_without_one(
    tmp_path: Path, questions: list[str], delta: object
) -> None:
    """Without margins it would be a sum of what is measured: of steps, or of rows with a value and without."""
    write(tmp_path, a_world(1))
    with sfumato.open(policy(tmp_path, budget={"epsilon": 100, "delta": delta})) as database:
        within = [{"n": 50}, *[None] * (len(questions) - 1)]
        releases = database.ask_all(questions, within=within)
        assert _reach(releases[0]) <= 50
        again = database.ask_all(questions, within=within)
        assert [one.rows() for one in again] == [one.rows() for one in releases]
        (entry,) = database.history()
        for place, release in enumerate(releases, 1):
            reopened = database.reopen(entry.receipt, question=place)
            assert (reopened.rows(), reopened.intervals()) == (release.rows(), release.intervals())


@pytest.mark.parametrize("within", [[{"n": 100}], [("n", 100)], []], ids=str)
@pytest.mark.parametrize("price", [{"epsilon": "0.5"}, {}], ids=str)
def test_a_list_of_margins_for_one_question_is_refused_and_not_left_out(
    database: sfumato.Database, within: object, price: dict[str, str]
) -> None:
    """Margins that nobody reads would leave the epsilon beside them to be spent in full."""
    with database:
        with pytest.raises(BadParameter, match="names no margins"):
            database.ask(QUESTIONS[0], within=within, **price)  # type: ignore[arg-type]
        with pytest.raises(BadParameter, match="names no margins"):
            database.explain(QUESTIONS[0], within=within, **price)
        with pytest.raises(BadParameter, match="names no margins"):
            database.ask_all(QUESTIONS[:1], within=[within], **price)  # type: ignore[arg-type]
        assert not database.history()
