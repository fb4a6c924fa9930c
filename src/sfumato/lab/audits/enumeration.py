"""The exact audit: laws by their definitions, outcome by outcome in 60 digits, against what the accountant claims.

Nothing here uses the formulas of the library: a law is what its proof says it is, the privacy loss is enumerated over
all outcomes of positive weight, and what is left out is bounded by its own weight.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

from sfumato.accounting.approximate import separate
from sfumato.accounting.event import Approximate, Composed, Event, Neighbours, Pure, Repeated
from sfumato.accounting.filter import Filter
from sfumato.accounting.pld import delta_bounds
from sfumato.accounting.pure import epsilon as pure_epsilon
from sfumato.accounting.rdp import core_loss
from sfumato.errors import BudgetExhausted
from sfumato.lab.audits.alarm import Finding
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.mechanisms.renyi_selection import RenyiSelection
from sfumato.mechanisms.threshold import Threshold
from sfumato.planning.concentrated_loss import concentrated_loss
from sfumato.randomness.discrete_gaussian import DiscreteGaussian
from sfumato.randomness.discrete_laplace import DiscreteLaplace

NAME = "exact"
DIGITS = 60
_PMF_BITS = 200
_ROUNDING_ERROR = Decimal(10) ** -45
_ADD = Neighbours.ADD_REMOVE

OutcomeWeights = dict[int, Decimal]
"""The probabilities of integers, as far as they weigh anything."""
ProbabilityPair = tuple[Decimal, Decimal]
"""Weight of one outcome on each of two neighbours."""


@dataclass(frozen=True, slots=True)
class NoisyNumber:
    """Integer noise on one number that a person moves by `moved`, and the event that it is accounted as."""

    name: str
    law: OutcomeWeights
    moved: int
    event: Event


def decimal(value: Fraction | int) -> Decimal:
    """Return a rational in the precision of the audit."""
    exact = Fraction(value)
    return Decimal(exact.numerator) / Decimal(exact.denominator)


def laplace_weights(scale: Fraction) -> OutcomeWeights:
    """P[Z = z] proportional to e^(-|z| / scale); the rest weighs less than 10^-45."""
    ratio = (-1 / decimal(scale)).exp()
    reach = int(105 * scale) + 5
    return {z: (1 - ratio) / (1 + ratio) * ratio ** abs(z) for z in range(-reach, reach + 1)}


def gaussian_weights(sigma_squared: Fraction) -> OutcomeWeights:
    """P[Z = z] proportional to e^(-z² / 2σ²); the rest weighs less than 10^-45."""
    reach = int(15 * float(sigma_squared) ** 0.5) + 5
    heights = {z: (-decimal(z * z) / (2 * decimal(sigma_squared))).exp() for z in range(-reach, reach + 1)}
    total = sum(heights.values(), Decimal(0))
    return {z: height / total for z, height in heights.items()}


def pairs_of(law: OutcomeWeights, moved: int) -> Iterator[ProbabilityPair]:
    """Give what each outcome weighs on the two neighbours."""
    for outcome in {*law, *(z + moved for z in law)}:
        yield law.get(outcome, Decimal(0)), law.get(outcome - moved, Decimal(0))


def least_delta(pairs: list[ProbabilityPair], epsilon: Fraction) -> Decimal:
    """Return Σ max(0, P - e^ε Q): the least delta at which the two are close, in this direction."""
    factor = decimal(epsilon).exp()
    return sum((max(Decimal(0), first - factor * second) for first, second in pairs), Decimal(0))


def together(first: list[ProbabilityPair], second: list[ProbabilityPair]) -> list[ProbabilityPair]:
    """Return the pairs of two independent releases."""
    return [(a * c, b * d) for a, b in first for c, d in second]


def run(_seed: object = 0) -> list[Finding]:
    """Enumerate laws, their losses, compositions and selections; alarm where a claim is another."""
    with localcontext() as context:
        context.prec = DIGITS
        checks: tuple[Callable[[], Iterator[str]], ...] = (_laws, _losses, _pure, _compositions, _keys, _budgets)
        return [Finding(NAME, message) for check in checks for message in check()]


def _releases() -> Iterator[NoisyNumber]:
    for moved, scale in ((1, Fraction(1)), (3, Fraction(10)), (2, Fraction(1, 2))):
        mechanism = Laplace(moved, scale, _ADD)
        yield NoisyNumber(f"Laplace {moved}/{scale}", laplace_weights(scale), moved, mechanism.event)
    for moved, square in ((1, Fraction(1)), (5, Fraction(100)), (2, Fraction(9, 4))):
        noise = Gaussian(moved**2, square, _ADD)
        yield NoisyNumber(f"Gaussian {moved}/{square}", gaussian_weights(square), moved, noise.event)


def _laws() -> Iterator[str]:
    """The samplers' own laws, which margins and thresholds are computed from, are the definitions."""
    for scale in (Fraction(1, 2), Fraction(1), Fraction(10)):
        yield from _same_law(f"Laplace noise of scale {scale}", DiscreteLaplace(scale).pmf, laplace_weights(scale))
    for square in (Fraction(1), Fraction(9, 4), Fraction(100)):
        yield from _same_law(f"Gaussian noise of σ² {square}", DiscreteGaussian(square).pmf, gaussian_weights(square))


