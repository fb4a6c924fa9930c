"""How fast is exact noise, next to numpy's insecure floats? (a million draws, same run, interleaved, best of 9)

Also in the same run: OpenDP's discrete Laplace on the same lattice, one draw at a time, and a scale never seen before.
"""

import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import opendp.prelude as dp

from sfumato.randomness.discrete_gaussian import DiscreteGaussian
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.source import system_source

COUNT = 1_000_000
ROUNDS = 9
OPENDP_COUNT = 10_000  # it needs seconds for a million; the ratio is per draw


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def interleaved(*works: Callable[[], object], rounds: int = ROUNDS) -> list[float]:
    """The best time of each, taken in turns, so that a noisy neighbour disturbs all alike."""
    runs = [[seconds(work) for work in works] for _ in range(rounds)]
    return [min(times) for times in zip(*runs, strict=True)]


def main() -> None:
    source = system_source()
    insecure = np.random.default_rng()
    print(f"{COUNT:,} draws: numpy's time / ours (above 1 is faster than numpy)")
    ratios = {}
    for scale in (Fraction(1, 2), Fraction(1), Fraction(10), Fraction(1000), Fraction(10**6)):
        law = DiscreteLaplace(scale)
        success = -np.expm1(-1 / float(scale))
        ours, laplace, geometric = interleaved(
            lambda law=law: law.draw(COUNT, source),  # type: ignore[misc]
            lambda scale=scale: insecure.laplace(0.0, float(scale), COUNT),  # type: ignore[misc]
            lambda success=success: (  # type: ignore[misc]
                insecure.geometric(success, COUNT) - insecure.geometric(success, COUNT)
            ),
        )
        ratios[scale] = laplace / ours
        against = f"{laplace / ours:5.2f}x laplace, {geometric / ours:5.2f}x geometric difference"
        print(f"  Laplace  scale {scale!s:>9}: {against}")
    for variance in (Fraction(100), Fraction(10**6)):
        gaussian = DiscreteGaussian(variance)
        ours, normal = interleaved(
            lambda gaussian=gaussian: gaussian.draw(COUNT, source),  # type: ignore[misc]
            lambda variance=variance: insecure.normal(0.0, float(variance) ** 0.5, COUNT),  # type: ignore[misc]
        )
        print(f"  Gaussian σ²    {variance!s:>9}: {normal / ours:5.2f}x normal")

    dp.enable_features("contrib")
    peer = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=10.0)
    zeros = [0] * OPENDP_COUNT
    exact = DiscreteLaplace(Fraction(10))
    ours, theirs = interleaved(lambda: exact.draw(OPENDP_COUNT * 20, source), lambda: peer(zeros), rounds=5)
    print(f"OpenDP's time / ours, per draw at scale 10: {theirs * 20 / ours:.0f}x")

    singles = [seconds(lambda: exact.draw(1, source)) for _ in range(2000)]
    thousand = DiscreteLaplace(Fraction(1000))
    thousand.draw(1, source)
    more = [seconds(lambda: thousand.draw(1, source)) for _ in range(2000)]
    print(
        f"one draw, scale cached: {np.median(singles) * 1e6:.1f} µs at scale 10, {np.median(more) * 1e6:.1f} µs at 1000"
    )

    fresh = [Fraction(10**6 * place + 1, 997) for place in range(1, 21)]
    prepare = max(seconds(lambda scale=scale: DiscreteLaplace(scale).draw(1, source)) for scale in fresh)  # type: ignore[misc]
    print(f"a new scale: at most {prepare * 1e3:.1f} ms")
    print(f"numpy laplace / exact laplace at scale 10 = {ratios[Fraction(10)]:.2f}x")


if __name__ == "__main__":
    main()
