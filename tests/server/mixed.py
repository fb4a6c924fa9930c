"""An hour of mixed traffic: `python -m tests.server.mixed --minutes 60`.

First each account fills its cache of questions, which is limited in bytes, with prices that cost nothing. Then analysts
ask over HTTP, psycopg and in the console, new questions at ever new prices and known ones, beside refused questions,
clients without a grant and reloads of the policy. Every reply must be the expected one, every new question is charged
once, and the memory of the server must not grow: the command prints it every ten minutes with its slope over the last
two thirds of the run, and fails above a limit.
"""

import argparse
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from pathlib import Path
from urllib.parse import urlencode

import psycopg
from tests.server.clinic import make_clinic
from tests.server.running import WIRE, Running, until

import sfumato

EPSILON = Fraction(1, 1000)
MAX_SLOPE_MIB_PER_HOUR = 5.0
"""A slope above this over the last two thirds of a run of at least half an hour fails."""
SAMPLE_SECONDS = 1.0
RELOAD_SECONDS = 60.0
"""Seconds between two writes of the policy."""
_WRITES_PER_CHANGE = 10
"""Every tenth write changes a price, so that the server opens the dataset anew; the others change a comment."""
_BOUNDS = [(low, high) for low in range(99) for high in range(low + 1, 100)]
_DEPTS = ["'er'", "'icu'", "'surgery'", "'er', 'icu'", "'er', 'surgery'", "'icu', 'surgery'"]
_REFUSED = {
    "SELECT COUNT(*) AS n FROM visits": "budget_exhausted",
    "SELECT COUNT(*) AS n FROM none": "unknown_name",
    "SELECT": "bad_sql",
}
_PRICE = "price = "
_TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"


