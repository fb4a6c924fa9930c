"""Clients against a real server: python -m tests.clients.matrix FOLDER.

FOLDER has one environment per group of clients, made by `python -m tests.clients.environments FOLDER`: Python ones for
data frames and for each tool of `tools/`, and one of npm. R, Java, PHP, Ruby, Go and ODBC are used where Debian's
packages are there (r-cran-dbplyr, r-cran-rpostgresql, libpostgresql-jdbc-java, php-pgsql, ruby-pg,
golang-github-lib-pq-dev, odbc-postgresql).

Every client speaks through a proxy that reads its statements. They are then explained and sent to a second, fresh
server: what the client cost must be what EXPLAIN said. It prints a table, and fails if a client failed or cost more.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.clients.recording import Proxy, Sent, recorder
from tests.clients.replaying import COST
from tests.server.wire.served import PRICE, SYNC, Message, Served, bind, describe, execute, parse, served

from sfumato.server.wire.sql_words import is_question

HERE = Path(__file__).parent
JDBC = Path("/usr/share/java/postgresql.jar")
GO_PATH = Path("/usr/share/gocode")
SECONDS = 600
TOOLS = {
    "dbt": "dbt",
    "great_expectations": "Great Expectations",
    "jupysql": "JupySQL",
    "django": "Django",
    "superset": "Apache Superset",
    "pgadmin": "pgAdmin",
}
REBUILT = [HERE / "recorded" / f"{tool}.sql" for tool in ("dbeaver", "grafana", "metabase", "power_bi", "tableau")]
"""Tools that are not run here: their statements go through the drivers that they use."""
_QUESTION = re.compile(
    r"(?is)\s*(?:copy\s*\((?P<copied>.*)\)\s*to\s+stdout.*|.*?\bdeclare\b.*?\bfor\b(?P<declared>.*?)(?:;\s*fetch.*)?)"
)


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of one client."""

    client: str
    version: str
    steps: tuple[str, ...]
    failed: tuple[str, ...]
    cost: float
    explained: float

    @property
    def works(self) -> bool:
        """Whether every step worked, and nothing hidden was charged."""
        return not self.failed and abs(self.cost - self.explained) < 1e-6


def commands(folder: Path) -> dict[str, Callable[[list[str], str], list[str]]]:
    """Return how each client that is installed is run, given the parts of an address and the address."""
    found: dict[str, Callable[[list[str], str], list[str]]] = {}
    frames = folder / "frames" / "bin" / "python"
    if frames.exists():
        found["Python drivers and data frames"] = lambda _, url: [str(frames), str(HERE / "data_frames.py"), url]
    for tool, name in TOOLS.items():
        python = folder / tool / "bin" / "python"
        if python.exists():
            found[name] = lambda _, url, python=python, tool=tool: [  # type: ignore[misc]
                str(python), str(HERE / "tools" / f"run_{tool}.py"), url
            ]  # fmt: skip
    if shutil.which("Rscript"):
        found["R: DBI and dbplyr"] = lambda place, _: ["Rscript", str(HERE / "dbplyr.R"), *place]
    if shutil.which("java") and JDBC.exists():
        found["Java: pgjdbc"] = lambda place, _: ["java", "-cp", str(JDBC), str(HERE / "Cursors.java"), *place]
        found["Five tools by pgjdbc"] = lambda place, _: [
            "java", "-cp", str(JDBC), str(HERE / "Replay.java"), *place, *map(str, REBUILT)
        ]  # fmt: skip
    if frames.exists():
        found["Five tools by psqlODBC"] = lambda _, url: [
            str(frames), str(HERE / "odbc_replay.py"), url, *map(str, REBUILT)
        ]  # fmt: skip
    if shutil.which("node") and (folder / "node" / "node_modules").exists():
        shutil.copyfile(HERE / "drivers.mjs", folder / "node" / "drivers.mjs")  # it finds its packages beside it
        found["Node"] = lambda place, _: ["node", str(folder / "node" / "drivers.mjs"), *place]
    if shutil.which("php"):
        found["PHP"] = lambda place, _: ["php", str(HERE / "drivers.php"), *place]
    if shutil.which("ruby"):
        found["Ruby"] = lambda place, _: ["ruby", str(HERE / "drivers.rb"), *place]
    if shutil.which("go") and GO_PATH.exists():
        found["Go: lib/pq"] = lambda place, _: [
            "env", f"GOPATH={GO_PATH}", "GO111MODULE=off", "GOFLAGS=-mod=mod", "go", "run", str(HERE / "drivers.go"),
            *place,
        ]  # fmt: skip
    return found


