"""Margins for the questions of a workload: the split of the price, and the least price, that reach all of them.

Proof: proofs/one_table.md, (9)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor, inf, log10

import numpy as np
import numpy.typing as npt

from sfumato.accounting.loss import PrivacyLoss, round_down, round_up
from sfumato.analysis.private_query import PrivateQuery
from sfumato.errors import BadParameter, Setting, UnreachableMargin
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.planning.accuracy_target import CONFIDENCE, MarginGoal, steps_of_target
from sfumato.planning.column_origins import GroupColumn
from sfumato.planning.margin_targets import fixed_targets
from sfumato.planning.marginal_budget_split import MarginalVariances
from sfumato.planning.noise import variance_of
from sfumato.planning.plan import Plan, PlannedMeasurement
from sfumato.planning.planner import PriceTarget, make_plans
from sfumato.planning.workload import Workload

Split = tuple[tuple[str, str, Fraction], ...]
"""The share of the price of each measurement: the label of its group, its name, and the share."""

_ROUNDS = 400
_SHARE_EXPONENT, _WEIGHT_EXPONENT = 0.5, 0.3
"""How far a round moves shares towards what gains most, and weights towards what misses its target."""
_MIN_PART = 1e-6
_SHARE_PARTS = 1000
_DIGITS = 4
"""Significant digits of the price that is found."""
_MAX_PRICE_RATIO = Fraction(1005, 1000)
"""A price is found when one that is this many times smaller does not reach the margins."""
_MAX_PLANS = 30
"""Maximum number of plans that are made to find the price of one split."""
_LAPLACE_REACH, _GAUSSIAN_REACH = 2.147, 1.978
"""Deviations within which a weighted sum of Laplace, or Gaussian, noises lies 95 times of 100 (proofs/intervals.md)."""
_MAX_FACTOR = 1 << 40

Planner = Callable[[Fraction, Split], Plan]
"""Returns the plan of a workload for a price and a split of it."""


def workload_target(workload: Workload, target: PriceTarget, within: object) -> PriceTarget:
    """Return the price target of a workload with the least price, and its split, that reach the margins.

    The price is at most the epsilon of the target, where it has one.
    """
    if target.share is not None:
        raise BadParameter(
            "Both within and share are given.",
            "Each of them decides the price.",
            ("Give one of the two: leave ", Setting("within"), " or ", Setting("share"), " out."),
        )
    outcomes = tuple(question.outcome for question in workload.questions)

    def plan(epsilon: Fraction, split: Split) -> Plan:
        return make_plans(workload.combined_query, replace(target, epsilon=epsilon, split=split), outcomes)[0]

    most = target.max_loss if target.epsilon is None else replace(target.max_loss, epsilon=target.epsilon)
    targets = [() if one is None else fixed_targets(one) for one in per_question(within, len(workload.questions))]
    if not any(targets):
        raise BadParameter(
            "within names no margin.",
            "The price is the least one that reaches the margins.",
            ("Name the margin of at least one column, or give ", Setting("epsilon"), "."),
        )
    questions = [replace(question, groups=workload.groups) for question in workload.questions]
    epsilon, split = cheapest_split(plan, questions, targets, most)
    return replace(target, epsilon=epsilon, split=split)


def per_question(within: object, questions: int) -> list[object]:
    """Return the margins of every question, None for one that names none."""
    if isinstance(within, list | tuple) and len(within) == questions:
        return list(within)
    raise BadParameter(
        f"within is not a list with one entry for each of {questions} questions.",
        "Each question has its own columns and margins.",
        f"Give a list of {questions} entries, for example [{{'n': 25}}, None]: None names no margin.",
    )


def cheapest_split(
    planner: Planner,
    questions: Sequence[PrivateQuery],
    targets: Sequence[tuple[MarginGoal, ...]],
    cap: PrivacyLoss,
) -> tuple[Fraction, Split]:
    """Return nearly the least price at which all margins are reached, and its split.

    Numbers without a named margin may err as much as the widest margin named, in units of what one person can do.
    """
    start = planner(min(Fraction(1), cap.epsilon) or Fraction(1), ())
    reached = _steps(start, questions, targets)
    tried = (_price(planner, _split(start, reached, power), reached, cap) for power in (2, 1))
    if found := [price for price in tried if price is not None]:
        return min(found)
    raise UnreachableMargin(
        "The margins of this workload cost more than can be spent on it.",
        f"At most ε = {round_down(cap.epsilon)} can be spent on it.",
        _wider(planner, start, reached, cap),
    )


def planned_margins(plan: Plan) -> dict[GroupColumn, float]:
    """Return what the noise of each measurement reaches 95 times of 100, in steps, with all that is known of its table.

    Of one measurement alone it is exact; of a weighted sum it is rounded up.
    """
    every = {
        (group.group.label, measurement.name): measurement for group in plan.groups for measurement in group.measured
    }
    found = {name: float(one.mechanism.margin(CONFIDENCE)) for name, one in every.items()}
    for table in plan.tables:
        names = [(margin.label, margin.name) for margin in table.margins]
        variances = np.array([float(variance_of(every[name].mechanism)) for name in names])
        reach = max(_deviations(every[name]) for name in names)
        together = MarginalVariances.of(table, np.ones(len(names)), 1).variances(1 / np.maximum(variances, 1e-150))
        for name, variance in zip(names, together.tolist(), strict=True):
            found[name] = 0.5 + reach * float(variance + 1 / 12) ** 0.5
    return found


def _deviations(one: PlannedMeasurement) -> float:
    return _GAUSSIAN_REACH if isinstance(one.mechanism, Gaussian) else _LAPLACE_REACH


def _steps(
    plan: Plan, questions: Sequence[PrivateQuery], targets: Sequence[tuple[MarginGoal, ...]]
) -> dict[GroupColumn, int]:
    """Return how many steps each measurement may err by; the least where several columns name it."""
    derived = {(group.group.label, output.name): output for group in plan.groups for output in group.derived}
    fixed = {
        (group.group.label, measurement.name)
        for group in plan.groups
        for measurement in group.measured
        if measurement.candidates is None
    }
    found: dict[GroupColumn, int] = {}
    for question, own in zip(questions, targets, strict=True):
        for target in own:
            for source, steps in steps_of_target(question, derived, fixed, target)[1]:
                found[source] = min(steps, found.get(source, steps))
    moved = {
        (group.group.label, measurement.name): measurement.sensitivity.l1
        for group in plan.groups
        for measurement in group.measured
    }
    widest = max(Fraction(steps, moved[source]) for source, steps in found.items())
    return {source: found.get(source, max(1, ceil(widest * one))) for source, one in moved.items()}


def _split(plan: Plan, reached: Mapping[GroupColumn, int], power: int) -> Split:
    """Return shares at which the measurement that is farthest from its margin is nearest to it.

    Every round moves the shares towards what gains most, and weighs what is far from its margin more.
    """
    names = list(reached)
    moved = np.array(
        [
            float(measurement.sensitivity.l1) if power == 2 else float(measurement.sensitivity.l2_squared) ** 0.5
            for group in plan.groups
            for measurement in group.measured
        ]
    )
    limits = np.array([(reached[name] + 0.5) ** 2 for name in names]) / moved**2
    problem = MarginalVariances.of_measurements(names, plan.tables, np.ones(len(names)), power)
    shares, weights = np.full(len(names), 1 / len(names)), np.full(len(names), 1 / len(names))
    best: tuple[float, npt.NDArray[np.float64]] = (inf, shares)
    for _ in range(_ROUNDS):
        ratios = problem.variances(shares) / limits
        best = min(best, (float(ratios.max()), shares), key=lambda tried: tried[0])
        weights = weights * (ratios / ratios.max()) ** _WEIGHT_EXPONENT
        weights = np.maximum(weights / weights.sum(), _MIN_PART)
        gains = problem.slopes(shares, weights / problem.variances(shares))
        shares = np.maximum(shares * (gains / float(shares @ gains)) ** _SHARE_EXPONENT, _MIN_PART)
        shares = shares / shares.sum()
    parts = best[1] / best[1].max()
    return tuple(
        (*name, Fraction(max(1, round(float(part) * _SHARE_PARTS)), _SHARE_PARTS))
        for name, part in zip(names, parts, strict=True)
    )


def _price(
    planner: Planner, split: Split, reached: Mapping[GroupColumn, int], cap: PrivacyLoss
) -> tuple[Fraction, Split] | None:
    """Return nearly the least price at which this split reaches all margins; None where the cap does not.

    Margins are nearly proportional to 1 / price, so that a few plans are enough.
    """
    low, high, tried = Fraction(0), None, min(Fraction(1), cap.epsilon)
    for _ in range(_MAX_PLANS if cap.epsilon else 0):
        margins = planned_margins(planner(tried, split))
        if all(floor(margins[name] + 1e-9) <= steps for name, steps in reached.items()):
            high = tried
        elif tried == cap.epsilon:
            return None
        else:
            low = tried
        if high is not None and high <= low * _MAX_PRICE_RATIO:
            break
        ratio = max((margins[name] + 0.5) / (steps + 0.5) for name, steps in reached.items())
        most = cap.epsilon if high is None else high
        tried = min(_rounded_up(tried * Fraction(ratio)), most)
        if not low < tried < most:
            tried = most if high is None else _rounded_up((low + high) / 2)
        if tried == high:
            break
    return None if high is None else (high, split)


def _rounded_up(value: Fraction) -> Fraction:
    """Return a number rounded up to four significant digits.

    >>> _rounded_up(Fraction(1, 3))
    Fraction(1667, 5000)
    """
    places = _DIGITS - 1 - floor(log10(float(value)))
    return Fraction(ceil(value * Fraction(10) ** places)) / Fraction(10) ** places


def _wider(planner: Planner, plan: Plan, reached: Mapping[GroupColumn, int], cap: PrivacyLoss) -> str:
    """Say how many times as wide margins can be reached."""
    factor = 2
    while cap.epsilon and factor < _MAX_FACTOR:
        wider = {name: steps * factor for name, steps in reached.items()}
        if any(_price(planner, _split(plan, wider, power), wider, cap) is not None for power in (2, 1)):
            return f"Margins {factor} times as wide can be reached; or ask fewer questions, or ask the owner for more."
        factor *= 2
    return f"Ask fewer questions, or ask the owner to raise the budget above ε = {round_up(cap.epsilon)}."
