"""The stated intervals hold the truth as often as they say, for every shape of outcome: noise alone, and all of it.

The bits are fixed, so a failure is a bug and not chance. With other bits, an interval that holds the truth with exactly
its level would raise an alarm with probability below 1e-6 for each shape, law, size and level (binomial, 4.9 standard
deviations, one side). `python -m tests.statistical.coverage 50` looks at fifty releases of everything.
"""

from fractions import Fraction

import pytest
from tests.statistical.coverage import LEVELS, SHAPES, Setting, Shape, coverage, released

SETTINGS = (Setting("laplace", 20), Setting("gaussian", 60), Setting("laplace", 2_000))
"""Groups as small as the noise, a few times as large, and a hundred times."""
SLOW = (Setting("gaussian", 20), Setting("laplace", 2_000))
"""Of pairs, where every cell takes longer; the command looks at all."""
CASES = [
    (shape, setting)
    for shape in SHAPES
    for setting in (SETTINGS[:1] if shape.rows else SETTINGS if shape.by == "copy" else SLOW)
]
SHARED = {"sum of three": 20, "average": 2_000, "variance": 20, "covariance": 2_000, "mean of averages": 20}
"""Of noise that numbers share: two of them, three, more, and of several cells; the command looks at all."""
CASES += [(shape, Setting("max-norm", SHARED[shape.name])) for shape in SHAPES if shape.name in SHARED]
UNBOUNDED = frozenset({"ratio of sums", "slope", "intercept"})
"""Only where the denominator may really be nothing, and nothing public bounds the ratio, has a bar an open side."""


@pytest.mark.parametrize(
    ("shape", "setting"), CASES, ids=[f"{shape.name}-{setting.law} {setting.size}" for shape, setting in CASES]
)
def test_intervals_hold_the_truth_at_their_level(shape: Shape, setting: Setting) -> None:
    answers = released(shape, setting, seed=1)
    for level in LEVELS:
        found = coverage(answers, level)
        assert found.intervals > 0
        assert found.share >= found.least(level)
        if shape.linear:  # as good as exact: sums lie on a grid, and the matched law errs by 2 % of what is missed
            assert found.share <= 2 * float(level) - found.least(level) + 0.01
        if shape.name not in UNBOUNDED:
            assert found.open == 0


@pytest.mark.parametrize("level", [Fraction(1, 2), Fraction(99, 100)])
@pytest.mark.parametrize("name", ["count", "sum of three", "average", "total of cells", "largest cell"])
def test_other_levels_are_held_too(name: str, level: Fraction) -> None:
    (shape,) = [shape for shape in SHAPES if shape.name == name]
    found = coverage(released(shape, Setting("laplace", 60), seed=2), level)
    assert found.share >= found.least(level)
