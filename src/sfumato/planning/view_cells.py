"""Which cells of a kept group add up to each cell of another question about the same rows.

Theorem: where `cells_of` returns places for a cell, every row of that cell is in exactly one of the kept cells at these
places, and no other row is in any of them.  Proof: proofs/views.md
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from sfumato.analysis.private_query import Absent, Cell, Group, Key, KeyValue
from sfumato.language.facts import Facts, Kind, Outside
from sfumato.language.rel_nodes import InputNode, Item, ProjectNode, RelNode
from sfumato.language.scalar import Operator, Scalar, columns_read
from sfumato.planning.canonical_flow import LEAF, CanonicalFlow
from sfumato.planning.view_signature import is_complete, key_token

EvaluateFlow = Callable[[RelNode, Mapping[str, Mapping[str, Any]]], list[list[Any]]]
"""Computes a flow over tables that are given by label and column name."""

MAX_LEAF_VALUES = 20_000
"""Maximum number of values of one column that are tried."""
_NOWHERE = object()
"""A row that is in none of the measured cells, or not among the rows that are asked for."""


@dataclass(frozen=True, slots=True)
class GroupRows:
    """A group and the canonical form of its rows."""

    group: Group
    flow: CanonicalFlow


def cells_of(
    asked: GroupRows, view: GroupRows, keys: Sequence[tuple[KeyValue, ...]], evaluate: EvaluateFlow
) -> list[list[int]] | None:
    """Return for each cell of a question the places among `keys`, the kept cells, that add up to it; None if none do.

    The rows of both are the same before their last conditions, and the view has no condition that the question lacks.
    """
    found = _Leaves.of(asked, view)
    if found is None:
        return None
    maps = []
    for leaf in found.by_leaf:
        mapping = found.mapped(leaf, evaluate)
        if mapping is None:
            return None
        maps.append(mapping)
    cells = {cell: index for index, cell in enumerate(product(*(key.cells or () for key in asked.group.keys)))}
    places: list[list[int]] = [[] for _ in cells]
    for index, cell in enumerate(keys):
        value: dict[int, Cell] = {}
        for mapping in maps:
            to = mapping.table.get(tuple(cell[at] for at in mapping.view_keys), _NOWHERE)
            if not isinstance(to, tuple):
                break
            value.update(zip(mapping.asked_keys, to, strict=True))
        else:
            places[cells[tuple(value[at] for at in range(len(asked.group.keys)))]].append(index)
    return places


@dataclass(frozen=True, slots=True)
class _LeafMap:
    """Where the values of some kept keys go: to values of the asked keys, or nowhere."""

    view_keys: tuple[int, ...]
    asked_keys: tuple[int, ...]
    table: Mapping[tuple[KeyValue, ...], object]


@dataclass(frozen=True, slots=True)
class _Leaf:
    """What is computed from one column of a table: kept keys, asked keys, and conditions that the view lacks."""

    view_keys: tuple[int, ...]
    asked_keys: tuple[int, ...]
    conditions: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class _Leaves:
    asked: GroupRows
    view: GroupRows
    by_leaf: Mapping[str, _Leaf]
    asked_scalars: Mapping[int, Scalar]
    view_scalars: Mapping[int, Scalar]

    @classmethod
    def of(cls, asked: GroupRows, view: GroupRows) -> "_Leaves | None":
        """Sort keys and conditions by the one column that each reads; None where one reads none, or several."""
        if not set(view.flow.conditions) <= set(asked.flow.conditions):
            return None
        conditions = [
            asked.flow.expanded(*made)
            for token, made in asked.flow.conditions.items()
            if token not in view.flow.conditions
        ]
        asked_scalars = [asked.flow.expanded(key.scalar) for key in asked.group.keys]
        view_scalars = [view.flow.expanded(key.scalar) for key in view.group.keys]
        leaves = [[_leaf(one) for one in some] for some in (view_scalars, asked_scalars, conditions)]
        if any(leaf is None for some in leaves for leaf in some) or not {*leaves[1], *leaves[2]} <= {*leaves[0]}:
            return None
        by_leaf = {
            leaf: _Leaf(
                tuple(at for at, one in enumerate(leaves[0]) if one == leaf),
                tuple(at for at, one in enumerate(leaves[1]) if one == leaf),
                tuple(made for made, one in zip(conditions, leaves[2], strict=True) if one == leaf and made),
            )
            for leaf in dict.fromkeys(leaves[0])
            if leaf is not None
        }
        return cls(
            asked,
            view,
            by_leaf,
            {at: asked_scalar for at, asked_scalar in enumerate(asked_scalars) if asked_scalar},
            {at: view_scalar for at, view_scalar in enumerate(view_scalars) if view_scalar},
        )

    def mapped(self, leaf: str, evaluate: EvaluateFlow) -> _LeafMap | None:
        """Return where the kept values of one column go; None where a kept cell has rows on both sides."""
        parts = self.by_leaf[leaf]
        keys = [self.view.group.keys[at] for at in parts.view_keys]
        if not parts.conditions and not parts.asked_keys:  # summed up: every row must be in some cell
            if not all(map(is_complete, keys)):
                return None
            every = product(*(key.measured_values for key in keys))
            return _LeafMap(parts.view_keys, (), dict.fromkeys(every, ()))
        return self._as_it_is(parts, keys) or self._tried(leaf, parts, keys, evaluate)

    def _as_it_is(self, parts: _Leaf, keys: Sequence[Key]) -> _LeafMap | None:
        """Return the map of one key that both have, without a condition on its column."""
        if parts.conditions or len(keys) != 1 or len(parts.asked_keys) != 1:
            return None
        wanted = self.asked.group.keys[parts.asked_keys[0]]
        if key_token(wanted, self.asked.flow) != key_token(keys[0], self.view.flow):
            return None
        if not set(wanted.cells or ()) <= set(keys[0].cells or ()):
            return None
        return _LeafMap(parts.view_keys, parts.asked_keys, {(cell,): (cell,) for cell in wanted.cells or ()})

    def _tried(self, leaf: str, parts: _Leaf, keys: Sequence[Key], evaluate: EvaluateFlow) -> _LeafMap | None:
        """Return the map that follows from all values that the column can have."""
        values = self._values(leaf, parts)
        if values is None:
            return None
        domain, facts = values
        scalars = [
            *(self.view_scalars[at] for at in parts.view_keys),
            *(self.asked_scalars[at] for at in parts.asked_keys),
            *parts.conditions,
        ]
        given = InputNode(LEAF, ((leaf, facts),), None)
        items = tuple(Item(f"c{at}", scalar) for at, scalar in enumerate(scalars))
        columns = evaluate(ProjectNode(given, "tried", items), {LEAF: {leaf: domain}})
        table: dict[tuple[KeyValue, ...], object] = {}
        wanted = [frozenset(self.asked.group.keys[at].cells or ()) for at in parts.asked_keys]
        known = [frozenset(key.cells or ()) for key in keys]
        for row in zip(*columns, strict=True):
            kept, rest, met = row[: len(keys)], row[len(keys) :][: len(wanted)], row[len(keys) + len(wanted) :]
            shown = all(value in cells for value, cells in zip(rest, wanted, strict=True))
            to: object = rest if shown and all(one is True for one in met) else _NOWHERE
            cell = tuple(_measured(*one) for one in zip(kept, keys, known, strict=True))
            if _NOWHERE in cell:
                if to is not _NOWHERE:
                    return None  # a row that is asked for was not measured
            elif table.setdefault(cell, to) != to:
                return None  # one kept cell has rows of two asked ones
        return _LeafMap(parts.view_keys, parts.asked_keys, table)

    def _values(self, leaf: str, parts: _Leaf) -> tuple[list[Any], Facts] | None:
        """Return every value that a column can have, with its facts; None where they are not public, or too many."""
        scalars = [self.view_scalars[at] for at in parts.view_keys]
        facts = _leaf_facts(scalars[0])
        match facts.kind:
            case Kind.BOOLEAN:
                return [True, False, None], facts
            case Kind.INTEGER if facts.bounded and facts.span <= MAX_LEAF_VALUES:
                beyond = 1 if facts.outside is Outside.STORED else 0
                low, high = facts.low - beyond, facts.high + beyond
                wider = replace(facts, low=low, high=high, outside=Outside.NONE, nullable=True)
                return [*range(low, high + 1), None], wider
            case Kind.TEXT:
                scalars += [*(self.asked_scalars[at] for at in parts.asked_keys), *parts.conditions]
                if not all(map(_compares_with_constants, scalars)):
                    return None
                keys = [self.view.group.keys[at] for at in parts.view_keys]
                keys += [self.asked.group.keys[at] for at in parts.asked_keys]
                texts = {str(cell) for key in keys for cell in key.cells or ()} | _constants(scalars)
                return [*sorted(texts), _other(texts), None], replace(facts, max_chars=None)
        return None


def _measured(value: Any, key: Key, cells: frozenset[Cell]) -> Any:
    """Return the measured cell of a value of a key."""
    if value is not None and value in cells:
        return value
    if value is None and key.null_is_apart:
        return Absent.NULL
    return None if key.has_remainder else _NOWHERE


def _leaf(scalar: Scalar | None) -> str | None:
    """Return the one column that an expanded scalar reads; None where it reads none, or several."""
    names = set() if scalar is None else {name for _, name in columns_read(scalar)}
    return names.pop() if len(names) == 1 else None


_COMPARING = frozenset({Operator.EQUAL, Operator.DIFFERENT, Operator.DISTINCT_FROM, Operator.IN, Operator.IS_NULL})


def _compares_with_constants(scalar: Scalar) -> bool:
    """Whether a scalar is a column, or only asks of it whether it equals constants: all other texts are alike then."""
    if scalar.operator is Operator.COLUMN:
        return True
    waiting = [scalar]
    while waiting:
        part = waiting.pop()
        if part.operator is Operator.COLUMN:
            return False
        direct = [argument for argument in part.arguments if argument.operator is Operator.COLUMN]
        others = [argument for argument in part.arguments if argument.operator is not Operator.COLUMN]
        if direct and (
            part.operator not in _COMPARING or any(other.operator is not Operator.CONSTANT for other in others)
        ):
            return False
        waiting.extend(others)
    return True


def _constants(scalars: Sequence[Scalar]) -> set[str]:
    """Return all texts that scalars name."""
    found: set[str] = set()
    waiting = list(scalars)
    while waiting:
        part = waiting.pop()
        if isinstance(part.constant, str):
            found.add(part.constant)
        waiting.extend(part.arguments)
    return found


def _other(texts: set[str]) -> str:
    """Return a text that is none of these."""
    other = "other"
    while other in texts:
        other += "s"
    return other


def _leaf_facts(scalar: Scalar) -> Facts:
    waiting = [scalar]
    while waiting:
        part = waiting.pop()
        if part.operator is Operator.COLUMN:
            return part.facts
        waiting.extend(part.arguments)
    raise AssertionError("a key reads a column")
