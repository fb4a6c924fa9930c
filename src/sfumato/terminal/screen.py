"""The terminal: what it can draw, how wide it is, and which phase long work is in."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import ceil
from textwrap import wrap
from threading import Timer
from time import monotonic

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

    left = RemainingTime()

    def tell(phase: str, table: str) -> None:
        status.update(Text(phase_text(phase, table, left)))
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


class RemainingTime:
    """About how long a phase still takes, from the share of it that is done; a table without shares has none."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._of: tuple[str, str] | None = None
        self._begun = 0.0

    def after(self, phase: str, table: str, percent: int) -> str:
        """Return the words for the time that is left; empty as long as there is nothing to tell it from."""
        if self._of != (phase, table) or percent == 0:
            self._of, self._begun = (phase, table), self._clock()
            return ""
        seconds = (self._clock() - self._begun) * (100 - percent) / percent
        if seconds < 1:
            return ""
        return f", about {ceil(seconds)} s left" if seconds < 100 else f", about {ceil(seconds / 60)} min left"


def phase_text(phase: str, table: str, left: RemainingTime) -> str:
    """Return the line of a phase: NAME, or NAME PERCENT % where the share that is done is known."""
    name, _, share = phase.partition(" ")
    percent = int(share.removesuffix(" %")) if share.removesuffix(" %").isdigit() else None
    words = _PHASES.get(phase if percent is None else name, f"{phase} {{}}").format(escape_unprintable(table)).strip()
    return f"{words} …" if percent is None else f"{words} … {percent} %{left.after(name, table, percent)}"


def _say_nothing(_phase: str, _table: str) -> None:
    """Do nothing."""
