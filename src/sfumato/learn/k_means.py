"""KMeans: cluster a noisy histogram in few directions for free, then measure each cluster once."""

from itertools import product

import numpy as np

from sfumato.errors import BadParameter
from sfumato.exact import integer
from sfumato.learn.calibration import Stage
from sfumato.learn.first_stage import centre_stage, measure_centre, measure_radius, radius_stage, shrink_towards
from sfumato.learn.model import FitState, Model, StageNoise, parse_share, to_json_numbers
from sfumato.learn.rows import UNIT_STEPS, Ball, Integers, Rows, blocks, exact_product, shrink
from sfumato.learn.sensitivities import CELL_COUNT_STEPS, in_ball, in_cells, of_products
from sfumato.learn.table_metadata import Floats, TableMetadata, inverse
from sfumato.randomness.source import Source
from sfumato.randomness.uniform import uniform_bits

_COUNT_WEIGHT = UNIT_STEPS * 7 // 10
_DIRECTION_UNIT = 1 << 12
"""Directions are rounded to multiples of one over this number before rows are projected."""
_HISTOGRAM_DEVIATIONS = 2.5
"""Reach of a histogram to both sides, in noisy deviations; its outermost cells hold the rest."""
_RESTART_COUNT, _ROUNDS = 20, 30
_MAX_CLUSTERS = 100


class KMeans(Model):
    """Centres of clusters, in halves of the columns' ranges.

    Theorem: a released centre, radius and matrix of products, a histogram of rows along released directions, and for
    every released cluster the number and the sum of its rows, each with Gaussian noise, and all that follows from these
    is (epsilon, delta)-DP.  Proof: proofs/learn_k_means.md
    """

    _iterative = True
    cluster_centers_: Floats

    def __init__(
        self,
        n_clusters: object,
        *,
        epsilon: object,
        delta: object,
        bounds: object = None,
        neighbours: object = "add-remove",
        rows_per_person: object = 1,
    ) -> None:
        super().__init__(
            epsilon=epsilon, delta=delta, bounds=bounds, neighbours=neighbours, rows_per_person=rows_per_person
        )
        self.n_clusters = n_clusters

    def _parameters(self) -> dict[str, object]:
        return {"n_clusters": self._read_clusters()}

    def _read_clusters(self) -> int:
        clusters = integer(self.n_clusters, "n_clusters", 1)
        if clusters <= _MAX_CLUSTERS:
            return clusters
        raise BadParameter(
            f"n_clusters is more than {_MAX_CLUSTERS}.",
            "The histogram has too few cells for more clusters.",
            "Give fewer.",
        )

    def _stages(self, metadata: TableMetadata) -> tuple[Stage, ...]:
        return (
            centre_stage(metadata, parse_share("0.1")),
            radius_stage(metadata, parse_share("0.05")),
            Stage(parse_share("0.3"), of_products(metadata, 0)),
            Stage(parse_share("0.25"), in_cells(metadata)),
            Stage(parse_share("0.3"), in_ball(metadata, _COUNT_WEIGHT, self._read_clusters())),
        )

    def _measure(self, sums: Rows, metadata: TableMetadata, noise: StageNoise) -> FitState:
        clusters = self._read_clusters()
        centre, count = measure_centre(sums, metadata, noise, 0)
        ball = Ball(centre, measure_radius(sums, metadata, centre, noise, 1, measured=True, quantile=0.9))
        noisy = noise.add(2, sums.products(ball, 0)[:-1, :-1])
        values, vectors = np.linalg.eigh((noisy + noisy.T) / 2)
        few = min(metadata.width, 2 if clusters <= 4 else 3)
        axes = np.rint(vectors[:, ::-1][:, :few] * _DIRECTION_UNIT)
        reach = _HISTOGRAM_DEVIATIONS * np.sqrt(np.maximum(values[::-1][:few], 0.0) / count)
        ends = tuple(int(end) for end in np.clip(reach, UNIT_STEPS / 16, UNIT_STEPS) * _DIRECTION_UNIT)
        rows = shrink(sums.values, ball)
        sides = _cells_per_direction(few)
        cells = cell_counts(rows, axes, ends, sides)
        counts = noise.add(3, cells * CELL_COUNT_STEPS) / CELL_COUNT_STEPS
        weights = np.where(counts < 2 * noise.deviation(3) / CELL_COUNT_STEPS, 0.0, counts)
        points = np.array(list(product(range(sides), repeat=few)), dtype=np.float64)
        points = ((2 * points + 1) / sides - 1) * np.array(ends)
        centres = cluster_points(points, weights, clusters, noise.source)
        # back to all columns, in units of the ball
        full = np.rint(np.clip(centres @ axes.T / _DIRECTION_UNIT**2, -UNIT_STEPS, UNIT_STEPS))
        exact = per_cluster(rows, full)
        exact[:, 0] *= _COUNT_WEIGHT
        last = noise.add(4, exact)
        sizes = np.maximum(last[:, 0] / _COUNT_WEIGHT, 1.0)
        means = last[:, 1:] / sizes[:, None]
        drawn = shrink_towards(means, full, (noise.deviation(4) / sizes) ** 2)
        places = (np.array(centre) + drawn / UNIT_STEPS * ball.radius) / UNIT_STEPS
        return {"centers": to_json_numbers(metadata.middle + metadata.half * np.clip(places, -1, 1))}

    def _set_state(self, state: FitState, metadata: TableMetadata) -> None:
        self.cluster_centers_ = np.array(state["centers"])

    def predict(self, X: object) -> Integers:  # noqa: N803
        """Return the number of the nearest centre of each row; free."""
        return np.asarray(self._distances(X).argmin(axis=1))

    def score(self, X: object, y: object = None) -> float:  # noqa: N803
        """Return minus the squared distances of rows that are yours to their centres: exact, and not private."""
        return -float(self._distances(X).min(axis=1).sum())

    def _distances(self, X: object) -> Floats:  # noqa: N803
        table = self._table(X)  # first: it refuses a model that is not fitted
        scale = inverse(self._metadata.half)
        rows, centres = (
            (table - self._metadata.middle) * scale,
            (self.cluster_centers_ - self._metadata.middle) * scale,
        )
        squares = (rows**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1) - 2 * rows @ centres.T
        return np.asarray(np.maximum(squares, 0.0))


