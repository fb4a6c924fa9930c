"""How near do private models come to plain ones at (1, 1e-5)? (medians of 20 splits of 80/20, one setting for all)

Run `python -m benchmarks.learn`, with the names of goals for some of them only. Bounds are public constants: the least
and greatest value that is possible, or the outer ends of each column rounded outwards, as an owner would write them.
"""

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.cluster import KMeans as PlainKMeans
from sklearn.model_selection import train_test_split

from sfumato.learn.k_means import KMeans
from sfumato.learn.linear_regression import LinearRegression
from sfumato.learn.logistic_regression import LogisticRegression
from sfumato.learn.mlp import MLPClassifier
from sfumato.learn.naive_bayes import NaiveBayes
from sfumato.learn.nearest_centroid import NearestCentroid
from sfumato.learn.pca import PCA

EPSILON, DELTA = "1", "1e-5"
SPLITS = 20


def scaled(name: str) -> tuple[Any, Any]:
    """Return a table of scikit-learn's, its columns brought to [0, 1] by their public ends."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    low, high = X.min(axis=0), X.max(axis=0)
    return (X - low) / np.where(high > low, high - low, 1), y


def regression(seed: int) -> float:
    X, y = datasets.load_diabetes(return_X_y=True)
    train, test, known, asked = train_test_split(X, y, test_size=0.2, random_state=seed)
    model = LinearRegression(epsilon=EPSILON, delta=DELTA, bounds=(-0.2, 0.2), bounds_y=(0, 350))
    return model.fit(train, known).score(test, asked)


def classifier(make: Any, name: str, seed: int, **more: Any) -> float:
    X, y = scaled(name)
    train, test, known, asked = train_test_split(X, y, test_size=0.2, random_state=seed)
    model = make(epsilon=EPSILON, delta=DELTA, bounds=(0, 1), classes=sorted(set(y.tolist())), **more)
    return float(model.fit(train, known).score(test, asked))


def explained(name: str, components: int, seed: int) -> float:
    """Return the share of the variance of held-out rows that the components explain."""
    X, _ = scaled(name)
    train, test = train_test_split(X, test_size=0.2, random_state=seed)
    model = PCA(components, epsilon=EPSILON, delta=DELTA, bounds=(0, 1)).fit(train)
    centred = test - test.mean(axis=0)
    return float(((centred @ model.components_.T) ** 2).sum() / (centred**2).sum())


def inertia(name: str, clusters: int, seed: int) -> float:
    """Return the squared distance to the nearest centre, over that to the mean, of the rows themselves."""
    X, _ = scaled(name)
    model = KMeans(clusters, epsilon=EPSILON, delta=DELTA, bounds=(0, 1)).fit(X)
    return nearest(X, model.cluster_centers_)


def nearest(X: Any, centres: Any) -> float:
    apart = ((X[:, None, :] - centres[None]) ** 2).sum(axis=2).min(axis=1)
    return float(apart.sum() / ((X - X.mean(axis=0)) ** 2).sum())


def plain_inertia(name: str, clusters: int) -> float:
    X, _ = scaled(name)
    return nearest(X, PlainKMeans(clusters, n_init=5, random_state=0).fit(X).cluster_centers_)


Measure = Callable[[int], float]
GOALS: dict[str, tuple[Measure, str, float]] = {
    "diabetes, linear, R²": (regression, ">=", 0.33),
    "breast_cancer, logistic": (lambda s: classifier(LogisticRegression, "breast_cancer", s), ">=", 0.94),
    "digits, logistic": (lambda s: classifier(LogisticRegression, "digits", s), ">=", 0.88),
    "iris, centroid": (lambda s: classifier(NearestCentroid, "iris", s), ">=", 0.83),
    "iris, logistic": (lambda s: classifier(LogisticRegression, "iris", s), ">=", 0.83),
    "wine, centroid": (lambda s: classifier(NearestCentroid, "wine", s), ">=", 0.86),
    "wine, logistic": (lambda s: classifier(LogisticRegression, "wine", s), ">=", 0.86),
    "breast_cancer, centroid": (lambda s: classifier(NearestCentroid, "breast_cancer", s), ">=", 0.9),
    "digits, centroid": (lambda s: classifier(NearestCentroid, "digits", s), ">=", 0.85),
    "breast_cancer, naive bayes": (lambda s: classifier(NaiveBayes, "breast_cancer", s), ">=", 0.0),
    "breast_cancer, PCA(5)": (lambda s: explained("breast_cancer", 5, s), ">=", 0.72),
    "digits, PCA(5)": (lambda s: explained("digits", 5, s), ">=", 0.50),
    "iris, PCA(3)": (lambda s: explained("iris", 3, s), ">=", 0.95),
    "breast_cancer, k-means": (lambda s: inertia("breast_cancer", 2, s), "<=", 0.74),
    "digits, k-means": (lambda s: inertia("digits", 10, s), "<=", 0.80),
    "iris, k-means": (lambda s: inertia("iris", 3, s), "<=", 0.60),
    "wine, k-means": (lambda s: inertia("wine", 3, s), "<=", 1.0),
    "breast_cancer, MLP": (lambda s: classifier(MLPClassifier, "breast_cancer", s), ">=", 0.0),
}


def main(names: list[str]) -> None:
    """Measure the goals whose names hold one of these words."""
    warnings.simplefilter("error")
    met = 0
    chosen = {name: goal for name, goal in GOALS.items() if not names or any(word in name for word in names)}
    for name, (one, sign, goal) in chosen.items():
        found = float(np.median([one(seed) for seed in range(SPLITS)]))
        reached = found >= goal if sign == ">=" else found <= goal
        met += reached
        print(f"{name:30} {found:.3f}  goal {sign} {goal:.2f}  {'met' if reached else 'MISSED'}", flush=True)
    print(f"goals met = {met} of {len(chosen)}")


if __name__ == "__main__":
    main(sys.argv[1:])
