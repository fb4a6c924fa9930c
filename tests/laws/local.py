"""The local mechanisms with their exact laws: a person's true answer against what is reported."""

from fractions import Fraction
from itertools import permutations
from typing import Any

from mpmath import mp, mpf
from tests.laws.case import Case
from tests.laws.divergence import real

from sfumato.mechanisms.k_ary_response import KAryResponse
from sfumato.mechanisms.randomized_response import Warner


def warner(truth: Fraction) -> Case:
    """One person, true bit (b,): the report is b with probability truth + (1 - truth) / 2."""
    mechanism = Warner(truth)

    def law(bits: tuple[int, ...]) -> dict[Any, Any]:
        with mp.workdps(60):
            return {report: real(truth * (report == bits[0]) + (1 - truth) / 2) for report in (0, 1)}

    return Case(f"Warner({truth})", mechanism, (((0,), (1,)),), law, mechanism.epsilon)


def k_ary(epsilon: Fraction, categories: int) -> Case:
    """One person, true category (v,): kept with probability e^ε / (e^ε + k - 1), else uniform among the others."""
    mechanism = KAryResponse(epsilon, categories)

    def law(values: tuple[int, ...]) -> dict[Any, Any]:
        with mp.workdps(60):
            grown = mp.exp(real(epsilon))
            keep = grown / (grown + categories - 1)
            others = (mpf(1) - keep) / (categories - 1)
            return {report: keep if report == values[0] else others for report in range(categories)}

    pairs = tuple(((one,), (other,)) for one, other in permutations(range(categories), 2))
    return Case(f"KAryResponse({epsilon}, {categories})", mechanism, pairs, law, epsilon)


CASES: tuple[Case, ...] = (
    warner(Fraction(1, 2)),
    warner(Fraction(1, 1000)),
    warner(Fraction(99, 100)),
    warner(Warner.by_epsilon(Fraction(1, 10)).truth),
    warner(Warner.by_epsilon(Fraction(1, 3)).truth),
    k_ary(Fraction(1), 2),
    k_ary(Fraction(1, 10), 3),
    k_ary(Fraction(3), 5),
)
