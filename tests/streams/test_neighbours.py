"""Two streams that differ in one unit, under the same coins: `raw` differs by at most what the event says.

For every plan with fixed noise the difference of `raw` is exactly what the data moved: the noise is the same, and the
number of bits that are read does not depend on the data.
"""

from collections.abc import Mapping
from fractions import Fraction
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from tests.sources import HashSource, ScriptedSource
from tests.streams.plans_of_all_kinds import ADD, CELLS, PLANS, STEPS, VALUES, coins, fed, name, whole

from sfumato.randomness.source import Metered
from sfumato.streams.plans import GaussianSums, PeriodTables, StreamPlan, TreeSums, UnboundedSums, WindowEvents
from sfumato.streams.stream import Stream

Moves = Mapping[int, tuple[int, ...]]
_NAMES = count()


def moved(folder: Path, plan: StreamPlan, moves: Moves, base: int = 0) -> np.ndarray:
    """Return how `raw` differs when the steps in `moves` have so much more in their cells."""
    values = [[base + cell for cell in row] for row in VALUES]
    other = [
        [cell + more for cell, more in zip(row, moves.get(step, (0,) * CELLS), strict=True)]
        for step, row in enumerate(values)
    ]
    left = whole(folder / str(next(_NAMES)), plan, values).raw.astype(object)
    right = whole(folder / str(next(_NAMES)), plan, other).raw.astype(object)
    return np.asarray(right - left)


@pytest.mark.parametrize("base", [0, 2**40 - 60, -(2**40) + 60])
@pytest.mark.parametrize("sign", [1, -1])
def test_one_event_moves_gaussian_sums_by_the_coefficients_exactly(tmp_path: Path, base: int, sign: int) -> None:
    plan = PLANS[0]
    assert isinstance(plan, GaussianSums)
    for step in (0, 4, STEPS - 1):
        difference = moved(tmp_path, plan, {step: (0, sign)}, base)
        assert difference[:, 0].tolist() == [0] * STEPS
        assert difference[:, 1].tolist() == [0] * step + [sign * int(c) for c in plan.coefficients[: STEPS - step]]


@pytest.mark.parametrize("plan", [plan for plan in PLANS if isinstance(plan, GaussianSums)], ids=name)
def test_units_move_gaussian_sums_within_the_event_and_the_worst_reaches_it(tmp_path: Path, plan: GaussianSums) -> None:
    densest = {
        step: (1, 0) for step in range(0, STEPS, plan.separation) if step // plan.separation < plan.participations
    }
    claimed = plan.event.sensitivity_squared
    reached = int((moved(tmp_path, plan, densest) ** 2).sum())
    assert reached == claimed if not plan.buffers else 0.999_999 * claimed < reached <= claimed
    spread = {step: ((-1) ** place, 0) for place, step in enumerate(densest)}
    between = {step: (0, 1) if place % 2 else (1, 0) for place, step in enumerate(densest)}
    for moves in (spread, between, {STEPS - 1 - step: cells for step, cells in densest.items()}):
        assert int((moved(tmp_path, plan, moves) ** 2).sum()) <= claimed


def test_the_floors_of_buffers_move_sums_beyond_the_coefficients_and_within_the_event(tmp_path: Path) -> None:
    """With coarse buffers the floors show: some distance is above Σc², and none above what is charged."""
    plan = GaussianSums(STEPS, Fraction(100), ADD, cells=CELLS, buffers=3, scale=1, change_squared=1)
    ideal = float((plan.coefficients**2).sum())
    distances = [int((moved(tmp_path, plan, {0: (1, 0)}, base) ** 2).sum()) for base in range(-6, 7)]
    assert max(distances) <= plan.event.sensitivity_squared
    assert max(distances) > ideal


