"""Calibrate noise to a target: every result is rounded to the safe side.

Proof: proofs/calibrate.md
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import ceil, exp, floor, inf, log, pi, sinh, sqrt

from sfumato.accounting.approximate import separate
from sfumato.accounting.event import Event, GaussianNoise, LaplaceNoise, Neighbours, Repeated, as_neighbours
from sfumato.accounting.filter import RENYI_UNITS, Filter, rounded_loss
from sfumato.accounting.gaussian_curve import round_up_12_digits
from sfumato.accounting.normal import gaussian_delta
from sfumato.accounting.pure import epsilon_or_infinity
from sfumato.certified.enclosure import enclose, float_above, refine
from sfumato.errors import BadParameter, BudgetExhausted
from sfumato.exact import decimal_rational, integer, positive, positive_rational, probability

# bisections stop here: an excess of 2e-11, less than the rounding to 12 digits allows
_BISECTION_STOP_RATIO = 1 + 2.0**-36


def laplace_scale(epsilon: object, sensitivity: object) -> Fraction:
    """Return the scale at which Laplace noise is epsilon-DP: sensitivity / epsilon, exact.

    >>> laplace_scale("0.1", 3)
    Fraction(30, 1)
    """
    return positive_rational(sensitivity, "sensitivity") / positive(decimal_rational(epsilon, "epsilon"), "epsilon")


def gaussian_sigma_squared(epsilon: object, delta: object, sensitivity_squared: object) -> Fraction:
    """Return the least variance at which real Gaussian noise is (epsilon, delta)-DP, rounded up by less than 1e-9.

    The exact curve [BW18, Thm 8] is enclosed, so the returned variance is certain to suffice.

    >>> round(float(gaussian_sigma_squared(1, 1e-6, 1)) ** 0.5, 9)
    4.224678889
    """
    target = positive(decimal_rational(epsilon, "epsilon"), "epsilon")
    allowed = probability(delta, "delta")
    moved = positive_rational(sensitivity_squared, "sensitivity_squared")

    def _suffices(variance: Fraction) -> bool:
        found = refine(lambda digits: gaussian_delta(target, 1 / variance, digits))
        return found.high <= enclose(allowed, 40).low

    return round_up_12_digits(moved * _least_sufficient(_suffices))


def integer_gaussian_sigma_squared(epsilon: object, delta: object, sensitivity_squared: int) -> Fraction:
    """Return a variance at which both real and integer Gaussian noise are certain to be (epsilon, delta)-DP.

    The real answer is tried first; where integer noise costs more, the variance grows until the PLD accountant's
    upper bound of the integer law's delta fits.
    """
    from sfumato.accounting.pld import delta_at_most  # a second of imports that no question needs

    target = positive(decimal_rational(epsilon, "epsilon"), "epsilon")
    allowed = probability(delta, "delta")
    moved = integer(sensitivity_squared, "sensitivity_squared", 1)
    start = gaussian_sigma_squared(target, allowed, moved)

    steepness = _steepness(target, start / moved)
    variance, haste = start, 1.001
    while variance <= 128 * start:
        found = delta_at_most(GaussianNoise(moved, variance, Neighbours.ADD_REMOVE), target)
        if Fraction(found) <= allowed:
            return variance
        # Newton's step for ln delta as a function of ln variance: integer noise falls nearly as real noise does
        missing = log(found) - log(allowed.numerator) + log(allowed.denominator)
        variance = round_up_12_digits(
            variance * Fraction(1 + max(_BISECTION_STOP_RATIO - 1, min(1.0, haste * missing / steepness)))
        )
        haste *= 1.3  # whatever the curve does, this ends
    raise BadParameter(
        f"No variance below {float(start * 128):g} is certified at epsilon = {target}, delta = {allowed}.",
        "The bounds of the integer law do not reach a delta this small.",
        "Use Laplace noise, or a larger delta.",
    )


def _steepness(epsilon: Fraction, variance: Fraction) -> float:
    """Return about -d ln delta / d ln variance of real Gaussian noise of sensitivity 1."""
    step = Fraction(1, 1000)
    at = [refine(partial(gaussian_delta, epsilon, 1 / v)) for v in (variance, variance * (1 + step))]
    fall = (at[0] / at[1]).ln() / step
    return max(float(fall.low), 1e-3) if fall.low.is_finite() else 1.0


def laplace_scale_for(budget: Filter, queries: int, sensitivity: int) -> Fraction:
    """Return the smallest Laplace scale, rounded up, at which `queries` further equal releases fit into the budget."""
    count = integer(queries, "queries", 1)
    moved = integer(sensitivity, "sensitivity", 1)
    scales = []
    if budget.pure is not None and budget.pure < budget.epsilon:
        scales.append(count * moved / (budget.epsilon - budget.pure))
    if budget.order is not None and (share := _renyi_share(budget, count)) > 0:
        order = budget.order

        def _suffices(scale: Fraction) -> bool:
            return rounded_loss(LaplaceNoise(moved, scale, Neighbours.ADD_REMOVE), order) <= share

        scales.append(round_up_12_digits(_least_sufficient(_suffices)))
    return _cheapest(scales, budget)


def gaussian_sigma_squared_for(budget: Filter, queries: int, sensitivity_squared: int) -> Fraction:
    """Return the least variance, exact, at which `queries` further equal Gaussian releases fit into the budget."""
    count = integer(queries, "queries", 1)
    moved = integer(sensitivity_squared, "sensitivity_squared", 1)
    if budget.order is None or (share := _renyi_share(budget, count)) <= 0:
        return _cheapest([], budget)
    return Fraction(budget.order * moved * RENYI_UNITS, 2 * share)  # ⌈αΔ²·2^64/(2σ²)⌉ ≤ share, and share is an integer


def most_queries(budget: Filter, event: Event) -> int:
    """Return how many further releases of `event` the budget admits."""
    core, delta = separate(event)
    budget.accepts(event)  # refuses what has no theorem, or another neighbour relation
    epsilon, loss = epsilon_or_infinity(core), rounded_loss(core, budget.order or 2)
    if epsilon == 0 == delta:
        raise BadParameter("This event costs nothing.", "It fits any number of times.", "Give an event with a loss.")
    times = 0
    if budget.pure is not None and epsilon < inf:
        times = floor((budget.epsilon - budget.pure) / Fraction(epsilon)) if epsilon else _UNLIMITED_COUNT
    if budget.capacity is not None and loss < inf:
        times = max(times, (budget.capacity - budget.renyi) // int(loss) if loss else _UNLIMITED_COUNT)
    by_delta = floor((budget.for_approximate - budget.approximate) / delta) if delta else _UNLIMITED_COUNT
    return max(0, min(times, by_delta))


@dataclass(frozen=True, slots=True)
class Choice:
    """The event to release with, and the expected absolute error of one of its cells."""

    event: Event
    expected_error: float


def better_noise(
    budget: Filter, epsilon: object, cells: int, per_cell: int, neighbours: Neighbours
) -> tuple[Choice, Choice]:
    """Return Laplace and Gaussian noise of equal charge for an epsilon, the smaller expected error first.

    One unit moves at most `cells` cells by at most `per_cell` each, all up or all down; under "replace" it may leave
    as many cells and enter as many others. (Where one unit may add in one database and subtract in the other, as in
    sums of both signs, a cell moves by up to twice `per_cell`: take the norms of sensitivity.norms.cells instead.)
    The Gaussian is charged what the Laplace event costs at the budget's order. Without an order, or when the budget
    has no room for it, only Laplace noise is possible, and it is returned twice.
    """
    target = positive(decimal_rational(epsilon, "epsilon"), "epsilon")
    relation = as_neighbours(neighbours)
    touched = integer(cells, "cells", 1) * (2 if relation is Neighbours.REPLACE else 1)
    moved = integer(per_cell, "per_cell", 1)
    scale = touched * moved / target
    noise: Event = LaplaceNoise(moved, scale, relation)
    laplace = Choice(Repeated(noise, touched) if touched > 1 else noise, laplace_error(scale))
    if budget.order is None or (budget.capacity or 0) <= 0:
        return laplace, laplace
    loss = rounded_loss(laplace.event, budget.order)
    variance = Fraction(budget.order * touched * moved * moved * RENYI_UNITS, 2 * int(loss))
    gaussian = Choice(GaussianNoise(touched * moved * moved, variance, relation), gaussian_error(variance))
    first, second = sorted((laplace, gaussian), key=lambda choice: choice.expected_error)
    return first, second


def laplace_error(scale: Fraction) -> float:
    """Return E|Z| = 1/sinh(1/scale) of integer Laplace noise."""
    inverse = float_above(1 / scale)
    return 1 / sinh(inverse) if inverse < 700 else 2 * exp(-inverse)


def gaussian_error(sigma_squared: Fraction) -> float:
    """Return E|Z| of integer Gaussian noise; for a deviation above 10 by Euler and Maclaurin, to ten digits."""
    variance = float_above(sigma_squared)
    if variance > 100:
        return sqrt(2 * variance / pi) * (1 - 1 / (12 * variance) - 1 / (240 * variance * variance))
    if variance < 1e-3:
        return 2 * exp(-1 / (2 * variance))
    weights = [exp(-z * z / (2 * variance)) for z in range(1, ceil(40 * sqrt(variance)) + 2)]
    return 2 * sum(z * weight for z, weight in enumerate(weights, 1)) / (1 + 2 * sum(weights))


_UNLIMITED_COUNT = 1 << 128


def _least_sufficient(suffices: Callable[[Fraction], bool]) -> Fraction:
    """Return the least number that suffices, up to a relative excess of 2e-11, by doubling and bisection."""
    high = 1.0
    while not suffices(Fraction(high)):
        high *= 16.0
        if high > 1e300:
            raise BadParameter("No amount of noise suffices.", "The target is too small.", "Ask for a larger target.")
    low = high / 16
    while low > 1e-300 and suffices(Fraction(low)):
        low, high = low / 16, low
    while high > low * _BISECTION_STOP_RATIO:
        middle = sqrt(low) * sqrt(high)
        if suffices(Fraction(middle)):
            high = middle
        else:
            low = middle
    return Fraction(high)


def _renyi_share(budget: Filter, count: int) -> int:
    return ((budget.capacity or 0) - budget.renyi) // count


def _cheapest(candidates: list[Fraction], budget: Filter) -> Fraction:
    if candidates:
        return min(candidates)
    raise BudgetExhausted(
        f"The budget of {budget.total} has no room for this kind of noise.",
        "Its delta is 0, or the loss it allows is used up.",
        "Use Laplace noise, or ask the owner to raise the budget.",
    )
