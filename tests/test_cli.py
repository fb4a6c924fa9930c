"""The command line shows what exists, starts at once, and prints a refusal as an answer."""

import contextlib
import csv
import io
import json
import os
import pty
import re
import shlex
import subprocess
import sys
import termios
from importlib import import_module
from pathlib import Path

import click
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from tests.made_up_clinic import fresh_clinic

from sfumato import __version__
from sfumato.cli import main
from sfumato.commands import options
from sfumato.commands.extensions import LAB
from sfumato.errors import REFUSALS, BadParameter
from sfumato.policy.reading import read_policy
from sfumato.release.rendering.encoding import FORMATS
from sfumato.terminal import exports

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
COUNTS = "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(fresh_clinic(tmp_path_factory.mktemp("clinic")))


def _invoke(*arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(main, arguments, input=typed, catch_exceptions=False)


def _answered(*arguments: str, typed: str | None = None) -> str:
    shown = _invoke(*arguments, typed=typed)
    assert (shown.exit_code, shown.stderr) == (0, ""), shown.stderr
    return shown.stdout


def _refused(*arguments: str) -> str:
    shown = _invoke(*arguments)
    assert (shown.exit_code, shown.stdout) == (2, "")
    return shown.stderr


# --- the program ---


def _run(*arguments: str, typed: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in {"FORCE_COLOR", "COLUMNS"}}
    command = [sys.executable, "-m", "sfumato", *arguments]
    return subprocess.run(
        command, capture_output=True, check=False, env=clean | environment, cwd="/", encoding="utf-8", input=typed
    )


def test_the_module_runs_as_a_program() -> None:
    assert _run("--version").stdout == f"sfumato {__version__}\n"


def test_help_takes_less_than_a_third_of_a_second() -> None:
    durations = []
    for _ in range(5):
        before = os.times()
        assert _run("--help").stdout.startswith("Usage: sfumato ")
        after = os.times()  # the processor's time, so that a busy machine does not count
        durations.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert min(durations) < 0.3


def test_help_loads_neither_numpy_nor_rich() -> None:
    code = "import sys, sfumato.cli; print(sorted({'numpy', 'scipy', 'rich', 'duckdb', 'pyarrow'} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"


def test_a_shell_completes_verbs_and_options() -> None:
    words = {"COMP_WORDS": "sfumato b", "COMP_CWORD": "1", "_SFUMATO_COMPLETE": "bash_complete"}
    assert _run(**words).stdout == "plain,budget\nplain,backup\n"
    options = {"COMP_WORDS": "sfumato ask --wi", "COMP_CWORD": "2", "_SFUMATO_COMPLETE": "bash_complete"}
    assert _run(**options).stdout == "plain,--within\n"


def test_bytes_that_are_no_text_are_refused_without_a_trace(policy: str) -> None:
    command = [sys.executable, "-m", "sfumato", "explain", policy, "-", "--epsilon", "1"]
    shown = subprocess.run(command, capture_output=True, check=False, input=b"SELECT '\xff' FROM visits")
    assert (shown.returncode, shown.stdout) == (2, b"")
    assert shown.stderr.startswith(b"Refused (")
    for typed in ("SELECT '\udcff' FROM visits", "\0", ""):
        assert _refused("explain", policy, typed, "--epsilon", "1").startswith("Refused (")


def test_an_unknown_verb_is_refused_with_2() -> None:
    assert _run("paint").returncode == 2


def test_a_terminal_without_greek_letters_is_no_reason_to_fail(policy: str) -> None:
    shown = _run("budget", policy, PYTHONIOENCODING="latin-1")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "total      ? = 3" in shown.stdout


# --- the page ---


def _documented() -> dict[str, tuple[list[str], set[str]]]:
    """Return of each verb on the page its arguments and its options."""
    sections = re.findall(r"(?ms)^## `sfumato (\w+)([^`]*)`\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"))
    return {
        verb: (
            re.findall(r"[A-Z]+(?:\.\.\.)?", arguments),
            {name for row in re.findall(r"(?m)^\| (`-.*?`) \|", body) for name in re.findall(r"`(--?[\w-]+)", row)},
        )
        for verb, arguments, body in sections
    }


