"""Privacy loss of Gaussian noise on several integer vectors: the exact curve of real noise plus the effect of integers.

Decisions use enclosures; floats only guide the search. Proof: proofs/gaussian_curve.md
"""

from collections.abc import Callable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal
from fractions import Fraction
from math import inf, log, pi

from sfumato.accounting.conversion import least_epsilon
from sfumato.accounting.normal import gaussian_delta
from sfumato.caches import remembered
from sfumato.certified import enclosure
from sfumato.certified.enclosure import Enclosure, enclose, float_above, refine, upper

NoisyVector = tuple[int, Fraction]
"""The squared L2 norm by which an integer vector moves, and the variance of the noise on each of its entries."""

_TWELVE_DIGITS_UP = Context(prec=12, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
_SEARCH_STOP_EXCESS = 1e-6
"""Relative excess over the least value at which a search ends."""
_MAX_STEPS = 60
_MAX_EPSILON = 300


def epsilon_of(vectors: Sequence[NoisyVector], delta: Fraction) -> Fraction:
    """Return an epsilon, of 12 digits, such that releasing all these vectors is (epsilon, delta)-DP.

    >>> print(float(epsilon_of([(1, Fraction(10000))], Fraction(1, 10**6))))
    0.0336...
    """
    return _epsilon_of(tuple(vectors), delta)


@remembered(1024)
def _epsilon_of(vectors: tuple[NoisyVector, ...], delta: Fraction) -> Fraction:
    rho = sum((Fraction(moved) / (2 * variance) for moved, variance in vectors), Fraction(0))
    slope = float_above(rho)
    known = round_up_12_digits(Fraction(least_epsilon(lambda order: order * rho, lambda order: order * slope, delta)))
    if not known or known > _MAX_EPSILON:
        return known

    def _excess(at: float) -> float:
        return _log_ratio(vectors, Fraction(at), delta)

    root = _falling_root(_excess, float_above(known) / 4, float_above(known))
    return known if root is None else min(known, round_up_12_digits(Fraction(root)))


def least_common_factor(vectors: Sequence[NoisyVector], epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the least factor, of 12 digits, that leaves all these variances (epsilon, delta)-DP together; at most 1.

    The variances themselves suffice by zCDP. Where they are small the curve gives no bound, and the factor is 1.
    """
    return _shrunk(tuple(vectors), epsilon, delta)


@remembered(1024)
def _shrunk(vectors: tuple[NoisyVector, ...], epsilon: Fraction, delta: Fraction) -> Fraction:
    if epsilon > _MAX_EPSILON:
        return Fraction(1)

    def _excess(at: float) -> float:
        factor = round_up_12_digits(Fraction(at))
        return _log_ratio(tuple((moved, factor * variance) for moved, variance in vectors), epsilon, delta)

    if _excess(1.0) > 0:
        return Fraction(1)
    found = _falling_root(_excess, 0.7, 1.0)
    return Fraction(1) if found is None else min(Fraction(1), round_up_12_digits(Fraction(found)))


def suffices(vectors: Sequence[NoisyVector], epsilon: Fraction, delta: Fraction) -> bool:
    """Tell whether releasing all these vectors is certain to be (epsilon, delta)-DP by the curve."""
    return _log_ratio(tuple(vectors), epsilon, delta) <= 0


def _log_ratio(vectors: tuple[NoisyVector, ...], epsilon: Fraction, delta: Fraction) -> float:
    """Return about ln(δ(ε)/δ), whose sign is certain: at most 0 only if the enclosed bound of δ(ε) is at most δ."""
    smoothing = _smoothing(vectors, epsilon)
    if smoothing is None:
        return inf

    def _delta(digits: int) -> Enclosure:
        mu_squared, eta = smoothing(digits)
        left = epsilon - 2 * eta
        if left <= 0:
            return enclose(1, digits)
        return enclose(eta, digits).exp() * gaussian_delta(left, mu_squared, digits)

    bound = upper(refine(_delta))
    if bound <= delta:
        return -1e-12 if bound == delta else min(-1e-12, _log_of_fraction(Fraction(bound)) - _log_of_fraction(delta))
    return max(1e-12, _log_of_fraction(Fraction(bound)) - _log_of_fraction(delta))


def _smoothing(
    vectors: tuple[NoisyVector, ...], epsilon: Fraction
) -> Callable[[int], tuple[Fraction, Fraction]] | None:
    """Return what real noise stands for the integer noise: μ² and η, both rounded up; None where variances are small.

    A part r² of each variance makes real noise integer, at the price of η. Floats choose r², η is enclosed.
    """
    parts: list[tuple[int, Fraction, Fraction]] = []
    for moved, variance in vectors:
        cells = log(moved) + log(len(vectors))
        # r² + 4·variance·η/ε is least near η = ε/(8π²·variance)
        room = log(4.0) + cells + log(8 * pi * pi) + _log_of_fraction(variance) - _log_of_fraction(epsilon)
        smooth = Fraction(f"{max(room, 1.0) / (2 * pi * pi):.6g}")
        if 2 * smooth > variance:
            return None
        parts.append((moved, variance, smooth))

    def _at(digits: int) -> tuple[Fraction, Fraction]:
        mu_squared = sum((moved / (variance - smooth) for moved, variance, smooth in parts), Fraction(0))
        eta = Fraction(0)
        for moved, _, smooth in parts:
            q = (-(enclosure.pi(digits) * enclosure.pi(digits) * (2 * smooth))).exp()
            ripple = q * 2 / (-(q * q * q) + 1)
            eta += Fraction(upper(((ripple + 1) / (-ripple + 1)).ln() * moved))
        return mu_squared, eta

    return _at


def _falling_root(excess: Callable[[float], float], low: float, high: float) -> float | None:
    """Return a number at which `excess` is at most 0, nearly the least: by chords of a falling curve [Illinois]."""
    for _ in range(_MAX_STEPS):
        above = excess(high)
        if above <= 0:
            break
        low, high = high, high * 4
        if high > 1e200:
            return None
    else:
        return None
    below = excess(low)
    for _ in range(_MAX_STEPS):
        if below > 0:
            break
        low, high, above = low / 4, low, below
        if low < 1e-200:
            return high
        below = excess(low)
    side = 0
    for _ in range(_MAX_STEPS):
        if high - low <= _SEARCH_STOP_EXCESS * high:
            break
        chord = low + (high - low) * (below / (below - above)) if below < inf else (low * high) ** 0.5
        place = min(max(chord, low + (high - low) / 1000), high - (high - low) / 1000)
        if (found := excess(place)) <= 0:
            high, above, below, side = place, found, below / 2 if side < 0 else below, -1
        else:
            low, below, above, side = place, found, above / 2 if side > 0 else above, 1
    return high


def _log_of_fraction(value: Fraction) -> float:
    return log(value.numerator) - log(value.denominator)


def round_up_12_digits(value: Fraction) -> Fraction:
    """Round up to 12 digits: an excess below 1e-11."""
    return Fraction(_TWELVE_DIGITS_UP.divide(Decimal(value.numerator), Decimal(value.denominator)))
