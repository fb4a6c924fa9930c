"""Ask one other library the questions of benchmarks/accuracy.py; runs in that library's own environment.

    python ask.py LIBRARY FOLDER

FOLDER holds `rows.parquet` and `task.json`. For each cap the rows of each person are cut here, with pandas, as users of
these libraries do, or by the library where it does it itself. Prints one JSON line per answer.
"""

import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib import import_module
from importlib.metadata import version
from itertools import product
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import numpy as np
import pandas as pd

Keys = dict[str, int]
"""Columns of codes, each with the number of its values: 0 is the first."""


NUMBERS = ("count", "sum", "mean", "median")


class Library(Protocol):
    """What is asked of a library, of rows that were cut: one epsilon for each answer, delta 0."""

    def count(self, epsilon: float) -> float:
        """Return how many rows there are."""
        ...

    def sum(self, epsilon: float) -> float:
        """Return the sum of the values."""
        ...

    def mean(self, epsilon: float) -> float:
        """Return the mean of the values."""
        ...

    def median(self, epsilon: float) -> float:
        """Return the median of the values."""
        ...

    def table(self, keys: Keys, epsilon: float) -> list[float]:
        """Return the count of every cell, in the order of the codes, the last fastest."""
        ...


class OpenDP:
    """OpenDP's constructors; what one person changes is given as a distance of `cap` rows."""

    def __init__(self, rows: pd.DataFrame, cap: int, bounds: tuple[int, int]) -> None:
        self.dp: Any = import_module("opendp.prelude")
        self.dp.enable_features("contrib")
        self.rows, self.cap, self.bounds = rows, cap, bounds
        self.values = rows["value"].tolist()

    def _space(self) -> Any:
        dp = self.dp
        return dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()

    def _laplace(self, query: Any, sensitivity: float, epsilon: float) -> Any:
        measured = query >> self.dp.m.then_laplace(scale=sensitivity / epsilon)
        if measured.map(self.cap) > epsilon * (1 + 1e-9):
            raise AssertionError("OpenDP says that this costs more")
        return measured

    def count(self, epsilon: float) -> float:
        return float(self._laplace(self._space() >> self.dp.t.then_count(), self.cap, epsilon)(self.values))

    def sum(self, epsilon: float) -> float:
        summed = self._space() >> self.dp.t.then_clamp(self.bounds) >> self.dp.t.then_sum()
        return float(self._laplace(summed, self.cap * self.bounds[1], epsilon)(self.values))

    def mean(self, epsilon: float) -> float:
        return self.sum(epsilon / 2) / max(1.0, self.count(epsilon / 2))

    def median(self, epsilon: float) -> float:
        dp = self.dp
        candidates = list(range(self.bounds[0], self.bounds[1] + 1))
        scores = self._space() >> dp.t.then_quantile_score_candidates(candidates, alpha=0.5)
        moved = scores.map(self.cap)
        scale = float(moved[0] if isinstance(moved, tuple) else moved) / epsilon
        for factor in (1, 2):  # 1 where OpenDP knows that all scores move in one direction
            chosen = scores >> dp.m.then_noisy_max(dp.max_divergence(), factor * scale, negate=True)
            if chosen.map(self.cap) <= epsilon * (1 + 1e-9):
                break
        return float(candidates[chosen(self.values)])

    def table(self, keys: Keys, epsilon: float) -> list[float]:
        cells = list(range(math.prod(keys.values())))
        counts = self._space() >> self.dp.t.then_count_by_categories(cells, null_category=False)
        return [float(n) for n in self._laplace(counts, self.cap, epsilon)(codes(self.rows, keys).tolist())]


class Diffprivlib:
    """diffprivlib's tools know rows only: each row gets epsilon / cap, by group privacy."""

    def __init__(self, rows: pd.DataFrame, cap: int, bounds: tuple[int, int]) -> None:
        self.tools: Any = import_module("diffprivlib.tools")
        self.rows, self.cap, self.bounds = rows, cap, bounds
        self.values = rows["value"].to_numpy(dtype=float)

    def count(self, epsilon: float) -> float:
        # count_nonzero cuts the noise off at the number of rows, which it takes for public; a histogram does not
        counted, _ = self.tools.histogram(np.zeros(len(self.rows)), epsilon=epsilon / self.cap, bins=1, range=(-1, 1))
        return float(counted[0])

    def sum(self, epsilon: float) -> float:
        return float(self.tools.sum(self.values, epsilon=epsilon / self.cap, bounds=self.bounds))

    def mean(self, epsilon: float) -> float:
        return float(self.tools.mean(self.values, epsilon=epsilon / self.cap, bounds=self.bounds))

    def median(self, epsilon: float) -> float:
        return float(self.tools.median(self.values, epsilon=epsilon / self.cap, bounds=self.bounds))

    def table(self, keys: Keys, epsilon: float) -> list[float]:
        cells = math.prod(keys.values())
        counted, _ = self.tools.histogram(
            codes(self.rows, keys), epsilon=epsilon / self.cap, bins=cells, range=(-0.5, cells - 0.5)
        )
        return [float(n) for n in counted]


