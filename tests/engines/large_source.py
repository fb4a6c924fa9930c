"""Does registration keep to its memory? (20M rows with heavy tails under 1 GB: python -m tests.engines.large_source)

Not a part of `make test`: it takes minutes. Prints the time of each phase and of a question after it, the peak memory
of the process and the most that was spilled to disk. For 100 million rows under 2 GB, and some 10 GB of disk:
python -m tests.engines.large_source 100000000 heavy 2GB
"""

import resource
import sys
import tempfile
import threading
import time
from pathlib import Path

import duckdb

import sfumato
from sfumato.engines.duckdb.connection import open_copy
from sfumato.engines.duckdb.registration import register
from sfumato.engines.engine import Limits
from sfumato.policy.reading import read_policy

# A unit's number of rows follows a power law; "one" gives half of all rows to a single person.
TAILS = {
    "heavy": "(power(random(), 3) * 1000000)::BIGINT",
    "one": "CASE WHEN random() < 0.5 THEN 0 ELSE (random() * 1000000)::BIGINT END",
}


def generate(folder: Path, rows: int, tail: str) -> None:
    duckdb.connect(config={"memory_limit": "1GB", "preserve_insertion_order": False}).execute(
        f"""COPY (SELECT {TAILS[tail]} AS patient_id, random() * 6000 AS cost, (random() * 120)::INTEGER AS age,
                         'd' || (random() * 20)::INTEGER AS dept, DATE '2020-01-01' + (random() * 1000)::INTEGER AS day
                  FROM range({rows})) TO '{folder}/visits.parquet'"""  # noqa: S608
    )


def main(rows: int = 20_000_000, tail: str = "heavy", memory: str = "1GB", place: str | None = None) -> None:
    with tempfile.TemporaryDirectory(dir=place) as name:
        root = Path(name)
        (root / "data").mkdir()
        generate(root / "data", rows, tail)
        words: dict[str, object] = {
            "name": "large",
            "source": f"parquet:{root}/data",
            "budget": {"epsilon": 1, "delta": 0},
            "tables": {
                "visits": {
                    "unit": "patient_id",
                    "rows_per_unit": 20,
                    "columns": {
                        "patient_id": {"type": "integer"},
                        "cost": {"type": "decimal", "bounds": [0, 5000], "step": "0.01"},
                        "age": {"type": "integer", "bounds": [0, 120]},
                        "dept": {"type": "text", "values": [f"d{number}" for number in range(21)]},
                        "day": {"type": "date"},
                    },
                }
            },
        }
        policy = read_policy(words)
        start, spilled, done = time.monotonic(), [0], threading.Event()

        def watch() -> None:
            while not done.wait(0.5):
                sizes = [path.stat().st_size for path in root.glob("*.build-*/spill/*") if path.exists()]
                spilled[0] = max(spilled[0], sum(sizes))

        watcher = threading.Thread(target=watch)
        watcher.start()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        registered = register(
            policy,
            lambda phase, table: print(f"{time.monotonic() - start:7.1f} s  {phase} {table}", flush=True),
            Limits(memory=memory),
        )
        print(f"{time.monotonic() - start:7.1f} s  done", flush=True)
        done.set()
        watcher.join()
        registered.use.close()
        with sfumato.open(words) as database:
            asked = time.monotonic()
            database.ask("SELECT dept, COUNT(*) AS n, SUM(cost) AS cost FROM visits GROUP BY dept", epsilon=1)
            print(f"{time.monotonic() - asked:7.1f} s  one question", flush=True)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with open_copy(registered.path, Limits()) as connection:
            most = connection.execute(
                "SELECT max(n), count(*) FROM (SELECT count(*) AS n FROM visits GROUP BY patient_id)"
            ).fetchone()
            kept = connection.execute("SELECT count(*) FROM visits").fetchone()
        print(f"rows {rows}, most per unit and units {most}, kept {kept}")
        print(f"copy {registered.path.stat().st_size / 2**20:.0f} MiB, spilled {spilled[0] / 2**20:.0f} MiB")
        print(f"peak memory / limit: {peak / 2**10:.0f} MiB / {memory}; before registration {before / 2**10:.0f} MiB")


if __name__ == "__main__":
    main(*(int(argument) if argument.isdigit() else argument for argument in sys.argv[1:]))  # type: ignore[arg-type]
