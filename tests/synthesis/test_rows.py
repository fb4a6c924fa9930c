"""Rows follow the model: for every pair they are nearer to it than independent draws would be, at any price."""

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from tests.sources import HashSource
from tests.synthesis.tables import DOMAIN, made

from sfumato.synthesis.domain import Codes, Floats, Range, read_domain
from sfumato.synthesis.model import Fitted
from sfumato.synthesis.rows import count_rows, distance, systematic
from sfumato.synthesis.synthetic import Synthetic

MOST = 1.5
"""Rows may be so many times as far from the model as multinomial draws are."""


def noise_of_draws(shares: Floats, count: int) -> float:
    """Return about how far independent draws are from the shares they are drawn from, in total variation."""
    return float(np.sqrt(shares * (1 - shares) / (2 * np.pi * max(count, 1))).sum())


def worst(synthetic: Synthetic, table: pa.Table, domain: dict[str, object]) -> float:
    """Return how far the worst pair of columns of some rows is from the model, in units of multinomial noise."""
    columns = read_domain(domain)
    codes = [column.codes(table.column(column.name).to_pylist()) for column in columns]
    found = []
    for first, second in combinations(range(len(columns)), 2):
        names = [columns[first].name, columns[second].name]
        model = synthetic.model(names)
        rows = count_rows([codes[first], codes[second]], model.shape)
        found.append(distance(rows, model) / noise_of_draws(model / model.sum(), table.num_rows))
    return max(found)


@pytest.mark.parametrize("epsilon", ["0.2", "1", "50"])
def test_for_every_pair_the_rows_are_as_near_to_the_model_as_promised(epsilon: str) -> None:
    synthetic = made(HashSource(("rows", epsilon)), 3000, epsilon)
    assert worst(synthetic, synthetic.table(), DOMAIN) <= MOST
    for rows in (100, 777, 20_000):
        assert worst(synthetic, synthetic.sample(rows), DOMAIN) <= MOST


def aligned(fitted: Fitted, count: int) -> list[Codes]:
    """Draw as a peer does: each column given the first by rank in stable row order, without shuffling."""
    first = np.sort(fitted.rows[0][systematic(fitted, count, 0.5)])
    drawn = [first]
    for column in fitted.rows[1:]:
        chosen = np.zeros(count, dtype=np.int64)
        for value in np.unique(first):
            mine = np.flatnonzero(first == value)
            share = np.cumsum(np.bincount(column[fitted.rows[0] == value], fitted.weights[fitted.rows[0] == value]))
            chosen[mine] = np.searchsorted(share / share[-1], (np.arange(len(mine)) + 0.5) / len(mine))
        drawn.append(chosen)
    return drawn


def test_siblings_that_align_would_be_noticed() -> None:
    synthetic = made(HashSource("aligned"), 3000, 50)
    fitted = synthetic._fitted_model
    drawn = aligned(fitted, 3000)
    table = pa.table(
        {
            column.name: column.drawn(codes, np.full(3000, 0.5))
            for column, codes in zip(read_domain(DOMAIN), drawn, strict=True)
        }
    )
    assert worst(synthetic, table, DOMAIN) > 3 * MOST


def test_a_candidate_appears_as_often_as_its_weight_says() -> None:
    random = np.random.default_rng(4)
    weights: Floats = random.dirichlet(np.full(50, 0.3))
    fitted = Fitted((np.arange(50),), weights, 0)
    for count in (1, 7, 1000):
        for luck in (0.0, 0.3, 1 - 2**-53):
            times = np.bincount(systematic(fitted, count, luck), minlength=50)
            assert times.sum() == count
            assert (np.floor(count * weights - 1e-9) <= times).all()
            assert (times <= np.ceil(count * weights + 1e-9)).all()


def test_values_lie_in_their_bounds_and_on_their_steps() -> None:
    table = made(HashSource("bounds"), 1000, 5).sample(5000)
    assert table.schema.field("age").type == pa.int64()
    assert table.schema.field("urgent").type == pa.bool_()
    ages, costs = table["age"].to_numpy(), table["cost"].to_numpy()
    assert 0 <= ages.min() <= ages.max() <= 99
    assert len(set(ages.tolist())) > 80  # uniform inside the cells, not their middles
    assert 0 <= costs.min() <= costs.max() <= 1000
    assert set(table["dept"].to_pylist()) <= set(DOMAIN["dept"])


def test_the_same_noise_and_seed_give_the_same_table() -> None:
    first, second = (made(HashSource("again"), 500) for _ in range(2))
    assert first.table().equals(second.table())
    assert first.table().equals(first.table())
    assert first.sample(10).equals(second.sample(10))
    assert not first.table().equals(made(HashSource("other"), 500).table())


def test_the_table_has_as_many_rows_as_the_noisy_count_says_or_as_were_asked_for() -> None:
    synthetic = made(HashSource("many"), 2000)
    assert synthetic.table().num_rows == round(synthetic.marginal(["age"]).counts.sum())
    assert synthetic.table().num_rows != 2000
    assert made(HashSource("many"), 2000, rows=17).table().num_rows == 17
    assert synthetic.sample(0).num_rows == 0


def test_seconds_bound_the_fit_and_the_steps_are_told() -> None:
    assert made(HashSource("time"), 500).steps == 120
    hurried = made(HashSource("time"), 500, seconds="1e-9")
    assert hurried.steps == 0
    assert hurried.table().num_rows > 0


def test_a_single_column_and_a_column_of_one_value_are_tables_too() -> None:
    one = made(HashSource("one"), data={"x": [1, 2, 3] * 300}, domain={"x": Range(1, 3, 3, whole=True)}, epsilon=10)
    assert worst_alone(one) < 0.1
    flat = made(HashSource("flat"), data={"x": ["a"] * 50, "y": [1] * 50}, domain={"x": ["a"], "y": [1, 2]}, epsilon=10)
    assert flat.table().num_rows > 0
    assert set(flat.table()["x"].to_pylist()) == {"a"}


def worst_alone(synthetic: Synthetic) -> float:
    counts = np.bincount(synthetic.sample(3000)["x"].to_numpy(), minlength=4)[1:].astype(float)
    return distance(counts, np.ones(3))
