"""Write a report as HTML, Markdown or PDF. Texts of the policy and of analysts stay texts in each of them."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import assert_never

from sfumato.errors import BadParameter
from sfumato.release.rendering.escaping import escape_unprintable, for_html, for_markdown, to_json
from sfumato.release.rendering.export import optional
from sfumato.reports.document import (
    BulletList,
    DataTable,
    Paragraph,
    ReportBlock,
    ReportDocument,
    ReportSection,
    SignatureLines,
)

_TEMPLATE = Path(__file__).with_name("report.typ")
_STYLE = """
body { font: 15px/1.45 Georgia, "Libertinus Serif", serif; max-width: 46em; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.7em; margin-bottom: 0.1em; }
h2 { font-size: 1.1em; margin: 1em 0 0.2em; }
p, ul { margin: 0.3em 0; }
.subtitle { color: #555; }
table { border-collapse: collapse; margin: 0.6em 0; width: 100%; }
th, td { border-bottom: 1px solid #ccc; padding: 0.2em 0.5em; text-align: left; vertical-align: top; }
td { overflow-wrap: break-word; }
td:last-child { overflow-wrap: anywhere; }
.number { text-align: right; white-space: nowrap; }
.signature { margin-top: 2.2em; border-top: 1px solid #000; width: 70%; padding-top: 0.2em; font-size: 0.9em; }
.details { margin-top: 2em; border-top: 3px double #999; padding-top: 0.5em; }
@media print {
  body { font-size: 10pt; line-height: 1.3; margin: 0; max-width: none; }
  .details { break-before: page; border: 0; margin: 0; }
  h2 { break-after: avoid; }
  tr { break-inside: avoid; }
}
"""
SIGNATURE_LINE = "name, date, signature"
DETAILS = "Details"


def report_html(report: ReportDocument) -> str:
    """Return one self-contained page without scripts; printed, its first page is the one to sign."""
    summary, details = ("".join(map(_section_html, part)) for part in (report.summary, report.details))
    title = for_html(report.title)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n<body>'
        f'<h1>{title}</h1><p class="subtitle">{for_html(report.subtitle)}</p>\n{summary}'
        f'<div class="details"><h1>{DETAILS}</h1>\n{details}</div></body></html>\n'
    )


def _section_html(section: ReportSection) -> str:
    return f"<h2>{for_html(section.heading)}</h2>\n" + "".join(map(_block_html, section.blocks))


def _block_html(block: ReportBlock) -> str:
    match block:
        case Paragraph(text):
            return f"<p>{for_html(text)}</p>\n"
        case BulletList(items):
            return "<ul>" + "".join(f"<li>{for_html(item)}</li>" for item in items) + "</ul>\n"
        case DataTable(headings, rows, numbers):
            head = _row_html("th", headings, numbers) if any(headings) else ""
            return f"<table>{head}{''.join(_row_html('td', row, numbers) for row in rows)}</table>\n"
        case SignatureLines(roles):
            return "".join(f'<div class="signature">{for_html(role)}: {SIGNATURE_LINE}</div>\n' for role in roles)
        case _:
            assert_never(block)


def _row_html(tag: str, cells: Sequence[str], numbers: Sequence[bool]) -> str:
    shown = "".join(
        f"<{tag}{' class=number' if number else ''}>{for_html(cell)}</{tag}>"
        for cell, number in zip(cells, numbers, strict=True)
    )
    return f"<tr>{shown}</tr>"


def report_markdown(report: ReportDocument) -> str:
    """Return the report as Markdown."""
    lines = [f"# {for_markdown(report.title)}", for_markdown(report.subtitle)]
    lines += map(_section_markdown, report.summary)
    lines += [f"# {DETAILS}", *map(_section_markdown, report.details)]
    return "\n\n".join(lines) + "\n"


def _section_markdown(section: ReportSection) -> str:
    return "\n\n".join([f"## {for_markdown(section.heading)}", *map(_block_markdown, section.blocks)])


def _block_markdown(block: ReportBlock) -> str:
    match block:
        case Paragraph(text):
            return for_markdown(text)
        case BulletList(items):
            return "\n".join(f"- {for_markdown(item)}" for item in items)
        case DataTable(headings, rows, numbers):
            rule = ["---:" if number else "---" for number in numbers]
            cells = [[for_markdown(cell) for cell in row] for row in (headings, *rows)]
            return "\n".join(f"| {' | '.join(row)} |" for row in (cells[0], rule, *cells[1:]))
        case SignatureLines(roles):
            return "\n\n".join(f"{for_markdown(role)}: {SIGNATURE_LINE} \\_\\_\\_\\_\\_\\_\\_\\_" for role in roles)
        case _:
            assert_never(block)


def report_pdf(report: ReportDocument) -> bytes:
    """Return the report as PDF (`pip install 'sfumato[report]'`); it is data of the template and never its markup."""
    typst = optional("typst", "report")
    fonts = typst.Fonts(include_system_fonts=False, include_embedded_fonts=True)
    compiled: bytes = typst.compile(
        str(_TEMPLATE),
        root=str(_TEMPLATE.parent),
        font_paths=fonts,
        sys_inputs={"report": to_json(_printable(_document(report)), None)},
    )
    return compiled


def _document(report: ReportDocument) -> dict[str, object]:
    def sections(part: tuple[ReportSection, ...]) -> list[object]:
        return [
            {
                "heading": section.heading,
                "blocks": [{"kind": type(block).__name__, **asdict(block)} for block in section.blocks],
            }
            for section in part
        ]

    return {
        "title": report.title,
        "subtitle": report.subtitle,
        "signed": SIGNATURE_LINE,
        "heading": DETAILS,
        "summary": sections(report.summary),
        "details": sections(report.details),
    }


def _printable(value: object) -> object:
    if isinstance(value, str):
        return escape_unprintable(value)
    if isinstance(value, dict):
        return {name: _printable(part) for name, part in value.items()}
    return [_printable(part) for part in value] if isinstance(value, list | tuple) else value


FORMATS: dict[str, Callable[[ReportDocument], bytes]] = {
    "html": lambda report: report_html(report).encode(),
    "md": lambda report: report_markdown(report).encode(),
    "pdf": report_pdf,
}
"""How each format of a report is written."""


def format_of(output: Path | None, form: str | None) -> str:
    """Return the format of a report: the one that was named, else that of the file's extension, else Markdown."""
    if form is not None:
        return form
    if output is None:
        return "md"
    found = output.suffix.lower().removeprefix(".")
    if found not in FORMATS:
        raise BadParameter(
            "The format of the report is not known.",
            "It is read from the extension of the file: .html, .md or .pdf.",
            "Rename the file, or add --format.",
        )
    return found
