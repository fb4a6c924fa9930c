"""The Rényi loss of the best of a random number of runs [PS22], enclosed. Proof: proofs/best_of_runs.md"""

from collections.abc import Callable
from fractions import Fraction
from math import exp, inf, log

from sfumato.accounting.estimate import Estimate
from sfumato.accounting.event import BestOfNegativeBinomial
from sfumato.certified.enclosure import Enclosure, enclose, lower, refine, upper

Loss = Callable[[Fraction], Fraction | float]
_MAX_LOG_ORDER, _MIN_LOG_ORDER = log(1e12), log(1e-9)  # of orders minus 1 that are searched
_GRID_POINTS = 64
_SEARCH_STEPS = 60
_GOLDEN_RATIO = (5**0.5 - 1) / 2


def log_mean(event: BestOfNegativeBinomial, digits: int) -> Enclosure:
    """Enclose ln E[K]: ln(η(1/γ - 1)/(1 - γ^η)), or ln((1/γ - 1)/ln(1/γ)) for η = 0, the logarithmic law."""
    odds = enclose(1 / event.stopping - 1, digits).ln()
    halt = enclose(event.stopping, digits).ln()
    if event.shape == 0:
        return odds - (-halt).ln()
    return odds + enclose(event.shape, digits).ln() - (-(halt * event.shape).exp() + 1).ln()


def negative_binomial_loss(
    event: BestOfNegativeBinomial, loss: Loss, rough: Estimate, pure: Fraction | float, order: Fraction
) -> Fraction | float:
    """Return min over α' ≥ α of D_α' + ln E[K]/(α'-1), plus (1+η)·min over β of (1-1/β)D_β + ln(1/γ)/β."""
    stop = refine(lambda digits: -enclose(event.stopping, digits).ln())
    beside = _value_at_least_order(
        lambda above: above / (1 + above) * rough(1 + above) + float(stop.high) / (1 + above),
        lambda beta: (1 - 1 / beta) * loss(beta) + upper(stop) / beta,
        Fraction(0),
    )
    logs = refine(lambda digits: log_mean(event, digits))
    runs = _value_at_least_order(
        lambda above: rough(1 + above) + float(logs.high) / above,
        lambda at: loss(at) + upper(logs) / (at - 1),
        order - 1,
    )
    return min(runs, pure) + (1 + event.shape) * min(beside, pure)  # α' → ∞ and β → ∞ are the pure loss


def poisson_loss(
    mean: Fraction,
    loss: Loss,
    rough: Estimate,
    delta: Callable[[Fraction], float],
    order: Fraction,
) -> Fraction | float:
    """Return min over α' ≥ α of D_α' + ln(mean)/(α'-1) + mean·δ, where δ is the runs' at ε = ln(α'/(α'-1))."""
    logs = refine(lambda digits: enclose(mean, digits).ln())

    def _delta(above: float) -> float:
        return float(mean) * delta(Fraction(log((1 + above) / above)))

    def _certain(at: Fraction) -> Fraction | float:
        epsilon = Fraction(lower(refine(lambda digits: enclose(at / (at - 1), digits).ln())))
        return loss(at) + upper(logs) / (at - 1) + mean * Fraction(delta(max(epsilon, Fraction(0))))

    return _value_at_least_order(
        lambda above: rough(1 + above) + float(logs.high) / above + _delta(above), _certain, order - 1, points=20
    )


def _value_at_least_order(
    rough: Callable[[float], float],
    certain: Callable[[Fraction], Fraction | float],
    start: Fraction,
    points: int = _GRID_POINTS,
) -> Fraction | float:
    """Return the certain value at about the least order above 1 + start, by its estimate; every order is valid."""
    low = max(_MIN_LOG_ORDER, log(start)) if start > 0 else _MIN_LOG_ORDER

    def _at(place: float) -> float:
        try:
            value = rough(exp(place))
        except (ArithmeticError, ValueError):
            return inf
        return value if value == value else inf

    grid = [low + (_MAX_LOG_ORDER - low) * k / points for k in range(points + 1)]
    values = [_at(point) for point in grid]
    best = min(range(points + 1), key=values.__getitem__)
    left, right = grid[max(best - 1, 0)], grid[min(best + 1, points)]
    for _ in range(_SEARCH_STEPS if points == _GRID_POINTS else points):
        span = (right - left) * _GOLDEN_RATIO
        if _at(right - span) <= _at(left + span):
            right = left + span
        else:
            left = right - span
    middle = 1 + Fraction(f"{exp((left + right) / 2):.12g}")
    options = [max(middle, 1 + start)] if middle > 1 else []
    if start > 0:
        options.append(1 + start)
    return min((certain(option) for option in options), default=inf)
