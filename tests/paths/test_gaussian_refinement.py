"""Under a budget with a delta a finer answer is fresh Gaussian noise of the missing precision, for the difference."""

import os
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import exp, log
from pathlib import Path
from typing import Any

import pytest
from tests.paths.worlds import a_world, policy, write
from tests.sources import HashSource

import sfumato
from sfumato.accounting.event import Composed, Event, GaussianNoise, LaplaceRefinement
from sfumato.database import Database
from sfumato.ledger.history import source_texts
from sfumato.planning.quote import AnswerSource
from sfumato.planning.refinement_offer import explain_with_offer
from sfumato.prepare import RequestedPrice
from sfumato.randomness.discrete_gaussian import DiscreteGaussian

ONE = "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"
TWO = "SELECT dept, COUNT(*) AS n, SUM(cost) AS c FROM visits GROUP BY dept"
DELTA = {"epsilon": 10, "delta": 1e-6}


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Database]:
    write(tmp_path, a_world(5, people=30))
    with sfumato.open(policy(tmp_path, budget=DELTA)) as database:
        yield database


def _parts(event: Event | None) -> list[GaussianNoise]:
    assert isinstance(event, Composed)
    return [part for part in event.events if isinstance(part, GaussianNoise)]


@pytest.mark.parametrize("sql", [ONE, TWO])
def test_a_chain_has_the_losses_of_its_last_answer_exactly(own: Database, sql: str) -> None:
    """Of each measurement the precisions of all charges add up to that of a fresh answer; so do Rényi losses."""
    answers, used = [], []
    for share in ("1%", "2%", "3%", "7%"):
        fresh = own.prepare(sql, None, RequestedPrice(share=share)).plan
        quote = own.explain(sql, share=share)
        answers.append(own.ask(sql, share=share))
        used.append(own.budget().used)
        assert used[-1] - (used[-2] if used[1:] else 0) == quote.share
        charged = [_parts(entry.event) for entry in own.history()]
        for place, wanted in enumerate(_parts(fresh.event)):
            assert sum(1 / one[place].sigma_squared for one in charged) == 1 / wanted.sigma_squared
    assert used[-1] == pytest.approx(0.07, abs=1e-9)
    receipts = [answer.receipt for answer in answers]
    assert [receipt.refines for receipt in receipts] == ["", *(receipt.id for receipt in receipts[:-1])]
    assert set(receipts[-1].rests_on) == {receipt.id for receipt in receipts[:-1]}
    assert source_texts(own.history())[0].startswith(f"refines #{own.history()[1].sequence}; combined with ")
    for answer in answers:
        again = own.reopen(answer.receipt.id)
        assert (again.rows(), again.intervals()) == (answer.rows(), answer.intervals())
    assert own.ask(sql, share="7%").rows() == answers[-1].rows()
    assert own.ask(f"{sql} ORDER BY 2", share="5%").receipt.rests_on
    assert (own.budget().used, own.charges()) == (used[-1], 4)
    assert own.verify()


def test_a_finer_margin_costs_less_than_a_fresh_one_and_holds(own: Database) -> None:
    fresh = own.explain(ONE, within={"n": 30}).share
    own.ask(ONE, within={"n": 40})
    quote = own.explain(ONE, within={"n": 30})
    assert quote.source is AnswerSource.REFINED
    assert quote.share is not None
    assert fresh is not None
    assert quote.share < Fraction(3, 5) * fresh  # about half of the precision is there: (30/40)² = 0.56
    release = own.ask(ONE, within={"n": 30})
    assert all(row["n"][1] - row["n"][0] <= 60 for row in release.intervals())
    assert own.explain(ONE, within={"n": 30}).loss.epsilon == 0


def test_an_epsilon_is_never_exceeded(own: Database) -> None:
    """Gaussian noise for the difference to Laplace noise would cost less of the budget, and a larger epsilon."""
    own.ask(ONE, share="1%")
    for epsilon in ("0.5", "1", "2"):
        quote = own.explain(ONE, epsilon=epsilon)
        assert quote.loss.epsilon <= Fraction(epsilon)
        event = own.ask(ONE, epsilon=epsilon).event
        assert isinstance(event, Composed)
        assert not any(isinstance(part, LaplaceRefinement) for part in event.events)


def test_analysts_refine_their_own_answers_also_in_windows(tmp_path: Path) -> None:
    """A fresh measurement is paid for by itself, whenever its window is."""
    write(tmp_path, a_world(5, people=30))
    analysts = {"press": {"epsilon": 5, "delta": 1e-7, "every": "month"}, "research": {"epsilon": 5, "delta": 1e-7}}
    with sfumato.open(policy(tmp_path, budget=DELTA, analysts=analysts)) as own:
        with own.as_analyst("press") as press, own.as_analyst("research") as research:
            press.ask(ONE, share="1%")
            assert press.explain(ONE, share="2%").source is AnswerSource.REFINED
            assert research.explain(ONE, share="2%").source is AnswerSource.FRESH
        own.refresh()
        with own.as_analyst("press") as press:
            assert press.explain(ONE, share="2%").source is AnswerSource.FRESH


def test_an_offer_of_a_share_is_taken_up_by_a_margin(own: Database) -> None:
    own.ask(ONE, share="1%")
    offer = explain_with_offer(own.explain, ONE, share="1%")[1]
    assert offer is not None
    assert offer.quote.source is AnswerSource.REFINED
    used = own.budget().used
    own.ask(ONE, **offer.price)
    assert own.budget().used - used == offer.quote.share


