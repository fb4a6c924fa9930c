"""Rows with two owners as SQL: what each pair of owners shares in each cell, and nothing else.

Conditions are applied to rows, before they are added up. The engine gives pairs, never rows.
Proof: proofs/two_owners.md, (10)
"""

from collections.abc import Sequence

import numpy as np

from sfumato.engines.aggregates import PairsByCell
from sfumato.engines.sql.builder import select, subquery
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.flow import Tables, projected
from sfumato.engines.sql.scalar import in_bounds
from sfumato.mechanisms.bounded_flow import MAX_BOUND
from sfumato.planning.aggregates.bounded_flow import is_same_kind, value_of
from sfumato.planning.plan import GroupPlan, PlannedSelection
from sfumato.sensitivity.bounded_flow import Numbers, OwnerPairs

PAIR_COLUMNS = 3
"""How many columns the statement has beside the keys: both owners, and what they share."""


def pairs_sql(plan: GroupPlan, one: PlannedSelection, tables: Tables, dialect: Dialect) -> str:
    """Return the statement: the keys of the group, both owners, and what they share, in steps.

    Each value is clipped to what it was priced for. A pair's shared amount is cut at the largest bound: no flow can
    use more of it.
    """
    quantity, value = one.quantity, value_of(one.quantity)
    keys = {f"k{at}": key.scalar for at, key in enumerate(plan.group.keys)}
    first, second = quantity.arguments[:2]
    columns = {**keys, "a": first, "b": second}
    columns |= {} if value is None else {"v": value}
    columns |= {} if quantity.where is None else {"w": quantity.where}
    tests = [] if quantity.where is None else ["w"]
    amount = "count(*)"
    if value is not None:
        tests.append("v IS NOT NULL")
        amount = f"sum(CAST({in_bounds(value, 'v', dialect)} AS {dialect.wide}))"
    rows = subquery(projected(plan.group.rows, tables, columns, dialect), "r")
    # owners of one kind have no order
    ends = ["least(a, b)", "greatest(a, b)"] if is_same_kind(quantity) else ["a", "b"]
    shared = f"CAST(least({amount}, {MAX_BOUND}) AS {dialect.bigint})"
    listed = [*keys, *(f"{end} AS {name}" for end, name in zip(ends, ("p", "q"), strict=True)), f"{shared} AS amount"]
    return select(listed, rows, where=tests, group_by=[*keys, *ends])


def pairs_by_cell(one: PlannedSelection, cells: Numbers, columns: Sequence[Numbers]) -> PairsByCell:
    """Return the pairs of every cell; `cells` says in which place of the group each row of the answer is."""
    first, second, amounts = columns
    order = np.argsort(cells, kind="stable")
    order = order[cells[order] >= 0]  # rows in no cell are dropped
    first, second, amounts, cells = first[order], second[order], amounts[order], cells[order]
    same_kind = is_same_kind(one.quantity)
    found = {}
    places, starts = np.unique(cells, return_index=True)
    for place, start, end in zip(places.tolist(), starts, [*starts[1:], len(cells)], strict=False):  # none, if empty
        some = slice(start, end)
        found[place] = _numbered(first[some], second[some], amounts[some], same_kind)
    return PairsByCell(found, same_kind)


def _numbered(first: Numbers, second: Numbers, amounts: Numbers, same_kind: bool) -> OwnerPairs:
    """Return pairs whose owners are numbered from 0 on: those of one kind together."""
    if same_kind:
        _, numbers = np.unique(np.concatenate([first, second]), return_inverse=True)
        left, right = np.split(numbers.astype(np.int64), 2)
        return OwnerPairs(left, right, amounts, True)
    left, right = (np.unique(one, return_inverse=True)[1].astype(np.int64) for one in (first, second))
    return OwnerPairs(left, right, amounts, False)
