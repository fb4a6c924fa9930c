"""A handle in a child process: it opens everything again, before anything is charged, or refuses."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.paths.worlds import a_world, policy, write

import sfumato
from sfumato.engines.duckdb import reader as duckdb_reader
from sfumato.errors import EngineFailed
from sfumato.lab.audits.subject import engine_of

COUNT = "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"


def _in_a_child(act: Callable[[], str]) -> str:
    """Return what the act says in a forked process, or what it raised there."""
    read, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # a child that waits for a thread of its parent says nothing
        try:
            said = act()
        except BaseException as error:  # it is told to the parent
            said = f"raised {error!r}"
        os.write(write_end, said.encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read) as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return said


def test_a_child_whose_copy_does_not_open_is_refused_uncharged_and_never_uses_its_parents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, a_world(5, people=30))
    with sfumato.open(policy(tmp_path)) as database:
        inherited = engine_of(database)._reader._connection

        def failing(*_: object) -> None:
            raise EngineFailed()

        def act() -> str:
            said = []
            with monkeypatch.context() as broken:
                broken.setattr(duckdb_reader, "open_copy", failing)
                for _ in range(2):
                    try:
                        database.ask(COUNT, epsilon="0.5")
                    except EngineFailed as refusal:
                        said.append(refusal.code)
            said.append(str(len(database.history())))
            said.append(str(len(database.ask(COUNT, epsilon="0.5").rows())))
            said.append(str(engine_of(database)._reader._connection is inherited))
            said.append(str(len(list(tmp_path.rglob(f"*.spill-{os.getpid()}-*")))))
            database.close()
            return " ".join(said)

        assert _in_a_child(act) == "engine_failed engine_failed 0 3 False 1"
        assert [entry.state for entry in database.history()] == ["settled"]
        assert len(database.ask(COUNT, epsilon="0.25").rows()) == 3  # the parent's own still works


def test_a_child_of_a_child_opens_for_itself_too(tmp_path: Path) -> None:
    write(tmp_path, a_world(5, people=30))
    with sfumato.open(policy(tmp_path)) as database:

        def act() -> str:
            inner = _in_a_child(lambda: str(len(database.ask(COUNT, epsilon="0.5").rows())))
            return f"{inner} {len(database.ask(COUNT, epsilon='0.5').rows())}"

        assert _in_a_child(act) == "3 3"
        assert len(database.history()) == 1


def test_a_lock_that_another_thread_held_at_the_fork_keeps_no_child_waiting(tmp_path: Path) -> None:
    write(tmp_path, a_world(5, people=30))
    with sfumato.open(policy(tmp_path)) as database:
        with engine_of(database)._reader._lock:
            said = _in_a_child(lambda: str(len(database.ask(COUNT, epsilon="0.5").rows())))
        assert said == "3"
