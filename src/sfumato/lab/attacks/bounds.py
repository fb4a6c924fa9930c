"""Upper bounds that differential privacy sets for any attacker with any side information."""

from fractions import Fraction
from math import exp, sqrt, tanh

import numpy as np
from scipy import special

from sfumato.accounting.loss import PrivacyLoss


def advantage(loss: PrivacyLoss) -> float:
    """Bound how much more often "yes" is said of a yes than of a no: (e^ε - 1 + 2δ) / (e^ε + 1).

    [Kairouz, Oh, Viswanath 2015]

    >>> round(advantage(PrivacyLoss(Fraction(1))), 4)
    0.4621
    """
    epsilon = float(loss.epsilon)
    return min(1.0, tanh(epsilon / 2) + 2 * float(loss.delta) * exp(-epsilon) / (1 + exp(-epsilon)))


def recovered_share(loss: PrivacyLoss) -> float:
    """Bound the expected share of fair secret bits that are guessed right: (e^ε + δ) / (e^ε + 1)."""
    return (1 + advantage(loss)) / 2


def most_recovered(rows: int, epsilon: Fraction, failure: float) -> int:
    """Return a number of fair secret bits that ε-DP exceeds with probability `failure` at most.

    Theorem: the number of right guesses is stochastically at most Binomial(rows, p) with p = e^ε / (e^ε + 1).
    Proof: fix an output y and with it the guess. Given y and all other bits, a bit is right with probability at most p,
    because the two databases are neighbours and were equally likely. Uncover the bits one by one: given y and the bits
    uncovered so far, the next is right with an average of such probabilities, so at most p. ∎

    >>> most_recovered(1000, Fraction(1), 1e-6)
    796
    """
    share = recovered_share(PrivacyLoss(epsilon))
    beyond = special.bdtrc(np.arange(rows), rows, share)  # P[Binomial > k]
    return int(np.argmax(beyond <= failure)) if beyond[-1] <= failure else rows


def sampling_margin(ones: int, zeros: int) -> float:
    """Return how far a measured advantage may lie from the true one, at 95 %: two shares of `trials` coins each."""
    return 1.96 * sqrt(1 / (4 * ones) + 1 / (4 * zeros))
