"""An anchor is one whole line that names a durable row, whether it is written over the last one or renamed."""

import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from tests.ledger.accounts import policy_in, pure, request_for
from tests.ledger.requesting import ask_charge

from sfumato.ledger.anchor import Anchor, NextAnchor, read_anchor, write_anchor
from sfumato.ledger.opening import open_ledger

HEADS = "a" * 64, "b" * 64


def last_seen_by_others(path: Path) -> tuple[int, str]:
    """Return the last row as another connection sees it: what is committed."""
    with closing(sqlite3.connect(path)) as connection:
        statement = "SELECT sequence, head FROM entries ORDER BY sequence DESC LIMIT 1"
        sequence, head = connection.execute(statement).fetchone()
    return sequence, head


def test_an_anchor_names_rows_when_they_are_durable_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = policy_in(tmp_path)
    path, put, inodes = tmp_path / "clinic.ledger", NextAnchor.put_in_place, []

    def watched(following: NextAnchor) -> None:
        before = read_anchor(path.with_name("clinic.ledger.anchor"))
        assert before is not None
        assert before.sequence < last_seen_by_others(path)[0]
        put(following)
        after = read_anchor(path.with_name("clinic.ledger.anchor"))
        assert after == Anchor(*last_seen_by_others(path))
        inodes.append(path.with_name("clinic.ledger.anchor").stat().st_ino)

    monkeypatch.setattr(NextAnchor, "put_in_place", watched)
    for turn in range(3):  # an anchor that was sealed is longer
        ledger = open_ledger(policy)
        for number in range(20):
            ask_charge(ledger, request_for(policy, f"{turn} {number}", pure("1e-9"), account=""))
        ledger.close()
    assert len(inodes) == 120
    changes = sum(one != other for one, other in pairwise(inodes))
    assert changes <= 2 + 1 + 1 + 3  # two openings, 9 and 99 rows; an opening may take an inode of its own


@pytest.mark.parametrize("before", [None, Anchor(7, HEADS[0]), Anchor(17, HEADS[0]), Anchor(8, HEADS[0], HEADS[1])])
def test_an_anchor_of_any_length_takes_the_place_of_any_other(tmp_path: Path, before: Anchor | None) -> None:
    path, after = tmp_path / "anchor", Anchor(9, HEADS[1])
    if before is not None:
        write_anchor(path, before)
    with closing(NextAnchor(path, after)) as following:
        assert read_anchor(path) == before
        following.put_in_place()
    assert read_anchor(path) == after
    assert path.stat().st_mode & 0o077 == 0


def test_a_link_in_its_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    path, elsewhere, after = tmp_path / "anchor", tmp_path / "elsewhere", Anchor(9, HEADS[1])
    write_anchor(elsewhere, Anchor(8, HEADS[0]))
    path.symlink_to(elsewhere)
    with closing(NextAnchor(path, after)) as following:
        following.put_in_place()
    assert (path.is_symlink(), read_anchor(path), read_anchor(elsewhere)) == (False, after, Anchor(8, HEADS[0]))
