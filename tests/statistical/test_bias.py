"""`intervals(bias=True)` hold the untruncated truth on heavy-tailed rows and values, and are not infinite.

The bits and the data are fixed, so a failure is a bug and not chance. With other bits, intervals that hold the truth
with exactly 95 % would fall below 93 % of 20 with probability 0.2 for each question; these hold it nearly always, since
what one person may have lost is bounded for all databases. `python -m tests.statistical.bias 400` looks longer.
"""

import pytest
from tests.statistical.bias import CHOSEN, QUESTIONS, WORLDS, World, covered


@pytest.mark.parametrize("world", [WORLDS[1], CHOSEN], ids=str)
def test_at_least_93_percent_of_intervals_with_bias_hold_the_untruncated_truth(world: World) -> None:
    found = covered(world, 20, seed=1)
    assert list(found) == list(QUESTIONS)
    for sql, held in found.items():
        assert held.held >= 0.93 * held.intervals, sql
        assert held.open == 0, sql
        assert held.told >= 0.95 * held.intervals, sql  # plain intervals that miss it are marked
        if "DISTINCT" not in sql and not world.chosen:
            assert held.unbiased == 0, sql  # caps and bounds cut off far more than the noise reaches
