"""Rows that get more columns from other rows: windows over public and noisy rows, in one flow under one label.

Proof: proofs/lineage.md §9
"""

from dataclasses import replace
from fractions import Fraction

from sfumato.analysis.lineage import Analysed, Owned, Visibility
from sfumato.analysis.used import Used
from sfumato.analysis.written import folded
from sfumato.errors import UnsupportedSql, at
from sfumato.language.facts import Facts, Kind
from sfumato.language.flow import Around, Item, Overlaid, Positioned, Show, Windowed
from sfumato.language.lowering import Scope, lower
from sfumato.language.numbers import on_one_grid
from sfumato.language.scalar import Scalar, column, columns
from sfumato.query.aggregate import Aggregate
from sfumato.query.relation import Measure, Over, Window
from sfumato.query.types import NUMBERS, Type
from sfumato.query.windows import NUMBERING, SHARES, WindowCall, WindowFrame

_ROWS = 1 << 40
"""More rows than any table has."""


def windowed(relation: Window, source: Analysed, used: Used) -> Analysed:
    """Return public or noisy rows with what windows say of them; rows of people are refused."""
    if isinstance(source.state, Owned):
        raise UnsupportedSql(
            f"{at(relation.at)}a window over people's rows is not supported.",
            "It looks at single rows, which no noise can protect.",
            "Group the rows first; a window over the groups is computed from the answer, for free.",
        )
    plain = under_label(source, relation.label, used)
    values = tuple(_lowered(value, plain.scope) for value in relation.values)
    flow = Windowed(plain.flow, relation.label, values)
    new = {(relation.label, value.name): column(relation.label, value.name, value.facts) for value in values}
    origins = {relation.label: flow} if source.state is Visibility.PUBLIC else {}
    return replace(plain, flow=flow, scope={**plain.scope, **new}, origins=origins)


def under_label(source: Analysed, label: str, used: Used) -> Analysed:
    """Return rows whose columns all have one label: whoever follows them from row to row needs one name for them."""
    known = {name: Item(f"{name[0]}.{name[1]}", scalar) for name, scalar in source.scope.items() if name in used}
    flow = Show(source.flow, label, tuple(known.values()))
    scope = {name: column(label, item.name, item.scalar.facts) for name, item in known.items()}
    return Analysed(flow, scope, source.state, origins={label: flow} if source.state is Visibility.PUBLIC else {})


def _lowered(value: Over, scope: Scope) -> Positioned | Overlaid:
    sorting = tuple((lower(key.expression, scope), key.descending, key.nulls_first) for key in value.order)
    order = tuple(key for key in sorting if columns(key[0]))  # what is the same everywhere puts nothing in order
    partition = tuple(lower(part, scope) for part in value.partition)
    around = Around(
        tuple(part for part in partition if columns(part)),
        order,
        _in_steps(value, tuple(scalar for scalar, _, _ in sorting)) if order or value.frame.rows else WindowFrame(),
    )
    if isinstance(value.call, Aggregate):
        return Overlaid(folded(Measure(value.name, value.call, value.type, value.at), scope), around)
    call = value.call.mapped(lambda part: lower(part, scope))
    if len(call.arguments) > 1 and value.type in NUMBERS:
        call = replace(call, arguments=on_one_grid(call.arguments))
    return Positioned(value.name, call, _facts(call, value.type), around)


def _facts(call: WindowCall[Scalar], type: Type) -> Facts:
    if call.function in NUMBERING:
        return Facts(Type.INTEGER, Kind.INTEGER, False, Fraction(1), 1, _ROWS, declared_high=False)
    if call.function in SHARES:
        return Facts(Type.DECIMAL, Kind.REAL, False)
    known = replace(call.arguments[0].facts, nullable=True, type=type)
    for other in (argument.facts for argument in call.arguments[1:]):
        longest = None if None in (known.longest, other.longest) else max(known.longest or 0, other.longest or 0)
        known = replace(
            known,
            low=min(known.low, other.low),
            high=max(known.high, other.high),
            declared_low=known.declared_low and other.declared_low,
            declared_high=known.declared_high and other.declared_high,
            longest=longest,
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
            f"{at(value.at)}this RANGE is not supported.",
            "Distances are exact, and its sort key is on no grid.",
            "Sort by ROUND of the number, or use ROWS.",
        )
    ends = [None if end is None else _whole_steps(end, key.step) for end in (frame.start, frame.end)]
    return WindowFrame(False, ends[0], ends[1])


def _whole_steps(distance: Fraction, step: Fraction) -> Fraction:
    steps = Fraction(abs(distance) // step)
    return -steps if distance < 0 else steps
