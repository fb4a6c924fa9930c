"""How many times slower is the same private question in OpenDP and in PipelineDP? (same file, in turns, best of 3)

5M purchases of 200,000 people in 1,000 declared shops: COUNT(*), SUM and AVG by shop, at most 50 rows of each person,
pure epsilon 1. The others are asked for noisy counts and sums only, which is all that a mean needs. sfumato is
`Database.ask` over its registered copy; OpenDP is its Polars context, which truncates the rows of each person in the
query; PipelineDP is its local backend on the first 500,000 rows, compared per row. OpenDP is also measured with the
measurement resolved beforehand, and so on rows that were truncated in advance by hand, as registration does for us.
"""

import tempfile
import time
from collections.abc import Callable, Sized
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import opendp.prelude as dp
import pipeline_dp
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from opendp.extras.polars import Margin, dp_len

import sfumato

ROWS, PEOPLE, GROUPS, ROUNDS = 5_000_000, 200_000, 1_000, 3
FEWER = 500_000  # PipelineDP needs minutes for all of them
ROWS_PER_PERSON, HIGHEST_PRICE, EPSILON = 50, 500, 1
SHOPS = [f"shop {number:04}" for number in range(1, GROUPS + 1)]
SQL = "SELECT shop, COUNT(*) AS n, SUM(price) AS total, AVG(price) AS mean FROM sales GROUP BY shop"

Ask = Callable[[], Sized]


def write(file: Path) -> None:
    """Write the source: who bought where, for how much; a few people have thousands of rows."""
    rng = np.random.default_rng(7)
    weights = rng.pareto(1.2, PEOPLE) + 0.1
    people = rng.choice(PEOPLE, ROWS, p=weights / weights.sum())
    shops = np.array(SHOPS)[np.minimum(rng.geometric(0.004, ROWS), GROUPS) - 1]
    prices = np.round(rng.gamma(2.0, 20.0, ROWS), 2)
    file.parent.mkdir()
    pq.write_table(pa.table({"buyer": people, "shop": shops, "price": prices}), file)


def policy(file: Path) -> dict[str, Any]:
    """Return the policy that promises what the others are told; delta 0, so that all noise is Laplace."""
    columns = {
        "buyer": {"type": "integer"},
        "shop": {"type": "text", "values": SHOPS},
        "price": {"type": "decimal", "bounds": [0, HIGHEST_PRICE], "step": 0.01},
    }
    return {
        "source": f"parquet:{file.parent}",
        "ledger": f"sqlite:{file.parent.parent}/sales.ledger",
        "budget": {"epsilon": 1000, "delta": 0},
        "tables": {"sales": {"unit": "buyer", "rows_per_unit": ROWS_PER_PERSON, "columns": columns}},
    }


def ask_sfumato(database: sfumato.Database) -> Ask:
    numbers = count(1)

    def _ask() -> Sized:
        # a slightly different epsilon each time: the same question again would be answered from the ledger
        return database.ask(SQL, epsilon=EPSILON + Fraction(next(numbers), 1000)).rows()

    return _ask


def opendp_context(rows: pl.LazyFrame, unit: Any) -> Any:
    return dp.Context.compositor(
        data=rows,
        privacy_unit=unit,
        privacy_loss=dp.loss_of(epsilon=float(EPSILON * ROUNDS)),
        split_evenly_over=ROUNDS,
        margins=[
            Margin(max_length=ROWS),
            Margin(by=["shop"], max_length=ROWS, max_groups=GROUPS),
        ],
    )


def opendp_question(rows: Any) -> Any:
    """Return the question over a query, whose rows are truncated already."""
    prices = pl.col("price").fill_null(0.0).fill_nan(0.0)
    sums = prices.dp.sum((0.0, float(HIGHEST_PRICE)))  # type: ignore[attr-defined]
    return rows.group_by("shop").agg(dp_len(signed=True), sums).with_keys(pl.LazyFrame({"shop": SHOPS}))


def ask_opendp(file: Path) -> dict[str, Ask]:
    """Return three ways to ask OpenDP: all of it, without resolving, and without resolving or truncating."""
    person = dp.unit_of(contributions=1, identifier="buyer")
    source = pl.scan_parquet(file)
    whole, resolved = opendp_context(source, person), opendp_context(source, person)
    cut = file.parent.parent / "cut.parquet"
    source.filter(pl.int_range(pl.len()).shuffle().over("buyer") < ROWS_PER_PERSON).collect().write_parquet(cut)
    truncated = opendp_context(pl.scan_parquet(cut), dp.unit_of(contributions=ROWS_PER_PERSON))
    measurement = opendp_question(resolved.query().truncate_per_group(ROWS_PER_PERSON)).resolve()
    shorter = opendp_question(truncated.query()).resolve()

    def _whole() -> Sized:
        table: Sized = opendp_question(whole.query().truncate_per_group(ROWS_PER_PERSON)).release().collect()
        return table

    return {
        "OpenDP": _whole,
        "OpenDP, resolved": lambda: resolved(measurement).collect(),
        "OpenDP, resolved and truncated": lambda: truncated(shorter).collect(),
    }


def ask_pipeline_dp(file: Path) -> Ask:
    columns = pq.read_table(file).slice(0, FEWER)
    rows = list(zip(*(columns[name].to_pylist() for name in ("buyer", "shop", "price")), strict=True))
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )
    wanted = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.COUNT, pipeline_dp.Metrics.SUM],
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        max_contributions=ROWS_PER_PERSON,
        min_value=0,
        max_value=HIGHEST_PRICE,
    )

    def _ask() -> Sized:
        budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=0)
        engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
        answer = engine.aggregate(rows, wanted, extractors, public_partitions=SHOPS)
        budget.compute_budgets()
        return list(answer)  # lazy until here

    return _ask


def seconds(ask: Ask) -> float:
    """Return how long one answer took, after making sure that it has every group."""
    begin = time.perf_counter()
    answer = ask()
    taken = time.perf_counter() - begin
    if len(answer) != GROUPS:
        raise SystemExit(f"an answer has {len(answer)} groups, not {GROUPS}")
    return taken


def main() -> None:
    dp.enable_features("contrib")
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "data" / "sales.parquet"
        write(file)
        begin = time.perf_counter()
        with sfumato.open(policy(file)) as database:
            print(f"sfumato: registering the source, once: {time.perf_counter() - begin:.1f} s")
            ways = {"sfumato": ask_sfumato(database), **ask_opendp(file), "PipelineDP": ask_pipeline_dp(file)}
            best = dict.fromkeys(ways, float("inf"))
            for _ in range(ROUNDS):
                for way, ask in ways.items():
                    best[way] = min(best[way], seconds(ask))
    ours = best["sfumato"]
    print(f"sfumato: {ours:.3f} s")
    print(f"PipelineDP: {best['PipelineDP']:.1f} s for {FEWER:,} rows")
    print(f"PipelineDP / sfumato, per row = {best['PipelineDP'] / FEWER / (ours / ROWS):.0f}x")
    for way in ("OpenDP", "OpenDP, resolved and truncated"):
        print(f"{way}: {best[way]:.2f} s, {best[way] / ours:.1f}x")
    print(f"OpenDP, resolved: {best['OpenDP, resolved']:.2f} s")
    print(f"OpenDP, resolved beforehand / sfumato = {best['OpenDP, resolved'] / ours:.1f}x")


if __name__ == "__main__":
    main()
