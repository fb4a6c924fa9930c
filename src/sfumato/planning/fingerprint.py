"""The identity of a question by its text, under which versions before 0.10 stored its release: it still finds them."""

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import is_
from typing import cast

from sfumato.accounting.event import Composed, Event, LaplaceBounded, Pure, Repeated, to_json
from sfumato.analysis.catalog import REMOVED, PublicRows
from sfumato.analysis.private_query import PrivateQuery
from sfumato.caches import SameObjects
from sfumato.language.rel_nodes import MaterializedNode, nodes
from sfumato.language.scalar import address, walk
from sfumato.mechanisms.bounded_flow import BoundedFlow
from sfumato.mechanisms.matched_count import MatchedCount
from sfumato.mechanisms.max_norm import MaxNormPart
from sfumato.mechanisms.meetings import Meetings
from sfumato.mechanisms.quantiles import ENDS_FAILURE, Quantiles
from sfumato.planning.noise import event_of
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.query.canonical import canonical
from sfumato.query.relation import Query, Relation, Scan, inputs

_ENCODER = json.JSONEncoder(separators=(",", ":"))


def query_fingerprint(query: Query, plan: Plan, words: str) -> str:
    """Return the canonical text of the query and of all noise, with the policy's words about the tables it touches.

    Together with the snapshot it is the name under which a ledger keeps the release: budget, analysts, paths and other
    tables are no part of it. It is JSON, so no text inside it can imitate another structure.
    """
    return query_fingerprints(canonical(query), (plan,), words)[0]


def query_fingerprints(meaning: str, plans: Sequence[Plan], words: str) -> list[str]:
    """Return the same for each of several plans; `meaning` is the canonical text of the query."""
    return [_ENCODER.encode([meaning, [_group(group) for group in plan.groups], words]) for plan in plans]


def tables_read(relation: Relation) -> set[str]:
    """Return the names of the tables that are read; removed rows belong to the table they were removed from."""
    own = {relation.table.removesuffix(REMOVED)} if isinstance(relation, Scan) else set()
    return own.union(*(tables_read(below) for below in inputs(relation)))


def materialized_bytes(private: PrivateQuery) -> int:
    """Return the bytes of the public rows that were computed for a question: they are there as long as it is."""
    flows = (*(group.rows for group in private.groups), private.outcome)
    kept = {id(node.rows): node.rows for flow in flows for node in nodes(flow) if isinstance(node, MaterializedNode)}
    return sum(cast(PublicRows, rows).size for rows in kept.values())


def _group(group: GroupPlan) -> list[object]:
    measured = [
        [measurement.name, str(measurement.quantity.function), measurement.quantity.distinct]
        for measurement in group.measured
    ]
    event = event_of((group,))  # it holds the selection, then every mechanism in order
    selected = group.selection is not None if group.threshold_selection is None else group.threshold_selection.threshold
    # one more cell: other noise is kept of it
    rest = ["rest"] if any(key.has_remainder for key in group.group.keys) else []
    reached = list(_reached(group))
    told = None if event is None else _event_text(SameObjects(event))
    return [group.group.label, selected, measured, told, *rest, *([reached] if reached else [])]


@lru_cache(maxsize=32)
def _event_text(event: SameObjects) -> str:
    return to_json(first_spelling(event.objects[0]))


def _reached(group: GroupPlan) -> Iterator[list[object]]:
    """Give what a pure loss does not tell of the numbers that are kept: how far one person moves them, on which grid.

    It follows from policy and text, and from public tables, which another snapshot may have others of.
    """
    for measurement in group.measured:
        if measurement.candidates is not None:
            yield [
                measurement.name,
                measurement.candidates.thresholds,
                [moved.l1 for moved in measurement.candidates.sensitivities],
            ]
        elif measurement.bound is not None:
            yield [measurement.name, "total", *measurement.bound.thresholds]
        elif measurement.name in group.vector:
            yield [measurement.name, "vector", measurement.sensitivity.l1]
        elif isinstance(measurement.mechanism, MaxNormPart):
            yield [
                measurement.name,
                measurement.mechanism.joint.sides[measurement.mechanism.place],
                measurement.mechanism.joint.sensitivity,
            ]
    for choice in group.chosen:
        match choice.mechanism:
            case MatchedCount(limits, cells):
                yield [choice.name, limits, cells]
            case BoundedFlow(most, _, _, cells):
                yield [choice.name, "flow", most, cells]
            case Quantiles(ends=True):  # ends that were chosen by another rule are good for other levels
                yield [choice.name, "ends", str(ENDS_FAILURE)]
            case Meetings(_, sides, several):
                yield [choice.name, [[side.rows, side.repeats] for side in sides], several]
    public = {node.label for node in nodes(group.group.rows) if isinstance(node, MaterializedNode)}
    for output in group.all_outputs:
        for part in (part for argument in output.quantity.arguments for part in walk(argument)):
            if (place := address(part)) is not None and place.label in public:
                yield [output.name, place.name, part.facts.low, part.facts.high, str(part.facts.step)]


def first_spelling(event: Event) -> Event:
    """Return the event under which a measurement was first stored, so that what was paid for stays paid.

    Choices by permute-and-flip were stored as `Pure` before a sharper bound of them was proved; the draw is the same.
    """
    match event:
        case LaplaceBounded(epsilon, neighbours):
            return Pure(epsilon, neighbours)
        case Repeated(inner, times):
            first = first_spelling(inner)
            return event if first is inner else Repeated(first, times)
        case Composed(events):
            spelled = tuple(map(first_spelling, events))
            return event if all(map(is_, spelled, events)) else Composed(spelled)
        case _:
            return event
