"""Accuracy first: the noise of the smallest charge at which the margins of named columns are within their targets.

What each named column needs is a number of its own, found exactly: a scale of Laplace noise, or a variance of Gaussian
noise. Which of the two is charged less is for the ledger to say. Proof: proofs/planning.md, §7
"""

from collections.abc import Iterable, Set
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from math import exp, floor, inf, log, log1p, sqrt

from sfumato.accounting.filter import Filter
from sfumato.accounting.gaussian_curve import epsilon_of
from sfumato.accounting.loss import PrivacyLoss, round_down, round_up
from sfumato.analysis.private_query import PrivateQuery
from sfumato.caches import remembered
from sfumato.errors import BadParameter, UnknownName, UnreachableMargin, quote_value
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.planning.aggregates.families import OutputColumn
from sfumato.planning.budget_split import Shared
from sfumato.planning.column_origins import GroupColumn, Origin, origins, shown_unchanged
from sfumato.planning.margin_targets import NOT_PLAIN
from sfumato.planning.measurements import Measurement, MeasurementSet, measurements
from sfumato.planning.noise import (
    Noise,
    assemble_group_plans,
    choices_epsilon,
    event_of,
    is_chosen,
    laplace_noise,
    round_up_to_12_digits,
    selections,
)
from sfumato.policy.policy import fold_name
from sfumato.randomness.discrete_gaussian import DiscreteGaussian
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.max_norm import MAX_PARTS, MaxNormLaw

CONFIDENCE = Fraction(95, 100)

MarginGoal = tuple[str, Fraction]
"""The name of a column and the margin that it should have."""

