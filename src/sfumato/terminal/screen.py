"""The terminal: what it can draw, how wide it is, and which phase long work is in."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from textwrap import wrap
from threading import Timer

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sfumato.engines.engine import Progress
from sfumato.release.rendering.escaping import escape_unprintable

MAX_LINE_COLUMNS = 96
"""Maximum width of text."""
_PHASES = {
    "make": "making up {}",
    "load": "loading {}",
    "read": "reading {}",
    "bound": "choosing each person's rows in {}",
    "sort": "writing the bounded copy of {}",
    "copy": "copying {}",
    "plan": "reading the question",
    "charge": "charging it to the ledger",
    "run": "reading the bounded copy",
    "noise": "adding noise",
}
PROGRESS_DELAY_SECONDS = 0.3
"""Delay before progress is shown."""


def screen(*, stderr: bool = False) -> Console:
    """Return the console. Colours appear on a terminal only, and never under NO_COLOR."""
    return Console(stderr=stderr, highlight=False, no_color=True if os.environ.get("NO_COLOR") else None)


def draws(console: Console) -> bool:
    """Tell whether the terminal knows the characters that bars are made of."""
    return console.encoding.lower().startswith("utf")


def say(console: Console, text: str, style: str = "", indent: str = "") -> None:
    """Print a paragraph."""
    width = min(console.width, MAX_LINE_COLUMNS) - len(indent)
    for line in wrap(text, max(width, 20), break_long_words=False, break_on_hyphens=False):
        console.print(Text(indent + line, style))


def grid(columns: Iterable[str]) -> Table:
    """Return a table without lines; a name that starts with > is of a column set to the right."""
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in columns:
        justify = "right" if name.startswith(">") else "left"
        table.add_column(Text(name.removeprefix(">")), justify=justify, no_wrap=True)  # type: ignore[arg-type]
    return table


def show(console: Console, table: Table, indent: int = 0) -> None:
    """Print a table."""
    console.print(Padding(table, (0, 0, 0, indent), expand=False))


@contextmanager
def phases(console: Console, patience: float = 0) -> Iterator[Progress]:
    """Show the phase of long work on a terminal; never how many rows there are.

    Work that ends within `patience` seconds is not shown.
    """
    if not console.is_terminal:
        yield _say_nothing
        return
    status = console.status("")
    waiting = Timer(patience, status.start)
    begun: list[str] = []

    def tell(phase: str, table: str) -> None:
        status.update(Text(_PHASES.get(phase, f"{phase} {{}}").format(escape_unprintable(table)).strip() + " …"))
        if not begun:
            begun.append(phase)
            (waiting if patience else status).start()

    try:
        yield tell
    finally:
        waiting.cancel()
        if begun and patience:
            waiting.join()
        status.stop()


def _say_nothing(_phase: str, _table: str) -> None:
    """Do nothing."""
