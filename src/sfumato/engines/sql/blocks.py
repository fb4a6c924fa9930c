"""Blocks of an ordered key are added up from their cells: one statement reads people's rows for all levels.

Theorem: these are the numbers that the statement of each level returns.  Proof: proofs/hierarchies.md, (1)
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sfumato.engines.aggregates import Aggregates
from sfumato.mechanisms.answers import Answers, integer_answers
from sfumato.planning.plan import GroupPlan, Plan

_MAX_INT64_SUM = 1 << 62
"""Sums that may reach this are added up as Python integers."""


def skip_levels(plan: Plan, write: Callable[[GroupPlan], str | None]) -> Callable[[GroupPlan], str | None]:
    """Return what writes the statement of a group: none for a coarser level, whose numbers are added up."""
    levels = {label for hierarchy in plan.hierarchies for label in hierarchy.labels[1:]}
    return lambda group: None if group.group.label in levels else write(group)


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
    largest = max(abs(int(cells.min())), abs(int(cells.max())))
    exact = cells if largest * size < _MAX_INT64_SUM else cells.astype(object)
    return integer_answers(np.add.reduceat(exact, np.arange(0, cells.shape[axis], size), axis=axis).ravel())