_TWELVE_DIGITS = Context(prec=12, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
_MAX_DISTANCE_RATIO = 10**300
_ROUGH = Context(prec=6, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
_HALVINGS = 60
_MAX_MARGIN_FACTOR = 1 << 64
"""Factor of all margins beyond which the search stops: something else of the question costs too much."""
_REFUSAL_HALVINGS = 10
"""Halvings after which the margins that a refusal offers are within a thousandth of the smallest reachable ones."""
_SHARED_NOISE_RATIO = Fraction(13, 10)
"""Least ratio of the margin of noise that two numbers share to that of one number at the same price."""


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
                f"{quote_value(pair)} is not a margin.",
                "Each margin names a column.",
                "Write COLUMN=MARGIN, such as n=25.",
            )
        found[name.strip()] = value.strip()
    return found or None


def noise_within(
    private: PrivateQuery,
    needs: tuple[MeasurementSet, ...],
    targets: tuple[MarginGoal, ...],
    delta: Fraction,
    cap: PrivacyLoss,
) -> tuple[Noise, ...]:
    """Return Laplace and Gaussian noise that is within the targets, what a fresh budget is charged less for first.

    Noise that no budget of this size pays for is left out; if none is left, it is refused.
    """
    found, least_epsilon = _affordable(private, needs, targets, delta, cap)
    if found:
        return tuple(sorted(found, key=lambda noise: used_by(noise, cap)))
    raise UnreachableMargin(
        f"{_listed(targets)} costs ε = {round_up(least_epsilon)}.",
        f"At most ε = {round_down(cap.epsilon)} can be spent on it.",
        _nearest(private, needs, targets, delta, cap),
    )


def _affordable(
    private: PrivateQuery,
    needs: tuple[MeasurementSet, ...],
    targets: tuple[MarginGoal, ...],
    delta: Fraction,
    cap: PrivacyLoss,
) -> tuple[list[Noise], Fraction]:
    """Return what a budget of this size pays for within the targets, and the least epsilon of Laplace noise."""
    least: dict[GroupColumn, int] = {}
    for source, reach in (pair for target in targets for pair in _reach(private, needs, target)[1]):
        least[source] = min(reach, least.get(source, reach))
    epsilons = _epsilons(needs, least)
    ways: list[tuple[tuple[Fraction, ...], Shared]] = [(epsilons, ()), *_shared_within(needs, least, epsilons)]
    totals = [sum(parts, Fraction(0)) for parts, _ in ways]
    found = [
        laplace_noise(needs, parts, delta, shared)
        for (parts, shared), total in zip(ways, totals, strict=True)
        if total <= cap.epsilon
    ]
    if cap.epsilon and cap.delta and (smooth := _gaussian_within(needs, least, delta)) is not None:
        found += [smooth] if used_by(smooth, cap) <= 1 else []
    return found, min(totals)


def used_by(noise: Noise, cap: PrivacyLoss) -> Fraction | float:
    """Return the share of a fresh budget that noise uses."""
    event = event_of(noise[0])
    used = None if event is None else Filter(cap.epsilon, cap.delta).used_after(event)
    return inf if used is None else used


def _epsilons(needs: tuple[MeasurementSet, ...], least: dict[GroupColumn, int]) -> tuple[Fraction, ...]:
    """Return the least epsilon of each part under Laplace noise, in the order of `split.laplace_weights`.

    Parts that no target names get the mean of those that one does.
    """
    moved = {
        (need.group.label, measurement.name): measurement.sensitivity.l1
        for need in needs
        for measurement in need.measurements
    }
    wanted = {source: moved[source] * least_inverse_scale(reach) for source, reach in least.items()}
    mean = sum(wanted.values(), Fraction(0)) / len(wanted)
    keys = (mean,) * sum(need.key_sensitivity is not None for need in needs)
    return keys + tuple(wanted.get(source, mean) for source in moved)


def _shared_within(
    needs: tuple[MeasurementSet, ...], least: dict[GroupColumn, int], epsilons: tuple[Fraction, ...]
) -> list[tuple[tuple[Fraction, ...], Shared]]:
    """Return what parts cost where counts and sums of the same rows share their noise, if that costs less anywhere.

    A part that shares its noise costs what the most exact of its targets needs.
    """
    keys = epsilons[: len(epsilons) - len(measurements(needs))]
    sources = [(need.group.label, measurement.name) for need in needs for measurement in need.measurements]
    alone = dict(zip(sources, epsilons[len(keys) :], strict=True))
    shared: list[tuple[Measurement, ...]] = []
    found = list(keys)
    for need in needs:
        label = need.group.label
        moved = tuple(
            measurement
            for measurement in need.measurements
            if measurement.side is not None and measurement is not need.selecting
        )
        wanted = {index: least[label, one.name] for index, one in enumerate(moved) if (label, one.name) in least}
        apart = [alone[label, one.name] for one in moved]
        together = None
        if wanted and 1 < len(moved) <= MAX_PARTS and max(apart) * _SHARED_NOISE_RATIO < sum(apart):
            sides = tuple(one.side or 1 for one in moved)
            together = need.moved_rows * max(least_rate(sides, place, reach) for place, reach in wanted.items())
        shared.append(moved if together is not None and together < sum(apart) else ())
        for measurement in need.measurements:
            if not shared[-1] or measurement not in moved:
                found.append(alone[label, measurement.name])
            elif measurement is moved[0] and together is not None:
                found.append(together)
    return [(tuple(found), shared)] if any(shared) else []


@remembered(1024)
def least_rate(sides: tuple[int, ...], part: int, reach: int) -> Fraction:
    """Return nearly the least rate, of six digits, at which a part of shared noise stays within ±reach 95 times of 100.

    >>> MaxNormLaw((1, 100), least_rate((1, 100), 0, 41)).margin(0, CONFIDENCE)
    41
    """
    high = Decimal(sides[part]) / (reach + 1)  # a scale of reach + 1 steps
    while not MaxNormLaw(sides, Fraction(high)).covers(part, reach, CONFIDENCE):
        high = _ROUGH.multiply(high, Decimal(2))
    low = high / 2
    for _ in range(_HALVINGS):
        middle = _ROUGH.sqrt(_ROUGH.multiply(low, high))
        if middle in (low, high):
            break
        fits = MaxNormLaw(sides, Fraction(middle)).covers(part, reach, CONFIDENCE)
        low, high = (low, middle) if fits else (middle, high)
    return Fraction(high)


def _gaussian_within(needs: tuple[MeasurementSet, ...], least: dict[GroupColumn, int], delta: Fraction) -> Noise | None:
    """Return Gaussian noise: what no target names gets the mean of the losses that others have; None without delta."""
    used = delta / 2 if selections(needs) else Fraction(0)
    if not delta or any(
        is_chosen(measurement) or measurement.candidates is not None for measurement in measurements(needs)
    ):
        return None
    squared = {
        (need.group.label, measurement.name): measurement.sensitivity.l2_squared
        for need in needs
        for measurement in need.measurements
    }
    wanted = {source: greatest_variance(reach) for source, reach in least.items()}
    rho = sum((squared[source] / (2 * variance) for source, variance in wanted.items()), Fraction(0)) / len(wanted)
    neighbours = {
        (n.group.label, measurement.name): measurement.sensitivity.neighbours
        for n in needs
        for measurement in n.measurements
    }
    noise = [
        Gaussian(
            moved, wanted[source] if source in wanted else round_up_to_12_digits(moved / (2 * rho)), neighbours[source]
        )
        for source, moved in squared.items()
    ]
    # a selection of t keys at epsilon is about epsilon²/(2t) in the same unit
    keys = tuple(
        Fraction(f"{sqrt(2 * need.key_sensitivity.l1 * float(rho)):.6g}")
        if need.top is None
        else choices_epsilon(need.top.chosen, rho)
        for need in needs
        if need.key_sensitivity is not None
    )
    quoted = epsilon_of([(one.sensitivity_squared, one.sigma_squared) for one in noise], delta - used)
    return assemble_group_plans(needs, keys, used, noise), PrivacyLoss(sum(keys, quoted), delta)


@remembered(1024)
def greatest_variance(reach: int) -> Fraction:
    """Return nearly the greatest variance, of six digits, at which Gaussian noise stays within ±reach 95 times of 100.

    >>> DiscreteGaussian(greatest_variance(25)).margin(CONFIDENCE)
    25
    """
    low, high = Decimal(1) / 100, (Decimal(reach) + 1) ** 2
    for _ in range(_HALVINGS):
        middle = _ROUGH.sqrt(_ROUGH.multiply(low, high))
        if middle in (low, high):
            break
        fits = DiscreteGaussian(Fraction(middle)).margin(CONFIDENCE) <= reach
        low, high = (middle, high) if fits else (low, middle)
    return Fraction(low)


@remembered(1024)
def least_inverse_scale(reach: int) -> Fraction:
    """Return the least u of 12 digits such that Laplace noise of scale 1/u stays within ±reach 95 times of 100.

    >>> DiscreteLaplace(1 / least_inverse_scale(25)).margin(CONFIDENCE)
    25
    """
    # P[|Z| > t] = 2x^(t+1)/(1+x) with x = e^-u; the equation for u(t + 1) is solved by a map that contracts by half
    distance = reach + 1
    exponent = 1.0
    for _ in range(60):
        exponent = log(2 / (1 - CONFIDENCE)) - log1p(exp(-exponent / min(distance, _MAX_DISTANCE_RATIO)))
    start = Fraction(exponent) / distance
    found = _TWELVE_DIGITS.divide(Decimal(start.numerator), Decimal(start.denominator))
    while not _suffices(found, reach):
        found = _TWELVE_DIGITS.next_plus(found)
    while _suffices(smaller := _TWELVE_DIGITS.next_minus(found), reach):
        found = smaller
    return Fraction(found)


def _suffices(inverse_scale: Decimal, reach: int) -> bool:
    return DiscreteLaplace(1 / Fraction(inverse_scale)).margin(CONFIDENCE) <= reach


def _reach(
    private: PrivateQuery, needs: tuple[MeasurementSet, ...], target: MarginGoal
) -> tuple[Fraction, list[tuple[GroupColumn, int]]]:
    """Return what a target asks of measurements: each, and how many steps its noise may reach; first the widest."""
    derived = {(need.group.label, output.name): output for need in needs for output in need.derived}
    fixed = {
        (need.group.label, measurement.name)
        for need in needs
        for measurement in need.measurements
        if measurement.candidates is None
    }
    return steps_of_target(private, derived, fixed, target)


def steps_of_target(
    private: PrivateQuery, derived: dict[GroupColumn, OutputColumn], fixed: Set[GroupColumn], target: MarginGoal
) -> tuple[Fraction, list[tuple[GroupColumn, int]]]:
    """Return the widest margin of a target in whole steps, and how many steps each of its measurements may err by."""
    name, margin = target
    found = column_origins(private, name)
    pairs = []
    widest = Fraction(0)
    for origin in found:
        source = shown_unchanged(origin, derived)
        one = None if source is None else derived[source]
        if source is None or one is None or (source[0], one.plain) not in fixed:
            raise UnreachableMargin(
                f"The margin of `{name}` is not a fixed number.",
                NOT_PLAIN,
                "Name COUNT and SUM columns in `within`, and compute the rest from them.",
            )
        if 2 * margin < one.step:
            raise UnreachableMargin(
                f"A margin of {quote_value(margin)} for `{name}` is less than half a step of its grid.",
                "Only the exact value would be that close, and it is never shown.",
                f"Ask for at least {quote_value(one.step / 2)}.",
            )
        reach = floor(margin / one.step)
        pairs.append(((source[0], one.plain or ""), reach))
        widest = max(widest, reach * one.step)
    return widest, pairs


def column_origins(private: PrivateQuery, name: str) -> list[Origin]:
    """Return where the columns with this name come from; refuse a name that the answer has no column of."""
    found = [
        origin
        for origin, other in zip(origins(private), private.names, strict=True)
        if fold_name(other) == fold_name(name)
    ]
    if found:
        return found
    names = ", ".join(f"`{other}`" for other in dict.fromkeys(private.names))
    raise UnknownName(
        f"The answer has no column {quote_value(name)}.",
        "A margin belongs to a column of the answer.",
        f"It has {names}.",
    )


def _nearest(
    private: PrivateQuery,
    needs: tuple[MeasurementSet, ...],
    targets: tuple[MarginGoal, ...],
    delta: Fraction,
    cap: PrivacyLoss,
) -> str:
    """Tell which margins the cap buys, if all of them are made wider alike. Margins named are affordable."""
    if not cap.epsilon:
        return "Nothing is left to spend: ask the owner to raise the budget."

    def wider(factor: Fraction) -> tuple[MarginGoal, ...]:
        # what a target reaches, in whole steps: the margin that the answer will have
        return tuple((name, _reach(private, needs, (name, margin * factor))[0]) for name, margin in targets)

    low, high = Fraction(1), Fraction(2)
    while not _affordable(private, needs, wider(high), delta, cap)[0]:
        if high >= _MAX_MARGIN_FACTOR:
            return "Wider margins do not fit either: ask for fewer columns, or ask the owner to raise the budget."
        low, high = high, 2 * high
    for _ in range(_REFUSAL_HALVINGS):
        middle = (low + high) / 2
        fits = _affordable(private, needs, wider(middle), delta, cap)[0]
        low, high = (low, middle) if fits else (middle, high)
    return f"The smallest possible margin is {_listed(wider(high))}."


def _listed(targets: tuple[MarginGoal, ...]) -> str:
    return "within " + ", ".join(f"{name} ±{round_up(margin, 6)}" for name, margin in targets)
