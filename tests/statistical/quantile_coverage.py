"""How often intervals of quantiles hold the truth, through SQL: `python -m tests.statistical.quantile_coverage`.

Every group is a database of its own, with so many people: one release of 300 groups is 300 releases. The truth is
the interpolated quantile of the rows, each person having one; where people have several, the quantile of rows
that share a person's weight. Intervals hold at their level for every data set, and nearly always on most; so only too
few hits are wrong. "Halves" is where they hold least often of all that was looked for: all values are 0 or one other,
which one person more has, so that every number between them is nearly a median.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
FAR = 3 << 18


def halves(random: np.random.Generator, size: int) -> Values:
    """Return values for groups of 801 people each: one more than half of them has the other value."""
    return np.where(np.arange(size) % 801 < 400, 0, FAR)


SIZES = (1, 4, 25, 400)
ALONE = {"MEDIAN(x)": 0.5}
TOGETHER = {
    "MEDIAN(x)": 0.5,
    "QUANTILE_CONT(x, 0.9)": 0.9,
    "PERCENTILE_DISC(0.25) WITHIN GROUP (ORDER BY x)": 0.25,
    "MAX(x)": 1.0,
    "MIN(x)": 0.0,
}


@dataclass(frozen=True, slots=True)
class Held:
    """How many intervals held the truth, of how many, and how wide they were in the middle."""

    hits: int
    trials: int
    width: float

    @property
    def enough(self) -> bool:
        """Whether the share is not certainly below its level."""
        return self.hits / self.trials >= LEVEL - ALARM * sqrt(LEVEL * (1 - LEVEL) / self.trials)


def coverage(
    draw: Draw, people: tuple[int, int], groups: int, seed: int, asked: Mapping[str, float] = TOGETHER
) -> dict[str, Held]:
    """Return for each column how often intervals held the truth; so many people have so many rows each."""
    size, rows = people
    random = np.random.default_rng(seed)
    values = draw(random, groups * size * rows).reshape(groups, size, rows)
    with TemporaryDirectory() as folder:
        _write(Path(folder), values)
        with sfumato.open(_policy(Path(folder), groups, rows)) as database:
            listed = ", ".join(f"{written} AS q{place}" for place, written in enumerate(asked))
            release = database.ask(f"SELECT lot, {listed} FROM t GROUP BY lot ORDER BY lot", epsilon=EPSILON)  # noqa: S608
            intervals = release.intervals()
    found = {}
    for place, (written, level) in enumerate(asked.items()):
        truths = [_truth(values[lot], level) for lot in range(groups)]
        ends = [row[f"q{place}"] for row in intervals]
        hits = sum(low <= truth <= high for truth, (low, high) in zip(truths, ends, strict=True))
        found[written] = Held(hits, groups, float(np.median([high - low for low, high in ends])))
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


def main() -> None:
    """Print the coverage of every shape and size, and fail where it is certainly too small."""
    failed = False
    settings = [
        (name, draw, (size, rows), asked)
        for name, draw in SHAPES.items()
        for size in SIZES
        for rows in (1, 3)
        for asked in ((ALONE, TOGETHER) if rows == 1 else (TOGETHER,))
    ]
    for name, draw, people, asked in [*settings, ("halves", halves, (801, 1), ALONE)]:
        found = coverage(draw, people, 1500 if draw is halves else 300, 1, asked)
        shares = "  ".join(
            f"{written} {one.hits / one.trials:.3f} (width {one.width:,.0f})" for written, one in found.items()
        )
        failed |= not all(one.enough for one in found.values())
        print(f"{name}, {people[0]} people with {people[1]} rows: {shares}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
