"""Rows that get more columns from other rows: windows over public and noisy rows, in one flow under one label.

Proof: proofs/lineage.md §9
"""

from dataclasses import replace
from fractions import Fraction

from sfumato.analysis.groups import own_measure
from sfumato.analysis.lineage import Analysed, UnitLineage, Visibility, is_unit_id
from sfumato.analysis.literal_rows import lower_plain_aggregate
from sfumato.analysis.used import Used
from sfumato.errors import UnsupportedSql, position_prefix
from sfumato.language.facts import MAX_INTERMEDIATE_STEPS, Facts, Kind, Outside
from sfumato.language.lowering import ScalarScope, lower
from sfumato.language.numbers import on_one_grid
from sfumato.language.outside import as_key
from sfumato.language.rel_nodes import (
    AggregateItem,
    Item,
    ProjectNode,
    WindowAggregate,
    WindowNode,
    WindowSpec,
    WindowValue,
)
from sfumato.language.scalar import Scalar, column, columns_read
from sfumato.query.aggregate import Aggregate
from sfumato.query.relation import Measure, Over, Window
from sfumato.query.types import NUMBERS, Type
from sfumato.query.windows import NUMBERING, SHARES, WindowCall, WindowFrame, WindowFunction

_MAX_TABLE_ROWS = 1 << 40
"""More rows than any table has."""


def analyse_window(relation: Window, source: Analysed, used: Used) -> Analysed:
    """Return rows with what windows say of them; windows over people's rows stay inside one person."""
    if isinstance(source.state, UnitLineage):
        return _inside_people(relation, source, source.state)
    plain = under_label(source, relation.label, used)
    values = tuple(_lower_window_value(value, plain.scope) for value in relation.values)
    flow = WindowNode(plain.flow, relation.label, values)
    new = {(relation.label, value.name): column(relation.label, value.name, value.facts) for value in values}
    origins = {relation.label: flow} if source.state is Visibility.PUBLIC else {}
    return replace(plain, flow=flow, scope={**plain.scope, **new}, origins=origins)


def _inside_people(relation: Window, source: Analysed, owned: UnitLineage) -> Analysed:
    """Return a person's rows with what windows over that person's rows say of them.

    Theorem: what is added to a row is a function of its owner's rows; no row becomes two. Proof: proofs/lineage.md §9
    """
    values = tuple(_own_value(value, source.scope, owned.rows) for value in relation.values)
    for value, over in zip(values, relation.values, strict=True):
        if not any(is_unit_id(part) for part in value.around.partition):
            raise UnsupportedSql(
                f"{position_prefix(over.at)}this window looks at the rows of several people.",
                "Its result would be used without noise.",
                f"Begin with PARTITION BY {owned.names[-1]}, or group the rows first.",
            )
    flow = WindowNode(source.flow, relation.label, values)
    new = {(relation.label, value.name): column(relation.label, value.name, value.facts) for value in values}
    numbers = {(relation.label, value.name) for value in values if _numbers_rows(value)}
    state = replace(owned, unique=owned.unique | numbers)
    return replace(source, flow=flow, scope={**source.scope, **new}, state=state)


def _own_value(value: Over, scope: ScalarScope, rows: int) -> WindowValue | WindowAggregate:
    """Return a window value over one person's rows, given their maximum number."""
    node = _lower_window_value(
        value, scope, own_measure(_over_measure(value), scope, rows) if _is_folded(value) else None
    )
    if isinstance(node, WindowAggregate):
        known = node.folded.facts
        least = min(0, known.low) if known.kind is Kind.INTEGER else known.low  # a frame may hold no row
        return replace(node, folded=replace(node.folded, facts=replace(known, low=least)))
    if node.call.function in SHARES:
        raise UnsupportedSql(
            f"{position_prefix(value.at)}{node.call.function} of one person's rows is not supported.",
            "Its result is not on a grid, so noise cannot be added.",
            "Use RANK and COUNT, which are whole numbers.",
        )
    if node.call.function in NUMBERING:
        return replace(node, facts=replace(node.facts, high=rows, declared_high=True))
    return node


def _is_folded(value: Over) -> bool:
    return isinstance(value.call, Aggregate)


def _over_measure(value: Over) -> Measure:
    if not isinstance(value.call, Aggregate):
        raise AssertionError("an aggregate over a window")
    return Measure(value.name, value.call, value.type, value.at)