def test_the_page_has_every_verb_argument_and_option_and_no_others() -> None:
    existing = {}
    for name, verb in main.commands.items():
        arguments = [one.make_metavar(click.Context(verb)) for one in verb.params if isinstance(one, click.Argument)]
        options = {text for one in verb.params if isinstance(one, click.Option) for text in one.opts}
        existing[name] = ([argument.strip("[]") for argument in arguments], options)
    assert _documented() == existing


def test_the_page_names_every_format_and_ending() -> None:
    text = PAGE.read_text(encoding="utf-8")
    named = (*FORMATS, *exports.ENDINGS, *exports.PICTURES)
    assert [name for name in named if f"`{name}`" not in text] == []
    assert FORMATS == options.FORMATS


def test_the_page_lists_the_exit_statuses() -> None:
    assert re.findall(r"(?m)^\| `(\d)` \|", PAGE.read_text(encoding="utf-8")) == ["0", "1", "2"]


def test_every_verb_says_in_one_line_what_it_does() -> None:
    shown = _answered("--help")
    for name, verb in main.commands.items():
        assert (verb.help or "").strip().endswith(".")
        assert re.search(rf"(?m)^  {name} +\w.*[^.]\.$", shown)  # and the line is not cut off
    assert max(map(len, shown.splitlines())) <= 80


# --- refusals ---


def test_codes_prints_every_code_with_its_sentence() -> None:
    shown = _answered("codes")
    assert re.findall(r"(?m)^(\w+) ", shown) == [kind.code for kind in REFUSALS]
    for kind in REFUSALS:
        assert " ".join((kind.__doc__ or "").split()) in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 80


