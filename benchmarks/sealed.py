"""How many times slower is a GROUP BY over sealed rows than over the same rows in plaintext, decryption included?

One thread, open connections, the same rows in the same order, interleaved, best of 9; CPU time on DuckDB, wall time
on PostgreSQL. The last ratio is that of both with opening the store for each question, as the gate does:

    python benchmarks/sealed.py [ROWS] [postgresql://USER@HOST/DATABASE]
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa

from sfumato.engines.engine import Limits
from sfumato.policy.reading import read_policy
from sfumato.sealed.cells import cell_sums, decrypt_cell_sums
from sfumato.sealed.database import seal
from sfumato.sealed.keys import create_key
from sfumato.sealed.postgres_store import PostgresCipherStore
from sfumato.sealed.stores import CipherStore, DuckDBCipherStore, sums_statement
from sfumato.sealed.vault import Vault

ROWS = 2_000_000
ONE_WORKER = "?options=-c%20max_parallel_workers_per_gather%3D0"
ROUNDS = 9
PLAIN = 'SELECT t, COUNT(*), SUM(v) FROM "plain" GROUP BY t'


def measured(rows: int, cells: int, url: str | None, clock: Callable[[], float]) -> tuple[float, float, float, int]:
    """Return the seconds of both statements, their ratio when both open the store anew, and the number of rows."""
    with tempfile.TemporaryDirectory() as folder:
        policy = _policy(Path(folder), rows, cells, url)
        values = np.arange(rows, dtype=np.int64)
        given = pa.table({"g": values * 7919 % cells, "v": values * 104729 % 1001})
        seal(policy, "visits", given)
        vault = Vault(read_policy(policy))
        manifest = vault.ring.read("dataset")
        name = vault.stored_name(manifest.epoch, "visits")
        vault.store = _store(Path(folder) / "store" / "s.duckdb", url)
        plain = _store(Path(folder) / "plain.duckdb", url)
        (batch,) = manifest.table("visits").committed  # type: ignore[union-attr]
        tokens = np.argsort(vault.tokens(manifest.epoch, vault.layouts["visits"]))
        groups = np.repeat(np.arange(cells), np.array(batch.sizes)[tokens]).astype(np.int32)
        plain.insert("plain", {"t": groups, "v": (np.arange(len(groups)) * 104729 % 1001).astype(np.int32)})
        layout = vault.layouts["visits"]
        statement = sums_statement(name, [limb for column in layout.columns for limb in column.limbs])
        with _opened(vault.store, url) as ciphertexts, _opened(plain, url) as plaintexts:
            tasks = (
                lambda: decrypt_cell_sums(
                    vault, manifest, layout, layout.columns, ciphertexts.execute(statement).fetchall()
                ),
                lambda: plaintexts.execute(PLAIN).fetchall(),
            )
            sealed, open_text = _interleaved(tasks, clock)
        whole = _interleaved((lambda: cell_sums(vault, "visits", layout.columns), lambda: plain.sums(PLAIN)), clock)
        plain.drop("plain")
        vault.store.drop(name)
        return sealed, open_text, whole[0] / whole[1], len(groups)


def _policy(folder: Path, rows: int, cells: int, url: str | None) -> dict[str, Any]:
    create_key(folder / "benchmark.key")
    store = url or f"duckdb:{folder / 'store' / 's.duckdb'}"
    columns = {
        "g": {"type": "integer", "values": list(range(cells))},
        "v": {"type": "integer", "bounds": [0, 1000]},
    }
    table = {
        "unit": "rows",
        "cells": ["g"],
        "measures": ["v"],
        "capacity": max(131_072, 2 * rows // cells),
        "columns": columns,
    }
    return {
        "sealed": {"key": f"file:{folder / 'benchmark.key'}", "store": store, "epsilon": 1, "delta": 1e-6},
        "ledger": f"sqlite:{folder / 'benchmark.ledger'}",
        "budget": {"epsilon": 10, "delta": 0.1},
        "tables": {"visits": table},
    }


def _store(path: Path, url: str | None) -> CipherStore:
    if url is None:
        return DuckDBCipherStore(path, Limits(threads=1))
    return PostgresCipherStore(f"{url}{ONE_WORKER}")


def _opened(store: CipherStore, url: str | None) -> Any:
    if isinstance(store, DuckDBCipherStore):
        return store.open_connection(" (READ_ONLY)")
    return psycopg.connect(f"{url}{ONE_WORKER}", autocommit=True)


def _interleaved(tasks: tuple[Callable[[], object], ...], clock: Callable[[], float]) -> list[float]:
    best = [float("inf")] * len(tasks)
    for _ in range(ROUNDS):
        for at, task in enumerate(tasks):
            before = clock()
            task()
            best[at] = min(best[at], clock() - before)
    return best


def main() -> None:
    """Print a line per engine and number of cells; the promised ratio comes last."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    url = sys.argv[2] if len(sys.argv) > 2 else None
    clock, engine = (process_time, "DuckDB, CPU") if url is None else (perf_counter, "PostgreSQL, wall")
    ratio = 0.0
    for cells in (2000, 100):
        sealed, plain, whole, stored = measured(rows, cells, url, clock)
        ratio = sealed / plain
        times = f"{sealed * 1000:.1f} ms sealed, {plain * 1000:.1f} ms plain, {ratio:.2f}x"
        print(f"{engine}: {cells} cells, {stored:,} rows: {times}; {whole:.2f}x with opening")
    print(f"sealed / plain at 100 cells = {ratio:.2f}x (promised: 1.26x at most)")


if __name__ == "__main__":
    main()
