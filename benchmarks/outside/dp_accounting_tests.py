"""How many of the numbers in dp_accounting's own tests does sfumato match or beat?

    python benchmarks/outside/dp_accounting_tests.py PATH

PATH is a checkout of google/differential-privacy; the packages of the `bench` extra must be installed. Its test files
run unchanged, with sfumato behind the names of its two accountants. Each number that a test compares with a number of
ours counts once: it agrees within the tolerance of the test, ours is tighter (smaller), or ours is looser. What has no
event in sfumato is skipped and listed.
"""

import importlib
import math
import sys
import unittest
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.accounting import pld, rdp
from sfumato.accounting.event import (
    Approximate,
    BestOfNegativeBinomial,
    BestOfPoisson,
    BoundedRange,
    Composed,
    Concentrated,
    Event,
    GaussianMixture,
    GaussianNoise,
    LaplaceBounded,
    LaplaceNoise,
    Neighbours,
    NonPrivate,
    PoissonSampled,
    Pure,
    RandomizedResponse,
    RealGaussianNoise,
    RealLaplaceNoise,
    Repeated,
    TreeAggregation,
    TruncatedPoissonSampled,
)

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
NOTHING = Composed(())
OUTCOMES: Counter[str] = Counter()
LOOSER: list[str] = []


class Number(float):
    """A number that sfumato computed; arithmetic makes it a plain float."""


def exact(value: float) -> Fraction:
    return Fraction(repr(float(value)))


def translated(event: Any, rdp_module: Any, relation: Neighbours = ADD) -> Event:
    """Return the event of sfumato with the same meaning, or skip the test."""

    def inner(one: Any) -> Event:
        return translated(one, rdp_module, relation)

    kind = type(event).__name__.removesuffix("DpEvent")
    match kind:
        case "NoOp":
            return NOTHING
        case "NonPrivate":
            return NonPrivate(relation)
        case "Gaussian":
            if event.noise_multiplier == 0:
                return NonPrivate(relation)
            return RealGaussianNoise(Fraction(1), exact(event.noise_multiplier) ** 2, relation)
        case "Laplace":
            if event.noise_multiplier == 0:
                return NonPrivate(relation)
            return RealLaplaceNoise(Fraction(1), exact(event.noise_multiplier), relation)
        case "DiscreteLaplace":
            if event.noise_parameter == 0:
                return NonPrivate(relation)
            return LaplaceNoise(event.sensitivity, 1 / exact(event.noise_parameter), relation)
        case "DiscreteGaussian":
            return GaussianNoise(round(event.sensitivity**2), exact(event.sigma) ** 2, relation)
        case "EpsilonDelta":
            core: Event = Pure(exact(event.epsilon), relation) if event.epsilon else NOTHING
            return Approximate(core, exact(event.delta)) if event.delta else core
        case "ZCDp" if event.xi == 0:
            return Concentrated(exact(event.rho), relation)
        case "ExponentialMechanism":
            return BoundedRange(exact(event.epsilon), relation)
        case "PermuteAndFlip":
            return LaplaceBounded(exact(event.epsilon), relation)
        case "RandomizedResponse" if relation is REPLACE and event.num_buckets > 1:
            if event.noise_parameter == 0:
                return NonPrivate(relation)
            epsilon = math.log(event.num_buckets / event.noise_parameter - event.num_buckets + 1)
            return RandomizedResponse(exact(epsilon), event.num_buckets, REPLACE)
        case "MixtureOfGaussians":
            if event.standard_deviation == 0:
                return NOTHING if max(event.sensitivities) == 0 else NonPrivate(relation)
            return GaussianMixture(
                exact(event.standard_deviation) ** 2,
                tuple(map(exact, event.sensitivities)),
                tuple(map(exact, event.sampling_probs)),
                relation,
            )
        case "SelfComposed":
            return Repeated(inner(event.event), event.count)
        case "Composed":
            return Composed(tuple(inner(one) for one in event.events))
        case "PoissonSampled" if relation is ADD:
            if event.sampling_probability == 0:
                return NOTHING
            return PoissonSampled(exact(event.sampling_probability), inner(event.event))
        case "TruncatedSubsampledGaussian" if relation is ADD:
            noise = RealGaussianNoise(Fraction(1), exact(event.noise_multiplier) ** 2, ADD)
            rate, units, limit = exact(event.sampling_probability), event.dataset_size, event.truncated_batch_size
            return TruncatedPoissonSampled(rate, units, limit, noise)
        case "SingleEpochTreeAggregation":
            if event.noise_multiplier <= 0:
                raise unittest.SkipTest("no noise")
            steps = (event.step_counts,) if np.isscalar(event.step_counts) else tuple(event.step_counts)
            noise = RealGaussianNoise(Fraction(1), exact(event.noise_multiplier) ** 2, relation)
            return TreeAggregation(noise, tuple(map(int, steps)))
        case "RepeatAndSelect":
            if event.shape == math.inf:
                return BestOfPoisson(exact(event.mean), inner(event.event))
            stopping = rdp_module._gamma_truncated_negative_binomial(event.shape, event.mean)
            stop = Fraction(1) if event.mean == 1 else exact(stopping)
            return BestOfNegativeBinomial(stop, exact(event.shape), inner(event.event))
        case _:
            raise unittest.SkipTest(f"no event for {kind} under {relation}")


