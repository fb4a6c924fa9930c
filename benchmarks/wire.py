"""How many times longer does `SELECT 1` take over our wire protocol than with PostgreSQL itself?

One client, one connection each, interleaved, the best of 500 round trips, over loopback. Before it: the same for a
public table, a question about the catalogue, and a private answer that is kept, which PostgreSQL has no equal of.

    python benchmarks/wire.py postgresql://USER@HOST/DATABASE
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import psycopg

ROUNDS = 500
POLICY = """
name = "clinic"
source = "csv:data"
[budget]
epsilon = 100
delta = 0
[tables.visits]
unit = "patient"
rows_per_unit = 2
[tables.visits.columns]
patient = { type = "integer" }
dept = { type = "text", values = ["er", "icu"] }
[tables.staff]
public = true
[tables.staff.columns]
id = { type = "integer" }
name = { type = "text" }
[analysts.research]
epsilon = 100
"""
CATALOGUE = (
    "SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_class c "
    "JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid "
    "WHERE n.nspname = 'public' AND a.attnum > 0 ORDER BY c.relname, a.attnum"
)
QUESTIONS = {
    "a public table": "SELECT id, name FROM staff WHERE id < 20",
    "the catalogue": CATALOGUE,
    "SELECT 1": "SELECT 1",
}
KEPT = "SELECT dept, COUNT(*) FROM visits GROUP BY dept"


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Run `sfumato serve` over a small clinic, and give what psycopg needs."""
    (folder / "data").mkdir()
    (folder / "clinic.toml").write_text(POLICY)
    (folder / "data" / "visits.csv").write_text("patient,dept\n" + "".join(f"{i},er\n{i},icu\n" for i in range(1000)))
    (folder / "data" / "staff.csv").write_text("id,name\n" + "".join(f"{i},name {i}\n" for i in range(100)))
    command = [sys.executable, "-m", "sfumato"]
    policy = str(folder / "clinic.toml")
    subprocess.run([*command, "refresh", policy], check=True, capture_output=True)
    granted = subprocess.run([*command, "grant", policy, "research"], check=True, capture_output=True, text=True)
    password = next(line.split()[1] for line in granted.stdout.splitlines() if line.startswith("password:"))
    server = subprocess.Popen(
        [*command, "serve", policy, "--http-port", "0", "--pg-port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        port = 0
        for line in server.stdout or ():
            if "postgresql://" in line:
                port = int(line.split("@", 1)[1].split(":")[1].split("/")[0])
                break
        yield f"host=127.0.0.1 port={port} user=research dbname=clinic password={password}"
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(20)


def prepare(native: psycopg.Connection) -> None:
    """Give PostgreSQL the same public table, for this session."""
    native.execute("CREATE TEMPORARY TABLE staff (id bigint, name text)")
    native.execute("INSERT INTO staff SELECT i, 'name ' || i FROM generate_series(0, 99) i")
    native.execute("ANALYZE staff")


def best(connections: list[psycopg.Connection], sql: str) -> list[float]:
    """Return the seconds of the shortest round trip on each connection: what others do on the machine is left out."""
    seconds: list[list[float]] = [[] for _ in connections]
    for _ in range(ROUNDS):
        for taken, connection in zip(seconds, connections, strict=True):
            begun = perf_counter()
            connection.execute(sql, prepare=False).fetchall()
            taken.append(perf_counter() - begun)
    return [min(taken) for taken in seconds]


def main(url: str) -> None:
    """Print all figures, one ratio last."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder)) as own,
        psycopg.connect(own, autocommit=True) as wire,
        psycopg.connect(url, autocommit=True) as native,
    ):
        prepare(native)
        wire.execute("SET sfumato.epsilon = '1'")
        wire.execute(KEPT)
        (kept,) = best([wire], KEPT)
        print(f"a private answer that is kept: {kept * 1000:.2f} ms")
        for name, sql in QUESTIONS.items():
            ours, theirs = best([wire, native], sql)
            print(f"{name}: {ours * 1000:.2f} ms here, {theirs * 1000:.2f} ms with PostgreSQL")
    print(f"SELECT 1: wire / PostgreSQL = {ours / theirs:.2f}x")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python {os.path.basename(__file__)} postgresql://USER@HOST/DATABASE")
    main(sys.argv[1])
