"""From Rényi losses to (epsilon, delta): one formula, and the order that makes it smallest."""

from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor, inf, log, log1p

from sfumato.accounting.enclosure import Enclosure, enclose, float_above, refine, upper

_GOLDEN = (5**0.5 - 1) / 2
_STEPS = 28
_LEAST, _MOST = -10, 60  # the exponents of 2 between which order - 1 is sought
_NO_GAIN = 1e-13

Loss = Callable[[Fraction], Fraction | float]
"""A Rényi loss as a function of its order."""


def epsilon_at(order: Fraction, loss: Fraction | float, delta: Fraction) -> Fraction | float:
    """Return an epsilon, rounded up, such that D_order ≤ loss implies (epsilon, delta)-DP.

    ε = D + ln(1 - 1/α) - ln(αδ)/(α - 1) [BBGHS20, CKS20 Prop. 12]; a negative value means 0. Proof: proofs/rdp.md.
    """
    if loss == inf:
        return inf
    above = order - 1

    def _excess(digits: int) -> Enclosure:
        return enclose(Fraction(loss), digits) + (
            enclose(above / order, digits).ln() - enclose(order * delta, digits).ln() / above
        )

    return max(Fraction(0), upper(refine(_excess)))


def least_epsilon(loss: Loss, estimate: Callable[[float], float], delta: Fraction, *, lattice: bool = False) -> float:
    """Return the least epsilon that some order gives, as a float rounded up.

    Any order is valid, so the search may go by an estimate of the loss; only the certified value at the order it ends
    with is returned. It finds the minimum because the quotient is quasi-convex in the order: proofs/rdp.md, Lemma 4.
    """
    log_delta = log(delta.numerator) - log(delta.denominator)

    def _estimate(exponent: float) -> float:
        above = float(_order(exponent) - 1)
        bound = estimate(1 + above)
        return bound - log1p(1 / above) - (log1p(above) + log_delta) / above if bound < inf else inf

    order = _order(_narrowed(_estimate, _walked(_estimate)))
    near = {order}
    if lattice:  # losses that are exact at integer orders only have their minimum at one of them
        near |= {Fraction(max(2, floor(order))), Fraction(max(2, ceil(order)))}
    return float_above(min(epsilon_at(alpha, loss(alpha), delta) for alpha in near))


def _order(exponent: float) -> Fraction:
    return 1 + Fraction(f"{2.0**exponent:.8g}")


def _walked(estimate: Callable[[float], float]) -> int:
    """Walk from 2^4 by factors of two while the estimate falls."""
    best, value = 4, estimate(4)
    for step in (1, -1):
        while _LEAST < best + step < _MOST:
            following = estimate(best + step)
            if not following < value - _NO_GAIN * abs(value):
                break
            best, value = best + step, following
    return best


def _narrowed(estimate: Callable[[float], float], middle: int) -> float:
    """Golden-section search within a factor of two on either side."""
    low, high = middle - 1.0, middle + 1.0
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = estimate(left), estimate(right)
    for _ in range(_STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = estimate(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = estimate(right)
    return min((left, at_left), (right, at_right), (float(middle), estimate(middle)), key=lambda pair: pair[1])[0]
