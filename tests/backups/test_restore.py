"""A backup is one moment of a ledger in use; a restored ledger answers nothing until its owner has spoken."""

import os
import shutil
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from threading import Event, Thread

import pytest
from tests.backups.clinic import answer, answer_in, write_policy
from tests.ledger.accounts import request_for
from tests.ledger.postgres import binaries, server

from sfumato.accounting.loss import PrivacyLoss
from sfumato.backups.backup import back_up
from sfumato.backups.restore import restore
from sfumato.errors import (
    BackupDamaged,
    BadParameter,
    BudgetExhausted,
    LedgerDamaged,
    LedgerRestored,
    LedgerUnavailable,
    OtherLedger,
    Refusal,
    RestoreGoesBack,
    StreamDamaged,
)
from sfumato.ledger.chain import Row, RowKind
from sfumato.ledger.opening import existing_ledger, open_ledger
from sfumato.ledger.restoring import Acceptance, RestoreOutcome, acceptance_sentence
from sfumato.ledger.transaction import LedgerTransaction
from sfumato.ledger.verifying import verify_file
from sfumato.policy.reading import read_policy

DIGEST = "0" * 64


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    found = binaries()
    if found is None:
        assert not os.environ.get("CI"), "PostgreSQL is needed"
        pytest.skip("NO SERVER WAS TRIED: PostgreSQL is not installed")
    pytest.importorskip("psycopg", reason="NO SERVER WAS TRIED: psycopg is not installed")
    with server(found) as address:
        yield address