@dataclass
class Traffic:
    """What happened."""

    requests: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    charged: int = 0
    memory: list[tuple[float, int]] = field(default_factory=list)
    """Seconds since the start, and resident bytes."""

    @property
    def slope(self) -> float:
        """MiB per hour over the last two thirds, by least squares."""
        later = self.memory[len(self.memory) // 3 :]
        times, sizes = [time for time, _ in later], [size / 2**20 for _, size in later]
        middle, mean = sum(times) / len(times), sum(sizes) / len(sizes)
        spread = sum((time - middle) ** 2 for time in times) or 1.0
        return 3600 * sum((t - middle) * (s - mean) for t, s in zip(times, sizes, strict=True)) / spread

    def __str__(self) -> str:
        return (
            f"{sum(self.requests.values()):,} rounds ({self.requests}), {self.charged:,} charges; resident MiB: "
            f"{', '.join(self.curve())}; slope over the last two thirds {self.slope:+.2f} MiB per hour"
        )

    def curve(self) -> list[str]:
        """Return the resident memory at the start, every ten minutes and at the end, in MiB."""
        marks = [
            at for at, (seconds, _) in enumerate(self.memory) if at and seconds // 600 > self.memory[at - 1][0] // 600
        ]
        return [
            f"{self.memory[at][1] / 2**20:.1f} after {self.memory[at][0] / 60:.0f} min"
            for at in (0, *marks, len(self.memory) - 1)
        ]


class _Course:
    def __init__(self, server: Running, seconds: float, pause: float) -> None:
        found = WIRE.search(server.out)
        assert found is not None
        password = server.secrets["press"].password
        self.server, self.end, self.pause = server, time.monotonic() + seconds, pause
        self.place = f"host=127.0.0.1 port={found[3]} user=press dbname=clinic password={password} sslmode=disable"
        self.traffic = Traffic()
        self.numbers, self.writes = count(), count()
        self.counting = threading.Lock()
        self.turns, self.rounds, self.is_changing = threading.Condition(), 0, False

    def new_question(self) -> tuple[str, str]:
        """Return a question that no other answer contains, and its price, which no other has."""
        with self.counting:
            number = next(self.numbers)
            self.traffic.charged += 1
        pair, chosen = number % len(_BOUNDS), number // len(_BOUNDS) % len(_DEPTS)
        low, high = _BOUNDS[pair]
        sql = f"SELECT COUNT(*) AS n FROM visits WHERE cost >= {low} AND cost < {high} AND dept IN ({_DEPTS[chosen]})"  # noqa: S608
        return sql, f"{float(EPSILON):.3f}{number:07d}"

    def repeat(self, name: str, step: Callable[[], None]) -> None:
        """Do something until the end, and count it."""
        while time.monotonic() < self.end:
            try:
                with self.round(name):
                    step()
            except Exception as failure:
                self.traffic.failures.append(f"{name}: {failure!r}")
                return
            self.traffic.requests[name] = self.traffic.requests.get(name, 0) + 1
            pause = RELOAD_SECONDS if name == "owner" else self.pause
            time.sleep(min(pause, max(0.0, self.end - time.monotonic())))

    @contextmanager
    def round(self, name: str) -> Iterator[None]:
        """Let the owner change the policy between rounds of the others: until it is read, questions are refused."""
        with self.turns:
            self.turns.wait_for(lambda: not self.rounds if name == "owner" else not self.is_changing)
            self.is_changing, self.rounds = name == "owner", self.rounds + (name != "owner")
        try:
            yield
        finally:
            with self.turns:
                self.rounds -= name != "owner"
                self.is_changing = self.is_changing and name != "owner"
                self.turns.notify_all()

    def by_http(self) -> None:
        with sfumato.connect(self.server.url, token=self.server.token()) as database:
            sql, price = self.new_question()
            answer = database.ask(sql, epsilon=price)
            assert database.ask(sql, epsilon=price).rows() == answer.rows()
            assert database.reopen(answer.receipt.id).rows() == answer.rows()
            database.explain(sql, epsilon=f"0.5{price[2:]}")
            database.budget()
            assert database.history(20)
        for wrong, code in _REFUSED.items():
            assert self.server.ask(wrong, epsilon="40000").json["code"] == code

    def by_psycopg(self) -> None:
        with psycopg.connect(self.place, autocommit=True, connect_timeout=60) as session:
            question, price = self.new_question()
            session.execute(f"SET sfumato.epsilon = '{price}'")
            sql = question.encode()
            assert session.execute(sql).fetchone() == session.execute(sql).fetchone()
            assert session.execute(sql, prepare=True).fetchone() is not None
            assert session.execute(_TABLES.encode()).fetchall()
            with suppress(psycopg.errors.UndefinedColumn):
                session.execute(b"SELECT COUNT(nothing) FROM visits")
                raise AssertionError("a column that does not exist")

    def by_console(self) -> None:
        server = self.server
        form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": server.url.rstrip("/")}
        reply = server.request("POST", "/login", urlencode({"token": server.token("visitor")}), form, None)
        cookie = reply.headers["set-cookie"].partition(";")[0]
        sql, price = self.new_question()
        fields = {"sql": sql, "epsilon": price, "by": "epsilon"}
        answer = server.form("/ask-here", fields, cookie)
        assert answer.status == 303, answer.status
        page = answer.headers["location"].partition("#")[0]
        assert server.request("GET", page, None, {"Cookie": cookie}, None).status == 200
        assert server.request("GET", f"{page}.csv", None, {"Cookie": cookie}, None).status == 200
        assert server.form("/logout", {}, cookie).status == 303

    def by_strangers(self) -> None:
        server = self.server
        assert server.request("GET", "/budget", None, {"Authorization": "Bearer none"}, None).status == 401
        assert server.get("/none", None).status == 404
        assert server.post("/ask", b"{", None).status == 401
        assert server.raw(b"nonsense\r\n\r\n")
        assert server.get("/ready", None).status == 200

    def by_owner(self) -> None:
        """Write the policy with another comment, sometimes with another price, and have everything read again."""
        path, number = self.server.policy, next(self.writes)
        words = path.read_text().partition("\n")[2].partition(_PRICE)[0]
        price = f'{_PRICE}"{1 + number // _WRITES_PER_CHANGE % 50}%"\n'
        path.write_text(f"# {number}\n{words}{price if number >= _WRITES_PER_CHANGE else ''}")
        self.server.process.send_signal(signal.SIGHUP)
        until(lambda: self.server.get("/ready", None).status == 200)


def run(folder: Path, seconds: float, pause: float, prices: int = 0) -> Traffic:
    """Ask each account for so many prices, then run all kinds of traffic for so many seconds."""
    policy = make_clinic(folder, epsilon="100000", analyst="30000")
    policy.write_text("# 0\n" + policy.read_text())
    with Running(policy, names=("research", "press", "visitor")) as server:
        _fill_caches(server, prices)
        course = _Course(server, seconds, pause)
        kinds = (course.by_http, course.by_psycopg, course.by_console, course.by_strangers, course.by_owner)
        threads = [threading.Thread(target=course.repeat, args=(kind.__name__[3:], kind)) for kind in kinds]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            seconds = time.monotonic() - begun
            if course.traffic.memory and seconds // 600 > course.traffic.memory[-1][0] // 600:
                sys.stdout.write(f"{server.memory() / 2**20:.1f} MiB after {seconds / 60:.0f} minutes\n")
                sys.stdout.flush()
            course.traffic.memory.append((seconds, server.memory()))
            threads[0].join(SAMPLE_SECONDS)
            time.sleep(0 if threads[0].is_alive() else 0.05)
        assert course.traffic.failures == [], course.traffic.failures
    assert "Traceback" not in server.out
    with sfumato.open(policy) as database:
        database.verify()
        counted = sum(database.as_analyst(name).charges() for name in ("research", "press", "visitor"))
    assert counted == course.traffic.charged, f"{course.traffic.charged} questions, {counted} charges"
    return course.traffic


def _fill_caches(server: Running, prices: int) -> None:
    for name in ("research", "press", "visitor"):
        with sfumato.connect(server.url, token=server.token(name)) as database:
            for number in range(prices):
                low, high = _BOUNDS[number % len(_BOUNDS)]
                database.explain(
                    f"SELECT dept, COUNT(*) AS n FROM visits WHERE cost >= {low} AND cost < {high} GROUP BY dept",  # noqa: S608
                    epsilon=str(EPSILON),
                )


def main() -> None:
    """Run it by hand."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=60)
    options.add_argument("--pause", type=float, default=0.5, help="Seconds between two rounds of one kind of traffic.")
    options.add_argument("--prices", type=int, default=2500, help="Questions that fill the cache of each account.")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        traffic = run(Path(folder), given.minutes * 60, given.pause, given.prices)
    sys.stdout.write(f"{traffic}\n")
    if given.minutes >= 30 and traffic.slope > MAX_SLOPE_MIB_PER_HOUR:
        sys.exit("The memory of the server grows.")


if __name__ == "__main__":
    main()
