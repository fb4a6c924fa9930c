"""Any finite law given by its weights, exact or real, drawn exactly as an array. Proof: proofs/guide.md."""

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import lcm

import numpy as np
import numpy.typing as npt

from sfumato.errors import BadParameter, quote_value
from sfumato.exact import rational
from sfumato.randomness.bernoulli import Probability
from sfumato.randomness.guide import DrawTail, build_guide
from sfumato.randomness.source import Source, read_exactly, sample_size

Weight = Fraction | Probability
_MAX_PRECISION_BITS = 1 << 16
_MAX_OUTCOMES = 1 << 20


@dataclass(frozen=True, slots=True)
class Finite:
    """P[K = k] = weights[k] / (sum of the weights) for k = 0, 1, …; a weight is a fraction or a computable real.

    Theorem: `draw` has exactly this law, for weights that are fractions of at least 0 or reals in [0, 1] known by
    `bounds`, not all of them 0.  Proof: proofs/guide.md

    >>> Finite((Fraction(1), Fraction(2))).cumulative(4)
    ((5, 16), (6, 16))
    """

    weights: tuple[Weight, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.weights, tuple | list) or not 0 < len(self.weights) <= _MAX_OUTCOMES:
            raise BadParameter(
                f"weights = {quote_value(self.weights)} is not a tuple of weights.",
                f"A finite law has 1 to {_MAX_OUTCOMES} outcomes.",
                "Give one weight for each outcome.",
            )
        read = tuple(weight if _is_real(weight) else _fraction(weight) for weight in self.weights)
        object.__setattr__(self, "weights", read)
        self._enclose_cumulative(1)

    def draw(self, count: int, source: Source) -> npt.NDArray[np.int64]:
        """Draw `count` independent outcomes."""
        words = np.frombuffer(read_exactly(source, 2 * sample_size(count)), dtype="<u2")
        return build_guide(self).outcomes(words, source)

    def cumulative(self, bits: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Enclose P[K <= k] * 2**bits for each k."""
        low, high = self._enclose_cumulative(bits)
        return (
            (*((part << bits) // high[-1] for part in low[:-1]), 1 << bits),
            (*(min(-((-part << bits) // low[-1]), 1 << bits) for part in high[:-1]), 1 << bits),
        )

    @property
    def tail(self) -> DrawTail | None:
        """There is none."""
        return None

    def _enclose_cumulative(self, bits: int) -> tuple[list[int], list[int]]:
        """Enclose the cumulative weights, precise enough that the total has `bits` digits and guard digits."""
        # fractions become integers, whose sums have no error: a seam at a dyadic number is then exactly there
        common = lcm(*(weight.denominator for weight in self.weights if isinstance(weight, Fraction)))
        wanted = bits + len(self.weights).bit_length() + 8
        precision = wanted
        while precision <= _MAX_PRECISION_BITS + wanted:
            pairs = [_weight_bounds(weight, common, precision) for weight in self.weights]
            low, high = (list(accumulate(ends)) for ends in zip(*pairs, strict=True))
            if low[-1].bit_length() >= wanted:
                return low, high
            precision *= 2
        raise BadParameter(
            "The weights sum to nothing that can be seen.",
            f"In {_MAX_PRECISION_BITS} binary digits they are all 0, and a law needs a weight above 0.",
            "Give weights that are not all 0; only their ratios matter.",
        )


def _is_real(weight: object) -> bool:
    return hasattr(weight, "bounds") and isinstance(weight, Hashable)  # the table is prepared once for equal laws


def _fraction(weight: object) -> Fraction:
    number = rational(weight, "weight")
    if number >= 0:
        return number
    raise BadParameter(
        f"weight = {quote_value(number)} is negative.", "A weight cannot be negative.", "Give 0 or more."
    )


def _weight_bounds(weight: Weight, common: int, bits: int) -> tuple[int, int]:
    """Enclose common * weight * 2**bits."""
    if isinstance(weight, Fraction):
        whole = weight.numerator * (common // weight.denominator) << bits
        return whole, whole
    low, high = weight.bounds(bits)
    return common * max(low, 0), common * high
