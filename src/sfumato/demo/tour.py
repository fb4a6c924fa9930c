"""The tour: a made-up clinic is built and registered, a handful of questions is asked, and the folder stays."""

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from sfumato.database import Database
from sfumato.demo.clinic import DEPARTMENTS, PATIENTS, patients_seen, write_clinic
from sfumato.errors import BadParameter, Interface, Refusal, quote_value
from sfumato.opening import open
from sfumato.planning.notes.note import printed_notes
from sfumato.release.release import Release
from sfumato.release.rendering.reports import spending_text
from sfumato.terminal.answers import draw_gauge, draw_release
from sfumato.terminal.screen import phases, say

POLICY = "clinic.toml"
_INDENT_COLUMNS = 3
_SUGGESTED_QUERY = "SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex"
_EXPENSIVE_QUERY = "SELECT AVG(age) AS age FROM visits"
_TEMPLATE = Path(__file__).with_name(POLICY)


@dataclass(frozen=True, slots=True)
class Question:
    """One stop of the tour."""

    title: str
    words: str
    sql: str
    epsilon: str | None = None
    within: str | None = None
    """A margin for the column n."""


PATIENTS_PER_DEPARTMENT = Question(
    "How many patients did each department see?",
    "With or without any one patient, no answer becomes more than e^0.2 = 1.23 times as likely. The light end of "
    "a bar is its error bar: the truth lies there with 95 %. It is shown beside it because these patients are "
    "synthetic.",
    "SELECT dept, COUNT(DISTINCT patient_id) AS patients\nFROM visits GROUP BY dept",
    epsilon="0.2",
)
QUESTIONS = (
    PATIENTS_PER_DEPARTMENT,
    Question(
        "What does a visit cost?",
        "An average is a noisy sum over a noisy count; its error bar knows both. Costs count up to the 5,000 that the"
        " policy promises, so one patient can move the sum only so far.",
        "SELECT urgent, AVG(cost) AS cost\nFROM visits GROUP BY urgent",
        epsilon="0.3",
    ),
    Question(
        "How busy is each wing?",
        "The departments are a public table: joining it costs nothing more, and asking it alone costs nothing at all.",
        "SELECT d.wing, COUNT(*) AS visits\nFROM visits v JOIN departments d ON v.dept = d.dept\nGROUP BY d.wing",
        epsilon="0.2",
    ),
    Question(
        "Where do patients live, to within 100?",
        "Say how exact it must be, and the price is found: the smallest that keeps the promise. The policy does "
        "not list the districts, so they are selected privately.",
        "SELECT district, COUNT(*) AS n\nFROM patients GROUP BY district",
        within="100",
    ),
    Question(
        "How long do patients stay?",
        "What cannot be answered safely is refused before any data is read, with the way out.",
        "SELECT AVG(stay_hours) AS hours FROM visits",
        epsilon="0.2",
    ),
    Question(
        "The first question again",
        "An answer that was given is given again: the same numbers, at no cost. The noise cannot be averaged away.",
        PATIENTS_PER_DEPARTMENT.sql,
        PATIENTS_PER_DEPARTMENT.epsilon,
    ),
)


def tour(folder: Path, console: Console, errors: Console, patients: int = PATIENTS) -> None:
    """Build the clinic where there is none, ask the questions, and print the lines to go on with."""
    console.print()
    console.print(Text.assemble(("sfumato", "bold"), ": the picture stays, and no line can be pointed at."))
    console.print()
    fresh = prepare_demo(folder, errors, patients)
    place = shlex.quote(str(folder))
    if fresh:
        say(
            console,
            f"{patients:,} patients, their visits and {len(DEPARTMENTS)} departments were generated in {place}.",
        )
    else:
        say(
            console,
            f"The clinic in {place} is there already: questions asked before are free. Delete it to start again.",
        )
    with phases(errors) as progress:
        database = open(folder / POLICY, progress=progress)
    with database:
        explained: set[str] = set()
        for number, question in enumerate(QUESTIONS, 1):
            truth = patients_seen(folder / "data") if question is PATIENTS_PER_DEPARTMENT else None
            _stop(console, database, number, question, truth, explained)
    _go_on(console, place)


