"""A backup carries the cohorts that were kept: after a restore each person pays from the cohort that they paid from."""

import shutil
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

import sfumato
from sfumato.backups.backup import back_up
from sfumato.backups.restore import restore
from sfumato.cli import main
from sfumato.engines.cohort_set import cohorts_of
from sfumato.errors import RestoreGoesBack
from sfumato.ledger.restoring import Acceptance, acceptance_sentence

POLICY = """
name = "clinic"
source = "csv:data"
ledger = "sqlite:clinic.ledger"
cohort = "patients.region"

[budget]
epsilon = 4_000_000
delta = 0

[tables.patients]
unit = "id"
rows_per_unit = 1

[tables.patients.columns]
id = { type = "integer" }
region = { type = "text", values = ["north", "south"] }
"""
COUNT = "SELECT COUNT(*) AS n FROM patients WHERE region = '{}'"
HUGE = 10**6
"""At this epsilon there is no noise: what is read is seen."""


def _write(folder: Path, regions: dict[int, str]) -> Path:
    (folder / "data").mkdir(parents=True, exist_ok=True)
    rows = "".join(f"{who},{region}\n" for who, region in regions.items())
    (folder / "data" / "patients.csv").write_text(f"id,region\n{rows}")
    path = folder / "clinic.toml"
    path.write_text(POLICY)
    return path


def _said(*words: object) -> str:
    found = CliRunner().invoke(main, [str(word) for word in words])
    assert found.exit_code == 0, found.output
    return found.output


@pytest.mark.parametrize("lost", [None, "1"])
def test_cohorts_are_those_of_the_backup_wherever_people_have_moved(tmp_path: Path, lost: str | None) -> None:
    policy = _write(tmp_path / "here", {1: "north", 2: "north", 3: "south"})
    with sfumato.open(policy) as database:
        database.ask(COUNT.format("north"), epsilon=HUGE)
        kept, before = cohorts_of(database.engine), database.budget().cohorts
    _said("backup", policy, tmp_path / "backup")
    assert (tmp_path / "backup" / "cohorts").stat().st_mode & 0o077 == 0
    shutil.rmtree(tmp_path / "here")
    _write(tmp_path / "there", {1: "south", 2: "north", 3: "south", 4: "south"}).unlink()
    sentence = acceptance_sentence(_entries(tmp_path / "backup"))
    counted = [] if lost is None else ["--lost-epsilon", lost]
    _said("restore", tmp_path / "backup", "--into", tmp_path / "there", "--accept", sentence, *counted)
    with sfumato.open(tmp_path / "there" / "clinic.toml") as database:
        assert cohorts_of(database.engine) == kept
        more = Fraction(lost or 0)
        spent = {name: budget.spent.epsilon - more for name, budget in database.budget().cohorts.items()}
        assert spent == {name: budget.spent.epsilon for name, budget in before.items()}
        assert spent["north"] == HUGE
        assert spent["south"] == 0
        (row,) = database.ask(COUNT.format("south"), epsilon=HUGE).rows()
        assert row["n"] == 2  # who moved there has paid in the north, and is not read
        assert database.verify()


def _entries(folder: Path) -> int:
    from sfumato.backups.manifest import read_backup_manifest

    return read_backup_manifest(folder).entries


def test_a_ledger_with_later_charges_gets_no_older_cohorts(tmp_path: Path) -> None:
    """People who came after the backup are not in it: with it they could move to a cohort that has not paid."""
    policy = _write(tmp_path, {1: "north"})
    with sfumato.open(policy) as database:
        database.ask(COUNT.format("north"), epsilon=HUGE)
    back_up(policy, tmp_path / "backup")
    _write(tmp_path, {1: "north", 2: "north"})
    with sfumato.open(policy) as database:
        database.refresh()
        database.ask(COUNT.format("north"), epsilon=HUGE)
    kept = tmp_path / "clinic.ledger.copy.cohorts"
    kept.unlink()
    with pytest.raises(RestoreGoesBack):
        restore(tmp_path / "backup", None, None)
    assert not kept.exists()
    _write(tmp_path, {1: "north", 2: "south"})
    with sfumato.open(policy) as database:
        database.refresh()
        assert {budget.spent.epsilon for budget in database.budget().cohorts.values()} == {2 * HUGE}


def test_a_restored_ledger_that_went_on_gets_no_older_cohorts(tmp_path: Path) -> None:
    policy = _write(tmp_path, {1: "north"})
    with sfumato.open(policy) as database:
        database.ask(COUNT.format("north"), epsilon=HUGE)
    back_up(policy, tmp_path / "backup")
    for path in tmp_path.glob("clinic.ledger*"):
        path.unlink()
    accept = Acceptance(acceptance_sentence(_entries(tmp_path / "backup")), None)
    kept = tmp_path / "clinic.ledger.copy.cohorts"
    assert restore(tmp_path / "backup", None, None).ledger.is_at_cut
    assert kept.exists()
    restore(tmp_path / "backup", None, accept)
    _write(tmp_path, {1: "north", 2: "north"})
    with sfumato.open(policy) as database:
        database.refresh()
        database.ask(COUNT.format("north"), epsilon=HUGE)
    for path in tmp_path.glob("clinic.ledger.copy*"):
        path.unlink()
    assert not restore(tmp_path / "backup", None, accept).ledger.is_at_cut
    assert not kept.exists()


def test_kept_cohorts_that_are_there_are_left_alone(tmp_path: Path) -> None:
    policy = _write(tmp_path, {1: "north"})
    with sfumato.open(policy) as database:
        database.ask(COUNT.format("north"), epsilon=HUGE)
    back_up(policy, tmp_path / "backup")
    _write(tmp_path, {1: "north", 2: "north"})
    with sfumato.open(policy) as database:
        database.refresh()
    kept = (tmp_path / "clinic.ledger.copy.cohorts").read_bytes()
    done = restore(tmp_path / "backup", None, Acceptance(acceptance_sentence(_entries(tmp_path / "backup")), None))
    assert (tmp_path / "clinic.ledger.copy.cohorts").read_bytes() == kept
    assert "snapshot" in done.kept
