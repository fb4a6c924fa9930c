"""The tour shows what the system is for, leaves a folder to explore, and touches no folder of anybody else."""

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyarrow import parquet
from tests.made_up_clinic import PATIENTS, clinic, console, toured

from sfumato.demo import tour as demo_tour
from sfumato.demo.clinic import DEPARTMENTS, MadeUp, patients_seen, write_clinic
from sfumato.demo.tour import PATIENTS_PER_DEPARTMENT, QUESTIONS, prepare_demo
from sfumato.errors import BadParameter
from sfumato.opening import open


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tour") / "clinic"


@pytest.fixture(scope="module")
def screen(folder: Path) -> str:
    return toured(folder)


def test_the_clinic_is_the_same_from_every_run(tmp_path: Path) -> None:
    digests = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        write_clinic(tmp_path / name, 500)
        files = sorted((tmp_path / name).iterdir())
        digests.append([(file.name, hashlib.sha256(file.read_bytes()).hexdigest()) for file in files])
    assert digests[0] == digests[1]
    assert [name for name, _ in digests[0]] == ["departments.parquet", "patients.parquet", "visits.parquet"]


def test_made_up_bits_are_one_stream_however_they_are_read() -> None:
    whole, parts = MadeUp().read(3_000_000), MadeUp()
    assert b"".join(parts.read(size) for size in (1, 1_048_575, 0, 1_048_577, 902_847)) == whole


def test_visits_have_a_heavy_tail() -> None:
    visits = Counter(parquet.read_table(clinic() / "data" / "visits.parquet")["patient_id"].to_pylist())
    assert len(visits) == PATIENTS
    assert sum(count == 1 for count in visits.values()) > PATIENTS / 3
    assert max(visits.values()) > 10 * sum(visits.values()) / PATIENTS


def test_the_truth_that_is_shown_is_the_truth() -> None:
    table = parquet.read_table(clinic() / "data" / "visits.parquet", columns=["dept", "patient_id"])
    pairs = set(zip(table["dept"].to_pylist(), table["patient_id"].to_pylist(), strict=True))
    assert patients_seen(clinic() / "data") == Counter(dept for dept, _ in pairs)


def test_the_tour_asks_every_question_in_order_and_says_how_to_go_on(screen: str) -> None:
    titles = [*(f"{number}  {question.title}" for number, question in enumerate(QUESTIONS, 1)), "Go on from here"]
    places = [screen.index(title) for title in titles]
    assert places == sorted(places)
    for verb in ("ask", "explain", "sql", "check", "history", "init", "attack"):
        assert re.search(rf"(?m)^   .*sfumato {verb}\b", screen)


def test_the_tour_fits_into_80_columns_and_cuts_nothing_off(screen: str) -> None:
    told, _, _ = screen.partition("Go on from here")
    assert max(map(len, told.splitlines())) <= 80
    assert "…" not in told


def test_the_tour_draws_every_department_with_its_margin_and_the_truth_beside_it(screen: str) -> None:
    first = screen[screen.index(PATIENTS_PER_DEPARTMENT.title) : screen.index(QUESTIONS[1].title)]
    rows = re.findall(r"(?m)^   (\w+) +([\d,]+) ± ([\d,]+) \*  █*░+ +([\d,]+) *$", first)
    assert sorted(name for name, *_ in rows) == sorted(department.key for department in DEPARTMENTS)
    held = sum(abs(_number(noisy) - _number(true)) <= _number(margin) for _, noisy, margin, true in rows)
    assert f"{held} of {len(rows)} error bars hold the truth." in first
    assert held >= 2  # each misses with 5 %: seven of eight miss with less than 1e-8


def _number(shown: str) -> int:
    return int(shown.replace(",", ""))


def test_the_tour_shows_a_refusal_with_its_remedy_and_a_question_that_is_free_again(screen: str) -> None:
    assert "Refused (unbounded_sum)" in screen
    assert "next: Declare them: [tables.visits.columns] stay_hours" in " ".join(screen.split())
    assert "asked before, so free now" in screen[screen.index(QUESTIONS[-1].title) :]


def test_the_budget_goes_down_with_each_answer_and_not_with_the_free_one(screen: str) -> None:
    left = [float(percent) for percent in re.findall(r"([\d.]+) % left", screen)]
    assert left == sorted(left, reverse=True)
    assert left[0] > left[2]
    assert left[-1] == left[-2]


def test_a_second_tour_through_the_folder_is_free(folder: Path, screen: str) -> None:
    with open(folder / "clinic.toml") as database:
        spent = database.budget().spent
    again = toured(folder)
    with open(folder / "clinic.toml") as database:
        assert database.budget().spent == spent
    assert "is there already" in " ".join(again.split())
    assert " ".join(again.split()).count("asked before, so free now") == len(QUESTIONS) - 1


def test_the_tour_has_no_colours_where_nobody_sees_them(folder: Path, screen: str) -> None:
    assert "\x1b" not in screen
    assert "\x1b[" in toured(folder, color=True)


def test_the_tour_works_on_a_terminal_without_unicode(folder: Path, screen: str) -> None:
    shown = toured(folder, encoding="ascii")
    assert shown.isascii()
    assert "####" in shown


def test_a_folder_of_somebody_else_is_refused_and_not_touched(tmp_path: Path) -> None:
    (tmp_path / "clinic.toml").write_text('name = "ours"\n', encoding="utf-8")
    with pytest.raises(BadParameter, match="is not the demo's"):
        prepare_demo(tmp_path, console()[0], 10)
    assert [path.name for path in tmp_path.iterdir()] == ["clinic.toml"]


def test_a_demo_that_is_cut_off_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut_off(folder: Path, _patients: int) -> None:
        (folder / "visits.parquet").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(demo_tour, "write_clinic", cut_off)
    with pytest.raises(KeyboardInterrupt):
        prepare_demo(tmp_path / "clinic", console()[0], 10)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_a_refusal(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadParameter, match="cannot be written"):
        prepare_demo(tmp_path / "file" / "clinic", console()[0], 10)


def test_the_whole_demo_takes_less_than_30_seconds_as_a_program(tmp_path: Path) -> None:
    before = os.times()
    command = [sys.executable, "-m", "sfumato", "demo"]
    run = subprocess.run(command, capture_output=True, encoding="utf-8", cwd=tmp_path, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert "100,000 patients" in run.stdout
    after = os.times()  # the processor's time, so that a busy machine does not count
    assert after.children_user + after.children_system - before.children_user - before.children_system < 30
    assert {"data", "clinic.toml", "clinic.ledger"} <= {path.name for path in (tmp_path / "sfumato-demo").iterdir()}
