"""The prompt answers questions of several lines, shows what is left, and survives whatever is typed."""

import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.made_up_clinic import console, fresh_clinic, text

from sfumato.database import Database
from sfumato.errors import Interface, Refusal
from sfumato.opening import open
from sfumato.terminal.prompt import (
    HELP,
    Session,
    completion_words,
    completions,
    history_file,
    save_history,
    with_readline,
)

COUNT = "SELECT COUNT(*) AS n FROM patients"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with open(fresh_clinic(tmp_path_factory.mktemp("clinic"))) as opened:
        yield opened


Talk = Callable[..., tuple[str, list[Refusal], list[str]]]


@pytest.fixture
def talk(database: Database) -> Talk:
    def run(*lines: str | type[BaseException]) -> tuple[str, list[Refusal], list[str]]:
        """Type these lines; an exception is what the terminal raises instead of one."""
        shown, written = console()
        refused: list[Refusal] = []
        prompts: list[str] = []
        left = [*lines, EOFError, EOFError]

        def read(prompt: str) -> str:
            prompts.append(prompt)
            line = left.pop(0)
            if isinstance(line, str):
                return line
            raise line

        Session(database, shown, console()[0], refused.append).run(read)
        return text(written), refused, prompts

    return run


def test_a_question_of_several_lines_ends_with_a_semicolon_an_empty_line_or_the_end(talk: Talk) -> None:
    price = r"\epsilon 0.05"
    answers = [
        talk(price, f"{COUNT};")[0],
        talk(price, "SELECT COUNT(*)", "  AS n", "FROM patients ;")[0],
        talk(price, COUNT, "")[0],
        talk(price, COUNT)[0],
    ]
    assert "±" in answers[0]
    assert all(answer.splitlines()[:3] == answers[0].splitlines()[:3] for answer in answers)
    assert all("free: from your answer of " in answer for answer in answers[1:])


def test_the_prompt_shows_what_is_left_and_that_a_question_goes_on(talk: Talk, database: Database) -> None:
    _, _, prompts = talk("SELECT", "1;", r"\epsilon 0.3", "SELECT COUNT(*) AS m FROM patients;")
    assert prompts[0].endswith(" % left> ")
    assert prompts[1] == "     …> "
    before, after = (float(prompt.split()[1]) for prompt in (prompts[0], prompts[-1]))
    assert after < before <= 100


def test_explain_is_free_and_says_the_price(talk: Talk, database: Database) -> None:
    spent = database.budget().spent
    shown, refused, _ = talk(r"\epsilon 0.25", "explain", "SELECT AVG(age) AS a FROM visits;")
    assert "price: ε = 0.25, δ = 0" in shown
    assert (database.budget().spent, refused) == (spent, [])


def test_margins_can_be_asked_for_instead_of_a_price(talk: Talk) -> None:
    shown, refused, _ = talk(r"\within n=70", "SELECT COUNT(*) AS n FROM patients WHERE sex = 'female';")
    assert "± 70" in shown
    assert refused == []
    [refusal] = talk(r"\within n=70", r"\within", "SELECT COUNT(*) AS k FROM patients WHERE sex = 'male';")[1]
    assert refusal.code == "bad_parameter"  # neither price nor margin


def test_tables_columns_budget_and_history_are_shown(talk: Talk) -> None:
    shown, refused, _ = talk(r"\d", r"\d VISITS", r"\d departments", r"\budget", r"\history", r"\?")
    for words_shown in (
        "at most 20 rows each",
        "stay_hours  integer",
        "wing    text",
        "% left",
        "question",
        "decides what can still be asked",
        HELP[-20:],
    ):
        assert words_shown in shown
    assert refused == []


def test_what_cannot_be_done_is_refused_and_the_prompt_goes_on(talk: Talk) -> None:
    shown, refused, _ = talk(
        r"\bugdet",
        r"\d visit",
        r"\epsilon none",
        r"\within n",
        "SELECT nothing;",
        ";",
        "SELECT COUNT(*) FROM departments;",
    )
    assert [refusal.code for refusal in refused] == [
        "unknown_name", "unknown_name", "bad_parameter", "bad_parameter", "unknown_name"
    ]  # fmt: skip
    assert r"Did you mean \budget?" in str(refused[0])
    assert "8" in shown


def test_an_interrupt_forgets_the_half_of_a_question(talk: Talk) -> None:
    shown, refused, _ = talk("SELECT nonsense", KeyboardInterrupt, "SELECT COUNT(*) FROM departments;")
    assert refused == []
    assert "8" in shown


@pytest.mark.parametrize("word", [r"\q", "exit", "EXIT;", "quit"])
def test_leaving_needs_one_word(talk: Talk, word: str) -> None:
    assert len(talk(word, "SELECT never;")[2]) == 1


@pytest.mark.parametrize("word", ["help", "Help;", r"\?"])
def test_help_is_a_word_too(talk: Talk, word: str) -> None:
    shown, refused, _ = talk(word)
    assert HELP in shown
    assert refused == []


def test_a_line_may_hold_several_questions(talk: Talk) -> None:
    shown, refused, prompts = talk(
        "SELECT COUNT(*) AS a FROM departments; SELECT COUNT(*) AS b FROM departments; SELECT",
        "COUNT(*) AS c FROM departments;",
    )
    assert [name for name in "abc" if f"\n{name}" in f"\n{shown}"] == ["a", "b", "c"]
    assert refused == []
    assert prompts[1].strip() == "…>"


def test_a_table_is_described_with_bounds_keys_and_caps(talk: Talk) -> None:
    shown, refused, _ = talk(r"\d visits;", r'\d "Patients"', r"\d departments")
    for words_shown in (
        "one person is one patient_id; at most 20 rows each, in at most 3 groups of an answer",
        "2024-01-01 to 2024-12-31",
        "values of departments.dept",
        "0 to 110",
        "0 to 5000, in steps of 0.01",
        "no bounds: can be counted, not summed",
        "the person: can be counted and joined on, not shown",
        "'female', 'male'",
        "no declared values: groups are chosen privately",
        "no personal data, exact and free",
    ):
        assert words_shown in " ".join(shown.split())
    assert refused == []


def test_delta_is_kept_while_the_price_changes(talk: Talk) -> None:
    _, refused, _ = talk(r"\delta 0", r"\epsilon 0.1", "SELECT district, COUNT(*) FROM patients GROUP BY district;")
    assert [refusal.code for refusal in refused] == ["keys_need_delta"]
    assert r"leave `delta` out" in refused[0].remedy_for(Interface.PROMPT)
    assert talk(r"\delta 0", r"\delta", r"\delta x")[1][0].code == "bad_parameter"


def test_names_functions_and_commands_are_completed(database: Database) -> None:
    known = completion_words(database)
    assert completions(known, "visi") == ["visits"]
    assert completions(known, "WIN") == ["wing"]
    assert "COUNT(" in completions(known, "cou")
    assert completions(known, r"\b") == [r"\budget"]
    assert completions(known, "") == []


def test_what_was_typed_is_kept_for_its_typist_only(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    readline = with_readline(database)
    if readline is None:
        pytest.skip("this system has no readline")
    readline.clear_history()
    readline.add_history("SELECT 1;")
    save_history(readline)
    assert "SELECT 1;" in history_file().read_text(encoding="utf-8")
    assert stat.S_IMODE(history_file().stat().st_mode) == 0o600
    save_history(None)
