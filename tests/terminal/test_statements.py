"""Where a typed question ends, and how it is coloured."""

import pytest

from sfumato.terminal.colouring import colour_sql
from sfumato.terminal.statements import split_statements


@pytest.mark.parametrize(
    ("text", "questions", "rest"),
    [
        ("SELECT 1;", ["SELECT 1"], ""),
        ("SELECT 1; SELECT 2; SELECT", ["SELECT 1", "SELECT 2"], "SELECT"),
        ("SELECT ';' AS \"a;b\" -- no; end\n, 2;", ["SELECT ';' AS \"a;b\" -- no; end\n, 2"], ""),
        ("SELECT /* ; */ 1", [], "SELECT /* ; */ 1"),
        ("SELECT 'it''s; fine'; x", ["SELECT 'it''s; fine'"], "x"),
        ("SELECT 'open; ", [], "SELECT 'open;"),
        (" ; ;; ", [], ""),
    ],
)
def test_a_semicolon_ends_a_question_unless_it_is_quoted(text: str, questions: list[str], rest: str) -> None:
    assert split_statements(text) == (questions, rest)


def test_colours_change_no_letter() -> None:
    line = "SELECT dept, COUNT(*) AS \"n\", 'x''y', 1.5e3 FROM visits -- done"
    text = colour_sql(line)
    assert text.plain == line
    styles = {line[span.start : span.end]: str(span.style) for span in text.spans}
    assert styles["SELECT"] == "bold blue"
    assert styles["COUNT"] == "magenta"
    assert styles["'x''y'"] == "green"
    assert styles["1.5e3"] == "cyan"
    assert styles["-- done"] == "dim"
    assert "visits" not in styles
    assert colour_sql(r"\epsilon 0.5").spans[0].style == "bold yellow"
