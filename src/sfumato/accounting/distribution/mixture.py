"""A flat composition becomes arrays, one family of losses per kind; or a bound from its real moments alone."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.accounting.distribution.cells import Parts
from sfumato.accounting.distribution.contour import Mixture
from sfumato.accounting.distribution.moments import (
    Binary,
    BoundedRanges,
    Family,
    Floats,
    IntegerGaussian,
    IntegerLaplace,
    RealLaplace,
    Response,
)
from sfumato.accounting.distribution.tilted_fft import ROUNDOFF
from sfumato.accounting.event import (
    BoundedRange,
    GaussianNoise,
    LaplaceNoise,
    Pure,
    RandomizedResponse,
    RealGaussianNoise,
    RealLaplaceNoise,
)

FloatRows = list[tuple[float, ...]]


def mixture(parts: Parts) -> Mixture | None:
    """Return the losses of these events, or None if one of them has no moment generating function here."""
    gaussian: list[float] = []
    binary: FloatRows = []
    response: FloatRows = []
    real_laplace: FloatRows = []
    bounded: FloatRows = []
    integer_laplace: FloatRows = []
    integer_gaussian: FloatRows = []
    for event, times in parts.items():
        match event:
            case RealGaussianNoise(sensitivity_squared, sigma_squared, _):
                gaussian.append(_ratio(sensitivity_squared, sigma_squared) * times)
            case RealLaplaceNoise(sensitivity, scale, _):
                real_laplace.append((_ratio(sensitivity, scale), times))
            case Pure(epsilon, _) | RandomizedResponse(epsilon, 2, _):
                binary.append((_ratio(epsilon, 1), times))
            case LaplaceNoise(1, scale, _):  # the loss of binary randomized response: proofs/pld_integer_laplace.md
                binary.append((_ratio(1, scale), times))
            case LaplaceNoise(sensitivity, scale, _):
                integer_laplace.append((float(sensitivity), _ratio(1, scale), times))
            case RandomizedResponse(epsilon, categories, _):
                response.append((_ratio(epsilon, 1), float(categories - 2), times))
            case GaussianNoise(1, sigma_squared, _):
                integer_gaussian.append((_ratio(sigma_squared, 1), times))
            case BoundedRange(epsilon, _):
                bounded.append((_ratio(epsilon, 1), times))
            case _:
                return None
    families: tuple[Family, ...] = (
        Binary(*_as_columns(binary, 2)),
        Response(*_as_columns(response, 3)),
        RealLaplace(*_as_columns(real_laplace, 2)),
        BoundedRanges(*_as_columns(bounded, 2)),
        IntegerLaplace(*_as_columns(integer_laplace, 3)),
        IntegerGaussian(*_as_columns(integer_gaussian, 2)),
    )
    return Mixture(math.fsum(gaussian), tuple(family for family in families if len(family.times)))


def _ratio(numerator: int | Fraction, denominator: int | Fraction) -> float:
    # int / int is correctly rounded by Python; two fractions would be reduced for nothing
    return (numerator.numerator * denominator.denominator) / (numerator.denominator * denominator.numerator)


def _as_columns(rows: Iterable[tuple[float, ...]], width: int) -> Floats:
    return np.ascontiguousarray(np.array(list(rows), dtype=np.float64).reshape(-1, width).T)


@dataclass(frozen=True, slots=True)
class Tail:
    """The Rényi bound on delta from moments at many real orders [CKS20, §2.3]; it knows no lower bound."""

    orders: Floats
    logs: Floats

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return 0 and the least of e^(K(c) - c epsilon) / (c + 1) * (c/(c + 1))^c."""
        exponents = self.logs - self.orders * epsilon
        least = float(exponents.min())
        return 0.0, min(1.0, math.exp(min(least, 0.0)) * (1 + 1e-12) + 5e-324)


def moment_tail(losses: Mixture) -> Tail:
    """Return the bound that uses only E e^(cL) at real c > 0."""
    orders = np.geomspace(1e-3, 1e6, 4000)
    logs, doubts = losses.on_axis(orders)
    logs = logs + doubts + orders * np.log(orders / (orders + 1)) - np.log1p(orders)
    # the products with epsilon and the sums above are rounded: relative to the largest numbers that occur
    return Tail(orders, logs + 64 * ROUNDOFF * (1 + np.abs(logs) + orders))
