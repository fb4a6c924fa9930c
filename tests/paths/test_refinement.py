"""A finer answer to the same question costs the difference where losses are pure, and refines one answer once."""

import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from tests.paths.worlds import a_world, policy, write

import sfumato
from sfumato.accounting.event import Composed, LaplaceNoise, LaplaceRefinement
from sfumato.planning.quote import AnswerSource
from sfumato.prepare import RequestedPrice

SQL = "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[sfumato.Database]:
    write(tmp_path, a_world(5, people=30))
    with sfumato.open(policy(tmp_path, budget={"epsilon": 10, "delta": 0})) as database:
        yield database


def test_a_chain_of_finer_answers_costs_what_the_finest_does(own: sfumato.Database) -> None:
    first = own.ask(SQL, epsilon="0.5")
    quote = own.explain(SQL, epsilon=1)
    assert (quote.source, quote.loss.epsilon) == (AnswerSource.REFINED, Fraction(1, 2))
    second = own.ask(f"{SQL} ORDER BY n", epsilon=1)
    third = own.ask(SQL, epsilon=3)
    assert (second.receipt.refines, third.receipt.refines) == (first.receipt.id, second.receipt.id)
    assert own.budget().spent.epsilon == own.charges() == 3
    assert [entry.refines for entry in own.history()] == [second.receipt.id, first.receipt.id, ""]
    margins = [one.intervals()[0]["n"][1] - one.intervals()[0]["n"][0] for one in (first, second, third)]
    assert margins == sorted(margins, reverse=True)
    for answer in (first, third):
        again = own.reopen(answer.receipt.id)
        assert (again.rows(), again.intervals()) == (answer.rows(), answer.intervals())
    assert own.ask(SQL, epsilon=3).receipt == third.receipt
    assert own.ask("SELECT COUNT(*) AS n FROM visits", epsilon=0).receipt.rests_on == (third.receipt.id,)
    assert own.verify().spent.epsilon == 3


def test_one_answer_is_refined_once(own: sfumato.Database) -> None:
    """Whoever planned to refine it at the same time is answered anew: two draws from one noise would tell more."""
    own.ask(SQL, epsilon="0.5")
    slower = own._with_sources(SQL, None, RequestedPrice(2))
    assert slower.refinement is not None
    own.ask(SQL, epsilon=1)
    (release,) = own._answer(slower, None, lambda *_: None)
    assert release.receipt.refines == ""
    assert isinstance(release.event, Composed)
    assert [type(event) for event in release.event.events] == [LaplaceNoise]
    assert own.budget().spent.epsilon == 3


def test_a_budget_with_a_delta_never_pays_a_difference(tmp_path: Path) -> None:
    write(tmp_path, a_world(5, people=30))
    with sfumato.open(policy(tmp_path, budget={"epsilon": 10, "delta": 1e-6})) as database:
        database.ask(SQL, epsilon="0.5")
        release = database.ask(SQL, epsilon=1)
        assert release.receipt.refines == ""
        assert release.loss.epsilon == 1
        assert LaplaceRefinement.kind not in database.history()[0].event.kind


def test_another_snapshot_or_account_refines_nothing(tmp_path: Path) -> None:
    write(tmp_path, a_world(5, people=30))
    words = policy(tmp_path, budget={"epsilon": 10, "delta": 0}, analysts={"press": {"epsilon": 5}})
    with sfumato.open(words) as own:
        own.ask(SQL, epsilon="0.5")
        with own.as_analyst("press") as press:
            assert press.explain(SQL, epsilon=1).source is AnswerSource.FRESH
        own.refresh()
        assert own.explain(SQL, epsilon=1).source is AnswerSource.FRESH


@pytest.mark.parametrize("renewing", [{}, {"every": "month"}])
def test_nothing_is_refined_where_a_cap_renews(tmp_path: Path, renewing: dict[str, str]) -> None:
    """In a later window the difference would be no bound of what the finer answer tells."""
    write(tmp_path, a_world(5, people=30))
    words = policy(tmp_path, budget={"epsilon": 10, "delta": 0}, analysts={"press": {"epsilon": 5, **renewing}})
    with sfumato.open(words, analyst="press") as press:
        press.ask(SQL, epsilon="0.5")
        quote = press.explain(SQL, epsilon=1)
        assert quote.source is (AnswerSource.COMBINED if renewing else AnswerSource.REFINED)
        assert quote.loss.epsilon == (1 if renewing else Fraction(1, 2))


