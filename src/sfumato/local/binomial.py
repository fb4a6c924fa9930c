"""Bounds on the mean chance of independent coins that need not be alike, from how many fell on 1.

The tails of such a sum lie below the binomial's with the same mean, one step away from it [Hoeffding 1956], so
Clopper–Pearson's ends hold for it, once they are moved past that step. Proof: proofs/local_prefixes.md §2
"""

import numpy as np
from scipy.special import betaincinv

from sfumato.local.reading import Integers, Reals

_TAIL_ERROR_SHARE = 1e-6


def mean_chance(ones: Integers, coins: int, error: float) -> Reals:
    """Return rows (low, high) that hold the mean chance with probability at least 1 - error, each on its own."""
    seen, tail = np.asarray(ones, dtype=np.float64), error / 2 * (1 - _TAIL_ERROR_SHARE)
    low = np.where(seen > 0, betaincinv(np.maximum(seen, 1), coins - seen + 1, tail), 0.0)
    high = np.where(seen < coins, betaincinv(seen + 1, np.maximum(coins - seen, 1), 1 - tail), 1.0)
    low, high = np.minimum(low, (seen - 1) / coins), np.maximum(high, (seen + 1) / coins)
    return np.clip(np.column_stack([low * (1 - 1e-12), high * (1 + 1e-12)]), 0.0, 1.0)
