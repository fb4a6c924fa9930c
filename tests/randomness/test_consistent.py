"""Consistent sampling: its law by all coins, its worst case over all offsets, and the printed values to all digits."""

from fractions import Fraction
from itertools import pairwise
from math import log

import pytest
from tests.sources import HashSource, ScriptedSource

from sfumato.errors import BadParameter, EntropyFailed
from sfumato.randomness import consistent as module
from sfumato.randomness.adversary import worst_joint_ratio, worst_mean, worst_ratio
from sfumato.randomness.consistent import Consistent, calibrate
from sfumato.randomness.imperfect import Declared
from sfumato.randomness.source import Metered

TENTH = Fraction(1, 10)


@pytest.mark.parametrize(("half_life", "grid"), [(1, 2), (2, 2), (4, 6), (8, 4)])
@pytest.mark.parametrize("units", [-7, 0, 1, 3])
def test_all_coins_of_some_length_fall_into_the_cells_as_stated(half_life: int, grid: int, units: int) -> None:
    """Enumeration: every setting of the first bits, padded so that the run ends; the rest cannot matter."""
    noise = Consistent(half_life, grid, 1)
    length = 9
    counts: dict[int, int] = {}
    for coins in range(1 << length):
        bits = f"{coins:0{length}b}"
        run = len(bits) - len(bits.lstrip(bits[0]))
        if run + 1 + noise._fine > length:
            continue  # not decided by so few coins
        padded = int(bits.ljust(8 * noise.block, "0"), 2).to_bytes(noise.block, "big")
        answer = noise.draw(units, ScriptedSource(padded))
        other = int(bits.ljust(8 * noise.block, "1"), 2).to_bytes(noise.block, "big")
        assert noise.draw(units, ScriptedSource(other)) == answer
        low, high = noise.cell(units, answer)
        assert low <= Fraction(coins, 1 << length) < Fraction(coins + 1, 1 << length) <= high
        counts[answer] = counts.get(answer, 0) + 1
    for answer, count in counts.items():
        low, high = noise.cell(units, answer)
        assert Fraction(count, 1 << length) <= high - low


def test_the_cells_of_a_value_cover_all_coins_once() -> None:
    noise = Consistent(16, 24, 3)
    for units in range(-30, 31):
        ends = [noise.cell(units, k) for k in range(-60, 61)]
        assert all(one[1] == two[0] for one, two in pairwise(ends))
        assert ends[0][0] < Fraction(1, 10**9)
        assert ends[-1][1] > 1 - Fraction(1, 10**9)


def test_how_many_bytes_are_read_depends_neither_on_the_value_nor_on_the_coins() -> None:
    noise = Consistent(64, 64, 5)
    assert noise.block == -(-(130 + 6) // 8)
    for seed in range(200):
        for units in (0, -(10**30), 10**30):
            metered = Metered(HashSource(seed))
            noise.draw(units, metered)
            assert metered.bits == 8 * noise.block


def test_a_run_that_fills_the_block_reads_another_and_a_stuck_source_is_refused() -> None:
    noise = Consistent(4, 4, 1)
    source = ScriptedSource(bytes(noise.block), b"\xff")
    run = 8 * noise.block - 1
    assert noise.draw(0, source) == (-(run + 1) * 4 + 3 + 2) // 4
    assert source.given == 2 * noise.block
    for stuck in (b"\x00", b"\xff"):
        with pytest.raises(EntropyFailed):
            noise.draw(0, ScriptedSource(b"", stuck))


@pytest.mark.parametrize(
    ("parameters", "gamma", "ratio"),
    [
        ((64, 64, 1), Fraction(0), Fraction(65, 64)),
        ((64, 64, 1), TENTH, Fraction(5530696699, 5184000000)),
        ((32, 64, 10), TENTH, Fraction(631414271, 401760000)),
    ],
)
def test_the_worst_ratio_is_the_printed_one(parameters: tuple[int, int, int], gamma: Fraction, ratio: Fraction) -> None:
    noise = Consistent(*parameters)
    assert noise.worst_ratio(gamma) == ratio == worst_ratio(*noise.worst_cells(gamma), gamma)


@pytest.mark.parametrize("parameters", [(1, 2, 1), (2, 6, 3), (4, 2, 2), (8, 12, 5)])
@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(2, 5)])
def test_no_offset_or_shift_anywhere_is_worse(parameters: tuple[int, int, int], gamma: Fraction) -> None:
    """All pairs in exact fractions, three half-lives beyond the sweep, both signs."""
    noise = Consistent(*parameters)
    far = noise.grid // 2 + noise.reach + 3 * noise.half_life
    shifts = [shift for shift in range(-noise.reach, noise.reach + 1) if shift]
    brute = max(
        worst_ratio(noise.cell(-at, 0), noise.cell(-at - shift, 0), gamma)
        for at in range(-far, far + 1)
        for shift in shifts
    )
    assert noise.worst_ratio(gamma) == brute


def test_deep_trees_are_swept_in_fractions_alone() -> None:
    noise = Consistent(2, 130, 1)
    assert module._depth_of(noise) > 60
    assert noise.worst_ratio(0) == max(
        worst_ratio(noise._cell(first), noise._cell(second), 0) for first, second in noise._pairs().tolist()
    )


