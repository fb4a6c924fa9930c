"""Charts of answers as SVG: the specification of `Release.plot()`, drawn here, without anything from outside."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from sfumato.errors import Refusal
from sfumato.release.release import Release
from sfumato.release.rendering.escaping import for_html
from sfumato.release.rendering.export import optional

THEMES: Mapping[str, Mapping[str, str]] = {
    "light": {"ink": "#3b342c", "soft": "#6b6156", "faint": "#e6dccd", "bar": "#b08968", "rule": "#4a3526"},
    "dark": {"ink": "#d8d2c8", "soft": "#b3a898", "faint": "#4a443c", "bar": "#b08d6b", "rule": "#f7efe4"},
}
_PLAIN = {"#9dc3e6": "bar", "#1f3b57": "rule", "#666": "soft", "#eee": "faint"}
"""The colours of `Release.plot()`, and what they are here."""
MAX_BARS = 200
_WIDTH, _HEIGHT_PIXELS = 640, 280


def number_columns(release: Release) -> list[str]:
    """Return the columns that hold a number."""
    return [
        name
        for name, values in zip(release.columns, release.values, strict=True)
        if any(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    ]


def noisy_columns(release: Release) -> list[str]:
    """Return the columns that can be drawn: numbers with an interval."""
    intervals = release.intervals()
    return [name for name in number_columns(release) if any(isinstance(row[name], tuple) for row in intervals)]


def chart_svg(release: Release, column: str | None, theme: str, kind: str | None = None) -> bytes | None:
    """Return a picture of one number by the first keys, or of this kind; None where there is nothing to draw."""
    if theme not in THEMES or not 0 < len(release) <= MAX_BARS or not noisy_columns(release):
        return None
    if column is not None and column not in noisy_columns(release):
        return None
    if find_spec("altair") is None or find_spec("vl_convert") is None:
        return plain_chart(release, column or noisy_columns(release)[0], THEMES[theme])
    try:
        specification = release.plot(column, kind=kind).to_dict()
        return str(optional("vl_convert", "plot").vegalite_to_svg(themed(specification, THEMES[theme]))).encode()
    except Refusal:
        return None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # the converter is written in Rust: its panics are no Exceptions
        return plain_chart(release, column or noisy_columns(release)[0], THEMES[theme])


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
    """Draw bars and error bars without a library for charts."""
    rows, intervals = release.rows(), release.intervals()
    keys = [name for name in release.columns if not isinstance(intervals[0][name], tuple)]
    cells = []
    for row, ends in zip(rows, intervals, strict=True):
        value = row[column]
        if isinstance(value, int | float):
            low, high = (end if isinstance(end, int | float) else value for end in ends[column])
            cells.append((str(row[keys[0]]) if keys else column, float(value), float(low), float(high)))
    top = max([high for *_, high in cells] + [0.0]) or 1.0
    bottom = min([low for _, _, low, _ in cells] + [0.0])

    def y(value: float) -> float:
        return 20 + _HEIGHT_PIXELS * (top - value) / ((top - bottom) or 1.0)

    step = _WIDTH / max(1, len(cells))
    bars = []
    for number, (key, value, low, high) in enumerate(cells):
        begin, end = sorted((y(value), y(0)))
        pixels = {
            "left": step * (number + 0.15),
            "middle": step * (number + 0.5),
            "width": step * 0.7,
            "top": begin,
            "height": max(end - begin, 0.5),
            "low": y(low),
            "high": y(high),
        }
        bars.append({"label": for_html(key[:18]), **{name: f"{value:.1f}" for name, value in pixels.items()}})
    return _plain_svg(bars, colours, f"{y(0):.1f}").encode()


def _plain_svg(bars: list[dict[str, str]], colours: Mapping[str, str], zero: str) -> str:
    """Write bars as SVG; every text in it is escaped, and every number was formatted here."""
    tall = _HEIGHT_PIXELS + 50
    drawn = "".join(
        f'<rect x="{bar["left"]}" y="{bar["top"]}" width="{bar["width"]}" height="{bar["height"]}" '
        f'fill="{colours["bar"]}"/>\n'
        f'<line x1="{bar["middle"]}" x2="{bar["middle"]}" y1="{bar["low"]}" y2="{bar["high"]}" '
        f'stroke="{colours["rule"]}" stroke-width="2"/>\n'
        f'<text x="{bar["middle"]}" y="{tall - 10}" text-anchor="middle" font-size="13" font-family="sans-serif" '
        f'fill="{colours["ink"]}">{bar["label"]}</text>\n'
        for bar in bars
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {tall}" width="{_WIDTH}" height="{tall}">\n'
        f'<line x1="0" x2="{_WIDTH}" y1="{zero}" y2="{zero}" stroke="{colours["faint"]}"/>\n{drawn}</svg>\n'
    )
