"""Two servers over one PostgreSQL ledger, one killed under load: `python -m tests.server.two_servers`.

Analysts ask both until the budget is spent. One server is killed without warning in the middle. A client whose request
was lost asks the same on the other server, which costs nothing more. In the end the cap is spent exactly, and every
answer that arrived is in the ledger, with the same rows.
"""

import argparse
import http.client
import json
import sys
import tempfile
import threading
from contextlib import closing
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from tests.ledger.postgres import binaries
from tests.ledger.postgres import server as postgres
from tests.server.clinic import make_clinic
from tests.server.running import Running, until

import sfumato
from sfumato.policy.reading import read_policy
from sfumato.server.grants import Grants

EPSILON = Fraction(1, 100)
_LOST = (OSError, http.client.HTTPException)


@dataclass
class Course:
    """What happened."""

    answers: dict[str, object] = field(default_factory=dict)
    """Rows by receipt, as they arrived."""
    lost: int = 0
    """Requests without a reply."""
    refused: int = 0

    def __str__(self) -> str:
        return (
            f"{len(self.answers)} answers, {self.lost} requests that the killed server did not answer, "
            f"{self.refused} refused because the budget was spent; the cap was spent exactly, "
            "and every answer is in the ledger"
        )


def run(folder: Path, charges: int, threads: int) -> Course:
    """Spend a budget of so many charges, and kill one server at half of them."""
    home = binaries()
    assert home is not None
    cap = charges * EPSILON
    policies = [make_clinic(folder / name, epsilon=str(float(cap)), analyst="1000") for name in ("one", "two")]
    course, noting = Course(), threading.Lock()
    with postgres(home) as url:
        for policy in policies:
            policy.write_text(policy.read_text().replace("sqlite:clinic.ledger", url))
        names = ("research", "press")
        with Running(policies[0], names=names) as first, Running(policies[1], secrets=first.secrets) as second:
            _revoke(policies[1], first, second)
            numbers = iter(range(10_000))

            def ask() -> None:
                servers = [first, second]
                while True:
                    with noting:
                        number = next(numbers)
                    low, high = number % 90, 91 + number // 90
                    sql = f"SELECT COUNT(*) AS n FROM visits WHERE cost > {low} AND cost <= {high}"  # noqa: S608
                    while True:
                        servers.reverse()
                        try:
                            reply = servers[0].ask(sql, epsilon=str(EPSILON))
                        except _LOST:
                            with noting:
                                course.lost += 1
                            continue  # the same on the other server
                        break
                    with noting:
                        if reply.status == 402:
                            course.refused += 1
                            return
                        assert reply.status == 200, reply.body
                        course.answers[reply.json["receipt"]["id"]] = reply.json["rows"]

            asking = [threading.Thread(target=ask) for _ in range(threads)]
            for thread in asking:
                thread.start()
            until(lambda: len(course.answers) >= charges // 2, 300)
            first.process.kill()
            for thread in asking:
                thread.join()
            for receipt, rows in course.answers.items():
                assert second.get(f"/releases/{receipt}").json["rows"] == rows
            assert Fraction(second.spent()) == cap, second.spent()
            history = second.get("/history?limit=1000").json
            assert len(history) == charges
            assert json.loads(second.get("/ready", None).body)["status"] == "ready"
        with closing(sfumato.open(policies[1])) as database:
            database.verify()
            assert database.budget().spent.epsilon == cap
    assert course.lost > 0
    assert course.refused == threads
    return course


def _revoke(policy: Path, first: Running, second: Running) -> None:
    """Take a grant back on one machine: it ends on both."""
    assert first.get("/budget", "press").status == second.get("/budget", "press").status == 200
    with closing(Grants(read_policy(policy), policy)) as grants:
        assert grants.revoke("press")
    until(lambda: first.get("/budget", "press").status == second.get("/budget", "press").status == 401)


def main() -> None:
    """Run it by hand."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--charges", type=int, default=800)
    options.add_argument("--threads", type=int, default=8)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        course = run(Path(folder), given.charges, given.threads)
    sys.stdout.write(f"{course}\n")


if __name__ == "__main__":
    main()
