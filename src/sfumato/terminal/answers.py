"""An answer on the screen: numbers with their margins, the first of them drawn as bars; and the budget as a gauge."""

from fractions import Fraction

from rich.console import Console
from rich.text import Text

from sfumato.accounting.loss import PrivacyLoss, round_up
from sfumato.ledger.ledger import Budget
from sfumato.release.release import Release
from sfumato.release.table import shown_value
from sfumato.terminal.plain import clean, round_down
from sfumato.terminal.screen import draws, grid, say, show

BAR = 34
_ROWS = 60
_NARROW = 10

Cells = list[tuple[float, float, float] | None]
"""Of one column: low, value and high of each number, None where there is none."""


def draw_release(
    console: Console, release: Release, indent: int = 0, truth: tuple[str, list[int]] | None = None
) -> None:
    """Print the rows, the first noisy number also as bars; `truth` is one more column, of made-up people."""
    rows, ends = release.rows()[:_ROWS], release.intervals()[:_ROWS]
    texts = [
        [clean(shown_value(row[name], end[name] if isinstance(end[name], tuple) else None)) for name in release.columns]
        for row, end in zip(rows, ends, strict=True)
    ]
    numeric = [any(_is_number(row[name]) for row in rows) for name in release.columns]
    drawn = next((cells for name in release.columns if (cells := _cells(release, name)) is not None), None)
    columns = [f"{'>' if number else ''}{clean(name)}" for name, number in zip(release.columns, numeric, strict=True)]
    table = grid([*columns, *(["", f">{truth[0]}"] if truth else [""])])
    width = _room(console, texts, list(release.columns), indent, truth)
    for at, cells in enumerate(texts):
        bar = _bar(console, drawn, at, width) if drawn and len(texts) > 1 and width >= _NARROW else Text("")
        extra = [f"{truth[1][at]:,}"] if truth else []
        table.add_row(*map(Text, cells), bar, *extra)
    show(console, table, indent)
    if len(release) > _ROWS:
        console.print(Text(f"{' ' * indent}… {len(release):,} rows in all; --format has every one", "dim"))


def draw_cost(console: Console, release: Release, before: Budget, after: Budget, indent: int = 0) -> None:
    """Print what the answer cost and what is left, then the notes."""
    pad = " " * indent
    if release.event is None:
        console.print(Text(f"{pad}exact and free: nobody is in it", "dim"))
    else:
        repeated = release.loss.epsilon > 0 and after.remaining == before.remaining
        price = (
            f"free: asked before (ε = {round_up(release.loss.epsilon)} then)" if repeated else f"cost {release.loss}"
        )
        console.print(Text(f"{pad}{price} · error bars at 95 % · {left_text(after)}", "dim"))
    for note in release.notes:
        say(console, f"note: {note}", "dim", pad)


def left_text(budget: Budget) -> str:
    """Return what is left, never more than there is."""
    return f"ε = {round_down(budget.remaining.epsilon)} of {round_up(budget.total.epsilon)} left"


def draw_gauge(console: Console, budget: Budget, indent: int = 0, width: int = BAR) -> None:
    """Print what is left as a bar."""
    share = _share(budget.remaining, budget.total)
    full = int(share * width)
    style = "green" if share > Fraction(1, 2) else "yellow" if share > Fraction(1, 5) else "red"
    solid, empty = ("█", "░") if draws(console) else ("#", ".")
    bar = Text(" " * indent) + Text(solid * full, style) + Text(empty * (width - full), "dim")
    console.print(bar + Text(f"  {int(100 * share)} % left: {left_text(budget).removesuffix(' left')}"))


def _share(part: PrivacyLoss, whole: PrivacyLoss) -> Fraction:
    return min(Fraction(1), part.epsilon / whole.epsilon) if whole.epsilon else Fraction(0)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cells(release: Release, name: str) -> Cells | None:
    """Return a column as numbers with their ends; None for keys and for exact numbers."""
    cells: Cells = []
    for row, ends in zip(release.rows()[:_ROWS], release.intervals()[:_ROWS], strict=True):
        value, end = row[name], ends[name]
        if not (isinstance(value, int | float) and isinstance(end, tuple)):
            cells.append(None)
            continue
        low, high = (side if isinstance(side, int | float) else value for side in end)
        cells.append((float(low), float(value), float(high)))
    noisy = any(cell is not None and cell[0] < cell[2] for cell in cells)
    return cells if noisy else None


def _room(
    console: Console, texts: list[list[str]], names: list[str], indent: int, truth: tuple[str, list[int]] | None
) -> int:
    """Return how many characters are left for the bars."""
    widths = [max(map(len, column)) + 2 for column in zip(names, *texts, strict=True)]
    extra = max(len(truth[0]), *(len(f"{value:,}") for value in truth[1])) + 2 if truth else 0
    return min(BAR, console.width - indent - sum(widths) - extra - 2)


def _bar(console: Console, cells: Cells, at: int, width: int) -> Text:
    """Draw a number up to the low end of its error bar, then the error bar itself."""
    cell = cells[at]
    widest = max((high for _, _, high in filter(None, cells)), default=0.0)
    if cell is None or widest <= 0:
        return Text("")
    low, high = (max(0, round(width * end / widest)) for end in (cell[0], cell[2]))
    solid, blurred = ("█", "░") if draws(console) else ("#", "-")
    return Text(solid * low, "cyan") + Text(blurred * max(1, high - low), "cyan")
