"""The canonical identity of the rows below a group: labels, names, order of conditions and unused columns are gone.

A column has a token: the digest of how it is computed from the tables. Two flows with one text have the same rows, and
two columns with one token the same values in them. Proof: proofs/measurement_identity.md
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import cache
from hashlib import sha256
from typing import Any

from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import (
    FOUND,
    RANK,
    AggregateNode,
    FilterNode,
    InputNode,
    Item,
    JoinNode,
    LimitNode,
    MarkJoinNode,
    MaterializedNode,
    ProjectNode,
    RelNode,
    ScanNode,
    SortKeys,
    SortNode,
    UnionAllNode,
    WindowAggregate,
    WindowNode,
    WindowValue,
)
from sfumato.language.scalar import Constant, Operator, Scalar, address, column
from sfumato.query.aggregate import Aggregate

Tokens = Mapping[tuple[str, str], str]
"""The token of each column that can be used above a flow, by label and name."""

# The order of these arguments does not matter: expressions are total, so no argument guards another.
_COMMUTATIVE = frozenset(
    {Operator.ADD, Operator.MULTIPLY, Operator.EQUAL, Operator.DIFFERENT, Operator.DISTINCT_FROM}
    | {Operator.AND, Operator.OR, Operator.LEAST, Operator.GREATEST}
)
_IDEMPOTENT = frozenset({Operator.AND, Operator.OR, Operator.LEAST, Operator.GREATEST})


class NoisyInputError(Exception):
    """A flow reads a noisy table, so that its rows are not a function of the snapshot."""


_ENCODER = json.JSONEncoder(separators=(",", ":"))


def digest(content: object) -> str:
    """Return the SHA-256 of JSON content: no text inside it can imitate another structure."""
    return sha256(_ENCODER.encode(content).encode()).hexdigest()


LEAF = "leaf"
"""The label of the columns that an expanded scalar reads; each is named by its token."""
_MAX_EXPANDED_PARTS = 500
"""Maximum number of parts of an expanded scalar: what subqueries nest could grow without end."""


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    if not is_dataclass(kind):
        raise AssertionError(f"{kind.__name__} has no canonical text")
    return tuple(field.name for field in fields(kind))


class CanonicalFlow:
    """The identity of one flow: `rows` is the digest of its rows; scalars and aggregates over it have tokens.

    `unfiltered` is the digest of the rows before the last conditions, and `conditions` has these by their tokens, each
    with the columns that it can use.
    """

    def __init__(self, flow: RelNode) -> None:
        self._leaves = 0
        self._known: dict[Scalar, str] = {}
        self._made_of: dict[str, tuple[Scalar, Tokens]] = {}
        self._filters: dict[str, tuple[Scalar, Tokens]] = {}
        text, self._tokens = self._flow(flow)
        self._known = {}
        self.rows = digest(text)
        last, below = (text[1], text[2]) if isinstance(text, list) and text[0] == "filter" else ([], text)
        self.unfiltered = digest(below)
        self.conditions = {token: self._filters[token] for token in last}

    def expanded(self, scalar: Scalar, tokens: Tokens | None = None) -> Scalar | None:
        """Return a scalar over the columns of tables alone, named by their tokens; None where it has too many parts."""
        try:
            return self._expanded(scalar, self._tokens if tokens is None else tokens, [0])
        except OverflowError:
            return None

    def _expanded(self, scalar: Scalar, tokens: Tokens, parts: list[int]) -> Scalar:
        parts[0] += 1
        if parts[0] > _MAX_EXPANDED_PARTS:
            raise OverflowError
        if (ref := address(scalar)) is not None:
            made = self._made_of.get(tokens[ref])
            if made is None:
                return column(LEAF, tokens[ref], scalar.facts)
            return self._expanded(*made, parts)
        return replace(scalar, arguments=tuple(self._expanded(part, tokens, parts) for part in scalar.arguments))

    def scalar(self, scalar: Scalar) -> str:
        """Return the token of a scalar over the rows."""
        return self._scalar(scalar, self._tokens, self._known)

    def data(self, thing: object) -> object:
        """Return plain data as JSON, with the tokens of scalars and aggregates in it."""
        match thing:
            case Scalar():
                return [self.scalar(thing), *range_of(thing.facts)]
            case Fraction():
                return str(thing)
            case Aggregate():
                return self._aggregate(thing, self._tokens, self._known)
            case Enum():
                return [type(thing).__name__, str(thing.value)]
            case float() | int() | str() | bool() | None:
                return constant_data(thing)
            case tuple() | list():
                return [self.data(part) for part in thing]
        kind: Any = type(thing)
        return [kind.__name__, *[self.data(getattr(thing, name)) for name in _field_names(kind)]]

    def _flow(self, flow: RelNode) -> tuple[object, Tokens]:
        match flow:
            case ScanNode():
                leaf = self._leaf()
                kept = [flow.table, flow.max_rows_per_unit, sorted(flow.unique), flow.one_row_per_unit]
                chosen = [flow.rows_chosen, sorted([name, most] for name, most in flow.totals)]
                chosen += ["groups"] if flow.groups_chosen else []
                stored_names = {name: stored for name, stored, _ in flow.columns} | {RANK: RANK}
                return ["scan", leaf, *kept, *chosen], {
                    (flow.label, name): digest(["column", leaf, stored]) for name, stored in stored_names.items()
                }
            case InputNode(label, columns, rows):
                if rows is None:
                    raise NoisyInputError
                leaf = self._leaf()
                written = [[constant_data(value) for value in row] for row in rows]
                return ["values", leaf, written], {
                    (label, name): digest(["value", leaf, index]) for index, (name, _) in enumerate(columns)
                }
            case MaterializedNode(source, label, columns, keys, most):
                below, tokens = self._flow(source)
                leaf, public = self._leaf(), dict[Scalar, str]()
                own = {item.name: self._scalar(item.scalar, tokens, public) for item in columns}
                agreeing = sorted(self._scalar(key, tokens, public) for key in keys)
                return ["kept", leaf, digest(below), sorted(set(own.values())), agreeing, most], {
                    (label, name): digest(["public", leaf, token]) for name, token in (own | {RANK: RANK}).items()
                }
            case FilterNode():
                return self._filtered(flow)
            case ProjectNode(source, label, items):
                below, tokens = self._flow(source)
                return below, self._named(label, items, tokens)
            case JoinNode(kind, left, right, condition):
                (first, left_tokens), (second, right_tokens) = self._flow(left), self._flow(right)
                tokens = {**left_tokens, **right_tokens}
                met = [] if condition is None else self._conditions(condition, tokens)
                return ["join", str(kind), met, first, second], tokens
            case AggregateNode(source, label, keys, measures):
                below, tokens = self._flow(source)
                known: dict[Scalar, str] = {}
                by = {key.name: self._scalar(key.scalar, tokens, known) for key in keys}
                text = ["per", sorted(set(by.values())), below]
                node = digest(text)
                found = {(label, name): digest(["key", node, token]) for name, token in by.items()}
                for measure in measures:
                    made = self._aggregate(measure.aggregate, tokens, known)
                    found[label, measure.name] = digest(["of", node, made, *range_of(measure.facts)])
                return text, found
            case SortNode(source, keys):
                below, tokens = self._flow(source)
                return ["sort", self._order(keys, tokens), below], tokens
            case LimitNode(source, count, offset):
                below, tokens = self._flow(source)
                return ["limit", count, offset, below], tokens
            case WindowNode(source, label, values):
                below, tokens = self._flow(source)
                seen = digest(below)
                found = {(label, value.name): digest(["window", seen, self._window(value, tokens)]) for value in values}
                return below, {**tokens, **found}
            case UnionAllNode(left, right, label):
                sides = []
                for side in (left, right):
                    below, tokens = self._flow(side)
                    sides.append([[tokens[side.label, item.name] for item in side.items], below])
                leaf = self._leaf()
                return ["both", leaf, *sides], {
                    (label, item.name): digest(["either", leaf, index]) for index, item in enumerate(left.items)
                }
            case MarkJoinNode(left, right, label, condition):
                (first, left_tokens), (second, right_tokens) = self._flow(left), self._flow(right)
                met = [] if condition is None else self._conditions(condition, {**left_tokens, **right_tokens})
                return first, {**left_tokens, (label, FOUND): digest(["found", met, digest(second)])}

    def _leaf(self) -> int:
        self._leaves += 1
        return self._leaves

    def _filtered(self, flow: FilterNode) -> tuple[object, Tokens]:
        """Return the rows for which all conditions are true; filters directly above each other are one."""
        below, tokens = self._flow(flow.source)
        conditions = self._conditions(flow.condition, tokens)
        known: dict[Scalar, str] = {}
        self._filters |= {self._scalar(part, tokens, known): (part, tokens) for part in _conjuncts(flow.condition)}
        if isinstance(below, list) and below[0] == "filter":
            conditions, below = sorted({*conditions, *below[1]}), below[2]
        return (["filter", conditions, below] if conditions else below), tokens

    def _conditions(self, condition: Scalar, tokens: Tokens) -> list[str]:
        known: dict[Scalar, str] = {}
        return sorted({self._scalar(part, tokens, known) for part in _conjuncts(condition) if not is_true(part)})

    def _named(self, label: str, items: tuple[Item, ...], tokens: Tokens) -> Tokens:
        known: dict[Scalar, str] = {}
        return {(label, item.name): self._scalar(item.scalar, tokens, known) for item in items}

    def _window(self, value: WindowValue | WindowAggregate, tokens: Tokens) -> object:
        known: dict[Scalar, str] = {}
        around = value.around
        partition = sorted({self._scalar(part, tokens, known) for part in around.partition})
        frame = [around.frame.rows, str(around.frame.start), str(around.frame.end)]
        call = (
            self._aggregate(value.folded.aggregate, tokens, known)
            if isinstance(value, WindowAggregate)
            else [
                str(value.call.function),
                [self._scalar(part, tokens, known) for part in value.call.arguments],
                value.call.count,
            ]
        )
        return [call, partition, self._order(around.order, tokens), frame, *range_of(value.facts)]

    def _order(self, keys: SortKeys, tokens: Tokens) -> list[object]:
        known: dict[Scalar, str] = {}
        return [[self._scalar(key, tokens, known), descending, first] for key, descending, first in keys]

    def _aggregate(self, aggregate: Aggregate[Scalar], tokens: Tokens, known: dict[Scalar, str]) -> list[object]:
        arguments = [
            [self._scalar(argument, tokens, known), *range_of(argument.facts)] for argument in aggregate.arguments
        ]
        where = (
            None
            if aggregate.where is None
            else sorted(
                {self._scalar(part, tokens, known) for part in _conjuncts(aggregate.where) if not is_true(part)}
            )
        )
        return [
            str(aggregate.function),
            arguments,
            aggregate.distinct,
            where or None,
            [str(number) for number in aggregate.parameters],
        ]

    def _scalar(self, scalar: Scalar, tokens: Tokens, known: dict[Scalar, str]) -> str:
        found = known.get(scalar)
        if found is None:
            ref = address(scalar)
            found = known[scalar] = tokens[ref] if ref is not None else self._computed(scalar, tokens, known)
        return found

    def _computed(self, scalar: Scalar, tokens: Tokens, known: dict[Scalar, str]) -> str:
        arguments = [self._scalar(part, tokens, known) for part in scalar.arguments]
        if scalar.operator in _IDEMPOTENT:
            arguments = sorted(set(arguments))
            if len(arguments) == 1:
                return arguments[0]
        elif scalar.operator in _COMMUTATIVE:
            arguments = sorted(arguments)
        elif scalar.operator is Operator.IN:
            arguments = [arguments[0], *sorted(set(arguments[1:]))]
        kinds = sorted({str(part.facts.kind) for part in scalar.arguments})
        token = digest([str(scalar.operator), arguments, constant_data(scalar.constant), str(scalar.facts.kind), kinds])
        self._made_of.setdefault(token, (scalar, tokens))
        return token


def range_of(facts: Facts) -> list[object]:
    """Return what decides how a value is clipped, counted and shown: its grid and its range."""
    whole = facts.kind is Kind.INTEGER
    return [str(facts.kind), str(facts.step), *([str(facts.low), str(facts.high)] if whole else [facts.max_chars])]


def is_true(condition: Scalar) -> bool:
    """Whether a condition is true of every row, by its constants alone."""
    return _truth(condition) is True


def _truth(condition: Scalar) -> object:
    """Return the value of a condition on constants; Ellipsis where it depends on a row, or is not compared here."""
    match condition:
        case Scalar(Operator.CONSTANT, _, _, value):
            return value
        case Scalar(Operator.AND, parts):
            values = [_truth(part) for part in parts]
            return False if False in values else True if all(value is True for value in values) else ...
        case Scalar(Operator.OR, parts):
            return True if any(_truth(part) is True for part in parts) else ...
        case Scalar(Operator.NOT, (part,)):
            inner = _truth(part)
            return not inner if isinstance(inner, bool) else ...
        case Scalar(Operator.IS_NULL, (Scalar(Operator.CONSTANT, _, _, value),)):
            return value is None
        case Scalar(
            operator, (Scalar(Operator.CONSTANT, _, _, first) as left, Scalar(Operator.CONSTANT, _, _, second) as right)
        ) if left.facts.kind is right.facts.kind and type(first) is type(second):
            return _compared(operator, first, second)
    return ...


def _compared(operator: Operator, first: Constant, second: Constant) -> object:
    if not isinstance(first, int | str):
        return ...
    match operator:
        case Operator.EQUAL:
            return first == second
        case Operator.DIFFERENT | Operator.DISTINCT_FROM:
            return first != second
        case Operator.LESS if isinstance(first, int) and isinstance(second, int):
            return first < second
        case Operator.AT_MOST if isinstance(first, int) and isinstance(second, int):
            return first <= second
    return ...


def _conjuncts(condition: Scalar) -> Iterator[Scalar]:
    """Give the conditions that must all be true, without recursion."""
    waiting = [condition]
    while waiting:
        part = waiting.pop()
        if part.operator is Operator.AND:
            waiting.extend(part.arguments)
        else:
            yield part


def constant_data(value: object) -> object:
    """Return a constant as JSON: 1, 1.0, true and '1' are four."""
    match value:
        case None:
            return None
        case tuple():
            return [type(value).__name__, *map(constant_data, value)]
        case _:
            return [type(value).__name__, str(value)]
