"""The auditor is proved: every planted bug fits the source, and the table names the audit that noticed it."""

from pathlib import Path

import pytest
from tests.planted.bug import Bug, Edit
from tests.planted.bugs import BUGS
from tests.planted.planting import Outcome, outcome, planted, table

from sfumato.lab.audits.audit import AUDITS

REPOSITORY = Path(__file__).resolve().parents[2]
TABLE = (REPOSITORY / "docs" / "audits.md").read_text(encoding="utf-8")
HANDFUL = ("threshold of counts off by one", "answers kept across analysts", "Laplace noise × 0.8")


def test_there_are_bugs_for_every_audit() -> None:
    assert len(BUGS) >= 25
    assert {bug.first for bug in BUGS if not bug.by_law} == set(AUDITS)
    laws = {law.partition("::")[0] for bug in BUGS if bug.by_law for law in bug.first.split()}
    assert all((REPOSITORY / law).is_file() for law in laws)
    assert len({bug.name for bug in BUGS}) == len(BUGS)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_fits_the_source_as_it_is(bug: Bug) -> None:
    """A change of a line that a bug is planted in also changes the bug."""
    for edit in bug.edits:
        text = (REPOSITORY / "src" / "sfumato" / edit.file).read_text(encoding="utf-8")
        assert text.count(edit.old) == 1
        compile(text.replace(edit.old, edit.new), edit.file, "exec")


def test_what_does_not_fit_is_not_planted(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="0 times"):
        planted(Bug("nothing", "exact", (Edit("errors.py", "this text is nowhere", ""),)), tmp_path)


@pytest.mark.parametrize("name", HANDFUL)
def test_a_planted_bug_is_caught(name: str) -> None:
    bug = next(bug for bug in BUGS if bug.name == name)
    assert outcome(bug).audit == bug.first


def test_the_table_of_the_docs_holds_every_bug_and_none_uncaught() -> None:
    rows = [line.split(" | ") for line in TABLE.splitlines() if line.startswith("| ")][1:]
    caught = {row[0].removeprefix("| "): row[1] for row in rows}
    assert [bug.name for bug in BUGS if caught.get(bug.name) not in {*AUDITS, bug.first}] == []
    assert "\n| " not in TABLE.partition("\n## What an audit cannot see\n")[2]  # no row stands below the table


def test_a_bug_that_nobody_noticed_is_told_as_such() -> None:
    assert "**not caught**" in table([Outcome(BUGS[0], None, "", 1.0)])
