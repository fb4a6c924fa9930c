"""Plans of questions over an engine's own catalogue, and their rows as an older copy has them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.analyse import analyse
from sfumato.engines.engine import Engine
from sfumato.language.rel_nodes import FilterNode, JoinNode, MaterializedNode, ProjectNode, RelNode, ScanNode
from sfumato.planning.plan import Plan
from sfumato.planning.planner import make_plan, parse_price_target
from sfumato.policy.reading import read_policy
from sfumato.query.parse import parse


def plan_of(engine: Engine, policy: Mapping[str, object], sql: str) -> Plan:
    """Return the plan of a question at an epsilon of 1."""
    query = parse(sql, engine.catalog)
    with engine.public.one_question():
        private = analyse(query, engine.catalog, engine.public)
    budget = read_policy({**policy, "source": "duckdb:nowhere.duckdb"}).budget
    wish = parse_price_target(1, None, None, query.options, budget, PrivacyLoss(budget.epsilon, budget.delta))
    return make_plan(private, wish)


def without_hidden_columns(plan: Plan, *names: str) -> Plan:
    """Return the plan of one group as if the copy had no hidden columns of these kinds, fields of `ScanNode`."""
    (one,) = plan.groups
    flow = _scanned(one.group.rows, dict.fromkeys(names, ()))
    return replace(plan, groups=(replace(one, group=replace(one.group, rows=flow)),))


def _scanned(flow: RelNode, fields: Mapping[str, Any]) -> RelNode:
    match flow:
        case ScanNode():
            return replace(flow, **fields)
        case JoinNode(_, left, right):
            return replace(flow, left=_scanned(left, fields), right=_scanned(right, fields))
        case FilterNode() | ProjectNode():
            return replace(flow, source=_scanned(flow.source, fields))
        case MaterializedNode():
            return flow
    raise AssertionError(type(flow))
