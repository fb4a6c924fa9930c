"""The zCDP loss that a price of (epsilon, delta) pays for. Proof: proofs/planning.md, §6"""

from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import log, log1p

import numpy as np
import numpy.typing as npt

from sfumato.caches import remembered
from sfumato.certified.enclosure import Enclosure, enclose, lower, refine

_TWELVE_DIGITS = Context(prec=12, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)


@remembered(256)
def _spread(order: Fraction, delta: Fraction, digits: int) -> Enclosure:
    """Enclose ln(αδ)/(α - 1) + ln(α/(α - 1)): orders have four digits, so that many losses share them."""
    return enclose(order * delta, digits).ln() / (order - 1) + enclose(order / (order - 1), digits).ln()


@remembered(1024)
def concentrated_loss(epsilon: Fraction, delta: Fraction) -> Fraction | None:
    """Return a rho, rounded down to 12 digits, such that rho-zCDP implies (epsilon, delta)-DP; None if there is none.

    Floats choose the order α, any of which is valid; ρ = (ε + ln(αδ)/(α - 1) + ln(α/(α - 1)))/α is enclosed.
    """
    order = _best_order(float(epsilon), log(delta.numerator) - log(delta.denominator))

    def _rho(digits: int) -> Enclosure:
        return (_spread(order, delta, digits) + epsilon) / order

    bound = lower(refine(_rho))
    if bound <= 0:
        return None
    exact = Fraction(bound)
    return Fraction(_TWELVE_DIGITS.divide(Decimal(exact.numerator), Decimal(exact.denominator)))


def _best_order(epsilon: float, log_delta: float) -> Fraction:
    """Return the order with the most room: of 280 orders the best, then the best of 33 around it."""
    coarse, *_ = _roomiest(_COARSE, epsilon, log_delta)
    fine, *_ = _roomiest(_around(coarse), epsilon, log_delta)
    return 1 + Fraction(f"{2.0**fine:.4g}")


def _roomiest(tried: npt.NDArray[np.float64], epsilon: float, log_delta: float) -> tuple[float, ...]:
    _, above, log_order, log_ratio = tried
    room = (epsilon + (log_order + log_delta) / above + log_ratio) / (1 + above)
    return tuple(map(float, tried[:, int(room.argmax())]))


@lru_cache(maxsize=512)
def _around(coarse: float) -> npt.NDArray[np.float64]:
    return _tried([coarse + step / 64 for step in range(-16, 17)])


def _tried(exponents: Sequence[float]) -> npt.NDArray[np.float64]:
    """Return what is needed to judge orders 1 + 2^exponent: 2^exponent, and the logarithms of α and α/(α - 1)."""
    above = [2.0**exponent for exponent in exponents]
    return np.array([exponents, above, [log1p(one) for one in above], [log1p(1 / one) for one in above]])


_COARSE = _tried([step / 4 for step in range(-40, 240)])
