"""An answer on the screen: numbers with their margins, the first of them drawn as bars; and the budget as a gauge."""

from collections.abc import Mapping
from fractions import Fraction
from math import isfinite

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from sfumato.accounting.loss import round_up
from sfumato.ledger.budget import left_share_text, renewal_text, used_text
from sfumato.ledger.ledger import FILTER_USAGE_NOTE, Budget
from sfumato.planning.notes.note import printed_notes
from sfumato.release.release import Release
from sfumato.release.rendering.escaping import escape_unprintable
from sfumato.release.rendering.reports import ASKED_BEFORE, footer_text, spending_text
from sfumato.release.rendering.table import format_value
from sfumato.terminal.screen import draws, grid, say, show

BAR_COLUMNS = 34
_MAX_SHOWN_ROWS = 60
_MIN_BAR_COLUMNS = 10

ColumnIntervals = list[tuple[float, float, float] | None]
"""Of one column: low, value and high of each number, None where there is none."""


def print_release(
    console: Console,
    release: Release,
    before: Budget,
    after: Budget,
    more_notes: str | None = None,
    *,
    free: str = ASKED_BEFORE,
    offer: str = "",
) -> None:
    """Print an answer and its price: drawn where it fits on a terminal, else as plain text that nothing cuts off.

    `more_notes` says where further notes are; None prints all of them. `free` is what an answer says that was paid for
    before, and `offer` what a finer one costs more.
    """
    if console.is_terminal and draw_release(console, release):
        draw_cost(console, release, before, after, more_notes, free=free)
    else:
        text = f"{release.to_text(more_notes)}\n{footer_text(release, before, after, free)}"
        console.print(Text(text), soft_wrap=True)
    if offer:
        say(console, offer)


def draw_release(console: Console, release: Release, indent: int = 0, truth: Mapping[str, int] | None = None) -> bool:
    """Draw the rows, the first noisy number also as bars; say whether they fit.

    `truth` is one more column, by the first key of each row: only made-up people have one that may be shown.
    """
    rows, ends = release.rows()[:_MAX_SHOWN_ROWS], release.intervals()[:_MAX_SHOWN_ROWS]
    names = list(release.columns)
    texts = [
        [
            escape_unprintable(
                format_value(
                    row[name], end[name] if isinstance(end[name], tuple) else None, marked=mark.get(name, False)
                )
            )
            for name in names
        ]
        for row, end, mark in zip(rows, ends, release.marks()[:_MAX_SHOWN_ROWS], strict=True)
    ]
    heads = [f"{'>' if any(_is_number(row[name]) for row in rows) else ''}{escape_unprintable(name)}" for name in names]
    true = [f"{truth[str(row[names[0]])]:,}" for row in rows] if truth else []
    width = _room(console, [names, *texts], true, indent)
    if width < 0:
        return False
    drawn = next((cells for name in names if (cells := _column_cells(release, name)) is not None), None)
    bars = drawn if drawn and len(texts) > 1 and width >= _MIN_BAR_COLUMNS else None
    table = grid([*heads, "", *([">true"] if true else [])])
    for index, line in enumerate(texts):
        bar = Text("") if bars is None else _bar(console, bars, index, width)
        table.add_row(*map(Text, line), bar, *true[index : index + 1])
    show(console, table, indent)
    if len(release) > _MAX_SHOWN_ROWS:
        console.print(Text(f"{' ' * indent}… {len(release):,} rows in total; other formats contain all of them", "dim"))
    return True


def draw_cost(
    console: Console,
    release: Release,
    before: Budget,
    after: Budget,
    more_notes: str | None,
    indent: int = 0,
    free: str = ASKED_BEFORE,
) -> None:
    """Print what the answer cost and what is left, then the notes."""
    pad = " " * indent
    say(console, f"{spending_text(release, before, after, free)} · {used_text(after)}", "dim", pad)
    for line in (*release.legend(), *printed_notes(release.notes, more_notes)):
        say(console, escape_unprintable(line), "dim", pad)


def draw_gauge(console: Console, budget: Budget, indent: int = 0, width: int = BAR_COLUMNS) -> None:
    """Print what is left as a bar."""
    share = 1 - budget.used
    full = int(share * width)
    style = "green" if share > Fraction(1, 2) else "yellow" if share > Fraction(1, 5) else "red"
    solid, empty = ("█", "░") if draws(console) else ("#", ".")
    bar = Text(" " * indent) + Text(solid * full, style) + Text(empty * (width - full), "dim")
    console.print(bar + Text(f"  {left_share_text(budget)}; spent at most ε = {round_up(budget.spent.epsilon)}"))


def explain_gauge(console: Console, budget: Budget) -> None:
    """Print what the gauge measures, where it is not the sum of the prices."""
    draw_gauge(console, budget)
    if renews := renewal_text(budget):
        say(console, f"renews {renews}", "dim")
    if budget.promise:
        say(console, budget.promise, "yellow")
    if budget.total.delta and budget.used:
        say(console, FILTER_USAGE_NOTE, "dim")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _column_cells(release: Release, name: str) -> ColumnIntervals | None:
    """Return a column as numbers with their ends; None for keys and for exact numbers."""
    cells: ColumnIntervals = []
    for row, ends in zip(release.rows()[:_MAX_SHOWN_ROWS], release.intervals()[:_MAX_SHOWN_ROWS], strict=True):
        value, end = row[name], ends[name]
        if not (isinstance(value, int | float) and isinstance(end, tuple)):
            cells.append(None)
            continue
        low, high = (side if isinstance(side, int | float) else value for side in end)
        cell = (float(low), float(value), float(high))
        cells.append(cell if all(map(isfinite, cell)) else None)
    noisy = any(cell is not None and cell[0] < cell[2] for cell in cells)
    return cells if noisy else None


def _room(console: Console, texts: list[list[str]], true: list[str], indent: int) -> int:
    """Return how many characters are left for the bars; below zero, the texts themselves do not fit."""
    widths = [max(map(cell_len, column)) + 2 for column in zip(*texts, strict=True)]
    extra = max(map(len, ["true", *true])) + 2 if true else 0
    return min(BAR_COLUMNS, console.width - indent - sum(widths) - extra - 2)


def _bar(console: Console, cells: ColumnIntervals, index: int, width: int) -> Text:
    """Draw a number up to the low end of its error bar, then the error bar itself."""
    cell = cells[index]
    widest = max((high for _, _, high in filter(None, cells)), default=0.0)
    if cell is None or widest <= 0:
        return Text("")
    low, high = (max(0, round(width * end / widest)) for end in (cell[0], cell[2]))
    high = max(high, 1)
    low = min(low, high - 1)  # an error bar is never shorter than one character
    solid, blurred = ("█", "░") if draws(console) else ("#", "-")
    return Text(solid * low, "cyan") + Text(blurred * (high - low), "cyan")
