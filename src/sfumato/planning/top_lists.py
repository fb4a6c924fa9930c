"""Top lists: GROUP BY … ORDER BY COUNT(…) DESC LIMIT k shows k cells, so that not all need to be measured.

The k largest are chosen one after another, and only they are counted. That costs as much as one person can do to k
cells; measuring all costs as much as one person can do to all. Proof: proofs/top_list.md
"""

from collections.abc import Iterator, Sequence

from sfumato.accounting.event import Neighbours
from sfumato.accounting.loss import round_up
from sfumato.language.flow import Flow, Given, Order, Show, Take, below, noisy_tables
from sfumato.mechanisms.spelled_list import SpelledList
from sfumato.mechanisms.top_list import TopList
from sfumato.planning.aggregates.counted import Counted
from sfumato.planning.measurements import Needs, Top, counts_everybody, topped
from sfumato.planning.one_table import CommonTable
from sfumato.planning.origins import GroupColumn, plain_origin
from sfumato.planning.plan import Plan
from sfumato.planning.within import CONFIDENCE
from sfumato.query.functions import Aggregation

MOST_CHOICES = 1000
"""A longer list is measured as all groups are, and cut."""
_MEASURED = frozenset(
    {Aggregation.COUNT, Aggregation.SUM, Aggregation.HISTOGRAM, Aggregation.MODE}
    | {Aggregation.QUANTILES, Aggregation.QUANTILES_ALONE}
)
"""What is proved to move no further in the chosen cells than in so many fixed ones."""


def with_top_lists(
    needs: tuple[Needs, ...], outcomes: Sequence[Show], tables: Sequence[CommonTable], neighbours: Neighbours
) -> tuple[Needs, ...]:
    """Return the needs where every group of which the outcomes show the largest cells alone is such a list."""
    shared = {margin.label for table in tables for margin in table.margins}
    read = [given.table for outcome in outcomes for given in noisy_tables(outcome)]
    cut = dict(found for outcome in outcomes for found in _cuts(outcome))
    lists = []
    for need in needs:
        label = need.group.label
        alone = read.count(label) == 1 and label not in shared and not any(key.rest for key in need.group.keys)
        wanted = [(name, count) for (group, name), count in cut.items() if group == label and alone]
        lists.append(_listed(need, *wanted[0], neighbours) if wanted else need)
    return tuple(lists)


def is_a_list(plan: Plan) -> bool:
    """Whether an answer is a top list, and nothing else decides which cells it shows."""
    lists = [group.group.label for group in plan.groups if isinstance(group.selection, TopList | SpelledList)]
    flow: Flow = plan.private.outcome
    while isinstance(flow, Show):
        flow = flow.source
    return [label for (label, _), _ in _cuts(flow)] == lists != [] and isinstance(flow, Take)


def list_note(chosen: TopList | SpelledList) -> str:
    """Say how a top list is made, and which groups are in it."""
    if isinstance(chosen, SpelledList):
        return (
            f"{'The largest group is' if chosen.chosen == 1 else f'The {chosen.chosen:,} largest groups are'} chosen "
            f"privately among all texts of up to {chosen.longest} printable ASCII letters, for "
            f"ε = {round_up(chosen.epsilon)} each and without a delta; one of 8 letters appears with probability 95 % "
            f"from {chosen.units_for(CONFIDENCE):,} people on. Up to one list in twenty shows a text that nobody has."
        )
    price = f"ε = {round_up(chosen.epsilon)}"
    made = (
        f"The {chosen.chosen:,} largest groups are chosen privately, one after another for {price} each, and then only "
        "they are measured."
        if chosen.chosen > 1
        else f"The largest group is chosen privately for {price}, and then only it is measured."
    )
    if chosen.counted is None:
        return made
    return (
        f"{made} With δ = {round_up(chosen.delta)}, a group that is one of them appears with probability 95 % from "
        f"{chosen.units_for(CONFIDENCE):,} people on, and smaller ones may be missing."
    )


def _cuts(flow: Flow) -> Iterator[tuple[GroupColumn, int]]:
    """Find what is ordered by a column of a group, the largest first, and cut off; and after how many rows."""
    match flow:
        case Take(Order(source, keys), int() as count, 0) if keys and keys[0][1] and _is_table(source):
            if (found := plain_origin(keys[0][0], source)) is not None:
                yield found, count
        case _:
            for part in below(flow):
                yield from _cuts(part)


def _is_table(flow: Flow) -> bool:
    """Whether a flow has the rows of one noisy table, each once."""
    while isinstance(flow, Show):
        flow = flow.source
    return isinstance(flow, Given) and flow.rows is None


def _listed(need: Needs, name: str, count: int, neighbours: Neighbours) -> Needs:
    """Return the needs of a list, if the column counts everybody of a cell, and there are more cells.

    Where one person may have several rows in a cell, choosing costs more than the noise of all cells.
    """
    made = next((one for one in need.derived if one.name == name), None)
    few = need.group.public_keys and need.group.cells <= count
    known = all(one.quantity.function in _MEASURED for one in need.measurements)
    if not isinstance(made, Counted) or few or not known or not 1 <= count <= MOST_CHOICES:
        return need
    by = next(one for one in need.measurements if one.name == made.plain)
    if not counts_everybody(by.quantity) or by.sensitivity.linf > 1:
        return need
    return topped(need, Top(count, by.name), neighbours)
