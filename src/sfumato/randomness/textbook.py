"""The textbook's integer Laplace noise, coin by coin: the readable reference that the fast sampler is tested against.

Wait for the first success of a coin with P = 1 - e^(-1/scale); toss one coin for zero and one for the sign. It waits
about `scale` coins, and how long it waits is the noise: it is not for answering questions.
Proof: proofs/discrete_laplace.md
"""

from collections.abc import Callable
from dataclasses import dataclass

from sfumato.randomness.bernoulli import Probability, refine
from sfumato.randomness.source import Source

Coin = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class LaplaceCoins:
    """The three coins: success with 1 - x, zero with (1 - x) / (1 + x), and a fair sign."""

    success: Coin
    zero: Coin
    negative: Coin


def laplace_by_coins(coins: LaplaceCoins) -> int:
    """Draw P[Z = z] = (1 - x) / (1 + x) · x^|z|."""
    waited = 1
    while not coins.success():
        waited += 1
    zero, negative = coins.zero(), coins.negative()
    if zero:
        return 0
    return -waited if negative else waited


def coin(probability: Probability, source: Source) -> Coin:
    """Return a coin with any computable probability."""
    return lambda: refine(probability, 0, 0, source)
