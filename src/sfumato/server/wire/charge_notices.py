"""Notices to a client beside an answer with noise: price or that it is free, what is left, margins, gaps."""

from collections.abc import Mapping
from typing import Any

from sfumato.accounting.loss import percent_up
from sfumato.database import PAID_NOTE, Database
from sfumato.errors import Refusal
from sfumato.planning.notes.note import printed_notes
from sfumato.planning.quote import GROUPS_SELECTED, round_margin
from sfumato.planning.refinement_offer import explain_with_offer
from sfumato.policy.policy import Policy
from sfumato.release.release import Release
from sfumato.release.rendering.table import MARK_MEANING
from sfumato.release.thin_answers import warnings_of
from sfumato.server.wire.sqlstates import Reported
from sfumato.views import free_text

EMPTIED_PREVIEW = Reported(
    "NOTICE", "00000", "The rows of this preview are left out, because sfumato.preview is empty: they are about people."
)
_MAX_NAMED_COLUMNS = 10
_FREE_NOTE = "Free: from your answer of "


def charge_notices(release: Release, database: Database, sql: str, price: Mapping[str, Any]) -> tuple[Reported, ...]:
    """Return the notice of an answer with noise; an exact answer has none. It reads no data."""
    if release.event is None:
        return ()
    offer = None
    try:
        if release.repeated:
            quote, offer = explain_with_offer(database.explain, sql, **price)
        else:
            quote = database.explain(sql, **price)
    except Refusal:  # the answer is there, and still says its price
        quote = None
    margins = _margins(quote.margins) if quote is not None else ""
    notes = dict.fromkeys((*(quote.notes if quote is not None else ()), *release.notes))
    notes.pop(PAID_NOTE, None)  # this answer has paid for its measurements, now or before
    notes = {note: None for note in notes if not note.startswith(_FREE_NOTE)}  # the message begins with it
    warned = warnings_of(release.notes)
    shown = warned or (() if len(release) else ("The answer has no rows.",))
    price_text = free_text(release, database.entry) if release.repeated else f"price: {release.loss}"
    budget = database.budget()
    spending = f"{percent_up(budget.used)} of the budget used; left: {budget.remaining}"
    message = " ".join((f"{price_text}; {spending}{margins}.", *shown, *_marked_columns(release)))
    message += "" if offer is None else f" {offer.sentence(f'{offer.setting}; and ask again.')}"
    listed = sorted(
        (note for note in notes if note not in warned), key=lambda note: not note.startswith(GROUPS_SELECTED)
    )  # missing groups come first
    return (Reported("NOTICE", "00000", message, "\n".join(printed_notes(listed, "EXPLAIN lists them"))),)


def price_notice(policy: Policy, account: str) -> tuple[Reported, ...]:
    """Return what a session begins with where the policy names a price; nothing elsewhere."""
    price = policy.default_price(account)
    if price is None:
        return ()
    message = f"A question that names no price {cost_text(price)}. Set another: SET sfumato.epsilon = '0.1';"
    return (Reported("NOTICE", "00000", message.replace("the budget", "your budget")),)


def cost_text(price: str) -> str:
    """Return a default price as the end of a sentence."""
    return f"costs {price} of the budget" if price.endswith("%") else f"costs ε = {price}"


def _marked_columns(release: Release) -> tuple[str, ...]:
    """Name the columns with values whose interval may miss what bounds and clipping removed."""
    names = release.marked_columns()
    if not names:
        return ()
    more = ", …" if len(names) > _MAX_NAMED_COLUMNS else ""
    return (f"Marked: {', '.join(names[:_MAX_NAMED_COLUMNS])}{more}. {MARK_MEANING}",)


def _margins(margins: Mapping[str, int | float | None]) -> str:
    shown = [
        f"{name} ±{round_margin(margin)}" if margin is not None else f"{name} depends on the data"
        for name, margin in margins.items()
    ]
    more = ["…"] if len(shown) > _MAX_NAMED_COLUMNS else []
    return f"; margins at 95 %: {', '.join([*shown[:_MAX_NAMED_COLUMNS], *more])}" if shown else ""
