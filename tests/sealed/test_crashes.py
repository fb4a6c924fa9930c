"""A sealer killed at any moment leaves no half batch, uses no pad twice and draws no sizes twice."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.sealed.clinic import rows, sealed_policy

from sfumato.policy.reading import read_policy
from sfumato.prepare import RequestedPrice
from sfumato.sealed.database import open_sealed, rotate, seal
from sfumato.sealed.manifest import BatchState, Keyring, SealedEpoch
from sfumato.sealed.stores import DuckDBCipherStore


def dies(owner: type, name: str, times: int, before: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process killed at the n-th call of a method, before it or after it."""
    real, calls = getattr(owner, name), []

    def method(*arguments: Any) -> Any:
        calls.append(1)
        if before and len(calls) == times:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = real(*arguments)
        if len(calls) == times:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    monkeypatch.setattr(owner, name, method)


def in_a_child(work: Callable[[], object]) -> int:
    """Run something in a process of its own and return how it ended."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1]


def sealed_of(policy: dict[str, Any]) -> SealedEpoch:
    ring = Keyring(Path(str(policy["sealed"]["key"]).removeprefix("file:")))
    found = ring.read(read_policy(policy).name).table("visits")
    assert found is not None
    return found


def count(policy: dict[str, Any]) -> int:
    with open_sealed(policy) as database:
        database.check()
        prepared = database._database.prepare("SELECT COUNT(*) FROM visits", None, RequestedPrice("1"))
        return int(prepared.engine.run(prepared.job).groups[0].columns["m1"][0])


# the first writing of the manifest is the intent, the second the commit
MOMENTS = (
    ("before the units", Keyring, "write_units", 1, True),
    ("before the intent", Keyring, "write", 1, True),
    ("after the intent", Keyring, "write", 1, False),
    ("before the store", DuckDBCipherStore, "insert", 1, True),
    ("after the store", DuckDBCipherStore, "insert", 1, False),
    ("before the commit", Keyring, "write", 2, True),
    ("after the commit", Keyring, "write", 2, False),
)


@pytest.mark.parametrize(
    ("owner", "name", "times", "before"), [one[1:] for one in MOMENTS], ids=[m[0] for m in MOMENTS]
)
def test_a_killed_sealer_leaves_all_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, times: int, before: bool
) -> None:
    policy = sealed_policy(tmp_path)
    first = seal(policy, "visits", rows(6)).kept
    more = rows(6, first=100)

    def killed() -> None:
        with pytest.MonkeyPatch.context() as patch:
            dies(owner, name, times, before, patch)
            seal(policy, "visits", more)

    for _ in range(2):  # a second attempt is killed, too
        assert os.WTERMSIG(in_a_child(killed)) == signal.SIGKILL
        if len(sealed_of(policy).committed) == 2:
            break
        assert count(policy) == first
    left = sealed_of(policy)
    nonces = [batch.nonce for batch in left.batches]
    assert len(set(nonces)) == len(nonces)
    if len(left.committed) == 2:
        assert count(policy) > first
        return
    aborted = [batch for batch in left.batches if batch.state is BatchState.ABORTED]
    assert len(aborted) == (0 if name == "write_units" or (name == "write" and times == 1 and before) else 1)
    again = seal(policy, "visits", more)
    after = sealed_of(policy)
    assert [batch.state for batch in after.batches] == [BatchState.COMMITTED] * 2
    assert count(policy) == first + again.kept
    if aborted:
        assert after.batches[1].sizes == aborted[0].sizes
        assert after.batches[1].nonce not in nonces


@pytest.mark.parametrize("name", ["clinic.key", "new.key"])
@pytest.mark.parametrize(("method", "before"), [("insert", False), ("drop", True)])
def test_a_killed_rotation_is_taken_up_again(tmp_path: Path, name: str, method: str, before: bool) -> None:
    policy, everybody = sealed_policy(tmp_path), rows(6)
    seal(policy, "visits", everybody)
    key = tmp_path / "keys" / name

    def killed() -> None:
        with pytest.MonkeyPatch.context() as patch:
            dies(DuckDBCipherStore, method, 1, before, patch)
            rotate(policy, key, {"visits": everybody})

    assert os.WTERMSIG(in_a_child(killed)) == signal.SIGKILL
    if name == "new.key":  # the old one still answers
        assert count(policy) == everybody.num_rows
    rotate(policy, key, {"visits": everybody})
    policy["sealed"]["key"] = f"file:{key}"
    assert count(policy) == everybody.num_rows
    with duckdb.connect(str(tmp_path / "store" / "clinic.duckdb"), read_only=True) as store:
        assert len(store.execute("SELECT 1 FROM duckdb_tables()").fetchall()) == 1


def test_rows_of_an_aborted_batch_stay_counted_against_their_people(tmp_path: Path) -> None:
    policy = sealed_policy(tmp_path)
    mine = rows(1, per_person=1)
    seal(policy, "visits", rows(0))

    def killed() -> None:
        with pytest.MonkeyPatch.context() as patch:
            dies(DuckDBCipherStore, "insert", 1, False, patch)
            seal(policy, "visits", rows(1, seed=9, per_person=1).slice(0, 1))

    in_a_child(killed)
    assert [seal(policy, "visits", mine).kept for _ in range(3)] == [1, 1, 0]


def test_two_sealers_wait_for_each_other(tmp_path: Path) -> None:
    policy = sealed_policy(tmp_path)
    seal(policy, "visits", rows(0))
    children = []
    for first in (100, 200):
        child = os.fork()
        if child == 0:
            try:
                seal(policy, "visits", rows(3, first=first))
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    assert len(sealed_of(policy).committed) == 3
    assert count(policy) == sum(rows(3, first=first).num_rows for first in (100, 200))
