"""One level in many cells at once: from the same random words, what one cell after another chooses."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from tests.sources import HashSource, ScriptedSource

from sfumato.accounting.event import Neighbours
from sfumato.mechanisms import quantile_cells
from sfumato.mechanisms.quantiles import Quantiles
from sfumato.randomness.selection import Integers

HALF, WEIGHT, CELLS = Fraction(1, 2), 720720, 30
Cells = tuple[Integers, Integers, Integers]


def _cells(most: int, buckets: int, seed: int = 1) -> Cells:
    """Return cells of up to so many values, some empty, at the ends of the range and beside each other."""
    random = np.random.default_rng(seed)
    found = []
    for cell in range(CELLS):
        places = np.unique(random.integers(0, random.choice([10, buckets // 3, buckets]), random.integers(0, most + 1)))
        places = np.union1d(places, [0, buckets - 1]) if cell % 5 == 0 and most else places
        weights = random.choice([1, 7, WEIGHT // 3, WEIGHT], len(places))
        found.append((np.full(len(places), cell), places, weights))
    cells, places, weights = (np.concatenate(part).astype(np.int64) for part in zip(*found, strict=True))
    return cells, places, weights


def _one_by_one(mechanism: Quantiles, found: Cells, source: HashSource) -> Integers:
    cells, places, weights = found
    edges = np.searchsorted(cells, np.arange(CELLS + 1))
    released: Integers = np.array(
        [
            mechanism.release(places[start:end], weights[start:end], source)
            for start, end in itertools.pairwise(edges.tolist())
        ]
    )
    return released


@pytest.mark.parametrize("level", [HALF, Fraction(1, 7), Fraction(99, 100)], ids=str)
@pytest.mark.parametrize("buckets", [30_000, 10**9])
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(2), Fraction(1000)], ids=str)
def test_many_cells_choose_what_each_chooses_alone(level: Fraction, buckets: int, epsilon: Fraction) -> None:
    mechanism = Quantiles((level,), buckets, WEIGHT, epsilon, Neighbours.ADD_REMOVE)
    for most in (0, 3, 200):
        found = _cells(most, buckets)
        together = mechanism.release_cells(*found, CELLS, HashSource(most))
        assert together.tolist() == _one_by_one(mechanism, found, HashSource(most)).tolist()


@pytest.mark.parametrize(
    ("levels", "ends"), [((HALF, Fraction(3, 4)), True), ((Fraction(1),), True), ((HALF,), False)], ids=str
)
def test_what_is_no_single_level_with_ends_is_chosen_cell_by_cell(levels: tuple[Fraction, ...], ends: bool) -> None:
    mechanism = Quantiles(levels, 30_000, WEIGHT, Fraction(2), Neighbours.REPLACE, ends)
    found = _cells(20, 30_000)
    together = mechanism.release_cells(*found, CELLS, HashSource(1))
    assert together.tolist() == _one_by_one(mechanism, found, HashSource(1)).tolist()


def test_portions_do_not_change_a_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism, found = Quantiles((HALF,), 30_000, WEIGHT, Fraction(2), Neighbours.ADD_REMOVE), _cells(200, 30_000)
    whole = mechanism.release_cells(*found, CELLS, HashSource(1))
    monkeypatch.setattr(quantile_cells, "_PORTION_VALUES", 50)
    assert mechanism.release_cells(*found, CELLS, HashSource(1)).tolist() == whole.tolist()


def test_where_floats_are_not_clear_a_cell_is_chosen_alone_from_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second cell on average is left open by a slack that is far too large."""
    mechanism, found = Quantiles((HALF,), 30_000, WEIGHT, Fraction(2), Neighbours.ADD_REMOVE), _cells(60, 30_000)
    alone: list[int] = []
    release = Quantiles.release

    def noting(self: Quantiles, *values: object) -> Integers:
        alone.append(1)
        return release(self, *values)  # type: ignore[arg-type]

    expected = mechanism.release_cells(*found, CELLS, HashSource(1))
    monkeypatch.setattr(quantile_cells, "FLOAT_SLACK", 0.01)
    monkeypatch.setattr(Quantiles, "release", noting)
    assert mechanism.release_cells(*found, CELLS, HashSource(1)).tolist() == expected.tolist()
    assert 0 < len(alone) < CELLS


def test_long_levels_and_heavy_weights_are_chosen_alone() -> None:
    level = Fraction(5 * 10**17, 10**18 + 9)
    mechanism, found = Quantiles((level,), 30_000, WEIGHT, Fraction(500), Neighbours.ADD_REMOVE), _cells(20, 30_000)
    together = mechanism.release_cells(*found, CELLS, HashSource(1))
    assert together.tolist() == _one_by_one(mechanism, found, HashSource(1)).tolist()


def test_cells_read_the_same_number_of_bits_whatever_they_hold() -> None:
    mechanism, given = Quantiles((HALF,), 30_000, WEIGHT, Fraction(2), Neighbours.ADD_REMOVE), set()
    for most in (0, 1, 100):
        source = ScriptedSource(HashSource(3).read(10_000))
        mechanism.release_cells(*_cells(most, 30_000), CELLS, source)
        given.add(source.given)
    assert given == {8 * quantile_cells.WORDS_PER_CELL * CELLS}
