"""Top lists: GROUP BY … ORDER BY COUNT(…) DESC LIMIT k shows k cells, so that not all need to be measured.

The k largest are chosen one after another, and only they are counted. That costs as much as one person can do to k
cells; measuring all costs as much as one person can do to all. Proof: proofs/top_list.md
"""

from collections.abc import Iterator, Sequence

from sfumato.accounting.event import Neighbours
from sfumato.accounting.loss import round_up
from sfumato.language.rel_nodes import (
    FilterNode,
    InputNode,
    LimitNode,
    ProjectNode,
    RelNode,
    SortNode,
    children,
    noisy_tables,
)
from sfumato.language.scalar import Operator, Scalar
from sfumato.mechanisms.spelled_list import SpelledList
from sfumato.mechanisms.top_list import TopList
from sfumato.planning.accuracy_target import CONFIDENCE
from sfumato.planning.aggregates.count import CountColumn
from sfumato.planning.aggregates.families import OutputColumn
from sfumato.planning.aggregates.sum import SumColumn
from sfumato.planning.column_origins import GroupColumn, plain_origin
from sfumato.planning.key_selection import select_keys_by_amount
from sfumato.planning.measurements import MeasurementSet, TopK, counts_everybody, limit_to_top_k
from sfumato.planning.plan import Plan
from sfumato.planning.shared_marginals import ContingencyTable
from sfumato.query.functions import Aggregation

MAX_LISTED_CHOICES = 1000
"""Maximum length of a top list; a longer one is measured as all groups are, and then limited."""
_MEASURED_AGGREGATES = frozenset(
    {Aggregation.COUNT, Aggregation.SUM, Aggregation.HISTOGRAM, Aggregation.MODE}
    | {Aggregation.QUANTILES, Aggregation.QUANTILES_ALONE}
)
"""Aggregates proved to move no further in the chosen cells than in as many fixed ones."""


def with_top_lists(
    needs: tuple[MeasurementSet, ...],
    outcomes: Sequence[ProjectNode],
    tables: Sequence[ContingencyTable],
    neighbours: Neighbours,
) -> tuple[MeasurementSet, ...]:
    """Return the needs where every group of which the outcomes show the largest cells alone is such a list."""
    shared = {margin.label for table in tables for margin in table.margins}
    read = [given.table for outcome in outcomes for given in noisy_tables(outcome)]
    cut = {group: (name, count) for outcome in outcomes for (group, name), count in _cuts(outcome)}
    lists = []
    for need in needs:
        label = need.group.label
        alone = read.count(label) == 1 and label not in shared and not any(key.has_remainder for key in need.group.keys)
        by = cut.get(label) if alone else None
        made = None if by is None else next((output for output in need.derived if output.name == by[0]), None)
        listed = need if by is None else _listed(need, made, by[1], neighbours)
        lists.append(select_keys_by_amount(listed, made.plain if isinstance(made, SumColumn) else None))
    return tuple(lists)


def has_list(plan: Plan) -> bool:
    """Whether the largest cells of some group are chosen, so that the others stay unmeasured."""
    return any(isinstance(group.selection, TopList | SpelledList) for group in plan.groups)


def is_a_list(plan: Plan) -> bool:
    """Whether an answer is a top list, and nothing else decides which cells it shows."""
    lists = [group.group.label for group in plan.groups if isinstance(group.selection, TopList | SpelledList)]
    flow: RelNode = plan.private.outcome
    while isinstance(flow, ProjectNode):
        flow = flow.source
    match flow:
        case LimitNode(SortNode(source, _), _, 0) if _is_table(source):
            return [label for (label, _), _ in _cuts(flow)] == lists != []
    return False


def list_note(chosen: TopList | SpelledList) -> str:
    """Say how a top list is made, and which groups are in it."""
    if isinstance(chosen, SpelledList):
        return (
            f"{'The largest group is' if chosen.chosen == 1 else f'The {chosen.chosen:,} largest groups are'} chosen "
            f"privately among all texts of up to {chosen.longest} ASCII letters, without a delta; a text of 8 letters "
            f"appears with probability 95 % from {chosen.units_for(CONFIDENCE):,} people on. Up to one list in twenty "
            "shows a text that is not in the data."
        )
    price = f"ε = {round_up(chosen.epsilon)}"
    made = (
        f"The {chosen.chosen:,} largest groups are chosen privately, one after another for {price} each; only they are "
        "measured."
        if chosen.chosen > 1
        else f"The largest group is chosen privately for {price}; only it is measured."
    )
    if chosen.counted is None:
        return made
    return (
        f"{made} With δ = {round_up(chosen.delta)}, such a group appears with probability 95 % from "
        f"{chosen.units_for(CONFIDENCE):,} people on; smaller ones may be missing."
    )


def _cuts(flow: RelNode) -> Iterator[tuple[GroupColumn, int]]:
    """Find what is ordered by a column of a group, the largest first, and cut off; and after how many rows.

    The largest of those cells that are above a constant are those of the largest cells that are above it; and what
    comes after the first m of them is among m more.
    """
    match flow:
        case LimitNode(SortNode(source, keys), int() as count, offset) if keys and keys[0][1]:
            found = plain_origin(keys[0][0], source)
            if found is not None and _is_table(_unfiltered(source, found)):
                yield found, count + offset
        case _:
            for part in children(flow):
                yield from _cuts(part)


def _unfiltered(flow: RelNode, by: GroupColumn) -> RelNode:
    """Return a flow without the conditions that this column is above constants."""
    while isinstance(flow, ProjectNode | FilterNode):
        if isinstance(flow, FilterNode) and not _is_floor(flow.condition, flow.source, by):
            return flow
        flow = flow.source
    return flow


def _is_floor(condition: Scalar, source: RelNode, by: GroupColumn) -> bool:
    """Whether a condition holds for all values of a column from some constant on, and says nothing else."""
    match condition:
        case Scalar(Operator.AND, parts):
            return all(_is_floor(part, source, by) for part in parts)
        case Scalar(Operator.LESS | Operator.AT_MOST, (Scalar(Operator.CONSTANT), above)):
            return plain_origin(above, source) == by
    return False


def _is_table(flow: RelNode) -> bool:
    """Whether a flow has the rows of one noisy table, each once."""
    while isinstance(flow, ProjectNode):
        flow = flow.source
    return isinstance(flow, InputNode) and flow.rows is None


def _listed(need: MeasurementSet, made: OutputColumn | None, count: int, neighbours: Neighbours) -> MeasurementSet:
    """Return the needs of a list, if it is by a column that counts everybody of a cell, and there are more cells.

    Where one person may add much to a cell, choosing costs more than the noise of all cells.
    """
    few = need.group.public_keys and need.group.cells <= count
    known = all(measurement.quantity.function in _MEASURED_AGGREGATES for measurement in need.measurements)
    if not isinstance(made, CountColumn) or few or not known or not 1 <= count <= MAX_LISTED_CHOICES:
        return need
    by = next((measurement for measurement in need.measurements if measurement.name == made.plain), None)
    if by is None or not counts_everybody(by.quantity) or by.sensitivity.linf > 1:
        return need
    return limit_to_top_k(need, TopK(count, by.name), neighbours)
