"""From noisy measurements to the columns that were asked for, as an engine keeps them."""

from collections.abc import Mapping, Sequence

import numpy as np

from sfumato.planning.plan import GroupPlan, Plan
from sfumato.release.aggregates.families import point
from sfumato.release.decode import EngineValue
from sfumato.release.noise_law import Floats, Integers
from sfumato.release.noisy import Noisy, NoisyGroup, NoisyValues, flat

Columns = Mapping[str, Sequence[EngineValue]]


def estimates(plan: Plan, noisy: Noisy) -> dict[str, Columns]:
    """Return the noisy tables by their groups' labels: every key, then every aggregate, as an engine keeps them."""
    return {group.group.label: estimated(group, table) for group, table in zip(plan.groups, noisy.groups, strict=True)}


def estimated(group: GroupPlan, noisy: NoisyGroup) -> dict[str, list[EngineValue]]:
    """Return the table of one group."""
    table: dict[str, list[EngineValue]] = {
        key.name: [cells[place] for cells in noisy.keys] for place, key in enumerate(group.group.keys)
    }
    measured = {name: integers(values) for name, values in noisy.columns}
    for derived in group.derived:
        column = point(derived, group, measured)
        table[derived.name] = nulled(column) if column.dtype == np.float64 else [int(value) for value in column]
    return table


def integers(values: NoisyValues) -> Integers:
    """Return integers as an array: int64 if they and their noise surely fit, else Python integers."""
    largest = max(map(abs, flat(values)), default=0)
    return np.array(values, dtype=np.int64 if largest < 1 << 61 else object)


def nulled(column: Floats) -> list[EngineValue]:
    """Return floats with None where they are NaN."""
    return [None if np.isnan(value) else value for value in column.tolist()]
