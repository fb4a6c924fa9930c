"""A snapshot that another process takes is the one that answers from the next question on, in every open handle."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.server.clinic import COUNT, make_clinic
from tests.server.running import Running

import sfumato
from sfumato.engines import snapshots
from sfumato.errors import EngineFailed
from sfumato.opening import refreshed
from sfumato.policy.canonical import policy_hash
from sfumato.policy.reading import read_policy

REFRESH = "import sys; from sfumato.opening import refreshed; print(refreshed(sys.argv[1]).version)"


def _elsewhere(policy: Path) -> str:
    """Take a snapshot in another process, and return its id."""
    command = [sys.executable, "-c", REFRESH, str(policy)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_every_handle_answers_from_the_new_snapshot_and_what_is_under_way_from_its_own(tmp_path: Path) -> None:
    policy = make_clinic(tmp_path)
    taken: list[str] = []

    def meanwhile(phase: str, _table: str) -> None:
        if phase == "run":
            taken.append(_elsewhere(policy))

    with sfumato.open(policy) as database, database.as_analyst("research") as analyst:
        before = database.version
        asked = database.ask(COUNT, epsilon=1, progress=meanwhile)
        assert asked.receipt.version == before  # charged for the snapshot that it was prepared on
        [version] = taken
        assert version != before
        assert analyst.ask(COUNT, epsilon=1).receipt.version == version
        again = database.ask(COUNT, epsilon=1)
        assert (again.receipt.version, database.version) == (version, version)
        assert again.receipt.id != asked.receipt.id  # another snapshot is another question
        assert database.ask(COUNT, epsilon=1).receipt == again.receipt
        assert database.verify()
    assert len(list(tmp_path.glob("*.copy-*"))) == 2
    refreshed(policy).close()
    assert len(list(tmp_path.glob("*.copy-*"))) == 1  # the one before was let go


def test_where_nothing_happened_a_question_looks_at_one_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Path] = []
    mark = snapshots._mark

    def counted(path: Path) -> tuple[int, ...] | None:
        looks.append(path)
        return mark(path)

    monkeypatch.setattr(snapshots, "_mark", counted)
    with sfumato.open(make_clinic(tmp_path)) as database:
        database.ask(COUNT, epsilon=1)
        monkeypatch.setattr(snapshots, "read_manifest", None)  # it is not read again
        looks.clear()
        database.ask(COUNT, epsilon=2)
        assert len(looks) == 1


def test_a_snapshot_of_other_tables_or_one_that_cannot_be_opened_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = make_clinic(tmp_path)
    with sfumato.open(policy) as database:
        before = database.version
        with refreshed(policy) as newer:
            version = newer.version
        with monkeypatch.context() as patch:
            patch.setattr(snapshots, "_find_current", _fails)
            assert database.ask(COUNT, epsilon=1).receipt.version == before
        assert database.ask(COUNT, epsilon=1).receipt.version == version
        policy.write_text(policy.read_text().replace("rows_per_unit = 4", "rows_per_unit = 3"))
        refreshed(policy, confirm=policy_hash(read_policy(policy))).close()
        assert database.version == version


def _fails(*_: object) -> None:
    raise EngineFailed()


def test_threads_that_notice_at_the_same_time_all_get_an_answer_and_a_fork_never_waits(tmp_path: Path) -> None:
    policy = make_clinic(tmp_path)
    versions: list[str] = []
    with sfumato.open(policy) as database:
        with refreshed(policy) as newer:
            version = newer.version
        threads = [
            threading.Thread(target=lambda: versions.append(database.ask(COUNT, epsilon=1).receipt.version))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(versions) == 4
        assert database.version == version
        with database._shared._changing:  # as a thread that does not exist in the child
            child = os.fork()
            if child == 0:
                try:
                    database._shared.replace(database.engine)
                finally:
                    os._exit(0)
        assert os.waitpid(child, 0)[1] == 0


def test_a_server_answers_from_a_snapshot_that_the_command_line_takes(tmp_path: Path) -> None:
    with Running(make_clinic(tmp_path), names=("research",)) as running:
        first, second = (running.ask(COUNT, epsilon="1").json["receipt"] for _ in range(2))
        assert first == second
        command = [sys.executable, "-m", "sfumato", "refresh", str(running.policy)]
        subprocess.run(command, check=True, capture_output=True)
        third, fourth = (running.ask(COUNT, epsilon="1").json["receipt"] for _ in range(2))
        assert third == fourth
        assert third["version"] != first["version"]
