"""What is measured is integers: additive over people, no further apart than declared, the same by rows and by SQL."""

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import sfumato
from sfumato import learn
from sfumato.accounting.event import Neighbours
from sfumato.learn.arrays import bounded_rows, integers_of
from sfumato.learn.integer_network import GRADIENT_UNIT, IntegerNetwork, LayerWeights, on_grid
from sfumato.learn.k_means import cell_counts, per_cluster
from sfumato.learn.logistic_regression import _GRADIENT_UNIT, Descent, softmax_shares
from sfumato.learn.model import _read_rows
from sfumato.learn.rows import UNIT_STEPS, Ball, Integers, Rows, lengths_above, radii_of, shrink, squared_norms
from sfumato.learn.sensitivities import CELL_COUNT_STEPS, in_ball, in_box, in_cells, of_gradients, of_products
from sfumato.learn.statements import EngineSums, box
from sfumato.learn.table_metadata import TableMetadata
from sfumato.measure import Measurer, prepare_measurement
from sfumato.randomness.source import system_source

CORNERS = (-UNIT_STEPS, -UNIT_STEPS // 2 - 1, 0, 7, UNIT_STEPS)
BALLS = (Ball((0, 0), 2048), Ball((1000, -UNIT_STEPS), 70_001), Ball((UNIT_STEPS, UNIT_STEPS), 1 << 17))
WEIGHTS = (((0, 0),) * 3, ((1000, -3), (9, 8), (5, 0)), ((1 << 18, 0), (-(1 << 18), 77), (3, 1)))

NETWORKS: list[LayerWeights] = [
    [np.zeros((3, 2))],
    on_grid([np.array([[1.0, -2, 0.5], [16, 3, -99], [0, 1, 1]]), np.array([[5.0, 0], [1, -1], [0.3, 2], [0, -7]])]),
    on_grid([np.full((3, 4), 16.0), np.full((5, 3), 16.0), np.array([[16.0, -16.0]] * 4)]),
]


def outline_of(neighbours: Neighbours, classes: int = 2, most: int = 1) -> TableMetadata:
    return TableMetadata(
        (0.0, 0.0), (1.0, 1.0), tuple(range(classes))[: classes if classes > 1 else 0], False, neighbours, most
    )


def rows_from(listed: list[tuple[int, int, int]]) -> Rows:
    """Return rows of two columns and a class."""
    table = np.array(listed, dtype=np.int64).reshape(-1, 3)
    return Rows(table[:, :2].astype(float), table[:, 2], np.arange(len(table)), 2)


def vectors(rows: Rows, metadata: TableMetadata) -> list[tuple[Integers, int]]:
    """Return everything that a model measures, with the Δ² that was declared for it."""
    found: list[tuple[Integers, int]] = []
    weight = UNIT_STEPS
    counted = rows.clipped_sums(squares=True)
    counted[:, 0] *= weight
    found.append((counted, in_box(metadata, weight, squares=True)))
    found.append((counted[:, :3], in_box(metadata, weight, squares=False)))
    for ball in BALLS:
        found.append(
            (CELL_COUNT_STEPS * rows.radii(ball.centre, radii_of(metadata, around_measured=True)), in_cells(metadata))
        )
        shrunk = rows.shrunk(ball)
        shrunk[:, 0] *= UNIT_STEPS // 2
        found.append((shrunk, in_ball(metadata, UNIT_STEPS // 2, 2)))
        found.append((rows.products(ball, UNIT_STEPS // 2), of_products(metadata, UNIT_STEPS // 2)))
        for weights in WEIGHTS:
            descent = Descent(shrink(rows.values, ball), rows.labels, 2)
            found.append((descent.gradient(np.array(weights, dtype=float)), of_gradients(metadata, _GRADIENT_UNIT)))
        inside = shrink(rows.values, ball)
        clusters = per_cluster(inside, np.array([[0.0, 0.0], [UNIT_STEPS, 5], [0, 0]]))
        clusters[:, 0] *= UNIT_STEPS // 2
        found.append((clusters, in_ball(metadata, UNIT_STEPS // 2, 3)))
        cells = cell_counts(inside, np.array([[4096.0, 5], [-3, 4096]]), (UNIT_STEPS << 10, UNIT_STEPS << 12), 10)
        found.append((CELL_COUNT_STEPS * cells, in_cells(metadata)))
        for layers in NETWORKS:
            for length in (GRADIENT_UNIT // 100, 3 * GRADIENT_UNIT):
                sums = IntegerNetwork(layers, length).clipped_sum(np.floor(inside / 8), rows.labels)
                joined = np.concatenate([layer.ravel() for layer in sums])
                found.append((joined, of_gradients(metadata, length)))
    return found


def squared(one: Any, other: Any) -> int:
    return sum(int(value) ** 2 for value in (one - other).ravel())


ALL = list(product(CORNERS, CORNERS, (0, 1)))
OTHERS = [(3, -9, 0), (UNIT_STEPS, 5, 1)]


@pytest.mark.parametrize("relation", list(Neighbours), ids=str)
def test_no_person_of_one_row_moves_anything_further_than_declared(relation: Neighbours) -> None:
    """All pairs of rows at the corners and inside, beside two other people; each measurement in exact integers."""
    metadata = outline_of(relation)
    whole = vectors(rows_from(OTHERS), metadata)
    mine = [vectors(rows_from([*OTHERS, row]), metadata) for row in ALL]
    pairs = [(one, whole) for one in mine]
    if relation is Neighbours.REPLACE:
        pairs += [(one, other) for one in mine[::3] for other in mine]
    farthest = [0.0] * len(whole)
    for one, other in pairs:
        for at, ((here, allowed), (there, _)) in enumerate(zip(one, other, strict=True)):
            assert squared(here, there) <= allowed
            farthest[at] = max(farthest[at], squared(here, there) / allowed)
    assert min(farthest[:2]) > 0.7, "a bound that nothing comes near would only add noise"
    assert max(farthest) > 0.99


@pytest.mark.parametrize("relation", list(Neighbours), ids=str)
def test_no_person_of_two_rows_moves_anything_further_than_declared(relation: Neighbours) -> None:
    metadata = outline_of(relation, most=2)
    whole = vectors(rows_from(OTHERS), metadata)
    few = ALL[::4]
    mine = [vectors(rows_from([*OTHERS, *pair]), metadata) for pair in product(few, few[::2])]
    pairs = [(one, whole) for one in mine]
    if relation is Neighbours.REPLACE:
        pairs += [(one, other) for one in mine[::9] for other in mine[::5]]
    for one, other in pairs:
        for (here, allowed), (there, _) in zip(one, other, strict=True):
            assert squared(here, there) <= allowed


def test_squares_of_two_rows_are_no_further_apart_than_twice_their_length() -> None:
    """(x - y)² + (⌊x²/U⌋ - ⌊y²/U⌋)² ≤ 4U², for every x and y of a small grid and near the corners of the real one."""
    unit = 64
    values = np.arange(-unit, unit + 1)
    cut = values**2 // unit
    assert ((values[:, None] - values) ** 2 + (cut[:, None] - cut) ** 2).max() == 4 * unit**2
    near = np.array([sign * (UNIT_STEPS - at) for at in range(400) for sign in (1, -1)] + list(range(-200, 200)))
    cut = near**2 // UNIT_STEPS
    assert ((near[:, None] - near) ** 2 + (cut[:, None] - cut) ** 2).max() == 4 * UNIT_STEPS**2


def test_a_row_is_shrunk_by_itself_and_never_too_long() -> None:
    generator = np.random.default_rng(5)
    for width in (1, 2, 7, 40):
        values = generator.integers(-UNIT_STEPS, UNIT_STEPS + 1, (500, width)).astype(float)
        values[:50] = UNIT_STEPS * generator.choice([-1, 1], (50, width))
        centre = tuple(int(c) for c in generator.integers(-UNIT_STEPS, UNIT_STEPS + 1, width))
        for radius in (1, 1024, 50_000, 1 << 20):
            ball = Ball(centre, radius)
            shrunk = shrink(values, ball)
            assert squared_norms(shrunk).max() <= UNIT_STEPS**2
            alone = np.concatenate([shrink(values[at : at + 1], ball) for at in range(0, 500, 7)])
            assert (alone == shrunk[::7]).all(), "other rows change no bit of it"
            exact = [
                int(Fraction((int(x) - c) * UNIT_STEPS, max(radius, round(float(n) ** 0.5) + 1)))
                for row, n in zip(values[:9], squared_norms(values - np.array(centre))[:9], strict=True)
                for x, c in zip(row, centre, strict=True)
            ]
            assert exact == shrunk[:9].ravel().tolist()


def test_gradients_are_sums_of_what_single_rows_give() -> None:
    generator = np.random.default_rng(6)
    rows = shrink(generator.integers(-UNIT_STEPS, UNIT_STEPS + 1, (300, 4)).astype(float), Ball((0,) * 4, 90_000))
    labels = generator.integers(0, 3, 300)
    weights = generator.integers(-(1 << 18), 1 << 18, (5, 3)).astype(float)
    whole = Descent(rows, labels, 3).gradient(weights)
    single = [Descent(rows[at : at + 1], labels[at : at + 1], 3).gradient(weights) for at in range(300)]
    assert (np.sum(single, axis=0) == whole).all()
    assert max(squared(one, np.zeros_like(one)) for one in single) <= _GRADIENT_UNIT**2


def test_shares_are_a_softmax_and_roots_are_rounded_up() -> None:
    logits = np.array([[0.0, 0, 0], [512, 0, -512], [10**9, 0, -(10**9)]])
    found = softmax_shares(logits.T).T / 4096
    assert np.allclose(found[0], 1 / 3, atol=1e-3)
    expected = np.exp([2.0, 0, -2.0]) / np.exp([2.0, 0, -2.0]).sum()
    assert np.allclose(found[1], expected, atol=1e-3)
    assert found[2, 0] > 0.999
    squares = np.array([0.0, 1, 2, 3, 4, (1 << 26) ** 2 - 1, (1 << 26) ** 2])
    assert all(int(length) ** 2 >= int(square) for length, square in zip(lengths_above(squares), squares, strict=True))


def test_values_come_to_the_grid_one_by_one() -> None:
    metadata = TableMetadata((0.0, -1e308), (10.0, 1e308), (), False, Neighbours.ADD_REMOVE, 1)
    table = np.array([[0.0, -1e308], [10, 1e308], [5, 0], [-3, 1], [77, -1]])
    found = integers_of(table, metadata)
    assert found[:, 0].tolist() == [-UNIT_STEPS, UNIT_STEPS, 0, -UNIT_STEPS, UNIT_STEPS]
    assert found[:, 1].tolist() == [-UNIT_STEPS, UNIT_STEPS, 0, 0, 0]
    alone = np.concatenate([integers_of(table[at : at + 1], metadata) for at in range(5)])
    assert (alone == found).all()


def test_a_person_keeps_so_many_rows_and_nobody_changes_whose() -> None:
    metadata = TableMetadata((0.0,), (10.0,), (), False, Neighbours.ADD_REMOVE, 2)
    table = [[value] for value in range(10)]
    groups: list[object] = ["a", "a", "a", "a", "b", None, float("nan"), "b", "c", []]
    seen = set()
    for _ in range(60):
        rows = bounded_rows(table, None, groups, metadata, system_source())
        kept = sorted(((value + UNIT_STEPS) * 5 / UNIT_STEPS) for value in rows.values[:, 0].tolist())
        kept = [round(value) for value in kept]
        assert {4, 7, 8} <= set(kept)
        assert len(kept) == 5
        seen |= set(kept)
    assert seen == {0, 1, 2, 3, 4, 7, 8}, "each row of a person can be among those that count"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> sfumato.database.Database:
    folder = tmp_path_factory.mktemp("learn")
    generator = np.random.default_rng(7)
    count = 400
    columns = {
        "age": generator.integers(-5, 130, count),
        "cost": generator.uniform(-3, 12, count),
        "sick": generator.random(count) < 0.3,
        "ward": [str(value) for value in generator.choice(["a", "b", "elsewhere"], count)],
        "still": np.full(count, 3),
        "wide": generator.integers(-(2**61), 2**61, count),
    }
    (folder / "data").mkdir()
    parquet.write_table(pa.table(columns), folder / "data" / "visits.parquet")
    return sfumato.open(
        {
            "name": "clinic",
            "source": f"parquet:{folder / 'data'}",
            "budget": {"epsilon": 10, "delta": "1e-5"},
            "ledger": f"sqlite:{folder / 'clinic.ledger'}",
            "tables": {
                "visits": {
                    "unit": "rows",
                    "columns": {
                        "age": {"type": "integer", "bounds": [0, 120]},
                        "cost": {"type": "decimal", "bounds": [0, 8], "step": "0.001"},
                        "sick": {"type": "boolean"},
                        "ward": {"type": "text", "values": ["a", "b"]},
                        "still": {"type": "integer", "bounds": [3, 3]},
                        "wide": {"type": "integer", "bounds": [-(2**61), 2**61]},
                    },
                }
            },
        }
    )


def test_the_engine_adds_up_the_same_integers_as_an_array(database: sfumato.database.Database) -> None:
    asked = prepare_measurement(database, "SELECT age, cost, sick, still, wide, ward FROM visits")
    *columns, target = asked.rows.columns
    reading = Measurer(asked, system_source())
    rows = _read_rows(reading, columns, target)
    assert 200 < len(rows.values) < 350, "rows of other wards are absent"
    statements = EngineSums(asked, columns, target, reading)
    assert (statements.clipped_sums(squares=True) == rows.clipped_sums(squares=True)).all()
    metadata = TableMetadata((0.0,) * 5, (1.0,) * 5, ("a", "b"), False, Neighbours.ADD_REMOVE, 1)
    for centre in ((0,) * 5, (1000, -7, UNIT_STEPS, -UNIT_STEPS, 3)):
        radii = radii_of(metadata, around_measured=True)
        assert (statements.radii(centre, radii) == rows.radii(centre, radii)).all()
        for radius in (radii[0], radii[6], radii[-1]):
            ball = Ball(centre, radius)
            assert (statements.products(ball, UNIT_STEPS // 2) == rows.products(ball, UNIT_STEPS // 2)).all()
            assert (statements.products(ball, 0) == rows.products(ball, 0)).all()
            assert (statements.shrunk(ball) == rows.shrunk(ball)).all()


def test_steps_are_brought_to_the_grid_as_fractions_are() -> None:
    for low, high in ((0, 7), (-3, 120), (0, 1 << 61), (5, 5)):
        steps = np.array([low, high, (low + high) // 2, low + (high - low) // 3])
        found = box(steps, low, high)
        span = max(high - low, 1)
        exact = [
            int(Fraction((int(step) - low) * 2 * UNIT_STEPS, span) + Fraction(1, 2)) - UNIT_STEPS for step in steps
        ]
        assert found.tolist() == (exact if high > low else [0] * 4)


def test_classes_have_a_short_name() -> None:
    """The classes are imported by name, when they are used."""
    assert learn.LinearRegression.__module__ == "sfumato.learn.linear_regression"
    with pytest.raises(AttributeError):
        learn.nothing  # noqa: B018


def test_a_network_in_integers_has_the_gradient_of_the_one_in_floats() -> None:
    """Against central differences of the loss in floats; and each row's part is its own, whatever is beside it."""
    generator = np.random.default_rng(8)
    weights = [generator.normal(0, 0.7, (4, 6)), generator.normal(0, 0.7, (7, 3))]
    layers = on_grid(weights)
    rows = generator.integers(-4096, 4097, (40, 3)).astype(float)
    labels = generator.integers(0, 3, 40)
    network = IntegerNetwork(layers, 200 * GRADIENT_UNIT)
    found = network.clipped_sum(rows, labels)

    def loss(flat: Any) -> float:
        first, second = flat[:24].reshape(4, 6), flat[24:].reshape(7, 3)
        hidden = np.maximum(np.column_stack([rows / 4096, np.ones(40)]) @ first, 0)
        logits = np.column_stack([hidden, np.ones(40)]) @ second
        return float((np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(40), labels]).sum())

    start = np.concatenate([layer.ravel() for layer in layers]) / 4096
    slopes = []
    for at in range(45):
        step = np.zeros(45)
        step[at] = 1e-5
        slopes.append((loss(start + step) - loss(start - step)) / 2e-5)
    assert np.concatenate([layer.ravel() for layer in found]) / GRADIENT_UNIT == pytest.approx(slopes, abs=0.05)
    single = [network.clipped_sum(rows[at : at + 1], labels[at : at + 1]) for at in range(40)]
    for at in range(2):
        assert (np.sum([one[at] for one in single], axis=0) == found[at]).all()
    tight = IntegerNetwork(layers, GRADIENT_UNIT // 7)
    for at in range(40):
        parts = tight.clipped_sum(rows[at : at + 1], labels[at : at + 1])
        assert sum(int(value) ** 2 for part in parts for value in part.ravel()) <= (GRADIENT_UNIT // 7) ** 2