def test_a_refinement_that_was_killed_is_taken_up_for_its_charge(tmp_path: Path) -> None:
    write(tmp_path, a_world(5, people=30))
    words = policy(tmp_path, budget=DELTA)
    with sfumato.open(words) as own:
        own.ask(ONE, share="1%")
    process = os.fork()
    if not process:
        sfumato.database.publish = lambda *_: os._exit(0)  # type: ignore[attr-defined]
        with sfumato.open(words) as own:
            own.ask(ONE, share="2%")
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    with sfumato.open(words) as own:
        used = own.budget().used
        assert own.explain(ONE, share="2%").loss.epsilon == 0
        assert own.ask(ONE, share="2%").receipt.rests_on
        assert (own.budget().used, own.charges()) == (used, 2)


def test_bars_of_refined_numbers_cover(tmp_path: Path) -> None:
    """Of 366 numbers 5 % lie outside: between 1 and 10 %, four deviations each way. A fixed seed draws the noise."""
    daily = "SELECT day, COUNT(*) AS n FROM visits GROUP BY day"
    write(tmp_path, a_world(5, people=30))
    with sfumato.open(policy(tmp_path, budget=DELTA)) as own:
        object.__setattr__(own.payer, "source", HashSource("bars"))
        for share in ("0.2%", "0.4%", "1%"):
            release = own.ask(daily, share=share)
        assert len(release.receipt.rests_on) == 2
        asked = own.prepare(daily, None, RequestedPrice(share="1%"))
        (exact,) = asked.engine.run(asked.job).groups
        truth = dict(zip((key[0] for key in exact.keys), next(iter(exact.columns.values())), strict=True))
        days = [row["day"] for row in release.rows()]
        numbers = list(truth.values())[: len(days)]
        missed = [
            not low <= number <= high
            for number, row in zip(numbers, release.intervals(), strict=True)
            for low, high in [row["n"]]
        ]
        assert 0.01 <= sum(missed) / len(missed) <= 0.10
        widths = {row["n"][1] - row["n"][0] for row in release.intervals()}
        margin = own.explain(daily, share="1%").margins["n"]
        assert margin is not None
        assert max(widths) <= 2 * margin + 1


REACH = 25


def _gaussian(sigma_squared: Fraction, shift: int) -> dict[int, float]:
    weights = {at: exp(-((at - shift) ** 2) / (2 * float(sigma_squared))) for at in range(-REACH, REACH + 1)}
    whole = sum(weights.values())
    return {at: weight / whole for at, weight in weights.items()}


def _term(p: float, q: float, order: int) -> float:
    return exp(order * log(p) + (1 - order) * log(q))


@pytest.mark.parametrize("order", [2, 4, 8])
@pytest.mark.parametrize("refines", [lambda y: y > 0, lambda y: y < -1, lambda y: abs(y) < 2, lambda _: True])
def test_no_adaptive_refiner_gets_more_than_the_last_answer(order: int, refines: Any) -> None:
    """Transcripts enumerated on both neighbours: the analyst refines where the first answer suggests it."""
    first, second = Fraction(6), Fraction(2)
    fresh = 1 / (1 / second - 1 / first)
    laws = [(_gaussian(first, shift), _gaussian(fresh, shift)) for shift in (0, 1)]
    for (p1, p2), (q1, q2) in (laws, laws[::-1]):
        total = 0.0
        for y1, weight in p1.items():
            rest = sum(_term(p, q2[y], order) for y, p in p2.items()) if refines(y1) else 1.0
            total += _term(weight, q1[y1], order) * rest
        assert log(total) / (order - 1) <= order / (2 * float(second)) + 1e-9


def test_the_weighted_sum_of_integer_noises_has_no_larger_variance() -> None:
    """Enumerated: the joint law of both noises, with the weights of the parameters."""
    for first, second in product((Fraction(3), Fraction(40, 3)), (Fraction(1), Fraction(5, 2))):
        fresh = 1 / (1 / second - 1 / first)
        one, other = _gaussian(first, 0), _gaussian(fresh, 0)
        weight = float(second / first)
        variance = sum(
            p * q * (weight * a + (1 - weight) * b) ** 2 for (a, p), (b, q) in product(one.items(), other.items())
        )
        assert variance <= float(second) + 1e-9
        assert DiscreteGaussian(fresh).margin(Fraction(95, 100)) > 0


def test_measurements_that_are_charged_as_one_are_refined_as_one(tmp_path: Path) -> None:
    """Rows move one of several counts: the chain costs what the finest vector does, not the sum of its parts."""
    sql = "SELECT COUNT(*) FILTER (WHERE urgent) AS a, COUNT(*) FILTER (WHERE NOT urgent) AS b FROM visits"
    write(tmp_path, a_world(5, people=30))
    with sfumato.open(policy(tmp_path, budget={"epsilon": 10, "delta": 0})) as own:
        first = own.ask(sql, epsilon="0.5")
        assert own.prepare(sql, None, RequestedPrice("0.5")).plan.groups[0].vector
        quote = own.explain(sql, epsilon=2)
        assert (quote.source, quote.loss.epsilon) == (AnswerSource.REFINED, Fraction(3, 2))
        assert own.ask(sql, epsilon=2).receipt.refines == first.receipt.id
        assert own.budget().spent.epsilon == own.verify().spent.epsilon == 2