class PipelineDP:
    """PipelineDP's local backend, which cuts the rows of a person itself."""

    def __init__(self, rows: pd.DataFrame, cap: int, bounds: tuple[int, int]) -> None:
        self.library: Any = import_module("pipeline_dp")
        self.rows, self.cap, self.bounds = rows, cap, bounds

    def _aggregate(self, metric: Any, cells: np.ndarray[Any, Any], number: int, epsilon: float) -> list[float]:
        pipeline = self.library
        one = {"max_partitions_contributed": 1, "max_contributions_per_partition": self.cap}
        wanted = pipeline.AggregateParams(
            metrics=[metric],
            noise_kind=pipeline.NoiseKind.LAPLACE,
            min_value=self.bounds[0],
            max_value=self.bounds[1],
            **(one if number == 1 else {"max_contributions": self.cap}),
        )
        budget = pipeline.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=0)
        engine = pipeline.DPEngine(budget, pipeline.LocalBackend())
        extractors = pipeline.DataExtractors(
            privacy_id_extractor=lambda row: row[0],
            partition_extractor=lambda row: row[1],
            value_extractor=lambda row: row[2],
        )
        people, values = self.rows["person"].tolist(), self.rows["value"].tolist()
        rows = list(zip(people, cells.tolist(), values, strict=True))
        answer = engine.aggregate(rows, wanted, extractors, public_partitions=list(range(number)))
        budget.compute_budgets()
        found = {cell: float(metrics[0]) for cell, metrics in answer}
        return [found[cell] for cell in range(number)]

    def _whole(self, metric: Any, epsilon: float) -> float:
        return self._aggregate(metric, np.zeros(len(self.rows), dtype=int), 1, epsilon)[0]

    def count(self, epsilon: float) -> float:
        return self._whole(self.library.Metrics.COUNT, epsilon)

    def sum(self, epsilon: float) -> float:
        return self._whole(self.library.Metrics.SUM, epsilon)

    def mean(self, epsilon: float) -> float:
        return self._whole(self.library.Metrics.MEAN, epsilon)

    def median(self, epsilon: float) -> float:
        return self._whole(self.library.Metrics.PERCENTILE(50), epsilon)

    def table(self, keys: Keys, epsilon: float) -> list[float]:
        metric = self.library.Metrics.COUNT
        return self._aggregate(metric, codes(self.rows, keys), math.prod(keys.values()), epsilon)


class SmartNoise:
    """SmartNoise SQL over pandas; its epsilon is per column, and an average has two."""

    def __init__(self, rows: pd.DataFrame, cap: int, bounds: tuple[int, int]) -> None:
        self.library: Any = import_module("snsql")
        self.rows, self.cap, self.bounds = rows, cap, bounds

    def _ask(self, sql: str, epsilon: float) -> list[Any]:
        numbers = {name: {"type": "int"} for name in self.rows.columns if name not in ("person", "value")}
        table = {
            "row_privacy": False,
            "max_ids": self.cap,
            "sample_max_ids": False,  # they were cut before
            "censor_dims": False,  # the keys are public
            "clamp_counts": False,
            "rows": len(self.rows),
            "person": {"type": "int", "private_id": True},
            "value": {"type": "int", "lower": self.bounds[0], "upper": self.bounds[1]},
            **numbers,
        }
        reader = self.library.from_df(
            self.rows,
            privacy=self.library.Privacy(epsilon=epsilon, delta=1e-9),
            metadata={"": {"public": {"events": table}}},
        )
        return list(reader.execute(sql))[1:]

    def count(self, epsilon: float) -> float:
        return float(self._ask("SELECT COUNT(*) AS n FROM public.events", epsilon)[0][0])

    def sum(self, epsilon: float) -> float:
        return float(self._ask("SELECT SUM(value) AS n FROM public.events", epsilon)[0][0])

    def mean(self, epsilon: float) -> float:
        return float(self._ask("SELECT AVG(value) AS n FROM public.events", epsilon / 2)[0][0])

    def median(self, epsilon: float) -> float:
        raise NotImplementedError("SmartNoise SQL has no median")

    def table(self, keys: Keys, epsilon: float) -> list[float]:
        names = ", ".join(keys)
        found = {
            tuple(int(code) for code in row[:-1]): float(row[-1])
            for row in self._ask(f"SELECT {names}, COUNT(*) AS n FROM public.events GROUP BY {names}", epsilon)  # noqa: S608
        }
        return [found.get(cell, 0.0) for cell in product(*(range(size) for size in keys.values()))]


