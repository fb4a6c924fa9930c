"""An answer as a picture: every number by its keys, one panel each, with error bars, price and level in the title."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum, auto
from math import isfinite
from typing import Any

from sfumato.release.decode import Value
from sfumato.release.rendering.escaping import labels
from sfumato.release.rendering.export import optional
from sfumato.release.rendering.table import IntervalEnds

_MAX_EXACT_DOUBLE_VALUE = 1 << 53
"""Larger integers are drawn as doubles; no picture shows the difference."""
_BAR, _ENDS = "#9dc3e6", "#1f3b57"
_CHART_WIDTH_PIXELS, _CHART_HEIGHT_PIXELS = 560, 170
_PANEL_PIXELS, _BAR_PIXELS, _THIN_BAR_PIXELS = 300, 22, 12
_MAX_SIDE_BY_SIDE_BARS = 40
"""Maximum bars that can be read side by side; more are drawn along a numeric axis."""
_MAX_COLOURS = 12


class Axis(Enum):
    """How the first key is laid out."""

    TIME = auto()
    NUMBER = auto()
    LONG_NUMBER = auto()
    TEXT = auto()


@dataclass(frozen=True, slots=True)
class Panel:
    """One number of an answer: its name, and of every row the value and its ends."""

    name: str
    values: Sequence[Value]
    ends: Sequence[IntervalEnds | None]


def chart(keys: Sequence[tuple[str, Sequence[Value]]], panels: Sequence[Panel], price: str) -> Any:
    """Return a chart with one panel for each number; `keys` are the columns that tell the rows apart, by name.

    Nothing in it can do harm, in whatever format it is shown or saved: see `harmless`.
    """
    altair = optional("altair", "plot")
    named = labels([*(name for name, _ in keys), *(panel.name for panel in panels)])
    axis = _axis(keys)
    places, groups = _places(keys, panels, axis), _groups(keys)
    drawn = [
        _panel(altair, panel, places, groups, axis, [named[name] for name, _ in keys], named[panel.name])
        for panel in panels
    ]
    whole = drawn[0] if len(drawn) == 1 else altair.concat(*drawn, columns=2 if axis is Axis.TEXT else 1)
    shown = ", ".join(named[panel.name] for panel in panels)
    by = f" by {', '.join(named[name] for name, _ in (keys if groups is not None else keys[:1]))}" if keys else ""
    title = altair.TitleParams(
        text=_short(f"{shown}{by}"),
        subtitle=_short(price),
        anchor="start",
        fontSize=15,
        subtitleColor="#666",
        offset=12,
    )
    return whole.properties(title=title).configure_view(stroke=None).configure_axis(grid=True, gridColor="#eee")


def _short(text: str) -> str:
    return next(iter(labels([text]).values()))


def _axis(keys: Sequence[tuple[str, Sequence[Value]]]) -> Axis:
    present = [value for value in keys[0][1] if value is not None] if keys else []
    if present and all(isinstance(value, date) for value in present):
        return Axis.TIME
    if present and all(isinstance(value, int | float) and not isinstance(value, bool) for value in present):
        return Axis.NUMBER if len(set(present)) <= _MAX_SIDE_BY_SIDE_BARS else Axis.LONG_NUMBER
    return Axis.TEXT


def _places(keys: Sequence[tuple[str, Sequence[Value]]], panels: Sequence[Panel], axis: Axis) -> list[object]:
    """Return where each row stands along the first axis, as every renderer understands it."""
    if not keys:
        return [_short(panels[0].name)] * len(panels[0].values)
    values = keys[0][1]
    if axis is Axis.TIME:  # without a time zone, so that midnight stays midnight
        return [None if not isinstance(value, date) else _moment(value) for value in values]
    if axis is Axis.LONG_NUMBER:
        return [drawn_value(value) for value in values]
    known = labels(written_value(value) for value in values)
    return [known[written_value(value)] for value in values]


def _moment(value: date) -> str:
    return value.isoformat() if isinstance(value, datetime) else f"{value.isoformat()}T00:00:00"


def _groups(keys: Sequence[tuple[str, Sequence[Value]]]) -> list[str] | None:
    """Return what tells rows with the same first key apart: the other keys, joined."""
    if len(keys) < 2 or len(set(keys[0][1])) == len(keys[0][1]):
        return None
    rows = [
        " · ".join(written_value(value) for value in row)
        for row in zip(*(values for _, values in keys[1:]), strict=True)
    ]
    known = labels(rows)
    return [known[row] for row in rows]


def written_value(value: Value) -> str:
    """Return a key as text."""
    return "NULL" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _panel(
    altair: Any,
    panel: Panel,
    places: Sequence[object],
    groups: Sequence[str] | None,
    axis: Axis,
    keys: Sequence[str],
    name: str,
) -> Any:
    rows = []
    for at, value in enumerate(panel.values):
        low, high = panel.ends[at] or (value, value)
        row = {"key": places[at], "value": drawn_value(value), "low": drawn_value(low), "high": drawn_value(high)}
        rows.append(row | ({} if groups is None else {"second": groups[at]}))
    base = altair.Chart(
        altair.Data(values=rows), title=altair.TitleParams(text=name, anchor="start", fontWeight="normal")
    )
    colour: dict[str, Any] = {}
    if groups is not None:
        scheme = "tableau10" if len(set(groups)) <= _MAX_COLOURS else "tableau20"
        colour["color"] = altair.Color(
            "second:N", title=", ".join(keys[1:]), sort=None, scale=altair.Scale(scheme=scheme)
        )
    if axis is Axis.TEXT:
        return _across(altair, base, keys, rows, colour)
    return _along(altair, base, axis, keys, rows, colour)


_ABOVE = {
    "titleAngle": 0,
    "titleAnchor": "start",
    "titleAlign": "right",
    "titleBaseline": "bottom",
    "titleX": -7,
    "titleY": -4,
}
"""A title above the names: beside them, a font of another width lays it over the longest."""


def _across(altair: Any, base: Any, keys: Sequence[str], rows: Sequence[Any], colour: dict[str, Any]) -> Any:
    """Draw bars from left to right: the names of groups are read without turning the head."""
    groups = max(len({row.get("second") for row in rows}), 1)
    y = altair.Y(
        "key:N",
        title=keys[0] if keys else None,
        sort=None,
        scale=altair.Scale(domain=list(dict.fromkeys(row["key"] for row in rows))),  # rows without a value keep theirs
        axis=altair.Axis(labelLimit=220, grid=False, **_ABOVE) if keys else None,
    )
    base = base.encode(y=y)
    step = altair.Step(_BAR_PIXELS if groups == 1 else _THIN_BAR_PIXELS, **({} if groups == 1 else {"for": "offset"}))
    aside = {} if groups == 1 else {"yOffset": altair.YOffset("second:N", sort=None)}
    value = altair.X("value:Q", title=None, axis=altair.Axis(tickCount=5))
    bars = base.mark_bar(**({"color": _BAR} if not colour else {})).encode(x=value, **aside, **colour)
    ends = base.mark_rule(color=_ENDS, strokeWidth=1.5).encode(x=altair.X("low:Q"), x2="high:Q", **aside)
    return (bars + ends).properties(width=_PANEL_PIXELS, height=step)


def _along(altair: Any, base: Any, axis: Axis, keys: Sequence[str], rows: Sequence[Any], colour: dict[str, Any]) -> Any:
    """Draw along time or numbers: points with a line where the axis is continuous, bars where it has few places."""
    y = altair.Y("value:Q", title=None, axis=altair.Axis(tickCount=5))
    ends = {"y": altair.Y("low:Q"), "y2": "high:Q"}
    if axis is Axis.NUMBER:
        places = dict.fromkeys(row["key"] for row in rows)
        width = min(max(_BAR_PIXELS * 2 * len(places), 160), 2 * _CHART_WIDTH_PIXELS)
        x = altair.X(
            "key:O",
            title=keys[0],
            sort=None,
            scale=altair.Scale(domain=list(places)),
            axis=altair.Axis(labelAngle=0, labelOverlap=True),
        )
        base = base.encode(x=x)
        aside = {} if not colour else {"xOffset": altair.XOffset("second:N", sort=None)}
        bars = base.mark_bar(**({"color": _BAR} if not colour else {})).encode(y=y, **aside, **colour)
        rules = base.mark_rule(color=_ENDS, strokeWidth=1.5).encode(**ends, **aside)
        return (bars + rules).properties(width=width, height=_CHART_HEIGHT_PIXELS)
    if axis is Axis.TIME:
        form = _date_format([str(row["key"]) for row in rows if row["key"] is not None])
        wide = altair.Scale(padding=14)
        x = altair.X("key:T", title=keys[0], scale=wide, axis=altair.Axis(format=form, labelOverlap=True, grid=False))
    else:
        wide = altair.Scale(zero=False, padding=14)
        x = altair.X("key:Q", title=keys[0], scale=wide, axis=altair.Axis(format="~d", grid=False))
    base = base.encode(x=x, **colour)
    plain = {"color": _ENDS} if not colour else {}
    line = base.mark_line(strokeWidth=1, opacity=0.5, **plain).encode(y=y)
    rules = (
        base.mark_area(opacity=0.22, **plain).encode(**ends)  # a ribbon: the eye follows it through time
        if axis is Axis.TIME
        else base.mark_rule(strokeWidth=1.5, opacity=0.7, **plain).encode(**ends)
    )
    points = base.mark_point(filled=True, size=28, opacity=1, **plain).encode(y=y)
    return (line + rules + points).properties(width=_CHART_WIDTH_PIXELS, height=_CHART_HEIGHT_PIXELS)


def _date_format(moments: Sequence[str]) -> str:
    """Return how dates are written on the axis: years, months or days, whichever all of them begin."""
    if any(not moment.endswith("T00:00:00") for moment in moments):
        return "%d %b %Y %H:%M"
    if all(moment[5:10] == "01-01" for moment in moments):
        return "%Y"
    return "%b %Y" if all(moment[8:10] == "01" for moment in moments) else "%d %b %Y"


def drawn_value(value: Value) -> Value:
    """Return a number such that every renderer knows it."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _MAX_EXACT_DOUBLE_VALUE:
        value = float(value)
    return None if isinstance(value, float) and not isfinite(value) else value
