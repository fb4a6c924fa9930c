r"""The prompt of `sfumato sql`: questions over several lines, their prices, and what is left of the budget.

A question ends with a semicolon or an empty line; a line may hold several. Lines that start with a backslash are for
the prompt itself, and so are `help` and `exit`.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from rich.cells import cell_len
from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from sfumato.accounting.loss import delta_or_zero
from sfumato.database import Database
from sfumato.engines.sql.names import quoted
from sfumato.errors import Refusal, UnknownName, quote_value, suggestion
from sfumato.exact import positive, typed_rational, typed_share
from sfumato.ledger.budget import left_share_text
from sfumato.planning.accuracy_target import read_margins
from sfumato.planning.refinement_offer import RefinementOffer, explain_with_offer
from sfumato.policy.describing import column_words, table_words
from sfumato.policy.policy import Table, fold_name
from sfumato.query.functions import AGGREGATE_NAMES, FUNCTION_NAMES
from sfumato.release.rendering.account_reports import history_text
from sfumato.release.rendering.escaping import escape_unprintable
from sfumato.terminal.answers import explain_gauge, print_release
from sfumato.terminal.colouring import colour_sql
from sfumato.terminal.screen import PROGRESS_DELAY_SECONDS, grid, phases, say, show
from sfumato.terminal.statements import split_statements
from sfumato.views import free_text

HELP = r"""SELECT …;           ask; a question ends with ; or an empty line
EXPLAIN SELECT …;   its price and its margins; free, and no data is read
\epsilon 0.5        what each question from now on may cost
\within n=25        ask for margins instead, by column; \within alone ends it
\share 2%           ask for a part of the budget instead; \share alone ends it
\delta 1e-9         the delta of questions that need one; \delta alone ends it
\d  \d TABLE        the tables; columns of one, with bounds, keys and limits
\budget  \history   what is left, and what was asked
\notes              all notes of the last answer
\refine             a finer answer to the last question, at the price below it
help  exit          this text, and the end; also \? and \q"""
_KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "JOIN", "LEFT JOIN", "ON", "USING", "AND",
    "OR", "NOT", "BETWEEN", "IN", "IS NULL", "AS", "DISTINCT", "COUNT(*)", "CASE", "WHEN", "THEN", "ELSE", "END",
    "WITH", "DESC", "ASC", "FILTER", "EXPLAIN", "help", "exit",
)  # fmt: skip
_HELPING, _LEAVING = frozenset({"help", r"\?", r"\help"}), frozenset({"exit", "quit", r"\q", r"\quit"})
_MAX_HISTORY_LINES = 1000

ReadLine = Callable[[str], str]
"""Shows a prompt and returns a line, or raises EOFError."""


@dataclass(slots=True)
class Session:
    """A prompt at one database."""

    database: Database
    console: Console
    errors: Console
    refuse: Callable[[Refusal], None]
    """Shows a refusal."""
    asked: dict[str, object] = field(default_factory=dict)
    """Price of each query: epsilon, within or share."""
    refused: bool = False
    notes: tuple[str, ...] = ()
    """The notes of the last answer."""
    finer: tuple[str, RefinementOffer] | None = None
    """The last question, with what a finer answer to it costs more."""

    def run(self, read: ReadLine) -> None:
        r"""Read and answer until the lines end, or `exit`."""
        pending = ""
        while True:
            try:
                line = read(self.prompt(bool(pending)))
            except EOFError:
                if not pending:
                    return
                line = ";"
            except KeyboardInterrupt:  # forget the half of a question, stay
                pending = ""
                self.console.print()
                continue
            word = line.strip().rstrip(";").rstrip().lower()
            if not pending and word in _LEAVING:
                return
            if not pending and (word in _HELPING or word.startswith("\\")):
                self._guard(self._command, word if word in _HELPING else line.strip().rstrip(";").rstrip())
                continue
            questions, pending = split_statements(f"{pending}\n{line}")
            if pending and not line.strip():  # an empty line ends a question too
                questions, pending = [*questions, pending], ""
            for question in questions:
                self._guard(self._answer, question)

    def prompt(self, inside: bool) -> str:
        """Return the prompt: the dataset's name and the share of the budget that is left."""
        name = escape_unprintable(self.database.policy.name)
        if inside:
            return f"{'…':>{len(name)}}> "
        return f"{name} {left_share_text(self.database.budget())}> "

    def _guard(self, act: Callable[[str], None], typed: str) -> None:
        try:
            act(typed)
        except Refusal as refusal:
            self.refused = True
            self.refuse(refusal)
        except KeyboardInterrupt:
            self.errors.print(Text("Interrupted. A question that had begun stays charged."))

    def _answer(self, question: str, price: dict[str, object] | None = None) -> None:
        asked = self.asked if price is None else price
        epsilon, within, share, delta = (asked.get(name) for name in ("epsilon", "within", "share", "delta"))
        first, *rest = question.split(maxsplit=1)
        if first.upper() == "EXPLAIN":
            quote, offer = explain_with_offer(
                self.database.explain, "".join(rest), epsilon=epsilon, within=within, share=share, delta=delta
            )
            for line in str(quote).splitlines():
                say(self.console, line)
            if offer is not None:
                self.finer = "".join(rest), offer
                say(self.console, offer.sentence(r"\refine"))
            return
        before = self.database.budget()
        with phases(self.errors, PROGRESS_DELAY_SECONDS) as progress:
            release = self.database.ask(
                question, epsilon=epsilon, within=within, share=share, delta=delta, progress=progress
            )
        self.notes = release.notes
        self.finer = self._offer(question, {"epsilon": epsilon, "within": within, "share": share, "delta": delta})
        told = "" if self.finer is None else self.finer[1].sentence(r"\refine")
        free = free_text(release, self.database.entry)
        print_release(
            self.console, release, before, self.database.budget(), r"\notes", free=free, offer=escape_unprintable(told)
        )

    def _offer(self, question: str, price: dict[str, object]) -> tuple[str, RefinementOffer] | None:
        """Return a question with what a finer answer to it costs more; None where that is its full price."""
        with suppress(Refusal):
            found = explain_with_offer(self.database.explain, question, **price)[1]
            return None if found is None else (question, found)
        return None

    def _refine(self) -> None:
        if self.finer is None:
            raise UnknownName(
                "There is no answer to refine.",
                "A finer answer costs less than its full price only where an earlier answer can be used.",
                "Ask a question; the line below its answer says what a finer one costs more.",
            )
        question, offer = self.finer
        self._answer(question, dict(offer.price))

    def _command(self, typed: str) -> None:
        name, _, rest = typed.partition(" ")
        commands: dict[str, Callable[[str], None]] = {
            **dict.fromkeys(_HELPING, lambda _: self.console.print(Text(HELP))),
            r"\d": self._describe,
            r"\budget": lambda _: explain_gauge(self.console, self.database.budget()),
            r"\history": lambda _: self.console.print(Text(history_text(self.database.history()))),
            r"\notes": lambda _: self._show_notes(),
            r"\refine": lambda _: self._refine(),
            r"\epsilon": self._epsilon,
            r"\within": self._within,
            r"\share": self._share,
            r"\delta": self._delta,
        }
        if name not in commands:
            raise UnknownName(
                f"There is no command {quote_value(name)}.",
                "Lines that start with a backslash are commands of the prompt.",
                f"{suggestion(name, commands)}`help` lists them.",
            )
        commands[name](rest.strip())

    def _show_notes(self) -> None:
        for note in self.notes or ("The last answer has no notes.",):
            say(self.console, escape_unprintable(note))

    def _epsilon(self, typed: str) -> None:
        positive(typed_rational(typed, "epsilon"), "epsilon")
        self.asked = {**self._kept_settings("delta"), "epsilon": typed}

    def _within(self, typed: str) -> None:
        margins = {"within": read_margins(typed.split())} if typed else {}
        self.asked = {**self._kept_settings("delta"), **margins}

    def _share(self, typed: str) -> None:
        if typed:
            typed_share(typed, "share")
        self.asked = {**self._kept_settings("delta"), **({"share": typed} if typed else {})}

    def _delta(self, typed: str) -> None:
        if typed:
            delta_or_zero(typed_rational(typed, "delta"))
        self.asked = {**self._kept_settings("epsilon", "within", "share"), **({"delta": typed} if typed else {})}

    def _kept_settings(self, *names: str) -> dict[str, object]:
        return {name: value for name, value in self.asked.items() if name in names}

    def _describe(self, typed: str) -> None:
        tables = self.database.visible_policy.tables
        if not typed:
            listing = grid(["table", "protects"])
            for other in tables:
                listing.add_row(Text(escape_unprintable(other.name)), Text(escape_unprintable(table_words(other))))
            show(self.console, listing)
            return
        found = next((table for table in tables if fold_name(table.name) == fold_name(typed.strip('"'))), None)
        if found is None:
            raise UnknownName(
                f"There is no table {quote_value(typed)}.",
                "The policy declares none of that name.",
                rf"{suggestion(typed, columns_by_table(self.database))}\d lists them.",
            )
        say(self.console, escape_unprintable(table_words(found)))
        listing = grid(["column", "type", "holds"])
        for name, kind in columns_by_table(self.database)[fold_name(found.name)].items():
            column = found.column(name)
            words = column_words(found, column) if column is not None else ""
            listing.add_row(Text(escape_unprintable(name)), Text(kind), Text(escape_unprintable(words)))
        listing.columns[-1].no_wrap = False
        show(self.console, listing)


