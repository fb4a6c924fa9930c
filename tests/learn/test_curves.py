"""Curves of what epsilon bought: more epsilon and more rows score better, and they can be drawn."""

import numpy as np
import pytest

from sfumato.errors import BadParameter
from sfumato.learn.curves import epsilon_curve, learning_curve
from sfumato.learn.linear_regression import LinearRegression
from sfumato.learn.scaler import StandardScaler

GENERATOR = np.random.default_rng(4)
ROWS = GENERATOR.uniform(0, 1, (2000, 2))
TARGET = ROWS @ [1.0, -2.0] + GENERATOR.normal(0, 0.2, 2000)
LINE = LinearRegression(epsilon="1", delta="1e-5", bounds=(0, 1), bounds_y=(-2, 2))


def test_more_epsilon_and_more_rows_score_better_and_can_be_drawn() -> None:
    """Scores at both ends differ by far more than noise does: an ordering fails with probability below 1e-9."""
    prices = epsilon_curve(LINE, ROWS, TARGET, epsilons=["0.01", 10], repeats=3)
    sizes = learning_curve(LINE, ROWS, TARGET, sizes=[20, 1600], repeats=3)
    for curve in (prices, sizes):
        (_, worse, least, _), (_, better, _, greatest) = curve.points
        assert least <= worse < 0.8 < better <= greatest
        assert curve.plot().to_dict()["layer"]
    assert [point[0] for point in prices.points] == [0.01, 10]
    assert [point[0] for point in sizes.points] == [20, 1600]
    assert "epsilon" in str(prices)
    assert LINE.epsilon == "1"
    assert not hasattr(LINE, "event_")


def test_what_has_no_score_or_no_rows_has_no_curve() -> None:
    with pytest.raises(BadParameter):
        epsilon_curve(LINE, ROWS[:5], TARGET[:5], epsilons=[1])
    with pytest.raises(BadParameter):
        epsilon_curve(StandardScaler(epsilon=1, delta="1e-5", bounds=(0, 1)), ROWS, TARGET, epsilons=[1])
    with pytest.raises(BadParameter):
        learning_curve(LINE, ROWS, TARGET, sizes=[0])
