"""The audits of the whole path: the clinic passes them, and what contradicts a promise is a finding."""

from dataclasses import replace
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from sfumato.errors import QueryTooLarge
from sfumato.lab.audits import end_to_end, fuzzing, ledger, replay
from sfumato.lab.audits.alarm import Finding
from sfumato.lab.audits.audit import AUDITS, audit_policy, run_audits
from sfumato.lab.audits.shrinking import shrink
from sfumato.lab.audits.subject import open_subject, schema_of
from sfumato.lab.commands import AUDIT
from sfumato.lab.generators.clinic import VISITS, clinic, generate_policy
from sfumato.lab.generators.population import CANARY, HIGH_ID, WANDERER_ID, populate
from sfumato.lab.generators.questions import questions
from sfumato.lab.generators.seeded_random import SeededDice
from sfumato.planning.notes.truncation import TRUNCATION_BIAS
from sfumato.policy.reading import read_policy

SHOP: dict[str, object] = {
    "name": "shop",
    "source": "parquet:nowhere",
    "ledger": "sqlite:shop.ledger",
    "budget": {"epsilon": 1, "delta": 1e-6},
    "tables": {
        "orders": {
            "unit": "customer",
            "rows_per_unit": 4,
            "columns": {
                "customer": {"type": "text"},
                "number": {"type": "integer", "unique": True},
                "placed": {"type": "date", "bounds": [date(2024, 1, 1), date(2024, 1, 31)]},
                "country": {"type": "text", "values": "countries.code"},
            },
        },
        "lines": {
            "unit": "orders.customer via order_number = number",
            "rows_per_unit": 6,
            "columns": {
                "order_number": {"type": "integer"},
                "price": {"type": "decimal", "bounds": [0, 100], "step": 0.01},
            },
        },
        "countries": {"public": True},
    },
}
"""A policy with a path to the person and keys from a public table."""


def test_made_up_people_have_the_shape_of_the_policy(tmp_path: Path) -> None:
    policy = read_policy(SHOP)
    people = populate(policy, 1)
    assert set(people.types["orders"]) == {"customer", "number", "placed", "country"}
    assert "code" in people.types["countries"]
    heavy = [line for line in people.lines["orders"] if line.owner == str(HIGH_ID)]
    assert len(heavy) > 4, "somebody has more rows than count"
    assert str(HIGH_ID) not in people.without(str(HIGH_ID)).owners
    assert sorted(map(str, people.shuffled(SeededDice(1)).lines["lines"])) == sorted(map(str, people.lines["lines"]))
    with open_subject(policy, people, tmp_path) as subject:
        queries = questions(schema_of(subject.engine.catalog))
        answered = sum(subject.answers(sql) for sql in queries)
    assert answered > len(queries) // 3


def test_a_deployed_policy_is_audited_on_generated_data(tmp_path: Path) -> None:
    path = tmp_path / "shop.toml"
    path.write_text(
        'name = "shop"\nsource = "parquet:nowhere"\n[budget]\nepsilon = 1\ndelta = 1e-6\n'
        '[tables.orders]\nunit = "customer"\nrows_per_unit = 2\n[tables.orders.columns]\n'
        'customer = { type = "text" }\nprice = { type = "integer", bounds = [0, 9] }\n',
        encoding="utf-8",
    )
    report = audit_policy(path, 1.0)
    assert report.startswith("shop: ")
    assert report.endswith("no alarm")
    assert AUDIT is audit_policy
    assert [path.name for path in tmp_path.iterdir()] == ["shop.toml"], "neither data nor ledger were touched"


def test_a_policy_with_a_path_to_the_person_replays(tmp_path: Path) -> None:
    assert replay.audit(read_policy(SHOP), tmp_path, 1, "lines|orders GROUP") == []


def test_the_clinic_replays(tmp_path: Path) -> None:
    pattern = "SUM\\((age|cost)\\)|city|patients GROUP|JOIN staff"
    assert replay.audit(clinic(), tmp_path, 1, pattern) == []


def test_what_moves_too_far_is_said(tmp_path: Path) -> None:
    people = populate(clinic(), 1)
    with (
        open_subject(clinic(), people, tmp_path / "a") as one,
        open_subject(clinic(), people.without(str(HIGH_ID)), tmp_path / "b") as other,
    ):
        plan = one.plan("SELECT dept, SUM(cost) FROM visits GROUP BY dept")
        recorded, again = replay.record(one, plan, 1), replay.record(other, plan, 1)
    assert list(replay.compare(recorded, again, 1)) == []
    assert any("declared" in message for message in replay.compare(recorded, again, 0))
    (call,) = again.calls
    far = replace(again, calls=(replace(call, values=tuple(value + 1000 for value in call.values)),))
    assert any("declared" in message for message in replay.compare(recorded, far, 1))
    tossed = replace(again, calls=(replace(call, noise=tuple(value + 1 for value in call.noise)),))
    assert any("equal coins" in message for message in replay.compare(recorded, tossed, 1))
    assert list(replay.price_alarms(replace(recorded, calls=recorded.calls * 2)))
    assert list(replay.compare(recorded, replace(again, calls=()), 1))


