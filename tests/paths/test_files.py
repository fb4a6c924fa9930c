"""Neighbours at the level of files: whatever one person writes, in whichever format, only that person's rows differ."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.paths.files import EVERYBODY
from tests.refusals import refusing

from sfumato.lab.audits.files import UNBOUNDED_ROWS, alarms_of, policy_of, try_seed
from sfumato.lab.audits.subject import Subject, engine_of, move_policy, open_database, write_salt
from sfumato.lab.generators.scratch import scratch
from sfumato.lab.generators.seeded import Seeded
from sfumato.lab.generators.seeded_random import SeededDice
from sfumato.lab.generators.source_files import (
    HARD,
    NAMES,
    WRITERS,
    Sheet,
    SheetRow,
    Sheets,
    expected_sums,
    generate_files,
)

CASES = [(scheme, name) for scheme, writers in EVERYBODY.items() for name in writers]
MALFORMED = (
    'person,n\n1,"5\n2,7\n3,8\n',
    'person,n\n1,5"6\n2,7\n',
    "person,n\n1,5,9\n2,7\n",
    "person,n\n1\n2,7\n",
    "person,n\n1,5\r6\n2,7\n",
)
"""Files in which one record could be taken for others': refused, never guessed."""


@pytest.mark.parametrize(("scheme", "writer"), CASES, ids=["-".join(case) for case in CASES])
def test_one_person_changes_nobody_elses_rows(scheme: str, writer: str, tmp_path: Path) -> None:
    dice = SeededDice((scheme, writer))
    sheets = generate_files(scheme, [writer], dice)
    found = list(alarms_of(sheets, dice.choice(sheets.owners), tmp_path, dice, EVERYBODY[scheme]))
    assert found == []


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False))
@pytest.mark.parametrize("scheme", sorted(EVERYBODY))
def test_no_random_source_lets_one_person_change_another(scheme: str, random: Random) -> None:
    sheets = generate_files(scheme, sorted(EVERYBODY[scheme]), random, people=3)
    with scratch() as folder:
        found = list(alarms_of(sheets, random.choice(sheets.owners), folder, random, EVERYBODY[scheme]))
    assert found == []


@pytest.mark.parametrize("text", sorted(set(HARD["city"]) - {"caf\udce9"}), ids=lambda text: ascii(text[:12]))
def test_every_text_survives_a_csv_file(text: str, tmp_path: Path) -> None:
    plain = {"person": "1", "n": "5", "amount": "1", "city": text, "day": "", "seen": "", "flag": "", "weight": ""}
    rows = tuple(SheetRow(owner, {**plain, "person": str(owner), "note": text}) for owner in (1, 2, 3))
    sheets = Sheets("csv", (Sheet("part0", rows, {}),), (("csv", 0),))
    sheets.write(tmp_path / "data" / "visits", WRITERS["csv"])
    write_salt(tmp_path)
    moved = move_policy(policy_of("csv", UNBOUNDED_ROWS), tmp_path, scheme="csv")
    with open_database(moved, tmp_path, Seeded(1)) as database:
        engine = engine_of(database)
        found = engine._reader.rows(f"SELECT city FROM {engine._tables['visits']}")  # noqa: S608
    kept = {city for (city,) in found}
    assert len(found) == 3
    assert len(kept) == 1
    assert text.startswith(kept.pop()), "a text is kept, or cut at its declared length"


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_file_is_refused_and_not_guessed(text: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "visits.csv").write_text(text, newline="")
    write_salt(tmp_path)
    declared = {"person": {"type": "integer"}, "n": {"type": "integer", "bounds": [0, 100]}}
    moved = move_policy(policy_of("csv", UNBOUNDED_ROWS, declared), tmp_path, scheme="csv")
    with refusing() as refused, open_database(moved, tmp_path, Seeded(1)):
        pass
    assert refused.value.code == "bad_source"


def test_a_text_that_is_nearly_a_number_is_nobody(tmp_path: Path) -> None:
    """The text 1.4 is not the person 1, in the copy or anywhere."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "visits.csv").write_text("person,n\n1,5\n1.4,90\n0.6,90\n2,7\n")
    write_salt(tmp_path)
    declared = {"person": {"type": "integer"}, "n": {"type": "integer", "bounds": [0, 100]}}
    moved = move_policy(policy_of("csv", UNBOUNDED_ROWS, declared), tmp_path, scheme="csv")
    with open_database(moved, tmp_path, Seeded(1)) as database:
        subject = Subject(moved, engine_of(database))
        plan = subject.plan("SELECT COUNT(*) AS n, SUM(n) AS s FROM visits")
        (group,) = subject.run(plan).groups
        assert sorted(int(column[0]) for column in group.columns.values()) == [2, 12]


def test_the_meaning_of_files_is_computed_without_the_library() -> None:
    row = {**dict.fromkeys(NAMES, ""), "person": "1", "n": "250", "amount": "0.015", "day": "05/01/2024"}
    meant = expected_sums(Sheets("csv", (Sheet("a", (SheetRow(1, row), SheetRow(1, row)), {}),), (("csv", 0),)))
    assert (meant.rows, meant.sums["n"], meant.sums["amount"], meant.counts["day"]) == (2, 200, 4, 0)


def test_the_same_number_is_the_same_source(tmp_path: Path) -> None:
    one, two = (generate_files("csv", ["csv"], SeededDice(("s", 7))) for _ in range(2))
    assert one == two
    assert try_seed(3, "again", tmp_path) == []
