"""How far are private answers to TPC-H's 22 queries from the plain ones? (ε = 1 each, scale factor 0.1, median of 3)

The customer is protected: orders belong to their customer, lines to the customer of their order. All other tables are
public. Contribution bounds are selected privately below 100 orders and 1,000 lines. Texts are those of the
specification. A number after the command is another scale factor. It needs `tpchgen-cli` (pip install 'sfumato[test]').
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from copy import deepcopy
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Any

import duckdb

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.paths.tpch import POLICY, QUESTIONS

import sfumato

ROUNDS = 3
Row = dict[str, Any]


def policy(folder: Path, ledger: str) -> dict[str, Any]:
    """Return the policy of the tests with bounds that each question selects."""
    words = deepcopy(POLICY) | {"source": f"parquet:{folder / 'data'}", "ledger": f"sqlite:{folder / ledger}"}
    words["tables"]["orders"]["rows_per_unit"] = {"most": 100, "choose": "private"}
    words["tables"]["lineitem"]["rows_per_unit"] = {"most": 1000, "choose": "private"}
    return words


def shown(key: object) -> str:
    """Return a key as a text; a year may be 1995 or 1995.0."""
    return f"{float(key):g}" if isinstance(key, int | float | Decimal) else str(key)


def errors(noisy: Sequence[Row], plain: Sequence[Row], columns: Sequence[str]) -> tuple[list[float], int]:
    """Return the relative errors of rows that both answers have, and how many rows those are."""
    keys = [name for name in (plain[0] if plain else {}) if name not in columns]
    known = {tuple(shown(row[key]) for key in keys): row for row in plain}
    pairs = [(row, known.get(tuple(shown(row[key]) for key in keys))) for row in noisy]
    met = [(row, other) for row, other in pairs if other is not None]
    found = [
        abs(float(row[name]) - float(other[name])) / abs(float(other[name]))
        for row, other in met
        for name in columns
        if row[name] is not None and other[name]
    ]
    return found, len(met)


def main() -> None:
    """Print one row for each query."""
    scale = sys.argv[1] if len(sys.argv) > 1 else "0.1"
    with tempfile.TemporaryDirectory() as place, duckdb.connect() as connection:
        folder = Path(place)
        program = Path(sys.executable).parent / "tpchgen-cli"
        subprocess.run([program, "parquet", "-s", scale, "-o", folder / "data"], check=True, capture_output=True)
        for file in (folder / "data").iterdir():
            connection.execute(f"CREATE VIEW {file.stem} AS SELECT * FROM '{file}'")  # noqa: S608
        plain: dict[int, list[Row]] = {}
        for number, sql in QUESTIONS.items():
            exact = connection.execute(sql).fetchall()
            names = [column[0] for column in connection.description or ()]
            plain[number] = [dict(zip(names, row, strict=True)) for row in exact]
        found: dict[int, list[tuple[float | None, int, int]]] = {}
        refused: dict[int, str] = {}
        for at in range(ROUNDS):
            with sfumato.open(policy(folder, f"ledger {at}")) as db:
                for number, sql in QUESTIONS.items():
                    try:
                        columns = list(db.explain(sql, epsilon="1").margins)
                        rows = db.ask(sql, epsilon="1").rows()
                    except sfumato.Refusal as refusal:
                        refused[number] = str(refusal).split(". ")[0]
                        continue
                    off, met = errors(rows, plain[number], columns)
                    found.setdefault(number, []).append((median(off) if off else None, met, len(rows)))
    print(f"| query | rows, plain | rows, private | in both | median relative error at ε = 1 (scale factor {scale}) |")
    print("|---|---:|---:|---:|---|")
    for number in QUESTIONS:
        if number in refused:
            print(f"| Q{number} | {len(plain[number])} | | | refused: {refused[number]} |")
            continue
        middle = [off for off, _, _ in found[number] if off is not None]
        shown = f"{100 * median(middle):.2g} %" if middle else "exact" if number in {2, 11, 16} else "–"
        met = int(median(met for _, met, _ in found[number]))
        rows_shown = int(median(count for _, _, count in found[number]))
        print(f"| Q{number} | {len(plain[number])} | {rows_shown} | {met} | {shown} |")
    print(f"answered = {len(found)} of {len(QUESTIONS)}")


if __name__ == "__main__":
    main()
