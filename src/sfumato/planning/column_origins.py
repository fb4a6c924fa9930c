"""Where the columns of an answer come from: which columns of which noisy groups, as they are or computed with."""

from dataclasses import dataclass

from sfumato.analysis.private_query import PrivateQuery
from sfumato.language.rel_nodes import (
    FOUND,
    AggregateNode,
    InputNode,
    JoinNode,
    MarkJoinNode,
    MaterializedNode,
    ProjectNode,
    RelNode,
    ScanNode,
    UnionAllNode,
    WindowNode,
)
from sfumato.language.scalar import Operator, Scalar, columns_read
from sfumato.planning.aggregates.families import OutputColumn

GroupColumn = tuple[str, str]
"""The label of a group and the name of a column in it."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The columns of noisy groups that a value depends on; `plain` if it is one of them, unchanged."""

    sources: frozenset[GroupColumn]
    plain: bool = False


_NOWHERE = Origin(frozenset())


def origins(private: PrivateQuery) -> tuple[Origin, ...]:
    """Return the origin of each column of the answer."""
    known = _known(private.outcome.source)
    return tuple(_origin(item.scalar, known) for item in private.outcome.items)


def shown_unchanged(origin: Origin, derived: dict[GroupColumn, OutputColumn]) -> GroupColumn | None:
    """Return the count or sum that a column shows as it is, if it does: its margin follows from the noise alone."""
    if not origin.plain:
        return None
    (source,) = origin.sources
    one = derived.get(source)
    return source if one is not None and one.plain is not None else None


def plain_origin(scalar: Scalar, flow: RelNode) -> GroupColumn | None:
    """Return the column of a noisy group that a scalar over a flow is, unchanged; None where it is none."""
    origin = _origin(scalar, _known(flow))
    return next(iter(origin.sources)) if origin.plain else None


def _known(flow: RelNode) -> dict[GroupColumn, Origin]:
    match flow:
        case ScanNode() | MaterializedNode():
            return {}
        case InputNode(label, given, None):
            return {(label, name): Origin(frozenset({(flow.table, name)}), plain=True) for name, _ in given}
        case InputNode():
            return {}
        case JoinNode(_, left, right):
            return _known(left) | _known(right)
        case ProjectNode(source, label, items):
            known = _known(source)
            return {(label, item.name): _origin(item.scalar, known) for item in items}
        case AggregateNode(source, label, keys, measures):
            known = _known(source)
            everything = _together(known)
            return {
                **{(label, key.name): _origin(key.scalar, known) for key in keys},
                **{(label, measure.name): everything for measure in measures},
            }
        case WindowNode(source, label, values):
            known = _known(source)
            return {**known, **{(label, value.name): _together(known) for value in values}}
        case UnionAllNode(left, right):
            one, other = _known(left), _known(right)
            return {name: Origin(one[name].sources | other[name].sources) for name in one}
        case MarkJoinNode(left, right, label):
            known = _known(left)
            return {**known, (label, FOUND): _together(known | _known(right))}
        case _:
            return _known(flow.source)


def _together(known: dict[GroupColumn, Origin]) -> Origin:
    return Origin(frozenset(column for origin in known.values() for column in origin.sources))


def _origin(scalar: Scalar, known: dict[GroupColumn, Origin]) -> Origin:
    found = [known.get(column, _NOWHERE) for column in sorted(columns_read(scalar))]
    if scalar.operator is Operator.COLUMN:
        return found[0]
    return Origin(frozenset(source for origin in found for source in origin.sources))
