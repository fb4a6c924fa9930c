"""Compositions to judge accountants by: some that were wrong or slow once, and random ones of every kind of event."""

from fractions import Fraction
from typing import cast

from hypothesis import strategies as st

from sfumato.accounting.event import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    Event,
    GaussianNoise,
    LaplaceNoise,
    Neighbours,
    Parallel,
    PoissonSampled,
    Pure,
    RealGaussianNoise,
    RealLaplaceNoise,
    Repeated,
)

AR = Neighbours.ADD_REMOVE
F = Fraction
HALF = RealGaussianNoise(F(1), F(2), AR)

FOUND: list[Event] = [
    # adding decides, and a failure that only the sampled meet is then no failure at all
    Composed(
        (
            PoissonSampled(F(9, 10), Approximate(Pure(F(1, 10), AR), F(1, 5))),
            PoissonSampled(F(9, 10), Pure(F(1, 2), AR)),
        )
    ),
    Composed((PoissonSampled(F(1, 2), Approximate(Pure(F(1), AR), F(1, 100))), Pure(F(1, 10), AR))),
    Repeated(PoissonSampled(F(1, 2), Approximate(HALF, F(1, 10))), 2),
    Composed((Parallel((Approximate(Pure(F(1), AR), F(1, 50)), HALF)), PoissonSampled(F(4, 5), Pure(F(1), AR)))),
    PoissonSampled(F(1, 3), Parallel((Approximate(Pure(F(1), AR), F(1, 50)), HALF))),
    # known by a bound only
    Composed((Concentrated(F(1, 2), AR), PoissonSampled(F(1, 10), RealGaussianNoise(F(1), F(1), AR)))),
    Repeated(PoissonSampled(F(1, 10), Concentrated(F(1, 2), AR)), 3),
    Composed((BoundedRange(F(1), AR), PoissonSampled(F(1, 4), BoundedRange(F(1), AR)))),
    Repeated(BoundedRange(F(1), AR), 2),
    # one release on a sample
    PoissonSampled(F(1, 2), Pure(F(1), AR)),
    PoissonSampled(F(1, 100), BoundedRange(F(1), AR)),
    PoissonSampled(F(1, 10), Concentrated(F(1, 8), AR)),
]

LEAVES: st.SearchStrategy[Event] = st.one_of(
    st.builds(lambda n: Pure(F(n, 20), AR), st.integers(1, 40)),
    st.builds(lambda d, n: LaplaceNoise(d, F(n, 2), AR), st.integers(1, 5), st.integers(2, 20)),
    st.builds(lambda d, n: GaussianNoise(d, F(n, 2), AR), st.sampled_from([1, 2, 5]), st.integers(2, 12)),
    st.builds(lambda n: RealLaplaceNoise(F(1), F(n, 4), AR), st.integers(2, 20)),
    st.builds(lambda n: RealGaussianNoise(F(1), F(n, 2), AR), st.integers(1, 40)),
    st.builds(lambda n: BoundedRange(F(n, 10), AR), st.integers(1, 20)),
    st.builds(lambda n: Concentrated(F(n, 40), AR), st.integers(1, 30)),
)
DELTAS = st.sampled_from([F(1, 10), F(1, 100), F(1, 10**5)])


def _around(inner: st.SearchStrategy[Event]) -> st.SearchStrategy[Event]:
    return st.one_of(
        inner,
        st.builds(lambda event, n: cast("Event", Approximate(event, F(1, n))), inner, st.sampled_from([4, 50, 10**4])),
        st.builds(lambda event, n: PoissonSampled(F(n, 20), event), inner, st.integers(1, 19)),
        st.builds(lambda a, b: Parallel((a, b)), inner, LEAVES),
    )


ONE_EVENT = _around(_around(LEAVES))
COMPOSITIONS: st.SearchStrategy[Event] = st.one_of(
    ONE_EVENT,
    st.builds(lambda a, b: Composed((a, b)), ONE_EVENT, ONE_EVENT),
    st.builds(lambda event: Repeated(event, 2), ONE_EVENT),
    st.builds(
        lambda rate, a, b: PoissonSampled(F(rate, 20), Composed((a, b))), st.integers(1, 19), _around(LEAVES), LEAVES
    ),
)
