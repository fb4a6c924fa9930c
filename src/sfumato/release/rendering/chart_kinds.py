"""Charts that are chosen by name: heat maps of two keys, stacked shares, and two numbers against each other."""

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import inf
from typing import Any

from sfumato.errors import BadParameter, quote_value, suggestion
from sfumato.release.decode import Value
from sfumato.release.rendering.chart import Panel, drawn_value, written_value
from sfumato.release.rendering.escaping import labels
from sfumato.release.rendering.export import optional

_SQUARE_PIXELS, _WIDTH_PIXELS, _HEIGHT_PIXELS = 34, 420, 300
_MARK_COLOUR, _ERROR_COLOUR = "#1f3b57", "#7a93ab"

Keys = Sequence[tuple[str, Sequence[Value]]]


def chart_of_kind(kind: str, keys: Keys, panels: Sequence[Panel], price: str) -> Any:
    """Return a chart of this kind, or refuse an answer that it cannot show."""
    if kind not in _KINDS:
        raise BadParameter(
            f"There is no chart of kind {quote_value(kind)}.",
            "A kind says how keys and numbers are laid out.",
            f"{suggestion(kind, _KINDS)}There are: {', '.join(_KINDS)}.",
        )
    wanted_keys, wanted_numbers, draw = _KINDS[kind]
    if len(keys) < wanted_keys or len(panels) < wanted_numbers:
        raise BadParameter(
            f"This answer cannot be drawn as {kind}.",
            f"It needs {wanted_keys} key columns and {wanted_numbers} numbers.",
            "Group by more columns, ask for more numbers, or leave the kind out.",
        )
    altair = optional("altair", "plot")
    names = labels([*(name for name, _ in keys), *(panel.name for panel in panels), price])
    title = altair.TitleParams(
        text=", ".join(names[panel.name] for panel in panels[:wanted_numbers]),
        subtitle=names[price],
        anchor="start",
        subtitleColor="#666",
    )
    return draw(altair, keys, panels, names).properties(title=title).configure_view(stroke=None)


def _rows(keys: Keys, panels: Sequence[Panel]) -> list[dict[str, Any]]:
    """Return every row with its keys k0, k1, … and of each number v0, low0, high0, error0, …"""
    known = labels(written_value(value) for _, values in keys for value in values)
    rows: list[dict[str, Any]] = []
    for at in range(len(panels[0].values)):
        row: dict[str, Any] = {f"k{index}": known[written_value(values[at])] for index, (_, values) in enumerate(keys)}
        for index, panel in enumerate(panels):
            value = panel.values[at]
            low, high = panel.ends[at] or (value, value)
            row |= {f"v{index}": drawn_value(value), f"low{index}": drawn_value(low), f"high{index}": drawn_value(high)}
            wide = isinstance(low, int | float) and isinstance(high, int | float)
            row[f"error{index}"] = (high - low) / 2 if wide else None  # type: ignore[operator]
        rows.append(row)
    return rows


def _heat_map(altair: Any, keys: Keys, panels: Sequence[Panel], names: dict[str, str]) -> Any:
    """Colour says the value; a square shrinks as its margin nears the largest value."""
    rows = _rows(keys, panels[:1])
    sizes = [abs(number) for row in rows for number in (row["error0"], row["v0"]) if number is not None]
    base = altair.Chart(altair.Data(values=rows)).encode(
        x=altair.X("k0:N", title=names[keys[0][0]], sort=None), y=altair.Y("k1:N", title=names[keys[1][0]], sort=None)
    )
    size = altair.Size(
        "error0:Q",
        title="± at 95 %",
        scale=altair.Scale(domain=[0, max(sizes, default=1) or 1], range=[_SQUARE_PIXELS**2, 60]),
    )
    squares = base.mark_square(opacity=1).encode(
        color=altair.Color("v0:Q", title=names[panels[0].name], scale=altair.Scale(scheme="blues")), size=size
    )
    return squares.properties(width=altair.Step(_SQUARE_PIXELS + 6), height=altair.Step(_SQUARE_PIXELS + 6))


