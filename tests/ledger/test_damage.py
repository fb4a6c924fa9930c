"""Whatever happens to the files, a damaged ledger is refused and never mistaken for a sound one."""

import shutil
import sqlite3
from collections.abc import Callable
from functools import reduce
from pathlib import Path

import pytest
from tests.ledger.accounts import policy_in, request_for

from sfumato.errors import LedgerDamaged, LedgerUnavailable, Refusal
from sfumato.ledger.chain import GENESIS, Row, with_chain_hash
from sfumato.ledger.history import Entry
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.opening import open_ledger
from sfumato.ledger.state import EMPTY, folded
from sfumato.ledger.verifying import Verified, verify_file, verify_rows
from sfumato.policy.policy import Policy

STRIDE = 53  # python -m tests.ledger.torture flips every byte; a prime meets every kind of byte here


def ask(ledger: Ledger, policy: Policy, *questions: str) -> None:
    for question in questions:
        with ledger.charge(request_for(policy, question)) as charge:
            charge.settle(f"release of {question}")


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    policy = policy_in(tmp_path)
    ledger = open_ledger(policy)
    ask(ledger, policy, "a", "b", "c")
    ledger.close()
    return policy


def said(policy: Policy) -> tuple[Verified, tuple[Entry, ...]] | None:
    """Return all that a ledger says, None where it refuses; anything but a refusal is an error."""
    try:
        ledger = open_ledger(policy)
    except Refusal:
        return None
    try:
        return ledger.verify(), ledger.history()
    except Refusal:
        return None
    finally:
        ledger.close()


def flipped_bytes_are_noticed(path: Path, check: Callable[[], bool], stride: int) -> None:
    sound = path.read_bytes()
    for place in range(0, len(sound), stride):
        flipped = bytearray(sound)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        assert check(), f"byte {place} of {path.name}"
    path.write_bytes(sound)


def test_every_flipped_byte_of_a_closed_ledger_is_refused(policy: Policy, tmp_path: Path) -> None:
    assert said(policy)
    flipped_bytes_are_noticed(tmp_path / "clinic.ledger", lambda: said(policy) is None, STRIDE)
    flipped_bytes_are_noticed(tmp_path / "clinic.ledger.anchor", lambda: said(policy) is None, 1)
    assert said(policy)


def test_a_flipped_byte_of_a_ledger_in_use_is_refused_or_changes_nothing(policy: Policy, tmp_path: Path) -> None:
    expected, anchor = said(policy), tmp_path / "clinic.ledger.anchor"
    unsealed = " ".join([*anchor.read_text().split()[:2], "-"]) + "\n"
    refused = 0

    def _check() -> bool:
        nonlocal refused
        anchor.write_text(unsealed)
        found = said(policy)
        refused += found is None
        return found in (None, expected)

    flipped_bytes_are_noticed(tmp_path / "clinic.ledger", _check, STRIDE)
    assert refused > 50