def _cells_per_direction(few: int) -> int:
    """Return how many cells a histogram has along each of its directions."""
    return {1: 50, 2: 10, 3: 6}[few]


def cell_counts(rows: Floats, axes: Floats, ends: tuple[int, ...], sides: int) -> Integers:
    """Return how many rows each cell has: integers decide, from a row and from released directions and ends."""
    total = np.zeros(sides ** len(ends), dtype=np.int64)
    for part in blocks(len(rows)):
        place = np.zeros(len(rows[part]), dtype=np.int64)
        for axis, end in zip(axes.T, ends, strict=True):
            along = np.floor((rows[part] @ axis + end) * sides / (2 * end))
            place = place * sides + np.clip(along, 0, sides - 1).astype(np.int64)
        total += np.bincount(place, minlength=len(total))
    return total


def per_cluster(rows: Floats, centres: Floats) -> Integers:
    """Return for each centre the number and sum of the rows nearest to it; of equally near ones the first."""
    total = np.zeros((len(centres), 1 + rows.shape[1]), dtype=np.int64)
    for part in blocks(len(rows)):
        nearness = 2 * rows[part] @ centres.T - (centres**2).sum(axis=1)
        own = (nearness.argmax(axis=1)[:, None] == np.arange(len(centres))).astype(np.float64)
        total += exact_product(own, np.concatenate([np.ones((len(own), 1)), rows[part]], axis=1))
    return total


def cluster_points(points: Floats, weights: Floats, clusters: int, source: Source) -> Floats:
    """Return centres of weighted points: the best of several starts, chosen as k-means++ does. It is free."""
    live, heavy = (points[weights > 0], weights[weights > 0]) if (weights > 0).any() else (points, np.ones(len(points)))
    best, least = np.zeros((clusters, points.shape[1])), np.inf
    for _ in range(_RESTART_COUNT):
        centres = _starting_centres(live, heavy, clusters, source)
        for _ in range(_ROUNDS):
            own = _squared_distances(live, centres).argmin(axis=1)
            mass = np.bincount(own, weights=heavy, minlength=clusters)
            sums = np.stack([np.bincount(own, weights=heavy * column, minlength=clusters) for column in live.T], axis=1)
            centres = np.where(mass[:, None] > 0, sums / np.maximum(mass, 1e-300)[:, None], centres)
        cost = float((heavy * _squared_distances(live, centres).min(axis=1)).sum())
        if cost < least:
            best, least = centres, cost
    return best


def _squared_distances(points: Floats, centres: Floats) -> Floats:
    return np.asarray(((points[:, None, :] - centres[None]) ** 2).sum(axis=2))


def _starting_centres(points: Floats, weights: Floats, clusters: int, source: Source) -> Floats:
    chosen = [_draw_by_weight(weights, source)]
    for _ in range(clusters - 1):
        chances = weights * _squared_distances(points, points[chosen]).min(axis=1)
        chosen.append(_draw_by_weight(chances if chances.sum() > 0 else weights, source))
    return points[chosen]


def _draw_by_weight(weights: Floats, source: Source) -> int:
    """Return a place, drawn by weight."""
    share_of = int(uniform_bits(53, 1, source)[0]) / 2**53
    return int(min(np.searchsorted(np.cumsum(weights), share_of * weights.sum(), side="right"), len(weights) - 1))
