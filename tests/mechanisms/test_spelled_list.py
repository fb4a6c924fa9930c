"""Texts that are spelled: weights that add up, a sampler that follows them, and few texts that nobody has."""

from fractions import Fraction

from tests.sources import HashSource

from sfumato.accounting.event import Neighbours
from sfumato.accounting.pure import epsilon as pure_epsilon
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.spelled_list import ALPHABET, SpelledList

NOISE = Laplace(2, Fraction(4), Neighbours.ADD_REMOVE)


def made(chosen: int = 2, longest: int = 12, epsilon: Fraction = Fraction(1, 4)) -> SpelledList:
    return SpelledList(chosen, epsilon, NOISE, NOISE.event, 50, longest)


def test_the_weights_of_all_texts_add_up_to_one() -> None:
    for longest in (1, 2, 7):
        mechanism = made(longest=longest)
        whole = sum(len(ALPHABET) ** letters * mechanism.weight("a" * letters) for letters in range(longest + 1))
        assert whole == (len(ALPHABET) + 1) ** longest


def test_a_list_costs_its_choices_and_its_counts_and_no_delta() -> None:
    assert pure_epsilon(made().event) == Fraction(2, 4) + Fraction(2, 4)
    assert made().delta == 0


def test_common_texts_are_shown_from_as_many_people_on_as_is_said() -> None:
    """One-sided, three standard deviations: a false alarm once in 700."""
    mechanism, rounds, source = made(), 40, HashSource("spelled")
    needed = mechanism.units_for("0.95", letters=5)
    texts, people = ["maria", "chloé", "x", "a text that is too long for it"], [needed, 10 * needed, 1, 10 * needed]
    hits = strangers = 0
    for _ in range(rounds):
        shown = dict(mechanism.release(texts, people, source))
        hits += "maria" in shown
        strangers += any(text not in {"maria", "x"} for text in shown)
        assert "chloé" not in shown  # its letters are not all in the alphabet
    assert hits >= rounds * 0.95 - 3 * (rounds * 0.95 * 0.05) ** 0.5
    assert strangers <= rounds * 0.05 + 3 * (rounds * 0.95 * 0.05) ** 0.5


def test_choices_that_fall_on_nobody_spell_texts_nobody_has() -> None:
    mechanism, source = made(chosen=3, longest=1, epsilon=Fraction(1, 10**6)), HashSource("nobody")
    for _ in range(20):
        found = mechanism._choose_texts({"a": 1, "b": 1}, source)
        assert len(set(found)) == 3
        assert all(mechanism.spells(text) for text in found)
    assert not mechanism.spells("ab")