def columns_by_table(database: Database) -> Mapping[str, Mapping[str, str]]:
    """Return every table with its columns and their types, as queries know them."""
    return {fold_name(table.name): _column_types(database, table) for table in database.visible_policy.tables}


def _column_types(database: Database, table: Table) -> Mapping[str, str]:
    if table.columns or not table.public:
        return {fold_name(column.name): str(column.type) for column in table.columns}
    # a public table may leave its columns to the source: asking for none of its rows names them
    named = database.ask(f"SELECT * FROM {quoted(table.name)} LIMIT 0")  # noqa: S608
    return {name: str(facts.type) for name, facts in zip(named.columns, named.facts, strict=True)}


def completion_words(database: Database) -> list[str]:
    """Return the words to complete: tables, columns, functions, keywords and commands."""
    named = columns_by_table(database)
    fields = {name for table in named.values() for name in table}
    functions = {f"{name.upper()}(" for name in (*FUNCTION_NAMES, *AGGREGATE_NAMES)}
    commands = {line.split()[0] for line in HELP.splitlines()} - {"SELECT", "EXPLAIN"}
    return sorted({*named, *fields, *functions, *_KEYWORDS, *commands, r"\history", r"\q"} - {""})


def completions(known: Iterable[str], start: str) -> list[str]:
    """Return the words that begin like what was typed, whatever the case.

    >>> completions(["visits", "COUNT(", "cost"], "co")
    ['COUNT(', 'cost']
    """
    return [word for word in known if start and word.lower().startswith(start.lower())]


