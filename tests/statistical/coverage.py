"""How often the stated intervals hold the truth, for every shape of outcome: `python -m tests.statistical.coverage`.

Each shape is a real question about a made-up clinic. Its plan is the real one, with noise of a chosen law; true
aggregates come from a made-up population, and the true answer from running the same outcome over them. All cells are
public, so one release of 4,000 cells is 4,000 releases of one cell, or 800 of five that something is computed of.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import sqrt
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

import sfumato
from sfumato.accounting.event import Neighbours
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.lab.generators.seeded import Seeded
from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import AggregateItem, AggregateNode, InputNode, ScanNode, children
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.max_norm import MaxNorm, MaxNormPart
from sfumato.planning.plan import GroupPlan, Plan, PlannedMeasurement
from sfumato.prepare import RequestedPrice
from sfumato.query.types import Type
from sfumato.release.noisy import NoisyGroup, NoisyResult
from sfumato.release.receipt import Receipt
from sfumato.release.release import Release, make_release

Noise = Laplace | Gaussian | MaxNormPart
ADD = Neighbours.ADD_REMOVE
ALARM = 4.9
"""Standard deviations of a binomial share below its level; one-sided, such a share is seen once in 2 million."""
CELLS, EACH = 4_000, 5
LEVELS = (Fraction(9, 10), Fraction(95, 100))


@dataclass(frozen=True, slots=True)
class Shape:
    """A question whose last column is looked at; `linear` ones must not cover much more than they say."""

    name: str
    column: str
    inner: str | None = None
    """What is computed for each of the five cells of a copy; None for a question without an outer aggregate."""
    having: str = ""
    linear: bool = False
    by: str = "copy"
    """What is grouped by without an outer aggregate: 4,000 copies, or 800 lots where every cell takes long."""
    rows: bool = False
    """Whether each of the five cells has a row of its own, beside the others."""

    @property
    def sql(self) -> str:
        """Return the question: one row per copy."""
        if self.inner is None:
            return f"SELECT {self.by}, {self.column} AS x FROM visits GROUP BY {self.by}"  # noqa: S608
        cells = f"SELECT lot, place, {self.inner} FROM visits GROUP BY lot, place {self.having}"  # noqa: S608
        if self.rows:
            return f"SELECT lot * 10 + place AS cell, {self.column} AS x FROM ({cells}) t"  # noqa: S608
        return f"SELECT lot, {self.column} AS x FROM ({cells}) t GROUP BY lot"  # noqa: S608


N, TOTAL, LOT, KEPT = "COUNT(*) AS n", "SUM(cost) AS s", "PARTITION BY lot", "HAVING COUNT(*) > 22"
SHAPES = (
    Shape("count", "COUNT(*)", linear=True),
    Shape("sum", "SUM(cost)", linear=True),
    Shape("sum of two", "COUNT(*) + 3 * COUNT(*) FILTER (WHERE age > 50)", linear=True),
    Shape("sum of three", "SUM(cost) + 100 * COUNT(*) - SUM(age)", linear=True),
    Shape("average", "AVG(cost)"),
    Shape("variance", "VAR_POP(cost)"),
    Shape("variance of a sample", "VAR_SAMP(cost)"),
    Shape("deviation", "STDDEV(cost)"),
    Shape("deviation of all rows", "STDDEV_POP(age)", by="lot"),
    Shape("variance of a constant", "VAR_POP(same)"),
    Shape("skewness", "SKEWNESS(cost)", by="lot"),
    Shape("kurtosis", "KURTOSIS(age)", by="lot"),
    Shape("kurtosis of a long tail", "KURTOSIS(ROUND(cost))", by="lot"),
    Shape("covariance", "COVAR_POP(cost, age)", by="lot"),
    Shape("covariance of a sample", "COVAR_SAMP(cost + 20 * age, age)", by="lot"),
    Shape("correlation", "CORR(cost, age)", by="lot"),
    Shape("strong correlation", "CORR(cost + 50 * age, age)", by="lot"),
    Shape("correlation that is -1", "CORR(100 - age, age)", by="lot"),
    Shape("share of variance", "REGR_R2(cost + 50 * age, age)", by="lot"),
    Shape("slope", "REGR_SLOPE(cost + 20 * age, age)", by="lot"),
    Shape("intercept", "REGR_INTERCEPT(cost + 20 * age, age)", by="lot"),
    Shape("squared deviations", "REGR_SXX(cost, age)", by="lot"),
    Shape("products of deviations", "REGR_SXY(cost + 20 * age, age)", by="lot"),
    Shape("squared deviations of y", "REGR_SYY(cost, age)", by="lot"),
    Shape("average of pairs", "REGR_AVGX(cost, age)", by="lot"),
    Shape("average of y", "REGR_AVGY(cost, age)", by="lot"),
    Shape("number of pairs", "REGR_COUNT(cost, age)", linear=True, by="lot"),
    Shape("share", "100 * COUNT(*) FILTER (WHERE age > 50) / COUNT(*)"),
    Shape("exact share", "1.0 * COUNT(*) FILTER (WHERE age > 50) / NULLIF(COUNT(*), 0)"),
    Shape("sum over count", "SUM(cost) / COUNT(*)"),
    Shape("difference of averages", "AVG(cost) - AVG(age)"),
    Shape("difference of averages of different rows", "AVG(cost) - AVG(cost) FILTER (WHERE age > 50)"),
    Shape("ratio of averages", "AVG(cost) / AVG(age)"),
    Shape("ratio of sums", "1.0 * SUM(cost) / SUM(age)"),
    Shape("distance", "ABS(COUNT(*) - 25)"),
    Shape("at least", "GREATEST(COUNT(*), 22)"),
    Shape("clamped", "GREATEST(COUNT(*), 0)"),
    Shape("at most", "LEAST(COUNT(*), COUNT(*) FILTER (WHERE age > 50) + 10)"),
    Shape("root", "SQRT(COUNT(*))"),
    Shape("product", "COUNT(*) * AVG(cost)"),
    Shape("square", "COUNT(*) * COUNT(*)"),
    Shape("case", "CASE WHEN COUNT(*) > 20 THEN SUM(cost) ELSE 0 END"),
    Shape("rounded", "ROUND(AVG(cost), 0)"),
    Shape("remainder", "COUNT(*) % 7"),
    Shape("total of cells", "SUM(n)", N, linear=True),
    Shape("mean of cells", "AVG(n)", N, linear=True),
    Shape("mean of totals", "AVG(s)", TOTAL, linear=True),
    Shape("mean of totals that were kept", "AVG(s)", TOTAL, KEPT),
    Shape("weighted total of cells", "SUM(n * place)", N, linear=True),
    Shape("largest cell", "MAX(n)", N),
    Shape("least cell", "MIN(n)", N),
    Shape("range of cells", "MAX(n) - MIN(n)", N),
    Shape("total of clamped cells", "SUM(GREATEST(n, 0))", N),
    Shape("total of cells above something", "SUM(GREATEST(n - 22, 0))", N),
    Shape("deviation of cells", "STDDEV(n)", N),
    Shape("variance of cells", "VAR_POP(n)", N),
    Shape("cells that were kept", "COUNT(*)", N, "HAVING COUNT(*) > 24"),
    Shape("total of cells that were kept", "SUM(n)", N, "HAVING COUNT(*) > 24"),
    Shape("largest of cells that were kept", "MAX(n)", N, "HAVING COUNT(*) > 22"),
    Shape("mean of cells that were kept", "AVG(n)", N, "HAVING COUNT(*) > 22"),
    Shape("least average", "MIN(a)", "AVG(cost) AS a"),
    Shape("largest average", "MAX(a)", "AVG(cost) AS a"),
    Shape("mean of averages", "AVG(a)", "AVG(cost) AS a"),
    Shape("ratio of totals", "1.0 * SUM(f) / SUM(n)", f"{N}, COUNT(*) FILTER (WHERE age > 50) AS f"),
    Shape("different cells", "COUNT(DISTINCT n)", N),
    Shape("running total", f"SUM(n) OVER ({LOT} ORDER BY place)", N, linear=True, rows=True),
    Shape("difference to the cell before", f"n - LAG(n) OVER ({LOT} ORDER BY place)", N, linear=True, rows=True),
    Shape("moving mean", f"AVG(s) OVER ({LOT} ORDER BY place ROWS 1 PRECEDING)", TOTAL, linear=True, rows=True),
    Shape("share of the total", f"1.0 * n / SUM(n) OVER ({LOT})", N, rows=True),
    Shape("rank", f"RANK() OVER ({LOT} ORDER BY n DESC)", N, rows=True),
    Shape("share of smaller cells", f"CUME_DIST() OVER ({LOT} ORDER BY n)", N, rows=True),
    Shape("next smaller cell", f"LAG(n, 1, 0) OVER ({LOT} ORDER BY n)", N, rows=True),
    Shape("total of smaller cells", f"SUM(n) OVER ({LOT} ORDER BY n)", N, rows=True),
    Shape("running total of cells that were kept", f"SUM(n) OVER ({LOT} ORDER BY place)", N, KEPT, rows=True),
)


@dataclass(frozen=True, slots=True)
class Setting:
    """The law of the noise, its size in rows, and how many rows a cell has."""

    law: str
    size: int
    noise: int = 20

    def mechanisms(self, measured: Sequence[PlannedMeasurement]) -> list[Noise]:
        """Return noise in proportion to what one person can do, for all that is measured of a group."""
        scales = [Fraction(self.noise * one.sensitivity.linf) for one in measured]
        if self.law == "laplace":
            return [Laplace(1, scale, ADD) for scale in scales]
        if self.law == "gaussian":
            return [Gaussian(1, scale**2, ADD) for scale in scales]
        joint = MaxNorm(tuple(one.sensitivity.linf for one in measured), 1, Fraction(1, self.noise), ADD)
        return [joint.part(place) for place in range(len(scales))]


SETTINGS = tuple(Setting(law, size) for law in ("laplace", "gaussian", "max-norm") for size in (20, 60, 2_000))


@dataclass(frozen=True, slots=True)
class Covered:
    """How many intervals there were, which share of them held the truth, and which share had an open side."""

    intervals: int
    share: float
    open: float

    def least(self, level: Fraction) -> float:
        """Return the share below which an alarm is raised."""
        return float(level) - ALARM * sqrt(float(level * (1 - level)) / max(self.intervals, 1))


@lru_cache(maxsize=1)
def _plans() -> dict[str, Plan]:
    """Return the real plan of every shape, by its text."""
    folder = Path(mkdtemp())
    (folder / "visits.csv").write_text("patient,copy,lot,place,age,cost,same\n1,0,0,0,40,100,7\n", encoding="utf-8")
    columns = {
        "patient": {"type": "integer"},
        "copy": {"type": "integer", "bounds": [0, CELLS - 1]},
        "lot": {"type": "integer", "bounds": [0, CELLS // EACH - 1]},
        "place": {"type": "integer", "bounds": [0, EACH - 1]},
        "age": {"type": "integer", "bounds": [18, 90]},
        "cost": {"type": "decimal", "bounds": [0, 5000], "step": "0.01"},
        "same": {"type": "integer", "bounds": [0, 10]},
    }
    table = {"unit": "patient", "rows_per_unit": 1, "columns": columns}
    policy: dict[str, object] = {
        "name": "clinic",
        "source": f"csv:{folder}/visits.csv",
        "ledger": f"sqlite:{folder}/clinic.ledger",
        "budget": {"epsilon": 1, "delta": "1e-6"},
        "tables": {"visits": table},
    }
    with sfumato.open(policy) as clinic:
        return {shape.sql: clinic.prepare(shape.sql, None, RequestedPrice("1")).plan for shape in SHAPES}


def _with_noise(group: GroupPlan, setting: Setting) -> GroupPlan:
    noise = setting.mechanisms(group.measured)
    measured = (replace(one, mechanism=each) for one, each in zip(group.measured, noise, strict=True))
    return replace(group, measured=tuple(measured))


def _population(size: int, place: int) -> dict[str, list[int]]:
    """Return the rows of one cell as the copy keeps them: costs skewed as costs are, in hundredths; a constant."""
    rows = size + 2 * place
    shares = (np.arange(rows) + 0.5) / rows
    costs = np.minimum(-60_000 * np.log(1 - shares) * (1 + 0.1 * place), 500_000)
    ages = 18 + (np.arange(rows) * 37) % 73
    return {"cost": costs.astype(int).tolist(), "age": ages.tolist(), "same": [7] * rows}


def _exact(group: GroupPlan, size: int) -> NoisyGroup:
    """Return what is measured, without noise: each measurement computed by the engine from the rows of a cell."""
    (read,) = [node for node in _nodes(group) if isinstance(node, ScanNode)]
    facts = {name: known for name, _, known in read.columns}
    used = tuple((name, facts[name]) for name in ("age", "cost", "same") if name in facts)
    counted = Facts(Type.INTEGER, Kind.INTEGER, False, Fraction(1), -(1 << 100), 1 << 100)
    measures = tuple(AggregateItem(one.name, one.quantity, counted) for one in group.measured)
    rows = InputNode(read.label, (*used, ("one", counted)), None)
    cells = []
    for place in range(EACH if len(group.group.keys) > 1 else 1):
        people = _population(size, place)
        table: dict[str, list[int]] = {name: people[name] for name, _ in used}
        table["one"] = [1] * len(people["age"])
        cells.append([column[0] for column in evaluate(AggregateNode(rows, "cell", (), measures), {read.label: table})])
    keys = group.group.all_cells()
    columns = [
        (one.name, tuple(int(str(cells[at % len(cells)][place])) for at in range(len(keys))))
        for place, one in enumerate(group.measured)
    ]
    return NoisyGroup(keys, tuple(columns))


def _nodes(group: GroupPlan) -> list[object]:
    waiting, found = [group.group.rows], []
    while waiting:
        found.append(waiting.pop())
        waiting.extend(children(found[-1]))
    return list(found)


def _noise(mechanisms: Sequence[Noise], count: int, random: np.random.Generator) -> list[list[int]]:
    """Return so many numbers for each mechanism; those that share their noise are drawn together."""
    found = []
    shared = [one.joint for one in mechanisms if isinstance(one, MaxNormPart)][:1]
    together = [one.law.draw(count, Seeded(int(random.integers(1 << 40)))) for one in shared]
    for one in mechanisms:
        match one:
            case MaxNormPart(_, place):
                found.append(together[0][:, place])
            case Laplace():
                chance = -np.expm1(-1 / float(one.scale))
                found.append(random.geometric(chance, count) - random.geometric(chance, count))
            case Gaussian():
                found.append(np.rint(random.normal(0, float(one.sigma_squared) ** 0.5, count)))
    return [[int(number) for number in numbers] for numbers in found]


def released(shape: Shape, setting: Setting, seed: int) -> tuple[Release, Release]:
    """Return one release, and the answer that it would be without noise."""
    plan = _plans()[shape.sql]
    plan = replace(plan, groups=tuple(_with_noise(group, setting) for group in plan.groups))
    exact = tuple(_exact(group, setting.size) for group in plan.groups)
    random = np.random.default_rng([seed, len(shape.name), setting.size])
    noisy = []
    for group, known in zip(plan.groups, exact, strict=True):
        columns = []
        noise = _noise([one.mechanism for one in group.measured], len(known.keys), random)
        for one, errors in zip(group.measured, noise, strict=True):
            values = known.numbers(one.name)
            columns.append((one.name, tuple(value + error for value, error in zip(values, errors, strict=True))))
        noisy.append(NoisyGroup(known.keys, tuple(columns)))
    receipt = Receipt("r", "p", "1", plan.loss)
    return make_release(plan, NoisyResult(tuple(noisy), 0), receipt, evaluate), make_release(
        plan, NoisyResult(exact, 0), receipt, evaluate
    )


def coverage(answers: tuple[Release, Release], level: Fraction) -> Covered:
    """Return how often the intervals of a release hold the truth, which is the second release."""
    noisy, true = answers
    truths = {row[true.columns[0]]: row["x"] for row in true.rows()}
    held, opened = [], []
    for row in noisy.intervals(level):
        truth = truths.get(row[noisy.columns[0]])
        if row["x"] is not None and truth is not None:
            low, high = row["x"]
            opened.append(low is None or high is None)
            held.append((low is None or low <= truth) and (high is None or truth <= high))
    return Covered(len(held), float(np.mean(held)) if held else 1.0, float(np.mean(opened)) if held else 0.0)


def main(arguments: Sequence[str]) -> int:
    """Print the coverage of every shape over several releases; return 1 where one is too low."""
    releases = int(arguments[0]) if arguments else 10
    low = 0
    for shape in SHAPES:
        for setting in SETTINGS:
            answers = [released(shape, setting, seed) for seed in range(releases)]
            for level in LEVELS:
                found = [coverage(pair, level) for pair in answers]
                count = sum(one.intervals for one in found)
                share = sum(one.share * one.intervals for one in found) / max(count, 1)
                missed = share < Covered(count, share, 0.0).least(level)
                low += missed
                words = "TOO LOW" if missed else "ok"
                print(f"{shape.name}, {setting.law}, {setting.size} rows, {level}: {share:.4f} of {count:,} {words}")
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
