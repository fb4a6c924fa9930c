"""The curve of one event: how large delta must be at each epsilon, between two certified sides.

For a pair of laws (P, Q) the curve is g(x) = sup over sets E of P(E) - x Q(E); delta(epsilon) = g(e^epsilon). Slopes x
are given by their logarithms t. The curve is convex and decreasing. Whatever is done to a release (sampling, failure
with probability delta, parts that hold different people) is done to the curve: every event is a tree of a few curves.
`above` never lies below the truth, `below` names a set E and never promises more than E delivers.
Theorems: proofs/poisson_sampling.md, proofs/pld_grid.md
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]
Line = tuple[Floats, Floats, Floats]
"""For slopes e^t: a lower bound on P(E) - e^t Q(E) for some set E, then a lower and an upper bound on Q(E)."""

Anchors = tuple[float, float, int]
"""The least and the greatest loss, if both have probability, and into how many equal steps other losses divide it."""

MAX_LOG_RATIO = 600.0  # slopes e^t beyond this name no set below
ROUNDOFF = 2.0**-53
MIN_NORMAL_PROBABILITY = 1e-290
"""Probabilities below this count as 0, since floats there have few digits."""
SPECIAL_FUNCTION_ERROR = 2.0**-47
"""Assumed relative error of exp, expm1, log1p, and of log_ndtr relative to 1 + |log|; tests/accounting/test_grid.py."""


class PairCurve(Protocol):
    """Both sides of the curve of one pair of laws, at slopes e^t."""

    @property
    def infinite(self) -> float:
        """A lower bound on the probability under P of what Q excludes."""

    @property
    def anchors(self) -> Anchors | None:
        """Losses that a lattice should not miss: they decide how tight the bounds are, not whether they hold."""

    def above(self, t: Floats) -> Floats:
        """Return upper bounds on g(e^t)."""

    def below(self, t: Floats) -> Line:
        """Return a set's line at each slope."""


@dataclass(frozen=True, slots=True)
class Closed:
    """A symmetric pair whose curve has a formula: for t >= 0 the value, its error, Q(E) and its relative error.

    Symmetric: the loss of (Q, P) under Q has the law of the loss of (P, Q) under P.
    """

    formula: Callable[[Floats], tuple[Floats, Floats, Floats, Floats]]
    anchors: Anchors | None = None
    infinite: float = 0.0

    def above(self, t: Floats) -> Floats:
        """Return upper bounds on g(e^t)."""
        value, error, _, _ = self.formula(np.abs(t))
        return folded_above(t, value + error)

    def below(self, t: Floats) -> Line:
        """Return the line of {L > t}."""
        value, error, mass, relative = self.formula(np.abs(t))
        line = np.maximum(value - error, 0.0), mass * (1 - relative), mass * (1 + relative)
        return folded_below(t, line, value + error)


def folded_above(t: Floats, upper: Floats) -> Floats:
    """Return bounds at t from those at |t|, which for t < 0 belong to (Q, P): g(x) = 1 - x + x g'(1/x).

    Proof: proofs/pld_grid.md, step 1
    """
    negative = np.minimum(t, 0.0)
    return np.asarray((-np.expm1(negative) + np.exp(negative) * upper) * (1 + 4 * SPECIAL_FUNCTION_ERROR))


def folded_below(t: Floats, line: Line, upper: Floats) -> Line:
    """Return lines at t from those at |t|; for t < 0 the set is the complement of the one that (Q, P) named.

    `upper` bounds the line's height from above, so that P(E) = height + e^|t| Q(E) is known on both sides.
    """
    value, least, most = line
    negative = np.minimum(t, 0.0)
    height = (-np.expm1(negative) + np.exp(negative) * value) * (1 - 4 * SPECIAL_FUNCTION_ERROR)
    with np.errstate(over="ignore", invalid="ignore"):
        lift = np.exp(np.minimum(-negative, 700.0))
        outside_most = np.minimum(1.0, np.nan_to_num((upper + lift * most) * (1 + 4 * SPECIAL_FUNCTION_ERROR), nan=1.0))
        outside_least = np.maximum(
            0.0, np.nan_to_num((value + lift * least) * (1 - 4 * SPECIAL_FUNCTION_ERROR), nan=0.0)
        )
    far = t < -MAX_LOG_RATIO
    least = np.where(t < 0, np.where(far, 0.0, 1 - outside_most - ROUNDOFF), least)
    most = np.where(t < 0, np.where(far, 1.0, 1 - outside_least + ROUNDOFF), np.minimum(most, 1.0))
    return height, np.maximum(least, 0.0), np.asarray(most)


