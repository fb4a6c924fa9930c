"""A backup of a running server under load, restored elsewhere: `python -m tests.server.backup_under_load`.

Analysts ask without a pause while `sfumato backup` runs several times. Every backup is restored into another folder.
Every answer that arrived before the backup began must be there, with the same rows, and cost nothing there.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from tests.server.clinic import make_clinic
from tests.server.running import Running, until

import sfumato

EPSILON = Fraction(1, 1000)


@dataclass
class Course:
    """What happened."""

    answers: dict[str, tuple[str, object]] = field(default_factory=dict)
    """Question and rows by receipt, in the order in which they arrived."""
    compared: list[int] = field(default_factory=list)
    """For each backup, the answers that had arrived before it began."""

    def __str__(self) -> str:
        return (
            f"{len(self.answers)} answers under load; {len(self.compared)} backups, which had to hold the first "
            f"{self.compared} of them, and did"
        )


def run(folder: Path, backups: int, threads: int, between: int) -> Course:
    """Take so many backups, each after so many further answers."""
    policy = make_clinic(folder / "here", epsilon="1000", analyst="1000")
    course, noting, over = Course(), threading.Lock(), threading.Event()
    with Running(policy) as server:
        numbers = iter(range(100_000))

        def ask() -> None:
            with sfumato.connect(server.url, token=server.token()) as database:
                while not over.is_set():
                    with noting:
                        number = next(numbers)
                    low, high, dept = number % 90, 91 + number // 90 % 9, ("er", "icu", "surgery")[number // 810 % 3]
                    sql = (
                        f"SELECT COUNT(*) AS n FROM visits WHERE cost > {low} AND cost <= {high} "  # noqa: S608
                        f"AND dept <> '{dept}'"
                    )
                    release = database.ask(sql, epsilon=str(EPSILON))
                    with noting:
                        course.answers[release.receipt.id] = (sql, release.rows())

        asking = [threading.Thread(target=ask) for _ in range(threads)]
        for thread in asking:
            thread.start()
        try:
            for number in range(backups):
                wanted = len(course.answers) + between
                until(lambda wanted=wanted: len(course.answers) >= wanted, 300)  # type: ignore[misc]
                course.compared.append(len(course.answers))
                _sfumato("backup", policy, folder / f"backup {number}")
        finally:
            over.set()
            for thread in asking:
                thread.join()
    for number, compared in enumerate(course.compared):
        _compare(folder, number, dict(list(course.answers.items())[:compared]), len(course.answers))
    return course


def _compare(folder: Path, number: int, answers: dict[str, tuple[str, object]], asked: int) -> None:
    """Restore a backup elsewhere, accept what it may have missed, and compare every answer."""
    there, backup = folder / f"there {number}", folder / f"backup {number}"
    there.mkdir()
    shutil.copytree(folder / "here" / "data", there / "data")  # the data is no part of a backup
    said = _sfumato("restore", backup, "--into", there)
    found = re.search(r"I accept that answers after entry \d+ may be lost", said)
    assert found is not None, said
    _sfumato("restore", backup, "--into", there, "--accept", found[0], "--lost-epsilon", str(float(asked * EPSILON)))
    with sfumato.open(there / "clinic.toml", analyst="research") as database:
        spent = database.budget().spent.epsilon
        for receipt, (sql, rows) in answers.items():
            assert database.reopen(receipt).rows() == rows
            assert database.ask(sql, epsilon=EPSILON).rows() == rows
        assert database.budget().spent.epsilon == spent  # all of them were known


def _sfumato(*words: object) -> str:
    command = [sys.executable, "-m", "sfumato", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def main() -> None:
    """Run it by hand."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--backups", type=int, default=5)
    options.add_argument("--threads", type=int, default=6)
    options.add_argument("--between", type=int, default=60)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        course = run(Path(folder), given.backups, given.threads, given.between)
    sys.stdout.write(f"{course}\n")


if __name__ == "__main__":
    main()
