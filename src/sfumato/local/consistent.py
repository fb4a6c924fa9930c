"""Shares that are none below 0 and sum to 1: after the noise, free, and no longer unbiased.

Proof: proofs/consistent_shares.md
"""

from dataclasses import dataclass

import numpy as np

from sfumato.local.oracle import Oracle
from sfumato.local.reading import Reals, read_shares
from sfumato.local.tally import Tally, tally_of

_ROUNDS = 200


@dataclass(frozen=True, slots=True, eq=False)
class ConsistentShares:
    """Post-processed shares: at least 0, summing to 1. They are biased, and `by` names what was done to them."""

    shares: Reals
    by: str


def norm_sub(shares: object) -> ConsistentShares:
    """Subtract one number from all shares and set to 0 what falls below, so that they sum to 1.

    It is the nearest such list in squared distance.  [Wang et al. 2020]  Proof: proofs/consistent_shares.md

    >>> norm_sub([0.7, 0.5, -0.1]).shares.round(3).tolist()
    [0.6, 0.4, 0.0]
    """
    raw_shares = read_shares(shares)
    falling = np.sort(raw_shares)[::-1]
    # with the j greatest kept, the number subtracted is (their sum - 1)/j; the right j is the last whose share stays
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(falling) + 1)
    kept_count = int(np.flatnonzero(falling > excess)[-1])
    return ConsistentShares(np.maximum(raw_shares - excess[kept_count], 0.0), "norm-sub")


def most_likely(oracle: Oracle, tally: Tally) -> ConsistentShares:
    """Return the consistent shares under which the support counts, each taken on its own, are most likely.

    Proof: proofs/consistent_shares.md
    """
    counted, rates = tally_of(oracle, tally), oracle.rates
    false, gap = float(rates.false), float(rates.hit - rates.false)
    seen = counted.support / counted.reports

    def shares(price: float) -> Reals:
        """The share at which its likelihood grows by `price`: a root of price·p(1 - p) = gap·(seen - p)."""
        if price == 0:
            chance = seen
        else:
            middle = price + gap
            root = np.sqrt(np.maximum(middle**2 - 4 * price * gap * seen, 0.0))
            # twice the same root, each written without a difference of like numbers
            chance = 2 * gap * seen / (middle + root) if middle >= 0 else (middle - root) / (2 * price)
        return np.clip((chance - false) / gap, 0.0, 1.0)

    below, above = -1.0, 1.0
    while shares(below).sum() < 1 and below > -1e12:
        below *= 2
    while shares(above).sum() > 1 and above < 1e12:
        above *= 2
    for _ in range(_ROUNDS):
        middle = (below + above) / 2
        below, above = (middle, above) if shares(middle).sum() > 1 else (below, middle)
    found = shares((below + above) / 2)
    return ConsistentShares(found / found.sum(), "likelihood")