def test_a_refusal_is_printed_to_stderr_without_a_trace_and_exits_with_2(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def ask() -> None:
        raise BadParameter("epsilon = 0 is not positive.", "It means nothing.", "Give epsilon > 0.")

    monkeypatch.setitem(main.commands, "ask", ask)
    assert _refused("ask") == (
        "Refused (bad_parameter): epsilon = 0 is not positive.\n  why:  It means nothing.\n  next: Give epsilon > 0.\n"
    )


def test_colours_appear_on_a_terminal_and_never_under_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = CliRunner().invoke(main, ["check", "nowhere.toml"], color=True)
    assert "\x1b[" in coloured.stderr
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in CliRunner().invoke(main, ["check", "nowhere.toml"], color=True).stderr


def test_a_slip_in_a_name_is_met_with_the_name_that_was_meant(policy: str) -> None:
    for sql, meant in (
        ("SELECT COUNT(*) FROM visit", "visits"),
        ("SELECT COUNT(*) FROM visits WHERE agee > 3", "age"),
        ("SELECT CONT(*) FROM visits", "count"),
    ):
        assert f"Did you mean `{meant}`" in _refused("ask", policy, sql, "--epsilon", "1").lower().replace("did", "Did")


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_charged(policy: str, tmp_path: Path) -> None:
    before = _answered("budget", policy)
    question = ("ask", policy, "SELECT COUNT(*) FROM visits", "--epsilon", "1")
    for wrong in (
        ("--output", str(tmp_path / "missing" / "a.csv")),
        ("--output", str(tmp_path / "a.xyz")),
        ("--output", str(tmp_path), "--format", "csv"),
        ("--plot", str(tmp_path / "a.xyz")),
        ("--plot", str(tmp_path / "missing" / "a.svg")),
        ("--within", "n"),
        ("--output", policy, "--format", "csv"),
        ("--output", f"{Path(policy).parent / 'data' / 'more.csv'}"),
    ):
        assert _refused(*question, *wrong).startswith("Refused (bad_parameter): ")
    assert _answered("budget", policy) == before


# --- at a terminal ---


def _at_a_terminal(*arguments: str, typed: str = "", **environment: str) -> tuple[int, str]:
    """Run the program with a terminal of 100 columns for its input and its output; return its status and its screen."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 100))
    command = [sys.executable, "-m", "sfumato", *arguments]
    settings = {**os.environ, "TERM": "xterm-256color", "PYTHONUTF8": "1", **environment}
    program = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=settings)
    os.close(theirs)
    os.write(ours, typed.encode())
    screen = b""
    with contextlib.suppress(OSError):  # Linux says so that the other end is closed
        while shown := os.read(ours, 1 << 16):
            screen += shown
    os.close(ours)
    return program.wait(), screen.decode().replace("\r\n", "\n")


def test_at_a_terminal_an_answer_has_bars_colours_and_phases(tmp_path: Path) -> None:
    question = ("ask", str(fresh_clinic(tmp_path)), COUNTS, "--epsilon", "0.5")
    status, screen = _at_a_terminal(*question)
    assert status == 0
    # the screen is drawn a few times a second, so on a fast machine not every phase is seen
    assert re.search(r"(reading|keeping|writing the bounded copy of|copying) \w+", screen)
    assert re.search(r"surgery.*\x1b\[36m█+", screen)
    status, plain = _at_a_terminal(*question, NO_COLOR="1")
    assert status == 0
    assert re.search(r"(?m)^surgery +-?[\d,]+ ± [\d,]+ \*  █+░+ *$", re.sub(r"\x1b\[[02]m", "", plain))
    assert "\x1b[3" not in plain  # no colour; bold and dim are none


def test_at_a_terminal_init_asks_what_it_cannot_know(policy: str, tmp_path: Path) -> None:
    written = tmp_path / "mine.toml"
    data = Path(policy).parent / "data" / "patients.parquet"
    answers = ["patient_id", "1900:2030", "female,male", "", "3", "1e-6"]
    status, screen = _at_a_terminal(
        "init", str(data), "-o", str(written), typed="".join(f"{line}\n" for line in answers)
    )
    assert status == 0
    assert "Who is protected?" in screen
    assert "about 20 tables of counts, each count ±20 (95 %)" in screen
    assert f"Wrote {written}." in screen
    assert read_policy(written).budget.epsilon == 3


# --- the verbs ---


def test_an_answer_is_charged_once_and_free_when_asked_again(policy: str) -> None:
    first = _answered("ask", policy, COUNTS, "--epsilon", "0.1")
    assert re.search(r"(?m)^surgery +-?[\d,]+ ± [\d,]+ \*$", first)
    assert "asked before" not in first
    again = _answered("ask", policy, COUNTS, "--epsilon", "0.1")
    told, repeated = ([line for line in one.splitlines() if "of the budget used" in line] for one in (first, again))
    assert [line for line in again.splitlines() if line not in repeated] == [
        line for line in first.splitlines() if line not in told
    ]
    assert re.fullmatch(rf"free: from your answer of \d+ \w+ \d{{4}}; {re.escape(told[0])}", repeated[0])


def test_a_relative_margin_is_reached_or_the_answer_says_that_it_is_not(policy: str) -> None:
    sql = "SELECT COUNT(*) AS n FROM visits WHERE cost > 7"
    said = _answered("ask", policy, sql, "--within", "n=60%", "--epsilon", "0.3", "--notes")
    assert "eached at 95 %: `n` ±60 %" in said or "Not reached: `n` ±60 %" in said
    quote = _answered("explain", policy, sql, "--within", "n=60%", "--epsilon", "0.2")
    assert "at most ε = 0.2, δ = 0 with the answer" in quote


def test_several_questions_are_charged_as_one_when_they_are_asked_together(policy: str) -> None:
    questions = "; ".join([COUNTS, "SELECT COUNT(*) AS whole FROM visits"])
    both = _answered("ask", policy, questions, "--epsilon", "0.2", "--together")
    assert "surgery" in both
    assert "whole" in both
    assert both.count("cost: ε = 0.2") == 2
    with_margin = CliRunner().invoke(main, ["ask", policy, COUNTS, "--within", "n=25", "--together"])
    assert with_margin.exit_code == 2


def test_several_questions_are_answered_one_after_the_other(policy: str) -> None:
    first = _answered("ask", policy, COUNTS, "--epsilon", "0.1")
    both = _answered("ask", policy, f"{COUNTS}; SELECT ';' AS semicolon;", "--epsilon", "0.1")
    assert both.startswith("\n".join(first.splitlines()[:-1]))
    assert "semicolon" in both
    refused = CliRunner().invoke(main, ["ask", policy, "SELECT 1; SELECT 2", "--format", "json"])
    assert refused.exit_code == 2


def test_every_format_holds_the_same_answer(policy: str) -> None:
    question = ("ask", policy, COUNTS, "--epsilon", "0.1")
    answer = json.loads(_answered(*question, "--format", "json"))
    rows = [(row["dept"], row["n"], *ends["n"]) for row, ends in zip(answer["rows"], answer["intervals"], strict=True)]
    assert all(low < n < high for _, n, low, high in rows)
    assert answer["loss"] == {"epsilon": "1/10", "delta": "0"}
    lines = list(csv.reader(io.StringIO(_answered(*question, "--format", "csv"))))
    assert lines == [["dept", "n", "n_low", "n_high"], *([str(cell) for cell in row] for row in rows)]
    table = pa.ipc.open_file(_invoke(*question, "--format", "arrow").stdout_bytes).read_all()
    assert [tuple(row.values()) for row in table.to_pylist()] == rows
    for form in ("table", "markdown"):
        shown = _answered(*question, "--format", form)
        assert [f"{n:,} ± {high - n:,}" for _, n, _, high in rows] == re.findall(r"-?[\d,]+ ± [\d,]+", shown)[
            : len(rows)
        ]


def test_an_answer_goes_into_a_file_whose_name_says_the_format_and_into_a_picture(policy: str, tmp_path: Path) -> None:
    file, picture = tmp_path / "counts.csv", tmp_path / "counts.svg"
    shown = _invoke("ask", policy, COUNTS, "--epsilon", "0.1", "-o", str(file), "--plot", str(picture))
    assert (shown.exit_code, shown.stdout) == (0, "")
    assert shown.stderr.splitlines() == [f"Wrote {file}.", f"Drew {picture}."]
    assert file.read_text(encoding="utf-8").startswith("dept,n,n_low,n_high\n")
    assert "<svg" in picture.read_text(encoding="utf-8")


def test_a_question_can_come_from_stdin_and_by_its_margin(policy: str) -> None:
    sql = "SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex"
    answer = json.loads(_answered("ask", policy, "-", "--within", "n=40", "--format", "json", typed=sql))
    assert {ends["n"][1] - row["n"] for row, ends in zip(answer["rows"], answer["intervals"], strict=True)} <= {39, 40}


def test_explain_states_the_price_and_takes_nothing(policy: str) -> None:
    before = _answered("budget", policy)
    quote = json.loads(_answered("explain", policy, COUNTS, "--epsilon", "0.5", "--format", "json"))
    assert quote["loss"]["epsilon"] == "1/2"
    assert f"n: discrete Laplace, scale 40; ±{quote['margins']['n']:,} at 95 %" in _answered(
        "explain", policy, COUNTS, "--epsilon", "0.5"
    )
    assert _answered("budget", policy) == before


def test_explain_prints_statements_for_the_owner(policy: str) -> None:
    asked = ("explain", policy, COUNTS, "--epsilon", "0.5", "--statements")
    (found,) = json.loads(_answered(*asked, "--format", "json"))["statements"]
    assert _answered(*asked) == f"-- {found['label']}: {found['purpose']}\n{found['sql']};\n"


def test_budget_history_and_verify_agree(policy: str) -> None:
    _answered("ask", policy, COUNTS, "--epsilon", "0.1")
    budget = json.loads(_answered("budget", policy, "--format", "json"))
    entries = json.loads(_answered("history", policy, "--format", "json"))
    verified = json.loads(_answered("verify", policy, "--format", "json"))
    assert verified["spent"] == budget["spent"]
    assert [entry["sql"] for entry in entries].count(COUNTS) == 1
    assert {entry["state"] for entry in entries} == {"settled"}
    assert " ".join(COUNTS.split())[:50] in _answered("history", policy)
    assert f"{verified['entries']} entries" in _answered("verify", policy)


def test_an_analyst_has_a_budget_and_a_history_of_their_own(policy: str) -> None:
    before = json.loads(_answered("budget", policy, "--format", "json"))["spent"]
    _answered("ask", policy, "SELECT COUNT(*) AS n FROM patients", "--epsilon", "0.9", "--analyst", "Research")
    assert [
        one["account"] for one in json.loads(_answered("history", policy, "--analyst", "research", "--format", "json"))
    ] == ["research"]
    assert (
        json.loads(_answered("budget", policy, "--analyst", "research", "--format", "json"))["total"]["epsilon"] == "1"
    )
    assert json.loads(_answered("budget", policy, "--format", "json"))["spent"] != before
    question = ("ask", policy, "SELECT COUNT(*) AS m FROM visits", "--epsilon", "0.9", "--analyst", "research")
    assert _refused(*question).startswith("Refused (budget_exhausted): ")
    assert _refused("budget", policy, "--analyst", "pres").startswith("Refused (unknown_name): ")


def test_check_says_what_can_be_learnt_and_what_not(policy: str) -> None:
    shown = _answered("check", policy)
    for line in (
        "visits +one patient_id: at most 20 rows count, in at most 3 groups of an answer",
        "departments +public, no personal data: exact and free",
        "visits.dept +text +the keys of departments.dept +–",
        "visits.age +integer +111 public keys +0 to 110",
        "visits.cost +decimal +in buckets of your choice +0 to 5,000 in steps of 0.01",
        "visits.stay_hours +integer +keys chosen privately +no: declare bounds",
        r"- visits.patient_id, patients.patient_id: columns that name people are counted and joined.*",
        r"COUNT\(\*\) FROM visits +± 399",
        r"COUNT\(\*\) FROM patients +± 20",
    ):
        assert re.search(rf"(?m)^  {line}$", shown), line
    assert json.loads(_answered("check", policy, "--format", "json"))["tables"] >= 20


def test_a_policy_that_changed_after_spending_is_recorded_only_by_its_hash(tmp_path: Path) -> None:
    policy = fresh_clinic(tmp_path)
    _answered("ask", str(policy), "SELECT COUNT(*) FROM patients", "--epsilon", "0.1")
    changed = policy.read_text(encoding="utf-8").replace("rows_per_unit = 20", "rows_per_unit = 10")
    policy.write_text(changed, encoding="utf-8")
    refusal = _refused("check", str(policy))
    assert refusal.startswith("Refused (policy_weakened): ")
    [digest] = re.findall(r"[0-9a-f]{64}", refusal)
    assert "at most 10 rows count" in _answered("check", str(policy), "--confirm", digest)
    assert "remaining" in _answered("budget", str(policy))


def test_the_prompt_answers_a_pipe_line_by_line_and_exits_with_2_after_a_refusal(policy: str) -> None:
    lines = ["SELECT sex, COUNT(*) AS n", "FROM patients GROUP BY sex;", "EXPLAIN SELECT AVG(age) AS a FROM visits"]
    shown = _answered("sql", policy, typed="\n".join([r"\epsilon 0.05", *lines]))
    assert re.search(r"(?m)^female +[\d,]+ ± [\d,]+ \*$", shown)
    assert "price: ε = 0.05, δ = 0" in shown
    refused = _invoke("sql", policy, "--epsilon", "0.05", typed="SELECT nothing;\nSELECT COUNT(*) FROM departments;\n")
    assert refused.exit_code == 2
    assert "Refused (unknown_name)" in refused.stderr
    assert re.search(r"(?m)^ *8$", refused.stdout)  # what follows is still answered


def test_attacks_are_listed_run_by_name_and_named_when_misspelt() -> None:
    listed = re.findall(r"(?m)^(\w+) ", _answered("attack"))
    assert "difference" in listed
    assert _answered("attack", "difference", "--seed", "2") == _answered("attack", "difference", "--seed", "2") != ""
    assert "Did you mean difference?" in _refused("attack", "diffrence")


def test_an_audit_is_run_by_the_lab_for_so_many_seconds(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module(LAB), "AUDIT", lambda path, seconds: f"{path} for {seconds:g} s")
    assert _answered("audit", policy, "--seconds", "5") == f"{policy} for 5 s\n"
    for never in ("nan", "inf"):
        assert "An audit needs a time limit." in _refused("audit", policy, "--seconds", never)


# --- init ---


def test_five_commands_lead_from_a_parquet_file_to_the_first_private_answer(policy: str, tmp_path: Path) -> None:
    data, written = str(Path(policy).parent / "data" / "visits.parquet"), str(tmp_path / "mine.toml")
    options = (
        "--rows-per-unit",
        "20",
        "--bounds",
        "cost=0:5000",
        "--step",
        "cost=0.01",
        "--values",
        "dept=surgery,oncology",
    )
    shown = _answered(
        "init", data, "--unit", "patient_id", *options, "--epsilon", "3", "--delta", "1e-6", "--output", written
    )
    first, bought, following = shown.splitlines()
    assert (first, following) == (f"Wrote {written}.", f"Next: read it, then run: sfumato check {written}")
    assert bought.startswith("This budget answers about 20 tables of counts in which each count is within ±399")
    assert "visits.cost" in _answered("check", written)
    assert "±" in _answered("explain", written, COUNTS, "--epsilon", "0.5")
    assert re.search(r"(?m)^surgery +-?[\d,]+ ± [\d,]+ \*$", _answered("ask", written, COUNTS, "--epsilon", "0.5"))
    assert "remaining" in _answered("budget", written)


def test_what_is_not_known_is_left_to_be_filled_in_and_nothing_is_overwritten(policy: str, tmp_path: Path) -> None:
    data, written = str(Path(policy).parent / "data"), tmp_path / "mine.toml"
    shown = _answered("init", data, "--unit", "patient_id", "--public", "departments", "-o", str(written))
    assert "Still to fill in: tables.visits.rows_per_unit, budget.epsilon, budget.delta." in shown
    assert _refused("check", str(written)).startswith("Refused (bad_policy): ")
    before = written.read_bytes()
    assert "is never overwritten" in _refused("init", data, "--unit", "patient_id", "-o", str(written))
    assert written.read_bytes() == before


def test_the_command_that_init_names_can_be_typed_whatever_the_file_is_called(policy: str, tmp_path: Path) -> None:
    data, written = str(Path(policy).parent / "data"), tmp_path / "bobby's; data.toml"
    shown = _answered("init", data, "--unit", "patient_id", "--public", "departments", "-o", str(written))
    _, _, command = shown.splitlines()[-1].partition("then run: ")
    assert shlex.split(command) == ["sfumato", "check", str(written)]


def test_looking_says_that_it_is_not_private(policy: str, tmp_path: Path) -> None:
    data, written = str(Path(policy).parent / "data"), tmp_path / "mine.toml"
    shown = _invoke(
        "init", data, "--unit", "patient_id", "--look", "--epsilon", "1", "--delta", "0", "-o", str(written)
    )
    assert shown.exit_code == 0
    assert "That is not private" in shown.stderr
    assert _invoke("check", str(written)).exit_code == 0


def _completed(words: list[str], start: str) -> list[str]:
    """Return what a shell would offer next."""
    from click.shell_completion import ShellComplete

    shell = ShellComplete(main, {}, "sfumato", "_SFUMATO_COMPLETE")
    return [item.value for item in shell.get_completions(words, start)]


def test_a_shell_completes_analysts_and_attacks(tmp_path: Path) -> None:
    policy = str(fresh_clinic(tmp_path))
    assert _completed(["ask", policy, "SELECT 1", "--analyst"], "re") == ["research"]
    assert _completed(["budget", policy, "--analyst"], "x") == []
    assert _completed(["sql", str(tmp_path / "none.toml"), "--analyst"], "") == []
    assert _completed(["attack"], "rec") == ["reconstruct"]
