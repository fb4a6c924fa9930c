"""What an expression costs grows with its text: no form of an operator writes its argument so often that it bursts."""

from collections.abc import Iterator
from time import perf_counter

import pytest

from sfumato.lab.audits.subject import Subject, open_subject
from sfumato.lab.generators.clinic import clinic
from sfumato.lab.generators.population import populate
from sfumato.lab.generators.scratch import scratch

SECONDS = 5.0
NESTED = {
    "products": ("weight", "{} * 2"),
    "quotients": ("weight", "{} / 2"),
    "divisors": ("weight", "2 / {}"),
    "remainders": ("age + 1", "7 % ({})"),
    "integer divisors": ("age + 1", "7 / ({})"),
    "absences": ("age", "NULLIF({}, 3)"),
    "absent texts": ("city", "NULLIF({}, 'x')"),
    "spelled truth values": ("urgent", "CAST(CAST({} AS text) AS boolean)"),
    "lists": ("age", "CASE WHEN {} IN (1, 2) THEN 1 ELSE 0 END"),
    "longer lists": ("age", "CASE WHEN {} IN (1, 2, 3, 5, 7, 8, 9) THEN 7 ELSE age END"),
    "lists of columns": ("age", "CASE WHEN {} IN (score, 2, age + 1) THEN 7 ELSE age END"),
    "items": ("age", "CASE WHEN age IN (2, {}, 5) THEN 7 ELSE score END"),
}


@pytest.fixture(scope="module")
def subject() -> Iterator[Subject]:
    with scratch() as folder, open_subject(clinic(), populate(clinic(), 1), folder) as opened:
        yield opened


@pytest.mark.parametrize("name", NESTED)
def test_a_nested_expression_takes_no_longer_than_its_text(subject: Subject, name: str) -> None:
    """Eighteen steps: where each doubles what it holds, this takes minutes."""
    text, step = NESTED[name]
    for _ in range(18):
        text = step.format(text)
    begun = perf_counter()
    subject.run(subject.plan(f"SELECT COUNT(*) FROM visits WHERE {text} IS NOT NULL"))  # noqa: S608
    assert perf_counter() - begun < SECONDS


def test_a_bucket_of_a_computed_number_takes_no_longer_than_its_text(subject: Subject) -> None:
    begun = perf_counter()
    subject.run(subject.plan("SELECT COUNT(DISTINCT width_bucket(weight / age, 0, 10, 5)) FROM visits"))
    assert perf_counter() - begun < SECONDS
