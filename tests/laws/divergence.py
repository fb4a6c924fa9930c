"""How far two exact laws are apart: the smallest delta at an epsilon, in 60-digit arithmetic."""

from fractions import Fraction
from functools import lru_cache
from typing import Any

from mpmath import mp, mpf
from tests.laws.case import Case

ROUNDING = Fraction(1, 10**40)


def real(value: Fraction | int) -> Any:
    """A rational as a 60-digit number."""
    with mp.workdps(60):
        return mpf(Fraction(value).numerator) / Fraction(value).denominator


def hockey_stick(left: dict[Any, Any], right: dict[Any, Any], epsilon: Fraction) -> Any:
    """Σ max(0, P - e^ε Q): the least delta for which the pair is (epsilon, delta)-close in this direction."""
    with mp.workdps(60):
        factor = mp.exp(real(epsilon))
        return mp.fsum(max(mpf(0), mass - factor * right.get(outcome, mpf(0))) for outcome, mass in left.items())


def worst(case: Case, epsilon: Fraction) -> Any:
    """The largest divergence over all pairs of a case, both directions."""
    laws = laws_of(case)
    return max(
        hockey_stick(laws[one], laws[other], epsilon) for pair in case.pairs for one, other in (pair, pair[::-1])
    )


@lru_cache(maxsize=2)
def laws_of(case: Case) -> dict[Any, dict[Any, Any]]:
    """The law of each input, once: the laws of one case are asked for together."""
    with mp.workdps(60):
        return {value: case.law(value) for value in {value for pair in case.pairs for value in pair}}
