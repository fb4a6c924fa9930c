"""The same laws over a store in PostgreSQL: answers, tampering, a killed sealer, rotation."""

import os
import signal
from pathlib import Path

import psycopg
import pytest
from tests.sealed.clinic import plain_policy, rows, sealed_policy
from tests.sealed.test_crashes import count, dies, in_a_child
from tests.sealed.test_database import ASKED, agree

import sfumato
from sfumato.errors import Refusal, StoreTampered
from sfumato.sealed.database import open_sealed, rotate, seal
from sfumato.sealed.postgres_store import PostgresCipherStore


def test_a_store_in_postgresql_answers_and_is_not_believed_when_it_changes(address: str, tmp_path: Path) -> None:
    policy, everybody = sealed_policy(tmp_path, store=address), rows(20)
    seal(policy, "visits", everybody.slice(0, 12))
    seal(policy, "visits", everybody.slice(12))
    with open_sealed(policy) as sealed, sfumato.open(plain_policy(tmp_path, everybody, policy)) as plain:
        sealed.check()
        for sql in ASKED:
            agree(sealed, plain, sql)
        (statement,) = sealed.statements("SELECT COUNT(*) FROM visits")
        table = statement.split('"')[1]
        with psycopg.connect(address) as store:
            types = store.execute(
                "SELECT DISTINCT data_type FROM information_schema.columns WHERE table_name = %s", (table,)
            ).fetchall()
            assert types == [("integer",)]
            store.execute(f'UPDATE "{table}" SET t = 1 - t WHERE t < 2 AND b = 0')  # noqa: S608
        with pytest.raises(StoreTampered):
            sealed.check()
    rotate(policy, tmp_path / "keys" / "clinic.key", {"visits": everybody})
    with open_sealed(policy) as healed, psycopg.connect(address) as store:
        healed.check()
        assert store.execute("SELECT to_regclass(%s)", (f'"{table}"',)).fetchone() == (None,)


def test_a_killed_sealer_leaves_all_or_nothing_there_too(address: str, tmp_path: Path) -> None:
    policy = sealed_policy(tmp_path, store=address)
    first = seal(policy, "visits", rows(5)).kept

    def killed() -> None:
        with pytest.MonkeyPatch.context() as patch:
            dies(PostgresCipherStore, "insert", 1, False, patch)
            seal(policy, "visits", rows(5, first=50))

    assert os.WTERMSIG(in_a_child(killed)) == signal.SIGKILL
    assert count(policy) == first
    assert count(policy) < first + seal(policy, "visits", rows(5, first=50)).kept
    assert count(policy) == rows(5).num_rows + rows(5, first=50).num_rows


def test_a_server_that_does_not_answer_is_one_fixed_sentence(tmp_path: Path) -> None:
    policy = sealed_policy(tmp_path, store="postgresql://secret@127.0.0.1:1/nothing")
    with pytest.raises(Refusal, match="could not finish") as refused:
        seal(policy, "visits", rows(1))
    assert "secret" not in str(refused.value)
