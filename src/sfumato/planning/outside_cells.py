"""Values outside their bounds as a cell of their own: measured beside the groups, and told in a note.

Theorem: the cell is one more cell of the same disjoint partition of rows, so that measuring it moves no sensitivity
that is bounded by rows.  Proof: proofs/outside_bounds.md §3
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from sfumato.analysis.catalog import decode_literal
from sfumato.analysis.keys import MAX_GROUP_CELLS
from sfumato.analysis.private_query import Group, Key
from sfumato.language.facts import Kind
from sfumato.language.outside import bare, is_stored, read_outside, stored
from sfumato.language.rel_nodes import ProjectNode, RelNode, ScanNode, nodes
from sfumato.language.scalar import address, columns_read
from sfumato.planning.notes.note import Note, NoteRank
from sfumato.planning.plan import Plan
from sfumato.planning.shared_marginals import adds_up_by_cells, with_remainder, with_rest
from sfumato.query.expression import Value


def with_outside_cells(groups: Sequence[Group]) -> tuple[Group, ...]:
    """Return the only group with cells for the rows that are in no group, where all that it measures adds up.

    Values outside a key's bounds have one, and NULL has one, so that the cells add up to all rows.

    The measurements are a function of the groups alone: a limit, or anything else above the noise, changes nothing.
    """
    if len(groups) != 1 or not adds_up_by_cells(groups[0]):
        return tuple(groups)
    whole = with_remainder(groups[0], tuple(map(_with_outside, groups[0].keys)))
    return (whole if whole.cells <= MAX_GROUP_CELLS else groups[0],)


def outside_notes(plan: Plan) -> Iterator[Note]:
    """Say which keys leave out what lies outside their bounds, where no cell counts it."""
    for group in plan.groups:
        for key in group.group.keys:
            if read_outside(key.scalar) and not key.has_remainder:
                yield Note(NoteRank.LACK, outside_note(group.group, key, "rows"))


IN_NO_GROUP = "In no group:"
"""How a note begins on values outside the bounds of a key."""


def outside_note(group: Group, key: Key, rows: str) -> str:
    """Say that rows, and perhaps how many, are in no group because of a key."""
    leaf, names = bare(key.scalar), sorted(_columns(columns_read(key.scalar), group.rows))
    shown = " or ".join(f"`{name}`" for name in names)
    if not is_stored(leaf):
        return f"{IN_NO_GROUP} {rows} whose {shown} is NULL or lies outside its bounds."
    low, high = (decode_literal(end, leaf.facts) for end in (leaf.facts.low, leaf.facts.high))
    return f"{IN_NO_GROUP} {rows} whose {shown} lies outside {_spelled(low)} to {_spelled(high)}."


def _spelled(value: Value) -> str:
    return f"{float(value):.12g}" if isinstance(value, Fraction) else str(value)


def _columns(read: Iterable[tuple[str, str]], rows: RelNode) -> set[str]:
    """Return the columns of tables that some columns of a flow are computed from."""
    found, waiting, below = set(), list(read), list(nodes(rows))
    while waiting:
        label, name = waiting.pop()
        for node in below:
            if isinstance(node, ScanNode) and node.label == label:
                found.add(name)
            elif isinstance(node, ProjectNode) and node.label == label:
                waiting += [ref for item in node.items if item.name == name for ref in columns_read(item.scalar)]
    return found


def _with_outside(key: Key) -> Key:
    leaf = bare(key.scalar)
    if is_stored(leaf):
        return replace(key, scalar=stored(leaf), has_remainder=True, null_is_apart=leaf.facts.nullable)
    if read_outside(key.scalar):
        return replace(key, has_remainder=True)
    whole, facts = with_rest(key), key.scalar.facts
    apart = whole.has_remainder and facts.nullable and facts.kind is Kind.TEXT and address(key.scalar) is not None
    return replace(whole, null_is_apart=apart)
