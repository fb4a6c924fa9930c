"""How many times slower than sfumato is dp-accounting in solving a history of distinct mechanisms for epsilon?

One run, one process, same events for both: real Gaussian and real Laplace noise with scales that all differ. sfumato
solves 10,000 of them; the ratio is taken where both finish, and the printed lines say how many that are. Both answers
are printed: sfumato's is an interval that holds the truth.
"""

import resource
import time
from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

import dp_accounting
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant

from sfumato.accounting.event import (
    Composed,
    Event,
    Neighbours,
    PoissonSampled,
    RealGaussianNoise,
    RealLaplaceNoise,
    Repeated,
)
from sfumato.accounting.pld import Pld, bounds

T = TypeVar("T")
AR = Neighbours.ADD_REMOVE
DELTA = 1e-6
LONG = 10_000
PATIENCE = 60.0  # seconds after which dp-accounting is given no further mechanism


def scale(i: int) -> Fraction:
    """Return a scale near 200 that no other mechanism has."""
    return Fraction(200_000 + 7 * i, 1000)


def ours(i: int) -> Event:
    """Return the i-th mechanism as an event of sfumato."""
    if i % 2:
        return RealGaussianNoise(Fraction(1), scale(i) ** 2, AR)
    return RealLaplaceNoise(Fraction(1), scale(i), AR)


def theirs(i: int) -> dp_accounting.DpEvent:
    """Return the same mechanism as an event of dp-accounting."""
    return (dp_accounting.GaussianDpEvent if i % 2 else dp_accounting.LaplaceDpEvent)(float(scale(i)))


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Return the seconds that the work took, and its result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def their_epsilon(count: int) -> tuple[float, float, int]:
    """Return seconds, epsilon and how many mechanisms dp-accounting composed before patience ran out."""
    start = time.perf_counter()
    accountant = PLDAccountant()
    done = 0
    while done < count and time.perf_counter() - start < PATIENCE:
        accountant.compose(theirs(done))
        done += 1
    return time.perf_counter() - start, accountant.get_epsilon(DELTA), done


def main() -> None:
    """Run everything once and print the ratio last."""
    history = Composed(tuple(ours(i) for i in range(LONG)))
    seconds, (lower, upper) = timed(lambda: bounds(history, DELTA))
    print(f"sfumato: {LONG:,} distinct mechanisms solved in {seconds:.3f} s, epsilon in [{lower:.7f}, {upper:.7f}]")
    accountant = Pld.of(history, DELTA)
    seconds, longer = timed(lambda: accountant.compose(ours(LONG)))
    answer, _ = timed(longer.bounds)
    print(f"sfumato: one more appended in {seconds * 1e3:.2f} ms, solved again in {answer * 1e3:.2f} ms")
    sampled = PoissonSampled(Fraction(256, 60000), RealGaussianNoise(Fraction(1), Fraction(121, 100), AR))
    seconds, (lower, upper) = timed(lambda: bounds(Repeated(sampled, 14_000), 1e-5))
    print(f"sfumato: DP-SGD, 14,000 steps, bracketed in {seconds:.3f} s, epsilon in [{lower:.6f}, {upper:.6f}]")
    print(f"sfumato: peak memory so far {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    slow, epsilon, done = their_epsilon(LONG)
    print(f"dp-accounting: {done} of these mechanisms in {slow:.1f} s, epsilon <= {epsilon:.7f}")
    part = Composed(tuple(ours(i) for i in range(done)))
    fast, (lower, upper) = timed(lambda: bounds(part, DELTA))
    print(f"sfumato: the same {done} in {fast:.3f} s, epsilon in [{lower:.7f}, {upper:.7f}]")
    print(f"dp-accounting / sfumato, {done} mechanisms = {slow / fast:.0f}x")


if __name__ == "__main__":
    main()
