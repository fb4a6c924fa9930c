"""A page about a synthetic table: which marginals were measured, how far off they are, and pictures side by side.

It is one file without scripts, and it is drawn from released numbers alone.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from sfumato.release.rendering.escaping import for_html
from sfumato.synthesis.domain import ColumnDomain, Floats
from sfumato.synthesis.model import information
from sfumato.synthesis.rows import count_rows, distance
from sfumato.synthesis.synthetic import Synthetic

MARK = "<!-- written by sfumato synthesize -->"
MAX_DRAWN_PAIRS = 12
"""Maximum number of pairs that are drawn; all are listed."""
_MAX_BARS = 40
_MAX_SHOWN_CHARS = 240
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#1d2733;background:#fff;margin:0 auto;max-width:1080px;padding:24px}
h1{font-size:26px;margin:0 0 4px}h2{font-size:19px;margin:36px 0 8px;border-bottom:1px solid #dde3ea;padding-bottom:4px}
h3{font-size:15px;margin:0 0 4px}p{margin:6px 0}.quiet{color:#5b6875}.grid{display:flex;flex-wrap:wrap;gap:20px}
.card{border:1px solid #dde3ea;border-radius:8px;padding:12px;max-width:500px}.pair{display:flex;gap:14px}
figure{margin:0}figcaption{font-size:12px;color:#5b6875;text-align:center}
table{border-collapse:collapse;font-size:14px}
td,th{padding:3px 12px 3px 0;text-align:right;border-bottom:1px solid #eef1f4}
td:first-child,th:first-child{text-align:left}svg text{font:11px system-ui,sans-serif;fill:#5b6875}
.key{display:inline-block;width:12px;height:12px;border-radius:2px;vertical-align:-1px;margin:0 4px 0 12px}
"""
_MEASURED_COLOUR, _ROWS = "#9aa7b4", "#2b6cb0"


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """Two columns as they were measured and as the rows have them."""

    names: tuple[str, str]
    measured: Floats
    margin: float | None
    """None where the two were not measured together."""
    rows: Floats
    information: float


def page(synthetic: Synthetic, title: str) -> str:
    """Return the page as HTML."""
    columns, codes = synthetic.cells_of_rows()
    count = len(codes[0])
    total = max(synthetic.total, 0.0)
    scale = total / count if count else 0.0
    measured = {frozenset(names) for names in synthetic.marginals}
    singles = [(column, scale * count_rows([code], [column.size])) for column, code in zip(columns, codes, strict=True)]
    pairs = []
    for first, second in combinations(range(len(columns)), 2):
        names = (columns[first].name, columns[second].name)
        rows = scale * count_rows([codes[first], codes[second]], [columns[first].size, columns[second].size])
        if frozenset(names) in measured:
            found = synthetic.marginal(names)
            counts, margin = found.counts, found.margin
        else:
            counts, margin = synthetic.model(names), None
        model = synthetic.model(names)
        known = information(model / model.sum()) if model.sum() > 0 else 0.0
        pairs.append(_Pair(names, counts, margin, rows, known))
    pairs.sort(key=lambda pair: -pair.information)
    return "\n".join(
        [
            f'<!DOCTYPE html>\n{MARK}\n<html lang="en"><head><meta charset="utf-8">',
            f"<title>{_shown_text(title)}, synthetic</title><style>{_STYLE}</style></head><body>",
            *_head(synthetic, title, count),
            "<h2>Columns</h2>",
            f'<p><span class="key" style="background:{_MEASURED_COLOUR}"></span>measured, with its 95 % margin'
            f'<span class="key" style="background:{_ROWS}"></span>synthetic rows</p>',
            '<div class="grid">',
            *(_column_section(column, synthetic, rows) for column, rows in singles),
            "</div>",
            *_pair_sections(pairs, {column.name: column for column in columns}),
            *_listing(synthetic, pairs),
            "</body></html>\n",
        ]
    )


def _head(synthetic: Synthetic, title: str, count: int) -> list[str]:
    paid = "" if synthetic.receipt is None else f" Receipt {_shown_text(synthetic.receipt.id)}."
    return [
        f"<h1>{_shown_text(title)}, synthetic</h1>",
        f'<p class="quiet">{count:,} rows of {len(synthetic.columns)} columns: '
        f"{_shown_text(', '.join(synthetic.columns))}. Charged once: {_shown_text(str(synthetic.loss))}.{paid}</p>",
        "<p>These rows are not people. They follow a model of noisy counts, and the guarantee is the epsilon and "
        "delta above, nothing else: a row may resemble a real person. The pairs below are as accurate as their "
        "margins say; relations of three or more columns are the model's guess.</p>",
    ]


def _column_section(column: ColumnDomain, synthetic: Synthetic, rows: Floats) -> str:
    marginal = synthetic.marginal(column.name)
    shown = min(column.size, _MAX_BARS)
    measured, margin = _merge_cells(marginal.counts, shown), marginal.margin * float(np.sqrt(column.size / shown))
    drawn = _merge_cells(rows, shown)
    labels = [column.label(cell) for cell in range(column.size)] if shown == column.size else []
    return (
        f'<div class="card"><h3>{_shown_text(column.name)}</h3>{_bars(measured, margin, drawn, labels)}'
        f'<p class="quiet">± {marginal.margin:,.0f} for each of {column.size} cells; '
        f"the rows differ from these noisy counts by {_moved_share(marginal.counts, rows)}</p></div>"
    )


def _merge_cells(counts: Floats, cells: int) -> Floats:
    """Return fewer, wider cells, so that each can be seen."""
    place = np.arange(len(counts)) * cells // len(counts)
    return np.bincount(place, counts, cells).astype(np.float64)


