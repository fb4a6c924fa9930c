"""How often bars hold the truth, from rows to answers, shape by shape: `python -m tests.statistical.shapes_coverage`.

A made-up clinic is opened as files: 41 wards, of 3 to 10 people or of up to 150 (and one of nobody), skewed costs, fees
and ages with many ties; nothing is cut off by caps and bounds. Every question is prepared and run once, its noise is
drawn anew for every release, and the truth is the same SQL (or `truth`) on plain DuckDB over the raw rows.

A number after the command says how many releases there are. In 400 of them a shape with 40 cells has 16,000 intervals.
If their noise is independent, bars of exactly 95 % are found beyond ± 1.5 % with probability below 1e-17. Where cells
share noise, the standard error that is printed is the one between releases; it is 1.1 % for a shape of one cell.

MODE is not here: its interval is the whole range, which always holds. A UNION of answers that drops equal rows has open
bars; what is counted of it is here. Quantiles have `tests.statistical.quantile_coverage`.
"""

# ruff: noqa: S608 - questions are written by hand here, never from anybody's input

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pyarrow
from scipy.stats import binom
from tests.sources import HashSource

import sfumato
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.prepare import RequestedPrice
from sfumato.release.publish import publish
from sfumato.release.release import Release, make_release

LEVEL, MOST_OFF = 0.95, 0.015
WARDS, ROWS = 40, 4
PRICE = RequestedPrice("0.5")


@dataclass(frozen=True, slots=True)
class Shape:
    """A question whose columns are looked at, those that have bars; keys and what is shown without bars tell rows.

    `linear` ones are sums of noise, whose bars must not hold much more often than they say. `truth` is asked where
    DuckDB writes it differently, or where the noise decides which rows are shown: then it has all of them.
    """

    name: str
    sql: str | tuple[str, ...]
    truth: str | None = None
    linear: bool = False
    shared: bool = False
    """Whether cells of one release have noise in common."""


N = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
ILL = "SELECT ward, COUNT(*) AS n FROM visits WHERE kind = 'ill' GROUP BY ward"
WELL = "SELECT ward, COUNT(*) AS n FROM visits WHERE kind = 'well' GROUP BY ward"
COUNTED = f"WITH g AS ({N}), ill AS ({ILL}), well AS ({WELL}) "
LARGE, SOME = "SELECT ward FROM g WHERE n > 60", "SELECT ward FROM ill WHERE n > 20"
SHAPES = (
    Shape("count", N, linear=True),
    Shape("sum", "SELECT ward, SUM(cost) AS s FROM visits GROUP BY ward", linear=True),
    Shape("sum with total_per_unit", "SELECT ward, SUM(fee) AS s FROM visits GROUP BY ward", linear=True),
    Shape("average", "SELECT ward, AVG(cost) AS a FROM visits GROUP BY ward"),
    Shape("count over a key", "SELECT ward, 1.0 * COUNT(*) / NULLIF(ward, 0) AS a FROM visits GROUP BY ward"),
    Shape("sum over a length", "SELECT kind, SUM(fee) / NULLIF(LENGTH(kind), 0) AS a FROM visits GROUP BY kind"),
    Shape("deviation", "SELECT ward, STDDEV(cost) AS a FROM visits GROUP BY ward"),
    Shape("sum of logarithms", "SELECT ward, SUM(LN(cost + 1)) AS s FROM visits GROUP BY ward", linear=True),
    Shape("sum of exponentials", "SELECT ward, SUM(EXP(fee / 50.0)) AS s FROM visits GROUP BY ward", linear=True),
    Shape("sum of powers", "SELECT ward, SUM(POWER(cost, 0.5)) AS s FROM visits GROUP BY ward", linear=True),
    Shape("average of logarithms", "SELECT ward, AVG(LN(cost + 1)) AS a FROM visits GROUP BY ward"),
    Shape("number of pairs", "SELECT ward, REGR_COUNT(cost, age) AS n FROM visits GROUP BY ward", linear=True),
    Shape("average of pairs", "SELECT ward, REGR_AVGY(cost, age) AS a FROM visits GROUP BY ward"),
    Shape("squared deviations of pairs", "SELECT ward, REGR_SYY(cost, age) AS a FROM visits GROUP BY ward"),
    Shape("different values, matched", "SELECT COUNT(DISTINCT city) AS n FROM visits"),
    Shape(
        "different values, matched, in each group",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 1) home, COUNT(DISTINCT city) AS n "
        "FROM visits GROUP BY home",
        "SELECT home, COUNT(DISTINCT city) AS n FROM visits GROUP BY home",
    ),
    Shape(
        "histogram of values",
        "SELECT HISTOGRAM(ward) FROM visits",
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward",
        linear=True,
    ),
    Shape(
        "histogram of ranges",
        "SELECT HISTOGRAM(cost, 40) FROM visits",
        "SELECT LEAST(FLOOR(cost / 125), 39) * 125 AS low, LEAST(FLOOR(cost / 125), 39) * 125 + 125 AS high, COUNT(*) "
        "FROM visits GROUP BY ALL",
        linear=True,
    ),
    Shape(
        "histogram of months",
        "SELECT HISTOGRAM(day) FROM visits",
        "SELECT date_trunc('month', day) AS low, date_trunc('month', day) + INTERVAL 1 MONTH AS high, COUNT(*) "
        "FROM visits GROUP BY ALL",
        linear=True,
    ),
    Shape(
        "roll-up", "SELECT ward, kind, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward, kind)", linear=True, shared=True
    ),
    Shape(
        "roll-up of sums and averages",
        "SELECT ward, kind, SUM(cost) AS s, AVG(cost) AS a FROM visits GROUP BY ROLLUP (ward, kind)",
        shared=True,
    ),
    Shape("cube", "SELECT ward, kind, COUNT(*) AS n FROM visits GROUP BY CUBE (ward, kind)", linear=True, shared=True),
    Shape(
        "grouping sets",
        "SELECT ward, kind, sick, COUNT(*) AS n FROM visits GROUP BY GROUPING SETS ((ward), (kind, sick), ())",
        linear=True,
        shared=True,
    ),
    Shape("UNION ALL of answers", f"{ILL} UNION ALL SELECT ward + 100, n FROM ({WELL}) t", linear=True),
    Shape("total of INTERSECT", f"{COUNTED} SELECT SUM(ward) AS k FROM ({LARGE} INTERSECT {SOME}) t"),
    Shape("number of INTERSECT", f"{COUNTED} SELECT COUNT(*) AS k FROM ({LARGE} INTERSECT {SOME}) t"),
    Shape("number of EXCEPT", f"{COUNTED} SELECT COUNT(*) AS k FROM ({LARGE} EXCEPT {SOME}) t"),
    Shape("number of UNION", f"{COUNTED} SELECT COUNT(*) AS k FROM ({LARGE} UNION {SOME}) t"),
    Shape(
        "UNION ALL of people's rows",
        "SELECT ward, SUM(v) AS s FROM (SELECT ward, fee AS v FROM visits UNION ALL SELECT ward, age FROM patients) t "
        "GROUP BY ward",
        linear=True,
    ),
    Shape(
        "EXCEPT of people's rows",
        "SELECT ward, COUNT(*) AS n FROM (SELECT patient, ward FROM patients EXCEPT "
        "SELECT patient, ward FROM visits WHERE kind = 'ill') t GROUP BY ward",
        linear=True,
    ),
    Shape(
        "difference to a scalar subquery",
        f"{COUNTED} SELECT ward, n - (SELECT AVG(n) FROM g) AS d FROM g",
        linear=True,
        shared=True,
    ),
    Shape(
        "share of a scalar subquery",
        f"{COUNTED} SELECT ward, 1.0 * n / (SELECT SUM(n) FROM g) AS d FROM g",
        shared=True,
    ),
    Shape("total where IN", f"{COUNTED} SELECT SUM(n) AS s FROM g WHERE ward IN ({SOME})"),
    Shape(
        "total where EXISTS",
        f"{COUNTED} SELECT SUM(n) AS s FROM g WHERE EXISTS (SELECT 1 FROM ill WHERE ill.ward = g.ward AND ill.n > 20)",
    ),
    Shape("total where NOT IN", f"{COUNTED} SELECT SUM(n) AS s FROM g WHERE ward NOT IN ({SOME})"),
    Shape("number where IN", f"{COUNTED} SELECT COUNT(*) AS s FROM g WHERE ward IN ({SOME})"),
    Shape("total of the largest", f"SELECT SUM(n) AS s FROM ({N} ORDER BY n DESC LIMIT 5) t"),
    Shape(
        "window over the largest",
        f"SELECT MAX(x) AS s FROM (SELECT SUM(n) OVER () AS x FROM ({N} ORDER BY n DESC LIMIT 5) t) u",
    ),
    Shape(
        "mean of the largest", f"SELECT AVG(n) AS s, COUNT(*) AS k FROM ({N} ORDER BY n DESC LIMIT 5) t", shared=True
    ),
    Shape(
        "choice by IN", f"{COUNTED} SELECT ward, CASE WHEN ward IN ({SOME}) THEN n ELSE 0 END AS x FROM g", shared=True
    ),
    Shape(
        "EXISTS inside a person",
        "SELECT ward, COUNT(*) AS n FROM patients p WHERE EXISTS "
        "(SELECT 1 FROM visits v WHERE v.patient = p.patient AND v.kind = 'ill') GROUP BY ward",
        linear=True,
    ),
    Shape(
        "NOT IN inside a person",
        "SELECT ward, SUM(age) AS s FROM patients p WHERE patient NOT IN "
        "(SELECT patient FROM visits v WHERE v.kind = 'ill') GROUP BY ward",
        linear=True,
    ),
    Shape(
        "first row of each person",
        "SELECT ward, SUM(cost) AS s FROM (SELECT ward, cost, ROW_NUMBER() OVER "
        "(PARTITION BY patient ORDER BY day, cost) AS k FROM visits) t WHERE k = 1 GROUP BY ward",
        linear=True,
    ),
    Shape(
        "difference to a person's row before",
        "SELECT ward, SUM(fee - before) AS s FROM (SELECT ward, fee, LAG(fee, 1, 0) OVER "
        "(PARTITION BY patient ORDER BY day, fee) AS before FROM visits) t GROUP BY ward",
        linear=True,
    ),
    Shape(
        "FULL JOIN of answers",
        f"{COUNTED} SELECT COALESCE(ill.ward, well.ward) AS ward, "
        "COALESCE(ill.n, 0) + 2 * COALESCE(well.n, 0) AS n FROM ill FULL JOIN well ON ill.ward = well.ward",
        linear=True,
    ),
    Shape(
        "public table first",
        "SELECT p.name, COUNT(v.patient) AS n FROM places p LEFT JOIN visits v ON v.ward = p.ward GROUP BY p.name",
        linear=True,
    ),
    Shape(
        "sum, public table first",
        "SELECT p.region, SUM(v.cost) AS s, AVG(v.cost) AS a FROM places p LEFT JOIN visits v ON v.ward = p.ward "
        "GROUP BY p.region",
        shared=True,
    ),
    Shape(
        "PIVOT",
        "SELECT * FROM (SELECT ward, kind, fee FROM visits) t PIVOT (SUM(fee) FOR kind IN ('ill', 'well'))",
        linear=True,
        shared=True,
    ),
    Shape(
        "QUALIFY by a public order",
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward QUALIFY ROW_NUMBER() OVER (ORDER BY ward) <= 30",
        linear=True,
    ),
    Shape(
        "total of QUALIFY by rank", f"SELECT SUM(n) AS s FROM ({N} QUALIFY RANK() OVER (ORDER BY COUNT(*) DESC) <= 5) t"
    ),
    Shape(
        "share of a total",
        "SELECT ward, 1.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS x FROM visits GROUP BY ward",
        shared=True,
    ),
    Shape(
        "running total",
        "SELECT ward, SUM(COUNT(*)) OVER (ORDER BY ward) AS x FROM visits GROUP BY ward",
        linear=True,
        shared=True,
    ),
    Shape(
        "running total in each ward",
        "SELECT ward, kind, SUM(COUNT(*)) OVER (PARTITION BY ward ORDER BY kind) AS x FROM visits GROUP BY ward, kind",
        linear=True,
        shared=True,
    ),
    Shape(
        "ask_all",
        (
            N,
            "SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind",
            "SELECT ward, SUM(fee) AS s FROM visits GROUP BY ward",
        ),
        linear=True,
        shared=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Covered:
    """How many intervals were looked at, which share held, its standard error, and which share had an open side."""

    shape: Shape
    cells: int
    intervals: int
    share: float
    error: float
    open: float
    missed: int
    trials: int
    """Of independent intervals: how many missed, and how many there are."""

    @property
    def wrong(self) -> bool:
        """Whether the share is farther from its level than 1.5 %."""
        return self.share < LEVEL - MOST_OFF or (self.shape.linear and self.share > LEVEL + MOST_OFF)

    @property
    def chance(self) -> float:
        """Return how probable it is that bars of exactly 95 % miss as often: of shared noise a cell of each release."""
        return float(1 - binom.cdf(self.missed - 1, self.trials, 1 - LEVEL))


def covered(shapes: Sequence[Shape], releases: int, seed: int) -> Iterator[Covered]:
    """Yield for every shape how its intervals fare."""
    with TemporaryDirectory() as folder:
        raw = _made_up(Path(folder), seed)
        with sfumato.open(_policy(Path(folder))) as clinic:
            for shape in shapes:
                yield _covered(clinic, shape, raw, releases, HashSource((shape.name, seed)))
        raw.close()


def _covered(
    clinic: sfumato.Database, shape: Shape, raw: duckdb.DuckDBPyConnection, releases: int, source: HashSource
) -> Covered:
    texts = (shape.sql,) if isinstance(shape.sql, str) else shape.sql
    read = clinic._preparation.analyse_all(list(texts), clinic.engine)
    asked = clinic._preparation.prepare_workload(read, PRICE, None, clinic.engine)
    aggregates, receipt = asked.engine.run(asked.job), clinic._receipt(asked, "measured")
    truths = [raw.execute(shape.truth or text).fetchall() for text in texts]
    shares, opened, counts, lone = [], 0, [], []
    for _ in range(releases):
        noisy = publish(asked.plan, aggregates, source)
        held: list[bool] = []
        for plan, truth in zip(asked.outcomes, truths, strict=True):
            for (low, high), true in _pairs(make_release(plan, noisy, receipt, evaluate), truth):
                held.append((low is None or float(low) <= true) and (high is None or true <= float(high)))
                opened += low is None or high is None
        shares.append(float(np.mean(held)))
        counts.append(len(held))
        lone += held[-1:] if shape.shared else held
    total = sum(counts)
    share = float(np.average(shares, weights=counts))
    # cells of one release may have noise in common: what differs from release to release tells
    error = max(float(np.std(shares)) / sqrt(releases), sqrt(LEVEL * (1 - LEVEL) / total))
    return Covered(shape, max(counts), total, share, error, opened / total, lone.count(False), len(lone))


def _pairs(release: Release, truth: list[tuple[Any, ...]]) -> Iterator[tuple[tuple[Any, Any], float]]:
    """Yield every interval with what is true there; cells that are empty are left out where DuckDB shows none."""
    rows = [tuple(row.values()) for row in release.intervals()]
    keys = [place for place in range(len(release.columns)) if not any(isinstance(row[place], tuple) for row in rows)]
    known = {tuple(map(_plain, (row[place] for place in keys))): row for row in truth}
    assert len(known) == len(truth), "keys do not tell rows apart"
    met = 0
    for row in rows:
        true = known.get(tuple(map(_plain, (row[place] for place in keys))))
        met += true is not None
        for place, ends in enumerate(row):
            if place not in keys and true is not None and ends is not None and true[place] is not None:
                yield ends, float(true[place])
    assert met == len(known), "rows are missing"


def _plain(key: object) -> object:
    """Return a key in the form that both sides have: numbers as floats, times as dates."""
    if isinstance(key, int | float | Decimal):
        return float(key)
    return key.date() if isinstance(key, datetime) else key


def _made_up(folder: Path, seed: int) -> duckdb.DuckDBPyConnection:
    """Write the clinic as Parquet files, and return a plain DuckDB over the same rows."""
    draw = np.random.default_rng(seed)
    sizes = [3 + ward % 8 if ward % 2 else int(draw.integers(20, 150)) for ward in range(WARDS)]
    wards = np.repeat(np.arange(WARDS), sizes)
    ages = np.clip(draw.normal(50, 15, len(wards)).round(-1), 20, 90).astype(int)  # in tens: ties
    visits = np.minimum(draw.geometric(0.5, len(wards)), ROWS)
    people = np.repeat(np.arange(len(wards)), visits)
    count = len(people)
    columns = {
        "patient": people,
        "ward": wards[people],
        "age": ages[people],
        "kind": draw.choice(["ill", "well", "worse"], count, p=[0.6, 0.3, 0.1]),
        "sick": draw.random(count) < 0.3,
        "cost": np.minimum(np.exp(draw.normal(4, 1.3, count)), 5000).round(2),
        "fee": draw.choice([0, 0, 0, 10, 20, 50], count),
        "day": np.datetime64("2024-01-01") + draw.integers(0, 366, count).astype("timedelta64[D]"),
        "home": np.array(["north", "south"])[(people % 2)],
        "city": np.array([f"city {place}" for place in range(200)])[people % 200],
    }
    frames = {
        "visits": pyarrow.table(columns),
        "patients": pyarrow.table({"patient": np.arange(len(wards)), "ward": wards, "age": ages}),
        "places": pyarrow.table(
            {
                "ward": np.arange(WARDS + 1),
                "name": [f"ward {ward}" for ward in range(WARDS + 1)],
                "region": [f"region {ward % 10}" for ward in range(WARDS + 1)],
            }
        ),
    }
    (folder / "data").mkdir()
    raw = duckdb.connect()
    for name, frame in frames.items():
        raw.from_arrow(frame).create(name)
        raw.execute(f"ALTER TABLE {name} ALTER cost TYPE DECIMAL(10, 2)" if name == "visits" else "SELECT 1")
        raw.execute(f"COPY {name} TO '{folder}/data/{name}.parquet'")
    return raw


def _policy(folder: Path) -> dict[str, object]:
    person, ward = {"type": "integer"}, {"type": "integer", "bounds": [0, WARDS]}
    age = {"type": "integer", "bounds": [18, 90]}
    visits: dict[str, object] = {
        "patient": person,
        "ward": ward,
        "age": age,
        "kind": {"type": "text", "values": ["ill", "well", "worse"]},
        "sick": {"type": "boolean"},
        "cost": {"type": "decimal", "bounds": [0, 5000], "step": "0.01"},
        "fee": {"type": "integer", "bounds": [0, 100], "total_per_unit": 200},
        "day": {"type": "date", "bounds": [date(2024, 1, 1), date(2024, 12, 31)]},
        "home": {"type": "text", "values": ["north", "south"]},
        "city": {"type": "text"},
    }
    patients = {"patient": person, "ward": ward, "age": age}
    return {
        "name": "clinic",
        "source": f"parquet:{folder}/data",
        "ledger": f"sqlite:{folder}/clinic.ledger",
        "budget": {"epsilon": 1, "delta": "1e-6"},
        "tables": {
            "visits": {"unit": "patient", "rows_per_unit": ROWS, "columns": visits},
            "patients": {"unit": "patient", "rows_per_unit": 1, "columns": patients},
            "places": {"public": True},
        },
    }


def main(arguments: Sequence[str]) -> int:
    """Print the table; return 1 where a share is farther from its level than 1.5 %."""
    releases = int(arguments[0]) if arguments else 400
    print(f"{'shape':<42} {'cells':>5} {'intervals':>9}  held ± standard error")
    wrong = 0
    for one in covered(SHAPES, releases, seed=1):
        words = "WRONG" if one.wrong else "linear" if one.shape.linear else ""
        words += f" {one.open:.1%} have an open side" if one.open else ""
        print(
            f"{one.shape.name:<42} {one.cells:>5} {one.intervals:>9,}  {one.share:.2%} ± {one.error:.2%} {words}",
            flush=True,
        )
        wrong += one.wrong
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