def prepare_demo(folder: Path, errors: Console, patients: int = PATIENTS) -> bool:
    """Make the folder, whole or not at all; False where the clinic is there already. A foreign folder is refused."""
    if _is_ours(folder):
        return False
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadParameter(
            f"{quote_value(str(folder))} exists and is not the demo's.",
            "What is there may be yours, and is not touched.",
            "Name another folder: sfumato demo FOLDER.",
        )
    with phases(errors) as progress:
        try:
            folder.absolute().parent.mkdir(parents=True, exist_ok=True)
            aside = Path(tempfile.mkdtemp(prefix=".sfumato-demo-", dir=folder.absolute().parent))
            try:
                progress("make", "patients")
                (aside / "data").mkdir()
                write_clinic(aside / "data", patients)
                shutil.copyfile(_TEMPLATE, aside / POLICY)
                aside.rename(folder)
            except BaseException:
                shutil.rmtree(aside, ignore_errors=True)
                raise
        except OSError:
            raise BadParameter(
                f"{quote_value(str(folder))} cannot be written.",
                "The demo leaves a folder.",
                "Name another: sfumato demo FOLDER.",
            ) from None
    return True


def _is_ours(folder: Path) -> bool:
    """Tell whether an earlier tour left this folder: its policy may have been changed since, below its first line."""
    try:
        with (folder / POLICY).open(encoding="utf-8") as existing, _TEMPLATE.open(encoding="utf-8") as template:
            return existing.readline() == template.readline() and (folder / "data").is_dir()
    except (OSError, UnicodeDecodeError):
        return False


def _stop(
    console: Console,
    database: Database,
    number: int,
    question: Question,
    truth: Mapping[str, int] | None,
    explained: set[str],
) -> None:
    """Ask one question; notes that were told before are not told again."""
    _title(console, number, question.title)
    say(console, question.words, indent=" " * _INDENT_COLUMNS)
    console.print()
    price = f"--epsilon {question.epsilon}" if question.epsilon else f"--within n={question.within}"
    for line in f"{question.sql}  {price}".splitlines():
        console.print(Text(" " * _INDENT_COLUMNS + line, "bold cyan"), soft_wrap=True)
    console.print()
    before = database.budget()
    within = None if question.within is None else {"n": question.within}
    try:
        release = database.ask(question.sql, epsilon=question.epsilon, within=within)
    except Refusal as refusal:
        say(console, f"Refused ({refusal.code}): {refusal.what}", "red", " " * _INDENT_COLUMNS)
        say(console, f"why:  {refusal.why}", indent=" " * (_INDENT_COLUMNS + 2))
        say(console, f"next: {refusal.remedy_for(Interface.COMMAND)}", indent=" " * (_INDENT_COLUMNS + 2))
        return
    if not draw_release(console, release, _INDENT_COLUMNS, truth):
        console.print(Text(str(release)), soft_wrap=True)
    if truth is not None:
        held = _held_count(release, truth)
        say(console, f"{held} of {len(release)} error bars hold the truth.", indent=" " * _INDENT_COLUMNS)
    after = database.budget()
    say(console, f"{spending_text(release, before, after)} · error bars at 95 %", "dim", " " * _INDENT_COLUMNS)
    for line in release.legend():
        say(console, line, "dim", " " * _INDENT_COLUMNS)
    for line in printed_notes([note for note in release.notes if note not in explained], "sfumato ask --notes"):
        say(console, line, "dim", " " * _INDENT_COLUMNS)
    explained.update(release.notes)
    draw_gauge(console, after, _INDENT_COLUMNS)


def _held_count(release: Release, truth: Mapping[str, int]) -> int:
    ends = [(row["dept"], row["patients"]) for row in release.intervals()]
    return sum(low <= truth[str(dept)] <= high for dept, (low, high) in ends)


def _title(console: Console, number: int, text: str) -> None:
    console.print()
    console.print(Text(f"{number}  {text}", "bold"))


def _go_on(console: Console, place: str) -> None:
    program, policy = _program(), f"{place}/{POLICY}"
    console.print()
    console.print(Text("Go on from here", "bold"))
    for line in (
        f'ask {policy} "{_SUGGESTED_QUERY}" --within n=50',
        f'explain {policy} "{_EXPENSIVE_QUERY}" --epsilon 0.1',
        f"sql {policy}",
        f"check {policy}",
        f"history {policy}",
        f"init {place}/data --unit patient_id --output my-clinic.toml",
        "attack",
    ):
        console.print(Text(f"   {program} {line}"), soft_wrap=True)
    console.print()
    say(console, f"The policy is {policy}: open it, it explains itself.", "dim")
    console.print()


def _program() -> str:
    """Return how this program is started from here: it may lie in an environment that is not on the path."""
    if shutil.which("sfumato"):
        return "sfumato"
    started = Path(sys.argv[0])
    if started.name == "sfumato" and started.exists():
        return _shorter(started)
    return f"{_shorter(Path(sys.executable))} -m sfumato"


def _shorter(path: Path) -> str:
    return shlex.quote(min(str(path.absolute()), os.path.relpath(path), key=len))
