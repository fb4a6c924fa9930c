"""An answer that was given before is shown again as it was, or not at all."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato
from sfumato.errors import BadParameter, PolicyChanged, UnknownName
from sfumato.ledger.sqlite_store import SqliteStore
from sfumato.policy.canonical import policy_hash
from sfumato.policy.reading import read_policy

COST = "SELECT SUM(cost) AS cost FROM visits"


def policy(folder: Path, **cost: object) -> dict[str, Any]:
    pq.write_table(pa.table({"id": [1, 2, 3], "cost": [10.0, 20.0, 30.0]}), folder / "visits.parquet")
    columns = {"id": {"type": "integer"}, "cost": {"type": "decimal", **cost}}
    return {
        "name": "clinic",
        "source": f"parquet:{folder / 'visits.parquet'}",
        "ledger": f"sqlite:{folder / 'ledger' / 'clinic.ledger'}",
        "budget": {"epsilon": 10, "delta": 1e-6},
        "tables": {"visits": {"unit": "id", "rows_per_unit": 1, "columns": columns}},
        "analysts": {"press": {"epsilon": 5}},
    }


@pytest.fixture(autouse=True)
def ledgers(tmp_path: Path) -> None:
    (tmp_path / "ledger").mkdir()


def test_it_is_shown_again_after_a_refresh_and_under_another_budget(tmp_path: Path) -> None:
    words = policy(tmp_path, bounds=[0, 100], step=1)
    with sfumato.open(words) as database:
        answer = database.ask(COST, epsilon=1)
        database.refresh()
        assert database.reopen(answer.receipt.id).rows() == answer.rows()
    words["budget"]["epsilon"] = 9
    with sfumato.open(words) as database:
        assert database.reopen(answer.receipt.id).rows() == answer.rows()
        with pytest.raises(UnknownName, match="no answer with this receipt"):
            database.as_analyst("press").reopen(answer.receipt.id)


def test_one_question_asked_together_with_none_is_that_question(tmp_path: Path) -> None:
    with sfumato.open(policy(tmp_path, bounds=[0, 100], step=1)) as database:
        (answer,) = database.ask_all([COST], epsilon=1)
        assert database.reopen(answer.receipt.id).rows() == answer.rows()
        assert database.ask(COST, epsilon=1).receipt.id == answer.receipt.id


def test_what_is_no_receipt_and_no_number_of_a_question_is_refused_by_what_it_is(tmp_path: Path) -> None:
    with sfumato.open(policy(tmp_path, bounds=[0, 100], step=1)) as database:
        answer = database.ask(COST, epsilon=1)
        for receipt in (5, None, b"x", "x"):
            with pytest.raises(UnknownName, match="no answer with this receipt"):
                database.reopen(receipt)  # type: ignore[arg-type]
        assert database.reopen(answer.receipt.id, question=1).rows() == answer.rows()
        for question in (0, 3, "x"):
            with pytest.raises(BadParameter, match="one question"):
                database.reopen(answer.receipt.id, question=question)


def test_it_is_found_by_its_receipt_and_the_rest_of_the_history_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sfumato.open(policy(tmp_path, bounds=[0, 100], step=1)) as database:
        answer = database.ask(COST, epsilon=1)
        monkeypatch.setattr(SqliteStore, "rows", None)
        assert database.reopen(answer.receipt.id).rows() == answer.rows()


def test_integers_are_not_read_on_another_grid(tmp_path: Path) -> None:
    with sfumato.open(policy(tmp_path, bounds=[0, 100], step=1)) as database:
        answer = database.ask(COST, epsilon=1)
    finer = policy(tmp_path, bounds=[0, 10], step=0.1)  # the same integers, and the same event
    confirmed = policy_hash(read_policy(finer))
    with (
        sfumato.open(finer, confirm=confirmed) as database,
        pytest.raises(PolicyChanged, match="cannot be shown again"),
    ):
        database.reopen(answer.receipt.id)


MET = (
    "SELECT COUNT(*) AS n FROM visits JOIN wards USING (dept)",
    "SELECT COUNT(*) AS n, SUM(days) AS days FROM stays JOIN wards USING (dept)",
    "SELECT COUNT(DISTINCT days) AS n FROM stays JOIN wards USING (dept)",
    "SELECT COUNT(*) AS n FROM stays a JOIN wards USING (dept) JOIN stays b ON a.days = b.days AND a.id <> b.id",
    "SELECT AVG(beds) AS mean FROM people JOIN (SELECT dept, COUNT(*) AS beds FROM wards GROUP BY dept) w USING (dept)",
    "SELECT MEDIAN(beds) AS mid FROM people JOIN (SELECT dept, COUNT(*) AS beds FROM wards GROUP BY dept) w "
    "USING (dept)",
)


def test_it_is_not_shown_with_the_noise_of_another_public_table(tmp_path: Path) -> None:
    """The event is a pure loss, whatever one person moves; how far the kept noise reaches depends on that."""
    data = tmp_path / "data"
    data.mkdir()
    rows = "".join(f"{person},er,{days}\n" for person in range(9) for days in range(6))
    for name in ("visits", "stays", "people"):
        (data / f"{name}.csv").write_text(f"id,dept,days\n{rows}", encoding="utf-8")
    (data / "wards.csv").write_text("dept\ner\n" + 3 * "icu\n", encoding="utf-8")
    columns = {
        "id": {"type": "integer"},
        "dept": {"type": "text", "values": ["er", "icu"]},
        "days": {"type": "integer", "bounds": [0, 60]},
    }
    words = {
        **policy(tmp_path),
        "source": f"csv:{data}",
        "tables": {
            "visits": {"unit": "id", "rows_per_unit": {"most": 9, "choose": "private"}, "columns": columns},
            "stays": {"unit": "id", "rows_per_unit": 9, "columns": columns},
            "people": {"unit": "id", "rows_per_unit": 1, "columns": columns},
            "wards": {"public": True},
        },
    }
    with sfumato.open(words) as database:
        answers = [database.ask(sql, epsilon=1) for sql in MET]
        for answer in answers:
            assert database.reopen(answer.receipt.id).intervals() == answer.intervals()
        (data / "wards.csv").write_text("dept\n" + 3 * "er\n" + 5 * "icu\n", encoding="utf-8")
        database.refresh()
        for answer in answers:
            with pytest.raises(PolicyChanged, match="cannot be shown again"):
                database.reopen(answer.receipt.id)
