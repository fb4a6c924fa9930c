"""The same question spelled otherwise has the same canonical text; another question has another."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.query.clinic import CLINIC

from sfumato.query.canonical import canonical
from sfumato.query.parse import parse

BLOCKS = (Path(__file__).parent / "accepted.txt").read_text(encoding="utf-8").strip().split("\n\n")
ACCEPTED = [block.split("\n")[0] for block in BLOCKS]

SAME = [
    ["SELECT COUNT(*) FROM visits", "select count(1) from public.visits v;", "SELECT count(*) FROM (TABLE_) t"],
    [
        "SELECT COUNT(*) FROM visits WHERE age > 3 AND urgent",
        "SELECT COUNT(*) FROM visits WHERE (urgent) AND 3 < age",
        "WITH a AS (SELECT * FROM visits WHERE urgent) SELECT COUNT(*) FROM a WHERE a.age > 3 AND urgent",
        "SELECT COUNT(*) FROM (SELECT age AS x FROM visits v WHERE v.urgent) AS b WHERE b.x > 3",
    ],
    [
        "SELECT SUM(cost) FROM visits v JOIN staff s ON v.dept = s.dept WHERE age > 3",
        "SELECT SUM(cost) FROM visits, staff WHERE age > 3 AND staff.dept = visits.dept",
        "SELECT SUM(cost) FROM visits CROSS JOIN staff WHERE age > 3 AND staff.dept = visits.dept",
        "SELECT SUM(cost) FROM visits JOIN staff USING (dept) WHERE age > 3",
        "SELECT SUM(cost) FROM (SELECT * FROM visits WHERE age > 3) a JOIN staff b ON b.dept = a.dept",
    ],
    [
        "SELECT dept, COUNT(*) FROM visits WHERE dept IN ('er', 'icu') GROUP BY dept",
        "SELECT dept, COUNT(*) FROM visits WHERE dept IN ('icu', 'er', 'er') GROUP BY 1",
    ],
    ["SELECT age BETWEEN 1 AND 2 AS x FROM visits", "SELECT age <= 2 AND age >= 1 AS x FROM visits"],
    ["SELECT cost + 1 AS x FROM visits", "SELECT 1.0 + cost AS x FROM visits"],
    [
        "SELECT CASE age WHEN 1 THEN 2 END AS x FROM visits",
        "SELECT CASE WHEN age = 1 THEN 2 ELSE NULL END AS x FROM visits",
    ],
]
DIFFERENT = [
    "SELECT COUNT(*) FROM visits",
    "SELECT COUNT(*) AS n FROM visits",
    "SELECT COUNT(age) FROM visits",
    "SELECT COUNT(DISTINCT age) AS count FROM visits",
    "SELECT COUNT(*) FROM visits WHERE age > 3",
    "SELECT COUNT(*) FROM visits WHERE age >= 3",
    "SELECT COUNT(*) FROM visits WHERE dept = 'a'' and ''b'",
    "SELECT COUNT(*) FROM visits LEFT JOIN staff ON visits.dept = staff.dept",
    "SELECT COUNT(*) FROM visits JOIN staff ON visits.dept = staff.dept",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(*) FROM visits",
    "SELECT NULL::integer AS x",
    "SELECT NULL::text AS x",
    "SELECT 1 AS x",
    "SELECT 1.0 AS x",
    "SELECT '1' AS x",
    "SELECT year(day) AS x FROM visits",
    "SELECT EXTRACT(year FROM day) AS x FROM visits",
]


@pytest.mark.parametrize("spellings", SAME, ids=lambda spellings: spellings[0][:40])
def test_one_question_has_one_text(spellings: list[str]) -> None:
    texts = {canonical(parse(sql.replace("TABLE_", "SELECT * FROM visits"), CLINIC)) for sql in spellings}
    assert len(texts) == 1


def test_other_questions_have_other_texts() -> None:
    assert len({canonical(parse(sql, CLINIC)) for sql in DIFFERENT}) == len(DIFFERENT)


def _respelled(sql: str, shout: bool, space: str, comment: bool) -> str:
    """Change case outside quotes, spaces and comments."""
    pieces = re.split(r"('(?:[^']|'')*'|\"[^\"]*\"|--.*)", sql)
    pieces = [
        piece if i % 2 else re.sub(r" ", space, piece.upper() if shout else piece.lower())
        for i, piece in enumerate(pieces)
    ]
    return "".join(pieces) + ("\n/* the end */ ;" if comment else "")


@pytest.mark.parametrize("sql", ACCEPTED, ids=lambda sql: sql[:60])
@settings(max_examples=8, deadline=None)
@given(st.booleans(), st.sampled_from([" ", "  ", "\n", "\t", " /* x */ ", "\n-- y\n"]), st.booleans())
def test_layout_and_case_do_not_matter(sql: str, shout: bool, space: str, comment: bool) -> None:
    assert canonical(parse(_respelled(sql, shout, space, comment), CLINIC)) == canonical(parse(sql, CLINIC))
