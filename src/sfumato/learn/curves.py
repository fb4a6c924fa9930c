"""What epsilon bought: how good a model is at several prices, and at several sizes of data. For rows that are yours.

Every point of a curve is a fit on rows that may be known, such as last year's or made-up ones. On people's rows each
fit would be a charge, and choosing by the scores another one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.errors import BadParameter
from sfumato.exact import integer
from sfumato.learn.arrays import read_column, read_matrix
from sfumato.learn.model import Model
from sfumato.release.rendering.export import optional


@dataclass(frozen=True, slots=True)
class ScoreCurve:
    """Scores along an axis: for each place the median, the least and the greatest of several fits."""

    axis: str
    points: tuple[tuple[float, float, float, float], ...]
    """(place, median, least, greatest)."""

    def __str__(self) -> str:
        lines = [f"{self.axis:>10}  {'median':>8}  {'least':>8}  {'greatest':>8}"]
        return "\n".join([*lines, *(f"{p:>10,g}  {m:>8.3f}  {lo:>8.3f}  {hi:>8.3f}" for p, m, lo, hi in self.points)])

    def plot(self) -> Any:
        """Return an Altair chart: a line of medians with the band of all fits (`pip install 'sfumato[plot]'`)."""
        altair = optional("altair", "plot")
        rows = [dict(zip(("place", "median", "low", "high"), point, strict=True)) for point in self.points]
        across = altair.X("place:Q", title=self.axis, scale=altair.Scale(type="log"))
        drawn = altair.Chart(altair.Data(values=rows)).encode(x=across)
        band = drawn.mark_area(opacity=0.25).encode(y=altair.Y("low:Q", title="score"), y2="high:Q")
        return (band + drawn.mark_line(point=True).encode(y="median:Q")).properties(width=480, height=300)


def epsilon_curve(
    model: Model,
    X: object,  # noqa: N803
    y: object,
    *,
    epsilons: Sequence[object],
    repeats: int = 5,
) -> ScoreCurve:
    """Return how well copies of a model score on every fifth row after a fit to the others, at each epsilon."""
    table, target = _training_curve(X, y)
    train, test = _train_test_split(len(table))
    points = [
        _point(model, float(str(epsilon)), {"epsilon": epsilon}, table, target, train, test, repeats)
        for epsilon in epsilons
    ]
    return ScoreCurve("epsilon", tuple(points))


def learning_curve(model: Model, X: object, y: object, *, sizes: Sequence[int], repeats: int = 5) -> ScoreCurve:  # noqa: N803
    """Return the scores of copies of a model on every fifth row, fitted to growing parts of the others."""
    table, target = _training_curve(X, y)
    train, test = _train_test_split(len(table))
    points = []
    for size in sizes:
        first = train[: integer(size, "sizes", 1)]
        points.append(_point(model, float(len(first)), {}, table, target, first, test, repeats))
    return ScoreCurve("rows", tuple(points))


def _training_curve(X: object, y: object) -> tuple[Any, Any]:  # noqa: N803
    table = read_matrix(X)
    target = read_column(y, len(table), "y")
    if len(table) >= 10:
        return table, target
    raise BadParameter("There are fewer than ten rows.", "A curve needs rows to fit and rows to score.", "Give more.")


def _train_test_split(count: int) -> tuple[Any, Any]:
    places = np.arange(count)
    return places[places % 5 != 4], places[places % 5 == 4]


def _point(
    model: Any, place: float, changes: dict[str, object], table: Any, target: Any, train: Any, test: Any, repeats: int
) -> tuple[float, float, float, float]:
    if not hasattr(model, "score"):
        raise BadParameter("This model has no score.", "A curve shows scores.", "Give a model that predicts.")
    scores = []
    for _ in range(integer(repeats, "repeats", 1)):
        copy = type(model)(**{**model.get_params(), **changes})
        scores.append(copy.fit(table[train], target[train]).score(table[test], target[test]))
    return place, float(np.median(scores)), min(scores), max(scores)
