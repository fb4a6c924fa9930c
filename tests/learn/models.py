"""Every model with the parameters that a small fit needs, and tables that are hard to fit."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sfumato.learn.k_means import KMeans
from sfumato.learn.linear_regression import LinearRegression
from sfumato.learn.logistic_regression import LogisticRegression
from sfumato.learn.mlp import MLPClassifier
from sfumato.learn.model import Model
from sfumato.learn.naive_bayes import NaiveBayes
from sfumato.learn.nearest_centroid import NearestCentroid
from sfumato.learn.pca import PCA
from sfumato.learn.scaler import StandardScaler

Make = Callable[..., Model]

MODELS: dict[str, tuple[Make, dict[str, Any]]] = {
    "linear": (LinearRegression, {"bounds": (0, 10), "bounds_y": (-5, 5)}),
    "scaler": (StandardScaler, {"bounds": (0, 10)}),
    "pca": (lambda **more: PCA(2, **more), {"bounds": (0, 10)}),
    "centroid": (NearestCentroid, {"bounds": (0, 10), "classes": ["a", "b", "c"]}),
    "bayes": (NaiveBayes, {"bounds": (0, 10), "classes": ["a", "b", "c"]}),
    "logistic": (LogisticRegression, {"bounds": (0, 10), "classes": ["a", "b", "c"]}),
    "k-means": (lambda **more: KMeans(3, **more), {"bounds": (0, 10)}),
    "mlp": (
        lambda **more: MLPClassifier((8,), rate="0.5", steps=10, **more),
        {"bounds": (0, 10), "classes": ["a", "b", "c"]},
    ),
}
PRICE = {"epsilon": "1", "delta": "1e-5"}


def model_of(name: str, **more: Any) -> Model:
    """Return a model that was never fitted."""
    make, parameters = MODELS[name]
    return make(**{**PRICE, **parameters, **more})


def targets_of(name: str, labels: list[Any], numbers: list[Any]) -> list[Any] | None:
    """Return the target that a model of this name takes."""
    parameters = MODELS[name][1]
    return labels if "classes" in parameters else numbers if "bounds_y" in parameters else None


def fitted_of(model: Model) -> dict[str, Any]:
    """Return all that a fit left in a model."""
    return {name: value for name, value in vars(model).items() if name.endswith("_") and not name.startswith("_")}


NAN, INF = float("nan"), float("inf")
TABLES: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "nobody": (np.zeros((0, 3)), [], []),
    "one": ([[1.0, 2.0, 3.0]], ["a"], [1.0]),
    "nothing but gaps": ([[NAN, 1, 2], [INF, 1, 2], [None, 1, 2]], ["a", "b", "c"], [1, 2, 3]),
    "labels nobody declared": ([[1, 2, 3], [4, 5, 6]], ["z", None], [NAN, "x"]),
    "one class": ([[1, 2, 3]] * 50, ["b"] * 50, [4.0] * 50),
    "far outside": ([[1e300, -1e300, 0], [10**400, 5, 5]] * 3, ["a", "b"] * 3, [1e308, -1e308] * 3),
    "all alike": ([[0, 0, 0]] * 100, ["a", "b"] * 50, [0] * 100),
    "strange objects": ([[object(), "7", b"x"], [[1], {}, 1j]], [[], {}], [object(), ()]),
}
