"""Group columns of a table with one row per person: a person is in one group by them, and thresholds follow."""

from collections.abc import Iterator

import pytest
from tests.paths.test_sensitivity import Opened
from tests.paths.worlds import a_world

BOTH = "FROM visits v JOIN patients p USING (patient_id)"
OUTER = "FROM visits v LEFT JOIN patients p ON v.patient_id = p.patient_id"
PER_PERSON = "(SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id)"
EVERYBODY = f"FROM visits v JOIN {PER_PERSON} t USING (patient_id)"
ON_FLOOR = "(VALUES ('a', 1), ('b', 2)) AS f(ward, floor) ON f.ward = p.ward"


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    opened = Opened(tmp_path_factory.mktemp("settled"), a_world(3))
    yield opened
    opened.engine.close()


@pytest.mark.parametrize(
    ("sql", "groups"),
    [
        (f"SELECT p.ward, COUNT(*) {BOTH} GROUP BY p.ward", 1),
        (f"SELECT UPPER(p.ward) AS w, p.sex, COUNT(*) {BOTH} GROUP BY 1, 2", 1),
        (f"SELECT w, COUNT(*) FROM (SELECT v.*, p.ward AS w {BOTH}) t WHERE age > 3 GROUP BY w", 1),  # noqa: S608
        (f"SELECT p.ward, v.urgent, COUNT(*) {BOTH} GROUP BY 1, 2", 2),
        (f"SELECT p.ward, v.city, COUNT(*) {BOTH} GROUP BY 1, 2", 3),
        (f"SELECT p.ward || v.city AS k, COUNT(*) {BOTH} GROUP BY 1", 3),
        (f"SELECT p.ward, COUNT(*) {OUTER} GROUP BY p.ward", 1),
        (f"SELECT COALESCE(p.ward, '?') AS w, COUNT(*) {OUTER} AND v.urgent GROUP BY 1", 3),
        (f"SELECT COALESCE(p.ward, '?') AS w, COUNT(*) {OUTER} AND p.income > 5 GROUP BY 1", 1),
        (f"SELECT t.n, COUNT(DISTINCT t.patient_id) {EVERYBODY} GROUP BY t.n", 1),
        (f"SELECT f.floor, COUNT(DISTINCT v.patient_id) {BOTH} JOIN {ON_FLOOR} GROUP BY 1", 1),
        ("SELECT s.floor, COUNT(*) FROM visits v JOIN staff s ON v.dept = s.dept GROUP BY 1", 2),
        ("SELECT city, COUNT(*) FROM visits GROUP BY city", 3),
        (f"SELECT p.sex, COUNT(*), SUM(v.age) {BOTH} GROUP BY p.sex", 2),
        (f"SELECT p.sex, COUNT(DISTINCT v.patient_id) {BOTH} GROUP BY p.sex", 1),
    ],
)
def test_settled_keys_do_not_tell_the_rows_of_a_person_apart(clinic: Opened, sql: str, groups: int) -> None:
    (plan,) = clinic.plan(sql).groups
    beside = sum(key.has_remainder + key.null_is_apart for key in plan.group.keys)  # cells of rows that are in no group
    assert plan.group.contribution.groups == min(groups + beside, plan.group.contribution.rows) if beside else groups
    assert plan.group.contribution.bound_groups or plan.group.cells <= groups + beside
