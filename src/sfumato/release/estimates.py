"""From noisy measurements to the columns that were asked for, as an engine keeps them."""

from collections.abc import Mapping, Sequence

import numpy as np

from sfumato.planning.plan import GroupPlan, Plan
from sfumato.release.aggregates.families import point
from sfumato.release.decode import EngineValue
from sfumato.release.noise_law import Floats, Integers
from sfumato.release.noisy import Noisy, NoisyGroup, NoisyValues, flat
from sfumato.release.one_table import AgreedMargin, shown_cells

Columns = Mapping[str, Sequence[EngineValue]]


def estimates(plan: Plan, noisy: Noisy, made: Mapping[tuple[str, str], AgreedMargin]) -> dict[str, Columns]:
    """Return the noisy tables by their groups' labels: every key, then every aggregate, as an engine keeps them."""
    pairs = zip(plan.groups, noisy.groups, strict=True)
    return {group.group.label: estimated(group, table, made) for group, table in pairs}


def estimated(
    group: GroupPlan, noisy: NoisyGroup, made: Mapping[tuple[str, str], AgreedMargin]
) -> dict[str, list[EngineValue]]:
    """Return the table of one group; measurements that were made consistent come from there."""
    shown = shown_cells(noisy)
    table: dict[str, list[EngineValue]] = {
        key.name: [noisy.keys[cell][place] for cell in shown] for place, key in enumerate(group.group.keys)
    }
    measured = {
        name: integers(values)[shown] if (better := made.get((group.group.label, name))) is None else better.values
        for name, values in noisy.columns
    }
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
