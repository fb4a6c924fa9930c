"""Top lists with their exact laws, for a handful of keys: an input is the tuple of their true numbers of people."""

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

from mpmath import mp, mpf
from tests.laws.case import Case
from tests.laws.divergence import real
from tests.laws.keys import Counts, added, independent, laplace_tail, pairs_of, replaced

from sfumato.accounting.event import LaplaceNoise, Neighbours, Repeated
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.spelled_list import ALPHABET, SpelledList
from sfumato.mechanisms.top_list import TopList

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE


def chosen_law(mechanism: TopList, counts: Counts) -> dict[tuple[int, ...], Any]:
    """The law of which keys are chosen, in the order of choice; what fell on an empty key is left out."""
    present = [key for key, count in enumerate(counts) if count or mechanism.threshold is None]
    with mp.workdps(60):
        weights = {key: mp.exp(real(mechanism.rate * counts[key])) for key in present}
        lists: dict[tuple[int, ...], Any] = {(): mpf(1)}
        for _ in range(mechanism.chosen):
            longer: dict[tuple[int, ...], Any] = {}
            for picked, chance in lists.items():
                left = [key for key in present if key not in picked]
                total = mp.fsum(weights[key] for key in left) + mechanism.empty
                for key in left:
                    longer[*picked, key] = longer.get((*picked, key), 0) + chance * weights[key] / total
                if mechanism.empty:
                    longer[picked] = longer.get(picked, 0) + chance * mechanism.empty / total
            lists = longer
        return lists


def list_case(mechanism: TopList, pairs: tuple[tuple[Counts, Counts], ...], epsilon: Fraction) -> Case:
    """Outcome per key: None, or its noisy number; what lies beyond every true number is one outcome."""
    everything = [count for pair in pairs for counts in pair for count in counts]
    least = min(everything) if mechanism.threshold is None else mechanism.threshold
    top = max(least, *everything)
    assert isinstance(mechanism.noise, Laplace)
    scale = mechanism.noise.scale

    @cache
    def one(count: int) -> dict[Any, Any]:
        with mp.workdps(60):
            tails = {value: laplace_tail(scale, value - count) for value in range(least, top + 1)}
            law = {value: mass - tails.get(value + 1, 0) for value, mass in tails.items()}
            below = 1 - tails[least]  # where keys are public, that is one more outcome beyond every true number
            return law | {None if mechanism.threshold is not None else "below": below}

    @cache
    def law(counts: Counts) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        with mp.workdps(60):
            for picked, chance in chosen_law(mechanism, counts).items():
                parts = [one(count) if key in picked else {None: mpf(1)} for key, count in enumerate(counts)]
                for outcome, mass in independent(parts).items():
                    found[outcome] = found.get(outcome, mpf(0)) + chance * mass
        return found

    relation = mechanism.noise.neighbours
    name = f"TopList {mechanism.chosen} g={mechanism.groups_per_unit} t={mechanism.threshold} {relation}"
    return Case(name, mechanism, pairs, law, epsilon, mechanism.delta)


Pairs = Callable[[Counts, int, int], list[tuple[Counts, Counts]]]


def made(chosen: int, groups: int, relation: Neighbours, delta: Fraction | None) -> tuple[TopList, Fraction]:
    """A list whose choices cost 1/2 each and whose counts cost 1 for each key that a person can move."""
    moved = min(chosen, groups * (2 if relation is REPLACE else 1))
    noise, core = Laplace(moved, Fraction(1), relation), Repeated(LaplaceNoise(1, Fraction(1), relation), moved)
    price = Fraction(chosen, 2) + moved
    public = TopList(chosen, Fraction(1, 2), noise, core, groups, None)
    return public if delta is None else public.with_delta(delta), price


def list_cases() -> tuple[Case, ...]:
    found = []
    settings: list[tuple[int, int, Neighbours, Pairs]] = [
        (2, 3, ADD, added),
        (2, 2, REPLACE, replaced),
    ]
    for chosen, groups, relation, pairs in settings:
        secret, price = made(chosen, groups, relation, Fraction(1, 100))
        high = secret.threshold or 0
        bases = [(0, 0, 0), (0, 0, 2), (0, high, high - 1), (1, 1, high)]
        found.append(list_case(secret, pairs_of(pairs, bases, 1, groups), price))
        public, price = made(chosen, groups, relation, None)
        found.append(list_case(public, pairs_of(pairs, [(0, 0, 0), (0, 1, 3), (2, 2, 3)], 1, groups), price))
    return tuple(found)


def spelled_case(relation: Neighbours) -> Case:
    """One choice among the 96 texts of at most one letter, of which people have two; outcome: what is shown."""
    moved = Fraction(1)
    noise = Laplace(1, moved, relation)
    mechanism = SpelledList(1, Fraction(1), noise, noise.event, 2, 1)
    least = mechanism.counted.threshold
    pairs_from = added if relation is ADD else replaced
    pairs = pairs_of(pairs_from, [(0, 0), (0, 3), (least, least - 1)], 1, 2)
    top = max(least, *(count for pair in pairs for counts in pair for count in counts))
    texts = ["", *ALPHABET]

    @cache
    def law(counts: Counts) -> dict[Any, Any]:
        people = dict(zip("ab", counts, strict=True))
        with mp.workdps(60):
            weights = {text: mp.exp(real(mechanism.rate * people.get(text, 0))) for text in texts}
            total, found = mp.fsum(weights.values()), {None: mpf(0)}
            for text, weight in weights.items():
                chance = weight / total
                tails = {n: laplace_tail(moved, n - people.get(text, 0)) for n in range(least, top + 1)}
                found |= {(text, n): chance * (mass - tails.get(n + 1, 0)) for n, mass in tails.items()}
                found[None] += chance * (1 - tails[least])
        return found

    return Case(f"SpelledList {relation}", mechanism, pairs, law, Fraction(2))


CASES: tuple[Case, ...] = (*list_cases(), *map(spelled_case, Neighbours))
