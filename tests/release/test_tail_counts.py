"""How many people lie above a level, judged from noisy people. The bits of the noise are fixed."""

import numpy as np
import pytest

from sfumato.release.bounding.tail_counts import estimate_tail_counts

LEVELS = np.array([2.0**place for place in range(13)])
WIDTHS = np.diff(np.concatenate([[0.0], LEVELS]))


def _people(totals: np.ndarray) -> np.ndarray:
    reached = np.diff([0.0, *(np.minimum(totals, level).sum() for level in LEVELS)]) / WIDTHS
    return np.asarray(reached - np.append(reached[1:], 0.0))


def _above(totals: np.ndarray, level: int, scale: float, draws: int = 12) -> np.ndarray:
    """Return what people seem to have above a level, over several draws of noise."""
    rng = np.random.default_rng(7)
    exact = _people(totals)
    found = [
        estimate_tail_counts(exact + rng.laplace(0, scale, len(LEVELS)), LEVELS, scale).median for _ in range(draws)
    ]
    return np.array([(WIDTHS * one)[level + 1 :].sum() for one in found])


@pytest.mark.parametrize("power", [1.2, 1.6])
def test_a_heavy_tail_goes_on_where_noise_hides_it(power: float) -> None:
    places = (np.arange(20_000) + 0.5) / 20_000
    totals = np.minimum(np.floor(places ** (-1 / power)), 4096)
    truth = np.maximum(totals - 256, 0).sum()
    assert truth / 3 < np.median(_above(totals, 8, 5.0)) < 3 * truth


@pytest.mark.parametrize("totals", [np.full(4000, 10.0), 1.0 + np.arange(5000) % 50], ids=["equal", "uniform"])
def test_noise_alone_puts_nobody_far_above_everybody_else(totals: np.ndarray) -> None:
    assert np.median(_above(totals, 7, 5.0)) == 0


def test_many_people_far_above_the_others_are_not_taken_for_noise() -> None:
    totals = np.concatenate([np.ones(3000), np.full(500, 900.0)])
    assert np.median(_above(totals, 0, 25.0)) == pytest.approx(500 * 899, rel=0.3)


def test_without_noise_everybody_is_found() -> None:
    totals = 1.0 + np.arange(5000) % 50
    found = estimate_tail_counts(_people(totals), LEVELS, 1e-6)
    reached = np.cumsum(_people(totals)[::-1])[::-1]
    assert found.median == pytest.approx(reached, rel=0.2, abs=1)
    assert np.isfinite(found.mean).all()


def test_few_people_who_have_about_the_same_are_not_taken_for_noise() -> None:
    """300 people have 40 rows each below a cap of 50, and noise of 50 people is expected; here none is drawn."""
    found = estimate_tail_counts(np.array([0.0, 0, 0, 0, 0, 167, 133]), np.array([1.0, 2, 4, 8, 16, 32, 50]), 50.0)
    assert (found.median[:-1] > 100).all()
    assert (found.mean < 300).all()
