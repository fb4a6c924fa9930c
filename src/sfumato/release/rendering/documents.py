"""Releases and quotes, as what JSON knows: exact numbers are text.

A server and a command line give the same documents; `harmless.to_json` writes them.
"""

import json
import math
from collections.abc import Mapping
from datetime import date, datetime
from fractions import Fraction

from sfumato.exact import probability
from sfumato.planning.budget_effect import BudgetEffect
from sfumato.planning.quote import Quote
from sfumato.release.receipt import receipt_to_json
from sfumato.release.release import Release
from sfumato.release.rendering.account_documents import Document, loss_document

LEVEL = 0.95


def release_document(release: Release, level: object = LEVEL) -> Document:
    """Return an answer with its intervals at this level."""
    return {
        "columns": list(release.columns),
        "rows": [_row(row) for row in release.rows()],
        "level": float(probability(level, "level")),
        "intervals": [_row(row) for row in release.intervals(level)],
        "biased": [_row(row) for row in release.intervals(level, bias=True)],
        "cut": [None if one is None else [_plain(end) for end in one] for one in release.cut],
        "marked": [dict(row) for row in release.marks()],
        "loss": loss_document(release.loss),
        "notes": list(release.notes),
        "receipt": json.loads(receipt_to_json(release.receipt)),
    }


def quote_document(quote: Quote) -> Document:
    """Return a price, the margins that it buys and the mechanisms."""
    return {
        "loss": loss_document(quote.loss),
        "level": LEVEL,
        "margins": _row(quote.margins),
        "mechanisms": dict(quote.mechanisms),
        "notes": list(quote.notes),
        "source": str(quote.source),
        **({"answered": quote.answered} if quote.answered else {}),
        **({"cohorts": list(quote.cohorts)} if quote.cohorts else {}),
        **({} if quote.loss_if_new is None else {"loss_if_new": loss_document(quote.loss_if_new)}),
        **({} if quote.most is None else {"most": loss_document(quote.most)}),
        **_effect_document(quote.effect),
    }


def _effect_document(effect: BudgetEffect | None) -> Document:
    if effect is None:
        return {}
    spent = None if effect.spent is None else loss_document(effect.spent)
    return {"share": _exact(effect.share), "used_after": _exact(effect.used), "spent_after": spent}


def _exact(share: Fraction | None) -> str | None:
    return None if share is None else str(share)


def _row(row: Mapping[str, object]) -> Document:
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(end) for end in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return value.isoformat() if isinstance(value, date | datetime) else str(value)
