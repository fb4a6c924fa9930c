"""Integers of three limbs against Python's own."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sfumato.streams.limbs import add_noise_to_limbs, add_products, decay, sum_limbs, zeros

WIDE = st.integers(-(2**99), 2**99)


def limbs_of(values: list[int]) -> np.ndarray:
    split = [(value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF, value >> 64) for value in values]
    return np.array(split, dtype=np.int64).T


def value_of(limbs: np.ndarray) -> list[int]:
    return [int(high) * 2**64 + int(middle) * 2**32 + int(low) for low, middle, high in limbs.T]


@given(st.lists(st.tuples(WIDE, st.integers(0, 2**24 - 1)), min_size=1, max_size=5))
def test_decay_is_a_floor(pairs: list[tuple[int, int]]) -> None:
    values, shares = [value for value, _ in pairs], [share for _, share in pairs]
    found = decay(limbs_of(values), np.array(shares, dtype=np.int64))
    assert value_of(found) == [value * share >> 24 for value, share in pairs]


@given(WIDE, st.integers(0, 2**42), st.integers(-(2**40), 2**40))
def test_products_are_added_exactly(value: int, weight: int, factor: int) -> None:
    found = add_products(limbs_of([value]), np.array([weight]), np.array([factor]))
    assert value_of(found) == [value + weight * factor]
    assert ((found[:2] >= 0) & (found[:2] < 2**32)).all()


@given(st.lists(WIDE, min_size=1, max_size=60))
def test_sums_are_exact(values: list[int]) -> None:
    assert value_of(sum_limbs(limbs_of(values)[:, :, None])) == [sum(values)]


@given(
    st.lists(
        st.tuples(st.one_of(WIDE, st.integers(-(2**64), 2**64)), st.integers(-(2**62), 2**62)), min_size=1, max_size=4
    )
)
def test_noise_is_added_exactly_and_fits_where_it_can(pairs: list[tuple[int, int]]) -> None:
    values, noise = limbs_of([value for value, _ in pairs]), np.array([one for _, one in pairs], dtype=np.int64)
    expected = [value + one for value, one in pairs]
    found = add_noise_to_limbs(values, noise)
    assert found.tolist() == expected
    assert (found.dtype == np.int64) == all(-(2**63) <= value < 2**63 for value in expected)
    assert add_noise_to_limbs(values, noise.astype(object) * 2**70).tolist() == [
        value + one * 2**70 for value, one in pairs
    ]


def test_zeros_are_zero() -> None:
    assert value_of(zeros(3)) == [0, 0, 0]
