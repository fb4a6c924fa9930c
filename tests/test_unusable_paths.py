"""A path that the operating system does not take is refused, wherever it was written."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.sealed.clinic import rows, sealed_policy

import sfumato
from sfumato.cli import main
from sfumato.sealed.database import open_sealed, rotate, seal

LONG = "a" * 300
"""A name that no file system takes."""
VISITS = {"unit": "id", "rows_per_unit": 1, "columns": {"id": {"type": "integer"}}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "visits").mkdir(parents=True)
    (tmp_path / "data" / "visits" / "part.csv").write_text("id\n1\n2\n")
    return tmp_path


def _policy(folder: Path, **changed: object) -> dict[str, Any]:
    return {
        "name": "clinic",
        "source": f"csv:{folder}/data",
        "ledger": f"sqlite:{folder}/clinic.ledger",
        "budget": {"epsilon": 1, "delta": 0},
        "tables": {"visits": VISITS},
        **changed,
    }


@pytest.mark.parametrize("key", ["source", "ledger"])
@pytest.mark.parametrize("place", [LONG, "closed/x"], ids=["long name", "closed folder"])
def test_a_location_that_cannot_be_looked_at_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, key: str, place: str
) -> None:
    _close(monkeypatch, folder / "closed" / "x")
    scheme = {"source": "csv", "ledger": "sqlite"}[key]
    with pytest.raises(sfumato.Refusal) as refused:
        sfumato.open(_policy(folder, **{key: f"{scheme}:{folder}/{place}"}))
    assert refused.value.code in ("bad_source", "ledger_unavailable")
    assert LONG not in str(refused.value)


def test_a_ledger_without_a_name_is_refused(folder: Path) -> None:
    with pytest.raises(sfumato.Refusal, match="ledger"):
        sfumato.open(_policy(folder, ledger="sqlite:/"))


def test_a_folder_that_cannot_be_listed_is_refused_and_not_left_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = folder / "data" / "visits" / "closed"
    closed.mkdir()
    (closed / "part.csv").write_text("id\n3\n")
    listed = os.scandir

    def scandir(path: Any = ".") -> Any:
        if Path(path) == closed:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(sfumato.Refusal) as refused:
        sfumato.open(_policy(folder))
    assert refused.value.code == "bad_source"


@pytest.mark.parametrize(
    "command",
    [
        *(["init", LONG], ["init", "closed/x"], ["init", "data", "-o", LONG]),
        *(["demo", LONG], ["serve", LONG], ["serve", "closed/x"], ["restore", "closed/x"]),
        *(["backup", "clinic.toml", LONG], ["backup", "clinic.toml", "closed/x"]),
        ["report", "clinic.toml", "--format", "md", "-o", LONG],
        ["ask", "clinic.toml", "SELECT COUNT(*) FROM visits", "--epsilon", "0.1", "-o", f"{LONG}.csv"],
        ["ask", "clinic.toml", "SELECT COUNT(*) FROM visits", "--epsilon", "0.1", "--plot", f"{LONG}.svg"],
    ],
    ids=lambda command: " ".join(command).replace(LONG, "LONG")[:40],
)
def test_every_command_refuses_such_a_path(folder: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    (folder / "clinic.toml").write_text(
        'name = "clinic"\nsource = "csv:data"\n[budget]\nepsilon = 1\ndelta = 0\n'
        '[tables.visits]\nunit = "id"\nrows_per_unit = 1\n[tables.visits.columns]\nid = { type = "integer" }\n'
    )
    _close(monkeypatch, folder / "closed" / "x")
    result = CliRunner().invoke(main, command)
    assert (result.exit_code, type(result.exception)) == (2, SystemExit), result.exception
    assert "Refused" in result.output
    assert "why:" in result.output


@pytest.mark.parametrize("key", ["key", "store", "ledger"])
def test_a_sealed_dataset_refuses_such_a_path(folder: Path, key: str) -> None:
    policy = sealed_policy(folder)
    scheme = {"key": "file", "store": "duckdb", "ledger": "sqlite"}[key]
    (policy if key == "ledger" else policy["sealed"])[key] = f"{scheme}:{folder}/{LONG}"
    with pytest.raises(sfumato.Refusal):
        seal(policy, "visits", rows(3))
    with pytest.raises(sfumato.Refusal):
        open_sealed(policy)
    with pytest.raises(sfumato.Refusal):
        rotate(sealed_policy(folder), folder / LONG, {})


def _close(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Let the operating system refuse to look at a path, as it does in a folder of somebody else."""
    looked = Path.stat

    def stat(self: Path, **more: Any) -> os.stat_result:
        if self.absolute() == path:
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return looked(self, **more)

    monkeypatch.setattr(Path, "stat", stat)
