"""Threads that share one database: what is computed for one of them stays until it has been used."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sfumato
from sfumato.database import Database

THREADS, EACH = 6, 12


def _clinic(folder: Path) -> Database:
    rows = "".join(f"{person},{person % 5}\n" for person in range(50))
    (folder / "visits.csv").write_text(f"patient,x\n{rows}", encoding="utf-8")
    columns = {"patient": {"type": "integer"}, "x": {"type": "integer", "bounds": [0, 4]}}
    return sfumato.open(
        {
            "name": "clinic",
            "source": f"csv:{folder}/visits.csv",
            "ledger": f"sqlite:{folder}/clinic.ledger",
            "budget": {"epsilon": 100_000, "delta": 0},
            "tables": {"visits": {"unit": "patient", "rows_per_unit": 1, "columns": columns}},
        }
    )


def test_threads_that_join_with_different_public_rows_do_not_drop_each_others(tmp_path: Path) -> None:
    with _clinic(tmp_path) as clinic:

        def ask(thread: int) -> Counter[str]:
            seen: Counter[str] = Counter()
            for nth in range(EACH):
                listed = f"(VALUES (1), (2), (2), ({100 + thread * EACH + nth})) AS w (a)"
                sql = f"SELECT COUNT(*) AS n FROM visits v JOIN {listed} ON v.x = w.a"  # noqa: S608
                try:
                    price = clinic.explain(sql, epsilon="1")
                    seen["fine" if (price.margins["n"] or 0) > 2 else "another price"] += 1
                except Exception as error:
                    seen[type(error).__name__] += 1
            return seen

        with ThreadPoolExecutor(THREADS) as pool:
            found = sum(pool.map(ask, range(THREADS)), Counter[str]())
        assert found == {"fine": THREADS * EACH}
        assert clinic.ask("SELECT COUNT(*) AS n FROM visits v JOIN (VALUES (1), (2)) AS w (a) ON v.x = w.a", epsilon=10)
