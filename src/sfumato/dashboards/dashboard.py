"""A dashboard file: titles, questions, and what one refresh of all of them may cost."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from sfumato.errors import BadParameter, quote_value, suggestion
from sfumato.planning.workload import MAX_QUERIES_PER_WORKLOAD

MAX_DASHBOARD_BYTES = 1 << 20
PERIODS = ("day", "week", "month", "quarter", "year")
CHARTS = ("auto", "table", "heatmap", "shares", "scatter")
_KEYS = ("title", "epsilon", "share", "delta", "period", "tiles")
_TILE_KEYS = ("title", "sql", "chart")
_EXAMPLE = """title = "Visits"
epsilon = "0.5"
period = "month"

[[tiles]]
title = "By department"
sql = "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"
"""


@dataclass(frozen=True, slots=True)
class DashboardTile:
    """One question of a dashboard."""

    title: str
    sql: str
    chart: str = "auto"


@dataclass(frozen=True, slots=True)
class SavedDashboard:
    """Questions that are asked together, and their price."""

    title: str
    tiles: tuple[DashboardTile, ...]
    price: Mapping[str, str]
    """epsilon or share, and delta: as `ask_all` takes them."""
    period: str = ""
    """It is charged once in each period at most; empty: once for each snapshot."""

    @property
    def questions(self) -> list[str]:
        """The texts, in the order of the tiles."""
        return [tile.sql for tile in self.tiles]


def read_dashboard(source: Path | str | Mapping[str, Any]) -> SavedDashboard:
    """Read a dashboard from a TOML file or a dict, or refuse it. Nothing is asked."""
    return parse_dashboard(_content(Path(source)) if isinstance(source, str | Path) else source)


def parse_dashboard(data: str | Mapping[str, Any]) -> SavedDashboard:
    """Read a dashboard from the text of a file or a dict."""
    if isinstance(data, str):
        try:
            data = tomllib.loads(data, parse_float=str)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise _bad_dashboard("It is not TOML.", str(error) if isinstance(error, ValueError) else "") from None
    _check_keys(data, _KEYS, "A dashboard")
    tiles = data.get("tiles")
    if not isinstance(tiles, list) or not 1 <= len(tiles) <= MAX_QUERIES_PER_WORKLOAD:
        raise _bad_dashboard(f"It needs 1 to {MAX_QUERIES_PER_WORKLOAD} [[tiles]].")
    period = _text(data, "period", "")
    if period and period not in PERIODS:
        raise _bad_dashboard(f"period = {quote_value(period)}: it is one of {', '.join(PERIODS)}.")
    price = {name: _number(data[name], name) for name in ("epsilon", "share", "delta") if name in data}
    if len({"epsilon", "share"} & set(price)) != 1:
        raise _bad_dashboard("It needs `epsilon` or `share`: what one refresh of all tiles may cost.")
    return SavedDashboard(_text(data, "title", "Dashboard"), tuple(map(_tile, tiles)), price, period)


def dashboard_text(title: str, price: Mapping[str, str], period: str, tiles: Iterable[DashboardTile]) -> str:
    """Write a dashboard as TOML. Reading it back gives the same dashboard."""
    lines = [f"title = {_toml_string(title)}"]
    lines += [f"{name} = {_toml_string(value)}" for name, value in price.items()]
    lines += [f"period = {_toml_string(period)}"] if period else []
    for tile in tiles:
        lines += ["", "[[tiles]]", f"title = {_toml_string(tile.title)}", f"sql = {_toml_string(tile.sql)}"]
        lines += [f"chart = {_toml_string(tile.chart)}"] if tile.chart != "auto" else []
    return "\n".join(lines) + "\n"


def period_start(period: str, day: date) -> date:
    """Return the first day of the period that a day is in.

    >>> [str(period_start(period, date(2026, 11, 18))) for period in PERIODS]
    ['2026-11-18', '2026-11-16', '2026-11-01', '2026-10-01', '2026-01-01']
    """
    match period:
        case "day":
            return day
        case "week":
            return day - timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)
        case "quarter":
            return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
    return day.replace(month=1, day=1)


def _content(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_DASHBOARD_BYTES + 1)
        if len(content) <= MAX_DASHBOARD_BYTES:
            return content.decode()
        why = f"It has more than {MAX_DASHBOARD_BYTES:,} bytes."
    except (OSError, UnicodeDecodeError, ValueError):
        why = "The file cannot be read, or is not UTF-8."
    raise _bad_dashboard(why)


def _tile(data: object) -> DashboardTile:
    if not isinstance(data, Mapping):
        raise _bad_dashboard("Each of [[tiles]] is a table with a `title` and `sql`.")
    _check_keys(data, _TILE_KEYS, "A tile")
    sql, chart = _text(data, "sql", ""), _text(data, "chart", "auto")
    if not sql.strip():
        raise _bad_dashboard("A tile has no `sql`.")
    if chart not in CHARTS:
        raise _bad_dashboard(f"chart = {quote_value(chart)}: it is one of {', '.join(CHARTS)}.")
    return DashboardTile(_text(data, "title", " ".join(sql.split())[:80]), sql.strip(), chart)


def _check_keys(data: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    for key in data:
        if key not in known:
            raise _bad_dashboard(f"{what} has no key {quote_value(key)}. {suggestion(key, known)}".strip())


def _text(data: Mapping[str, Any], key: str, default: str) -> str:
    value = data.get(key, default)
    if not isinstance(value, str):
        raise _bad_dashboard(f"`{key}` is not a text.")
    return value


def _number(value: object, name: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _bad_dashboard(f"`{name}` is neither a number nor a text.")
    return str(value)


def _toml_string(text: str) -> str:
    """Return a TOML string: one line, with every other character escaped."""
    shown = [
        char if char.isprintable() and char not in '"\\' else f"\\U{ord(char):08X}"  # no character is special then
        for char in text
    ]
    return f'"{"".join(shown)}"'


def _bad_dashboard(why: str, more: str = "") -> BadParameter:
    return BadParameter("This is not a dashboard.", f"{why} {more}".strip(), f"Write for example:\n{_EXAMPLE}".rstrip())
