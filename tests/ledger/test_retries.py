"""A retry is never a second charge, and one charge never shows two noises: whatever failed, here or in the store."""

import gc
import os
import resource
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from fractions import Fraction
from pathlib import Path

import pytest
from tests.ledger.accounts import policy_in, pure, request_for

from sfumato.errors import AnswerLost, LedgerUnavailable, TooManyCharges
from sfumato.ledger import sqlite_store
from sfumato.ledger.anchor import Anchor, NextAnchor, digest_of, write_anchor
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.opening import open_ledger
from sfumato.policy.policy import Policy
from sfumato.randomness.source import system_source

PRICE = Fraction(1, 100)
KEYS = ("", "one key", "another key")


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return policy_in(tmp_path, analysts={"ada": {"epsilon": 1}, "grace": {"epsilon": 1}})


@pytest.fixture
def ledger(policy: Policy) -> Iterator[Ledger]:
    opened = open_ledger(policy)
    yield opened
    opened.close()


class Noise:
    """Answers with fresh noise, and counts how often it was drawn."""

    def __init__(self) -> None:
        self.drawn = 0

    def ask(self, ledger: Ledger, policy: Policy, question: str = "q", key: str = "", **more: object) -> str:
        with ledger.charge(request_for(policy, question, **more), key or None) as charge:  # type: ignore[arg-type]
            if charge.stored_release is not None:
                return charge.stored_release
            release = charge.noise_from(system_source()).read(8).hex()
            self.drawn += 1
            charge.settle(release)
        return release