def _bars(measured: Floats, margin: float, rows: Floats, labels: list[str]) -> str:
    cells = len(measured)
    width, height, turned = 480.0, 150.0, bool(labels) and max(map(len, labels)) * 7 > 480 / cells
    if turned:
        labels = [label.split(" – ")[0] for label in labels]  # where each cell begins
    base = 20.0 + 6.0 * max(map(len, labels), default=1) if turned else 26.0
    top = max(float((measured + margin).max()), float(rows.max()), 1.0)
    slot = width / cells
    parts = [f'<svg width="{width + 20:.0f}" height="{height + base:.0f}" role="img">']
    for cell in range(cells):
        left = cell * slot
        for number, (value, colour) in enumerate(((measured[cell], _MEASURED_COLOUR), (rows[cell], _ROWS))):
            tall = max(value, 0.0) / top * height
            x = left + slot * (0.1 + 0.4 * number)
            parts.append(
                f'<rect x="{x:.1f}" y="{height - tall:.1f}" width="{slot * 0.38:.1f}" height="{tall:.1f}" '
                f'fill="{colour}"><title>{value:,.0f}</title></rect>'
            )
        middle = left + slot * 0.29
        high, low = (height - max(measured[cell] + side * margin, 0.0) / top * height for side in (1, -1))
        parts.append(f'<path d="M{middle:.1f} {high:.1f}V{low:.1f}" stroke="#1d2733" stroke-width="1.2"/>')
        if labels:
            parts.append(_label(labels[cell], left + slot / 2, height + 14, turned))
    parts.append(f'<path d="M0 {height}H{width}" stroke="#c3ccd5"/></svg>')
    return "".join(parts)


def _label(label: str, x: float, y: float, turned: bool) -> str:
    if turned:
        return f'<text transform="translate({x - 4:.1f} {y - 8:.1f}) rotate(60)">{_shown_text(label)}</text>'
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{_shown_text(label)}</text>'


def _pair_sections(pairs: list[_Pair], columns: dict[str, ColumnDomain]) -> list[str]:
    if not pairs:
        return []
    found = ["<h2>Pairs</h2>", "<p>The pairs that tell most about each other, measured on the left, rows on the right."]
    found.append(" Darker cells hold more people; a cell below its margin cannot be distinguished from noise.</p>")
    found.append('<div class="grid">')
    for pair in pairs[:MAX_DRAWN_PAIRS]:
        top = max(float(pair.measured.max()), float(pair.rows.max()), 1.0)
        off = "modelled, not measured" if pair.margin is None else f"± {pair.margin:,.0f} for each cell"
        found.append(
            f'<div class="card"><h3>{_shown_text(pair.names[0])} × {_shown_text(pair.names[1])}</h3><div class="pair">'
            f"<figure>{_heat(pair.measured, top)}<figcaption>measured</figcaption></figure>"
            f"<figure>{_heat(pair.rows, top)}<figcaption>rows</figcaption></figure></div>"
            f'<p class="quiet">{off}; the rows differ by {_moved_share(pair.measured, pair.rows)}</p></div>'
        )
    found.append("</div>")
    return found


def _heat(counts: Floats, top: float) -> str:
    """Draw a table of counts as squares, darker where more people are."""
    down, across = (min(size, _MAX_BARS) for size in counts.shape)
    merged = np.apply_along_axis(_merge_cells, 1, np.apply_along_axis(_merge_cells, 0, counts, down), across)
    if merged.shape != counts.shape:
        top = max(float(merged.max()), 1.0)
    wide, high = 200.0 / across, 160.0 / down
    parts = ['<svg width="200" height="160" role="img">']
    for row in range(down):
        for column in range(across):
            share = min(max(float(merged[row, column]) / top, 0.0), 1.0) ** 0.5  # so that small counts are seen
            parts.append(
                f'<rect x="{column * wide:.1f}" y="{row * high:.1f}" width="{wide:.2f}" height="{high:.2f}" '
                f'fill="hsl(211 60% {97 - 62 * share:.0f}%)"/>'
            )
    parts.append('<rect width="200" height="160" fill="none" stroke="#dde3ea"/></svg>')
    return "".join(parts)


def _listing(synthetic: Synthetic, pairs: list[_Pair]) -> list[str]:
    drawn = {frozenset(pair.names): pair for pair in pairs}
    how = "chosen with noise, so margins are approximate" if synthetic.adaptive else "fixed in advance"
    found = [
        "<h2>What was measured</h2>",
        f"<p>{len(synthetic.marginals)} marginals, {how}. A margin holds for each cell of its marginal at 95 %.</p>",
        "<table><tr><th>marginal</th><th>cells</th><th>margin</th><th>cells above it</th><th>rows differ by</th></tr>",
    ]
    for names in synthetic.marginals:
        marginal = synthetic.marginal(names)
        above = int((marginal.counts > marginal.margin).sum())
        pair = drawn.get(frozenset(names))
        off = _moved_share(pair.measured, pair.rows) if pair is not None else ""
        found.append(
            f"<tr><td>{_shown_text(' × '.join(names))}</td><td>{marginal.counts.size:,}</td>"
            f"<td>± {marginal.margin:,.1f}</td><td>{above:,}</td><td>{off}</td></tr>"
        )
    return [*found, "</table>"]


def _moved_share(measured: Floats, rows: Floats) -> str:
    """Return which share of the rows would have to move."""
    kept = np.maximum(measured, 0.0)
    return f"{100 * distance(kept, rows):.1f} %" if kept.sum() > 0 and rows.sum() > 0 else "–"


def _shown_text(value: str) -> str:
    return for_html(value if len(value) <= _MAX_SHOWN_CHARS else value[:_MAX_SHOWN_CHARS] + "…")