def stand_ins(accountant: Any, pld_module: Any, rdp_module: Any) -> None:
    """Put sfumato behind the names of both accountants."""
    relations = accountant.NeighboringRelation

    class Composing:
        """What both have in common: a list of events."""

        _relation: Any
        _events: tuple[Event, ...]

        def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
            refused = super()._maybe_compose(event, count, False)  # type: ignore[misc]
            if refused is None and do_compose:
                relation = REPLACE if self._relation is relations.REPLACE_ONE else ADD
                ours = translated(event, rdp_module, relation)
                self._events = (*self._events, ours if count == 1 else Repeated(ours, count))
            return refused

        @property
        def _event(self) -> Event:
            return Composed(self._events)

    class Pld(Composing, pld_module.PLDAccountant):  # type: ignore[misc]
        def __init__(self, neighboring_relation: Any = relations.ADD_OR_REMOVE_ONE, **given: Any) -> None:
            super().__init__(neighboring_relation, **given)
            self._relation, self._events = neighboring_relation, ()

        def get_epsilon(self, target_delta: float) -> float:
            return Number(pld.bounds(self._event, exact(target_delta))[1])

        def get_delta(self, target_epsilon: float) -> float:
            return Number(pld.delta_bounds(self._event, exact(target_epsilon))[1])

    class Rdp(Composing, rdp_module.RdpAccountant):  # type: ignore[misc]
        def __init__(self, orders: Any = None, neighboring_relation: Any = relations.ADD_OR_REMOVE_ONE) -> None:
            super().__init__(orders, neighboring_relation)
            self._relation, self._events = neighboring_relation, ()

        @property
        def _rdp(self) -> Any:
            if "_relation" not in self.__dict__:
                return self.__dict__["_theirs"]
            return [Number(rdp.loss(self._event, exact(order))) for order in self._orders]

        @_rdp.setter
        def _rdp(self, value: Any) -> None:
            self.__dict__["_theirs"] = value

        def get_epsilon(self, target_delta: float) -> float:
            return Number(rdp.epsilon(self._event, exact(target_delta)))

        def get_delta(self, target_epsilon: float) -> float:
            return Number(rdp.delta(self._event, exact(target_epsilon)))

    pld_module.PLDAccountant, rdp_module.RdpAccountant = Pld, Rdp


def compared(test: unittest.TestCase, first: Any, second: Any, places: int | None, delta: float | None) -> None:
    """Count one comparison of a number of ours with one of theirs."""
    if isinstance(second, Number) and not isinstance(first, Number):
        first, second = second, first
    allowed = delta if delta is not None else 0.5 * 10.0 ** -(7 if places is None else places)
    same = first == second or abs(first - second) <= allowed
    outcome = "agrees" if same else "tighter" if first < second else "looser"
    OUTCOMES[outcome] += 1
    if outcome != "agrees":
        LOOSER.append(f"{outcome}: {test.id().rsplit('.', 1)[-1]}: ours {float(first):.9g}, theirs {float(second):.9g}")


def watch() -> None:
    """Count comparisons with numbers of ours; all others are checked as usual."""
    case: Any = unittest.TestCase
    almost, equal = case.assertAlmostEqual, case.assertEqual

    def watched(
        test: Any, first: Any, second: Any, places: int | None = None, msg: Any = None, delta: float | None = None
    ) -> None:
        if isinstance(first, Number) or isinstance(second, Number):
            compared(test, first, second, places, delta)
        else:
            almost(test, first, second, places, msg, delta)

    def watched_equal(test: Any, first: Any, second: Any, msg: Any = None) -> None:
        if isinstance(first, Number) or isinstance(second, Number):
            compared(test, first, second, None, 1e-9)
        else:
            equal(test, first, second, msg)

    case.assertAlmostEqual, case.assertEqual = watched, watched_equal


def main() -> None:
    sys.path.insert(0, str(Path(sys.argv[1]) / "python" / "dp_accounting"))
    package = "dp_accounting"
    accountant = importlib.import_module(f"{package}.privacy_accountant")
    pld_module = importlib.import_module(f"{package}.pld.pld_privacy_accountant")
    rdp_module = importlib.import_module(f"{package}.rdp.rdp_privacy_accountant")
    stand_ins(accountant, pld_module, rdp_module)
    watch()
    names = [f"{package}.pld.pld_privacy_accountant_test", f"{package}.rdp.rdp_privacy_accountant_test"]
    result = unittest.TextTestRunner(verbosity=0, stream=sys.stderr).run(
        unittest.defaultTestLoader.loadTestsFromNames(names)
    )
    print(f"{sum(OUTCOMES.values())} numbers compared: {dict(OUTCOMES)}")
    for line in LOOSER:
        print(" ", line)
    for reason, times in Counter(reason for _, reason in result.skipped).items():
        print(f"  skipped {times}: {reason}")
    stopped = [test.id().rsplit(".", 1)[-1] for test, _ in (*result.failures, *result.errors)]
    print(f"  other checks of theirs that do not apply or do not hold: {stopped}")


if __name__ == "__main__":
    main()
