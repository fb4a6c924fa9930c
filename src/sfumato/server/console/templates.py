"""Render the console's templates: every text is escaped, and unprintable characters become U+FFFD."""

from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sfumato.accounting.loss import percent_up, round_up
from sfumato.planning.notes.note import more_notes
from sfumato.server.console.wording import (
    column_facts,
    left_text,
    loss_text,
    request_fields,
    requested_text,
    used_percent,
)
from sfumato.server.link_root import ROOT_PATH


def render(template: str, **values: object) -> Markup:
    """Return a template filled with these values. Values that are not markup yet are escaped."""
    return Markup(_ENVIRONMENT.get_template(template).render(values))  # noqa: S704 (autoescape has escaped every value)


def _printable(value: object) -> object:
    """Replace characters that are not printable, except the ends of lines and tabs."""
    if not isinstance(value, str) or value.isprintable():
        return value
    kept = "".join(char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in value)
    return type(value)(kept)


_ENVIRONMENT = Environment(
    loader=PackageLoader("sfumato.server.console"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_printable,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_ENVIRONMENT.globals["root"] = ROOT_PATH.get
_ENVIRONMENT.filters |= {
    "column_facts": column_facts,
    "left_text": left_text,
    "loss_text": loss_text,
    "requested_text": requested_text,
    "more_notes": more_notes,
    "quote": lambda text: quote(text, safe="", errors="replace"),
    "percent_up": percent_up,
    "request_fields": request_fields,
    "round_up": round_up,
    "used_percent": used_percent,
}
