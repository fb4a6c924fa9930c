"""The same coins give the same noise on neighbours, whatever pairs are asked for, and no measurement moves too far."""

from pathlib import Path

from sfumato.lab.audits.replay import compare, neighbours_of, price_alarms, record
from sfumato.lab.audits.subject import open_subject
from sfumato.lab.generators.clinic import clinic
from sfumato.lab.generators.population import populate

QUESTIONS = (
    "SELECT CORR(cost, age), REGR_SLOPE(cost, age), COVAR_SAMP(age, cost) FROM visits",
    "SELECT dept, REGR_R2(cost, age), REGR_INTERCEPT(cost, age) FROM visits WHERE urgent GROUP BY dept",
    "SELECT city, REGR_SXX(cost, age), REGR_SYY(cost, age), REGR_COUNT(cost, age) FROM visits GROUP BY city",
    "SELECT SUM(cost) / COUNT(cost) AS mean FROM visits",
    "SELECT city, COUNT(*), SUM(age) FROM visits GROUP BY city",
    "SELECT city, SUM(age) AS s FROM visits GROUP BY city ORDER BY s DESC LIMIT 1 OFFSET 1",
    "SELECT dept, urgent, COUNT(*), SUM(cost), AVG(age) FROM visits GROUP BY CUBE (dept, urgent)",
    "SELECT COUNT(DISTINCT age) AS matched, COUNT(*) AS n FROM visits",
    "SELECT " + ", ".join(f"QUANTILE_CONT(age, 0.{tenth})" for tenth in range(1, 8)) + " FROM visits",  # noqa: S608
)


def test_equal_coins_show_that_pairs_are_measured_as_they_are_priced(tmp_path: Path) -> None:
    policy = clinic()
    population = populate(policy, 5)
    others = list(neighbours_of(population, policy, 5).items())[:3]
    with open_subject(policy, population, tmp_path / "all") as subject:
        recorded = {sql: record(subject, subject.plan(sql), 5) for sql in QUESTIONS}
    assert not [message for recording in recorded.values() for message in price_alarms(recording)]
    moved = 0
    for place, (_, (other, distance)) in enumerate(others):
        with open_subject(policy, other, tmp_path / str(place)) as neighbour:
            for sql, recording in recorded.items():
                again = record(neighbour, neighbour.plan(sql), 5)
                assert list(compare(recording, again, distance)) == []
                moved += recording.calls != again.calls
    assert moved
