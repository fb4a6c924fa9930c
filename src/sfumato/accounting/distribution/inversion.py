"""From delta at each epsilon to epsilon at one delta: both answers are epsilons that were tested."""

import math
from collections.abc import Callable
from fractions import Fraction

EvaluateDelta = Callable[[float], tuple[float, float]]
_MAX_SEARCHED_EPSILON = 1e300
_UNREACHABLE_EPSILON = 1e200


def solve(evaluate: EvaluateDelta, target: Fraction, guess: float) -> tuple[float, float]:
    """Return (lower, upper): delta(lower) >= target unless lower is 0, and delta(upper) <= target.

    `evaluate` returns certified (low, high) for delta(epsilon), which decreases. How the points are chosen does not
    matter for soundness.
    """
    delta = float(target)
    at_zero = evaluate(0.0)
    if at_zero[1] <= target:
        return 0.0, 0.0
    middle = _crossing(lambda epsilon: _middle(evaluate(epsilon)), delta, _middle(at_zero), guess)
    shift = _shift(evaluate, middle)
    upper = _outward(lambda epsilon: evaluate(epsilon)[1] <= target, middle, 1, shift)
    lower = _outward(lambda epsilon: evaluate(epsilon)[0] >= target, middle, -1, shift)
    if upper == math.inf:
        upper = _by_itself(evaluate, 1, target, at_zero, guess)
    if lower == 0:
        lower = _by_itself(evaluate, 0, target, at_zero, guess)
    return lower, upper


def _by_itself(
    evaluate: EvaluateDelta, side: int, target: Fraction, at_zero: tuple[float, float], guess: float
) -> float:
    """Return where one side crosses the target when the other is too far away to help, or never crosses it."""
    if evaluate(_UNREACHABLE_EPSILON)[0] > target:  # what is certain to be lost exceeds delta
        return math.inf
    point = _crossing(lambda epsilon: evaluate(epsilon)[side], float(target), at_zero[side], guess)
    if side:
        return _outward(lambda epsilon: evaluate(epsilon)[1] <= target, point, 1, 1e-13)
    return _outward(lambda epsilon: evaluate(epsilon)[0] >= target, point, -1, 1e-13)


def _are_close(low: float, high: float) -> bool:
    return low > 0.99 * high


def _shift(evaluate: EvaluateDelta, middle: float) -> float:
    """Guess the relative step after which the bounds clear the target, from their width and the curve's slope."""
    if not 0 < middle < math.inf:
        return 1e-13
    low, high = evaluate(middle)
    further = _middle(evaluate(middle * (1 + 1e-5)))
    if not (_are_close(low, high) and 0 < further < _middle((low, high))):
        return 1e-13
    slope = math.log(_middle((low, high)) / further) / 1e-5
    return min(0.1, max(1e-13, 0.6 * math.log(high / low) / slope))


def _middle(bounds: tuple[float, float]) -> float:
    low, high = bounds
    return math.sqrt(low) * math.sqrt(high) if low > 0.25 * high else high / 2


def _crossing(curve: Callable[[float], float], delta: float, at_zero: float, guess: float) -> float:
    """Find where the curve crosses delta: bracketed, then false position on ln delta (Illinois), then halving."""
    if at_zero <= delta:
        return 0.0
    low, high = 0.0, max(guess, 1e-12)
    at_low, at_high = math.log(at_zero / delta), _log_excess(curve(high), delta)
    while at_high > 0:
        low, at_low, high = high, at_high, 2 * high
        if high > _MAX_SEARCHED_EPSILON:
            return math.inf
        at_high = _log_excess(curve(high), delta)
    last = 0.0
    for step in range(60):
        if high - low <= 1e-13 * high or at_low - at_high < 1e-12:
            break
        share = at_low / (at_low - at_high) if step % 8 < 6 and at_high > -200 else 0.5
        point = low + min(max(share, 1e-3), 1 - 1e-3) * (high - low)
        value = _log_excess(curve(point), delta)
        if abs(value) < 1e-13:
            return point
        if value > 0:
            low, at_low, at_high = point, value, at_high * (0.5 if last > 0 else 1)
        else:
            high, at_high, at_low = point, value, at_low * (0.5 if last < 0 else 1)
        last = value
    return (low + high) / 2


def _log_excess(value: float, delta: float) -> float:
    return math.log(value / delta) if value > 0 else -1000.0


def _outward(holds: Callable[[float], bool], start: float, sign: int, shift: float) -> float:
    """Step away from start until the test holds: 0 is a lower bound, infinity an upper bound, without a test."""
    if start == math.inf:
        return math.inf if sign > 0 else 0.0
    failed = 0.0
    while shift < 1:
        point = start * (1 + sign * shift)
        if point > 0 and holds(point):
            return _bisect_towards(holds, point, start * (1 + sign * failed), 40 if shift > 1e-5 else 1)
        failed = shift
        shift *= 2
    for factor in (2.0, 4.0, 16.0, 256.0, 65536.0, 2.0**64):
        if sign > 0 and holds(max(start, 1e-300) * factor):
            return max(start, 1e-300) * factor
    return math.inf if sign > 0 else 0.0


def _bisect_towards(holds: Callable[[float], bool], good: float, bad: float, steps: int) -> float:
    """Halve the way to a point where the test failed; far away, when two different curves bound the truth, often."""
    for _ in range(steps):
        if abs(good - bad) < 1e-7 * good:
            break
        point = (good + bad) / 2
        if holds(point):
            good = point
        else:
            bad = point
    return good
