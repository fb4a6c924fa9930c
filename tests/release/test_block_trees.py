"""Cells measured in blocks, too: one pass up and one down give what dense least squares gives."""

import numpy as np
import numpy.typing as npt
import pytest

from sfumato.planning.hierarchies import Hierarchy
from sfumato.release.block_trees import BlockTree, block_estimates
from sfumato.release.noisy import NoisyGroup

Matrix = npt.NDArray[np.float64]
TREES = (
    BlockTree(16, (1, 4, 16), (2.0, 3.0, 0.5), (1.0, 0.0, 2.0)),
    BlockTree(37, (1, 4, 16), (2.0, 1.0, 5.0), (12.0, 3.0, 75.0)),
    BlockTree(21, (1, 8), (1.5, 9.0), (0.0, 0.0)),
    BlockTree(5, (1, 2, 4, 8), (1.0, 2.0, 3.0, 4.0), (1.0, 1.0, 1.0, 1.0)),
    BlockTree(3, (1,), (2.0,), (4.0,)),
)


def _weights(tree: BlockTree) -> tuple[Matrix, Matrix, Matrix]:
    """Return the weights of all measured numbers in each cell, by dense algebra, and the moments of their noise."""
    rows, noises, fourths = [], [], []
    for size, variance, fourth in zip(tree.sizes, tree.variances, tree.fourths, strict=True):
        for block in range(-(-tree.cells // size)):
            rows.append((np.arange(tree.cells) // size == block).astype(float))
            noises.append(variance)
            fourths.append(fourth)
    matrix, precision = np.array(rows), np.diag(1 / np.array(noises))
    return np.linalg.pinv(matrix.T @ precision @ matrix) @ matrix.T @ precision, np.array(noises), np.array(fourths)


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: f"{tree.cells} by {tree.sizes}")
def test_estimates_and_moments_are_those_of_dense_least_squares(tree: BlockTree) -> None:
    weights, noises, fourths = _weights(tree)
    random = np.random.default_rng(7)
    measured = [random.integers(-20, 60, (3, -(-tree.cells // size))) for size in tree.sizes]
    direct = np.concatenate(measured, axis=1) @ weights.T
    np.testing.assert_allclose(tree.estimate(measured), direct, atol=1e-9)
    np.testing.assert_allclose(tree.cell_variances(), (weights**2) @ noises, rtol=1e-9)
    assert (tree.cell_fourths() >= (weights**4) @ fourths - 1e-9).all()
    sums = random.normal(size=(6, tree.cells)) * (random.random((6, tree.cells)) < 0.5)
    variance, fourth = tree.moments_of_sums(sums)
    np.testing.assert_allclose(variance, ((sums @ weights) ** 2) @ noises, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fourth, ((sums @ weights) ** 4) @ fourths, rtol=1e-9, atol=1e-12)
    one, other = sums[:3] @ weights, sums[3:] @ weights
    for (power, times), found in tree.joint_moments(sums[:3], sums[3:]).items():
        direct = (one**power * other**times) @ (noises if power + times == 2 else fourths)
        np.testing.assert_allclose(found, direct, rtol=1e-9, atol=1e-12)


def test_each_combination_of_other_keys_has_a_tree_and_hidden_cells_have_none() -> None:
    hierarchy = Hierarchy("g", ("m",), 0, (5, 2), (("g4", 4),))
    moments, sizes, random = [(2.0, 12.0), (1.0, 3.0)], [7, 3], np.random.default_rng(3)
    cells, blocks = random.integers(0, 50, sizes), random.integers(0, 90, (2, 2))
    groups = {
        label: NoisyGroup(((),) * values.size, (("m", tuple(values.ravel().tolist())),))
        for label, values in (("g", cells), ("g4", blocks))
    }
    whole, found = block_estimates(hierarchy, "m", groups, moments, sizes)
    tree = BlockTree(5, (1, 4), (2.0, 1.0), (12.0, 3.0))
    direct = tree.estimate([cells[:5, :2].T, blocks.T]).T
    np.testing.assert_allclose(found.values.reshape(sizes)[:5, :2], direct, atol=1e-9)
    hidden = found.row_of.reshape(sizes) < 0
    assert hidden[5:].all()
    assert hidden[:, 2].all()
    assert not hidden[:5, :2].any()
    np.testing.assert_array_equal(found.values.reshape(sizes)[hidden], cells[hidden])
    np.testing.assert_array_equal(np.cumsum(whole.reshape(5, 2), axis=0), np.rint(np.cumsum(direct, axis=0)))
    rows, places = np.array([0, 0, 0, 1, 1]), np.array([0, 3, 4, 1, 9])
    weights = np.array([1.0, 2.0, -1.0, 1.0, 3.0])
    moved = found.moments_of_sums(rows, places, weights, 2)
    assert moved is not None
    apart = np.zeros((4, 5))  # each row has cells of both trees
    apart[0, [0, 1]], apart[1, 1], apart[2, 3], apart[3, 0] = (1.0, 2.0), -1.0, 3.0, 1.0
    for moment, by_tree in zip(moved, tree.moments_of_sums(apart), strict=True):
        np.testing.assert_allclose(moment, [by_tree[:2].sum(), by_tree[2:].sum()])
    assert found.moments_of_sums(np.array([0]), np.array([2]), np.array([1.0]), 1) is None, (
        "a hidden cell is in no tree"
    )
