"""Backup and restore as an owner types them: a running server is backed up, and its answers are free elsewhere."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.backups.clinic import write_policy
from tests.server.running import Running

from sfumato.cli import main
from sfumato.policy.reading import read_policy
from sfumato.server.grants import Grants

COUNT = "SELECT COUNT(*) AS n FROM visits"
AVERAGE = "SELECT AVG(age) AS age FROM visits"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.fixture
def policy_file(tmp_path: Path) -> Path:
    path = write_policy(tmp_path / "here")
    path.write_text(path.read_text() + "\n[analysts.research]\nepsilon = 1\n")
    path.with_name("visits.csv").write_text("patient_id,age\n1,30\n2,40\n3,50\n")
    return path


def test_a_running_server_is_backed_up_and_restored_elsewhere_with_its_answers(
    policy_file: Path, tmp_path: Path
) -> None:
    with Running(policy_file, ("--http-port", "0", "--pg-port", "0")) as server:
        answered = server.ask(COUNT, epsilon="0.25").json
        written = run("backup", policy_file, tmp_path / "monday")
        assert written.stdout.startswith("Backed up 3 ledger entries"), written.stderr
        later = server.ask(AVERAGE, epsilon="0.25").json["receipt"]
        token = server.token()
    there = tmp_path / "there"
    there.mkdir()
    shutil.copy2(policy_file.with_name("visits.csv"), there)
    restored = run("restore", tmp_path / "monday", "--into", there)
    assert "It answers nothing yet." in restored.stdout
    assert "Revoke again what was revoked after it." in restored.stdout
    moved = there / "clinic.toml"
    refused = run("ask", moved, COUNT, "--epsilon", "0.25", "--analyst", "research")
    assert (refused.exit_code, "ledger_restored" in refused.stderr) == (2, True)
    receipt = f"{later['sequence']}:{later['head']}"
    assert "ledger_damaged" in run("verify", moved, "--receipt", receipt).stderr
    assert "bad_parameter" in run("restore", tmp_path / "monday", "--into", there, "--lost-epsilon", "0.25").stderr
    sentence = "I accept that answers after entry 3 may be lost"
    accepted = run("restore", tmp_path / "monday", "--into", there, "--accept", sentence, "--lost-epsilon", "0.25")
    assert (accepted.exit_code, accepted.stderr) == (0, "")
    assert Grants(read_policy(moved), moved).of_token(token) is not None
    again = run("ask", moved, COUNT, "--epsilon", "0.25", "--analyst", "research", "--format", "json")
    assert json.loads(again.stdout)["rows"] == answered["rows"]  # the same answer, at no cost
    budget = json.loads(run("budget", moved, "--format", "json").stdout)
    assert budget["spent"]["epsilon"] in ("0.5", "1/2")


def test_a_restore_to_the_same_place_leaves_a_longer_ledger_alone(policy_file: Path, tmp_path: Path) -> None:
    run("ask", policy_file, COUNT, "--epsilon", "0.25")
    run("backup", policy_file, tmp_path / "monday")
    run("ask", policy_file, AVERAGE, "--epsilon", "0.25")
    refused = run("restore", tmp_path / "monday")
    assert (refused.exit_code, "restore_goes_back" in refused.stderr) == (2, True)
    assert "bad_parameter" in run("backup", policy_file, tmp_path / "monday").stderr
    assert "backup_damaged" in run("restore", tmp_path / "nowhere").stderr
