"""What `check_policy` tells the owner about the data is exact, complete, and nowhere but on the terminal."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import sfumato
from sfumato.cli import main
from sfumato.engines.inspection import InspectedColumn, SourceReport
from sfumato.engines.opening import inspected
from sfumato.errors import BadParameter
from sfumato.policy.reading import read_policy
from sfumato.terminal.checks import check_policy
from sfumato.terminal.trial_runs import MAX_QUESTIONS, shorten_sql, trial_run, typical_questions

POLICY = """
source = "csv:data"
[budget]
epsilon = {epsilon}
delta = {delta}
[tables.visits]
unit = "patient_id"
rows_per_unit = 2
[tables.visits.columns]
patient_id = {{ type = "integer" }}
visit = {{ type = "integer", unique = true }}
age = {{ type = "integer", bounds = [0, 100] }}
cost = {{ type = "decimal", bounds = [0, 10], step = 0.01 }}
day = {{ type = "date" }}
dept = {{ type = "text", values = ["er", "icu"] }}
ward = {{ type = "text", values = "wards.ward" }}
note = {{ type = "text", length = 3 }}
[tables.bills]
unit = "visits.patient_id via visit = visit"
rows_per_unit = 1
[tables.bills.columns]
bill_id = {{ type = "integer" }}
visit = {{ type = "integer" }}
[tables.wards]
public = true
[analysts.press]
epsilon = 1
"""
VISITS = """patient_id,visit,age,cost,day,dept,ward,note
1,10,30,"1,5",31/12/2024,er,a,ab
1,11,130,2,2024-01-01,icu,b,abcd
1,11,-1,99,01/02/2024,xray,z,
NA,12,NA,3,2024-01-02,,a,abc
x,13,40,4,,er,a,abc
2,14,50,5,2024-01-03,er,a,abc
"""


@pytest.fixture
def clinic(tmp_path: Path) -> Callable[..., Path]:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "visits.csv").write_text(VISITS, encoding="utf-8")
    (tmp_path / "data" / "bills.csv").write_text("bill_id,visit\n1,10\n2,10\n3,14\n4,99\n", encoding="utf-8")
    (tmp_path / "data" / "wards.csv").write_text("ward\na\nb\n", encoding="utf-8")

    def write(epsilon: str = "1", delta: str = "0") -> Path:
        (tmp_path / "clinic.toml").write_text(POLICY.format(epsilon=epsilon, delta=delta), encoding="utf-8")
        return tmp_path / "clinic.toml"

    return write


def _of(report: SourceReport, name: str) -> InspectedColumn:
    return next(column for column in report.columns if column.column == name)


def test_everything_that_is_lost_is_counted_exactly(clinic: Callable[..., Path]) -> None:
    report = inspected(read_policy(clinic()))
    assert report is not None
    visits, bills = report.tables
    assert (visits.rows, visits.people, visits.rows_without_unit, visits.units_over_bound, visits.removed) == (
        6,
        2,
        2,
        1,
        1,
    )
    assert visits.repeated == 1  # visit 11 of patient 1
    assert (bills.rows, bills.people, bills.rows_without_unit, bills.units_over_bound, bills.removed) == (4, 2, 1, 1, 1)
    age, cost, day = _of(report, "age"), _of(report, "cost"), _of(report, "day")
    assert (age.present, age.unreadable, age.below, age.above) == (6, 1, 1, 1)
    assert (cost.unreadable, cost.above) == (1, 1)
    assert (day.present, day.unreadable) == (5, 2)
    assert (_of(report, "dept").undeclared, _of(report, "ward").undeclared, _of(report, "note").cut) == (1, 1, 1)
    assert _of(report, "patient_id").unreadable == 2


def test_the_form_that_would_read_more_is_named(clinic: Callable[..., Path]) -> None:
    report = inspected(read_policy(clinic()))
    assert report is not None
    assert _of(report, "day").remedy == 'format = "%d/%m/%Y" reads 2'
    assert _of(report, "cost").remedy == '[csv] decimal = "," reads 1'
    assert _of(report, "age").remedy == '[csv] null = ["NA"] reads 1'


def test_a_mark_for_a_missing_value_names_nobody(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("who,age\nNA,3\nNA,4\nann,5\n", encoding="utf-8")
    policy: dict[str, Any] = {
        "source": f"csv:{tmp_path / 'visits.csv'}",
        "ledger": f"sqlite:{tmp_path / 'a.ledger'}",
        "budget": {"epsilon": 1, "delta": 0},
        "tables": {"visits": {"unit": "who", "rows_per_unit": 1, "columns": {"who": {"type": "text"}}}},
    }
    before, after = inspected(read_policy(policy)), inspected(read_policy({**policy, "csv": {"null": ["NA"]}}))
    assert before is not None
    assert after is not None
    assert (before.people, _of(before, "who").marked, _of(before, "who").remedy) == (
        2,
        2,
        '[csv] null = ["NA"] reads 2',
    )
    assert (after.people, after.tables[0].rows_without_unit, _of(after, "who").marked) == (1, 2, 0)


def test_check_says_it_at_the_terminal_and_nowhere_else(clinic: Callable[..., Path]) -> None:
    policy = clinic(epsilon="20", delta="0.6")
    shown = CliRunner().invoke(main, ["check", str(policy)])
    assert shown.exit_code == 0, shown.output
    assert "Only for the data owner." in shown.output
    assert 'visits.day: 2 of 5 values are not of type date; format = "%d/%m/%Y" reads 2.' in shown.output
    assert "budget.epsilon is 20. Above 10 it promises almost nothing" in shown.output
    assert "budget.delta = 0.6 is above one in the number of people, which is 2" in shown.output
    assert "bills.bill_id looks like a key. With unique = true" not in shown.output  # one row of each person counts
    document = CliRunner().invoke(main, ["check", str(policy), "--format", "json"])
    assert not {"rows", "people_counted", "useful"} & set(json.loads(document.output))
    assert "Only for the data owner" not in document.output
    left = {path.name.partition("copy-")[0] for path in policy.parent.iterdir()}
    assert not any("build" in name for name in left)


def test_nothing_is_warned_about_where_nothing_is_wrong(clinic: Callable[..., Path]) -> None:
    shown = CliRunner().invoke(main, ["check", str(clinic())])
    assert "Above 10" not in shown.output
    assert "above one in the number of people" not in shown.output


def test_a_key_that_is_not_declared_is_hinted_at(tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("order_id,customer\n1,1\n", encoding="utf-8")
    columns: dict[str, Any] = {"order_id": {"type": "integer"}, "customer": {"type": "integer"}}
    policy: dict[str, object] = {
        "source": f"csv:{tmp_path / 'orders.csv'}",
        "ledger": f"sqlite:{tmp_path / 'a.ledger'}",
        "budget": {"epsilon": 1, "delta": 0},
        "tables": {"orders": {"unit": "customer", "rows_per_unit": 20, "columns": columns}},
    }
    with sfumato.open(policy) as database:
        assert any(
            "orders.order_id looks like a key. With unique = true" in hint for hint in check_policy(database).hints
        )


def test_a_rehearsal_is_the_owners_and_charges_nothing(clinic: Callable[..., Path]) -> None:
    policy = clinic()
    question = "SELECT COUNT(*) AS n FROM visits"
    with sfumato.open(policy) as database:
        assert [release.columns for release in trial_run(database, question, "0.5", 2)] == [("n",), ("n",)]
        assert database.budget().spent.epsilon == 0
        assert database.history() == ()
    with (
        sfumato.open(policy, analyst="press") as press,
        pytest.raises(BadParameter, match="An analyst cannot rehearse"),
    ):
        trial_run(press, question, "0.5", 1)


def test_typical_questions_cover_counts_averages_sums_groups_and_joins(clinic: Callable[..., Path]) -> None:
    queries = [shorten_sql(sql) for sql in typical_questions(read_policy(clinic()))]
    assert "COUNT(*) FROM visits JOIN bills ON visits.visit = bills.visit" in queries
    assert {"AVG(age) FROM visits", "SUM(age) FROM visits", "COUNT(DISTINCT patient_id) FROM visits"} <= set(queries)
    assert "dept, AVG(age) FROM visits GROUP BY dept" in queries
    assert len(set(queries)) == len(queries)
    assert len(queries) >= MAX_QUESTIONS
