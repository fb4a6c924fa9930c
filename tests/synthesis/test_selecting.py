"""Where all pairs do not fit they are chosen: scores move by at most what was declared, and the event is public."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from tests.sources import HashSource
from tests.synthesis.tables import made

from sfumato.accounting import pld, zcdp
from sfumato.accounting.event import Neighbours
from sfumato.errors import BadParameter
from sfumato.synthesis.counting import count_marginal
from sfumato.synthesis.selecting import (
    MAX_FULLY_PAIRED_COLUMNS,
    all_pairs_fit,
    make_selection,
    marginal_score,
    select,
    tree_pairs,
)

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
SIZES = (10,) * 22


@pytest.mark.parametrize(("rows", "neighbours"), [(1, ADD), (3, ADD), (2, REPLACE)])
def test_the_declared_event_costs_at_most_the_price_and_uses_three_quarters(rows: int, neighbours: Neighbours) -> None:
    selection = make_selection((6,) * 5, Fraction(1), Fraction(1, 10**6), rows, neighbours)
    assert zcdp.epsilon(selection.event, "1e-6") <= 1
    assert selection.moved == rows * (2 if neighbours is REPLACE else 1)
    if rows == 1:
        assert 0.75 <= pld.bounds(selection.event, "1e-6")[1] <= 1


def test_one_row_moves_a_score_by_at_most_one_up_or_down() -> None:
    sizes, random = (2, 3), np.random.default_rng(3)
    cells = list(product(range(2), range(3)))
    moves = set()
    for _ in range(30):
        rows = [cells[place] for place in random.integers(0, 6, 8)]
        model = random.normal(1.3, 2.0, sizes)
        codes = [np.array([row[axis] for row in rows]) for axis in range(2)]
        before = marginal_score(count_marginal(codes, (0, 1), sizes), model, Fraction(2))
        for cell in cells:
            more = [np.append(code, cell[axis]) for axis, code in enumerate(codes)]
            moves.add(marginal_score(count_marginal(more, (0, 1), sizes), model, Fraction(2)) - before)
        for gone in range(8):
            fewer = [np.delete(code, gone) for code in codes]
            moves.add(marginal_score(count_marginal(fewer, (0, 1), sizes), model, Fraction(2)) - before)
    assert moves == {-1, 1}


def test_all_pairs_are_measured_where_they_fit() -> None:
    assert all_pairs_fit((16,) * MAX_FULLY_PAIRED_COLUMNS)
    assert all_pairs_fit((2,) * 30)
    assert not all_pairs_fit(SIZES)
    assert not all_pairs_fit((2000, 2000, 2))


def test_the_strongest_pair_is_chosen_and_what_was_measured_is_not_chosen_again() -> None:
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
    assert len(set(marginals)) == len(marginals) == 4 + selection.rounds
    assert len(variances) == len(tables) == len(marginals)


def test_pairs_of_a_tree_are_exact() -> None:
    random, sizes = np.random.default_rng(5), (2, 3, 2)
    first = random.dirichlet(np.ones(6)).reshape(2, 3)
    second = random.dirichlet(np.ones(2), 3)
    whole = 10**7 * first[:, :, None] * second[None, :, :]
    marginals = [(0,), (1,), (2,), (0, 1), (1, 2)]
    tables = [np.rint(whole.sum(axis=tuple({0, 1, 2} - set(axes)))).astype(np.int64) for axes in marginals]
    found = tree_pairs(sizes, marginals, [Fraction(1)] * 5, tables, [(0, 2)])
    assert np.allclose(found[0, 2], whole.sum(axis=1), rtol=1e-3)


def test_a_wide_table_is_chosen_from_and_says_so() -> None:
    random = np.random.default_rng(6)
    data = {f"c{axis}": random.integers(0, 10, 300).tolist() for axis in range(len(SIZES))}
    domain = {name: list(range(10)) for name in data}
    wide = made(HashSource("wide"), data=data, domain=domain, rows=50, seconds="0.2")
    assert wide.adaptive
    assert len(wide.marginals) == 2 * len(SIZES) - 1
    assert wide.table().num_rows == 50
    answer = wide.sql("SELECT COUNT(*) FROM t WHERE c1 = 2")
    assert any("approximate" in note for note in answer.notes)
    nobody = made(HashSource("wide"), data={name: [] for name in data}, domain=domain, rows=50, seconds="0.2")
    assert (nobody.event, len(nobody.marginals), repr(nobody)) == (wide.event, len(wide.marginals), repr(wide))


def test_what_cannot_be_chosen_is_refused() -> None:
    with pytest.raises(BadParameter, match="No pair"):
        make_selection((2000, 2000, 2000), Fraction(1), Fraction(1, 10**6), 1, ADD)