class Tumult:
    """Tumult Analytics on a local Spark; what one person changes is given as at most `cap` rows."""

    def __init__(self, rows: pd.DataFrame, cap: int, bounds: tuple[int, int]) -> None:
        os.environ["PYSPARK_PYTHON"] = sys.executable  # or Spark's workers run another Python, without the library
        self.library: Any = import_module("tmlt.analytics")
        spark = import_module("pyspark.sql").SparkSession.builder.config("spark.sql.shuffle.partitions", "2")
        spark = spark.config("spark.ui.enabled", "false").master("local[2]").getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        self.bounds = bounds
        self.session = self.library.Session.from_dataframe(
            privacy_budget=self.library.PureDPBudget(float("inf")),
            source_id="events",
            dataframe=spark.createDataFrame(rows.drop(columns="person")).repartition(2).cache(),
            protected_change=self.library.AddMaxRows(cap),
        )

    def _ask(self, query: Any, epsilon: float) -> pd.DataFrame:
        answer = self.session.evaluate(query, self.library.PureDPBudget(epsilon)).toPandas()
        assert isinstance(answer, pd.DataFrame)  # noqa: S101
        return answer

    def _number(self, query: Any, epsilon: float) -> float:
        return float(self._ask(query, epsilon).iloc[0, 0])

    def _events(self) -> Any:
        return self.library.QueryBuilder("events")

    def count(self, epsilon: float) -> float:
        return self._number(self._events().count(), epsilon)

    def sum(self, epsilon: float) -> float:
        return self._number(self._events().sum("value", *self.bounds), epsilon)

    def mean(self, epsilon: float) -> float:
        return self._number(self._events().average("value", *self.bounds), epsilon)

    def median(self, epsilon: float) -> float:
        return self._number(self._events().median("value", *self.bounds), epsilon)

    def table(self, keys: Keys, epsilon: float) -> list[float]:
        cells = self.library.KeySet.from_dict({name: list(range(size)) for name, size in keys.items()})
        answer = self._ask(self._events().groupby(cells).count(), epsilon)
        return [float(n) for n in answer.sort_values(list(keys))["count"]]


LIBRARIES: dict[str, tuple[str, Callable[[pd.DataFrame, int, tuple[int, int]], Library]]] = {
    "OpenDP": ("opendp", OpenDP),
    "diffprivlib": ("diffprivlib", Diffprivlib),
    "PipelineDP": ("pipeline-dp", PipelineDP),
    "SmartNoise SQL": ("smartnoise-sql", SmartNoise),
    "Tumult Analytics": ("tmlt.analytics", Tumult),
}


def codes(rows: pd.DataFrame, keys: Keys) -> np.ndarray[Any, Any]:
    """Return the number of the cell of each row."""
    number = np.zeros(len(rows), dtype=np.int64)
    for name, size in keys.items():
        number = number * size + rows[name].to_numpy(dtype=np.int64)
    return number


def answers(library: Library, task: dict[str, Any], epsilon: float) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Yield question, way of asking it, and how; the workload table by table, or summed from one table of all."""
    for name in NUMBERS:
        yield name, "", partial(getattr(library, name), epsilon)
    for name in ("top-20", "two-way"):
        yield name, "", partial(library.table, task["tables"][name], epsilon)
    margins: list[list[str]] = task["workload"]
    sizes: Keys = task["attributes"]

    def _apart() -> list[list[float]]:
        part = epsilon / len(margins)
        return [
            library.table({name: sizes[name] for name in names}, part) if names else [library.count(part)]
            for names in margins
        ]

    def _together() -> list[list[float]]:
        table = np.array(library.table(sizes, epsilon)).reshape(tuple(sizes.values()))
        places = {name: place for place, name in enumerate(sizes)}
        return [
            table.sum(axis=tuple(place for name, place in places.items() if name not in names)).ravel().tolist()
            for names in margins
        ]

    yield "workload", "tables apart", _apart
    yield "workload", "one table", _together


def cut(rows: pd.DataFrame, cap: int) -> pd.DataFrame:
    """Return at most `cap` rows of each person, at random."""
    shuffled = rows.sample(frac=1, random_state=cap)
    return shuffled[shuffled.groupby("person").cumcount() < cap].reset_index(drop=True)


def main() -> None:
    """Answer every question at every epsilon and cap: one round, and more until they or the seconds are over."""
    warnings.simplefilter("ignore")
    name, folder = sys.argv[1], Path(sys.argv[2])
    task = json.loads((folder / "task.json").read_text())
    distribution, library = LIBRARIES[name]
    print(json.dumps({"version": version(distribution)}), flush=True)
    rows = pd.read_parquet(folder / "rows.parquet")
    bounds = (int(task["bounds"][0]), int(task["bounds"][1]))
    opened = cache(lambda cap: library(cut(rows, cap), cap, bounds))
    begin = monotonic()
    broken: set[tuple[str, float, int]] = set()
    for repeat in range(task["repeats"]):
        for epsilon, cap in product(task["epsilons"], task["caps"]):
            for question, way, ask in answers(opened(cap), task, epsilon):
                for _ in range(task["numbers"] if repeat and question in NUMBERS else 1):
                    if (question, epsilon, cap) in broken or (repeat and monotonic() - begin > task["seconds"]):
                        break
                    try:
                        said = {"answer": ask()}
                    except Exception as reason:  # whatever a library says, it is a question without an answer
                        broken.add((question, epsilon, cap))
                        said = {"failed": f"{type(reason).__name__}: {' '.join(str(reason).split())[:120]}"}
                    asked = {"question": question, "way": way, "epsilon": epsilon, "cap": cap}
                    print(json.dumps({**asked, **said}), flush=True)


if __name__ == "__main__":
    main()
