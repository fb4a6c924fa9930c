"""The identity of a plan: two plans with one text release the same thing with the same noise."""

import json

from sfumato.accounting.event import to_json
from sfumato.planning.noise import event_of
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.query.canonical import canonical
from sfumato.query.relation import Query


def question(query: Query, plan: Plan) -> str:
    """Return the canonical text of the query and of all noise: the name under which a ledger keeps the release.

    It is JSON, so no text inside it can imitate another structure.
    """
    return json.dumps([canonical(query), [_group(group) for group in plan.groups]], separators=(",", ":"))


def _group(group: GroupPlan) -> list[object]:
    measured = [[one.name, str(one.aggregation), one.distinct] for one in group.measured]
    event = event_of((group,))  # it holds the selection, then every mechanism in order, with all parameters
    return [group.group.label, group.selection is not None, measured, None if event is None else to_json(event)]
