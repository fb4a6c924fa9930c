"""Answers, prices and charges between a server and its client: JSON documents that read back as the same values."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from functools import partial
from typing import Any

from sfumato.accounting.event import from_json, to_json
from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import BadParameter
from sfumato.language.facts import Facts, Kind
from sfumato.ledger.history import EarlierAnswers
from sfumato.ledger.ledger import Budget, Entry
from sfumato.planning.budget_effect import BudgetEffect
from sfumato.planning.quote import AnswerSource, Quote
from sfumato.policy.policy import Period
from sfumato.query.types import Type
from sfumato.release.bounding.marked_values import Marks
from sfumato.release.decode import Value
from sfumato.release.lazy_notes import LazyNotes
from sfumato.release.receipt import receipt_from_json
from sfumato.release.release import Ranges, Release
from sfumato.release.rendering.account_documents import Document, entry_document
from sfumato.release.rendering.documents import LEVEL, release_document

AtLevel = Callable[[Fraction], Mapping[str, Any]]
"""Fetches the document of the same answer with its intervals at another level."""


def answer_document(release: Release, level: object = LEVEL) -> Document:
    """Return an answer with all that a client needs to have the same one."""
    return {
        **release_document(release, level),
        "types": [str(facts.type) for facts in release.facts],
        "possible": [list(limits) for limits in release.possible],
        "event": None if release.event is None else json.loads(to_json(release.event)),
    }


@dataclass(slots=True)
class RemoteRanges:
    """The intervals of an answer that a server gave; those of other levels are fetched on demand.

    Fetched intervals are pickled with the answer, and the connection is not.
    """

    columns: tuple[str, ...]
    types: tuple[Type, ...]
    document: Mapping[str, Any]
    known: dict[Fraction, Mapping[str, Any]]
    at_level: AtLevel | None

    def __call__(self, level: Fraction, key: str = "intervals") -> Ranges:
        """Return the ends of every column at a level."""
        noisy = self.document["event"] is not None
        if level not in self.known and noisy:
            if self.at_level is None:
                raise BadParameter(
                    f"The intervals at the level {float(level):g} are not in this copy.",
                    "It was pickled without its connection.",
                    "Call reopen(release.receipt.id) of a connection, which is free.",
                )
            self.known[level] = self.at_level(level)
        rows = self.known.get(level, self.document)[key]
        return [_ends(name, type, rows, noisy) for name, type in zip(self.columns, self.types, strict=True)]

    def __reduce__(self) -> tuple[object, ...]:
        return RemoteRanges, (self.columns, self.types, self.document, self.known, None)


def answer_of(document: Mapping[str, Any], at_level: AtLevel) -> Release:
    """Return the answer of a document; intervals of other levels are fetched on demand."""
    columns, types = tuple(document["columns"]), [_type(name) for name in document["types"]]
    values = tuple(
        tuple(_value(row[name], type) for row in document["rows"]) for name, type in zip(columns, types, strict=True)
    )
    event = document["event"]
    ranges = RemoteRanges(columns, tuple(types), document, {Fraction(str(document["level"])): document}, at_level)
    return Release(
        columns,
        tuple(Facts(type, Kind.INTEGER) for type in types),
        values,
        ranges,
        tuple((low, high) for low, high in document["possible"]),
        receipt_from_json(_canonical(document["receipt"])),
        None if event is None else from_json(_canonical(event)),
        LazyNotes.of(document["notes"]),
        partial(ranges, key="biased"),
        tuple(
            None if ends is None else (_value(ends[0], type), _value(ends[1], type))
            for ends, type in zip(document["cut"], types, strict=False)
        ),
        partial(_marks, columns, document.get("marked", [])),
    )


def _marks(columns: Sequence[str], rows: Sequence[Mapping[str, bool]]) -> Marks:
    """Return the marks of each column; None for a column that has none, and of an older server."""
    return [[bool(row[name]) for row in rows] if rows and name in rows[0] else None for name in columns]


def quote_of(document: Mapping[str, Any]) -> Quote:
    """Return the quote of a document."""
    return Quote(
        loss_of(document["loss"]),
        dict(document["margins"]),
        dict(document["mechanisms"]),
        tuple(document["notes"]),
        _effect_of(document),
        AnswerSource(document.get("source", AnswerSource.FRESH)),
        loss_of(document["loss_if_new"]) if "loss_if_new" in document else None,
        tuple(document.get("cohorts", ())),
        document.get("answered", ""),
        loss_of(document["most"]) if "most" in document else None,
    )


def _effect_of(document: Mapping[str, Any]) -> BudgetEffect | None:
    if "share" not in document:
        return None
    share, used = (None if document[name] is None else Fraction(document[name]) for name in ("share", "used_after"))
    spent = document["spent_after"]
    return BudgetEffect(share, used, None if spent is None else loss_of(spent))


def budget_of(document: Mapping[str, Any]) -> Budget:
    """Return the budget of a document."""
    total, spent, remaining = (loss_of(document[key]) for key in ("total", "spent", "remaining"))
    every, renews = document.get("every"), document.get("renews")
    return Budget(
        total,
        spent,
        remaining,
        Fraction(document["used"]),
        None if every is None else Period(every),
        None if renews is None else datetime.fromisoformat(renews),
        document.get("promise", ""),
        {name: budget_of(budget) for name, budget in document.get("cohorts", {}).items()},
    )


def charge_document(entry: Entry) -> Document:
    """Return one charge, with its event."""
    return {**entry_document(entry), "event": json.loads(to_json(entry.event))}


def charge_of(document: Mapping[str, Any]) -> Entry:
    """Return the charge of a document; its release stays where it is, and is had by asking again."""
    return Entry(
        sequence=int(document["sequence"]),
        time=datetime.fromisoformat(document["time"]),
        account=document["account"],
        sql=document["sql"],
        event=from_json(_canonical(document["event"])),
        loss=loss_of(document),
        policy=document["policy"],
        version=document["version"],
        receipt=document["receipt"],
        state=document["state"],
        release=None,
        head=document["head"],
        told=EarlierAnswers(document.get("refines", ""), tuple(document.get("rests_on", ()))),
    )


def loss_of(document: Mapping[str, Any]) -> PrivacyLoss:
    """Return the loss of a document."""
    return PrivacyLoss(Fraction(document["epsilon"]), Fraction(document["delta"]))


def _canonical(data: object) -> str:
    return json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _type(name: str) -> Type:
    type_ = Type(name)
    return Type.TEXT if type_ is Type.INTERVAL else type_


def _value(value: Any, type: Type) -> Value:
    if isinstance(value, str) and type is Type.DATE:
        return date.fromisoformat(value)
    if isinstance(value, str) and type is Type.TIMESTAMP:
        return datetime.fromisoformat(value)
    if type is Type.DECIMAL and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    parsed: Value = value
    return parsed


def _ends(name: str, type: Type, rows: Sequence[Mapping[str, Any]], noisy: bool) -> Any:
    """Return the ends of one column; None for a key, and for what is exact."""
    values = [row[name] for row in rows]
    if not noisy or not any(isinstance(value, list) for value in values):
        return None
    return [tuple(_value(end, type) for end in value) if isinstance(value, list) else None for value in values]
