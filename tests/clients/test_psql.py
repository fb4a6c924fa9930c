"""The commands of the real psql: each works, and a repeated question costs nothing."""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.wire.served import Served, served
from tests.server.wire.test_clients import psql, psql_environment

pytestmark = pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
ASKED = "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept ORDER BY dept"
CROSSED = "SELECT dept, age / 60 AS a, COUNT(*) AS n FROM visits GROUP BY 1, 2 ORDER BY 1, 2"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Path(tmp_path_factory.mktemp("psql"))) as made:
        yield made


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        ((r"\timing on", f"{ASKED};"), ("Timing is on.", "Time: ", "surgery")),
        ((r"\x", f"{ASKED};", r"\x auto", rf"{ASKED} \gx"), ("-[ RECORD 3 ]", "dept | surgery")),
        ((rf"{ASKED} \gdesc", r"SELECT * FROM visits \gdesc"), (" n      | bigint", "cost       | double precision")),
        ((r"SELECT COUNT(*) AS n FROM visits \gset p_", r"\echo <:p_n>", r"SELECT :p_n AS again;"), ("<", "again")),
        ((rf"{CROSSED} \crosstabview",), ("  dept   |", "surgery |")),
        ((r"\d+ visits", r"\d+", r"\dt+"), ("from 0 to 120", "at most 4 rows count")),
        ((f"CREATE TEMP VIEW v AS {ASKED};", r"\d+ v", r"\dv", r"\sv v", "SELECT n FROM v;"), ("View definition:",)),
        ((rf"\copy ({ASKED}) to stdout csv header", r"\copy staff to stdout"), ("dept,n\n", "8\tName 8")),
        ((rf"\copy ({ASKED}) to program 'tr a-z A-Z'",), ("SURGERY",)),
        ((rf"{ASKED} \g (format=csv)", r"\set FETCH_COUNT 2", f"{ASKED};"), ("dept,n\ner,", "surgery |")),
        ((r"SELECT 'SELECT ' || id || ' AS one' FROM staff WHERE id < 2 \gexec",), ("(1 row)",)),
        ((r"\conninfo", r"\dconfig sfumato*", r"\dp visits", r"\dx", r"\drds"), ("sfumato.preview",)),
        ((f"SELECT 1 AS one\\; {ASKED}\\; SELECT 2 AS two;",), ("one", "surgery", "two")),
        (("BEGIN;", rf"{ASKED};", "SAVEPOINT a;", "ROLLBACK TO a;", "COMMIT;"), ("COMMIT",)),
    ],
)
def test_every_command_works(server: Served, commands: tuple[str, ...], expected: tuple[str, ...]) -> None:
    done = psql(server, *commands)
    assert (done.returncode, "ERROR" in done.stderr) == (0, False), done.stderr
    assert [words for words in expected if words not in done.stdout] == [], done.stdout
    before = server.spent()
    assert psql(server, *commands).returncode == 0
    assert server.spent() == before  # the second time costs nothing


def test_several_statements_of_the_command_line(server: Served) -> None:
    where = ["-X", "-h", server.host, "-p", str(server.port), "-U", "research", "-d", "clinic"]
    words = ["-At", "-c", f"SELECT 1; {ASKED}; SELECT 2", "-c", r"\d visits", "-c", "SHOW sfumato.budget"]
    done = subprocess.run(
        ["psql", *where, *words], env=psql_environment(server), capture_output=True, text=True, timeout=30, check=True
    )
    lines = done.stdout.splitlines()
    assert (lines[0], lines[4], lines[-1][:5]) == ("1", "2", "used:")
    assert lines[3].startswith("surgery|")


def test_watch_asks_again_at_no_cost(server: Served) -> None:
    where = ["-X", "-h", server.host, "-p", str(server.port), "-U", "research", "-d", "clinic"]
    with subprocess.Popen(
        ["stdbuf", "-oL", "psql", *where], env=psql_environment(server), stdin=subprocess.PIPE, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as running:  # fmt: skip
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(f"{ASKED} \\watch 0.01\n")
        running.stdin.flush()
        seen: list[str] = []
        while sum(line.startswith(" surgery") for line in seen) < 3 and (line := running.stdout.readline()):
            seen.append(line)
        running.send_signal(signal.SIGINT)
        running.stdin.close()
    answers = [line for line in seen if line.startswith(" surgery")]
    assert len(answers) == 3
    assert len(set(answers)) == 1
    assert server.spent() <= 4  # three distinct questions of this file, and this one at most once