@pytest.mark.parametrize("plan", [plan for plan in PLANS if isinstance(plan, TreeSums | PeriodTables)], ids=name)
def test_trees_and_tables_move_within_the_event_in_l1(tmp_path: Path, plan: TreeSums | PeriodTables) -> None:
    times = plan.event.times
    per_step = [int(np.abs(moved(tmp_path, plan, {step: (1, 0)})).sum()) for step in range(STEPS)]
    if isinstance(plan, PeriodTables):
        assert per_step == [1] * STEPS
        together = moved(tmp_path, plan, dict.fromkeys((0, 3, 8), (0, -1)))
        assert int(np.abs(together).sum()) == plan.participations == times
    else:
        assert max(per_step) <= times
        full = TreeSums(8, Fraction(2), ADD)  # with a power of two the first step lies in a node of every level
        left = whole(tmp_path / "left", full, [(1,)] * 8).raw
        right = whole(tmp_path / "right", full, [(2,), *[(1,)] * 7]).raw
        assert int(np.abs(right - left).sum()) == full.event.times == 4


def test_an_event_moves_one_epoch_only(tmp_path: Path) -> None:
    plan = UnboundedSums(Fraction(1), ADD, cells=CELLS, first=2)
    for step in range(STEPS):
        rows = np.flatnonzero(moved(tmp_path, plan, {step: (1, 0)})[:, 0])
        epochs = {plan.epoch(int(row) + 1)[0] for row in rows}
        assert epochs == {plan.epoch(step + 1)[0]}
        _, _, sigma_squared = plan.epoch(step + 1)
        assert int((moved(tmp_path, plan, {step: (1, 0)}) ** 2).sum()) <= 2 * plan.rho * sigma_squared


@pytest.mark.parametrize("plan", [plan for plan in PLANS if not isinstance(plan, WindowEvents)], ids=name)
def test_the_number_of_bits_does_not_depend_on_values(tmp_path: Path, plan: StreamPlan) -> None:
    counted = []
    for place, size in enumerate((0, 1, -(2**40), 2**40)):
        with Stream.create(tmp_path / str(place), plan) as stream:
            bits = []
            for step in range(STEPS):
                meter = Metered(coins(step))
                stream.observe([size, -size], meter)
                bits.append(meter.bits)
            counted.append(bits)
    assert counted == [counted[0]] * 4


def test_window_events_read_the_same_bits_until_they_publish_otherwise(tmp_path: Path) -> None:
    plan = WindowEvents(Fraction(4), 3, ADD, cells=CELLS)
    bits: dict[int, set[int]] = {}
    for place, size in enumerate((0, 3, 10**6, -(2**40))):
        meter = Metered(HashSource(5))
        Stream.create(tmp_path / str(place), plan).observe([size, size], meter)
        bits.setdefault(meter.bits, set()).add(size)
    assert len(bits) == 1


def test_decoding_without_noise_gives_the_sums_back(tmp_path: Path) -> None:
    """Bits that are all zero are the smallest noise there is, the same at each step: what is left is the decoding."""
    plan = GaussianSums(STEPS, Fraction(1, 1000), ADD, cells=CELLS)
    with Stream.create(tmp_path / "a", plan) as stream:
        for row in VALUES:
            stream.observe(list(row), ScriptedSource(b"", b"\x55"))
        assert stream.released == pytest.approx(np.cumsum(VALUES, axis=0), abs=1e-3)
        assert stream.window(3) == pytest.approx(np.sum(VALUES[-3:], axis=0), abs=1e-3)


def test_sums_beyond_64_bits_are_exact(tmp_path: Path) -> None:
    plan = GaussianSums(60, Fraction(10**6), ADD, scale=2**24)
    stream = Stream.create(tmp_path / "a", plan)
    fed(stream, [(2**40,)] * 60)
    exact = [2**40 * sum(int(c) for c in plan.coefficients[: step + 1]) for step in range(60)]
    assert exact[-1] > 2**65
    assert max(abs(int(y) - x) for y, x in zip(stream.raw[:, 0], exact, strict=True)) < 10**4
