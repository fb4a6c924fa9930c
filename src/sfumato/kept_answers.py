"""Answers from measurements that are kept: a question that asks for no more accuracy than they have costs nothing.

Nothing is charged or read. Proof: proofs/measurement_identity.md, (5)
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from math import inf

from sfumato.errors import Refusal
from sfumato.ledger.history import Entry
from sfumato.ledger.ledger import Ledger
from sfumato.planning.accuracy_target import CONFIDENCE
from sfumato.planning.kept_measurements import over_stored_measurements
from sfumato.planning.measurement_identity import cells_prefix
from sfumato.planning.plan import Plan
from sfumato.planning.release_names import ReleaseNames
from sfumato.prepare import Prepared, QueryPreparer
from sfumato.stored_answer import StoredAnswer


def from_stored_measurements(
    asked: Prepared,
    preparer: QueryPreparer,
    ledger: Ledger,
    account: str | None,
    *,
    at_any_accuracy: bool = False,
) -> Prepared:
    """Return the question over measurements that an account has paid for (any account, for None), if they suffice.

    Otherwise return it as it is. What is stored under its own name needs no other measurements.
    """
    if asked.plan.event is None or asked.paid or asked.is_new:
        return asked
    accounts = ledger.accounts() if account is None else (account,)
    if any(_is_paid(asked, ledger, name) for name in accounts):
        return replace(asked, paid=True)
    if len(asked.outcomes) > 1:
        return asked
    cells = dict.fromkeys(names.measured.cells for _, names in asked.plans if names.measured is not None)
    for name in accounts:
        for one in cells:
            charges = ledger.charges_beginning(name, asked.engine.version, cells_prefix(one))
            if at_any_accuracy:
                charges.sort(key=lambda charge: charge[1].loss.epsilon, reverse=True)
            for question, entry in charges:
                for found in _answered_by(asked, question, entry, preparer, at_any_accuracy):
                    return found
    return asked


def _is_paid(asked: Prepared, ledger: Ledger, account: str) -> bool:
    """Whether an account has paid for a question, under any of its names."""
    names = (asked.names.fingerprint, *asked.names.older)
    event = asked.plan.event
    return event is not None and ledger.is_paid(account, names, asked.engine.version, event)


def _answered_by(
    asked: Prepared, question: str, entry: Entry, preparer: QueryPreparer, at_any_accuracy: bool
) -> Iterator[Prepared]:
    """Give the question over the measurements of one answer, by each of its plans that they suffice for."""
    try:
        kept = StoredAnswer(entry, json.loads(entry.release or "{}")).prepare_again(preparer, asked.engine)
    except Refusal:
        return  # an older version answered what this one refuses
    known = kept.names.measured
    if known is None or question not in (known.text, known.first_text):
        return
    for plan, names in asked.plans:
        # other plans are how earlier versions measured, with more noise: they count where as much was spent
        other = names.fingerprint != asked.names.fingerprint
        less = other and not asked.price_target.within and kept.plan.loss.epsilon < plan.loss.epsilon
        found = (
            None
            if names.measured is None or (less and not at_any_accuracy)
            else over_stored_measurements(plan, names.measured, kept.plan, known, at_any_accuracy=at_any_accuracy)
        )
        if found is not None and (at_any_accuracy or _is_no_worse(found[0], asked.plan)):
            shown, places = found
            yield replace(
                asked,
                plan=shown,
                outcomes=(shown,),
                names=ReleaseNames(places, asked.names.by_text),
                kept=entry.release,
            )


def _is_no_worse(shown: Plan, chosen: Plan) -> bool:
    """Whether numbers have no more noise than in the plan that would be charged: another plan may err more."""
    margins = {
        (group.group.label, one.name): one.mechanism.margin(CONFIDENCE)
        for group in chosen.groups
        for one in group.measured
    }
    return all(
        one.mechanism.margin(CONFIDENCE) <= margins.get((group.group.label, one.name), inf)
        for group in shown.groups
        for one in group.measured
    )
