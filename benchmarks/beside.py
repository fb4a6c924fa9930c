"""How much longer are the bars of COUNT(*) and AVG(x), x nullable, asked together than asked alone at the same price?

One row per person, 20,000 people, means of 40 releases per price; with a delta also at a share of the budget, where
noise is Gaussian. Run: `python benchmarks/beside.py`
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

import sfumato
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.prepare import RequestedPrice
from sfumato.randomness.source import system_source
from sfumato.release.publish import publish
from sfumato.release.release import make_release

PEOPLE, RELEASES = 20_000, 40
PRICES: tuple[tuple[object, dict[str, str]], ...] = (
    (0, {"epsilon": "0.1"}),
    ("1e-6", {"epsilon": "0.1"}),
    ("1e-6", {"share": "1%"}),
)
QUESTIONS = {
    "COUNT, AVG": "SELECT COUNT(*) AS n, AVG(x) AS a FROM v",
    "by 5 groups": "SELECT k, COUNT(*) AS n, AVG(x) AS a FROM v GROUP BY k",
    "COUNT, AVG, AVG": "SELECT COUNT(*) AS n, AVG(x) AS a, AVG(y) AS b FROM v",
}
COLUMNS = {"n": "COUNT(*)", "a": "AVG(x)", "b": "AVG(y)"}


def main() -> None:
    """Print a line for each share of NULLs, price and question."""
    for nulls in (1, 10, 50):
        for delta, price in PRICES:
            with tempfile.TemporaryDirectory() as folder, _opened(Path(folder), nulls, delta) as database:
                for name, sql in QUESTIONS.items():
                    together = _lengths(database, sql, price)
                    by = " GROUP BY k" if "GROUP BY" in sql else ""
                    ratios = []
                    for column, length in together.items():
                        alone = f"SELECT {'k, ' if by else ''}{COLUMNS[column]} AS {column} FROM v{by}"  # noqa: S608
                        ratios.append(f"{column} {length / _lengths(database, alone, price)[column]:.2f}")
                    told = ", ".join(f"{key} {value}" for key, value in price.items())
                    print(f"{nulls:2d} % NULL, delta {delta}, {told}: {name}: together / alone = {', '.join(ratios)}")


def _opened(folder: Path, nulls: int, delta: object) -> sfumato.Database:
    random = np.random.default_rng(nulls)
    (folder / "data").mkdir()
    columns: dict[str, Any] = {"p": np.arange(PEOPLE), "k": random.integers(0, 5, PEOPLE)}
    for name in ("x", "y"):
        values = np.clip(random.normal(60, 15, PEOPLE), 0, 100).round().astype(int)
        columns[name] = pyarrow.array(values, mask=random.random(PEOPLE) * 100 < nulls)
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "data" / "v.parquet")
    numbers = {name: {"type": "integer", "bounds": [0, 100]} for name in ("x", "y")}
    return sfumato.open(
        {
            "name": "beside",
            "source": f"parquet:{folder}/data",
            "ledger": f"sqlite:{folder}/beside.ledger",
            "budget": {"epsilon": 3, "delta": delta},
            "tables": {
                "v": {
                    "unit": "p",
                    "rows_per_unit": 1,
                    "columns": {"p": {"type": "integer"}, "k": {"type": "integer", "bounds": [0, 4]}, **numbers},
                }
            },
        }
    )


def _lengths(database: sfumato.Database, sql: str, price: dict[str, str]) -> dict[str, float]:
    """Return the mean length of the bars of each column."""
    asked = database.prepare(sql, None, RequestedPrice(**price))  # type: ignore[arg-type]
    exact, receipt, source = asked.engine.run(asked.job), database._receipt(asked, "beside"), system_source()
    found: dict[str, list[float]] = {}
    for _ in range(RELEASES):
        for row in make_release(asked.plan, publish(asked.plan, exact, source), receipt, evaluate).intervals():
            for name, ends in row.items():
                if name in COLUMNS:
                    found.setdefault(name, []).append(float(ends[1]) - float(ends[0]))
    return {name: float(np.mean(lengths)) for name, lengths in found.items()}


if __name__ == "__main__":
    main()