def _same_law(name: str, pmf: Callable[[int, int], tuple[int, int]], law: OutcomeWeights) -> Iterator[str]:
    for value in range(12):
        low, high = (Decimal(end) / 2**_PMF_BITS for end in pmf(value, _PMF_BITS))
        if not low - _ROUNDING_ERROR <= law[value] <= high + _ROUNDING_ERROR:
            yield f"{name}: the probability of {value} is not that of its law"
            return


def _losses() -> Iterator[str]:
    for release in _releases():
        pairs = list(pairs_of(release.law, release.moved))
        for epsilon in (Fraction(0), Fraction(1, 4), Fraction(1)):
            # squared distance 4 is also 1, 1, 1, 1, which is worse on integers: only a distance of 1 is tight
            tight = release.moved == 1 or release.name.startswith("Laplace")
            yield from _check_claim(release.name, pairs, release.event, epsilon, tight)


def _check_claim(
    name: str, pairs: list[ProbabilityPair], event: Event, epsilon: Fraction, tight: bool = True
) -> Iterator[str]:
    """The enumerated delta lies between the accountant's two numbers; where it is no worst case, not above."""
    exact, (low, high) = least_delta(pairs, epsilon), delta_bounds(event, epsilon)
    if exact > Decimal(high) + _ROUNDING_ERROR:
        yield f"{name}: δ at ε = {epsilon} is {float(exact):.6g}, more than the claimed {high:.6g}"
    elif tight and exact < Decimal(low) - _ROUNDING_ERROR:
        yield f"{name}: δ at ε = {epsilon} is {float(exact):.6g}, less than the claimed {low:.6g}"


def _pure() -> Iterator[str]:
    for release in _releases():
        if release.name.startswith("Laplace"):
            claimed = decimal(Fraction(pure_epsilon(release.event)))
            law = {z: weight for z, weight in release.law.items() if abs(z) <= 20}
            worst = max((first / second).ln() for first, second in pairs_of(law, release.moved) if first and second)
            if abs(worst - claimed) > Decimal(10) ** -30:
                yield f"{release.name}: the largest loss is {float(worst):.6g}, and the event says {float(claimed):.6g}"


def _compositions() -> Iterator[str]:
    """Two releases, alike or not: the convolved losses are those of the composed event."""
    laplace = laplace_weights(Fraction(1, 2)), Laplace(1, Fraction(1, 2), _ADD).event
    gaussian = gaussian_weights(Fraction(1)), Gaussian(1, Fraction(1), _ADD).event
    cases: list[tuple[str, list[ProbabilityPair], Event]] = []
    first, second = (list(pairs_of(law, 1)) for law, _ in (laplace, gaussian))
    cases.append(("two Laplace releases", together(first, first), Repeated(laplace[1], 2)))
    cases.append(("Laplace and Gaussian", together(first, second), Composed((laplace[1], gaussian[1]))))
    response = _response(Fraction(1))
    cases.append(("two bits", together(response, response), Repeated(Pure(Fraction(1), _ADD), 2)))
    for name, pairs, event in cases:
        yield from _check_claim(name, pairs, event, Fraction(1, 2))
        yield from _check_claim(name, pairs, event, Fraction(3, 2))


def _response(epsilon: Fraction) -> list[ProbabilityPair]:
    truth = decimal(epsilon).exp() / (1 + decimal(epsilon).exp())
    return [(truth, 1 - truth), (1 - truth, truth)]


def _renyi_keys() -> Iterator[str]:
    """Keys are kept so that, except with δ' per key, neighbours have no larger Rényi loss than the event says."""
    for delta, groups, orders, losses, relation in (
        (Fraction(1, 50), 1, (3,), (Fraction(1, 2),), _ADD),
        (Fraction(1, 10**6), 3, (8, 23), (Fraction(1, 5), Fraction(1, 2)), _ADD),
        (Fraction(1, 1000), 2, (4,), (Fraction(1, 2),), Neighbours.REPLACE),
    ):
        selection = RenyiSelection(delta, groups, orders, losses, relation)
        chance = decimal(selection.delta_per_key)
        name = f"selection of keys at orders {orders} by {groups}"
        if 1 - (1 - chance) ** selection.touched > decimal(delta) + _ROUNDING_ERROR:
            yield f"{name}: the chances of {selection.touched} keys exceed δ"
        core, failures = separate(selection.event)
        if failures < delta:
            yield f"{name}: its event says δ = {failures}"
        rates = [decimal(selection.keep(units)) for units in range(selection.units_for("0.9999") + 9)]
        for order in orders:
            allowed = decimal(Fraction(core_loss(core, Fraction(order))) / selection.touched) + _ROUNDING_ERROR
            if any(_renyi_loss(less, more, chance, order) > allowed for less, more in pairwise(rates)):
                yield f"{name}: one unit more has a larger loss at order {order} than is charged"


