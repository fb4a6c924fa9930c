"""What a group can be a view of: which rows its cells partition, by which columns, and which sums of them it measures.

It is a part of the text under which a charge is stored, so that charges are found whose cells add up to those of
another question. Proof: proofs/views.md
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.analysis.private_query import Group, Key
from sfumato.language.outside import bare, is_stored, read_outside
from sfumato.language.scalar import Operator, Scalar, columns_read
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.canonical_flow import CanonicalFlow, digest, range_of
from sfumato.planning.plan import GroupPlan
from sfumato.planning.shared_marginals import adds_up_by_cells, with_rest
from sfumato.query.functions import Aggregation

MAX_TRIED_QUANTITIES = 200
"""Maximum number of quantities that are tried to add up to another."""
TOKEN_CHARS = 24
"""Length of a digest inside a signature. A match by it is compared again in full."""

Terms = Mapping[str, int]
"""A measured quantity as a sum of plain sums and counts, each with its factor, by their tokens."""


@dataclass(frozen=True, slots=True)
class ViewSignature:
    """Which rows a group partitions (`base` before `conditions`), by which leaf columns, and what it adds up."""

    base: str
    conditions: frozenset[str]
    leaves: frozenset[str]
    """The columns of tables that its keys are computed from."""
    sums: tuple[Terms, ...]

    def data(self) -> list[object]:
        """Return it as JSON."""
        sums = sorted(sorted(total.items()) for total in self.sums)
        return [self.base, sorted(self.conditions), sorted(self.leaves), sums]


def signature_from(data: Any) -> ViewSignature | None:
    """Read what `data` returned; None for a group that is no view."""
    if data is None:
        return None
    base, conditions, leaves, sums = data
    return ViewSignature(base, frozenset(conditions), frozenset(leaves), tuple(dict(total) for total in sums))


def signature_of(plan: GroupPlan, flow: CanonicalFlow, words: str) -> ViewSignature | None:
    """Return what a group is a view of; None where its cells do not add up, or a column has a bound of its own."""
    group = plan.group
    if plan.selection is not None or plan.chosen or not plan.measured or not adds_up_by_cells(group):
        return None
    sums = list(measured_terms(plan, flow).values())
    leaves = [key_leaves(key, flow) for key in group.keys]
    if None in leaves or None in sums:
        return None
    return ViewSignature(
        base_of(group, flow, words),
        frozenset(token[:TOKEN_CHARS] for token in flow.conditions),
        frozenset(token[:TOKEN_CHARS] for found in leaves for token in found or ()),
        tuple(total for total in sums if total is not None),
    )


def base_of(group: Group, flow: CanonicalFlow, words: str) -> str:
    """Return the identity of the rows before the last conditions, under the policy's words about their tables."""
    return digest([words, flow.unfiltered, flow.data(group.unit), group.identity])


def key_token(key: Key, flow: CanonicalFlow) -> str:
    """Return the identity of a key; a column is the same key whether or not its outside values have a cell."""
    leaf = bare(key.scalar)
    return flow.scalar(leaf if is_stored(leaf) else key.scalar)


def key_leaves(key: Key, flow: CanonicalFlow) -> set[str] | None:
    """Return the columns of tables that a key is computed from, by their tokens; None where that is too long."""
    expanded = flow.expanded(key.scalar)
    return None if expanded is None else {name for _, name in columns_read(expanded)}


def is_complete(key: Key) -> bool:
    """Whether every row is in one of the measured cells of a key."""
    if key.null_is_apart:
        return key.has_remainder
    return key.has_remainder or not (read_outside(key.scalar) or with_rest(key).has_remainder)


