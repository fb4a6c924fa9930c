"""The exact output laws of the mechanisms that choose, each computed from the definition and not from the sampler."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import wraps
from itertools import product
from typing import Any

from mpmath import exp, mpf, workdps
from tests.laws.case import Case

from sfumato.accounting.event import Neighbours
from sfumato.mechanisms.exponential import Exponential
from sfumato.mechanisms.noisy_max import NoisyMax, NoisyTop
from sfumato.mechanisms.permute_and_flip import PermuteAndFlip
from sfumato.mechanisms.quantile import Quantile
from sfumato.mechanisms.sparse_vector import SparseVector

Law = dict[Any, Any]
_TAIL = 105  # e^-105 < 1e-45


def _in_sixty_digits(law: Callable[..., Law]) -> Callable[..., Law]:
    @wraps(law)
    def precise(*arguments: Any) -> Law:
        with workdps(60):
            return law(*arguments)

    return precise


def real(value: Fraction) -> Any:
    return mpf(value.numerator) / value.denominator


@_in_sixty_digits
def exponential_law(scores: Sequence[int], rate: Fraction) -> Law:
    weights = [exp(real(rate * (score - max(scores)))) for score in scores]
    total = sum(weights)
    return {place: weight / total for place, weight in enumerate(weights)}


@_in_sixty_digits
def permute_and_flip_law(scores: Sequence[int], rate: Fraction) -> Law:
    """Everybody arrives at a uniform time t: c ∫ Π (1 - c' t) dt, over the others' coins c', wins with the coin c."""
    coins = [exp(real(rate * (score - max(scores)))) for score in scores]
    law = {}
    for place, coin in enumerate(coins):
        powers = [mpf(1)]  # of t, in the product over the others
        for other in coins[:place] + coins[place + 1 :]:
            powers = [here - other * before for here, before in zip([*powers, 0], [0, *powers], strict=True)]
        law[place] = coin * sum(factor / (power + 1) for power, factor in enumerate(powers))
    return law


@_in_sixty_digits
def noisy_max_law(scores: Sequence[int], rate: Fraction) -> Law:
    x = exp(-real(rate))
    powers = [mpf(1)]
    reach = int(_TAIL / rate) + 1 + max(scores) - min(scores)
    while len(powers) <= 2 * reach + 2:
        powers.append(powers[-1] * x)

    def at_most(value: int) -> Any:
        return 1 - powers[value + 1] if value >= 0 else mpf(0)

    law = {}
    for winner, score in enumerate(scores):
        law[winner] = mpf(0)
        for noise in range(reach):
            term = (1 - x) * powers[noise]
            for place, other in enumerate(scores):
                if place != winner:  # ties go to the lowest index
                    term *= at_most(score + noise - other - (place < winner))
            law[winner] += term
    return law


@_in_sixty_digits
def noisy_top_law(scores: Sequence[int], rate: Fraction, chosen: int) -> Law:
    lists: Law = {(): mpf(1)}
    for _ in range(chosen):
        longer: Law = {}
        for picked, chance in lists.items():
            left = [place for place in range(len(scores)) if place not in picked]
            for place, share in noisy_max_law([scores[place] for place in left], rate).items():
                longer[(*picked, left[place])] = chance * share
        lists = longer
    return lists


@_in_sixty_digits
def quantile_law(values: Sequence[int], mechanism: Quantile) -> Law:
    clipped = [min(max(value, mechanism.low), mechanism.high) for value in values]
    single = []
    for level in mechanism.levels:
        p, q = level.numerator, level.denominator
        rows = max(p, q - p) if mechanism.neighbours == "add-remove" else q
        rate = mechanism.epsilon / (2 * mechanism.rows_per_unit * rows)
        scores = []
        for point in range(mechanism.low, mechanism.high + 1):
            below, upto = sum(value < point for value in clipped), sum(value <= point for value in clipped)
            scores.append(-max(0, q * below - p * len(clipped), p * len(clipped) - q * upto))
        single.append(exponential_law(scores, rate))
    law = {}
    for points in product(*(part.items() for part in single)):
        chance = mpf(1)
        for _, share in points:
            chance *= share
        law[tuple(mechanism.low + place for place, _ in points)] = chance
    return law


class LaplaceTable:
    """The law of integer Laplace noise, from its formula."""

    def __init__(self, scale: Fraction) -> None:
        self.x = exp(-1 / real(scale))

    def mass(self, value: int) -> Any:
        return (1 - self.x) / (1 + self.x) * self.x ** abs(value)

    def at_least(self, value: int) -> Any:
        return self.x**value / (1 + self.x) if value > 0 else 1 - self.x ** (1 - value) / (1 + self.x)


@_in_sixty_digits
def sparse_vector_law(
    queries: Sequence[int], threshold: int, aboves: int, threshold_scale: Fraction, query_scale: Fraction
) -> Law:
    rho, nu = LaplaceTable(threshold_scale), LaplaceTable(query_scale)
    law: Law = {}
    reach = int(_TAIL * threshold_scale) + 1
    for noise in range(-reach, reach + 1):
        tails = {query: nu.at_least(threshold + noise - query) for query in set(queries)}
        running: Law = {(): rho.mass(noise)}
        for query in queries:
            longer: Law = {}
            for answers, chance in running.items():
                if sum(answers) == aboves:
                    law[answers] = law.get(answers, 0) + chance
                else:
                    longer[(*answers, True)] = chance * tails[query]
                    longer[(*answers, False)] = chance * (1 - tails[query])
            running = longer
        for answers, chance in running.items():
            law[answers] = law.get(answers, 0) + chance
    return law


def law_of(mechanism: Any) -> Callable[[Any], Law]:
    match mechanism:
        case Exponential():
            return lambda scores: exponential_law(scores, mechanism.rate)
        case PermuteAndFlip():
            return lambda scores: permute_and_flip_law(scores, mechanism.rate)
        case NoisyMax():
            return lambda scores: noisy_max_law(scores, mechanism.rate)
        case NoisyTop():
            return lambda scores: noisy_top_law(scores, mechanism.single_choice.rate, mechanism.chosen)
        case Quantile():
            return lambda values: quantile_law(values, mechanism)
        case SparseVector():
            threshold_scale = mechanism.sensitivity / mechanism.threshold_epsilon
            moves = mechanism.sensitivity * (1 if mechanism.monotone else 2)
            query_scale = moves * mechanism.aboves / mechanism.answers_epsilon
            return lambda queries: sparse_vector_law(
                queries, mechanism.threshold, mechanism.aboves, threshold_scale, query_scale
            )
        case _:
            raise TypeError(mechanism)


ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
ONE, HALF = Fraction(1), Fraction(1, 2)

# scores that move by at most 2, the last pair as unequally as they may
_FREE = (((3, 1, 4, 1), (1, 3, 2, 3)), ((0, 0, 0), (2, -2, 1)), ((0, 60), (2, 58)))
# scores that all move up, by at most 2
_MONOTONE = (((3, 1, 4, 1), (5, 1, 5, 3)), ((0, 0, 0), (2, 2, 2)), ((0, 60), (2, 60)))


def _case(name: str, mechanism: Any, pairs: tuple[tuple[Any, Any], ...], epsilon: Fraction) -> Case:
    return Case(name, mechanism, pairs, law_of(mechanism), epsilon)


_SPARSE_FREE = (
    ((0, 3, 1), (1, 2, 2)),
    ((0,) * 39 + (1,), (1,) * 39 + (0,)),
    ((5, -5, 0, 0), (4, -4, 1, -1)),
)
_SPARSE_MONOTONE = (((0, 3, 1), (1, 3, 2)), ((0,) * 39 + (1,), (1,) * 39 + (1,)), ((0,) * 10, (1,) * 10))

CASES: tuple[Case, ...] = (
    _case("exponential", Exponential(2, ONE, REPLACE), _FREE, ONE),
    _case("exponential, monotone", Exponential(2, HALF, ADD, monotone=True), _MONOTONE, HALF),
    _case("permute and flip", PermuteAndFlip(2, ONE, REPLACE), _FREE, ONE),
    _case("permute and flip, monotone", PermuteAndFlip(2, HALF, ADD, monotone=True), _MONOTONE, HALF),
    _case("noisy max", NoisyMax(2, ONE, REPLACE), _FREE, ONE),
    _case("noisy max, monotone", NoisyMax(2, HALF, ADD, monotone=True), _MONOTONE, HALF),
    _case(
        "noisy top 2",
        NoisyTop(2, 1, ONE, REPLACE),
        (((0, 20, 40), (1, 21, 39)), ((0, 1, 2, 2), (1, 0, 1, 3))),
        2 * ONE,
    ),
    _case(
        "median, add-remove",
        Quantile((HALF,), 0, 1500, 1, ONE, ADD),
        (((1, 2), (0, 1, 2)), ((), (700,)), ((5, 5, 5), (5, 5, 5, 1600))),
        ONE,
    ),
    _case(
        "median, replace",
        Quantile((HALF,), 0, 1500, 1, ONE, REPLACE),
        (((1, 2, 1500), (1, 2, 0)), ((3,), (9,)), ((5, 5, 5), (5, 5, 1600))),
        ONE,
    ),
    _case(
        "two quantiles of two rows each",
        Quantile((Fraction(1, 4), Fraction(9, 10)), -5, 20, 2, HALF, ADD),
        (((1, 2, 3, 9), (1, 2, 3, 9, -3, 30)), ((1, 1, 1, 1), (1, 1))),
        2 * HALF,
    ),
    _case("sparse vector", SparseVector(0, 1, 1, HALF, ONE, REPLACE), _SPARSE_FREE, HALF + ONE),
    _case("sparse vector, two aboves", SparseVector(0, 2, 1, ONE, ONE, REPLACE), _SPARSE_FREE[::2], 2 * ONE),
    _case(
        "sparse vector, monotone", SparseVector(0, 1, 1, HALF, ONE, ADD, monotone=True), _SPARSE_MONOTONE, HALF + ONE
    ),
)


@_in_sixty_digits
def _ratios(one: Law, other: Law) -> Law:
    return {outcome: one[outcome] / other[outcome] for outcome in one}


def breaks(case: Case, epsilon: Fraction) -> bool:
    """Return whether some outcome of some pair is more than e^epsilon likelier on one side than on the other."""
    with workdps(60):
        limit = exp(real(epsilon)) * (1 + mpf(10) ** -40)
        for left, right in case.pairs:
            laws = case.law(left), case.law(right)
            for one, other in (laws, laws[::-1]):
                if any(ratio > limit for ratio in _ratios(one, other).values()):
                    return True
    return False
