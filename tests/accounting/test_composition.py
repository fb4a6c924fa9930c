"""Composition theorems: the known numbers, and never below brute force over all subsets."""

import random
from fractions import Fraction

import pytest
from tests.accounting import oracle
from tests.accounting.oracle import holds_above, mp, real

from sfumato.accounting.binomial import binomial_delta, log_factorial
from sfumato.accounting.composition import advanced, basic, best, optimal, optimal_delta, sharper
from sfumato.accounting.lattice_sum import lattice_delta
from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import BadParameter

KNOWN = [
    ("0.1", 100, 10, 6.308230951, 5.756105519, 4.77456758811),
    ("0.01", 10000, 100, 6.261538478, 5.756517603, 4.88551560101),
    ("1", 10, 10, 33.80539965, 21.24375294, 9.99997706582),
]


@pytest.mark.parametrize(("epsilon", "times", "plain", "drv", "kov", "least"), KNOWN)
def test_known_compositions_are_reproduced(
    epsilon: str, times: int, plain: int, drv: float, kov: float, least: float
) -> None:
    loss = PrivacyLoss(Fraction(epsilon))
    assert basic([(loss, times)]).epsilon == plain
    assert float(advanced(loss, times, 1e-6).epsilon) == pytest.approx(drv, rel=1e-9)
    assert float(sharper([(loss, times)], 1e-6).epsilon) == pytest.approx(kov, rel=1e-9)
    assert float(optimal([(loss, times)], 1e-6).epsilon) == pytest.approx(least, rel=1e-11)
    assert best([(loss, times)], 1e-6) == optimal([(loss, times)], 1e-6)


def test_known_deltas_are_reproduced() -> None:
    tenth = [(PrivacyLoss(Fraction(1, 10), Fraction(1, 10**8)), 100)]
    assert float(optimal(tenth, 1e-5).epsilon) == pytest.approx(4.32963671402, rel=1e-11)
    assert float(optimal_delta(tenth, 3)) == pytest.approx(0.00136239733294, rel=1e-11)
    assert float(optimal_delta([(PrivacyLoss(Fraction(1, 100)), 10_000)], 4)) == pytest.approx(
        4.69825300986e-5, rel=1e-11
    )


def test_equal_losses_match_the_sum_over_all_subsets() -> None:
    source = random.Random(7)
    for _ in range(40):
        epsilon = Fraction(source.randint(1, 3000), 10 ** source.randint(1, 6))
        times = source.randint(1, 60)
        target = epsilon * times * Fraction(source.randint(0, 99), 100)
        with mp.workdps(100):
            truth = oracle.optimal_delta([epsilon] * times, target)
        assert holds_above(binomial_delta(epsilon, times, target), truth, 1e-10)


def test_different_losses_match_the_sum_over_all_subsets() -> None:
    source = random.Random(8)
    for _ in range(20):
        counts = {Fraction(source.randint(1, 40), 20): source.randint(1, 6) for _ in range(3)}
        epsilons = [epsilon for epsilon, times in counts.items() for _ in range(times)]
        target = sum(epsilons, Fraction(0)) * Fraction(source.randint(0, 99), 100)
        truth = oracle.optimal_delta(epsilons, target)
        assert holds_above(lattice_delta(counts, target), truth, 1e-12)


def test_the_lattice_and_the_binomial_sum_agree() -> None:
    for times, target in ((100, "3"), (400, "1/7"), (900, "20")):
        one = binomial_delta(Fraction(1, 10), times, Fraction(target))
        two = lattice_delta({Fraction(1, 10): times}, Fraction(target))
        assert float(one) == pytest.approx(float(two), rel=1e-11)


@pytest.mark.parametrize(("epsilon", "times"), [("700", 3), ("2000", 5), ("1e-9", 10**6), ("1e-4", 10**7)])
def test_extreme_compositions_are_sound_and_finite(epsilon: str, times: int) -> None:
    loss = [(PrivacyLoss(Fraction(epsilon)), times)]
    found = optimal(loss, 1e-6).epsilon
    assert 0 <= found <= basic(loss).epsilon
    assert found <= sharper(loss, 1e-6).epsilon
    assert optimal_delta(loss, found) <= Fraction(1, 10**6)


def test_the_optimum_is_where_delta_crosses_the_target() -> None:
    loss = [(PrivacyLoss(Fraction(1, 10)), 30), (PrivacyLoss(Fraction(1, 4)), 8)]
    found = optimal(loss, 1e-6).epsilon
    assert optimal_delta(loss, found) <= Fraction(1, 10**6) < optimal_delta(loss, found * (1 - Fraction(1, 10**9)))


def test_the_formulas_round_up_from_60_digits() -> None:
    source = random.Random(9)
    for _ in range(50):
        e = Fraction(source.randint(1, 10**6), 10 ** source.randint(5, 12))
        k = source.randint(1, 10**6)
        slack = Fraction(1, 10 ** source.randint(1, 20))
        x, d = real(e), real(slack)
        drv = x * mp.sqrt(2 * k * mp.log(1 / d)) + k * x * mp.expm1(x)
        kov = k * x * mp.tanh(x / 2) + mp.sqrt(2 * mp.log(1 / d) * k * x * x)
        assert holds_above(advanced(PrivacyLoss(e), k, slack).epsilon, drv, 1e-25)
        assert holds_above(sharper([(PrivacyLoss(e), k)], slack).epsilon, kov, 1e-25)


def test_the_best_bound_is_no_larger_than_any() -> None:
    tiny = PrivacyLoss(Fraction(1, 7), Fraction(1, 10**9))
    odd = [(tiny, 20), (PrivacyLoss(Fraction(3, 10**9 + 7)), 5)]  # no coarse common unit: no optimum
    assert best(odd, 1e-6).epsilon <= sharper(odd, Fraction(1, 10**6) - Fraction(20, 10**9)).epsilon
    assert best([(tiny, 3)], Fraction(3, 10**9)).epsilon <= basic([(tiny, 3)]).epsilon
    with pytest.raises(BadParameter, match="unit"):
        optimal(odd, 1e-6)
    assert best([], 1e-6).epsilon == 0


def test_log_factorials_contain_the_value() -> None:
    for number in (0, 1, 10, 2999, 3000, 3001, 10**6, 10**10):
        found = log_factorial(number, 40)
        assert mp.mpf(str(found.low)) <= mp.loggamma(number + 1) <= mp.mpf(str(found.high))


def test_deltas_that_cannot_be_met_are_refused() -> None:
    loss = [(PrivacyLoss(Fraction(1), Fraction(1, 100)), 5)]
    for compose in (optimal, best):
        with pytest.raises(BadParameter, match="delta"):
            compose(loss, 1e-6)
        with pytest.raises(BadParameter):
            compose(loss, 2)
    with pytest.raises(BadParameter):
        optimal_delta(loss, -1)
    with pytest.raises(BadParameter):
        basic([(PrivacyLoss(Fraction(1)), 0)])
    with pytest.raises(BadParameter):
        advanced(PrivacyLoss(Fraction(1)), 3, 0)
