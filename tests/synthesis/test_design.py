"""The event is fixed before data is read, from sizes and price alone; its certified epsilon is what was asked for."""

from fractions import Fraction
from math import sqrt

import pytest

from sfumato.accounting import pld
from sfumato.accounting.event import Composed, GaussianNoise, Neighbours
from sfumato.errors import BadParameter
from sfumato.synthesis.design import (
    MAX_MARGINAL_CELLS,
    Design,
    all_marginals,
    all_pairs,
    marginal_shares,
    read_price,
    sensitivity_squared,
)

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE


def make_design(
    sizes: tuple[int, ...], epsilon: object, delta: object, rows: int, neighbours: Neighbours
) -> tuple[Design, Fraction, Fraction]:
    """Return the design for all columns and all pairs, with epsilon and delta as they were read."""
    price, allowed = read_price(epsilon, delta)
    return all_pairs(sizes, price, allowed, rows, neighbours), price, allowed


@pytest.mark.parametrize(
    ("sizes", "epsilon", "delta", "rows", "neighbours"),
    [
        ((10, 19, 2, 2, 2, 2, 10, 10, 10), "1", "1e-5", 1, ADD),
        ((5,), 1, 1e-6, 1, ADD),
        ((3, 4), 10, "1e-6", 1, ADD),
        ((3, 4), 100, "1e-6", 1, ADD),
        ((16, 8, 16), "0.1", "1e-9", 20, ADD),
        ((16, 8, 16), "1", "1e-6", 20, REPLACE),
        ((2,) * 30, "3", "1e-6", 3, REPLACE),
    ],
)
def test_the_certified_loss_is_at_most_the_asked_one_and_uses_it(
    sizes: tuple[int, ...], epsilon: object, delta: object, rows: int, neighbours: Neighbours
) -> None:
    design, price, allowed = make_design(sizes, epsilon, delta, rows, neighbours)
    upper = Fraction(pld.bounds(design.event, allowed)[1])
    assert Fraction(97, 100) * price <= upper <= price
    assert isinstance(design.event, Composed)
    assert [event.sigma_squared for event in design.event.events if isinstance(event, GaussianNoise)] == list(
        design.sigma_squared
    )
    moved = {event.sensitivity_squared for event in design.event.events if isinstance(event, GaussianNoise)}
    assert moved == {rows**2 * (2 if neighbours is REPLACE else 1)}


def test_the_exact_gaussian_curve_is_met() -> None:
    design, _, _ = make_design((8, 8, 8, 8, 8), 1, "1e-6", 1, ADD)
    mu = sqrt(sum(1 / variance for variance in design.sigma_squared))
    assert abs(mu - 0.236704) < 1e-4


def test_a_tenth_goes_to_columns_and_pairs_share_the_rest_by_cells() -> None:
    parts = marginal_shares((2, 4, 16))
    assert sum(parts) == 1
    assert parts[:3] == (Fraction(1, 30),) * 3
    ratio = float(parts[5] / parts[3])  # 64 cells against 8
    assert abs(ratio - 8 ** (2 / 3)) < 1e-4
    assert marginal_shares((7,)) == (Fraction(1),)


def test_all_columns_and_pairs_are_measured() -> None:
    assert all_marginals(2) == ((0,), (1,), (0, 1))
    assert len(all_marginals(9)) == 45


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (1, 0),
        (0, "1e-6"),
        (-1, "1e-6"),
        (1, 1),
        (1, -1),
        ("x", "1e-6"),
        (float("nan"), "1e-6"),
        (1, None),
        (10**9, "1e-6"),
    ],
)
def test_prices_without_a_meaning_are_refused(epsilon: object, delta: object) -> None:
    with pytest.raises(BadParameter):
        make_design((2, 2), epsilon, delta, 1, ADD)


def test_too_many_cells_are_refused_from_their_number() -> None:
    with pytest.raises(BadParameter, match="too many cells"):
        make_design((1001, 1000), 1, "1e-6", 1, ADD)
    with pytest.raises(BadParameter, match="too many cells"):
        make_design((500,) * 10, 1, "1e-6", 1, ADD)
    make_design((1000, MAX_MARGINAL_CELLS // 1000), 1, "1e-6", 1, ADD)


def test_one_person_reaches_the_square_of_their_rows_and_twice_that_if_replaced() -> None:
    assert [sensitivity_squared(rows, ADD) for rows in (1, 2, 20)] == [1, 4, 400]
    assert [sensitivity_squared(rows, REPLACE) for rows in (1, 2, 20)] == [2, 8, 800]
