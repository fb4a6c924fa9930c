"""Charts of answers as SVG: the specification of `Release.plot()`, drawn here, without anything from outside."""

from collections.abc import Mapping
from html import escape
from importlib.util import find_spec
from typing import Any

from sfumato.errors import Refusal
from sfumato.release.release import Release
from sfumato.release.rendering.escaping import escape_unprintable
from sfumato.release.rendering.export import optional

THEMES: Mapping[str, Mapping[str, str]] = {
    "light": {"ink": "#3b342c", "soft": "#6b6156", "faint": "#e6dccd", "bar": "#b08968", "rule": "#4a3526"},
    "dark": {"ink": "#d8d2c8", "soft": "#b3a898", "faint": "#4a443c", "bar": "#b08d6b", "rule": "#f7efe4"},
}
_PLAIN = {"#9dc3e6": "bar", "#1f3b57": "rule", "#666": "soft", "#eee": "faint"}
"""The colours of `Release.plot()`, and what they are here."""
MOST_BARS = 200
_WIDTH, _HEIGHT = 640, 280


def numbers_of(release: Release) -> list[str]:
    """Return the columns that can be drawn: the noisy ones, or every number where nothing is noisy."""
    ends = release.intervals()
    found = []
    for name, values in zip(release.columns, release.values, strict=True):
        number = any(isinstance(one, int | float) and not isinstance(one, bool) for one in values)
        if number and any(isinstance(row[name], tuple) for row in ends):
            found.append(name)
    return found


def chart(release: Release, column: str | None, theme: str) -> bytes | None:
    """Return a picture of one number by the first keys; None where there is nothing to draw."""
    if theme not in THEMES or not 0 < len(release) <= MOST_BARS or not numbers_of(release):
        return None
    if column is not None and column not in numbers_of(release):
        return None
    if find_spec("altair") is None or find_spec("vl_convert") is None:
        return plain_chart(release, column or numbers_of(release)[0], THEMES[theme])
    try:
        specification = release.plot(column).to_dict()
        return str(optional("vl_convert", "plot").vegalite_to_svg(themed(specification, THEMES[theme]))).encode()
    except Refusal:
        return None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # the converter is written in Rust: its panics are no Exceptions
        return plain_chart(release, column or numbers_of(release)[0], THEMES[theme])


def themed(specification: dict[str, Any], colours: Mapping[str, str]) -> dict[str, Any]:
    """Return the same specification in the console's colours, and as wide as its page: nothing else is changed."""
    drawn: dict[str, Any] = _coloured(specification, {plain: colours[name] for plain, name in _PLAIN.items()})
    axis = {
        **{f"{part}Color": colours["ink"] for part in ("label", "title")},
        **{f"{part}Color": colours["faint"] for part in ("tick", "domain", "grid")},
        "labelFontSize": 13,
        "titleFontSize": 13,
        "titleFontWeight": "normal",
    }
    given = drawn.get("config", {})
    config = {
        **given,
        "background": None,
        "view": {**given.get("view", {}), "stroke": None},
        "axis": {**given.get("axis", {}), **axis},
        "title": {"color": colours["ink"], "subtitleColor": colours["ink"]},
        "bar": {"cornerRadiusEnd": 3},
        "legend": {"labelColor": colours["ink"], "titleColor": colours["ink"], "labelFontSize": 13},
    }
    return {**drawn, "config": config}


def _coloured(part: Any, colours: Mapping[str, str]) -> Any:
    """Replace the colours of marks and titles, and the width of plots; data stays as it is."""
    if isinstance(part, list):
        return [_coloured(one, colours) for one in part]
    if not isinstance(part, dict):
        return part
    found = {}
    for name, value in part.items():
        if name in ("data", "datasets"):
            found[name] = value
        elif name.lower().endswith("color") and isinstance(value, str):
            found[name] = colours.get(value, value)
        elif name == "width" and isinstance(value, int | float):
            found[name] = _WIDTH - 160
        else:
            found[name] = _coloured(value, colours)
    return found


def plain_chart(release: Release, column: str, colours: Mapping[str, str]) -> bytes:
    """Draw bars and error bars by hand, where no library for charts is installed."""
    rows, ends = release.rows(), release.intervals()
    keys = [name for name in release.columns if not isinstance(ends[0][name], tuple)]
    cells = []
    for row, end in zip(rows, ends, strict=True):
        value = row[column]
        if isinstance(value, int | float):
            low, high = (side if isinstance(side, int | float) else value for side in end[column])
            cells.append((str(row[keys[0]]) if keys else column, float(value), float(low), float(high)))
    top = max([high for *_, high in cells] + [0.0]) or 1.0
    bottom = min([low for _, _, low, _ in cells] + [0.0])
    span = (top - bottom) or 1.0

    def place(value: float) -> float:
        return 20 + _HEIGHT * (top - value) / span

    step = _WIDTH / max(1, len(cells))
    parts = [f'<line x1="0" x2="{_WIDTH}" y1="{place(0):.1f}" y2="{place(0):.1f}" stroke="{colours["faint"]}"/>']
    for number, (key, value, low, high) in enumerate(cells):
        middle, width = step * (number + 0.5), step * 0.7
        begin, end_ = sorted((place(value), place(0)))
        parts.append(
            f'<rect x="{middle - width / 2:.1f}" y="{begin:.1f}" width="{width:.1f}" '
            f'height="{max(end_ - begin, 0.5):.1f}" fill="{colours["bar"]}"/>'
            f'<line x1="{middle:.1f}" x2="{middle:.1f}" y1="{place(low):.1f}" y2="{place(high):.1f}" '
            f'stroke="{colours["rule"]}" stroke-width="2"/>'
            f'<text x="{middle:.1f}" y="{_HEIGHT + 40}" text-anchor="middle" font-size="13" font-family="sans-serif" '
            f'fill="{colours["ink"]}">{escape(escape_unprintable(key[:18]))}</text>'
        )
    box = f"0 0 {_WIDTH} {_HEIGHT + 50}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" width="{_WIDTH}" height="{_HEIGHT + 50}">'
    return f"{head}{''.join(parts)}</svg>".encode()
