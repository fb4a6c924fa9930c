"""The bounds are the known formulas, and are attained: an attacker who may expect more would refute the guarantee."""

from fractions import Fraction
from math import comb, exp

import numpy as np
import pytest

from sfumato.accounting import pure, zcdp
from sfumato.accounting.event import Neighbours, Repeated
from sfumato.accounting.loss import PrivacyLoss
from sfumato.lab.attacks import membership
from sfumato.lab.attacks.bounds import advantage, most_recovered, recovered_share
from sfumato.lab.attacks.historical import Declined
from sfumato.lab.attacks.protected import Protected
from sfumato.lab.generators.seeded import Seeded, coins
from sfumato.mechanisms.laplace import Laplace
from sfumato.randomness.discrete_laplace import DiscreteLaplace

LOSSES = [PrivacyLoss(Fraction(e), Fraction(d)) for e in ("1/10", "1", "3", "40") for d in ("0", "1/1000000", "1/10")]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_advantage_is_the_stated_formula(loss: PrivacyLoss) -> None:
    power, delta = exp(loss.epsilon), float(loss.delta)
    assert advantage(loss) == pytest.approx(min(1, (power - 1 + 2 * delta) / (power + 1)), rel=1e-12)
    assert recovered_share(loss) == pytest.approx(min(1, (power + delta) / (power + 1)), rel=1e-12)


def test_a_huge_epsilon_overflows_nothing_and_bounds_nothing() -> None:
    assert advantage(PrivacyLoss(Fraction(10**6))) == 1


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
def test_the_most_that_is_recovered_is_the_binomial_quantile(epsilon: Fraction) -> None:
    rows, failure = 40, 1e-6
    share = Fraction(recovered_share(PrivacyLoss(epsilon)))
    law = [comb(rows, k) * share**k * (1 - share) ** (rows - k) for k in range(rows + 1)]
    beyond = [sum(law[most + 1 :]) for most in range(rows + 1)]
    assert most_recovered(rows, epsilon, failure) == next(most for most in range(rows + 1) if beyond[most] <= failure)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
def test_the_threshold_attack_attains_the_bound_exactly(epsilon: Fraction) -> None:
    bits = 200
    low, high = DiscreteLaplace(1 / epsilon).pmf(0, bits)  # its advantage is P[Z = 0]
    assert low / 2**bits - 1e-12 <= advantage(PrivacyLoss(epsilon)) <= high / 2**bits + 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_the_measured_advantage_is_the_bound_up_to_sampling(seed: int) -> None:
    found = membership.run(Fraction(1), 40_000, Seeded(seed))
    # Hoeffding on both shares, 19,000 coins each at least: fails with probability 4·exp(-2 · 19,000 · 0.021²) < 3e-7
    assert abs(found.measured - found.bound) < 0.042
    assert f"bound {found.bound:.3f}" in found.report()


def test_the_guarded_system_costs_what_it_says_and_then_stops() -> None:
    secret = coins(50, Seeded(1))
    everyone = np.ones(50, dtype=np.bool_)
    for loss in (PrivacyLoss(Fraction(1)), PrivacyLoss(Fraction(1), Fraction(1, 10**6))):
        system = Protected(secret, loss, 30, Seeded(2))
        assert system.budget.spent.epsilon <= loss.epsilon
        assert system.budget.remaining.epsilon < loss.epsilon / 1000
        assert not any(isinstance(system.answer(everyone), Declined) for _ in range(30))
        assert isinstance(system.answer(everyone), Declined)


def test_the_accountants_agree_with_the_guarded_system_on_its_price() -> None:
    secret, loss = coins(50, Seeded(1)), PrivacyLoss(Fraction(1), Fraction(1, 10**6))
    laplace = Protected(secret, PrivacyLoss(Fraction(1)), 30, Seeded(2))._mechanism
    assert laplace == Laplace(1, Fraction(30), Neighbours.REPLACE)
    assert pure.epsilon(Repeated(laplace.event, 30)) == 1
    gaussian = Protected(secret, loss, 30, Seeded(2))._mechanism
    assert zcdp.epsilon(Repeated(gaussian.event, 30), loss.delta) <= 1