def with_readline(database: Database) -> ModuleType | None:
    """Give `input` a history and completion, where the system has readline."""
    if find_spec("readline") is None:
        return None
    readline = import_module("readline")
    known = completion_words(database)
    readline.set_completer_delims(" \t\n,()=<>+-*/;")
    readline.set_completer(lambda start, state: dict(enumerate(completions(known, start))).get(state))
    readline.parse_and_bind("tab: complete")
    with suppress(OSError):
        readline.read_history_file(history_file())
    readline.set_history_length(_MAX_HISTORY_LINES)
    return readline


def save_history(readline: ModuleType | None) -> None:
    """Keep the questions that were typed, for their typist only; where that fails, the next session starts without."""
    if readline is None:
        return
    file = history_file()
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch(mode=0o600)
        readline.write_history_file(file)


def history_file() -> Path:
    """Return where the questions of the prompt are kept."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "sfumato" / "history"


def coloured_input(console: Console) -> ReadLine:
    """Return an input function that reads a line at a terminal and repeats it in colour."""

    def read(prompt: str) -> str:
        line = input(prompt)
        rows = -(-cell_len(f"{prompt}{line}") // max(console.width, 1)) or 1
        if console.is_terminal and console.color_system is not None and line.strip() and line.isprintable():
            console.control(Control((ControlType.CURSOR_UP, rows), ControlType.CARRIAGE_RETURN))
            console.print(Text(prompt) + colour_sql(line), soft_wrap=True)
        return line

    return read
