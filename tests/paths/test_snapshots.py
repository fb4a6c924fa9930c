"""Answers come from a snapshot, whatever happens to the files; what stands in the way is the owner's to see."""

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.old_snapshot import told_of_the_old_snapshot
from tests.paths.worlds import a_world, policy, write
from tests.refusals import refusing

import sfumato
from sfumato.cli import main
from sfumato.engines.duckdb import copy_build
from sfumato.errors import (
    BadParameter,
    BadSource,
    LedgerDamaged,
    NoSnapshot,
    PolicyWeakened,
)
from sfumato.opening import refreshed

COUNT = "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"
ANALYSTS = {"research": {"epsilon": 50}}


def _clinic(folder: Path, seed: int = 5) -> dict[str, Any]:
    write(folder, a_world(seed, people=12))
    return policy(folder, analysts=ANALYSTS)


def _gone(folder: Path) -> None:
    shutil.rmtree(folder / "data")


def _corrupt(folder: Path) -> None:
    for path in (folder / "data").rglob("*.parquet"):
        path.write_bytes(b"nothing")


def _other_columns(folder: Path) -> None:
    for path in (folder / "data").rglob("visits*.parquet"):
        shutil.copy(next((folder / "data").rglob("survey*.parquet")), path)


def _dangling(folder: Path) -> None:
    (folder / "data" / "more.parquet").symlink_to(folder / "nowhere")


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "data" / "more.parquet")


BREAKS = [_gone, _corrupt, _other_columns, _dangling, _pipe]


@pytest.mark.parametrize("happens", BREAKS)
@pytest.mark.parametrize("refresh", ["manual", "on-change"])
def test_whatever_happens_to_the_files_an_analyst_sees_no_difference(
    tmp_path: Path, happens: Callable[[Path], None], refresh: str
) -> None:
    words = {**_clinic(tmp_path), "refresh": refresh}
    with sfumato.open(words, analyst="research") as database:
        first = database.ask(COUNT, epsilon=1)
        quote = database.explain(COUNT, epsilon=2)
    files = sorted(os.listdir(tmp_path))
    happens(tmp_path)
    with sfumato.open(words, analyst="research") as database:
        again = database.ask(COUNT, epsilon=1)
        assert (again.rows(), again.receipt) == (first.rows(), first.receipt)
        assert str(database.explain(COUNT, epsilon=2)) == str(quote)
        assert database.ask(COUNT, epsilon=2).receipt.version == first.receipt.version
        with pytest.raises(BadParameter, match="analyst"):
            database.source_changed()
    assert sorted(os.listdir(tmp_path)) == [name for name in files if name != "data" or (tmp_path / "data").exists()]
    with told_of_the_old_snapshot(refresh), sfumato.open(words) as database:
        assert database.source_changed()
        with refusing():  # the owner sees why
            database.refresh()
        assert database.ask(COUNT, epsilon=1).receipt.version == first.receipt.version


