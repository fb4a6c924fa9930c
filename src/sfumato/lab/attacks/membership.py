"""Guess one bit from one noisy count with the whole budget behind it: the guarantee is tight, and this attains it.

Of the answer b + Z the attacker says "one" when it is at least 1. His advantage is P[Z >= 0] - P[Z >= 1] = P[Z = 0],
and for integer Laplace noise of scale 1/ε that is (e^ε - 1) / (e^ε + 1): the bound itself. No attacker does better.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.accounting.event import Neighbours
from sfumato.accounting.loss import PrivacyLoss
from sfumato.lab.attacks.bounds import advantage, sampling_margin
from sfumato.lab.generators.seeded import coins
from sfumato.mechanisms.laplace import Laplace
from sfumato.randomness.source import Source


@dataclass(frozen=True, slots=True)
class Membership:
    """How much more often "one" was said of a one than of a zero."""

    loss: PrivacyLoss
    trials: int
    measured: float
    margin: float
    """How far the measurement may be off, at 95 %."""

    @property
    def bound(self) -> float:
        """Upper bound from the guarantee."""
        return advantage(self.loss)

    def report(self) -> str:
        """Return the result in one line."""
        return (
            f"one question, all of {self.loss} behind it, {self.trials:,} times: advantage {self.measured:.3f} "
            f"± {self.margin:.3f}, bound {self.bound:.3f}"
        )


def run(epsilon: Fraction, trials: int, source: Source) -> Membership:
    """Ask about one person at a time, each time with a fresh budget."""
    secret = coins(trials, source)
    noise = Laplace(1, 1 / epsilon, Neighbours.REPLACE)
    guesses = noise.release(secret.astype(np.int64), source) >= 1
    measured = float(guesses[secret].mean() - guesses[~secret].mean())
    ones = int(secret.sum())
    return Membership(PrivacyLoss(epsilon), trials, measured, sampling_margin(ones, trials - ones))
