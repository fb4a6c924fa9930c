"""How many requests per second does a server answer, next to a native PostgreSQL? (16 clients, same machine, same run)

Fresh answers are charged, computed and written to the ledger; kept ones are asked again. `select 1` is over
PostgreSQL's protocol on one connection. The native server is started from the machine's own binaries, if it has any.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import psycopg

import sfumato

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from tests.ledger.postgres import binaries  # noqa: E402
from tests.ledger.postgres import server as native_server  # noqa: E402
from tests.server.clinic import make_clinic  # noqa: E402
from tests.server.running import WIRE, Running  # noqa: E402

CLIENTS = 16
FRESH = 25
KEPT = 60
ROUND_TRIPS = 2000
QUESTION = "SELECT dept, COUNT(*) AS n FROM visits WHERE cost > {} GROUP BY dept"


def per_second(work: Callable[[int], int]) -> float:
    """Return how many requests per second all clients do together."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        begun = time.perf_counter()
        done = sum(pool.map(work, range(CLIENTS)))
        return done / (time.perf_counter() - begun)


def http(server: Running) -> tuple[float, float]:
    """Return fresh and kept answers per second over HTTP."""

    def fresh(client: int) -> int:
        with sfumato.connect(server.url, token=server.token()) as database:
            for number in range(FRESH):
                database.ask(QUESTION.format(client * FRESH + number), epsilon="0.001")
        return FRESH

    def kept(client: int) -> int:
        with sfumato.connect(server.url, token=server.token()) as database:
            for number in range(KEPT):
                database.ask(QUESTION.format((client + number) % FRESH), epsilon="0.001")
        return KEPT

    return per_second(fresh), per_second(kept)


def round_trip(connection: "psycopg.Connection[tuple[object, ...]]") -> float:
    """Return the median milliseconds of `select 1`."""
    taken = []
    for _ in range(ROUND_TRIPS):
        begun = time.perf_counter()
        connection.execute("select 1").fetchone()
        taken.append(time.perf_counter() - begun)
    return 1000 * median(taken)


def grouped(url: str) -> float:
    """Return the same questions per second on a native PostgreSQL, with the same rows and no privacy."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE visits (patient int, dept text, cost int)")
        with connection.cursor().copy("COPY visits FROM STDIN") as copy:
            for person in range(300):
                for visit in range(1 + person % 3):
                    copy.write_row((person, ("er", "icu", "surgery")[(person + visit) % 3], person % 97))

    def native(client: int) -> int:
        with psycopg.connect(url, autocommit=True) as connection:
            for number in range(KEPT):
                connection.execute(QUESTION.format((client + number) % FRESH).encode()).fetchall()
        return KEPT

    return per_second(native)


def main() -> None:
    """Measure and print."""
    folder = binaries()
    with tempfile.TemporaryDirectory() as place, Running(make_clinic(Path(place))) as server:
        fresh, kept = http(server)
        found = WIRE.search(server.out)
        if found is None:
            raise AssertionError("the address of the wire protocol is printed")
        given = f"host=127.0.0.1 port={found[3]} user=research dbname=clinic sslmode=disable"
        with psycopg.connect(f"{given} password={server.secrets['research'].password}", autocommit=True) as connection:
            ours = round_trip(connection)
    print(f"HTTP: {fresh:.0f} fresh and {kept:.0f} kept answers per second ({CLIENTS} clients)")
    print(f"select 1: {ours:.2f} ms")
    if folder is None:
        print("There is no PostgreSQL on this machine to compare with.")
        return
    with native_server(folder) as url:
        theirs = grouped(url)
        with psycopg.connect(url, autocommit=True) as connection:
            plain = round_trip(connection)
    print(f"native PostgreSQL: {theirs:.0f} answers per second, select 1: {plain:.2f} ms")
    print(
        f"native / kept = {theirs / kept:.1f}x; native / fresh = {theirs / fresh:.1f}x; select 1 = {ours / plain:.1f}x"
    )


if __name__ == "__main__":
    main()
