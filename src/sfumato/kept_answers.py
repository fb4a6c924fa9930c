"""Answers from measurements that are kept: a question that asks for no more accuracy than they have costs nothing.

Nothing is charged or read. Proof: proofs/measurement_identity.md, (5)
"""

import json
from collections.abc import Iterator
from dataclasses import replace

from sfumato.errors import Refusal
from sfumato.ledger.history import Entry
from sfumato.ledger.ledger import Ledger
from sfumato.planning.kept_measurements import over_stored_measurements
from sfumato.planning.measurement_identity import cells_prefix
from sfumato.prepare import Prepared, QueryPreparer, ReleaseNames
from sfumato.stored_answer import StoredAnswer


def from_stored_measurements(asked: Prepared, preparer: QueryPreparer, ledger: Ledger, account: str | None) -> Prepared:
    """Return the question over measurements that an account has paid for (any account, for None), if they suffice.

    Otherwise return it as it is. What is stored under its own name needs no other measurements.
    """
    measured = asked.names.measured
    if measured is None or asked.plan.event is None or len(asked.outcomes) > 1:
        return asked
    accounts = ledger.accounts() if account is None else (account,)
    if any(stored_name(asked, ledger, name) for name in accounts):
        return asked
    for name in accounts:
        for question, entry in ledger.charges_beginning(name, asked.engine.version, cells_prefix(measured.cells)):
            for found in _answered_by(asked, question, entry, preparer):
                return found
    return asked


def stored_name(asked: Prepared, ledger: Ledger, account: str) -> str | None:
    """Return the name under which an account has the answer to a question, or None."""
    names = (asked.names.fingerprint, *asked.names.older)
    place = ledger.find_repeat(account, names, asked.engine.version)
    return None if place is None else names[place]


def _answered_by(asked: Prepared, question: str, entry: Entry, preparer: QueryPreparer) -> Iterator[Prepared]:
    """Give the question over the measurements of one answer, by each of its plans that they suffice for."""
    try:
        kept = StoredAnswer(entry, json.loads(entry.release or "{}")).prepare_again(preparer, asked.engine)
    except Refusal:
        return  # an older version answered what this one refuses
    known = kept.names.measured
    if known is None or known.text != question:
        return
    for plan, names in asked.plans:
        found = None if names.measured is None else over_stored_measurements(plan, names.measured, kept.plan, known)
        if found is not None:
            shown, places = found
            yield replace(
                asked,
                plan=shown,
                outcomes=(shown,),
                names=ReleaseNames(places, asked.names.by_text),
                kept=entry.release,
            )
