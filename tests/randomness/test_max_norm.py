"""Noise by the largest part: the law of the sampler's parts, exactly, against the law's definition."""

from collections import Counter
from fractions import Fraction
from itertools import product
from math import comb, prod
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.stats import chi2

from sfumato.errors import BadParameter
from sfumato.lab.generators.seeded import Seeded
from sfumato.randomness.max_norm import MaxNormLaw, _radius_weights
from sfumato.randomness.selection import WORD_MASK, uniform_below_each

LAWS = (
    MaxNormLaw((1, 2), Fraction(1)),
    MaxNormLaw((3, 1, 2), Fraction(1, 2)),
    MaxNormLaw((5,), Fraction(1, 10)),
    MaxNormLaw((1, 7), Fraction(9)),
)


def defined(law: MaxNormLaw, radii: int = 700) -> tuple[Any, Any]:
    """The sum of all weights, and one step of the norm as a factor, from the definition."""
    base = mp.exp(-mpf(law.rate.numerator) / law.rate.denominator / law.steps)
    boxes = [prod(2 * (radius * side // law.steps) + 1 for side in law.sides) for radius in range(radii)]
    sizes = [size - (boxes[radius - 1] if radius else 0) for radius, size in enumerate(boxes)]
    return mp.fsum(base**radius * size for radius, size in enumerate(sizes)), base


def _inside(law: MaxNormLaw, part: int, reach: int, base: Any) -> Any:
    """The sum of the weights where one part stays within ±reach."""
    found, before, weight = mpf(0), 0, mpf(1)
    for radius in range(700):
        box = [2 * (radius * side // law.steps) + 1 for side in law.sides]
        box[part] = min(box[part], 2 * reach + 1)
        size = prod(box)
        found, before, weight = found + weight * (size - before), size, weight * base
    return found


def norm(law: MaxNormLaw, point: tuple[int, ...]) -> int:
    return max(-(-law.steps * abs(part) // side) for part, side in zip(point, law.sides, strict=True))


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_a_radius_is_drawn_by_the_number_of_integers_in_its_box(law: MaxNormLaw) -> None:
    """An order, and as many geometric numbers and one more, against e^(-rate·radius) times the size of the box."""
    parts, bits = len(law.sides), 300
    with mp.workdps(50):
        _, base = defined(law, 1)
        y = base**law.steps
        weights = [
            mpf(sum(one.bounds(bits))) / 2 ** (bits + 1) for one in _radius_weights(law.sides, law.rate, law.steps)
        ]
        found, expected = [], []
        for rest, k in product(range(law.steps), range(6)):
            chances = [comb(k, order) * (1 - y) ** (order + 1) * y ** (k - order) for order in range(parts + 1)]
            own = weights[rest * (parts + 1) : (rest + 1) * (parts + 1)]
            found.append(mp.fsum(one * chance for one, chance in zip(own, chances, strict=True) if chance))
            box = prod(2 * (side * (rest + law.steps * k) // law.steps) + 1 for side in law.sides)
            expected.append(box * base ** (rest + law.steps * k))
        ratios = [one / other for one, other in zip(found, expected, strict=True)]
        assert max(ratios) / min(ratios) - 1 < mpf(10) ** -40


@pytest.mark.parametrize("law", LAWS[1:], ids=repr)
def test_the_margin_is_the_smallest_that_covers(law: MaxNormLaw) -> None:
    with mp.workdps(30):
        total, base = defined(law)
        for part in range(len(law.sides)):
            reach = law.margin(part, Fraction(95, 100))
            inside = [_inside(law, part, end, base) / total for end in (reach, reach - 1)]
            assert inside[0] >= 0.95
            assert reach == 0 or inside[1] < 0.95


def test_samples_follow_the_law_but_for_one_time_in_a_million() -> None:
    law, size = MaxNormLaw((1, 3), Fraction(1)), 40_000
    drawn = Counter(map(tuple, law.draw(size, Seeded("max-norm")).tolist()))
    with mp.workdps(30):
        total, base = defined(law)
        expected = {
            point: float(base ** norm(law, point) / total) * size for point in product(range(-4, 5), range(-12, 13))
        }
    frequent = {point: mean for point, mean in expected.items() if mean > 20}
    rest = size - sum(frequent.values())
    found = sum((drawn[point] - mean) ** 2 / mean for point, mean in frequent.items())
    found += (size - sum(drawn[point] for point in frequent) - rest) ** 2 / rest
    assert found < chi2.isf(1e-6, len(frequent))


def test_wide_sides_are_python_integers_and_moments_are_those_of_the_law() -> None:
    """The mean of 4,000 squares is within a tenth of its variance but for one time in ten thousand."""
    law = MaxNormLaw((1, 1 << 61), Fraction(1, 100))
    drawn = law.draw(4000, Seeded("wide"))
    assert drawn.dtype == object
    for part in range(2):
        values = np.array([float(one) for one in drawn[:, part]])
        assert np.mean(values**2) == pytest.approx(law.moments(part)[0], rel=0.1)


@pytest.mark.parametrize("bound", [1, 3, 1000, (1 << 32) + 1, (1 << 48) - 1, 1 << 50])
def test_uniform_integers_below_wide_bounds_are_the_floor_of_a_multiple(bound: int) -> None:
    """One word decides in all but bound/2^64 of the cases; the oracle multiplies the same words as Python integers."""
    words = [int(word) ^ WORD_MASK for word in np.frombuffer(Seeded("bounds").read(8 * 200), dtype=">u8")]
    found = uniform_below_each(np.full(200, bound), Seeded("bounds")).tolist()
    expected = [word * bound >> 64 for word in words]
    sure = [word * bound >> 64 == ((word + 1) * bound - 1) >> 64 for word in words]
    assert sum(sure) >= 195
    assert [one for one, certain in zip(found, sure, strict=True) if certain] == [
        one for one, certain in zip(expected, sure, strict=True) if certain
    ]


def test_what_is_no_side_is_refused() -> None:
    for sides in ((), (0,), (1,) * 9, (1, -2)):
        with pytest.raises(BadParameter):
            MaxNormLaw(sides, Fraction(1))
