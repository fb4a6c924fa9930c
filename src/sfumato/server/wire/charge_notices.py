"""What a client is told beside a charged answer: price, what is left, margins, and groups that may be missing."""

from collections.abc import Mapping
from typing import Any

from sfumato.database import PAID_NOTE, Database
from sfumato.errors import Refusal
from sfumato.planning.notes.note import printed_notes
from sfumato.planning.quote import GROUPS_SELECTED, shown_margin
from sfumato.release.release import Release
from sfumato.release.thin_answers import warnings_of
from sfumato.server.wire.sqlstates import Reported

_MAX_NAMED_COLUMNS = 10


def charge_notices(release: Release, database: Database, sql: str, price: Mapping[str, Any]) -> tuple[Reported, ...]:
    """Return the notice of an answer that was charged; an exact answer has none. It reads no data."""
    if release.event is None:
        return ()
    try:
        quote = database.explain(sql, **price)
    except Refusal:  # the answer is there, and says its price all the same
        quote = None
    margins = _margins(quote.margins) if quote is not None else ""
    notes = dict.fromkeys((*(quote.notes if quote is not None else ()), *release.notes))
    notes.pop(PAID_NOTE, None)  # this answer has paid for its measurements, now or before
    warned = warnings_of(release.notes)
    shown = (*(warned or (() if len(release) else ("The answer has no rows.",))), *_marked(release))
    message = " ".join((f"price: {release.loss}; left: {database.budget().remaining}{margins}.", *shown))
    listed = sorted(
        (note for note in notes if note not in warned), key=lambda note: not note.startswith(GROUPS_SELECTED)
    )  # missing groups come first
    return (Reported("NOTICE", "00000", message, "\n".join(printed_notes(listed, "EXPLAIN lists them"))),)


def _marked(release: Release) -> tuple[str, ...]:
    """Return which columns have marked values, as the table of an answer shows them by a star."""
    marks = release.marks()
    counts = {name: sum(row[name] for row in marks) for name in (marks[0] if marks else ())}
    listed = [f"{name} in {count:,} of {len(marks):,} rows" for name, count in counts.items() if count]
    more = ["…"] if len(listed) > _MAX_NAMED_COLUMNS else []
    names = ", ".join([*listed[:_MAX_NAMED_COLUMNS], *more])
    return (f"Without bounds and clipping, values may lie outside their margin: {names}.",) if listed else ()


def _margins(margins: Mapping[str, int | float | None]) -> str:
    shown = [
        f"{name} ±{shown_margin(margin)}" if margin is not None else f"{name} depends on the data"
        for name, margin in margins.items()
    ]
    more = ["…"] if len(shown) > _MAX_NAMED_COLUMNS else []
    return f"; margins at 95 %: {', '.join([*shown[:_MAX_NAMED_COLUMNS], *more])}" if shown else ""
