"""What every law promises: the same bytes give the same samples, any bits end, a dying source gives nothing."""

import pickle
from fractions import Fraction
from time import process_time
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pytest
from tests.sources import HashSource, ScriptedSource, SourceDied

from sfumato.errors import BadParameter, EntropyFailed
from sfumato.randomness.bernoulli import Bernoulli, exp_minus
from sfumato.randomness.discrete_gaussian import DiscreteGaussian
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.geometric import Geometric
from sfumato.randomness.source import Source
from sfumato.randomness.uniform import UniformInteger

WIDE = Fraction(1 << 48)


class Law(Protocol):
    def draw(self, count: int, source: Source) -> npt.NDArray[Any]: ...


SCALES = [
    Fraction(text) for text in ("1/1000000", "1/100", "1/2", "1", "10", "100/7", "1000", "1000000", "1e9", "1e40")
]
LAWS: list[Law] = [
    *(Geometric(scale) for scale in SCALES),
    *(DiscreteLaplace(scale) for scale in [*SCALES, WIDE, WIDE + 1]),
    *(DiscreteGaussian(scale**2) for scale in [*SCALES, Fraction(32), WIDE, WIDE + 1, Fraction(10**400)]),
    *(UniformInteger(below) for below in (1, 2, 3, 1 << 16, (1 << 62) + 1, 1 << 63, (1 << 63) + 1, 10**30, 1 << 70)),
    Bernoulli(Fraction(1, 3)),
    Bernoulli(exp_minus(Fraction(1))),
]
each_law = pytest.mark.parametrize("law", LAWS, ids=lambda law: repr(law)[:60])


@each_law
def test_the_same_bytes_give_the_same_samples(law: Law) -> None:
    first, second = (law.draw(500, HashSource("same")) for _ in range(2))
    assert first.shape == (500,)
    assert first.tolist() == second.tolist()
    assert all(type(value) in (int, bool) for value in first.tolist())


@each_law
def test_zero_samples_are_an_empty_array_of_the_same_type(law: Law) -> None:
    empty = law.draw(0, HashSource(0))
    assert empty.shape == (0,)
    assert empty.dtype == law.draw(3, HashSource(0)).dtype


@each_law
@pytest.mark.parametrize("octet", [b"\x00", b"\xff"], ids=["zeros", "ones"])
@pytest.mark.parametrize("count", [1, 1000])
def test_bits_that_are_all_alike_end_at_once(law: Law, octet: bytes, count: int) -> None:
    law.draw(1, HashSource(0))  # tables
    begun = process_time()
    try:
        drawn = law.draw(count, ScriptedSource(b"", after=octet))
        assert len(set(drawn.tolist())) <= 2  # the signs of neighbours may differ
    except EntropyFailed:
        assert repr(law).startswith(("DiscreteLaplace", "Geometric", "DiscreteGaussian"))
        assert "Fraction(1, 10000" in repr(law)  # the outcome would be one of probability below e^-16384
    assert process_time() - begun < 0.5


@each_law
def test_a_source_that_dies_gives_nothing_and_its_exception_comes_through(law: Law) -> None:
    whole = ScriptedSource(HashSource(7).read(1 << 16), after=b"\x00")
    law.draw(100, whole)
    for share in (0, 1, whole.given // 2, whole.given - 1):
        if share < whole.given and law != UniformInteger(1):  # which needs no bits
            with pytest.raises(SourceDied):
                law.draw(100, ScriptedSource(HashSource(7).read(share)))


class Short:
    """A source that gives one byte less than it was asked for."""

    name = "short"

    def read(self, count: int) -> bytes:
        return HashSource(0).read(count)[1:]


@each_law
def test_a_source_that_gives_too_little_is_refused(law: Law) -> None:
    if law != UniformInteger(1):  # which needs no bits
        with pytest.raises(EntropyFailed):
            law.draw(100, Short())


@each_law
def test_laws_are_frozen_hashable_and_picklable(law: Law) -> None:
    twin = pickle.loads(pickle.dumps(law))
    assert twin == law
    assert hash(twin) == hash(law)
    with pytest.raises((AttributeError, TypeError)):
        law.scale = 3  # type: ignore[attr-defined]


@each_law
@pytest.mark.parametrize("count", [-1, 1.0, "3", None, True, Fraction(1, 2), np.float64(2)])
def test_a_count_that_is_none_is_refused(law: Law, count: Any) -> None:
    with pytest.raises(BadParameter):
        law.draw(count, HashSource(0))


@pytest.mark.parametrize("make", [Geometric, DiscreteLaplace, DiscreteGaussian])
@pytest.mark.parametrize(
    "bad",
    [
        0,
        -1,
        Fraction(-1, 3),
        0.5,
        float("nan"),
        float("inf"),
        True,
        "",
        "nan",
        "inf",
        "ten",
        "1/0",
        None,
        1j,
        [1],
        "1e99999",
    ],
    ids=repr,
)
def test_a_scale_that_is_none_is_refused(make: Any, bad: object) -> None:
    with pytest.raises(BadParameter):
        make(bad)


@pytest.mark.parametrize("law", [DiscreteLaplace(Fraction(3)), DiscreteGaussian(Fraction(3))], ids=repr)
@pytest.mark.parametrize("bad", [0, 1, -1, 2, float("nan"), float("inf"), True, "", "many", None])
def test_a_confidence_that_is_none_is_refused(law: Any, bad: object) -> None:
    with pytest.raises(BadParameter):
        law.margin(bad)


@pytest.mark.parametrize("make", [Geometric, DiscreteLaplace, lambda scale: DiscreteGaussian(scale**2)])
def test_samples_are_int64_up_to_a_scale_of_two_to_the_48_and_python_integers_beyond(make: Any) -> None:
    narrow, wide = make(WIDE).draw(200, HashSource(3)), make(WIDE + 1).draw(200, HashSource(3))
    assert narrow.dtype == np.int64
    assert wide.dtype == object
    assert all(type(value) is int for value in wide)
    # the same bits, nearly the same scale: nearly the same samples, so that neither kind wraps
    assert max(abs(int(a) - b) for a, b in zip(narrow, wide, strict=True)) < 1 << 32
    assert 1 << 44 < np.abs(narrow).mean() < 1 << 50


@pytest.mark.parametrize("law", [Geometric(Fraction(10**60)), DiscreteLaplace(Fraction(10**60))], ids=repr)
def test_scales_beyond_every_machine_word_are_drawn(law: Law) -> None:
    sizes = [abs(value) for value in law.draw(400, HashSource(5)).tolist()]
    assert 10**59 < sum(sizes) // 400 < 10**61
    assert all(value % (1 << 20) for value in sizes[:20])  # down to the last digit
