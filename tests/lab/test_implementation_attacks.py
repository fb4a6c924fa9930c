"""Doubles and loops give the noise away; integers and tables do not."""

from fractions import Fraction
from math import exp, nextafter

import pytest

from sfumato.lab.attacks import floating, timing
from sfumato.lab.attacks.floating import UNIFORM_BITS, is_reachable, naive_laplace, too_fine_for_one
from sfumato.lab.generators.seeded import Seeded
from sfumato.randomness.uniform import fair_signs, uniform_bits


@pytest.mark.parametrize("scale", [0.25, 1.0, 10.0])
@pytest.mark.parametrize("value", [0.0, 1.0, 1000.0])
def test_what_the_naive_noise_gave_is_found_reachable(value: float, scale: float) -> None:
    words, signs = uniform_bits(UNIFORM_BITS, 300, Seeded("words")) + 1, fair_signs(300, Seeded("signs"))
    ends = [(1, 1), (1, -1), (1 << UNIFORM_BITS, 1), (2, 1), ((1 << UNIFORM_BITS) - 1, -1)]
    for word, sign in [*zip(words.tolist(), signs.tolist(), strict=True), *ends]:
        assert is_reachable(naive_laplace(value, scale, word, sign), value, scale)


def test_most_doubles_near_zero_are_out_of_reach() -> None:
    here, reached = 0.01, 0
    for _ in range(200):
        here = nextafter(here, 1.0)
        reached += is_reachable(here, 0.0, 1.0)
    assert 0 < reached < 20


def test_no_answer_about_one_is_finer_than_its_grid() -> None:
    words = uniform_bits(UNIFORM_BITS, 2000, Seeded("fine")) + 1
    assert not any(too_fine_for_one(naive_laplace(1.0, 1.0, int(word), sign)) for word in words for sign in (1, -1))


def test_doubles_tell_the_secret_and_integers_never_do() -> None:
    result = floating.run(1000, Seeded(1))
    # four answers in five are told apart; Hoeffding: fewer than 65 % with probability exp(-2 · 1000 · 0.15²) < 3e-20
    assert result.reachable.share > 0.65
    # one in eight is too fine for 1; Hoeffding: fewer than 4 % with probability exp(-2 · 1000 · 0.085²) < 6e-7
    assert result.precision.share > 0.04
    assert result.reachable.wrong == result.precision.wrong == 0
    assert result.integers.certain == 0
    assert result.largest_ratio == pytest.approx(exp(1), rel=1e-9)
    assert f"{result.reachable.share:.1%}" in result.report()


def test_counted_work_is_the_noise_of_the_textbook_sampler_and_not_of_ours() -> None:
    found = timing.run(2_000, Seeded(1))
    # Hoeffding, 2,000 trials and an expected 99 %: below 90 % with probability exp(-2 · 2,000 · 0.09²) < 1e-14
    assert found.naive.right > 0.9
    # 52.5 % is the most that answers alone allow; 0.06 more has probability exp(-2 · 2,000 · 0.06²) < 6e-7
    assert found.ours.right < found.bound + 0.06
    assert found.ours.usual > 0.98
    assert found.naive.sampler in found.report()


def test_the_textbook_sampler_is_the_law_that_it_claims() -> None:
    scale, source = Fraction(2), Seeded(3)
    draw = timing.naive_sampler(scale)
    zeros = sum(draw(source) == 0 for _ in range(4_000)) / 4_000
    x = exp(-1 / 2)
    assert abs(zeros - (1 - x) / (1 + x)) < 0.045  # Hoeffding: 2·exp(-2 · 4,000 · 0.045²) < 2e-7
