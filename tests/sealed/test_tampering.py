"""A store that changes anything is noticed, and nothing is asked of it again until everything is sealed anew."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.sealed.clinic import rows, sealed_policy

from sfumato.errors import Refusal, StoreTampered
from sfumato.sealed.database import open_sealed, rotate, seal

COUNT = "SELECT COUNT(*) FROM visits"
Attack = Callable[[duckdb.DuckDBPyConnection, str], object]


def statement(text: str) -> Attack:
    return lambda store, name: store.execute(text.replace("TABLE", f'"{name}"'))


ATTACKS: dict[str, Attack] = {
    "a row dropped": statement("DELETE FROM TABLE WHERE rowid = (SELECT min(rowid) FROM TABLE)"),
    "a row repeated": statement("INSERT INTO TABLE SELECT * FROM TABLE WHERE rowid = (SELECT min(rowid) FROM TABLE)"),
    "a row moved": statement("UPDATE TABLE SET t = (t + 1) % 6 WHERE rowid = (SELECT min(rowid) FROM TABLE)"),
    "a limb changed": statement("UPDATE TABLE SET c0 = xor(c0, 1) WHERE rowid = (SELECT min(rowid) FROM TABLE)"),
    "a high limb changed": statement("UPDATE TABLE SET c1 = c1 // 2 WHERE rowid = (SELECT max(rowid) FROM TABLE)"),
    "two cells exchanged": statement("UPDATE TABLE SET t = 1 - t WHERE t < 2"),
    "a cell emptied": statement("DELETE FROM TABLE WHERE t = 0"),
    "everything emptied": statement("DELETE FROM TABLE"),
    "a cell that is none": statement("UPDATE TABLE SET t = 99 WHERE t = 0"),
    "a batch dropped": statement("DELETE FROM TABLE WHERE b = 1"),
    "a batch twice": statement("INSERT INTO TABLE SELECT * FROM TABLE WHERE b = 0"),
    "a value that is NULL": statement("UPDATE TABLE SET t = NULL WHERE t = 0"),
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    policy = sealed_policy(folder)
    seal(policy, "visits", rows(10))
    shutil.copytree(folder / "store", folder / "older")
    seal(policy, "visits", rows(10, first=50))
    return folder


def a_copy(base: Path, folder: Path) -> dict[str, Any]:
    shutil.copytree(base, folder, dirs_exist_ok=True)
    return sealed_policy(folder)


def changed(folder: Path, attack: Attack) -> None:
    with duckdb.connect(str(folder / "store" / "clinic.duckdb")) as store:
        ((name,),) = store.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        attack(store, name)


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))
def test_a_changed_store_is_refused(base: Path, tmp_path: Path, attack: Attack) -> None:
    """Each is believed with a probability of at most 2^-16."""
    policy = a_copy(base, tmp_path)
    changed(tmp_path, attack)
    with open_sealed(policy) as database, pytest.raises(StoreTampered):
        database.check()


def test_what_is_asked_of_a_changed_store_stays_charged_and_it_stays_refused(base: Path, tmp_path: Path) -> None:
    policy = a_copy(base, tmp_path)
    shutil.copytree(tmp_path / "store", tmp_path / "honest")
    with open_sealed(policy) as database:
        before = database.budget().spent.epsilon
        changed(tmp_path, ATTACKS["a row dropped"])
        with pytest.raises(StoreTampered):
            database.ask("SELECT SUM(age) FROM visits WHERE dept = 'er'", epsilon="1")  # wherever the row was
        assert database.budget().spent.epsilon > before
        spent = database.budget().spent
        shutil.copytree(tmp_path / "honest", tmp_path / "store", dirs_exist_ok=True)
        for attempt in (database.ask, database.explain):
            with pytest.raises(StoreTampered):
                attempt(COUNT, epsilon="1")
        assert database.budget().spent == spent
    with pytest.raises(StoreTampered):
        seal(policy, "visits", rows(1))
    with open_sealed(policy) as again, pytest.raises(StoreTampered):
        again.check()
    rotate(policy, tmp_path / "keys" / "clinic.key", {"visits": rows(10)})
    with open_sealed(policy) as healed:
        healed.check()
        assert healed.ask(COUNT, epsilon="1").rows()


def test_an_older_store_is_refused(base: Path, tmp_path: Path) -> None:
    policy = a_copy(base, tmp_path)
    shutil.copytree(tmp_path / "older", tmp_path / "store", dirs_exist_ok=True)
    with open_sealed(policy) as database, pytest.raises(StoreTampered):
        database.check()


def test_a_store_that_is_gone_is_no_answer(base: Path, tmp_path: Path) -> None:
    policy = a_copy(base, tmp_path)
    (tmp_path / "store" / "clinic.duckdb").unlink()
    with open_sealed(policy) as database, pytest.raises(Refusal, match="could not finish"):
        database.ask(COUNT, epsilon="1")


def test_a_refusal_says_nothing_of_where_the_change_was(base: Path, tmp_path: Path) -> None:
    said = set()
    for at, attack in enumerate((ATTACKS["a row dropped"], ATTACKS["a cell emptied"])):
        policy = a_copy(base, tmp_path / str(at))
        changed(tmp_path / str(at), attack)
        with open_sealed(policy) as database, pytest.raises(StoreTampered) as refused:
            database.check()
        said.add(str(refused.value))
    assert len(said) == 1
