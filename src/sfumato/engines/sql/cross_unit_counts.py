"""Keys by which rows of different people meet, as SQL: how many rows each side has of them, and nothing else.

No pair of rows is made: the time is that of grouping each side, whatever meets. Proof: proofs/elastic_joins.md, (2)
"""

from collections.abc import Sequence

from sfumato.engines.sql.builder import select, subquery, union_all
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.flow import Tables, projected
from sfumato.language.rel_nodes import JoinNode, RelNode
from sfumato.planning.aggregates.cross_unit_count import owners_and_keys, sides_of
from sfumato.planning.plan import GroupPlan, PlannedSelection
from sfumato.sensitivity.cross_unit_joins import blocks


def cross_unit_counts_sql(plan: GroupPlan, one: PlannedSelection, tables: Tables, dialect: Dialect) -> str:
    """Return the statement: the keys of the group, the powers of `blocks`, and how many keys have them.

    A key of which a part is NULL meets nothing. One person's part of a key is cut at the bound that was priced.
    """
    sides, _ = sides_of(one.quantity)
    flows = _flows(plan.group.rows, len(sides))
    named = owners_and_keys(one.quantity)
    keys = [f"k{at}" for at in range(len(named[0][1]))]
    stacked = []
    for index, (flow, side, (owner, scalars)) in enumerate(zip(flows, sides, named, strict=True)):
        rows = projected(flow, tables, {"u": owner, **dict(zip(keys, scalars, strict=True))}, dialect)
        counts = [f"{f'least(count(*), {side.repeats})' if at == index else '0'} AS n{at}" for at in range(len(sides))]
        present = [f"{key} IS NOT NULL" for key in keys]
        stacked.append(select(["u", *keys, *counts], subquery(rows, "r"), where=present, group_by=["u", *keys]))
    people = _grouped(union_all(stacked), ["u", *keys], [(f"sum(n{at})", f"n{at}") for at in range(len(sides))])
    powers = [f"p{at}" for at in range(len(blocks(len(sides))))]
    products = ["sum(" + " * ".join(f"n{side}" for side in block) + ")" for block in blocks(len(sides))]
    shared = _grouped(people, keys, list(zip(products, powers, strict=True)))
    cells = [f"k{_place(key.scalar, [scalars for _, scalars in named])}" for key in plan.group.keys]
    return _grouped(shared, [*cells, *powers], [("count(*)", "keys")], shown=[*cells, *powers])


def _grouped(
    rows: str, keys: Sequence[str], measures: Sequence[tuple[str, str]], shown: Sequence[str] | None = None
) -> str:
    listed = [*(keys if shown is None else shown), *(f"{sql} AS {name}" for sql, name in measures)]
    return select(listed, subquery(rows, "s"), group_by=dict.fromkeys(keys))


def _flows(flow: RelNode, sides: int) -> list[RelNode]:
    """Return the rows of each side: they were paired from the left, and are read one by one."""
    if sides == 1:
        return [flow]
    if not isinstance(flow, JoinNode):
        raise AssertionError("what meets was paired")
    return [*_flows(flow.left, sides - 1), flow.right]


def _place(key: object, sides: Sequence[Sequence[object]]) -> int:
    return next(scalars.index(key) for scalars in sides if key in scalars)
