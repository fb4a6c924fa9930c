"""How often intervals of quantiles hold the truth, through SQL: `python -m tests.statistical.quantile_coverage`.

Every group is a database of its own, with so many people: one release of 300 groups is 300 releases. The truth is
the interpolated quantile of the rows, each person having one; where people have several, the quantile of rows
that share a person's weight. Intervals are conservative, so that only too few hits are wrong.
"""

import sys
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
import numpy.typing as npt

import sfumato

ALARM = 4.9
"""Standard deviations of a binomial share below its level; one-sided, such a share is seen once in 2 million."""
LEVEL = 0.95
EPSILON = "2"
Values = npt.NDArray[np.int64]
Draw = Callable[[np.random.Generator, int], Values]

SHAPES: dict[str, Draw] = {
    "even": lambda random, size: random.integers(0, 1000, size),
    "skewed": lambda random, size: np.minimum(np.exp(random.normal(7, 2, size)), 10**6).astype(np.int64),
    "tied": lambda random, size: np.where(random.random(size) < 0.6, 0, random.integers(0, 5, size)),
    "constant": lambda random, size: np.full(size, 77),
}
SIZES = (1, 4, 25, 400)
ASKED = {
    "MEDIAN(x)": 0.5,
    "QUANTILE_CONT(x, 0.9)": 0.9,
    "PERCENTILE_DISC(0.25) WITHIN GROUP (ORDER BY x)": 0.25,
    "MAX(x)": 1.0,
    "MIN(x)": 0.0,
}


def coverage(draw: Draw, size: int, rows: int, groups: int, seed: int) -> dict[str, tuple[int, int]]:
    """Return for each column how many intervals held the truth, of how many."""
    random = np.random.default_rng(seed)
    values = draw(random, groups * size * rows).reshape(groups, size, rows)
    with TemporaryDirectory() as folder:
        _write(Path(folder), values)
        with sfumato.open(_policy(Path(folder), groups, rows)) as database:
            listed = ", ".join(f"{written} AS q{place}" for place, written in enumerate(ASKED))
            release = database.ask(f"SELECT lot, {listed} FROM t GROUP BY lot ORDER BY lot", epsilon=EPSILON)  # noqa: S608
            intervals = release.intervals()
    found = {}
    for place, (written, level) in enumerate(ASKED.items()):
        truths = [_truth(values[lot], level) for lot in range(groups)]
        ends = [row[f"q{place}"] for row in intervals]
        found[written] = sum(low <= truth <= high for truth, (low, high) in zip(truths, ends, strict=True)), groups
    return found


def _truth(values: Values, level: float) -> float:
    people, rows = values.shape
    if rows == 1:
        return float(np.quantile(values, level))
    ordered = np.sort(values.ravel())  # everybody has as many: the weights are equal
    return float(ordered[min(max(int(np.ceil(level * people * rows)) - 1, 0), people * rows - 1)])


def _write(folder: Path, values: Values) -> None:
    size = values.shape[1]
    lots, people, _ = np.indices(values.shape)
    columns = {"lot": lots.ravel(), "person": (lots * size + people).ravel(), "x": values.ravel()}
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (lot BIGINT, person BIGINT, x BIGINT)")
        connection.from_arrow(_table(columns)).insert_into("t")
        (folder / "data").mkdir()
        connection.execute(f"COPY t TO '{folder / 'data' / 't.parquet'}'")


def _table(columns: dict[str, Values]) -> object:
    import pyarrow

    return pyarrow.table(columns)


def _policy(folder: Path, groups: int, rows: int) -> dict[str, object]:
    return {
        "name": "coverage",
        "source": f"parquet:{folder / 'data'}",
        "ledger": f"sqlite:{folder / 'ledger'}",
        "budget": {"epsilon": 1000, "delta": 0},
        "tables": {
            "t": {
                "unit": "person",
                "rows_per_unit": rows,
                "columns": {
                    "person": {"type": "integer"},
                    "lot": {"type": "integer", "bounds": [0, groups - 1]},
                    "x": {"type": "integer", "bounds": [0, 10**6]},
                },
            }
        },
    }


def enough(hits: int, trials: int) -> bool:
    """Whether a share is not certainly below its level."""
    return hits / trials >= LEVEL - ALARM * sqrt(LEVEL * (1 - LEVEL) / trials)


def main() -> None:
    """Print the coverage of every shape and size, and fail where it is certainly too small."""
    failed = False
    for name, draw in SHAPES.items():
        for size in SIZES:
            for rows in (1, 3):
                found = coverage(draw, size, rows, 300, 1)
                shares = "  ".join(f"{written} {hits / trials:.3f}" for written, (hits, trials) in found.items())
                failed |= not all(enough(*counts) for counts in found.values())
                print(f"{name}, {size} people with {rows} rows: {shares}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
