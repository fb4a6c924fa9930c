"""Where all pairs do not fit they are chosen: scores move by at most what was declared, and the event is public."""

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.sources import HashSource
from tests.synthesis.tables import made

from sfumato.accounting import pld, zcdp
from sfumato.accounting.event import Concentrated, Neighbours
from sfumato.errors import BadParameter
from sfumato.mechanisms.exponential import Exponential
from sfumato.randomness.source import Source
from sfumato.synthesis.combining import combine
from sfumato.synthesis.counting import count_marginal, with_noise
from sfumato.synthesis.design import sensitivity_squared
from sfumato.synthesis.selecting import (
    MAX_COLUMNS_WITH_ALL_PAIRS,
    all_pairs_fit,
    make_selection,
    misfit,
    predict_pairs,
    select,
)

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
SIZES = (10,) * 22


@pytest.mark.parametrize(("rows", "neighbours"), [(1, ADD), (3, ADD), (2, REPLACE)])
def test_the_declared_event_costs_at_most_the_price_and_uses_three_quarters(rows: int, neighbours: Neighbours) -> None:
    selection = make_selection((6,) * 5, Fraction(1), Fraction(1, 10**6), rows, neighbours)
    assert zcdp.epsilon(selection.event, "1e-6") <= 1
    assert selection.moved == rows * (2 if neighbours is REPLACE else 1)
    assert selection.squared == sensitivity_squared(rows, neighbours)
    if rows == 1:
        assert 0.75 <= pld.bounds(selection.event, "1e-6")[1] <= 1