@pytest.mark.parametrize("refresh", ["manual", "on-change"])
def test_a_disk_that_fails_while_a_snapshot_is_taken_leaves_the_one_before(
    tmp_path: Path, refresh: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {**_clinic(tmp_path), "refresh": refresh}
    with sfumato.open(words, analyst="research") as database:
        first = database.ask(COUNT, epsilon=1)
    _clinic(tmp_path, seed=6)
    monkeypatch.setattr(copy_build, "build_copy", _full)
    with sfumato.open(words, analyst="research") as database:
        assert database.ask(COUNT, epsilon=1).receipt == first.receipt
    with told_of_the_old_snapshot(refresh, "engine could not finish"), sfumato.open(words) as database:
        assert database.ask(COUNT, epsilon=2).receipt.version == first.receipt.version


def _full(*_: object) -> Path:
    raise OSError(28, "No space left on device")


def test_only_the_first_opening_and_refresh_take_a_snapshot(tmp_path: Path) -> None:
    words = _clinic(tmp_path)
    with sfumato.open(words) as database, sfumato.open(words) as other:
        first = database.ask(COUNT, epsilon=1)
        assert not database.source_changed()
        _clinic(tmp_path, seed=6)
        assert database.source_changed()
        assert database.ask(COUNT, epsilon=1).receipt == first.receipt
        taken = database.refresh()
        assert not database.source_changed()
        second = database.ask(COUNT, epsilon=1)
        assert (second.receipt.version, len(database.history())) == (taken, 2)
        assert taken != first.receipt.version
        assert other.ask(COUNT, epsilon=1).receipt == second.receipt  # it notices at its next question
    with sfumato.open(words) as reopened:
        assert reopened.ask(COUNT, epsilon=1).receipt == second.receipt
    assert len(list(tmp_path.glob("*.copy-*"))) <= 2
    refreshed(words).close()
    assert len(list(tmp_path.glob("*.copy-*"))) == 1  # nobody uses the others any more


def test_a_refresh_of_the_same_files_is_a_new_snapshot(tmp_path: Path) -> None:
    """That nothing changed would be a fact about people."""
    with sfumato.open(_clinic(tmp_path)) as database:
        first = database.ask(COUNT, epsilon=1).receipt.version
        assert database.refresh() != first


def test_on_change_takes_a_snapshot_when_a_file_has_changed_and_only_then(tmp_path: Path) -> None:
    words = {**_clinic(tmp_path), "refresh": "on-change"}
    versions = []
    for seed in (5, None, 6, None):
        if seed == 6:
            _clinic(tmp_path, seed)
        with sfumato.open(words) as database:
            versions.append(database.ask(COUNT, epsilon=1).receipt.version)
    assert (versions[0], versions[2]) == (versions[1], versions[3])
    assert versions[0] != versions[2]


def test_questions_that_are_under_way_keep_their_snapshot_while_another_is_taken(tmp_path: Path) -> None:
    errors: list[BaseException] = []
    with sfumato.open(_clinic(tmp_path)) as database:

        def ask() -> None:
            try:
                for epsilon in range(1, 6):
                    database.ask(COUNT, epsilon=f"1/{epsilon * 100 + threading.get_ident() % 97}")
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(2):
            database.refresh()
        for thread in threads:
            thread.join()
        assert not errors
        assert database.verify()


def test_who_opens_while_a_snapshot_is_taken_does_not_wait_for_it(tmp_path: Path) -> None:
    words = _clinic(tmp_path)
    with sfumato.open(words) as database:
        first = database.ask(COUNT, epsilon=1)
    reading, go_on = threading.Event(), threading.Event()

    def pause(_phase: str, _table: str) -> None:
        reading.set()
        assert go_on.wait(60)

    building = threading.Thread(target=lambda: refreshed(words, progress=pause).close())
    building.start()
    assert reading.wait(60)
    for changed in (words, {**words, "refresh": "on-change"}):
        with sfumato.open(changed) as database:
            assert database.ask(COUNT, epsilon=1).receipt == first.receipt
    go_on.set()
    building.join()
    with sfumato.open(words) as database:
        assert database.ask(COUNT, epsilon=1).receipt.version != first.receipt.version


def test_a_handle_whose_snapshot_was_replaced_opens_it_again_after_a_fork(tmp_path: Path) -> None:
    words = _clinic(tmp_path)
    with sfumato.open(words) as database:
        database.ask(COUNT, epsilon=1)
        with refreshed(words) as newer:
            version = newer.version
        read, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(write_end, database.ask(COUNT, epsilon=2).receipt.version.encode())
            finally:
                os._exit(0)
        os.close(write_end)
        os.waitpid(child, 0)
        with os.fdopen(read) as stream:
            assert stream.read() == version


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def test_the_command_line_tells_the_owner_that_the_source_changed_and_nobody_else(tmp_path: Path) -> None:
    write(tmp_path, a_world(5, people=12))
    (tmp_path / "clinic.toml").write_text(
        f"""
source = "parquet:{tmp_path}/data"
[budget]
epsilon = 10
delta = 0
[tables.patients]
unit = "patient_id"
rows_per_unit = 1
columns.patient_id.type = "integer"
columns.income = {{ type = "integer", bounds = [0, 50] }}
[analysts.research]
epsilon = 5
"""
    )
    clinic = str(tmp_path / "clinic.toml")
    asked = ("ask", clinic, "SELECT COUNT(*) AS n FROM patients", "--epsilon", "1", "--analyst", "research")
    quiet = [_run("budget", clinic).stdout, _run("check", clinic).stdout, _run(*asked, "--format", "csv").stdout]
    assert not any("changed" in shown for shown in quiet)
    assert json.loads(_run("budget", clinic, "--format", "json").stdout)["source_changed"] is False
    (tmp_path / "data" / "patients.parquet").write_bytes(b"nothing")
    assert all("sfumato refresh" in _run(verb, clinic).stdout for verb in ("check", "budget"))
    assert json.loads(_run("check", clinic, "--format", "json").stdout)["source_changed"] is True
    assert "changed" not in _run("budget", clinic, "--analyst", "research", "--format", "json").stdout
    assert "changed" not in _run("budget", clinic, "--analyst", "research").stdout
    assert _run(*asked, "--format", "csv").stdout == quiet[2]
    refused = _run("refresh", clinic)
    assert (refused.exit_code, "patients.parquet" in refused.stderr) == (2, True)
    write(tmp_path, a_world(6, people=12))
    assert _run("refresh", clinic).exit_code == 0
    assert "changed" not in _run("budget", clinic).stdout


# --- a refused opening changes nothing ---


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("happens", BREAKS)
def test_a_first_opening_that_is_refused_leaves_nothing_behind(tmp_path: Path, happens: Callable[[Path], None]) -> None:
    words = _clinic(tmp_path)
    (tmp_path / "clinic.ledger.copy.salt").unlink()
    happens(tmp_path)
    with refusing():
        sfumato.open(words)
    with pytest.raises(NoSnapshot) as caught:
        sfumato.open(words, analyst="research")
    assert str(caught.value) == str(NoSnapshot())  # whatever the reason
    assert _contents(tmp_path) == {}


def test_a_mistyped_source_with_another_budget_puts_nothing_in_force(tmp_path: Path) -> None:
    words = _clinic(tmp_path)
    with sfumato.open(words) as database:
        database.ask(COUNT, epsilon=1)
        total = database.budget().total
    before = _contents(tmp_path)
    more = {"budget": {"epsilon": 2000, "delta": 0.001}}
    with pytest.raises(BadSource, match="does not exist"):
        sfumato.open({**words, **more, "source": f"parquet:{tmp_path}/dta"})
    assert _contents(tmp_path) == before
    with sfumato.open(words) as database:
        assert database.budget().total == total


def test_a_policy_that_the_ledger_or_the_source_refuses_changes_nothing(tmp_path: Path) -> None:
    words = _clinic(tmp_path)
    with sfumato.open(words) as database:
        database.ask(COUNT, epsilon=1)
    before = _contents(tmp_path)
    phases: list[str] = []
    weaker = policy(tmp_path, analysts=ANALYSTS, visits={"rows_per_unit": 2})
    with pytest.raises(PolicyWeakened) as caught:
        sfumato.open(weaker, progress=lambda phase, table: phases.append(phase))
    assert (_contents(tmp_path), phases) == (before, [])
    confirm = caught.value.remedy.rpartition(" ")[2].strip(".")
    _corrupt(tmp_path)
    with pytest.raises(BadSource):
        sfumato.open(weaker, confirm=confirm)
    assert _contents(tmp_path) == before
    with sfumato.open(words) as database:
        assert len(database.history()) == 1


@pytest.mark.parametrize("removed", [("clinic.ledger", "clinic.ledger.anchor"), ("clinic.ledger",)])
def test_a_ledger_that_is_gone_while_its_snapshot_remains_is_noticed(tmp_path: Path, removed: tuple[str, ...]) -> None:
    words = _clinic(tmp_path)
    with sfumato.open(words) as database:
        database.ask(COUNT, epsilon=1)
    for name in removed:
        (tmp_path / name).unlink()
    before = _contents(tmp_path)
    for opening in (sfumato.open, refreshed):
        with pytest.raises(LedgerDamaged, match="backup"):
            opening(words)
    assert _contents(tmp_path) == before


def test_the_ledger_of_another_dataset_is_not_taken_for_this_one(tmp_path: Path) -> None:
    words = _clinic(tmp_path)
    other = _clinic(tmp_path / "other")
    for one in (words, other):
        with sfumato.open(one) as database:
            database.ask(COUNT, epsilon=1)
    for ending in ("", ".anchor"):
        shutil.copy(tmp_path / "other" / f"clinic.ledger{ending}", tmp_path / f"clinic.ledger{ending}")
    with pytest.raises(LedgerDamaged, match="not the one that paid"):
        sfumato.open(words)


# --- the same question ---


def _touch(folder: Path, words: dict[str, Any]) -> dict[str, Any]:
    for path in (folder / "data").iterdir():
        path.touch()
    return words


def _chmod(folder: Path, words: dict[str, Any]) -> dict[str, Any]:
    for path in (folder / "data").iterdir():
        path.chmod(0o640)
    return words


def _copied(folder: Path, words: dict[str, Any]) -> dict[str, Any]:
    for path in list((folder / "data").iterdir()):
        shutil.copy(path, folder / "aside")
        (folder / "aside").replace(path)
    return words


def _spelt(folder: Path, words: dict[str, Any]) -> dict[str, Any]:
    return {**words, "source": f"parquet:{folder}/data/../data"}


def _moved(folder: Path, words: dict[str, Any]) -> dict[str, Any]:
    (folder / "data").rename(folder / "moved")
    return {**words, "source": f"parquet:{folder}/moved"}


def _raised(_folder: Path, words: dict[str, Any]) -> dict[str, Any]:
    return {**words, "budget": {"epsilon": 2000, "delta": 0.001}}


def _joined(_folder: Path, words: dict[str, Any]) -> dict[str, Any]:
    return {**words, "analysts": {**ANALYSTS, "press": {"epsilon": 1}}}


def _other_table(_folder: Path, words: dict[str, Any]) -> dict[str, Any]:
    tables = words["tables"]
    survey = {"unit": "rows", "columns": {"x": {"type": "integer", "bounds": [-3, 4]}}}
    return {**words, "tables": {**tables, "survey": survey}}


@pytest.mark.parametrize("change", [_touch, _chmod, _copied, _spelt, _moved, _raised, _joined, _other_table])
def test_nothing_else_makes_an_answered_question_cost_again(
    tmp_path: Path, change: Callable[[Path, dict[str, Any]], dict[str, Any]]
) -> None:
    words = _clinic(tmp_path)
    with sfumato.open(words) as database:
        first = database.ask(COUNT, epsilon=1)
        assert first.rows() == database.ask(COUNT, epsilon=1).rows()
    after = change(tmp_path, words)
    with _confirmed(after) as database:
        again = database.ask(COUNT, epsilon=1)
        assert (again.receipt, again.rows()) == (first.receipt, first.rows())
        assert len(database.history()) == 1
        assert database.verify()


def test_other_words_about_the_table_make_another_question(tmp_path: Path) -> None:
    with sfumato.open(_clinic(tmp_path)) as database:
        first = database.ask(COUNT, epsilon=1)
        removed = database.ask('SELECT COUNT(*) AS n FROM "visits.removed"', epsilon=1)
    with _confirmed(policy(tmp_path, analysts=ANALYSTS, visits={"rows_per_unit": 2})) as database:
        assert database.ask(COUNT, epsilon=1).receipt.id != first.receipt.id
        again = database.ask('SELECT COUNT(*) AS n FROM "visits.removed"', epsilon=1)
        assert again.receipt.id != removed.receipt.id
        assert again.receipt.version == removed.receipt.version  # the files are the same


def _confirmed(words: dict[str, Any]) -> sfumato.Database:
    try:
        return sfumato.open(words)
    except PolicyWeakened as refusal:
        return sfumato.open(words, confirm=refusal.remedy.rpartition(" ")[2].strip("."))
