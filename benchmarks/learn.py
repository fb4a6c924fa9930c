"""How near do private models come to plain ones at (1, 1e-5)? (medians of 20 splits of 80/20, one setting for all)

Run `python -m benchmarks.learn`, with words of the goals' names for some of them only. Columns are brought to [0, 1] by
their ends before they are split, as if an owner had declared those. With `cps=cps1.csv`, a file of the CPS extract of
Dehejia and Wahba (15,992 rows), the earnings of 1978 are predicted too, against least squares on the same splits.
"""

import csv
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.cluster import KMeans as PlainKMeans
from sklearn.linear_model import LinearRegression as PlainRegression
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
    rows, target = getattr(datasets, f"load_{name}")(return_X_y=True)
    low, high = rows.min(axis=0), rows.max(axis=0)
    return (rows - low) / np.where(high > low, high - low, 1), target


def regression(seed: int) -> float:
    rows, target = datasets.load_diabetes(return_X_y=True)
    train, test, known, asked = train_test_split(rows, target, test_size=0.2, random_state=seed)
    model = LinearRegression(epsilon=EPSILON, delta=DELTA, bounds=(-0.2, 0.2), bounds_y=(0, 350))
    return model.fit(train, known).score(test, asked)


def classifier(make: Any, name: str, seed: int, **more: Any) -> float:
    rows, target = scaled(name)
    train, test, known, asked = train_test_split(rows, target, test_size=0.2, random_state=seed)
    model = make(epsilon=EPSILON, delta=DELTA, bounds=(0, 1), classes=sorted(set(target.tolist())), **more)
    return float(model.fit(train, known).score(test, asked))


def explained(name: str, components: int, seed: int) -> float:
    """Return the share of the variance of held-out rows that the components explain."""
    rows, _ = scaled(name)
    train, test = train_test_split(rows, test_size=0.2, random_state=seed)
    model = PCA(components, epsilon=EPSILON, delta=DELTA, bounds=(0, 1)).fit(train)
    centred = test - test.mean(axis=0)
    return float(((centred @ model.components_.T) ** 2).sum() / (centred**2).sum())


def inertia(name: str, clusters: int, seed: int) -> float:
    """Return the squared distance to the nearest centre, over that to the mean, of the rows themselves."""
    rows, _ = scaled(name)
    model = KMeans(clusters, epsilon=EPSILON, delta=DELTA, bounds=(0, 1)).fit(rows)
    return nearest(rows, model.cluster_centers_)


def nearest(rows: Any, centres: Any) -> float:
    apart = ((rows[:, None, :] - centres[None]) ** 2).sum(axis=2).min(axis=1)
    return float(apart.sum() / ((rows - rows.mean(axis=0)) ** 2).sum())


def plain_inertia(name: str, clusters: int) -> float:
    rows, _ = scaled(name)
    return nearest(rows, PlainKMeans(clusters, n_init=5, random_state=0).fit(rows).cluster_centers_)


def earnings(path: str) -> None:
    """Print R² of earnings on eight columns, private and plain."""
    names = ("age", "educ", "black", "hisp", "marr", "nodeg", "re74", "re75", "re78")
    with open(path, encoding="utf-8") as file:
        lines = [[float(row[name]) for name in names] for row in csv.DictReader(file)]
    table = np.array(lines)
    low, high = (16, 0, 0, 0, 0, 0, 0, 0), (55, 18, 1, 1, 1, 1, 26_000, 26_000)
    found = []
    for seed in range(SPLITS):
        train, test = train_test_split(table, test_size=0.2, random_state=seed)
        model = LinearRegression(epsilon=EPSILON, delta=DELTA, bounds=(low, high), bounds_y=(0, 26_000))
        private = model.fit(train[:, :-1], train[:, -1]).score(test[:, :-1], test[:, -1])
        plain = PlainRegression().fit(train[:, :-1], train[:, -1]).score(test[:, :-1], test[:, -1])
        found.append((private, plain))
    private, plain = np.median(found, axis=0)
    met = "met" if private >= plain - 0.005 else "MISSED"
    print(f"{'CPS earnings, linear, R²':30} {private:.4f}  goal >= {plain:.4f} - 0.005  {met}", flush=True)


Measure = Callable[[int], float]
"""From the number of a split to a score."""
GOALS: dict[str, tuple[Measure, str, float]] = {
    "diabetes, linear, R²": (regression, ">=", 0.33),
    "breast_cancer, logistic": (lambda s: classifier(LogisticRegression, "breast_cancer", s), ">=", 0.94),
    "digits, logistic": (lambda s: classifier(LogisticRegression, "digits", s), ">=", 0.88),
    "iris, centroid": (lambda s: classifier(NearestCentroid, "iris", s), ">=", 0.83),
    "iris, logistic": (lambda s: classifier(LogisticRegression, "iris", s), ">=", 0.83),
    "wine, centroid": (lambda s: classifier(NearestCentroid, "wine", s), ">=", 0.86),
    "wine, logistic": (lambda s: classifier(LogisticRegression, "wine", s), ">=", 0.86),
    "breast_cancer, centroid": (lambda s: classifier(NearestCentroid, "breast_cancer", s), "", 0.0),
    "digits, centroid": (lambda s: classifier(NearestCentroid, "digits", s), "", 0.0),
    "breast_cancer, naive bayes": (lambda s: classifier(NaiveBayes, "breast_cancer", s), "", 0.0),
    "breast_cancer, PCA(5)": (lambda s: explained("breast_cancer", 5, s), ">=", 0.72),
    "digits, PCA(5)": (lambda s: explained("digits", 5, s), ">=", 0.50),
    "iris, PCA(3)": (lambda s: explained("iris", 3, s), "", 0.0),
    "breast_cancer, k-means": (lambda s: inertia("breast_cancer", 2, s), "<=", 0.74),
    "digits, k-means": (lambda s: inertia("digits", 10, s), "<=", 0.80),
    "iris, k-means": (lambda s: inertia("iris", 3, s), "<=", 0.60),
    "wine, k-means": (lambda s: inertia("wine", 3, s), "", 0.0),
    "breast_cancer, MLP": (lambda s: classifier(MLPClassifier, "breast_cancer", s), "", 0.0),
}


def main(names: list[str]) -> None:
    """Measure the goals whose names hold one of these words."""
    warnings.simplefilter("error")
    met = goals = 0
    for word in [word for word in names if word.startswith("cps=")]:
        names.remove(word)
        earnings(word.removeprefix("cps="))
    chosen = {name: goal for name, goal in GOALS.items() if not names or any(word in name for word in names)}
    for name, (one, sign, goal) in chosen.items():
        found = float(np.median([one(seed) for seed in range(SPLITS)]))
        if not sign:
            print(f"{name:30} {found:.3f}", flush=True)
            continue
        reached = found >= goal if sign == ">=" else found <= goal
        met, goals = met + reached, goals + 1
        print(f"{name:30} {found:.3f}  goal {sign} {goal:.2f}  {'met' if reached else 'MISSED'}", flush=True)
    print(f"goals met = {met} of {goals}")


if __name__ == "__main__":
    main(sys.argv[1:])
