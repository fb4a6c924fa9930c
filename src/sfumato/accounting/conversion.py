"""From Rényi losses to (epsilon, delta): one formula, and the order that makes it smallest."""

from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor, inf, log, log1p

from sfumato.certified.enclosure import Enclosure, enclose, float_above, refine, upper

_GOLDEN_RATIO = (5**0.5 - 1) / 2
_SEARCH_STEPS = 28
_MIN_ORDER_EXPONENT, _MAX_ORDER_EXPONENT = -10, 60  # the exponents of 2 between which order - 1 is sought
_MIN_RELATIVE_GAIN = 1e-13

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


def delta_at(order: Fraction, loss: Fraction | float, epsilon: Fraction) -> Fraction | float:
    """Return a delta, rounded up, such that D_order ≤ loss implies (epsilon, delta)-DP: `epsilon_at`, solved for delta.

    δ = e^((α - 1)(D - ε)) (1/α)(1 - 1/α)^(α - 1). Proof: proofs/rdp.md, Lemma 4.
    """
    if loss == inf:
        return Fraction(1)
    above = order - 1

    def _mass(digits: int) -> Enclosure:
        exponent = enclose(above * (Fraction(loss) - epsilon), digits) + enclose(above / order, digits).ln() * above
        return exponent.exp() / order

    return min(Fraction(1), upper(refine(_mass)))


def least_epsilon(loss: Loss, estimate: Callable[[float], float], delta: Fraction, *, lattice: bool = False) -> float:
    """Return the least epsilon that some order gives, as a float rounded up.

    Any order is valid, so the search may go by an estimate of the loss; only the certified value at the order it ends
    with is returned. It finds the minimum because the quotient is quasi-convex in the order: proofs/rdp.md, Lemma 4.
    """
    log_delta = log(delta.numerator) - log(delta.denominator)

    def _estimate(exponent: float) -> float:
        above = float(_order_of_exponent(exponent) - 1)
        bound = estimate(1 + above)
        return bound - log1p(1 / above) - (log1p(above) + log_delta) / above if bound < inf else inf

    return float_above(min(epsilon_at(alpha, loss(alpha), delta) for alpha in _orders(_estimate, lattice)))


def least_delta(loss: Loss, estimate: Callable[[float], float], epsilon: Fraction, *, lattice: bool = False) -> float:
    """Return the least delta that some order gives, as a float rounded up; the search goes as for `least_epsilon`."""
    target = float_above(epsilon)

    def _estimate(exponent: float) -> float:
        above = float(_order_of_exponent(exponent) - 1)
        bound = estimate(1 + above)
        return above * (bound - target - log1p(1 / above)) - log1p(above) if bound < inf else inf

    return float_above(min(delta_at(alpha, loss(alpha), epsilon) for alpha in _orders(_estimate, lattice)))


def _orders(estimate: Callable[[float], float], lattice: bool) -> set[Fraction]:
    """Return the order with the least estimate, and if losses are exact at integer orders only, those beside it."""
    order = _order_of_exponent(_golden_section_search(estimate, _search_orders(estimate)))
    return {order, Fraction(max(2, floor(order))), Fraction(max(2, ceil(order)))} if lattice else {order}


def _order_of_exponent(exponent: float) -> Fraction:
    return 1 + Fraction(f"{2.0**exponent:.8g}")


def _search_orders(estimate: Callable[[float], float]) -> int:
    """Look at every power of two up to 2^16, then at every eighth: a bound that is a minimum of two has two valleys."""
    places = [*range(_MIN_ORDER_EXPONENT + 1, 17), *range(24, _MAX_ORDER_EXPONENT, 8)]
    best: int = min(places, key=lambda order: estimate(order))
    while (
        best > 16 and best + 1 < _MAX_ORDER_EXPONENT and estimate(best + 1) < estimate(best) * (1 - _MIN_RELATIVE_GAIN)
    ):
        best += 1
    while best > 17 and estimate(best - 1) < estimate(best) * (1 - _MIN_RELATIVE_GAIN):
        best -= 1
    return best


def _golden_section_search(estimate: Callable[[float], float], middle: int) -> float:
    """Golden-section search within a factor of two on either side."""
    low, high = middle - 1.0, middle + 1.0
    left, right = high - _GOLDEN_RATIO * (high - low), low + _GOLDEN_RATIO * (high - low)
    at_left, at_right = estimate(left), estimate(right)
    for _ in range(_SEARCH_STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN_RATIO * (high - low)
            at_left = estimate(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN_RATIO * (high - low)
            at_right = estimate(right)
    return min((left, at_left), (right, at_right), (float(middle), estimate(middle)), key=lambda pair: pair[1])[0]
