"""The identity of a question: its canonical plan, and the policy's words about the tables it touches."""

import json

from sfumato.accounting.event import to_json
from sfumato.analysis.catalog import REMOVED
from sfumato.planning.noise import event_of
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.query.canonical import canonical
from sfumato.query.relation import Query, Relation, Scan, inputs


def question(query: Query, plan: Plan, words: str) -> str:
    """Return the canonical text of the query and of all noise, with the policy's words about the tables it touches.

    Together with the snapshot it is the name under which a ledger keeps the release: budget, analysts, paths and other
    tables are no part of it. It is JSON, so no text inside it can imitate another structure.
    """
    return json.dumps([canonical(query), [_group(group) for group in plan.groups], words], separators=(",", ":"))


def tables_of(relation: Relation) -> set[str]:
    """Return the names of the tables that are read; removed rows belong to the table they were removed from."""
    own = {relation.table.removesuffix(REMOVED)} if isinstance(relation, Scan) else set()
    return own.union(*(tables_of(below) for below in inputs(relation)))


def _group(group: GroupPlan) -> list[object]:
    measured = [[one.name, str(one.quantity.function), one.quantity.distinct] for one in group.measured]
    event = event_of((group,))  # it holds the selection, then every mechanism in order, with all parameters
    selected = group.selection is not None if group.passing is None else group.passing.threshold
    rest = ["rest"] if any(key.rest for key in group.group.keys) else []  # one more cell: other noise is kept of it
    together = [["together", *(one.name for one in group.together)]] if group.together else []
    return [group.group.label, selected, measured, None if event is None else to_json(event), *rest, *together]