@contextmanager
def few_files(free: int) -> Iterator[None]:
    """Leave so many files to this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened: list[int] = []
    gc.collect()  # files that earlier tests left open are not closed meanwhile
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 256), hard))
    try:
        while True:
            try:
                opened.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        for descriptor in opened[:free]:
            os.close(descriptor)
        del opened[:free]
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in opened:
            os.close(descriptor)


@pytest.mark.parametrize("free", range(4))
def test_without_files_a_dozen_retries_are_at_most_one_charge(ledger: Ledger, policy: Policy, free: int) -> None:
    noise = Noise()
    with few_files(free):
        for place in range(12):
            with suppress(LedgerUnavailable):
                noise.ask(ledger, policy, key=KEYS[place % 3])
        assert ledger.budget().spent.epsilon == (PRICE if free else 0)
    noise.ask(ledger, policy)
    assert noise.drawn == 1
    assert ledger.verify().spent.epsilon == PRICE


Broken = Callable[..., object]


def _fails(*_: object) -> object:
    raise OSError(28, "No space left on device")


@contextmanager
def broken(monkeypatch: pytest.MonkeyPatch, step: str, when: int) -> Iterator[None]:
    """Let one step of a turn fail from its `when`-th time on: before the commit, in it, or right after it."""
    count = 0
    real_put = NextAnchor.put_in_place

    def passes(this: str) -> None:
        nonlocal count
        count += step == this
        if step == this and count >= when:
            _fails()

    def prepare(path: Path, anchor: Anchor) -> NextAnchor:
        passes("before")
        return NextAnchor(path, anchor)

    def put(following: NextAnchor) -> None:
        passes("after")
        real_put(following)

    def write(path: Path, anchor: Anchor) -> None:
        passes("after")
        write_anchor(path, anchor)

    with monkeypatch.context() as patch:
        patch.setattr(sqlite_store, "NextAnchor", prepare)
        patch.setattr(NextAnchor, "put_in_place", put)
        patch.setattr(sqlite_store, "write_anchor", write)
        yield


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("when", [1, 2])
@pytest.mark.parametrize("step", ["before", "after"])
def test_whatever_fails_around_a_commit_a_retry_has_the_one_charge_and_the_one_noise(
    ledger: Ledger, policy: Policy, monkeypatch: pytest.MonkeyPatch, step: str, when: int, key: str
) -> None:
    """The first turn charges, the second settles; a rename that fails comes after its commit."""
    noise = Noise()
    with broken(monkeypatch, step, when):
        for _ in range(5):
            with pytest.raises(LedgerUnavailable):
                noise.ask(ledger, policy, key=key)
    assert noise.drawn == when - 1  # what could not be stored is kept, and is not drawn again
    first = noise.ask(ledger, policy)
    assert noise.ask(ledger, policy, key=key) == first
    assert noise.drawn == 1
    assert ledger.verify().spent.epsilon == PRICE
    assert len(ledger.history()) == 1


def test_an_outcome_that_waits_for_the_disk_is_stored_before_another_charge(
    ledger: Ledger, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = Noise()
    with broken(monkeypatch, "before", 2), pytest.raises(LedgerUnavailable):
        noise.ask(ledger, policy, "q")
    with broken(monkeypatch, "before", 1):
        for question in ("p", "q"):
            with pytest.raises(LedgerUnavailable):
                noise.ask(ledger, policy, question)
    assert (noise.drawn, ledger.history()[0].state) == (1, "reserved")
    noise.ask(ledger, policy, "p")
    assert [(entry.sql, entry.state) for entry in ledger.history()] == [
        ("SELECT p", "settled"),
        ("SELECT q", "settled"),
    ]


def test_another_process_waits_for_an_outcome_that_waits_for_the_disk(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, noise = open_ledger(policy), open_ledger(policy), Noise()
    with broken(monkeypatch, "before", 2), pytest.raises(LedgerUnavailable):
        noise.ask(first, policy)
    assert second.history()[0].state == "reserved"
    found: list[str] = []
    waiter = threading.Thread(target=lambda: found.append(noise.ask(second, policy)))
    waiter.start()
    mine = noise.ask(first, policy)
    waiter.join(20)
    assert found == [mine]
    assert noise.drawn == 1
    first.close()
    second.close()


@pytest.mark.parametrize("key", KEYS)
def test_an_attempt_that_failed_before_any_noise_is_taken_up(ledger: Ledger, policy: Policy, key: str) -> None:
    for _ in range(3):
        with ledger.charge(request_for(policy, "q"), key or None) as charge:
            charge.noise_from(system_source())
    assert ledger.history()[0].state == "failed"
    Noise().ask(ledger, policy, key=key)
    assert [entry.sequence for entry in ledger.history()] == [charge.sequence]
    assert ledger.verify().spent.epsilon == PRICE


def test_an_attempt_that_failed_after_noise_is_neither_repeated_nor_charged_again(
    ledger: Ledger, policy: Policy
) -> None:
    """Else an analyst could see for one charge how often noise makes an attempt fail."""
    noise = Noise()
    with ledger.charge(request_for(policy, "q"), "k") as charge:
        charge.noise_from(system_source()).read(1)
    for key in ("k", *KEYS):
        with pytest.raises(AnswerLost, match=f"entry {charge.sequence},"):
            noise.ask(ledger, policy, key=key)
    [entry] = ledger.history()
    assert (entry.state, entry.release, noise.drawn) == ("failed", None, 0)
    assert ledger.settled(charge.receipt) is None or ledger.settled(charge.receipt).release is None  # type: ignore[union-attr]
    assert ledger.verify().spent.epsilon == PRICE


def test_of_two_attempts_at_one_charge_one_stores_its_release(policy: Policy) -> None:
    """If a mark were lost, two would answer at once: the second to end stores nothing, and shows nothing."""
    first, second = open_ledger(policy), open_ledger(policy)
    with first.charge(request_for(policy, "q")) as charge:
        first._store.disclaim(charge.sequence)  # type: ignore[union-attr]
        with second.charge(request_for(policy, "q")) as other:
            assert (other.sequence, other.stored_release) == (charge.sequence, None)
            other.settle("the one")
        with pytest.raises(AnswerLost, match="free"):
            charge.settle("another one")
    assert Noise().ask(first, policy) == Noise().ask(second, policy) == "the one"
    assert first.verify().spent.epsilon == PRICE
    first.close()
    second.close()


def test_many_retries_at_once_are_one_attempt(ledger: Ledger, policy: Policy) -> None:
    noise, found = Noise(), []
    with pytest.raises(ZeroDivisionError), ledger.charge(request_for(policy, "q")):
        raise ZeroDivisionError
    retries = [threading.Thread(target=lambda: found.append(noise.ask(ledger, policy))) for _ in range(8)]
    for retry in retries:
        retry.start()
    for retry in retries:
        retry.join()
    assert (len(set(found)), noise.drawn, len(ledger.history())) == (1, 1, 1)


@pytest.mark.parametrize(
    "other",
    [{"account": "grace"}, {"version": "v2"}, {"question": "p"}, {"event": pure("0.02")}],
    ids=["account", "version", "question", "event"],
)
def test_only_the_same_measurement_of_the_same_account_takes_up_a_charge(
    ledger: Ledger, policy: Policy, other: dict[str, object]
) -> None:
    asked: dict[str, object] = {"account": "ada", "question": "q"}
    with pytest.raises(ZeroDivisionError), ledger.charge(request_for(policy, **asked)) as charge:  # type: ignore[arg-type]
        raise ZeroDivisionError
    with ledger.charge(request_for(policy, **(asked | other))) as another:  # type: ignore[arg-type]
        assert another.sequence > charge.sequence
        another.settle("x")
    assert len(ledger.history()) == 2


def test_with_shared_answers_anybody_takes_up_a_charge(ledger: Ledger, policy: Policy) -> None:
    with pytest.raises(ZeroDivisionError), ledger.charge(request_for(policy, "q", account="ada", shared=True)):
        raise ZeroDivisionError
    Noise().ask(ledger, policy, account="grace", shared=True)
    assert [entry.account for entry in ledger.history()] == ["ada"]


def test_a_changed_budget_does_not_end_a_charge(tmp_path: Path, ledger: Ledger, policy: Policy) -> None:
    with pytest.raises(ZeroDivisionError), ledger.charge(request_for(policy, "q")) as charge:
        raise ZeroDivisionError
    raised = policy_in(tmp_path, 2, analysts={"ada": {"epsilon": 1}, "grace": {"epsilon": 1}})
    later = open_ledger(raised)
    Noise().ask(later, raised)
    assert [entry.sequence for entry in later.history()] == [charge.sequence]
    later.close()


@pytest.mark.parametrize("left", ["", "17 0000 -\n", "9 " + "0" * 64 + " -\n"])
def test_an_anchor_that_a_crash_left_aside_means_nothing(tmp_path: Path, policy: Policy, left: str) -> None:
    ledger = open_ledger(policy)
    Noise().ask(ledger, policy)
    ledger.close()
    (tmp_path / "clinic.ledger.anchor.aside").write_text(left)
    again = open_ledger(policy)
    Noise().ask(again, policy, "p")
    assert again.verify().entries == 5
    again.close()


def test_tiny_charges_end_at_the_limit_of_one_account_and_of_no_other(tmp_path: Path) -> None:
    policy = policy_in(tmp_path, analysts={"ada": {"epsilon": 1}, "grace": {"epsilon": 1}})
    open_ledger(policy).close()
    ledger = Ledger(lambda: sqlite_store.SqliteStore(tmp_path / "clinic.ledger"), max_charges=20)
    noise = Noise()
    for place in range(20):
        noise.ask(ledger, policy, f"q{place}", account="ada", event=pure("1e-9"))
    with pytest.raises(TooManyCharges, match="20 charges"):
        noise.ask(ledger, policy, "one more", account="ada", event=pure("1e-9"))
    noise.ask(ledger, policy, "q0", account="ada", event=pure("1e-9"))  # what is known stays free
    noise.ask(ledger, policy, "q0", account="grace", event=pure("1e-9"))
    pages = [ledger.history("ada", 6)]
    while pages[-1]:
        pages.append(ledger.history("ada", 6, pages[-1][-1].sequence))
    assert [len(page) for page in pages] == [6, 6, 6, 2, 0]
    assert [entry.sql for page in pages for entry in page] == [f"SELECT q{place}" for place in reversed(range(20))]
    ledger.close()


def test_a_page_of_history_is_found_by_index(ledger: Ledger, policy: Policy, tmp_path: Path) -> None:
    """So that it does not grow with the entries of others: SQLite says how it would read."""
    with closing(sqlite3.connect(tmp_path / "clinic.ledger")) as connection:
        for where in (
            "kind = 'charged' AND account = 'ada' AND sequence < 9 ORDER BY sequence DESC LIMIT 5",
            "kind = 'charged' AND receipt = 'r'",
            "kind = 'settled' AND same = 's'",
        ):
            plan = connection.execute(f"EXPLAIN QUERY PLAN SELECT * FROM entries WHERE {where}").fetchall()  # noqa: S608
            assert [row[3].startswith("SEARCH entries USING INDEX") for row in plan] == [True], plan


@pytest.mark.parametrize("sealed", [True, False])
def test_a_ledger_of_an_older_version_gets_its_indexes_when_it_is_opened(
    policy: Policy, tmp_path: Path, sealed: bool
) -> None:
    path, anchor, noise = tmp_path / "clinic.ledger", tmp_path / "clinic.ledger.anchor", Noise()
    ledger = open_ledger(policy)
    first = noise.ask(ledger, policy)
    ledger.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for name in ("charges", "receipts"):
            connection.execute(f"DROP INDEX {name}")
    sequence, head, _ = anchor.read_text().split()
    anchor.write_text(f"{sequence} {head} {digest_of(path) if sealed else '-'}\n")
    for _ in range(2):
        ledger = open_ledger(policy)
        assert [entry.release for entry in ledger.history()] == [first]
        assert ledger.verify().entries == 3
        ledger.close()
    assert anchor.read_text().split()[2] == digest_of(path)