@pytest.mark.parametrize("ending", ["", ".anchor"])
def test_a_cut_file_is_refused(policy: Policy, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"clinic.ledger{ending}"
    whole = path.read_bytes()
    for length in range(0, len(whole), 13 if ending else 1024):
        path.write_bytes(whole[:length])
        with pytest.raises(LedgerDamaged):
            open_ledger(policy)
    path.write_bytes(whole)
    assert said(policy)


def test_a_lost_ledger_or_anchor_is_refused(policy: Policy, tmp_path: Path) -> None:
    for name in ("clinic.ledger", "clinic.ledger.anchor"):
        (tmp_path / name).rename(tmp_path / "aside")
        with pytest.raises(LedgerDamaged, match="gone"):
            open_ledger(policy)
        with pytest.raises(Refusal):
            verify_file(tmp_path / "clinic.ledger")
        (tmp_path / "aside").rename(tmp_path / name)
    assert said(policy)


def test_a_ledger_from_an_old_backup_is_refused(policy: Policy, tmp_path: Path) -> None:
    path = tmp_path / "clinic.ledger"
    shutil.copy(path, tmp_path / "backup")
    ledger = open_ledger(policy)
    ask(ledger, policy, "d")
    ledger.close()
    shutil.copy(tmp_path / "backup", path)
    with pytest.raises(LedgerDamaged, match="a part is lost"):
        open_ledger(policy)
    with pytest.raises(LedgerDamaged, match="a part is lost"):
        verify_file(path)


def test_an_anchor_can_be_restored_by_hand_from_a_receipt(policy: Policy, tmp_path: Path) -> None:
    ledger = open_ledger(policy)
    last = ledger.history()[0]
    ledger.close()
    (tmp_path / "clinic.ledger.anchor").write_text(f"{last.sequence} {last.head} -\n")
    assert said(policy)


@pytest.mark.parametrize("change", ["UPDATE entries SET content = 'x'", "DELETE FROM entries"])
def test_rows_are_neither_changed_nor_deleted(policy: Policy, tmp_path: Path, change: str) -> None:
    connection = sqlite3.connect(tmp_path / "clinic.ledger")
    with pytest.raises(sqlite3.IntegrityError, match="append only"):
        connection.execute(change)
    connection.close()


def test_another_program_that_writes_another_format_is_refused(policy: Policy, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "clinic.ledger")
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    with pytest.raises(LedgerUnavailable, match="format 2"):
        open_ledger(policy)


def test_a_row_that_was_rewound_under_an_open_ledger_is_noticed(policy: Policy, tmp_path: Path) -> None:
    ledger = open_ledger(policy)
    connection = sqlite3.connect(tmp_path / "clinic.ledger")
    connection.executescript(
        "DROP TRIGGER entries_are_kept; DELETE FROM entries WHERE sequence > 5;"
        "CREATE TRIGGER entries_are_kept BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'append only'); END"
    )
    connection.close()
    with pytest.raises(LedgerDamaged, match="rewound"):
        ask(ledger, policy, "d")
    ledger.close()


def _rows(tmp_path: Path) -> list[Row]:
    connection = sqlite3.connect(tmp_path / "clinic.ledger")
    rows = [Row._make(row) for row in connection.execute("SELECT * FROM entries ORDER BY sequence")]
    connection.close()
    return rows


def _forged(rows: list[Row]) -> list[Row]:
    """Number, link and so legitimise rows that nobody wrote."""
    head, forged = GENESIS, []
    for place, row in enumerate(rows, 1):
        forged.append(with_chain_hash(head, row._replace(sequence=place)))
        head = forged[-1].head
    return forged


FORGERIES: tuple[Callable[[list[Row]], list[Row]], ...] = (
    lambda rows: rows[1:],
    lambda rows: [rows[0], *rows[2:]],
    lambda rows: [*rows, rows[-1]],
    lambda rows: [*rows, rows[1]._replace(event=rows[1].event.replace("1/100", "99/100"), question="z")],
    lambda rows: [*rows[:2], rows[2]._replace(about=1), *rows[3:]],
    lambda rows: [rows[0], rows[1]._replace(policy="0" * 64), *rows[2:]],
    lambda rows: [rows[0], rows[1]._replace(account="nobody"), *rows[2:]],
    lambda rows: [rows[0], rows[1]._replace(event="{}"), *rows[2:]],
    lambda rows: [rows[0], rows[1]._replace(question="another"), *rows[2:]],
    lambda rows: [*rows[:-1], rows[-1]._replace(time=0)],
    lambda rows: [*rows[:-1], rows[-1]._replace(kind="refunded")],
    lambda rows: [rows[0]._replace(content=rows[0].content.replace('["1","0"]', '["9","0"]').replace("add-", "sub-"))],
)


@pytest.mark.parametrize("forge", FORGERIES)
def test_both_readers_refuse_a_forgery_whose_hashes_are_right(
    policy: Policy, tmp_path: Path, forge: Callable[[list[Row]], list[Row]]
) -> None:
    rows = _rows(tmp_path)
    assert verify_rows(_forged(rows), None).entries == len(rows)
    forged = _forged(forge(rows))
    with pytest.raises(LedgerDamaged):
        verify_rows(forged, None)
    with pytest.raises(LedgerDamaged):
        reduce(folded, forged, EMPTY)