def test_the_books_are_in_order(tmp_path: Path) -> None:
    assert ledger.run(1, tmp_path) == []


def test_answers_on_neighbours_are_as_close_as_they_cost(tmp_path: Path) -> None:
    # error rate: two bounds at 1e-9
    assert (
        end_to_end.audit(
            clinic(), tmp_path, 1, (("SELECT city, COUNT(*) FROM visits GROUP BY city", WANDERER_ID),), 8000
        )
        == []
    )


def test_error_bars_cover_and_an_audit_would_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT age, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY age"
    with open_subject(clinic(), populate(clinic(), 1), tmp_path) as subject:
        assert list(end_to_end.compare_coverage(subject, sql, 12)) == []  # two bounds at 1e-9
        monkeypatch.setattr(end_to_end, "_LEVEL", 0.9999)
        assert list(
            end_to_end.compare_coverage(subject, sql, 24)
        )  # 504 sums at 95 %: not noticed with a chance below 1e-6


def test_neighbours_show_the_same_of_plain_hostile_and_made_up_questions(tmp_path: Path) -> None:
    with fuzzing.neighbours(clinic(), tmp_path, 1) as (first, second):
        queries = fuzzing.generate_queries(schema_of(first.engine.catalog), 1)
        difference, number = fuzzing.fuzz(first, second, islice(queries, 90), seconds=30)
    assert difference is None, str(difference)
    assert number > 10


def test_what_noise_decides_is_no_difference(tmp_path: Path) -> None:
    columns = {name: VISITS[name] for name in ("patient_id", "age", "dept")}
    table = {"unit": "patient_id", "rows_per_unit": 3, "columns": columns}
    truncating = generate_policy("small", {"visits": table}, budget={"epsilon": 99, "delta": 0.1, "truncation": 0.05})
    above = (
        "SELECT dept, m FROM (SELECT dept, SUM(age) AS m FROM visits GROUP BY dept) AS t "
        "WHERE m > (SELECT AVG(m) FROM (SELECT dept, SUM(age) AS m FROM visits GROUP BY dept) AS u)"
    )
    queries = ["SELECT COUNT(*) FROM visits", "SELECT SUM(age), COUNT(*) FROM visits WHERE age > 3", above]
    with fuzzing.neighbours(truncating, tmp_path, 1) as (first, second):
        difference, number = fuzzing.fuzz(first, second, queries, seconds=30)
        told = [first.explain(queries[0], epsilon="0.5").notes, second.explain(queries[0], epsilon="0.5").notes]
    assert difference is None, str(difference)
    assert number == 3
    assert all(any(note.startswith(TRUNCATION_BIAS) for note in notes) for notes in told)


def test_a_difference_is_found_shrunk_and_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fuzzing.neighbours(clinic(), tmp_path, 1) as (first, second):
        run = second.engine.run

        def failing(job: object, *selected: Any) -> object:
            if any("sum(" in (statement or "") for statement in job.statements):  # type: ignore[attr-defined]
                raise QueryTooLarge(f"There is a {CANARY}.", "So it is.", "Look away.")
            return run(job, *selected)

        monkeypatch.setattr(second.engine, "run", failing)
        queries = [
            "SELECT COUNT(*) FROM visits",
            "SELECT dept, COUNT(*), SUM(age) FROM visits WHERE age > 3 GROUP BY dept",
        ]
        difference, number = fuzzing.fuzz(first, second, queries, 60)
    assert number == 2
    assert difference is not None
    assert difference.short == "SELECT SUM(age)FROM visits"
    assert "fault: a message repeats a value" in difference.other
    assert difference.short in str(difference)


def test_shrinking_keeps_the_failure_and_ends() -> None:
    text = "SELECT SUM(CASE WHEN a > 1 THEN LENGTH('it''s') ELSE 0 END) FROM t WHERE x = 'y' ORDER BY 1"
    short = shrink(text, lambda text: "LENGTH" in text and "FROM t" in text)
    assert short == "LENGTH FROM t"
    assert shrink(text, lambda text: False) == text


def test_a_house_that_breaks_down_has_failed_its_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(seed: object, folder: Path) -> list[Finding]:
        raise ZeroDivisionError

    monkeypatch.setitem(AUDITS, "books", broken)
    (alarm,) = run_audits(["books"], 1)
    assert str(alarm) == "books: ZeroDivisionError under the audit"
