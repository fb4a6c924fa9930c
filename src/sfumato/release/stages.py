"""Questions that compare people's rows with a noisy value: what they measure first, and what they do with it.

Each stage is charged, read and published like a question of its own. Between two stages stand noisy numbers alone.
Proof: proofs/noisy_values.md
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sfumato.analysis.noisy_values import MAX_NOISY_VALUE_STEPS, NOISY_VALUE_STEP
from sfumato.engines.engine import Engine, PlannedStatement
from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import InputNode, ProjectNode, noisy_tables
from sfumato.planning.notes.note import Note, NoteRank
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.query.rebuilding import rebuild_fields
from sfumato.randomness.source import Source
from sfumato.release.decode import EngineValue, decode
from sfumato.release.intervals.confidence import answer
from sfumato.release.intervals.row_forms import Evaluate
from sfumato.release.key_rounds import add_later_rounds, later_statements
from sfumato.release.noisy import NoisyGroup, NoisyResult
from sfumato.release.publish import publish

Bound = Mapping[str, tuple[int | None, ...]]
"""The noisy row that each label stands for, in steps."""

_UNKNOWN_VALUE = 987_654_321_012_000
"""Stands for a noisy value in a statement that is shown, and never run: no other number there looks like it."""
COMPARED_VALUE = "Rows were compared with a value that was measured first:"
"""How the note begins that states a noisy value."""


def bind(plan: Plan, bound: Bound) -> Plan:
    """Return a plan whose statements hold the noisy values that its rows are compared with."""

    def change(_: str, part: Any) -> Any:
        if isinstance(part, InputNode) and part.rows is None and part.label in bound:
            return replace(part, rows=(bound[part.label],))
        return rebuild_fields(part, change)

    return replace(plan, groups=tuple(rebuild_fields(group, change) for group in plan.groups))


def with_any_value(plan: Plan) -> Plan:
    """Return a plan with some value in each place, for everything that is decided before one is known."""
    if not plan.private.first:
        return plan
    return bind(plan, {first.label: (0,) * len(first.items) for first in plan.private.first})


def stage_statements(plan: Plan, planned: Callable[[Plan], Sequence[PlannedStatement]]) -> tuple[PlannedStatement, ...]:
    """Return the statements of a plan in their order; a value that is measured first stands there by a name."""
    names: dict[str, str] = {}
    bound: dict[str, tuple[int, ...]] = {}
    for first in plan.private.first:
        places = range(len(names), len(names) + len(first.items))
        bound[first.label] = tuple(_UNKNOWN_VALUE + place for place in places)
        names |= {str(_UNKNOWN_VALUE + place): f":measured_first_{place + 1}" for place in places}
    found = []
    known = bind(plan, bound)
    for statement in (*planned(known), *later_statements(known, planned)):
        sql = statement.sql
        for digits, name in names.items():
            sql = sql.replace(digits, name)
        found.append(PlannedStatement(statement.purpose, sql))
    return tuple(found)


def read_and_publish(engine: Engine, source: Source, plan: Plan) -> NoisyResult:
    """Return the noisy groups of one stage, or of one round of it. Nothing exact goes on."""
    return publish(plan, engine.run(engine.prepare(plan)), source)


def run_stages(plan: Plan, run: Callable[[Plan], NoisyResult], evaluate: Evaluate) -> NoisyResult:
    """Return the noisy groups of a plan in its order; `run` reads and publishes one stage of it.

    Theorem: if each stage is DP for every value that the stages before may have released, all of it is DP at the
    price of the plan, which is composed of them.  Proof: proofs/noisy_values.md
    """
    found: dict[str, NoisyGroup] = {}
    bits = 0
    bound: dict[str, tuple[int | None, ...]] = {}
    while len(found) < len(plan.groups):
        waiting = tuple(group for group in plan.groups if group.group.label not in found)
        stage = bind(replace(plan, groups=_ready(waiting, bound), tables=(), hierarchies=()), bound)
        if not stage.groups:
            raise AssertionError("what is measured first depends on nothing that is measured later")
        noisy = add_later_rounds(stage, run(stage), run)
        bits += noisy.bits
        found |= {group.group.label: numbers for group, numbers in zip(stage.groups, noisy.groups, strict=True)}
        bound |= {
            first.label: first_value(plan, found, first, evaluate)
            for first in plan.private.first
            if first.label not in bound and _groups_below(first) <= found.keys()
        }
    return NoisyResult(tuple(found[group.group.label] for group in plan.groups), bits)


def first_value(
    plan: Plan, found: Mapping[str, NoisyGroup], first: ProjectNode, evaluate: Evaluate
) -> tuple[int | None, ...]:
    """Return a noisy row as rows are compared with it: on its grid, NULL where there is none."""
    groups = tuple(group for group in plan.groups if group.group.label in _groups_below(first))
    numbers = NoisyResult(tuple(found[group.group.label] for group in groups), 0)
    names = tuple(item.name for item in first.items)
    shown = replace(plan.private, outcome=first, names=names, days=frozenset())
    columns = answer(replace(plan, private=shown, groups=groups, tables=(), hierarchies=()), numbers, evaluate).columns
    return tuple(
        _in_steps(column[0] if column else None, item.scalar.facts)
        for column, item in zip(columns, first.items, strict=True)
    )


def value_notes(plan: Plan, noisy: NoisyResult, evaluate: Evaluate) -> Iterator[Note]:
    """Say which noisy values rows were compared with."""
    found = {group.group.label: numbers for group, numbers in zip(plan.groups, noisy.groups, strict=True)}
    for first in plan.private.first:
        for item, steps in zip(first.items, first_value(plan, found, first, evaluate), strict=True):
            facts = item.scalar.facts
            exact = replace(facts, kind=Kind.INTEGER, step=NOISY_VALUE_STEP) if facts.kind is Kind.REAL else facts
            value = decode(steps, exact)
            shown = "NULL" if value is None else f"{value:,.10g}" if isinstance(value, float) else f"{value}"
            yield Note(NoteRank.MEANING, f"{COMPARED_VALUE} {shown}.")


def _in_steps(value: EngineValue, facts: Facts) -> int | None:
    if not isinstance(value, int | float):
        return None
    steps = round(Fraction(value) / NOISY_VALUE_STEP) if facts.kind is Kind.REAL else int(value)
    return max(-MAX_NOISY_VALUE_STEPS, min(MAX_NOISY_VALUE_STEPS, steps))


def _ready(groups: tuple[GroupPlan, ...], bound: Bound) -> tuple[GroupPlan, ...]:
    return tuple(group for group in groups if {given.label for given in noisy_tables(group.group.rows)} <= bound.keys())


def _groups_below(first: ProjectNode) -> set[str]:
    return {given.table for given in noisy_tables(first)}
