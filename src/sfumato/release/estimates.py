"""From noisy measurements to the columns that were asked for, as an engine keeps them."""

from collections.abc import Mapping, Sequence, Set

import numpy as np

from sfumato.analysis.private_query import visible_key
from sfumato.planning.aggregates.average import AverageColumn
from sfumato.planning.aggregates.count import CountColumn
from sfumato.planning.aggregates.sum import SumColumn
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.release.aggregates.families import point
from sfumato.release.bounding.selection import is_completed_apart, tail_corrections
from sfumato.release.decode import EngineValue
from sfumato.release.intervals.noise_law import Floats
from sfumato.release.marginal_consistency import ConsistentMarginal, shown_cells
from sfumato.release.noisy import NoisyGroup, NoisyResult, integers

EstimateColumns = Mapping[str, Sequence[EngineValue]]


def estimates(
    plan: Plan,
    noisy: NoisyResult,
    made: Mapping[tuple[str, str], ConsistentMarginal],
    read: Set[str] | None = None,
) -> dict[str, EstimateColumns]:
    """Return the noisy tables by their groups' labels: every key, then every aggregate, as an engine keeps them.

    `read` has the labels of the tables that are read; None stands for all.
    """
    pairs, added = zip(plan.groups, noisy.groups, strict=True), tail_corrections(plan, noisy.groups)
    return {
        group.group.label: _estimated(group, table, made, added)
        for group, table in pairs
        if read is None or group.group.label in read
    }


def _estimated(
    group: GroupPlan,
    noisy: NoisyGroup,
    made: Mapping[tuple[str, str], ConsistentMarginal],
    added: Mapping[tuple[str, str], tuple[int, ...]],
) -> dict[str, list[EngineValue]]:
    """Return the table of one group; measurements that were made consistent come from there.

    Counts and sums are completed by what is added; what is divided by each other lacks the same rows, unless the sum
    is clipped: then its rows are not those of the count, and each is completed.
    """
    shown = shown_cells(noisy)
    table: dict[str, list[EngineValue]] = {
        key.name: [visible_key(noisy.keys[cell][index]) for cell in shown] for index, key in enumerate(group.group.keys)
    }
    measured = {
        name: integers(values)[shown] if (better := made.get((group.group.label, name))) is None else better.values
        for name, values in noisy.columns
    }
    measured |= {total.name: made[group.group.label, total.name].values for total in group.sums}
    whole = {
        name: values + integers(added[group.group.label, name])[shown] if (group.group.label, name) in added else values
        for name, values in measured.items()
    }
    for derived in group.derived:
        apart = isinstance(derived, AverageColumn) and is_completed_apart(derived, group.measured)
        column = point(derived, group, whole if apart or isinstance(derived, CountColumn | SumColumn) else measured)
        table[derived.name] = nulled(column) if column.dtype == np.float64 else list(map(int, column.tolist()))
    return table


def nulled(column: Floats) -> list[EngineValue]:
    """Return floats with None where they are NaN."""
    absent = np.isnan(column)
    if not absent.any():
        return list(column.tolist())
    return [None if missing else value for value, missing in zip(column.tolist(), absent.tolist(), strict=True)]
