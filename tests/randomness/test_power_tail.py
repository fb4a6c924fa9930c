"""Heavy-tailed integer noise: every integer in its share, the coin never above 1, margins that cover."""

from fractions import Fraction
from math import ceil

import pytest
from mpmath import mp, mpf
from tests.laws.data_dependent import total_weight
from tests.sources import HashSource, ScriptedSource

from sfumato.errors import BadParameter
from sfumato.randomness.power_tail import _BLOCK_WEIGHT_FACTOR, PowerTail


@pytest.mark.parametrize("power", [2, 4])
@pytest.mark.parametrize("scale", ["2", "5/2", "1000/7", "12345"])
def test_what_is_proposed_and_kept_is_proportional_to_the_weight(scale: str, power: int) -> None:
    s = Fraction(scale)
    base, width = s**power, ceil(s)
    for block in range(40):
        for reach in (width * (2**block - 1), width * (2 ** (block + 1) - 1) - 1):
            kept = Fraction(4 ** (block + 1), _BLOCK_WEIGHT_FACTOR[power]) * base / (base + reach**power)
            assert 0 < kept <= 1
            proposed = Fraction(1, 2 ** (block + 1) * 2 * width * 2**block)
            assert proposed * kept * (base + reach**power) == base / (_BLOCK_WEIGHT_FACTOR[power] * width)


@pytest.mark.parametrize(("scale", "power"), [("2", 4), ("13/4", 2), ("7", 4)])
def test_samples_follow_the_law(scale: str, power: int) -> None:
    """A χ² of 13 cells above 66 has probability below 1e-8: with this seed it is always the same."""
    law, draws, source = PowerTail(Fraction(scale), power), 400, HashSource(("power tail", scale, power))
    seen: dict[int, int] = {}
    for _ in range(draws):
        sample = law.draw_one(source)
        seen[sample] = seen.get(sample, 0) + 1
    s = mpf(law.scale.numerator) / law.scale.denominator
    whole = total_weight(s, power)
    expected = {z: float(draws / (s**power + abs(z) ** power) / whole) for z in range(-6, 7)}
    inside = sum(seen.get(z, 0) for z in expected)
    cells = [(seen.get(z, 0), mean) for z, mean in expected.items()]
    cells.append((draws - inside, draws - sum(expected.values())))
    assert sum((count - mean) ** 2 / mean for count, mean in cells) < 66


@pytest.mark.parametrize("power", [2, 4])
@pytest.mark.parametrize("scale", ["2", "31/3"])
@pytest.mark.parametrize("confidence", ["1/2", "95/100", "999/1000"])
def test_a_margin_covers_and_is_near_the_smallest(scale: str, power: int, confidence: str) -> None:
    law, level = PowerTail(Fraction(scale), power), Fraction(confidence)
    reach = law.margin(level)
    with mp.workdps(30):
        s = mpf(law.scale.numerator) / law.scale.denominator
        whole = total_weight(s, power)

        def inside(far: int) -> mpf:
            step = max(1, far // 4_000)  # a stair below the falling weights
            cells = (step / (s**power + mpf(place + step) ** power) for place in range(0, far, step))
            return (1 / s**power + 2 * sum(cells)) / whole

        assert inside(reach) >= mpf(level.numerator) / level.denominator - mpf(1) / 500
        assert inside(int(reach * 0.8) - 1) < mpf(level.numerator) / level.denominator


def test_other_scales_and_powers_are_refused() -> None:
    with pytest.raises(BadParameter):
        PowerTail(Fraction(199, 100), 4)
    with pytest.raises(BadParameter):
        PowerTail(Fraction(3), 3)


def test_a_source_of_zeros_is_a_broken_source() -> None:
    with pytest.raises(Exception, match="random"):
        PowerTail(Fraction(3), 4).draw_one(ScriptedSource(b"", after=b"\0"))