TABLE = """
0    1    8 6 10       .980829 1.2214
0    1/2  16 16 10     .485508 2.4500
0    1/10 128 128 13   .096730 15.077
1/100 1    8 8 10       .962354 1.2447
1/100 1/2  16 16 9      .479924 2.7659
1/20 1    8 16 9       .963538 1.5935
1/20 1/2  16 32 8      .495998 3.5878
1/10 1    16 32 15     .976962 2.0542
1/10 1/2  32 96 13     .492702 5.2626
1/5  1    16 48 11     .974850 3.5175
1/5  1/2  32 128 8     .490477 10.690
"""


@pytest.mark.parametrize("line", TABLE.split("\n")[1:-1])
def test_calibration_finds_the_printed_parameters(line: str) -> None:
    gamma, epsilon, half_life, grid, reach, loss, error = line.split()
    noise = calibrate(Fraction(epsilon), Fraction(gamma))
    assert noise == Consistent(int(half_life), int(grid), int(reach))
    assert f"{log(noise.worst_ratio(gamma)):.6f}"[1:] == loss
    shown = float(noise.worst_error(gamma)) / noise.reach
    assert shown == pytest.approx(float(error), rel=6e-5)


@pytest.mark.parametrize(
    ("parameters", "gamma", "loss", "error"),
    [
        ((128, 128, 11), Fraction(1, 100), 0.096685, 18.111),
        ((128, 256, 8), Fraction(1, 20), 0.095863, 28.722),
        ((256, 768, 12), Fraction(1, 10), 0.098275, 45.622),
        ((512, 2048, 10), Fraction(1, 5), 0.096480, 136.89),
    ],
)
def test_the_printed_parameters_of_a_tenth_have_the_printed_loss_and_error(
    parameters: tuple[int, int, int], gamma: Fraction, loss: float, error: float
) -> None:
    """`python -m tests.randomness.calibrated` searches for them, which takes half a minute."""
    noise = Consistent(*parameters)
    assert log(noise.worst_ratio(gamma)) == pytest.approx(loss, abs=6e-7)
    assert float(noise.worst_error(gamma)) / noise.reach == pytest.approx(error, rel=5e-5)


@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 2)])
@pytest.mark.parametrize("parameters", [(4, 6, 2), (8, 4, 3), (2, 16, 1)])
def test_the_worst_error_is_that_of_the_opponent_at_the_worst_value(
    parameters: tuple[int, int, int], gamma: Fraction
) -> None:
    """In exact fractions on the cells themselves; what lies beyond weighs nothing."""
    noise = Consistent(*parameters)
    reach = max(200 * noise.half_life // noise.grid, 40)
    exact = Fraction(0)
    for units in range(noise.grid):
        cells = [(*noise.cell(units, k), Fraction(abs(k * noise.grid - units))) for k in range(-reach, reach + 1)]
        first, last = cells[0], cells[-1]
        cells = [(Fraction(0), first[0], first[2]), *cells, (last[1], Fraction(1), last[2])]
        exact = max(exact, worst_mean(cells, gamma))
    assert exact <= noise.worst_error(gamma) <= exact * (1 + Fraction(1, 10**9))


def test_the_worst_tail_falls_and_is_that_of_the_opponent() -> None:
    noise = Consistent(4, 6, 2)
    for units in (0, 3, 10, 25):
        exact = max(
            worst_mean(
                [
                    (low, high, Fraction(abs(k * noise.grid - value) > units))
                    for k in range(-80, 81)
                    for low, high in [noise.cell(value, k)]
                    if k not in (-80, 80)
                ]
                + [
                    (Fraction(0), noise.cell(value, -80)[1], Fraction(1)),
                    (noise.cell(value, 80)[0], Fraction(1), Fraction(1)),
                ],
                TENTH,
            )
            for value in range(noise.grid)
        )
        assert float(exact) <= noise.worst_tail(units, TENTH) <= float(exact) + 1e-9


@pytest.mark.parametrize(("steps", "loss"), [(0, 0.0989), (4, 0.2039), (8, 0.4153)])
def test_two_answers_of_one_source_do_not_compose(steps: int, loss: float) -> None:
    noise = Consistent(64, 64, 1)
    first, second = noise.worst_cells(TENTH)
    near = [(noise.cell(95 - at, 0), noise.cell(95 - at + shift, 0)) for at in range(0, 96, 4) for shift in (-1, 1)]
    worst = max(worst_joint_ratio(one, two, noise.cell(0, steps), TENTH) for one, two in [*near, (first, second)])
    assert log(noise.worst_ratio(TENTH)) == pytest.approx(0.0647, abs=5e-5)
    assert 0.0647 * 1.2 < log(worst) <= loss + 5e-5


@pytest.mark.parametrize(
    "parameters", [(3, 4, 1), (4, 3, 1), (4, 4, 0), (0, 4, 1), (4.0, 4, 1), (True, 4, 1), (1 << 30, 4, 1)]
)
def test_parameters_that_mean_nothing_are_refused(parameters: tuple[int, int, int]) -> None:
    with pytest.raises(BadParameter):
        Consistent(*parameters)


@pytest.mark.parametrize(("epsilon", "gamma"), [(0, 0), (-1, 0), (1, 1), (1.0, 0), (1, 0.1), ("1/100000", 0)])
def test_calibration_refuses_what_has_no_answer(epsilon: object, gamma: object) -> None:
    with pytest.raises(BadParameter):
        calibrate(epsilon, gamma)


def test_it_draws_from_a_source_that_declares_a_bias() -> None:
    assert isinstance(Consistent(4, 4, 1).draw(3, Declared(HashSource(1), TENTH, "dice")), int)
