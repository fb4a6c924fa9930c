"""Tells neighbours apart by how long answers take: `python -m tests.server.timing_attack`.

One person with very many rows is in one of two databases, under a policy that allows it. The attacker asks both the
same questions, learns on half of the answers which latency is typical of which database, and guesses the other half.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato
from sfumato.server.audit import Audit, audit_path
from sfumato.server.gate import Caller, Gateway, render_unchanged
from sfumato.server.grants import Grants

ROWS = 3_000_000
SUMS = 10
_POLICY = """
source = "parquet:data"
{top}
[budget]
epsilon = 10000
delta = 0
[tables.visits]
unit = "patient"
rows_per_unit = {rows}
[tables.visits.columns]
patient = {{ type = "integer" }}
cost = {{ type = "integer", bounds = [0, 100] }}
[analysts.research]
epsilon = 10000
"""


def make_world(folder: Path, person: bool, rows: int) -> Path:
    """Write twenty people, and perhaps one more with `rows` rows."""
    (folder / "data").mkdir(parents=True)
    patients = np.concatenate([np.arange(20), np.full(rows if person else 0, 99)])
    costs = np.arange(len(patients)) % 101
    pq.write_table(pa.table({"patient": patients, "cost": costs}), folder / "data" / "visits.parquet")
    return folder / "clinic.toml"


@contextmanager
def opened(policy: Path, padding: str, rows: int) -> Iterator[tuple[Gateway, Caller]]:
    """Open a world behind a gate, and let the attacker in."""
    policy.write_text(_POLICY.format(top=f'padding = "{padding}"' if padding else "", rows=rows))
    with sfumato.open(policy) as database:
        grants = Grants(database.policy)
        grant = grants.of_token(grants.grant("research").token)
        if grant is None:
            raise AssertionError("what was granted opens")
        gate = Gateway(database, grants, Audit(audit_path(database.policy)))
        yield gate, Caller(grant, "http", "")


def latencies(worlds: list[Path], padding: str, rows: int, asks: int) -> tuple[list[float], list[float]]:
    """Return how long each question took in both worlds, asked in turns, so that a busy machine slows both."""
    with opened(worlds[0], padding, rows) as one, opened(worlds[1], padding, rows) as other:

        async def attack() -> tuple[list[float], list[float]]:
            found: tuple[list[float], list[float]] = ([], [])
            for number in range(asks + 2):
                sums = ", ".join(f"SUM((cost * {n} + {number}) % {n + 7}) AS s{n}" for n in range(SUMS))
                sql = f"SELECT {sums} FROM visits WHERE cost % 13 <> {number % 13}"  # noqa: S608
                for (gate, caller), times in zip((one, other), found, strict=True):
                    begun = time.perf_counter()
                    await gate.ask(caller, sql, render_unchanged, epsilon="2" if padding else "1")
                    times.append(time.perf_counter() - begun)
            return found[0][2:], found[1][2:]

        return asyncio.run(attack())


def guessed(with_person: list[float], without: list[float]) -> float:
    """Return how often the attacker is right about the second half, having learnt on the first: 0.5 is blind luck."""
    half = len(with_person) // 2
    middle = (median(with_person[:half]) + median(without[:half])) / 2
    slower = median(with_person[:half]) > median(without[:half])
    right = sum((one > middle) == slower for one in with_person[half:])
    right += sum((one > middle) != slower for one in without[half:])
    return right / (len(with_person[half:]) + len(without[half:]))


def attack(folder: Path, padding: str, rows: int = ROWS, asks: int = 40) -> tuple[float, float, float]:
    """Return the attacker's success without padding and with it, and the median difference without, in seconds."""
    worlds = [make_world(folder / name, name == "with", rows) for name in ("with", "without")]
    plain = latencies(worlds, "", rows, asks)
    padded = latencies(worlds, padding, rows, asks)
    return guessed(*plain), guessed(*padded), median(plain[0]) - median(plain[1])


def main() -> None:
    """Run it by hand."""
    with tempfile.TemporaryDirectory() as folder:
        plain, padded, apart = attack(Path(folder), "2s", asks=40)
    print(f"one person makes an answer {1000 * apart:.1f} ms slower")
    print(f'guessed without padding: {plain:.0%}; with padding = "2s": {padded:.0%} (blind luck: 50%)')


if __name__ == "__main__":
    main()
