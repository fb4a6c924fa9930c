"""The stranger's soak: `python -m tests.server.soak --minutes 10`.

All attacks of `tests.server.strangers` at once against a server on this machine, beside an analyst who asks over HTTP
and over psycopg. Every question must be answered in time and be charged exactly once, the audit log must hold every
line about the analyst, and the server's memory and files must stay within their bounds.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import psycopg
from tests.server.clinic import make_clinic
from tests.server.running import WIRE, Running

import sfumato
from sfumato.server.limits import ServerLimits

MAX_RESIDENT_BYTES = 500 << 20
MAX_SECONDS_PER_ANSWER = 60.0
"""Generous: the server, the strangers and the analyst may share one slow core."""
EPSILON = Fraction(1, 1000)


@dataclass
class Course:
    """What happened."""

    seconds: list[float] = field(default_factory=list)
    resident: int = 0
    files: int = 0
    strangers: dict[str, dict[str, int]] = field(default_factory=dict)

    def __str__(self) -> str:
        times = sorted(self.seconds)
        median, longest = times[len(times) // 2], times[-1]
        return (
            f"{len(times)} answers, median {median * 1000:.0f} ms, longest {longest * 1000:.0f} ms; "
            f"at most {self.resident / 2**20:.0f} MiB and {self.files} files; strangers: {json.dumps(self.strangers)}"
        )


def run(folder: Path, questions: int, seconds: float, pause: float, rounds: int) -> Course:
    """Let the analyst ask so many questions, or for so many seconds, while the strangers do what they can."""
    course = Course()
    with Running(make_clinic(folder, epsilon="1000", analyst="1000")) as server:
        found = WIRE.search(server.out)
        assert found is not None
        pg_port = int(found[3])
        command = [sys.executable, "-m", "tests.server.strangers", str(server.port), str(pg_port)]
        command += ["--rounds", str(rounds), "--seconds", str(seconds + 60)]
        attack = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            asked = _ask(server, pg_port, course, questions, seconds, pause)
            course.strangers = json.loads(attack.communicate("", timeout=120)[0])
        finally:
            attack.kill()
            attack.wait()
        _measure(server, course)
        charged = server.get("/history?limit=1000").json
        assert len(charged) == asked, f"{asked} questions, {len(charged)} charges"
        assert Fraction(server.spent()) == asked * EPSILON
        receipts = {one["receipt"] for one in charged}
    recorded = [
        json.loads(line)
        for path in folder.glob("clinic.ledger.audit*")
        if "anonymous" not in path.name and not path.name.endswith(".lock")
        for line in path.read_text().splitlines()
    ]
    assert receipts <= {line.get("receipt") for line in recorded if line["account"] == "research"}
    assert all(line["account"] is not None for line in recorded)
    assert "Traceback" not in server.out
    with sfumato.open(server.policy) as database:
        database.verify()
    return course


def _ask(server: Running, pg_port: int, course: Course, questions: int, seconds: float, pause: float) -> int:
    end, asked = time.monotonic() + seconds, 0
    password = server.secrets["research"].password
    given = f"host=127.0.0.1 port={pg_port} user=research dbname=clinic password={password} sslmode=disable"

    def by_http(sql: str) -> object:
        with sfumato.connect(server.url, token=server.token()) as database:
            return database.ask(sql, epsilon=str(EPSILON)).rows()[0]["n"]

    def by_psycopg(sql: str) -> object:
        with psycopg.connect(given, autocommit=True, connect_timeout=60) as connection:
            connection.execute(f"SET sfumato.epsilon = '{float(EPSILON)}'")
            row = connection.execute(sql.encode()).fetchone()
            return row and row[0]

    ways: tuple[Callable[[str], object], ...] = (by_http, by_psycopg)
    while asked < questions and time.monotonic() < end:
        sql = f"SELECT COUNT(*) AS n FROM visits WHERE cost > {asked % 90} AND cost <= {91 + asked // 90 % 9}"  # noqa: S608
        first, second = ways[asked % 2], ways[(asked + 1) % 2]
        begun = time.monotonic()
        answer = first(sql)
        course.seconds.append(time.monotonic() - begun)
        assert answer is not None
        assert course.seconds[-1] < MAX_SECONDS_PER_ANSWER
        assert second(sql) == answer  # the other way gives the same answer, free
        asked += 1
        _measure(server, course)
        time.sleep(pause)
    return asked


def _measure(server: Running, course: Course) -> None:
    course.resident = max(course.resident, server.memory())
    course.files = max(course.files, len(os.listdir(f"/proc/{server.process.pid}/fd")))
    assert course.resident < MAX_RESIDENT_BYTES, f"{course.resident >> 20} MiB"
    assert course.files < ServerLimits().connections_before_login + 150


def main() -> None:
    """Run it by hand."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=10)
    options.add_argument("--pause", type=float, default=2, help="Seconds between two questions.")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        course = run(Path(folder), 800, given.minutes * 60, given.pause, 1_000_000)
    sys.stdout.write(f"{course}\n")


if __name__ == "__main__":
    main()