def gaussian(mu: float) -> Closed:
    """Return the curve of N(mu, 1) against N(0, 1): Φ(mu/2 - t/mu) - e^t Φ(-mu/2 - t/mu) [BW18]."""

    def formula(t: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        a, b = t / mu - mu / 2, t / mu + mu / 2
        log_q = special.log_ndtr(-b)
        p, x_q = np.exp(special.log_ndtr(-a)), np.exp(t + log_q)
        # a and b carry a rounding of 3u (|a| + |b|), and the logarithm of the tail moves by at most 1 + |a| per unit
        relative = SPECIAL_FUNCTION_ERROR * (1 + a * a + b * b)
        return p - x_q, relative * (p + x_q) + 1e-290, np.exp(log_q), relative

    return Closed(formula)


def real_laplace(epsilon: float) -> Closed:
    """Return the curve of Laplace noise on the reals: 1 - e^((t - epsilon)/2) for |t| < epsilon."""

    def formula(t: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        inside = t < epsilon
        value = np.where(inside, -np.expm1(np.minimum(0.0, (t - epsilon) / 2)), 0.0)
        mass = np.where(inside, np.exp(-(t + epsilon) / 2) / 2, 0.0)
        relative = SPECIAL_FUNCTION_ERROR * (1 + t + epsilon)
        return (
            value,
            SPECIAL_FUNCTION_ERROR * value + 4 * ROUNDOFF * (t + epsilon) * (t < epsilon * (1 + 1e-15)),
            mass,
            relative,
        )

    return Closed(formula, (-epsilon, epsilon, 1))


def integer_laplace(sensitivity: int, scale: float) -> Closed:
    """Return the curve of integer Laplace noise, one cell moved by `sensitivity`: the worst split of an L1 bound.

    Proof: proofs/pld_grid.md, step 7
    """
    shift, x = float(sensitivity), math.exp(-1 / scale)

    def formula(t: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        # E = {Z < n}: the loss at Z = j is (shift - 2j)/scale, cut off at both ends; n counts the j with a loss above t
        n = np.ceil(np.minimum((shift - scale * t) / 2, shift))
        inside = n >= 1
        n = np.maximum(n, 1.0)
        first, second = -np.expm1(-n / scale), -x * np.expm1(np.minimum(t - (shift - n) / scale, 1 / scale))
        value = np.where(inside, (first + second) / (1 + x), 0.0)
        relative = 2 * SPECIAL_FUNCTION_ERROR * (1 + t + shift / scale)
        # rounding t or n moves P(E) - e^t Q(E) by at most its relative error times e^t Q(E) <= 1/2
        error = SPECIAL_FUNCTION_ERROR * (first + np.abs(second)) + 16 * ROUNDOFF * (t + shift / scale)
        mass = np.exp(-(shift - n + 1) / scale) / (1 + x)
        edge = t < shift / scale * (1 + 1e-14)
        return np.maximum(value, 0.0), np.where(edge, error, 0.0), np.where(inside, mass, 0.0), relative

    return Closed(formula, (-shift / scale, shift / scale, sensitivity))


def pure(epsilon: float) -> Closed:
    """Return the curve of binary randomized response, which dominates every epsilon-DP release [KOV15]."""

    def formula(t: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        inside = t < epsilon
        value = -np.expm1(np.minimum(t - epsilon, 0.0)) / (1 + math.exp(-epsilon))
        mass = np.where(inside, 1 / (1 + math.exp(min(epsilon, 700.0))), 0.0)
        error = SPECIAL_FUNCTION_ERROR * value + 4 * ROUNDOFF * (t + epsilon) * (t < epsilon * (1 + 1e-15))
        return value, error, mass, np.full_like(t, SPECIAL_FUNCTION_ERROR * (1 + epsilon))

    return Closed(formula, (-epsilon, epsilon, 1))


def bounded_range(epsilon: float) -> Closed:
    """Return the largest curve of a release whose losses span epsilon: (√E - √x)²/(E - 1), E = e^epsilon.

    Proof: proofs/pld_grid.md, step 6. Only `above` is a theorem about every such release.
    """

    def formula(t: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        # (√E - √x)²/(E - 1) = (1 - e^((t - epsilon)/2))² / (1 - e^-epsilon)
        value = np.expm1(np.minimum(t - epsilon, 0.0) / 2) ** 2 / -math.expm1(-epsilon)
        error = 4 * SPECIAL_FUNCTION_ERROR * value + 16 * ROUNDOFF * (t + epsilon) * np.sqrt(value) + ROUNDOFF**2
        return value, error, np.zeros_like(t), np.zeros_like(t)

    return Closed(formula)


def zcdp_curve(rho: float) -> Closed:
    """Return rho-zCDP's curve: e^((a - 1)(a rho - t)) (1/a)(1 - 1/a)^(a - 1) for every order a > 1 [CKS20, §2.3].

    It is also at most √(rho/2), the largest distance in variation [Pinsker].
    """

    def formula(t: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        best = np.ones_like(t)
        for stretch in (0.9, 1.0, 1.1, 1.3, 1.6, 2.0, 3.0):  # any order is valid; near 1/2 + t/(2 rho) they are good
            order = np.maximum(1 + 1e-3, 1 + stretch * np.maximum(t - rho, 0.03 * math.sqrt(rho)) / (2 * rho))
            exponent = (order - 1) * (order * rho - t) - np.log(order) + (order - 1) * np.log1p(-1 / order)
            size = (order - 1) * (order * rho + t) + 4 + np.log(order)
            best = np.minimum(best, np.exp(np.minimum(exponent + SPECIAL_FUNCTION_ERROR * size, 0.0)))
        best = np.minimum(best, math.sqrt(rho / 2))  # Pinsker: the divergence of order 1 is at most rho
        return best, SPECIAL_FUNCTION_ERROR * best, np.zeros_like(t), np.zeros_like(t)

    return Closed(formula)


def atomic_curve(losses: Floats, masses: Floats, errors: Floats, anchors: Anchors | None) -> Closed:
    """Return the curve of a symmetric pair with these losses, probabilities under P and their relative errors."""
    order = np.argsort(-losses)
    descending = losses[order]
    with np.errstate(divide="ignore"):
        under_q = np.exp(np.log(masses[order]) - descending)
    p, q, p_error, q_error = (
        np.concatenate([[0.0], running_sums(values)])
        for values in (masses[order], under_q, masses[order] * errors[order], under_q * errors[order])
    )
    ascending = np.ascontiguousarray(-descending)
    sums = ROUNDOFF * (8 + 3 * math.sqrt(len(losses)))

    def formula(t: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        count = np.searchsorted(ascending, -t * (1 - 8 * ROUNDOFF))  # how many losses lie above t, in doubt one more
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            x = np.exp(t)
            x_q, x_error = np.nan_to_num(x * q[count], nan=0.0), np.nan_to_num(x * q_error[count], nan=0.0)
            relative = sums + SPECIAL_FUNCTION_ERROR / 4 * (1 + t) + np.nan_to_num(q_error[count] / q[count], nan=0.0)
        x_q = np.minimum(x_q, p[count])
        error = p_error[count] + x_error + (sums + SPECIAL_FUNCTION_ERROR / 4 * (1 + t)) * (p[count] + x_q)
        return p[count] - x_q, np.where(t > MAX_LOG_RATIO, p[count], error * 1.01), q[count], relative * 1.01

    return Closed(formula, anchors)


def running_sums(values: Floats) -> Floats:
    """Return running sums whose relative error is at most (2 √n + 2) roundoffs: of blocks, then within blocks."""
    width = max(1, math.isqrt(len(values)))
    rows = np.concatenate([values, np.zeros(-len(values) % width)]).reshape(-1, width)
    within = np.cumsum(rows, axis=1)
    before = np.concatenate([[0.0], np.cumsum(within[:-1, -1])])
    return np.asarray((within + before[:, None]).reshape(-1)[: len(values)])


@dataclass(frozen=True, slots=True)
class Scaled:
    """A curve known by a nearby one, whose P and Q are within e^(±eta) of it: proofs/pld_grid.md, step 8."""

    near: PairCurve
    eta: float
    anchors: Anchors | None = None
    infinite: float = 0.0

    def above(self, t: Floats) -> Floats:
        """Return e^eta g(e^(t - 2 eta)), folded at t = 0 because the pair is symmetric."""
        size = np.abs(t)
        upper = np.minimum(1.0, math.exp(self.eta) * self.near.above(size - 2 * self.eta - 4 * ROUNDOFF * size))
        negative = np.minimum(t, 0.0)
        return np.asarray((-np.expm1(negative) + np.exp(negative) * upper) * (1 + 4 * SPECIAL_FUNCTION_ERROR))

    def below(self, t: Floats) -> Line:
        """Return the line of the nearby pair's set."""
        value, least, most = self.near.below(t + 2 * self.eta + 4 * ROUNDOFF * np.abs(t))
        shrink, grow = (
            math.exp(-self.eta) * (1 - SPECIAL_FUNCTION_ERROR),
            math.exp(self.eta) * (1 + SPECIAL_FUNCTION_ERROR),
        )
        return value * shrink, least * shrink, most * grow


@dataclass(frozen=True, slots=True)
class Mixed:
    """(1 - rate) Q + rate P against Q, or (`backward`) Q against it: proofs/poisson_sampling.md.

    `inner` is the curve of (P, Q), or of (Q, P) if `backward`; rate < 1.
    """

    rate: float
    inner: PairCurve
    backward: bool

    @property
    def infinite(self) -> float:
        """Return what the mixture keeps of the mass that Q excludes; P's share keeps nothing impossible backwards."""
        return 0.0 if self.backward else self.rate * self.inner.infinite * (1 - 8 * ROUNDOFF)

    @property
    def anchors(self) -> Anchors | None:
        """Return where the inner event's extreme losses go."""
        if self.inner.anchors is None:
            return None
        low, high, _ = self.inner.anchors
        sign = -1.0 if self.backward else 1.0
        if max(abs(low), abs(high)) > 30:
            return None
        low, high = (sign * math.log1p(self.rate * math.expm1(sign * loss)) for loss in (low, high))
        return low, high, 1

    def above(self, t: Floats) -> Floats:
        """Return upper bounds on g(e^t)."""
        slope, doubt, factor, slack = self._backward(t) if self.backward else self._forward(t)
        upper = (factor + slack) * self.inner.above(np.nan_to_num(slope - doubt))
        # where the inner slope x' is lost to rounding, g <= 1 - x + rate x' holds forwards and g <= factor backwards
        lost = np.isnan(slope)
        y = np.expm1(np.minimum(t, 0.0)) / self.rate
        everything = -np.expm1(np.minimum(t, 0.0))
        rest = self.rate * np.maximum(1 + y - 16 * ROUNDOFF * y, 0.0)
        plain = factor + slack if self.backward else everything + rest
        return np.asarray(np.where(lost, plain, upper) * (1 + 8 * SPECIAL_FUNCTION_ERROR) + 0.0)

    def below(self, t: Floats) -> Line:
        """Return the line of the inner set, weighed by the mixture."""
        slope, doubt, factor, slack = self._backward(t) if self.backward else self._forward(t)
        value, least, most = self.inner.below(np.nan_to_num(slope + doubt))
        lost = np.isnan(slope) | (self.backward & (np.abs(slope) > MAX_LOG_RATIO))
        if not self.backward:  # Q(E) is unchanged; where the slope is lost, E is everything
            value = np.where(lost, -np.expm1(np.minimum(t, 0.0)), factor * value) * (1 - 8 * SPECIAL_FUNCTION_ERROR)
            return value, np.where(lost, 1.0, least), np.where(lost, 1.0, most)
        with np.errstate(over="ignore", invalid="ignore"):
            x = np.exp(np.minimum(slope + doubt, 700.0))
            upper = self.inner.above(np.nan_to_num(slope + doubt))
            p_most = np.minimum(1.0, (upper + x * most) * (1 + 4 * SPECIAL_FUNCTION_ERROR))
            p_least = (value + x * least) * (1 - 4 * SPECIAL_FUNCTION_ERROR)
        least = ((1 - self.rate) * p_least + self.rate * least) * (1 - 4 * SPECIAL_FUNCTION_ERROR)
        most = ((1 - self.rate) * p_most + self.rate * most) * (1 + 4 * SPECIAL_FUNCTION_ERROR)
        value = np.maximum(factor - slack, 0.0) * value * (1 - 8 * SPECIAL_FUNCTION_ERROR)
        return (
            np.where(lost, 0.0, value),
            np.where(lost, 0.0, np.maximum(least, 0.0)),
            np.where(lost, 0.0, np.minimum(most, 1.0)),
        )

    def _forward(self, t: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the inner slope ln(1 + (e^t - 1)/rate), its error, the factor rate and its error."""
        y = np.expm1(np.minimum(t, 30.0)) / self.rate
        far = t - math.log(self.rate) + np.log1p(-(1 - self.rate) * np.exp(-np.maximum(t, 30.0)))
        with np.errstate(invalid="ignore", divide="ignore"):
            slope = np.where(t > 30.0, far, np.log1p(np.where(1 + y > 2.0**-40, y, np.nan)))
            doubt = 4 * SPECIAL_FUNCTION_ERROR * np.abs(slope) + 16 * ROUNDOFF * np.where(
                t > 30.0, 1 + t, np.abs(y) / (1 + y)
            )
        return slope, doubt, np.full_like(t, self.rate), np.full_like(t, 4 * ROUNDOFF * self.rate)

    def _backward(self, t: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the inner slope ln(e^t rate / c), its error, the factor c = 1 - e^t (1 - rate) and its error."""
        log_rest = math.log1p(-self.rate)
        exponent = t + log_rest
        factor = -np.expm1(np.minimum(exponent, 0.0))
        slack = (SPECIAL_FUNCTION_ERROR * factor + 8 * ROUNDOFF * (np.abs(t) - log_rest + self.rate)) * (
            exponent < 1e-15 * (1 - log_rest)
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            slope = np.where(factor > 4 * slack, t + math.log(self.rate) - np.log(factor), np.nan)
            doubt = 4 * SPECIAL_FUNCTION_ERROR * (1 + np.abs(t) + np.abs(slope)) + 2 * slack / factor
        return slope, doubt, factor, slack


@dataclass(frozen=True, slots=True)
class Failing:
    """The inner event, except with probability delta (a float within u of it), when P and Q do not overlap."""

    inner: PairCurve
    delta: float

    @property
    def _success_share(self) -> float:
        return self.delta if self.delta > MIN_NORMAL_PROBABILITY else 0.0

    @property
    def infinite(self) -> float:
        """Return delta and the inner event's share."""
        return (self._success_share + (1 - self.delta) * self.inner.infinite) * (1 - 8 * ROUNDOFF)

    @property
    def anchors(self) -> Anchors | None:
        """Return the inner event's."""
        return self.inner.anchors

    def above(self, t: Floats) -> Floats:
        """Return delta + (1 - delta) g."""
        return np.asarray(
            (self.delta + (1 - self.delta) * self.inner.above(t)) * (1 + 8 * ROUNDOFF) + MIN_NORMAL_PROBABILITY
        )

    def below(self, t: Floats) -> Line:
        """Return the line of the inner set together with the failure."""
        value, least, most = self.inner.below(t)
        lower = (self._success_share + (1 - self.delta) * value) * (1 - 8 * ROUNDOFF)
        return lower, (1 - self.delta) * least * (1 - 8 * ROUNDOFF), (1 - self.delta) * most * (1 + 8 * ROUNDOFF)


@dataclass(frozen=True, slots=True)
class Bracketed:
    """One pair known in several ways: the least upper bound holds, and the best set may be named at each slope."""

    uppers: tuple[PairCurve, ...]
    lowers: tuple[PairCurve, ...]

    @property
    def infinite(self) -> float:
        """Return the largest lower bound known."""
        return max(curve.infinite for curve in self.lowers)

    @property
    def anchors(self) -> Anchors | None:
        """Return the first lower curve's."""
        return self.lowers[0].anchors

    def above(self, t: Floats) -> Floats:
        """Return the least upper bound known."""
        return np.asarray(np.min([curve.above(t) for curve in self.uppers], axis=0))

    def below(self, t: Floats) -> Line:
        """Return the best line known at each slope."""
        lines = [curve.below(t) for curve in self.lowers]
        best = np.argmax([line[0] for line in lines], axis=0)[None]
        value, least, most = (np.take_along_axis(np.array([line[i] for line in lines]), best, 0)[0] for i in range(3))
        return value, least, most


@dataclass(frozen=True, slots=True)
class Worst:
    """Any one of these pairs, unknown which: above, the greatest curve; below, one member, `chosen`."""

    members: tuple[PairCurve, ...]
    chosen: PairCurve

    @property
    def infinite(self) -> float:
        """Return the chosen member's."""
        return self.chosen.infinite

    @property
    def anchors(self) -> Anchors | None:
        """Return the chosen member's."""
        return self.chosen.anchors

    def above(self, t: Floats) -> Floats:
        """Return the greatest of the members' upper bounds."""
        return np.asarray(np.max([curve.above(t) for curve in self.members], axis=0))

    def below(self, t: Floats) -> Line:
        """Return the chosen member's line."""
        return self.chosen.below(t)


def worst(members: tuple[PairCurve, ...]) -> Worst:
    """Return the worst of these pairs; below, the member that costs most at small delta stands for all of them."""
    scale = np.geomspace(1e-9, 1e6, 300)
    return Worst(members, max(members, key=lambda curve: float(np.minimum(curve.below(scale)[0], 1e-6).sum())))