@pytest.fixture(params=["file", "server"])
def policy_file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A dataset whose ledger is a file, and one whose ledger is on a server."""
    if request.param == "file":
        yield write_policy(tmp_path / "here")
        return
    import psycopg

    address = request.getfixturevalue("url")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA clinic")
    yield write_policy(tmp_path / "here", ledger=f"{address}?options=-csearch_path%3Dclinic")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP SCHEMA clinic CASCADE")


def _spent(policy_file: Path) -> Fraction:
    ledger = existing_ledger(read_policy(policy_file))
    assert ledger is not None
    try:
        assert ledger.verify().spent.epsilon == ledger.budget().spent.epsilon
        return ledger.budget().spent.epsilon
    finally:
        ledger.close()


def _accept(entries: int, lost: str | None = None) -> Acceptance:
    return Acceptance(acceptance_sentence(entries), None if lost is None else PrivacyLoss(Fraction(lost)))


def _lose(policy_file: Path) -> None:
    """Lose the disk, or the database, of a ledger."""
    policy = read_policy(policy_file)
    if policy.ledger.path is not None:
        for path in policy.ledger.path.parent.glob("clinic.ledger*"):
            path.unlink()
        return
    import psycopg

    with psycopg.connect(policy.ledger.target, autocommit=True) as connection:
        connection.execute("DROP TABLE sfumato_entries")
        connection.execute("DROP FUNCTION sfumato_entries_stay")


def test_every_answer_that_left_before_a_backup_began_is_in_it(policy_file: Path, tmp_path: Path) -> None:
    policy, stop = read_policy(policy_file), Event()
    ledger, left = open_ledger(policy), list[str]()

    def ask(thread: int) -> None:
        for number in range(25):
            if stop.is_set():
                return
            answer(ledger, policy, f"{thread}/{number}")
            left.append(f"{thread}/{number}")

    answer(ledger, policy, "first")
    threads = [Thread(target=ask, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for number in range(4):
        before = list(left)
        written = back_up(policy_file, tmp_path / f"backup{number}")
        verified = verify_file(tmp_path / f"backup{number}" / "ledger")
        assert (verified.entries, verified.head) == (written.entries, written.head)
        ledger.require(written.entries, written.head)  # it is a beginning of the ledger
        copied = write_policy(tmp_path / f"copied{number}")
        shutil.copy(tmp_path / f"backup{number}" / "ledger", copied.with_name("clinic.ledger"))
        shutil.copy(tmp_path / f"backup{number}" / "ledger.anchor", copied.with_name("clinic.ledger.anchor"))
        found = existing_ledger(read_policy(copied))
        assert found is not None
        answers = {entry.sql: entry.release for entry in found.history()}
        found.close()
        assert {f"SELECT {question}" for question in ("first", *before)} <= {q for q, text in answers.items() if text}
    stop.set()
    for thread in threads:
        thread.join()
    ledger.close()


def test_a_restored_ledger_answers_nothing_until_the_owner_accepts_in_words(policy_file: Path, tmp_path: Path) -> None:
    answer_in(policy_file, "a", "b")
    entries = back_up(policy_file, tmp_path / "backup").entries
    _lose(policy_file)
    assert restore(tmp_path / "backup", None, None).ledger.outcome is RestoreOutcome.WAITING
    for question in ("a", "c"):  # neither a stored answer nor a new one
        with pytest.raises(LedgerRestored):
            answer_in(policy_file, question)
    assert _spent(policy_file) == Fraction(2, 100)
    for sentence in ("yes", "", acceptance_sentence(entries + 1)):
        with pytest.raises(BadParameter):
            restore(tmp_path / "backup", None, Acceptance(sentence, None))
    assert restore(tmp_path / "backup", None, None).ledger.outcome is RestoreOutcome.WAITING
    with pytest.raises(BudgetExhausted):
        restore(tmp_path / "backup", None, _accept(entries, "0.99"))
    with pytest.raises(LedgerRestored):
        answer_in(policy_file, "c")
    assert restore(tmp_path / "backup", None, _accept(entries, "0.5")).ledger.outcome is RestoreOutcome.ACCEPTED
    answer_in(policy_file, "a", "c")
    assert _spent(policy_file) == Fraction(53, 100)
    assert restore(tmp_path / "backup", None, _accept(entries, "0.5")).ledger.outcome is RestoreOutcome.ACCEPTED
    assert _spent(policy_file) == Fraction(53, 100)  # accepted once, counted once


@pytest.mark.parametrize("further", [1, 2, 20])
def test_a_restore_refuses_to_go_back_over_any_number_of_charges(
    policy_file: Path, tmp_path: Path, further: int
) -> None:
    answer_in(policy_file, "a")
    entries = back_up(policy_file, tmp_path / "backup").entries
    assert restore(tmp_path / "backup", None, None).ledger.outcome is RestoreOutcome.UNCHANGED
    answer_in(policy_file, *map(str, range(further)))
    with pytest.raises(RestoreGoesBack, match=f"{2 * further:,} entries"):
        restore(tmp_path / "backup", None, None)
    assert _spent(policy_file) == Fraction(1 + further, 100)
    policy = read_policy(policy_file)
    used = open_ledger(policy)
    restored = restore(tmp_path / "backup", None, _accept(entries)).ledger
    assert (restored.outcome, restored.missing) == (RestoreOutcome.ACCEPTED, 2 * further)
    with pytest.raises(LedgerDamaged):
        answer(used, policy, "a handle that was open before")
    used.close()
    assert _spent(policy_file) == Fraction(1, 100)
    answer_in(policy_file, "a", "later")


def test_a_charge_or_a_stream_that_was_open_in_the_backup_is_never_continued(policy_file: Path, tmp_path: Path) -> None:
    policy = read_policy(policy_file)
    ledger = open_ledger(policy)
    with ledger.charge(request_for(policy, "stream")) as charge:
        ledger.record_progress(charge.sequence, 0, DIGEST)
        stream = charge.sequence
        charge.settle("a stream")
    with ledger.charge(request_for(policy, "open"), "key") as charge:
        entries = back_up(policy_file, tmp_path / "backup").entries
        charge.settle("its answer leaves after the backup")
    ledger.close()
    _lose(policy_file)
    restore(tmp_path / "backup", None, None)
    ledger = open_ledger(policy)
    with pytest.raises(LedgerRestored):
        ledger.record_progress(stream, 1, DIGEST)
    ledger.close()
    restore(tmp_path / "backup", None, _accept(entries))
    ledger = open_ledger(policy)
    assert ledger.reached(stream) is None
    with pytest.raises((StreamDamaged, LedgerUnavailable)):
        ledger.record_progress(stream, 1, DIGEST)
    before = ledger.budget().spent.epsilon
    with pytest.raises(Refusal, match="its answer was lost"), ledger.charge(request_for(policy, "open"), "key"):
        pass
    answer(ledger, policy, "open")  # another charge: the first one has paid for the answer that was lost
    assert ledger.budget().spent.epsilon == before + Fraction(1, 100)
    assert ledger.verify().entries > entries
    ledger.close()


def test_a_state_row_remembers_that_a_restore_waits(tmp_path: Path) -> None:
    policy_file = write_policy(tmp_path / "here")
    answer_in(policy_file, "a")
    _fill(policy_file, 999)  # the restore comes after a state row
    entries = back_up(policy_file, tmp_path / "backup").entries
    assert entries == 999
    _lose(policy_file)
    restore(tmp_path / "backup", None, None)
    with pytest.raises(LedgerRestored):
        answer_in(policy_file, "a")
    _fill(policy_file, 2001)  # a state row lies between the restore and its acceptance
    with pytest.raises(LedgerRestored):
        answer_in(policy_file, "a")
    restore(tmp_path / "backup", None, _accept(entries, "0.5"))
    answer_in(policy_file, "a", "b")
    assert _spent(policy_file) == Fraction(52, 100)


def _fill(policy_file: Path, entries: int) -> None:
    """Add entries without a meaning until there are so many."""

    def add(transaction: LedgerTransaction) -> None:
        while transaction.state.sequence < entries:
            transaction.add(Row(0, RowKind.CLOCK.value, 0))

    ledger = open_ledger(read_policy(policy_file))
    ledger.record(add)
    ledger.close()


def test_a_damaged_ledger_is_replaced_and_its_anchor_says_how_much_is_missing(tmp_path: Path) -> None:
    policy_file = write_policy(tmp_path / "here")
    answer_in(policy_file, "a")
    back_up(policy_file, tmp_path / "backup")
    answer_in(policy_file, "b", "c")
    ledger = policy_file.with_name("clinic.ledger")
    broken = bytearray(ledger.read_bytes())
    broken[-100] ^= 255
    ledger.write_bytes(broken)
    assert restore(tmp_path / "backup", None, None).ledger.missing == 4
    assert any(path.read_bytes() == broken for path in ledger.parent.glob("clinic.ledger.replaced_*"))
    assert _spent(policy_file) == Fraction(1, 100)
    with pytest.raises(LedgerRestored):
        answer_in(policy_file, "d")


def test_another_ledger_in_place_and_a_changed_backup_are_left_alone(tmp_path: Path) -> None:
    policy_file = write_policy(tmp_path / "here")
    answer_in(policy_file, "a")
    back_up(policy_file, tmp_path / "backup")
    with pytest.raises(BadParameter):
        back_up(policy_file, tmp_path / "backup")
    other = write_policy(tmp_path / "there")
    answer_in(other, "b")
    before = other.with_name("clinic.ledger").read_bytes()
    with pytest.raises(OtherLedger):
        restore(tmp_path / "backup", tmp_path / "there", None)
    assert other.with_name("clinic.ledger").read_bytes() == before
    with (tmp_path / "backup" / "ledger").open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"!")
    with pytest.raises(BackupDamaged):
        restore(tmp_path / "backup", tmp_path / "elsewhere", None)
    assert not (tmp_path / "elsewhere").exists()


def test_a_backup_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    policy_file = write_policy(tmp_path / "here")
    answer_in(policy_file, "a")
    back_up(policy_file, tmp_path / "backup")
    found = [tmp_path / "backup", *(tmp_path / "backup").iterdir()]
    assert {path.stat().st_mode & 0o077 for path in found} == {0}
    assert {path.name for path in found[1:]} == {"backup.json", "ledger", "ledger.anchor", "policy.toml"}
