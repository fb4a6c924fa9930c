"""Draw normal numbers for post-processing (redrawn noise, initial weights). They give no privacy."""

from fractions import Fraction

import numpy as np

from sfumato.learn.table_metadata import Floats
from sfumato.randomness.discrete_gaussian import DiscreteGaussian
from sfumato.randomness.source import Source

_GRID_UNIT = 1 << 20


def normals(count: int, source: Source) -> Floats:
    """Return `count` standard normal numbers, on a grid of 2^-20."""
    return np.asarray(DiscreteGaussian(Fraction(_GRID_UNIT**2)).draw(count, source)).astype(np.float64) / _GRID_UNIT