def measured_terms(plan: GroupPlan, flow: CanonicalFlow) -> dict[str, Terms | None]:
    """Return every measurement of a group in terms of plain counts and sums; None for what has a bound of its own.

    A step is what it belongs to less what is inside that: proofs/disjoint_conditions.md, 4.
    """
    found = {
        measurement.name: None if measurement.bound is not None else linear_terms(measurement.quantity, flow)
        for measurement in plan.measured
    }
    for total in sorted(plan.sums, key=lambda one: len(one.steps)):  # from the inside
        (step, sign), *others = total.terms
        inside, own = [(found[name], each) for name, each in others], dict(linear_terms(total.quantity, flow) or {})
        for terms, each in inside:
            for name, times in (terms or {}).items():
                own[name] = own.get(name, 0) - each * times
        known = own and all(terms is not None for terms, _ in inside)
        found[step] = {name: sign * times for name, times in own.items() if times} if known else None
    return found


def linear_terms(quantity: Quantity, flow: CanonicalFlow) -> Terms | None:
    """Return a count or sum in terms of plain ones: the sum of x - c is that of x less c times its count."""
    if quantity.distinct or quantity.function not in {Aggregation.COUNT, Aggregation.SUM}:
        return None
    where = flow.data(quantity.where) if quantity.where is not None else None
    if quantity.function is Aggregation.COUNT:
        arguments = [flow.scalar(argument) for argument in quantity.arguments]
        return {_term("count", arguments, where): 1}
    (argument,) = quantity.arguments
    match argument:
        case Scalar(Operator.SUBTRACT, (inner, Scalar(Operator.CONSTANT, _, _, int() as offset))) if (
            inner.facts.step == argument.facts.step and inner.facts.kind is argument.facts.kind
        ):
            counted = [flow.scalar(inner)] if inner.facts.nullable else []
            return {_sum(inner, where, flow): 1, _term("count", counted, where): -offset}
    return {_sum(argument, where, flow): 1}


def combination(wanted: Terms, known: Sequence[Terms]) -> dict[int, int] | None:
    """Return which of several measured quantities, times which factors, add up to another; None where none do.

    >>> combination({"sum": 1}, [{"count": 1}, {"sum": 1, "count": -5}])
    {1: 1, 0: 5}
    >>> combination({"a": 1}, [{"a": 1, "b": -1}, {"b": 1, "c": -1}, {"c": 1}])
    {0: 1, 1: 1, 2: 1}
    """
    for index, terms in enumerate(known):
        if dict(terms) == dict(wanted):
            return {index: 1}
    for index, terms in enumerate(known):
        lacking = {
            name: wanted.get(name, 0) - terms.get(name, 0)
            for name in {*wanted, *terms}
            if wanted.get(name, 0) != terms.get(name, 0)
        }
        if len(lacking) == 1:
            ((name, times),) = lacking.items()
            for other, plain in enumerate(known):
                if dict(plain) == {name: 1}:
                    return {index: 1, other: times}
    return _chain(dict(wanted), known, frozenset(range(len(known))), [MAX_TRIED_QUANTITIES])


def _chain(
    wanted: Mapping[str, int], known: Sequence[Terms], unused: frozenset[int], tries: list[int]
) -> dict[int, int] | None:
    """Return which quantities add up to another, each used once: of a term, one that has it, and what then is left."""
    if not wanted:
        return {}
    name, times = min(wanted.items())
    for place in sorted(unused):
        own = known[place].get(name, 0)
        if not own or times % own or tries[0] <= 0:
            continue
        tries[0] -= 1
        factor = times // own
        left = {
            term: rest
            for term in {*wanted, *known[place]}
            if (rest := wanted.get(term, 0) - factor * known[place].get(term, 0))
        }
        if (found := _chain(left, known, unused - {place}, tries)) is not None:
            return {place: factor, **found}
    return None


def _sum(argument: Scalar, where: object, flow: CanonicalFlow) -> str:
    return _term("sum", [flow.scalar(argument), *range_of(argument.facts)], where)


def _term(function: str, arguments: Sequence[object], where: object) -> str:
    return digest([function, list(arguments), where])[:TOKEN_CHARS]