def _numbers_rows(value: WindowValue | WindowAggregate) -> bool:
    """Whether no two rows of a person have the same number."""
    alone = all(is_unit_id(part) for part in value.around.partition)
    return isinstance(value, WindowValue) and value.call.function is WindowFunction.ROW_NUMBER and alone


def under_label(source: Analysed, label: str, used: Used) -> Analysed:
    """Return rows whose columns all have one label: a window then refers to them by one name."""
    known = {name: Item(f"{name[0]}.{name[1]}", scalar) for name, scalar in source.scope.items() if name in used}
    flow = ProjectNode(source.flow, label, tuple(known.values()))
    scope = {name: column(label, item.name, item.scalar.facts) for name, item in known.items()}
    return Analysed(flow, scope, source.state, origins={label: flow} if source.state is Visibility.PUBLIC else {})


def _lower_window_value(
    value: Over, scope: ScalarScope, own: AggregateItem | None = None
) -> WindowValue | WindowAggregate:
    sorting = tuple((lower(key.expression, scope), key.descending, key.nulls_first) for key in value.order)
    order = tuple(key for key in sorting if columns_read(key[0]))  # constants order nothing
    partition = tuple(as_key(lower(part, scope)) for part in value.partition)
    around = WindowSpec(
        tuple(part for part in partition if columns_read(part)),
        order,
        _in_steps(value, tuple(scalar for scalar, _, _ in sorting)) if order or value.frame.rows else WindowFrame(),
    )
    if isinstance(value.call, Aggregate):
        return WindowAggregate(lower_plain_aggregate(_over_measure(value), scope) if own is None else own, around)
    call = value.call.mapped(lambda part: lower(part, scope))
    if len(call.arguments) > 1 and value.type in NUMBERS:
        call = replace(call, arguments=on_one_grid(call.arguments))
    return WindowValue(value.name, call, _facts(call, value.type), around)


def _facts(call: WindowCall[Scalar], type: Type) -> Facts:
    if call.function in NUMBERING:
        return Facts(Type.INTEGER, Kind.INTEGER, False, Fraction(1), 1, _MAX_TABLE_ROWS, declared_high=False)
    if call.function in SHARES:
        return Facts(Type.DECIMAL, Kind.REAL, False)
    known = replace(call.arguments[0].facts, nullable=True, type=type, outside=Outside.NONE)
    for other in (argument.facts for argument in call.arguments[1:]):
        longest = (
            None if None in (known.max_chars, other.max_chars) else max(known.max_chars or 0, other.max_chars or 0)
        )
        known = replace(
            known,
            low=min(known.low, other.low),
            high=max(known.high, other.high),
            declared_low=known.declared_low and other.declared_low,
            declared_high=known.declared_high and other.declared_high,
            max_chars=longest,
        )
    return known


def _in_steps(value: Over, order: tuple[Scalar, ...]) -> WindowFrame:
    """Return the frame with its distances in steps of the sort key: as many whole ones as fit."""
    frame = value.frame
    if frame.rows or all(end in (None, 0) for end in (frame.start, frame.end)):
        return frame
    key = order[0].facts
    if key.kind is not Kind.INTEGER:
        raise UnsupportedSql(
            f"{position_prefix(value.at)}this RANGE is not supported.",
            "Distances must be exact, and the sort key is not on a grid.",
            "Sort by ROUND of the number, or use ROWS.",
        )
    ends = [None if end is None else _whole_steps(end, key) for end in (frame.start, frame.end)]
    if max(-key.low, key.high) + max(abs(end) for end in ends if end is not None) >= MAX_INTERMEDIATE_STEPS:
        raise UnsupportedSql(
            f"{position_prefix(value.at)}this RANGE is not supported.",
            "With these distances the sort key would exceed 128 bits.",
            "Narrow the key with LEAST and GREATEST, or use ROWS.",
        )
    return WindowFrame(False, ends[0], ends[1])


def _whole_steps(distance: Fraction, key: Facts) -> Fraction:
    """Return a distance in steps; beyond the span of the key all are alike, for no two values lie so far apart."""
    steps = Fraction(min(abs(distance) // key.step, key.span))
    return -steps if distance < 0 else steps