class _Transcript:
    """Records what each round does, and makes measurements up: everything a round may see."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, surprise: Callable[[int], bool]) -> None:
        self.choices: list[Fraction] = []
        self.measured: list[Fraction] = []
        self.surprise = surprise
        given = Exponential.release

        def choose(mechanism: Exponential, scores: object, source: Source) -> int:
            self.choices.append(mechanism.epsilon)
            assert mechanism.sensitivity == 3
            return given(mechanism, scores, source)

        monkeypatch.setattr(Exponential, "release", choose)

    def measure(self, axes: tuple[int, ...], variance: Fraction) -> Any:
        self.measured.append(variance)
        shape = tuple(SMALL[axis] for axis in axes)
        same = np.full(shape, 10**6 // int(np.prod(shape)), dtype=np.int64)
        odd = len(axes) == 2 and self.surprise(len(self.choices))
        return same + 40_000 * (1 - 2 * (np.indices(shape).sum(axis=0) % 2)) if odd else same


SMALL = (4,) * 7


@pytest.mark.parametrize(
    "surprise",
    [lambda _: True, lambda _: False, lambda at: at % 3 == 1, lambda at: at < 9, lambda at: at != 2],
    ids=["always", "never", "sometimes", "first", "but once"],
)
def test_rounds_spend_what_was_declared_whatever_they_see(
    monkeypatch: pytest.MonkeyPatch, surprise: Callable[[int], bool]
) -> None:
    selection = make_selection(SMALL, Fraction(1), Fraction(1, 10**6), 3, ADD)
    seen = _Transcript(monkeypatch, surprise)
    marginals, variances, _ = select(
        selection,
        SMALL,
        lambda axes: np.zeros([SMALL[axis] for axis in axes], dtype=np.int64),
        seen.measure,
        HashSource(2),
    )
    spent = sum(epsilon**2 / 8 for epsilon in seen.choices) + sum(9 / (2 * variance) for variance in seen.measured)
    assert isinstance(selection.event, Concentrated)
    assert Fraction(999, 1000) * selection.event.rho <= spent <= selection.event.rho  # exact fractions
    assert list(variances) == seen.measured
    assert len(seen.choices) == len(marginals) - len(SMALL) <= selection.rounds
    assert variances[len(SMALL) :] == sorted(variances[len(SMALL) :], reverse=True)  # never noisier


def test_a_large_table_gets_more_pairs_than_a_small_one() -> None:
    random, sizes = np.random.default_rng(7), (3,) * 8
    selection = make_selection(sizes, Fraction(1), Fraction(1, 10**6), 1, ADD)
    found = []
    for people in (500, 200_000):
        base = random.integers(0, 3, people)
        codes = [np.where(random.random(people) < 0.4, base, random.integers(0, 3, people)) for _ in sizes]

        source = HashSource(people)

        def exact(axes: tuple[int, ...], codes: list[Any] = codes) -> Any:
            return count_marginal(codes, axes, sizes)

        def noisy(axes: tuple[int, ...], variance: Fraction, codes: list[Any] = codes, luck: Source = source) -> Any:
            return with_noise(exact(axes, codes), 1, variance, ADD, luck)

        marginals, _, _ = select(selection, sizes, exact, noisy, source)
        found.append(len(set(marginals)) - len(sizes))
    assert found[0] < found[1]


def test_one_row_moves_a_misfit_by_at_most_one_up_or_down() -> None:
    sizes, random = (2, 3), np.random.default_rng(3)
    cells = list(product(range(2), range(3)))
    moves = set()
    for _ in range(30):
        rows = [cells[place] for place in random.integers(0, 6, 8)]
        model = random.normal(1.3, 2.0, sizes)
        codes = [np.array([row[axis] for row in rows]) for axis in range(2)]
        before = misfit(count_marginal(codes, (0, 1), sizes), model)
        for cell in cells:
            more = [np.append(code, cell[axis]) for axis, code in enumerate(codes)]
            moves.add(misfit(count_marginal(more, (0, 1), sizes), model) - before)
        for gone in range(8):
            fewer = [np.delete(code, gone) for code in codes]
            moves.add(misfit(count_marginal(fewer, (0, 1), sizes), model) - before)
    assert moves == {-1, 1}


@pytest.mark.parametrize("far", [2.0**45, 1e18, 1e19, 1e30])
def test_one_row_moves_a_misfit_by_at_most_one_however_far_the_model_is(far: float) -> None:
    for cells in product((0.0, far, -far), repeat=3):
        model = np.array([cells])
        for rows in product(range(2), repeat=3):
            before = misfit(np.array([rows]), model)
            moves = {misfit(np.array([rows]) + one, model) - before for one in np.eye(3, dtype=np.int64)}
            assert moves <= {-1, 1}


@pytest.mark.parametrize("seed", range(3))
def test_rounds_end_also_where_noise_is_near_the_largest_integers(seed: int) -> None:
    """Whether they end must not depend on noisy numbers: a release that fails would say something of them."""
    rows, source = 10**10, HashSource(seed)
    selection = make_selection(SMALL, Fraction(1, 10**6), Fraction(1, 10**6), rows, ADD)
    assert selection.one_way > 2**108

    def exact(axes: tuple[int, ...]) -> Any:
        return np.zeros([SMALL[axis] for axis in axes], dtype=np.int64)

    def noisy(axes: tuple[int, ...], variance: Fraction) -> Any:
        return with_noise(exact(axes), rows**2, variance, ADD, source)

    marginals, variances, tables = select(selection, SMALL, exact, noisy, source)
    assert len(marginals) == len(variances) == len(tables) > len(SMALL)


def test_all_pairs_are_measured_where_they_fit() -> None:
    assert all_pairs_fit((16,) * MAX_COLUMNS_WITH_ALL_PAIRS)
    assert all_pairs_fit((2,) * 30)
    assert not all_pairs_fit(SIZES)
    assert not all_pairs_fit((2000, 2000, 2))


def test_the_strongest_pair_is_chosen_first() -> None:
    random = np.random.default_rng(4)
    base = random.integers(0, 4, 5000)
    codes = [base, random.integers(0, 4, 5000), (base + (random.random(5000) < 0.1)) % 4, random.integers(0, 4, 5000)]
    sizes, selection = (4, 4, 4, 4), make_selection((4, 4, 4, 4), Fraction(2), Fraction(1, 10**6), 1, ADD)
    marginals, variances, tables = select(
        selection,
        sizes,
        lambda axes: count_marginal(codes, axes, sizes),
        lambda axes, _: count_marginal(codes, axes, sizes),
        HashSource(1),
    )
    assert marginals[:4] == [(0,), (1,), (2,), (3,)]
    assert marginals[4] == (0, 2)
    assert len(variances) == len(tables) == len(marginals)


def test_pairs_of_a_tree_are_exact_and_measured_pairs_are_as_estimated() -> None:
    random, sizes = np.random.default_rng(5), (2, 3, 2)
    first = random.dirichlet(np.ones(6)).reshape(2, 3)
    second = random.dirichlet(np.ones(2), 3)
    whole = 10**7 * first[:, :, None] * second[None, :, :]
    marginals = [(0,), (1,), (2,), (0, 1), (1, 2)]
    tables = [np.rint(whole.sum(axis=tuple({0, 1, 2} - set(axes)))).astype(np.int64) for axes in marginals]
    found = predict_pairs(combine(sizes, marginals, [Fraction(1)] * 5, tables), [(0, 2), (0, 1)])
    assert np.allclose(found[0, 2], whole.sum(axis=1), rtol=1e-3)
    assert np.allclose(found[0, 1], tables[3], rtol=1e-3)


def test_a_wide_table_is_chosen_from_and_says_so() -> None:
    random = np.random.default_rng(6)
    data = {f"c{axis}": random.integers(0, 10, 300).tolist() for axis in range(len(SIZES))}
    domain = {name: list(range(10)) for name in data}
    wide = made(HashSource("wide"), data=data, domain=domain, rows=50, seconds="0.2")
    assert wide.adaptive
    assert len(wide.marginals) > len(SIZES)
    assert wide.table().num_rows == 50
    answer = wide.sql("SELECT COUNT(*) FROM t WHERE c1 = 2")
    assert any("approximate" in note for note in answer.notes)
    nobody = made(HashSource("wide"), data={name: [] for name in data}, domain=domain, rows=50, seconds="0.2")
    assert (nobody.event, nobody.loss, nobody.columns) == (wide.event, wide.loss, wide.columns)
    assert nobody.table().num_rows == 50


def test_what_cannot_be_chosen_is_refused() -> None:
    with pytest.raises(BadParameter, match="No pair"):
        make_selection((2000, 2000, 2000), Fraction(1), Fraction(1, 10**6), 1, ADD)
