"""Blocks of an ordered key are added up from their cells: one statement reads people's rows for all levels.

Theorem: these are the numbers that the statement of each level returns.  Proof: proofs/hierarchies.md, (1)
"""

from dataclasses import replace

import numpy as np

from sfumato.engines.aggregates import Aggregates
from sfumato.mechanisms.answers import Answers, integer_answers
from sfumato.planning.plan import GroupPlan, Plan

_SURE = 1 << 62
"""Sums below this are added up in 64 bits."""


def is_level(plan: Plan, group: GroupPlan) -> bool:
    """Whether a group is a coarser level of a hierarchy: its numbers are those of the finest one, added up."""
    return any(group.group.label in hierarchy.labels[1:] for hierarchy in plan.hierarchies)


def with_block_sums(plan: Plan, aggregates: Aggregates) -> Aggregates:
    """Return the aggregates with the numbers of all coarser levels, which no statement has read."""
    places = {group.group.label: place for place, group in enumerate(plan.groups)}
    found = list(aggregates.groups)
    for hierarchy in plan.hierarchies:
        group, cells = plan.groups[places[hierarchy.label]], found[places[hierarchy.label]]
        sizes = [len(key.measured_values) for key in group.group.keys]
        shown = tuple(slice(count) for count in hierarchy.counts)
        for label, size in hierarchy.levels:
            columns = {
                name: _sums(np.asarray(cells.columns[name]).reshape(sizes)[shown], hierarchy.axis, size)
                for name in found[places[label]].columns
            }
            found[places[label]] = replace(found[places[label]], columns=columns)
    return replace(aggregates, groups=tuple(found)) if plan.hierarchies else aggregates


def _sums(cells: Answers, axis: int, size: int) -> Answers:
    exact = cells if int(np.abs(cells).max(initial=0)) * size < _SURE else cells.astype(object)
    return integer_answers(np.add.reduceat(exact, np.arange(0, cells.shape[axis], size), axis=axis).ravel())
