"""How many times longer does a private fit take than scikit-learn's? (200,000 × 10, one run, interleaved, best of 3)"""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from sklearn import decomposition
from sklearn.linear_model import LinearRegression as PlainLinear
from sklearn.linear_model import LogisticRegression as PlainLogistic

from sfumato.learn.linear_regression import LinearRegression
from sfumato.learn.logistic_regression import LogisticRegression
from sfumato.learn.pca import PCA

ROWS, COLUMNS, REPEATS = 200_000, 10, 3
PRICE = {"epsilon": "1", "delta": "1e-5", "bounds": (-4, 4)}


def best(fits: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the least time of each, taken in turns; each was run once before."""
    times = {name: float("inf") for name in fits}
    for repeat in range(REPEATS + 1):
        for name, fit in fits.items():
            start = perf_counter()
            fit()
            if repeat:
                times[name] = min(times[name], perf_counter() - start)
    return times


def main() -> None:
    """Time three models."""
    generator = np.random.default_rng(1)
    rows = generator.normal(size=(ROWS, COLUMNS))
    line = rows @ generator.normal(size=COLUMNS) / 4 + generator.normal(size=ROWS) / 4
    label = (line > 0).astype(int)
    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "linear": (
            lambda: LinearRegression(**PRICE, bounds_y=(-4, 4)).fit(rows, line),
            lambda: PlainLinear().fit(rows, line),
        ),
        "PCA": (lambda: PCA(3, **PRICE).fit(rows), lambda: decomposition.PCA(3).fit(rows)),
        "logistic": (
            lambda: LogisticRegression(**PRICE, classes=[0, 1]).fit(rows, label),
            lambda: PlainLogistic().fit(rows, label),
        ),
    }
    worst = 0.0
    for name, (private, plain) in pairs.items():
        times = best({"private": private, "plain": plain})
        ratio = times["private"] / times["plain"]
        worst = max(worst, ratio if name != "logistic" else 0.0)
        print(f"{name:10} private {times['private']:.3f} s, plain {times['plain']:.3f} s: {ratio:.1f}x", flush=True)
    print(f"private / plain = {worst:.2f}x (linear and PCA, the slower ratio)")


if __name__ == "__main__":
    main()
