"""A report as data: sections of paragraphs, lists and tables, which every format renders in its own way.

Texts are plain. Each format escapes them where it writes them, so no table name or question becomes markup.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of plain text."""

    text: str


@dataclass(frozen=True, slots=True)
class BulletList:
    """Short statements, one below the other."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DataTable:
    """Rows of texts below their headings; `numbers` says which columns are aligned to the right."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class SignatureLines:
    """Places to sign: one line for each role."""

    roles: tuple[str, ...]


ReportBlock = Paragraph | BulletList | DataTable | SignatureLines


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A heading and the blocks below it."""

    heading: str
    blocks: tuple[ReportBlock, ...]


@dataclass(frozen=True, slots=True)
class ReportDocument:
    """A whole report: one page to sign, and the details after it."""

    title: str
    subtitle: str
    summary: tuple[ReportSection, ...]
    details: tuple[ReportSection, ...]
