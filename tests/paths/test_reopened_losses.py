"""What caps and bounds cut off is told of the snapshot that gave an answer, whichever snapshot answers now."""

from pathlib import Path
from typing import Any

import pytest

import sfumato
from sfumato.database import Database
from sfumato.planning.bounding.truncation import plan_truncation_release
from sfumato.policy.reading import read_policy
from sfumato.release.release import Release

QUESTIONS = (
    "SELECT COUNT(*) AS n FROM visits",
    "SELECT SUM(cost) AS n FROM visits",
    "SELECT AVG(cost) AS n FROM visits",
    "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept",
)
PEOPLE = 500


def _written(folder: Path, visits: int) -> None:
    (folder / "data").mkdir(exist_ok=True)
    rows = [f"{who},er,{visit * 9}" for who in range(PEOPLE) for visit in range(visits)]
    for name in ("visits", "stays"):
        (folder / "data" / f"{name}.csv").write_text("\n".join(["who,dept,cost", *rows]), encoding="utf-8")


def _policy(folder: Path, capped: str = "visits") -> dict[str, Any]:
    columns = {
        "who": {"type": "integer"},
        "dept": {"type": "text", "values": ["er"]},
        "cost": {"type": "integer", "bounds": [0, 20]},
    }
    tables: dict[str, Any] = {
        name: {"unit": "who", "rows_per_unit": 1, "columns": columns} if name == capped else {"public": True}
        for name in ("visits", "stays")
    }
    return {
        "name": "clinic",
        "source": f"csv:{folder}/data",
        "ledger": f"sqlite:{folder}/clinic.ledger",
        "budget": {"epsilon": 1000, "delta": 0, "truncation": 50},
        "tables": tables,
    }


def _shown(answer: Release) -> tuple[Any, ...]:
    return answer.rows(), answer.intervals(bias=True), answer.intervals(), tuple(map(str, answer.notes))


@pytest.fixture
def asked(tmp_path: Path) -> list[Release]:
    """Answers about a snapshot of which much was cut off; the source holds nothing that is cut off any more."""
    _written(tmp_path, 5)
    with sfumato.open(_policy(tmp_path)) as database:
        found = [database.ask(sql, epsilon=10) for sql in QUESTIONS]
    _written(tmp_path, 1)
    return found


def _reopened(database: Database, answers: list[Release]) -> list[Release]:
    return [database.reopen(one.receipt.id) for one in answers]


def test_an_answer_is_shown_again_with_the_intervals_of_its_own_snapshot(tmp_path: Path, asked: list[Release]) -> None:
    with sfumato.open(_policy(tmp_path)) as database:
        database.refresh()
        before = _reopened(database, asked)
        newer = [database.ask(sql, epsilon=10) for sql in QUESTIONS]  # now its own losses are measured
        after = _reopened(database, asked)
    for first, one, other in zip(asked, before, after, strict=True):
        assert _shown(first) == _shown(one) == _shown(other)
    ((high,),) = ({row["n"][1] for row in one.intervals(bias=True)} for one in after[:1])
    assert high is not None
    assert high >= 5 * PEOPLE  # the rows before the cap: at epsilon 50 noise does not hide 2,000 of them
    assert newer[0].intervals(bias=True)[0]["n"][1] < 2 * PEOPLE


def test_losses_of_another_policy_are_not_read_as_those_of_this_one(tmp_path: Path, asked: list[Release]) -> None:
    """Raising a budget changes no question; but what was published of losses is read by the policy's own plan."""
    words = _policy(tmp_path)
    words["budget"]["epsilon"] = 2000
    one, other = (plan_truncation_release(read_policy(policy)) for policy in (words, _policy(tmp_path, "stays")))
    assert one is not None
    assert other is not None
    assert one.event == other.event  # so that the ledger finds the same noise under policies of different tables
    with sfumato.open(words) as database:
        database.refresh()
        for first, again in zip(asked, _reopened(database, asked), strict=True):
            assert again.rows() == first.rows()
            assert again.intervals() == first.intervals()
        assert _reopened(database, asked)[0].intervals(bias=True) == [{"n": (None, None)}]
