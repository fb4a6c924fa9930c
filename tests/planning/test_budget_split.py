"""Shares sum to one exactly, and no other split errs noticeably less."""

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.planning.budget_split import GAUSSIAN_ROOT, LAPLACE_ROOT, shares

WEIGHTS = st.lists(st.fractions(Fraction(1, 1000), 1000, max_denominator=1000), min_size=1, max_size=12)
ROOTS = (LAPLACE_ROOT, GAUSSIAN_ROOT)


def _error(weights: list[Fraction], split: tuple[Fraction, ...], root: int) -> Fraction:
    return sum((weight / share ** (root - 1) for weight, share in zip(weights, split, strict=True)), Fraction(0))


@pytest.mark.parametrize("root", ROOTS)
@given(weights=WEIGHTS)
def test_shares_are_positive_and_sum_to_one(root: int, weights: list[Fraction]) -> None:
    split = shares(weights, root)
    assert sum(split) == 1
    assert all(share > 0 for share in split)
    assert all(share.denominator <= 64 * len(weights) for share in split)


@pytest.mark.parametrize("root", ROOTS)
def test_equal_weights_get_equal_shares(root: int) -> None:
    assert shares([Fraction(7)] * 3, root) == (Fraction(1, 3),) * 3


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("weights", [(1, 1, 1), (1, 4, 9), (1, Fraction(1, 4), 100), (5, 1, 1)])
def test_no_split_on_a_fine_grid_errs_noticeably_less(root: int, weights: tuple[Fraction | int, ...]) -> None:
    exact = [Fraction(weight) for weight in weights]
    ours = _error(exact, shares(exact, root), root)
    for first, second in product(range(1, 40), repeat=2):
        if first + second < 40:
            other = (Fraction(first, 40), Fraction(second, 40), Fraction(40 - first - second, 40))
            assert ours <= _error(exact, other, root) * Fraction(1005, 1000)