def _renyi_loss(less: Decimal, more: Decimal, failing: Decimal, order: int) -> Decimal:
    """Return the Rényi loss between two coins, the larger of both directions, where each may fail its own way."""
    if more - less <= failing:
        return Decimal(0)
    one = ((more - failing) / (1 - failing), (1 - more) / (1 - failing))
    other = (less / (1 - failing), (1 - less - failing) / (1 - failing))
    if min(*one, *other) <= 0:
        return Decimal("Infinity")
    ways = ((one, other), (other, one))
    return max(
        sum((p**order * q ** (1 - order) for p, q in zip(*way, strict=True)), Decimal(0)).ln() for way in ways
    ) / (order - 1)


def _keys() -> Iterator[str]:
    """Keys are kept so that one unit more or less is within (ε', δ') per key, and δ' adds up to δ at most."""
    for epsilon, delta, groups, relation in (
        (Fraction(1), Fraction(1, 50), 1, _ADD),
        (Fraction(2), Fraction(1, 10**6), 3, _ADD),
        (Fraction(1), Fraction(1, 1000), 2, Neighbours.REPLACE),
    ):
        selection = OptimalSelection(epsilon, delta, groups, relation)
        touched = 2 * groups if relation is Neighbours.REPLACE else groups
        epsilon_per_key, chance = decimal(epsilon / touched), decimal(selection.delta_per_key)
        name = f"selection of keys at {epsilon}, {delta} by {groups}"
        if 1 - (1 - chance) ** touched > decimal(delta) + _ROUNDING_ERROR:
            yield f"{name}: the chances of {touched} keys exceed δ"
        if not separate(selection.event)[1] >= delta:
            yield f"{name}: its event says δ = {separate(selection.event)[1]}"
        keep_probabilities = [Decimal(selection.keep(units).bounds(_PMF_BITS)[1]) / 2**_PMF_BITS for units in range(40)]
        factor = epsilon_per_key.exp()
        for units, (less, more) in enumerate(pairwise(keep_probabilities)):
            if (
                more > factor * less + chance + _ROUNDING_ERROR
                or 1 - less > factor * (1 - more) + chance + _ROUNDING_ERROR
            ):
                yield f"{name}: {units} and {units + 1} units can be distinguished"
                break
    yield from _renyi_keys()
    for threshold in (Threshold.by_loss(1, "0.01", 1, 1, _ADD), Threshold.by_loss(2, "1e-6", 2, 3, _ADD, min_count=2)):
        law = laplace_weights(threshold.scale)
        reach = threshold.threshold - (threshold.sensitivity + threshold.min_count - 1)
        tail = sum((weight for z, weight in law.items() if z >= reach), Decimal(0))
        shown = 1 - (1 - tail) ** threshold.groups_per_unit
        if shown > decimal(separate(threshold.event)[1]) + _ROUNDING_ERROR:
            yield f"a threshold of {threshold.threshold}: a lonely key is shown more often than δ"


def _budgets() -> Iterator[str]:
    """Check that filters and planned queries stay within their (ε, δ)."""
    epsilon, delta = Fraction(3), Fraction(1, 1000)
    response, event = _response(Fraction(1, 2)), Pure(Fraction(1, 2), _ADD)
    budget, times = Filter(epsilon, delta), 0
    while budget.accepts(event) and times < 40:
        budget, times = budget.charge(event), times + 1
    if least_delta(_repeat_pairs(response, times), epsilon) > decimal(delta):
        yield f"a filter of ({epsilon}, {delta}) lets {times} releases of 1/2 through"
    full = Filter(epsilon, delta)
    try:
        for _ in range(3):
            full = full.charge(Approximate(Pure(Fraction(1, 10), _ADD), delta / 2))
    except BudgetExhausted:
        pass
    else:
        yield "a filter lets more δ through than it has"
    rho = concentrated_loss(Fraction(1), Fraction(1, 1000))
    if rho is None or least_delta(list(pairs_of(gaussian_weights(1 / (2 * rho)), 1)), Fraction(1)) > decimal(
        Fraction(1, 1000)
    ):
        yield "Gaussian noise planned for (1, 1/1000) costs more"


def _repeat_pairs(pairs: list[ProbabilityPair], times: int) -> list[ProbabilityPair]:
    """Return the pairs of repeated two-valued releases, by how many of them were the first value."""
    (p, q), (r, s) = pairs
    found, ways = [], 1
    for first in range(times + 1):
        found.append((ways * p**first * r ** (times - first), ways * q**first * s ** (times - first)))
        ways = ways * (times - first) // (first + 1)
    return found
