"""How many durable charges per second, next to plain SQLite transactions? (64 clients, same disk, same run, in turns)

Also in the same run: a bare append and sync, the longest wait of 99 in 100, and a ledger of a million entries opened
and verified.
"""

import os
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from sfumato.accounting.event import LaplaceNoise, Neighbours, to_json
from sfumato.accounting.loss import PrivacyLoss
from sfumato.ledger.chain import STATE_EVERY, Row, RowKind, repeat_key, with_chain_hash
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.opening import open_ledger
from sfumato.ledger.request import Request
from sfumato.ledger.state import State, sums_text
from sfumato.policy.canonical import policy_hash
from sfumato.policy.policy import Policy
from sfumato.policy.reading import read_policy

CLIENTS = 64
ASKS = 60
ROUNDS = 3
ENTRIES = 1_000_000
EVENT = LaplaceNoise(1, Fraction(10**6), Neighbours.ADD_REMOVE)
LOSS = PrivacyLoss(Fraction(1, 10**6))
RELEASE = '{"columns":["dept","n"],"rows":[["er",1042],["icu",311],["surgery",96]]}'


def policy_in(folder: Path) -> Policy:
    return read_policy(
        {
            "source": "parquet:nowhere",
            "ledger": f"sqlite:{folder / 'clinic.ledger'}",
            "budget": {"epsilon": 1000, "delta": "1e-6"},
            "tables": {"visits": {"unit": "rows"}},
        }
    )


def request_for(policy: str, question: str) -> Request:
    return Request("", question, f"SELECT {question}", EVENT, LOSS, policy, "v1", question)


def crowd(work: Callable[[int, int], None]) -> list[float]:
    """Let every client work in a thread of its own; return how long each piece took."""
    waits: list[float] = []

    def _client(one: int) -> None:
        for place in range(ASKS):
            start = time.perf_counter()
            work(one, place)
            waits.append(time.perf_counter() - start)

    clients = [threading.Thread(target=_client, args=(one,)) for one in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return waits


def rate(work: Callable[[int, int], None]) -> tuple[float, float]:
    """Return pieces per second, and the wait that one in a hundred exceeds."""
    start = time.perf_counter()
    waits = sorted(crowd(work))
    return len(waits) / (time.perf_counter() - start), waits[len(waits) * 99 // 100]


def charges(ledger: Ledger, policy: str, name: str) -> Callable[[int, int], None]:
    def _charge(one: int, place: int) -> None:
        with ledger.charge(request_for(policy, f"{name} {one} {place}")) as charge:
            charge.settle("answered")  # a second durable row, which is part of the price

    return _charge


def plain_sqlite(folder: Path) -> Callable[[int, int], None]:
    """One transaction per row, as most programs write: same journal, same durability, one connection and a lock."""
    connection = sqlite3.connect(folder / "plain", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS entries (sequence INTEGER PRIMARY KEY, content TEXT)")
    lock = threading.Lock()

    def _insert(one: int, place: int) -> None:
        with lock:
            connection.execute("INSERT INTO entries (content) VALUES (?)", ("x" * 600,))

    return _insert


def bare_append(folder: Path) -> Callable[[int, int], None]:
    descriptor, lock = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND), threading.Lock()

    def _append(one: int, place: int) -> None:
        with lock:
            os.write(descriptor, b"x" * 600)
            os.fdatasync(descriptor)

    return _append


def grown(state: State, count: int) -> list[Row]:
    """Return so many more rows of questions and answers: what a writer would write, with sums by multiplication."""
    rows: list[Row] = []
    event, once = to_json(EVENT), state.accounts[""].charge(EVENT)
    sequence, head, charged = state.sequence, state.head, 0
    charge: Row | None = None
    while len(rows) < count:
        sequence += 1
        if sequence % STATE_EVERY == 0:
            sums = replace(once, pure=charged * Fraction(once.pure or 0), renyi=charged * once.renyi)
            unanswered = {charge.same: charge.sequence} if charge else {}
            content = sums_text(replace(state, accounts={"": sums}, unanswered=unanswered))
            row = Row(sequence, RowKind.STATE.value, state.time, content=content)
        elif charge is not None:
            row = Row(sequence, "settled", state.time, same=charge.same, about=charge.sequence, content=RELEASE)
            charge = None
        else:
            question = f"COUNT of visits where day = {sequence}, grouped by dept"
            same = repeat_key("", question, "v1")
            row = charge = Row(
                sequence, "charged", state.time, "", question, question, event, "1/1000000 0", state.policy, "v1", "r",
                same=same,
            )  # fmt: skip
            charged += 1
        row = with_chain_hash(head, row)
        head = row.head
        rows.append(row)
    return rows


def grow(folder: Path, count: int) -> None:
    """Fill a ledger file with rows, in one transaction."""
    policy = policy_in(folder)
    ledger = open_ledger(policy)
    rows = grown(ledger._state, count - ledger._state.sequence)
    ledger.close()
    connection = sqlite3.connect(folder / "clinic.ledger", isolation_level=None)
    connection.execute("BEGIN")
    marks = ", ".join("?" for _ in Row._fields)
    connection.executemany(f"INSERT INTO entries VALUES ({marks})", rows)  # noqa: S608
    connection.execute("COMMIT")
    connection.close()
    (folder / "clinic.ledger.anchor").write_text(f"{rows[-1].sequence} {rows[-1].head} -\n")


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main(entries: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        policy = policy_in(folder)
        ledger, plain, bare = open_ledger(policy), plain_sqlite(folder), bare_append(folder)
        runs = [
            (rate(charges(ledger, policy_hash(policy), str(turn))), rate(plain), rate(bare)) for turn in range(ROUNDS)
        ]
        ledger.close()
    ours, sqlite, appended = (max(run[which][0] for run in runs) for which in range(3))
    wait = min(run[0][1] for run in runs)
    print(f"{CLIENTS} clients: {ours:,.0f} durable charges per second, each with the row that ends it")
    print(f"  99 in 100 wait at most {wait * 1e3:.0f} ms")
    print(f"  plain SQLite transactions: {sqlite:,.0f} per second; bare append and sync: {appended:,.0f} per second")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        grow(folder, entries)
        opening = seconds(lambda: open_ledger(policy_in(folder)).close())
        ledger = open_ledger(policy_in(folder))
        worked = time.process_time()
        verifying = seconds(ledger.verify)
        worked = time.process_time() - worked
        ledger.close()
        size = (folder / "clinic.ledger").stat().st_size / 1e6
    print(f"{entries:,} entries ({size:.0f} MB): opened and closed in {opening:.2f} s")
    print(f"  verified in {verifying:.1f} s, of which {worked:.1f} s were ours")
    print(f"durable charges / bare appends = {ours / appended:.2f}x")
    print(f"durable charges / plain SQLite transactions = {ours / sqlite:.2f}x")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ENTRIES)
