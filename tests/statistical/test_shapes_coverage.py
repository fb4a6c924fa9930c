"""Bars hold the truth as often as they say for every shape of question, from rows to answers.

The bits are fixed, so a failure is a bug and not chance. With other bits, bars that hold with exactly 95 % would raise
an alarm with probability below 1e-6 for each shape (binomial, exact; where the cells of a release share their noise,
one of them counts). Few releases see gross errors only: `python -m tests.statistical.shapes_coverage` looks longer.
"""

from tests.statistical.shapes_coverage import SHAPES, covered

OPEN = frozenset({"choice by IN"})
"""No bar follows a choice between a noisy number and another where a noisy list decides."""


def test_bars_of_every_shape_of_question_hold_the_truth() -> None:
    found = list(covered(SHAPES, releases=5, seed=2))
    assert len(found) == len(SHAPES)
    assert [one.shape.name for one in found if one.chance < 1e-6] == []
    assert {one.shape.name for one in found if one.open} == OPEN