def _shares(altair: Any, keys: Keys, panels: Sequence[Panel], names: dict[str, str]) -> Any:
    """Stack the parts of each first key to 100 %; each bar is the interval of the share up to its part's end."""
    rows = _rows(keys, panels[:1])
    for key in dict.fromkeys(row["k0"] for row in rows):
        _stack([row for row in rows if row["k0"] == key])
    base = altair.Chart(altair.Data(values=rows)).encode(y=altair.Y("k0:N", title=names[keys[0][0]], sort=None))
    bars = base.mark_bar().encode(
        x=altair.X("begin:Q", title="share", axis=altair.Axis(format="%")),
        x2="end:Q",
        color=altair.Color("k1:N", title=names[keys[1][0]], sort=None),
    )
    errors = base.mark_rule(color=_MARK_COLOUR, strokeWidth=1.5).encode(x="least:Q", x2="most:Q")
    return (bars + errors).properties(width=_WIDTH_PIXELS, height=altair.Step(26))


def joint_level(keys: Keys, level: Fraction) -> Fraction:
    """Return the level at which all parts of one first key are in their intervals together (Bonferroni)."""
    parts = Counter(keys[0][1]) if keys else Counter()
    return 1 - (1 - level) / max(parts.values(), default=1)


def _stack(parts: list[dict[str, Any]]) -> None:
    """Set where each part begins and ends, and the interval of its end: A / (A + B) of the parts up to it and the rest.

    It holds where the values of all parts are in their intervals, and no true value is negative.
    """
    values = [max(part["v0"] or 0, 0) for part in parts]
    lows = [max(part["low0"] or 0, 0) for part in parts]
    highs = [inf if part["high0"] is None else max(part["high0"], 0) for part in parts]
    for index, part in enumerate(parts):
        upto = index + 1
        part["begin"], part["end"] = (
            _share(sum(values[:index]), sum(values[index:])),
            _share(sum(values[:upto]), sum(values[upto:])),
        )
        last = upto == len(parts)
        part["least"] = 1.0 if last else _share(sum(lows[:upto]), sum(highs[upto:]))
        part["most"] = 1.0 if last else 1 - _share(sum(lows[upto:]), sum(highs[:upto]))


def _share(part: float, rest: float) -> float:
    return 0.0 if part == 0 or rest == inf else part / (part + rest)


def _scatter(altair: Any, keys: Keys, panels: Sequence[Panel], names: dict[str, str]) -> Any:
    """Draw the first number against the second, with a cross for both intervals."""
    base = altair.Chart(altair.Data(values=_rows(keys, panels[:2])))
    scale = altair.Scale(zero=False)
    x = altair.X("v0:Q", title=names[panels[0].name], scale=scale)
    y = altair.Y("v1:Q", title=names[panels[1].name], scale=scale)
    across = base.mark_rule(color=_ERROR_COLOUR).encode(x=altair.X("low0:Q"), x2="high0:Q", y=y)
    upright = base.mark_rule(color=_ERROR_COLOUR).encode(x=x, y=altair.Y("low1:Q"), y2="high1:Q")
    points = base.mark_point(filled=True, size=40, color=_MARK_COLOUR, opacity=1).encode(x=x, y=y)
    texts = base.mark_text(align="left", dx=6, dy=-6, fontSize=10).encode(x=x, y=y, text="k0:N")
    return (across + upright + points + texts).properties(width=_WIDTH_PIXELS, height=_HEIGHT_PIXELS)


_KINDS: dict[str, tuple[int, int, Callable[..., Any]]] = {
    "heatmap": (2, 1, _heat_map),
    "shares": (2, 1, _shares),
    "scatter": (1, 2, _scatter),
}
"""How many keys and numbers each kind needs, and what draws it."""
