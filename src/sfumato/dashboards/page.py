"""A dashboard as one page of HTML: charts, tables with margins, price and receipts, without scripts."""

from sfumato.dashboards.answers import AnsweredDashboard
from sfumato.dashboards.dashboard import DashboardTile
from sfumato.release.release import Release
from sfumato.release.rendering.escaping import for_html
from sfumato.release.rendering.svg import chart_svg, noisy_columns
from sfumato.release.rendering.table import format_value

MAX_TILE_ROWS = 200
"""Maximum number of rows of a table on the page."""
MAX_TILE_CHARTS = 2
"""Maximum number of charts of one question; its table has every number."""
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 78em; margin: 1.5em auto; padding: 0 1em; color: #2b2620; }
h1 { font: italic 700 1.7em Georgia, serif; margin: 0; }
h2 { font-size: 1.05em; margin: 0 0 .5em; }
.lead, footer { color: #6b6156; }
.rehearsal { background: #fbeae3; border-left: 4px solid #8a2f1d; padding: .5em .8em; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(26em, 1fr)); gap: 1em; margin: 1em 0; }
.tile { border: 1px solid #e6dccd; border-radius: 12px; padding: 1em; overflow-x: auto; break-inside: avoid; }
.tile svg { max-width: 100%; height: auto; }
.big { font: 700 1.8em Georgia, serif; margin: .2em 0; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid #e6dccd; padding: .2em .5em; text-align: left; }
.number { text-align: right; white-space: nowrap; }
details, .note { font-size: .88em; color: #6b6156; }
code { overflow-wrap: anywhere; }
"""


def dashboard_html(answered: AnsweredDashboard) -> str:
    """Return one self-contained page."""
    title = for_html(answered.dashboard.title)
    tiles = "".join(map(_tile, answered.dashboard.tiles, answered.releases))
    rehearsal = next((note for release in answered.releases for note in release.notes[:1] if "Rehearsal:" in note), "")
    warning = f'<p class="rehearsal">{for_html(rehearsal)}</p>\n' if rehearsal else ""
    lead = f"{answered.dataset} · asked {answered.time:%Y-%m-%d %H:%M} UTC · ± at 95 %"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n<body>'
        f'<h1>{title}</h1>\n<p class="lead">{for_html(lead)}</p>\n{warning}<div class="tiles">\n{tiles}</div>\n'
        f"<footer><p>{for_html(answered.price_text())}</p>{_receipts(answered)}</footer></body></html>\n"
    )


def _tile(tile: DashboardTile, release: Release) -> str:
    kind = None if tile.chart in ("auto", "table") else tile.chart
    drawn = "" if tile.chart == "table" or len(release) < 2 else _charts(release, kind)
    table = _table(release)
    numbers = f"{drawn}<details><summary>Numbers</summary>{table}</details>"
    shown = numbers if drawn else _one_number(release) or table
    notes = "".join(f"<li>{for_html(note)}</li>" for note in release.notes if "Rehearsal:" not in note)
    more = f"<details><summary>Notes</summary><ul>{notes}</ul></details>" if notes else ""
    asked = f"<details><summary>Question</summary><pre>{for_html(tile.sql)}</pre></details>"
    return f'<section class="tile"><h2>{for_html(tile.title)}</h2>{shown}{more}{asked}</section>\n'


def _charts(release: Release, kind: str | None) -> str:
    """Return a picture of each number, or one of this kind; the console draws the same."""
    columns = [None] if kind else noisy_columns(release)[:MAX_TILE_CHARTS]
    found = (chart_svg(release, column, "light", kind) for column in columns)
    return "".join(picture.decode() for picture in found if picture is not None)


def _one_number(release: Release) -> str:
    """Return a single number in large type; empty where there are more."""
    if len(release) != 1 or len(release.columns) != 1:
        return ""
    return f'<p class="big">{for_html(_cell(release, 0, release.columns[0]))}</p>'


def _table(release: Release) -> str:
    head = "".join(f"<th>{for_html(name)}</th>" for name in release.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{for_html(_cell(release, index, name))}</td>" for name in release.columns) + "</tr>"
        for index in range(min(len(release), MAX_TILE_ROWS))
    )
    cut = f"<p class=note>The first {MAX_TILE_ROWS} rows.</p>" if len(release) > MAX_TILE_ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{cut}"


def _cell(release: Release, place: int, name: str) -> str:
    ends = release.intervals()[place][name]
    interval = ends if isinstance(ends, tuple) else None
    marked = release.marks()[place].get(name, False)
    return format_value(release.rows()[place][name], interval, marked=marked)


def _receipts(answered: AnsweredDashboard) -> str:
    found = {release.receipt.id: release.receipt for release in answered.releases if release.receipt.sequence}
    items = "".join(
        f"<li>receipt <code>{for_html(receipt.id)}</code>, entry {receipt.sequence}, snapshot "
        f"<code>{for_html(receipt.version)}</code>, policy <code>{for_html(receipt.policy)}</code></li>"
        for receipt in found.values()
    )
    return f"<ul>{items}</ul>" if items else ""