@contextmanager
def proxied() -> Iterator[tuple[Served, Proxy, str]]:
    """Serve a fresh clinic behind a proxy, and give the address of the proxy."""
    with (
        tempfile.TemporaryDirectory() as data,
        served(Path(data)) as server,
        recorder(server.host, server.port) as (proxy, port),
    ):
        yield server, proxy, f"//research:{server.password}@127.0.0.1:{port}/clinic"


def run(name: str, command: Callable[[list[str], str], list[str]]) -> Ran:
    """Run one client, and compare what it cost with what EXPLAIN says of its statements."""
    with proxied() as (server, proxy, url):
        parts = urlsplit(f"postgresql:{url}")
        place = [str(parts.hostname), str(parts.port), str(parts.username), str(parts.password), parts.path[1:]]
        words = command(place, url)
        done = subprocess.run(words, timeout=SECONDS, check=False, capture_output=True, text=True)
        cost, sent = server.spent(), list(proxy.sent)
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(("NOTE: ", "Loaded "))]  # of the tools themselves
    version, steps = lines[0] if lines else "", [line for line in lines[1:] if re.match(r"[\w%].{0,79}?: ", line)]
    failed = [line for line in steps if "FAILED" in line]
    if done.returncode and not failed:
        failed = [done.stderr.strip()[-600:] or f"exit code {done.returncode}"]
    return Ran(name, version, tuple(steps), tuple(failed), cost, explained(sent))


def explained(sent: list[Sent]) -> float:
    """Return what EXPLAIN says of all statements, in their order, on a server that has answered none of them."""
    total = 0.0
    with (
        tempfile.TemporaryDirectory() as data,
        served(Path(data)) as server,
        server.client(pairs=PRICE) as client,
    ):

        def ask(sql: str, one: Sent) -> list[Message]:
            if one.values is None:
                return client.query(sql)
            return client.send(
                parse(sql, "", one.types), bind(one.values, formats=one.formats), describe(), execute(), SYNC
            ).until(b"Z")

        for one in sent:
            match = _QUESTION.fullmatch(one.sql)
            question = (match["copied"] or match["declared"]) if match else one.sql
            if not is_question(question):
                continue
            for kind, body in ask(f"EXPLAIN {question}", one):
                cost = COST.search(body.decode(errors="replace")) if kind == b"D" else None
                total += float(cost[1]) if cost else 0.0
            ask(question, one)
    return total


def table(rows: list[Ran]) -> str:
    """Return the matrix as Markdown."""
    lines = ["| client | version | steps | cost = EXPLAIN | |", "| --- | --- | ---: | --- | --- |"]
    for row in rows:
        cost = f"{row.cost:g} = {row.explained:g}" if row.works or row.failed else f"{row.cost:g} ≠ {row.explained:g}"
        verdict = "works" if row.works else "FAILED"
        lines.append(f"| {row.client} | {row.version} | {len(row.steps)} | {cost} | {verdict} |")
    return "\n".join(lines)


def main(folder: str, *only: str) -> int:
    """Run the clients, and return 1 if one of them failed or cost more than EXPLAIN said."""
    rows = []
    for name, command in commands(Path(folder)).items():
        if only and name not in only:
            continue
        row = run(name, command)
        rows.append(row)
        print(f"── {name}: {row.version}", *row.steps, sep="\n   ", flush=True)
        if row.failed:
            print("   FAILED:", *row.failed, sep="\n   ", flush=True)
    print(table(rows))
    return int(not all(row.works for row in rows))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
