"""Laplace, Gaussian and the clamped geometric mechanism: shapes, exact sums, margins, refusals."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from tests.sources import HashSource, ScriptedSource, SourceDied

from sfumato.accounting.event import GaussianNoise, LaplaceNoise, Neighbours
from sfumato.errors import Refusal
from sfumato.mechanisms.answers import add_noise, integer_answers
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.truncated_geometric import TruncatedGeometric
from sfumato.randomness.discrete_gaussian import DiscreteGaussian
from sfumato.randomness.discrete_laplace import DiscreteLaplace

ADD = Neighbours.ADD_REMOVE
LAPLACE = Laplace(2, Fraction(7, 2), ADD)
GAUSSIAN = Gaussian(4, Fraction(50), ADD)
TRUNCATED = TruncatedGeometric(1, Fraction(5), 0, 100, ADD)
ALL: tuple[Any, ...] = (LAPLACE, GAUSSIAN, TRUNCATED)


@pytest.mark.parametrize("mechanism", ALL, ids=repr)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 4), (2, 0, 5), (2, 3, 4)])
def test_the_answer_has_the_shape_of_the_question(mechanism: Any, shape: tuple[int, ...]) -> None:
    released = mechanism.release(np.full(shape, 50), HashSource(1))
    assert released.shape == shape
    assert released.dtype == np.int64


def test_each_value_gets_its_own_noise() -> None:
    values = np.arange(1000)
    assert (LAPLACE.release(values, HashSource(2)) - values).tolist() == DiscreteLaplace(Fraction(7, 2)).draw(
        1000, HashSource(2)
    ).tolist()
    assert (GAUSSIAN.release(values, HashSource(2)) - values).tolist() == DiscreteGaussian(Fraction(50)).draw(
        1000, HashSource(2)
    ).tolist()


@pytest.mark.parametrize("mechanism", ALL, ids=repr)
def test_the_same_bits_move_neighbouring_answers_alike(mechanism: Any) -> None:
    """The noise does not look at the data: it is the same for other data, and so is the number of bits drawn."""
    one, other = (mechanism.unclamped if mechanism is TRUNCATED else mechanism for _ in range(2))
    left, right = ScriptedSource(b"", after=b"\x5a\x13\xc7"), ScriptedSource(b"", after=b"\x5a\x13\xc7")
    values = np.array([3, 10**15, -7, 0])
    shifted = values + np.array([1, -1, 2, 10**12])
    assert (one.release(values, left) - values).tolist() == (other.release(shifted, right) - shifted).tolist()
    assert left.given == right.given


@pytest.mark.parametrize("mechanism", ALL, ids=repr)
def test_a_source_that_dies_leaves_no_answer(mechanism: Any) -> None:
    with pytest.raises(SourceDied):
        mechanism.release(np.arange(100), ScriptedSource(b"\x01" * 50))


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**62), 2**62)), max_size=20))
def test_sums_are_exact_at_every_size(pairs: list[tuple[int, int]]) -> None:
    values = np.array([value for value, _ in pairs], dtype=np.int64)
    noise = np.array([drawn for _, drawn in pairs], dtype=np.int64)
    total = add_noise(values, noise)
    exact = [value + drawn for value, drawn in pairs]
    assert total.tolist() == exact
    fits = all(-(2**63) <= number < 2**63 for number in exact)
    assert total.dtype == (np.int64 if fits else object)


def test_python_integers_beyond_64_bits_are_answers_too() -> None:
    released = LAPLACE.release([2**80, -(2**80)], HashSource(3))
    assert abs(int(released[0]) - 2**80) < 1000
    assert abs(int(released[1]) + 2**80) < 1000
    assert integer_answers(np.array([2**64 - 1], dtype=np.uint64))[0] == 2**64 - 1
    wide = Laplace(1, Fraction(2) ** 60, ADD).release(np.zeros(50, dtype=np.int64), HashSource(4))
    assert any(abs(int(value)) > 2**58 for value in wide)


@pytest.mark.parametrize("values", [[-1, 2**63], [1, 2**63], [2**63, 2**64], [[0, 2**63], [-1, 5]]], ids=repr)
def test_whether_a_list_is_accepted_does_not_depend_on_how_large_its_integers_are(values: list[Any]) -> None:
    exact = np.array(values, dtype=object)
    for mechanism in (LAPLACE, Gaussian(1, Fraction(100), ADD)):
        released = mechanism.release(values, HashSource("size"))
        assert released.shape == exact.shape
        assert max(abs(int(noise)) for noise in (released.astype(object) - exact).flat) < 1000


@pytest.mark.parametrize("value", [5, 2**63 - 1, 2**70, np.array(2**63 - 1)], ids=repr)
@pytest.mark.parametrize("scale", [Fraction(10), Fraction(2) ** 60], ids=str)
def test_a_single_number_keeps_its_shape_and_does_not_wrap(value: Any, scale: Fraction) -> None:
    plain = Laplace(1, scale, ADD)
    clamped = TruncatedGeometric(1, scale, 0, 2**80, ADD)
    for seed in range(8):
        released = plain.release(value, HashSource(seed))
        assert released.shape == ()
        assert abs(int(released) - int(value)) < 100 * scale
        assert clamped.release(value, HashSource(seed)).shape == ()


@pytest.mark.parametrize(
    "values",
    [[1.0, 2.0], 0.5, [True, False], ["1"], [None], [[1], [2, 3]], [float("nan")], [1, 2.5], {"a": 1}, "12"],
    ids=repr,
)
def test_what_is_not_an_integer_array_is_refused_without_repeating_it(values: object) -> None:
    for mechanism in ALL:
        with pytest.raises(Refusal, match="integer") as refusal:
            mechanism.release(values, HashSource(5))
        assert "2.5" not in str(refusal.value)


@pytest.mark.parametrize("bad", [0, -1, Fraction(-1, 3), 0.5, float("nan"), float("inf"), "x", None, True], ids=repr)
def test_bad_noise_is_refused(bad: Any) -> None:
    for make in (
        lambda: Laplace(1, bad, ADD),
        lambda: Gaussian(1, bad, ADD),
        lambda: TruncatedGeometric(1, bad, 0, 1, ADD),
    ):
        with pytest.raises(Refusal):
            make()


@pytest.mark.parametrize("bad", [0, -1, 1.0, Fraction(1, 2), None, True, "1"], ids=repr)
def test_bad_sensitivity_is_refused(bad: Any) -> None:
    for make in (lambda: Laplace(bad, Fraction(1), ADD), lambda: Gaussian(bad, Fraction(1), ADD)):
        with pytest.raises(Refusal):
            make()


def test_the_neighbour_relation_is_mandatory_and_read() -> None:
    with pytest.raises(TypeError):
        Laplace(1, Fraction(1))  # type: ignore[call-arg]
    with pytest.raises(Refusal, match="add-remove"):
        Laplace(1, Fraction(1), "sideways")  # type: ignore[arg-type]
    assert Laplace(1, Fraction(1), "replace").neighbours is Neighbours.REPLACE  # type: ignore[arg-type]


def test_events_say_what_was_drawn() -> None:
    assert LAPLACE.event == LaplaceNoise(2, Fraction(7, 2), ADD)
    assert GAUSSIAN.event == GaussianNoise(4, Fraction(50), ADD)
    assert TRUNCATED.event == LaplaceNoise(1, Fraction(5), ADD)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(10), Fraction(12345, 7)], ids=str)
@pytest.mark.parametrize("beta", [Fraction(1, 2), Fraction(1, 20), Fraction(1, 10**6)], ids=str)
def test_accuracy_theorem_holds_exactly_on_the_lattice(scale: Fraction, beta: Fraction) -> None:
    """P[|error| >= s ln(1/β)] <= 2β / (1 + x): the textbook's β, times what a lattice point costs."""
    with mp.workdps(60):
        x = mp.exp(-mpf(scale.denominator) / scale.numerator)
        reach = int(mp.ceil(-mp.log(mpf(beta.numerator) / beta.denominator) * scale.numerator / scale.denominator))
        low, _ = DiscreteLaplace(scale).upper_tail(max(reach, 1), 300)
        assert 2 * mpf(low) / mpf(2) ** 300 <= 2 * mpf(beta.numerator) / beta.denominator / (1 + x)


def test_clamping_stays_in_the_range_and_never_moves_away() -> None:
    values = np.concatenate([np.zeros(500, dtype=np.int64), np.full(500, 100), np.arange(101)])
    clamped = TRUNCATED.release(values, HashSource(6))
    plain = TRUNCATED.unclamped.release(values, HashSource(6))
    assert clamped.min() == 0
    assert clamped.max() == 100
    assert (np.abs(clamped - values) <= np.abs(plain - values)).all()


def test_an_empty_range_is_refused_and_a_point_is_free_of_error() -> None:
    with pytest.raises(Refusal, match="empty"):
        TruncatedGeometric(1, Fraction(1), 5, 4, ADD)
    point = TruncatedGeometric(1, Fraction(100), 5, 5, ADD)
    assert point.margin(Fraction(99, 100)) == 0
    assert point.release([5, 5, 5], HashSource(7)).tolist() == [5, 5, 5]


def test_ranges_beyond_64_bits_clamp_exactly() -> None:
    wide = TruncatedGeometric(1, Fraction(3), 0, 2**100, ADD)
    assert wide.release([2**100, 2**100], HashSource(8)).max() <= 2**100
