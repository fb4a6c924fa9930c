"""Small sources that are registered and opened: what the laws of the engine are tried on."""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.engines.engines import engine_under_law

from sfumato.accounting.event import Neighbours
from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.catalog import Table
from sfumato.analysis.private_query import Contribution, Group, Key, PrivateQuery
from sfumato.engines.engine import Engine
from sfumato.language.rel_nodes import ProjectNode, RelNode, ScanNode
from sfumato.language.scalar import Scalar, column
from sfumato.mechanisms.laplace import Laplace
from sfumato.planning.plan import GroupPlan, Plan, PlannedMeasurement
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import Aggregation
from sfumato.sensitivity.norms import Sensitivity

SENSITIVITY = Sensitivity(1, 1, 1, Neighbours.ADD_REMOVE)
LAPLACE = Laplace(1, Fraction(1), Neighbours.ADD_REMOVE)


def opened(root: Path, declared: Mapping[str, object], data: Mapping[str, pa.Table]) -> Engine:
    policy = {"name": "small", "budget": {"epsilon": 1, "delta": 0}, "tables": dict(declared)}
    return engine_under_law().opened(root, policy, data)


def read(table: Table, label: str | None = None) -> ScanNode:
    """Return all columns of a table, with its owner."""
    columns = {field.name: (field.name, field.stored, field.facts) for field in table.fields}
    if table.owner is not None:
        columns[table.owner.name] = (table.owner.name, table.owner.stored, table.owner.facts)
    return ScanNode(table.name, label or table.name, tuple(columns.values()))


def of(table: Table, name: str, label: str | None = None) -> Scalar:
    return column(label or table.name, name, table.field(name).facts)


def owner(table: Table) -> Scalar:
    assert table.owner is not None
    return column(table.name, table.owner.name, table.owner.facts)


def measured(
    name: str,
    aggregation: Aggregation,
    argument: Scalar | None = None,
    distinct: bool = False,
    where: Scalar | None = None,
) -> PlannedMeasurement:
    arguments = () if argument is None else (argument,)
    return PlannedMeasurement(name, Aggregate(aggregation, arguments, distinct, where), SENSITIVITY, LAPLACE)


def planned(
    table: Table,
    keys: tuple[Key, ...],
    measures: tuple[PlannedMeasurement, ...],
    rows: RelNode | None = None,
    most_rows: int | None = None,
    most_groups: int | None = None,
) -> Plan:
    contribution = Contribution(
        most_rows or table.rows_per_unit, most_groups or 1, most_rows is not None, most_groups is not None
    )
    flow = rows or read(table)
    group = Group("g", flow, owner(table), table.identity, keys, (), contribution)
    private = PrivateQuery((group,), ProjectNode(flow, "out", ()), (), Neighbours.ADD_REMOVE)
    return Plan(private, (GroupPlan(group, None, measures, ()),), PrivacyLoss(Fraction(1), Fraction(0)), None)


def answers(engine: Engine, plan: Plan) -> dict[tuple[Any, ...], tuple[int, ...]]:
    """Return the measurements of each cell, with the number of people last where the keys are secret."""
    (group,) = engine.run(engine.prepare(plan)).groups
    columns = [list(values) for values in group.columns.values()]
    columns += [] if group.units is None else [list(group.units)]
    return {key: tuple(int(values[at]) for values in columns) for at, key in enumerate(group.keys)}
