"""Keys that are selected in rounds: each round counts people in keys that no round before it has found.

Between two rounds stand released keys alone. The keys that a statement leaves out are a function of them.
Proof: proofs/key_rounds.md
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from sfumato.analysis.private_query import Key, KeyValue
from sfumato.engines.engine import PlannedStatement
from sfumato.language.facts import Facts, Outside
from sfumato.language.lower_logic import all_true, compare_scalars
from sfumato.language.rel_nodes import FOUND, FOUND_FACTS, FilterNode, InputNode, MarkJoinNode, RelNode
from sfumato.language.scalar import Operator, Scalar, column
from sfumato.mechanisms.key_rounds import KeyRounds
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.release.noisy import NoisyGroup, NoisyResult

ReleasedKeys = Sequence[tuple[KeyValue, ...]]

MAX_LEFT_OUT_CHARS = 250_000
"""Maximum number of characters of all keys that a statement leaves out; other keys are counted again."""
_CHARS_PER_KEY = 24
"""Characters that a statement needs for a key beside its text, and more than an integer has."""
_MAX_INTEGER = 1 << 62
_FOUND_KEYS, _FOUND_BEFORE = '"found keys"', '"found before"'
"""Labels of the flow. No name of a query or policy holds a quotation mark."""


def add_later_rounds(plan: Plan, noisy: NoisyResult, run: Callable[[Plan], NoisyResult]) -> NoisyResult:
    """Return noisy groups with the keys of later rounds; `run` reads and publishes one round of one group.

    Theorem: for each set of keys that earlier rounds may have released, a round is its own selection, over rows of
    which one person has as many keys at most as before. So all rounds are the event of the plan.
    Proof: proofs/key_rounds.md
    """
    groups, bits = [], noisy.bits
    for group, first in zip(plan.groups, noisy.groups, strict=True):
        found = first
        for later in _later_rounds(group):
            more = run(replace(plan, groups=(_without(later, found.keys),), tables=()))
            found = NoisyGroup(tuple(sorted({*found.keys, *more.groups[0].keys})), found.columns)
            bits += more.bits
        groups.append(found)
    return NoisyResult(tuple(groups), bits)


def later_statements(plan: Plan, planned: Callable[[Plan], Sequence[PlannedStatement]]) -> tuple[PlannedStatement, ...]:
    """Return the statements of later rounds, for the data owner; the keys that they leave out are not known yet."""
    stages = (
        replace(plan, groups=(_without(later, ()),), tables=())
        for group in plan.groups
        for later in _later_rounds(group)
    )
    return tuple(
        PlannedStatement(f"{statement.purpose} again, without the keys that were found", statement.sql)
        for stage in stages
        for statement in planned(stage)
    )


def _later_rounds(group: GroupPlan) -> list[GroupPlan]:
    if not isinstance(group.selection, KeyRounds):
        return []
    return [replace(group, selection=later) for later in group.selection.rounds[1:]]


def _without(group: GroupPlan, found: ReleasedKeys) -> GroupPlan:
    """Return the group over those of its rows that have none of these keys."""
    rows = _rows_without(group.group.rows, group.group.keys, _spelled(found))
    return replace(group, group=replace(group.group, rows=rows))


def _rows_without(rows: RelNode, keys: Sequence[Key], found: ReleasedKeys) -> RelNode:
    """Return the rows whose keys are not among these; a row with a NULL among its keys stays, and is in no cell."""
    columns = tuple((f"k{index}", _known(key.scalar)) for index, key in enumerate(keys))
    given = InputNode(_FOUND_KEYS, columns, tuple(tuple(map(_constant, key)) for key in found))
    same = [
        compare_scalars(Operator.EQUAL, key.scalar, column(_FOUND_KEYS, name, facts))
        for key, (name, facts) in zip(keys, columns, strict=True)
    ]
    marked = MarkJoinNode(rows, given, _FOUND_BEFORE, all_true(same))
    return FilterNode(marked, Scalar(Operator.NOT, (column(_FOUND_BEFORE, FOUND, FOUND_FACTS),), FOUND_FACTS))


def _known(key: Scalar) -> Facts:
    return replace(key.facts, nullable=False, outside=Outside.NONE)


def _constant(value: KeyValue) -> int | str:
    if not isinstance(value, int | str):
        raise AssertionError("only integers and texts are left out")
    return value


def _spelled(found: ReleasedKeys) -> ReleasedKeys:
    """Return those keys that a statement can spell, up to its length: a function of what has been released."""
    listed, chars = [], 0
    for key in found:
        if not all(map(_is_plain, key)):
            continue
        chars += sum(len(value) if isinstance(value, str) else 0 for value in key) + _CHARS_PER_KEY * (len(key) + 1)
        if chars > MAX_LEFT_OUT_CHARS:
            break
        listed.append(key)
    return listed


def _is_plain(value: KeyValue) -> bool:
    """Whether each engine reads a constant as it is written: a small integer, or a text of printed characters."""
    if isinstance(value, str):
        return value.isprintable()
    return type(value) is int and abs(value) < _MAX_INTEGER
