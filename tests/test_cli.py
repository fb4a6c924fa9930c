"""The command line shows what exists, starts at once, and prints a refusal as an answer."""

import io
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from rich.console import Console
from tests.sources import HashSource, ScriptedSource, SourceDied

from sfumato import __version__
from sfumato.cli import main
from sfumato.demo import DELTA, LEVEL, PATIENTS, REPEATS, SHARES, tour
from sfumato.errors import REFUSALS, BadParameter
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.source import Source

TITLES = ("A histogram", "Is “95 %” true?", "The three busiest", "A survey", "What did it cost?", "A budget that holds")


def _tour(source: Source, color: bool = False, encoding: str = "utf-8") -> str:
    shown = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    tour(Console(file=shown, width=80, force_terminal=color, highlight=False, _environ={"TERM": "xterm"}), source)
    shown.seek(0)
    return shown.read()


@pytest.fixture(scope="module")
def screen() -> str:
    return _tour(HashSource("tour"))


def test_the_tour_shows_every_act_in_order(screen: str) -> None:
    assert re.findall(r"(?m)^\d  (.*)", screen) != []
    places = [screen.index(title) for title in TITLES]
    assert places == sorted(places)


def test_the_tour_fits_into_80_columns_and_cuts_nothing_off(screen: str) -> None:
    assert max(len(line) for line in screen.splitlines()) <= 80
    assert "…" not in re.sub(r"\d … \d", "", screen)


def test_the_tour_shows_each_department_with_the_exact_margin(screen: str) -> None:
    rows = re.findall(r"(?m)^   ([^\d\n]+?) +([\d,]+)  (\d+)  █*░+ +([\d,]+)", screen)
    assert [name for name, *_ in rows] == list(SHARES)
    assert {margin for _, _, margin, _ in rows} == {str(DiscreteLaplace(200).margin(LEVEL))}  # type: ignore[arg-type]
    assert sum(int(true.replace(",", "")) for *_, true in rows) == PATIENTS


def test_the_tour_measures_the_coverage_it_states(screen: str) -> None:
    found = re.search(r"([\d,]+) of ([\d,]+) error bars", screen)
    assert found
    inside, drawn = (int(text.replace(",", "")) for text in found.groups())
    assert drawn == REPEATS * len(SHARES)
    assert 0.93 < inside / drawn < 0.97  # the source is fixed: this cannot fail by chance


def test_the_tour_states_the_price_known_from_the_literature(screen: str) -> None:
    # 100 × ε = 0.1 at δ = 1e-6: the optimal composition of pure losses is 4.77456758811 [KOV15]
    assert DELTA * 10**6 == 1
    assert "4.7745 … 4.7746" in screen


def test_the_tour_ends_its_budget_with_a_refusal_and_a_remedy(screen: str) -> None:
    assert "after 39 counts" in screen
    assert "Count 40 is refused (budget_exhausted)" in screen
    assert "ask the owner to raise the budget" in " ".join(screen.split())


def test_the_tour_has_no_colours_where_nobody_sees_them(screen: str) -> None:
    assert "\x1b" not in screen
    assert "\x1b[" in _tour(HashSource("tour"), color=True)


def test_the_tour_works_on_a_terminal_without_unicode() -> None:
    shown = _tour(HashSource("tour"), encoding="ascii")
    assert shown.isascii()
    assert "####" in shown


def test_a_source_that_dies_shows_no_histogram() -> None:
    shown = io.StringIO()
    with pytest.raises(SourceDied):
        tour(Console(file=shown, width=80), ScriptedSource(bytes(4 * PATIENTS)))
    assert not any(name in shown.getvalue() for name in SHARES)


def test_codes_prints_every_code_with_its_sentence() -> None:
    shown = CliRunner().invoke(main, ["codes"])
    assert shown.exit_code == 0
    assert re.findall(r"(?m)^(\w+) ", shown.output) == [kind.code for kind in REFUSALS]
    for kind in REFUSALS:
        assert " ".join((kind.__doc__ or "").split()) in " ".join(shown.output.split())
    assert max(map(len, shown.output.splitlines())) <= 80


def test_every_verb_says_in_one_line_what_it_does() -> None:
    shown = CliRunner().invoke(main, ["--help"])
    assert shown.exit_code == 0
    for name, verb in main.commands.items():
        assert (verb.help or "").strip().endswith(".")
        assert re.search(rf"(?m)^  {name} +\w", shown.output)


def test_a_refusal_is_printed_to_stderr_without_a_trace_and_exits_with_2(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def ask() -> None:
        raise BadParameter("epsilon = 0 is not positive.", "It means nothing.", "Give epsilon > 0.")

    monkeypatch.setitem(main.commands, "ask", ask)
    shown = CliRunner().invoke(main, ["ask"])
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert shown.stderr == "Refused (bad_parameter): epsilon = 0 is not positive. It means nothing. Give epsilon > 0.\n"


def _run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in {"FORCE_COLOR", "COLUMNS"}}
    command = [sys.executable, "-m", "sfumato", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=clean | environment, cwd=Path("/"), encoding="utf-8"
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
    code = "import sys, sfumato.cli; print(sorted({'numpy', 'scipy', 'rich', 'duckdb'} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"


def test_the_tour_takes_less_than_20_seconds_as_a_program_and_draws_new_noise_each_time() -> None:
    start = time.perf_counter()
    first, second = (_run("demo", PYTHONUTF8="1") for _ in range(2))
    assert time.perf_counter() - start < 2 * 20
    assert (first.returncode, first.stderr) == (0, "")
    assert "\x1b" not in first.stdout
    assert first.stdout != second.stdout


def test_an_unknown_verb_is_refused_with_2() -> None:
    assert _run("paint").returncode == 2