def test_the_finer_answer_is_drawn_given_the_coarser_one(own: sfumato.Database) -> None:
    """Of 366 numbers a quarter stays when noise is halved, within four deviations; fresh noise moves nearly all."""
    daily = "SELECT day, COUNT(*) AS n FROM visits GROUP BY day"
    numbers = [[row["n"] for row in own.ask(daily, epsilon=epsilon).rows()] for epsilon in ("0.05", "0.1")]
    unchanged = sum(one == other for one, other in zip(*numbers, strict=True)) / len(numbers[0])
    assert 0.16 <= unchanged <= 0.34


def test_a_refinement_that_was_killed_is_drawn_again_for_its_charge(tmp_path: Path) -> None:
    """Fresh noise for a charge of the difference would reveal more than was paid for."""
    write(tmp_path, a_world(5, people=30))
    words = policy(tmp_path, budget={"epsilon": 10, "delta": 0})
    with sfumato.open(words) as own:
        first = own.ask(SQL, epsilon="0.5")
    process = os.fork()
    if not process:
        sfumato.database.publish_refined = lambda *_: os._exit(0)  # type: ignore[attr-defined]
        with sfumato.open(words) as own:
            own.ask(SQL, epsilon=1)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    with sfumato.open(words) as own:
        assert own.budget().spent.epsilon == 1
        assert own.explain(SQL, epsilon=1).loss.epsilon == 0  # asking takes the charge up
        again = own.ask(SQL, epsilon=1)
        assert again.receipt.refines == first.receipt.id
        assert own.budget().spent.epsilon == 1
        assert own.explain(SQL, epsilon=1).loss.epsilon == 0


def test_a_killed_refinement_is_not_taken_up_for_another_answer(tmp_path: Path) -> None:
    """Two accounts have answers with the same noise. What one paid to refine its own does not refine the other's."""
    write(tmp_path, a_world(5, people=30))
    caps = {"analysts": {"ann": {"epsilon": 50}, "bob": {"epsilon": 50}}, "budget": {"epsilon": 100, "delta": 0}}
    first = {}
    with sfumato.open(policy(tmp_path, **caps)) as own:
        for name in ("ann", "bob"):
            with own.as_analyst(name) as analyst:
                first[name] = analyst.ask(SQL, epsilon="0.5").receipt.id
    words = policy(tmp_path, **caps, answers="shared")
    sfumato.open(words).close()
    process = os.fork()
    if not process:
        sfumato.database.publish_refined = lambda *_: os._exit(0)  # type: ignore[attr-defined]
        with sfumato.open(words, analyst="ann") as ann:
            ann.ask(SQL, epsilon=1)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    with sfumato.open(words, analyst="bob") as bob:
        assert bob.explain(SQL, epsilon=1).loss.epsilon == Fraction(1, 2)
        second, third = bob.ask(SQL, epsilon=1), bob.ask(SQL, epsilon=2)
        assert (second.receipt.refines, third.receipt.refines) == (first["bob"], second.receipt.id)
        assert bob.budget().spent.epsilon == 2
    with sfumato.open(words) as own:
        assert own.budget().spent.epsilon == Fraction(1, 2) + Fraction(1, 2) + 2
        assert own.verify().spent.epsilon == 3


ER, ICU, URGENT, SURGERY = (
    f"COUNT(*) FILTER (WHERE {condition})"
    for condition in ("dept = 'er' AND age > 5", "dept = 'icu'", "dept = 'er' AND urgent", "dept = 'surgery'")
)


@pytest.mark.parametrize("beside", [(ICU,), (ICU, SURGERY)], ids=len)
def test_other_vectors_of_the_same_conditions_cost_no_less_than_the_finer_answer(
    own: sfumato.Database, beside: tuple[str, ...]
) -> None:
    """A row may be in the first and the last count; which of them is in the vector is a matter of their order."""
    orders = [(ER, *beside, URGENT), (URGENT, *beside, ER)]
    texts = ["SELECT " + ", ".join(f"{one} AS c{at}" for at, one in enumerate(order)) for order in orders]
    vectors = set()
    for place, price in enumerate((Fraction(1, 2), Fraction(1), Fraction(2))):
        text = f"{texts[place % 2]} FROM visits"
        (group,) = own.prepare(text, None, RequestedPrice(price)).plan.groups
        vectors.add(frozenset(str(one.quantity) for one in group.measured if one.name in group.vector))
        own.ask(text, epsilon=price)
        assert own.budget().spent.epsilon >= price
    assert len(vectors) == 2
    before = own.budget().spent.epsilon
    assert own.explain(f"{texts[0]} FROM visits", epsilon=3).source is AnswerSource.REFINED
    own.ask(f"{texts[0]} FROM visits", epsilon=3)
    assert own.budget().spent.epsilon == before + 1
