"""Partition selection with its exact laws, for a handful of keys: an input is the tuple of their true counts."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

from mpmath import mp, mpf
from tests.laws.case import Case
from tests.laws.divergence import real

from sfumato.accounting import rdp
from sfumato.accounting.event import LaplaceNoise, Neighbours, Repeated
from sfumato.accounting.pld import delta_bounds
from sfumato.mechanisms.counted_keys import CountedKeys
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.key_rounds import KeyRounds
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.mechanisms.renyi_selection import RenyiSelection
from sfumato.mechanisms.threshold import Threshold

Counts = tuple[int, ...]
ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE


def laplace_tail(scale: Fraction, least: int) -> Any:
    """P[Z >= least]."""
    with mp.workdps(60):
        x = mp.exp(-1 / real(scale))
        return x**least / (1 + x) if least >= 1 else 1 - x ** (1 - least) / (1 + x)


def keep_probabilities(epsilon: Fraction, delta: Any, upto: int) -> list[Any]:
    """π(0) … π(upto), by the recurrence of [DVGM22] in 60 digits."""
    with mp.workdps(60):
        grown, rates = mp.exp(real(epsilon)), [mpf(0)]
        for _ in range(upto):
            rates.append(min(grown * rates[-1] + delta, 1 - (1 - rates[-1] - delta) / grown, mpf(1)))
        return rates


def independent(parts: list[dict[Any, Any]]) -> dict[Any, Any]:
    """The joint law of independent outcomes, one per key."""
    with mp.workdps(60):
        return {
            tuple(outcome for outcome, _ in joint): mp.fprod(mass for _, mass in joint)
            for joint in product(*(part.items() for part in parts))
        }


def threshold_case(mechanism: Threshold, pairs: tuple[tuple[Counts, Counts], ...]) -> Case:
    """Outcome per key: None, or the noisy count; from the largest true count on all are one outcome.

    Beyond every true count the ratio of two laws does not change any more, so nothing is lost by joining them.
    """
    top = max(mechanism.threshold, *(count for pair in pairs for counts in pair for count in counts))

    @cache
    def one(count: int) -> dict[Any, Any]:
        if count < mechanism.min_count:
            return {None: mpf(1)}
        with mp.workdps(60):
            tails = {
                least: laplace_tail(mechanism.scale, least - count) for least in range(mechanism.threshold, top + 1)
            }
            law = {value: tail - tails.get(value + 1, 0) for value, tail in tails.items()}
            return law | {None: 1 - tails[mechanism.threshold]}

    most, groups = mechanism.sensitivity, mechanism.groups_per_unit
    touched = groups * (2 if mechanism.neighbours is REPLACE else 1)
    return Case(
        f"Threshold c={most} g={groups} m={mechanism.min_count} {mechanism.neighbours}",
        mechanism,
        pairs,
        lambda counts: independent([one(count) for count in counts]),
        touched * most / mechanism.scale,
        mechanism.delta,
    )


def optimal_case(mechanism: OptimalSelection, pairs: tuple[tuple[Counts, Counts], ...]) -> Case:
    """Outcome per key: kept or not."""
    top = max(count for pair in pairs for counts in pair for count in counts)
    rates = keep_probabilities(mechanism.epsilon_per_key, real(mechanism.delta_per_key), top)

    def one(count: int) -> dict[Any, Any]:
        rate = rates[max(0, count - mechanism.min_units + 1)]
        with mp.workdps(60):
            return {True: rate, False: 1 - rate}

    return Case(
        f"Optimal {mechanism.delta} g={mechanism.groups_per_unit} m={mechanism.min_units} {mechanism.neighbours}",
        mechanism,
        pairs,
        lambda counts: independent([one(count) for count in counts]),
        mechanism.epsilon,
        mechanism.delta,
    )


def added(base: Counts, most: int, groups: int) -> list[tuple[Counts, Counts]]:
    """A unit joins `base`: every choice of at most `most` in each of at most `groups` keys."""
    joins = [extra for extra in product(range(most + 1), repeat=len(base)) if 0 < sum(map(bool, extra)) <= groups]
    return [(base, tuple(n + more for n, more in zip(base, extra, strict=True))) for extra in joins]


def replaced(base: Counts, most: int, groups: int) -> list[tuple[Counts, Counts]]:
    """A unit of `base` + something becomes a unit of `base` + something else, the largest contributions only."""
    sides = [other for _, other in added(base, most, groups)]
    far = [side for side in sides if all(n - b in (0, most) for n, b in zip(side, base, strict=True))]
    return [(one, other) for number, one in enumerate(far) for other in far[:number]]


def pairs_of(
    make: Callable[[Counts, int, int], list[tuple[Counts, Counts]]], bases: Sequence[Counts], most: int, groups: int
) -> tuple[tuple[Counts, Counts], ...]:
    return tuple(pair for base in bases for pair in make(base, most, groups))


def threshold_cases() -> tuple[Case, ...]:
    delta = Fraction(1, 1000)
    single = Threshold.by_loss(1, delta, 1, 1, ADD)
    double = Threshold.by_loss(2, delta, 1, 2, ADD)
    wide = Threshold.by_loss(2, delta, 3, 2, ADD)
    later = Threshold.by_loss(1, delta, 1, 1, ADD, min_count=4)
    swap = Threshold.by_loss(2, delta, 1, 1, REPLACE)
    swaps = Threshold.by_loss(4, delta, 1, 2, REPLACE)
    t, d, w, lo, s, ss = (m.threshold for m in (single, double, wide, later, swap, swaps))
    return (
        threshold_case(single, pairs_of(added, [(n,) for n in range(t + 3)], 1, 1)),
        threshold_case(double, pairs_of(added, [(0, 0), (0, d), (1, d - 1), (d - 1, d), (d, d)], 1, 2)),
        threshold_case(wide, pairs_of(added, [(0, 0), (0, w), (w - 3, w), (w, w)], 3, 2)),
        threshold_case(later, pairs_of(added, [(n,) for n in range(lo + 3)], 1, 1)),
        threshold_case(swap, pairs_of(replaced, [(0, 0), (0, s), (s - 1, s), (s, s)], 1, 1)),
        threshold_case(swaps, pairs_of(replaced, [(0, 0, 0, 0), (0, 0, ss, ss), (ss, ss, ss, ss)], 1, 2)),
    )


def optimal_cases() -> tuple[Case, ...]:
    delta = Fraction(1, 1000)
    single = OptimalSelection(Fraction(1), delta, 1, ADD)
    double = OptimalSelection(Fraction(2), delta, 2, ADD)
    later = OptimalSelection(Fraction(1), delta, 1, ADD, min_units=3)
    swap = OptimalSelection(Fraction(2), delta, 1, REPLACE)
    swaps = OptimalSelection(Fraction(4), delta, 2, REPLACE)
    coarse = OptimalSelection(Fraction(2), Fraction(3, 4), 1, REPLACE)  # 1/2 per key: (1, 1) -> (0, 2) attains delta
    sure, last = single.units_for("0.9999"), swap.units_for("0.9999") - 1
    bend = swaps.units_for("0.2")
    four = [(0,) * 4, (0, 0, last, last), (0, bend, bend, last), (bend - 1, bend - 1, bend, bend), (bend,) * 4]
    many = [0, 1, 5, 8, sure - 1, sure, sure + 1]
    return (
        optimal_case(single, pairs_of(added, [(n,) for n in range(sure + 4)], 1, 1)),
        optimal_case(double, pairs_of(added, list(product(many, many)), 1, 2)),
        optimal_case(later, pairs_of(added, [(n,) for n in range(sure + 6)], 1, 1)),
        optimal_case(swap, pairs_of(replaced, list(product(range(last + 3), repeat=2)), 1, 1)),
        optimal_case(swaps, pairs_of(replaced, four, 1, 2)),
        optimal_case(coarse, pairs_of(replaced, list(product(range(3), repeat=2)), 1, 1)),
    )


def renyi_case(mechanism: RenyiSelection, epsilon: Fraction, pairs: tuple[tuple[Counts, Counts], ...]) -> Case:
    """Outcome per key: kept or not. Delta is that of the event at an epsilon, by its Rényi losses."""

    def one(count: int) -> dict[Any, Any]:
        rate = real(mechanism.keep(count))
        with mp.workdps(60):
            return {True: rate, False: 1 - rate}

    return Case(
        f"Renyi {mechanism.orders} g={mechanism.groups_per_unit} {mechanism.neighbours}",
        mechanism,
        pairs,
        lambda counts: independent([one(count) for count in counts]),
        epsilon,
        Fraction(rdp.delta(mechanism.event, epsilon)),
    )


def renyi_cases() -> tuple[Case, ...]:
    delta, half, one = Fraction(1, 1000), Fraction(1, 2), Fraction(1)
    single = RenyiSelection(delta, 1, (4,), (half,), ADD)
    double = RenyiSelection(delta, 2, (3, 8), (half, one), ADD)
    swap = RenyiSelection(delta, 1, (6,), (one,), REPLACE)
    sure, last = single.units_for("0.9999"), swap.units_for("0.9999")
    many = [0, 1, 4, 7, double.units_for("0.5"), double.units_for("0.9999") - 1]
    return (
        renyi_case(single, one, pairs_of(added, [(n,) for n in range(sure + 4)], 1, 1)),
        renyi_case(double, one, pairs_of(added, list(product(many, many)), 1, 2)),
        renyi_case(swap, one, pairs_of(replaced, list(product(range(last + 3), repeat=2)), 1, 1)),
    )


People = tuple[tuple[int, ...], ...]
"""The keys of each person, in the order in which they count."""


def rounds_case(mechanism: KeyRounds, epsilon: Fraction, pairs: tuple[tuple[People, People], ...]) -> Case:
    """Outcome: the keys that each round keeps. A person counts in the first keys that were not kept before."""
    universe = sorted({key for pair in pairs for people in pair for person in people for key in person})

    def law(people: People) -> dict[Any, Any]:
        found: dict[Any, Any] = {(): mpf(1)}
        for selection in mechanism.rounds:
            after: dict[Any, Any] = {}
            for before, mass in found.items():
                known = {key for kept in before for key in kept}
                counts = dict.fromkeys(universe, 0)
                for person in people:
                    for key in [key for key in person if key not in known][: selection.groups_per_unit]:
                        counts[key] += 1
                rates = [real(selection.keep(counts[key])) for key in universe]
                for coins, chance in independent([{True: rate, False: 1 - rate} for rate in rates]).items():
                    kept = tuple(key for key, coin in zip(universe, coins, strict=True) if coin)
                    after[*before, kept] = after.get((*before, kept), mpf(0)) + mass * chance
            found = after
        return found

    return Case(
        f"Rounds {len(mechanism.rounds)} g={mechanism.groups_per_unit} {mechanism.neighbours}",
        mechanism,
        pairs,
        law,
        epsilon,
        Fraction(rdp.delta(mechanism.event, epsilon)),
    )


def rounds_cases() -> tuple[Case, ...]:
    def rounds(groups: int, neighbours: Neighbours, losses: Sequence[Fraction]) -> KeyRounds:
        delta = Fraction(1, 1000)
        return KeyRounds(tuple(RenyiSelection(delta, groups, (4,), (loss,), neighbours) for loss in losses))

    few, many = Fraction(1, 4), Fraction(1)
    single, double, swap = (rounds(groups, by, (few, many)) for groups, by in ((1, ADD), (2, ADD), (1, REPLACE)))
    size = single.rounds[0].units_for("0.5")
    crowd: tuple[People, ...] = tuple(
        ((0, 1),) * first + ((1, 0, 2),) * second for first, second in ((0, 0), (2, 3), (size, 4), (size + 1, size))
    )
    joins: People = ((0,), (0, 1), (1, 2, 0), (2, 1, 0))
    added_people = tuple((people, (*people, one)) for people in crowd for one in joins)
    replaced_people = tuple(((*people, one), (*people, two)) for people in crowd[1:3] for one in joins for two in joins)
    return (
        rounds_case(single, many, added_people),
        rounds_case(double, many, added_people),
        rounds_case(swap, many, tuple(pair for pair in replaced_people if pair[0] != pair[1])),
    )


@cache
def gaussian_tail(sigma_squared: Fraction, least: int) -> Any:
    """P[Z >= least], by summing up."""
    with mp.workdps(60):
        reach = 12 * (int(sigma_squared) + 2)
        weights = {z: mp.exp(-real(Fraction(z * z) / (2 * sigma_squared))) for z in range(-reach, reach + 1)}
        return mp.fsum(weight for z, weight in weights.items() if z >= least) / mp.fsum(weights.values())


def counted_case(mechanism: CountedKeys, pairs: tuple[tuple[Counts, Counts], ...], epsilon: Fraction) -> Case:
    """Outcome per key: None, or the noisy number; what lies far out is one outcome, which Laplace noise allows."""
    noise = mechanism.noise
    largest = max(mechanism.threshold, *(count for pair in pairs for counts in pair for count in counts))
    top = largest if isinstance(noise, Laplace) else largest + 9 * int(noise.sigma_squared)

    @cache
    def tail(least: int) -> Any:
        if isinstance(noise, Laplace):
            return laplace_tail(noise.scale, least)
        return gaussian_tail(noise.sigma_squared, least)

    @cache
    def one(count: int) -> dict[Any, Any]:
        if count < 1:
            return {None: mpf(1)}
        with mp.workdps(60):
            tails = {least: tail(least - count) for least in range(mechanism.threshold, top + 1)}
            law = {value: mass - tails.get(value + 1, 0) for value, mass in tails.items()}
            return law | {None: 1 - tails[mechanism.threshold]}

    return Case(
        f"Counted {type(noise).__name__} g={mechanism.groups_per_unit} c={mechanism.most} {noise.neighbours}",
        mechanism,
        pairs,
        lambda counts: independent([one(count) for count in counts]),
        epsilon,
        mechanism.delta if isinstance(noise, Laplace) else Fraction(delta_bounds(mechanism.event, epsilon)[1]),
    )


def counted_cases() -> tuple[Case, ...]:
    delta = Fraction(1, 1000)
    plain, swaps = Laplace(1, Fraction(1), ADD), Laplace(4, Fraction(1), REPLACE)
    smooth = Gaussian(1, Fraction(4), ADD)
    counts = Repeated(LaplaceNoise(1, Fraction(1), REPLACE), 4)
    single = CountedKeys.by_delta(plain, plain.event, 1, delta)
    many = CountedKeys.by_delta(swaps, counts, 2, delta)
    gaussian = CountedKeys.by_delta(smooth, smooth.event, 1, delta)
    rows = Laplace(6, Fraction(3), ADD)
    several = CountedKeys.by_delta(rows, rows.event, 2, delta, most=3)
    others = Laplace(4, Fraction(2), REPLACE)
    swapped = CountedKeys.by_delta(others, others.event, 1, delta, most=2)
    far = Gaussian(4, Fraction(9), ADD)
    wide = CountedKeys.by_delta(far, far.event, 1, delta, most=2)
    t, m, g, s, o, w = (one.threshold for one in (single, many, gaussian, several, swapped, wide))
    return (
        counted_case(single, pairs_of(added, [(n,) for n in range(t + 3)], 1, 1), Fraction(1)),
        counted_case(many, pairs_of(replaced, [(0, 0, 0, 0), (0, 0, m, m)], 1, 2), Fraction(4)),
        counted_case(gaussian, pairs_of(added, [(n,) for n in range(g + 3)], 1, 1), Fraction(1)),
        counted_case(several, pairs_of(added, [(0, 0), (0, s), (s - 3, s)], 3, 2), Fraction(2)),
        counted_case(swapped, pairs_of(replaced, [(0, 0), (0, o), (o - 2, o), (1, o - 1)], 2, 1), Fraction(2)),
        counted_case(wide, pairs_of(added, [(n,) for n in range(w + 3)], 2, 1), Fraction(1)),
    )


CASES: tuple[Case, ...] = (*threshold_cases(), *optimal_cases(), *renyi_cases(), *rounds_cases(), *counted_cases())
