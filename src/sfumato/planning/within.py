"""Accuracy first: the smallest loss at which the margins of named columns are within their targets.

Only Laplace noise is used: what each named column needs is then a number of its own, found exactly.
"""

from collections.abc import Iterable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import exp, floor, log, log1p

from sfumato.accounting.loss import PrivacyLoss, round_down, round_up
from sfumato.analysis.private_query import PrivateQuery
from sfumato.errors import BadParameter, UnknownName, UnreachableMargin, shown
from sfumato.planning.measurements import Needs
from sfumato.planning.origins import GroupColumn, origins, shown_unchanged
from sfumato.policy.policy import fold
from sfumato.randomness.discrete_laplace import DiscreteLaplace

CONFIDENCE = Fraction(95, 100)

Target = tuple[str, Fraction]
"""The name of a column and the margin that it should have."""

_SHORT = Context(prec=12, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
_FAR = 10**300


def read_margins(pairs: Iterable[str]) -> dict[str, str] | None:
    """Read margins as they are typed, n=25; None where there are none.

    >>> read_margins(["n=25"])
    {'n': '25'}
    """
    found = {}
    for pair in pairs:
        name, equals, value = pair.rpartition("=")
        if not equals or not name.strip() or not value.strip():
            raise BadParameter(
                f"{shown(pair)} is not a margin.",
                "A margin is asked for by column.",
                "Write COLUMN=MARGIN, such as n=25.",
            )
        found[name.strip()] = value.strip()
    return found or None


def epsilons_within(
    private: PrivateQuery, needs: tuple[Needs, ...], targets: tuple[Target, ...], cap: PrivacyLoss
) -> tuple[Fraction, ...]:
    """Return the least epsilon of each part, in the order of `split.laplace_weights`, or refuse.

    Parts that no target names get the mean of those that one does.
    """
    moved = {(need.group.label, one.name): one.sensitivity.l1 for need in needs for one in need.measurements}
    least: dict[GroupColumn, Fraction] = {}
    reaches = [_reach(private, needs, target) for target in targets]
    for source, reach in (pair for pairs in reaches for pair in pairs):
        least[source] = max(moved[source] * least_inverse_scale(reach), least.get(source, Fraction(0)))
    mean = sum(least.values(), Fraction(0)) / len(least)
    keys = (mean,) * sum(need.keys is not None for need in needs)
    epsilons = keys + tuple(least.get(source, mean) for source in moved)
    total = sum(epsilons, Fraction(0))
    if total > cap.epsilon:
        share = cap.epsilon / total
        raise UnreachableMargin(
            f"{_listed(targets)} costs ε = {round_up(total)}.",
            f"At most ε = {round_down(cap.epsilon)} can be spent on it.",
            _nearest(
                needs, targets, reaches, {source: epsilon * share / moved[source] for source, epsilon in least.items()}
            ),
        )
    return epsilons


@lru_cache(maxsize=1024)
def least_inverse_scale(reach: int) -> Fraction:
    """Return the least u of 12 digits such that Laplace noise of scale 1/u stays within ±reach 95 times of 100.

    >>> DiscreteLaplace(1 / least_inverse_scale(25)).margin(CONFIDENCE)
    25
    """
    # P[|Z| > t] = 2x^(t+1)/(1+x) with x = e^-u; the equation for u(t + 1) is solved by a map that contracts by half
    distance = reach + 1
    exponent = 1.0
    for _ in range(60):
        exponent = log(2 / (1 - CONFIDENCE)) - log1p(exp(-exponent / min(distance, _FAR)))
    start = Fraction(exponent) / distance
    found = _SHORT.divide(Decimal(start.numerator), Decimal(start.denominator))
    while not _suffices(found, reach):
        found = _SHORT.next_plus(found)
    while _suffices(smaller := _SHORT.next_minus(found), reach):
        found = smaller
    return Fraction(found)


def _suffices(inverse_scale: Decimal, reach: int) -> bool:
    return DiscreteLaplace(1 / Fraction(inverse_scale)).margin(CONFIDENCE) <= reach


def _reach(private: PrivateQuery, needs: tuple[Needs, ...], target: Target) -> list[tuple[GroupColumn, int]]:
    """Return what a target asks of measurements: each, and how many steps its noise may reach."""
    name, margin = target
    derived = {(need.group.label, one.name): one for need in needs for one in need.derived}
    found = [origin for origin, other in zip(origins(private), private.names, strict=True) if fold(other) == fold(name)]
    if not found:
        names = ", ".join(f"`{other}`" for other in dict.fromkeys(private.names))
        raise UnknownName(
            f"The answer has no column {shown(name)}.",
            "A margin is asked of a column of the answer.",
            f"It has {names}.",
        )
    pairs = []
    for origin in found:
        source = shown_unchanged(origin, derived)
        one = None if source is None else derived[source]
        if source is None or one is None or one.plain is None:
            raise UnreachableMargin(
                f"The margin of `{name}` is not a fixed number.",
                "It depends on the data, or the column is not a plain COUNT or SUM.",
                "Name COUNT and SUM columns in `within`, and compute the rest from them.",
            )
        if 2 * margin < one.step:
            raise UnreachableMargin(
                f"A margin of {shown(margin)} for `{name}` is less than half a step of its grid.",
                "Only the exact value is so near, and it is never shown.",
                f"Ask for at least {shown(one.step / 2)}.",
            )
        pairs.append(((source[0], one.plain), floor(margin / one.step)))
    return pairs


def _nearest(
    needs: tuple[Needs, ...],
    targets: tuple[Target, ...],
    reaches: list[list[tuple[GroupColumn, int]]],
    inverse_scales: dict[GroupColumn, Fraction],
) -> str:
    """Tell which margins the cap buys, if each part gets the same share of what it needs."""
    if not all(inverse_scales.values()):
        return "Nothing is left to spend: ask the owner to raise the budget."
    steps = {(need.group.label, one.plain): one.step for need in needs for one in need.derived if one.plain is not None}
    reached = []
    for (name, _), pairs in zip(targets, reaches, strict=True):
        margins = [
            DiscreteLaplace(1 / inverse_scales[source]).margin(CONFIDENCE) * steps[source] for source, _ in pairs
        ]
        reached.append((name, max(margins)))
    return f"The nearest that can be had is {_listed(tuple(reached))}."


def _listed(targets: tuple[Target, ...]) -> str:
    return "within " + ", ".join(f"{name} ±{round_up(margin, 6)}" for name, margin in targets)
