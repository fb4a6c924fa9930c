"""How much of each measurement of a plan caps and bounds may have cut off, in steps: from what was published of it.

Theorem: the untruncated truth of a measurement lies in [measured - down, measured + up], but for the tail, if the tails
of the losses are regular.  Proof: proofs/truncation.md
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from math import inf

from sfumato.analysis.catalog import REMOVED
from sfumato.analysis.private_query import Group
from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import (
    RANK,
    AggregateNode,
    FilterNode,
    JoinNode,
    LimitNode,
    MarkJoinNode,
    MaterializedNode,
    ProjectNode,
    ScanNode,
    SortNode,
    UnionAllNode,
    WindowNode,
    nodes,
)
from sfumato.language.scalar import Operator, Scalar, columns_read, walk
from sfumato.planning.aggregates.distinct_count import different_values
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.bounding.truncation import (
    CLIPPED_ROWS,
    CUT_PEOPLE,
    MOVED,
    REMOVED_FROM,
    ROWS,
    TruncationLosses,
)
from sfumato.planning.bounding.truncation_estimates import TruncationEstimates
from sfumato.planning.plan import GroupPlan, Plan, PlannedMeasurement
from sfumato.policy.policy import fold_name
from sfumato.query.functions import Aggregation
from sfumato.query.relation import JoinKind
from sfumato.query.types import Type

BIAS_FAILURE_SHARE = Fraction(3, 4)
"""Of the probability that a bar misses, so much is for what was cut off, of which far less is known than of noise."""
Place = tuple[str, str]
"""A label and a name."""
TIMES = frozenset({Type.DATE, Type.TIMESTAMP})
_PLAIN = frozenset(
    {Operator.COLUMN, Operator.CONSTANT, Operator.ADD, Operator.SUBTRACT, Operator.MULTIPLY, Operator.NEGATE}
)

_ORDERING = frozenset({Operator.LESS, Operator.AT_MOST})
_TELLING = _ORDERING | {Operator.EQUAL, Operator.DIFFERENT, Operator.DISTINCT_FROM, Operator.IN, Operator.IS_NULL}


@dataclass(frozen=True, slots=True)
class BiasBounds:
    """What a measurement may have too much, and what it may lack; infinite where nothing is known.

    Only `plus` and `times` add up truncation losses: of terms, of selected bounds, of columns.

    >>> BiasBounds(1, 5).times(-2).plus(BiasBounds(0, 3))
    BiasBounds(excess=10, lack=5)
    """

    excess: float
    lack: float

    def plus(self, other: "BiasBounds") -> "BiasBounds":
        """Return the bounds of a sum."""
        return BiasBounds(self.excess + other.excess, self.lack + other.lack)

    def times(self, weight: int) -> "BiasBounds":
        """Return the bounds of a multiple: a negative one lacks what was too much."""
        if weight == 0:
            return NO_BIAS
        scaled = BiasBounds(self.excess * abs(weight), self.lack * abs(weight))
        return scaled if weight > 0 else BiasBounds(scaled.lack, scaled.excess)


NO_BIAS, UNBOUNDED = BiasBounds(0, 0), BiasBounds(inf, inf)


def can_be_biased(one: PlannedMeasurement, bounds: BiasBounds) -> bool:
    """Whether contribution bounds, or one that noise selects, may have cut something off of a measurement."""
    return one.candidates is not None or bounds != NO_BIAS


def limited_places(plan: Plan) -> frozenset[Place]:
    """Return of which counts and sums an estimate of all that a table lost is only a limit.

    Of rows that meet a condition less may be missing. People who lost rows are missing where no other row of theirs is.
    """
    found = set()
    for group in plan.groups:
        some = not all(isinstance(node, ScanNode) for node in nodes(group.group.rows))
        named = [(measurement.name, measurement.quantity) for measurement in group.measured] + [
            (total.name, total.quantity) for total in group.sums
        ]
        for name, quantity in named:
            if some or quantity.where is not None or _counts_people(quantity, group.group):
                found.add((group.group.label, name))
    return frozenset(found)


def bias_tail(level: Fraction) -> Fraction:
    """Return the probability that what was cut off exceeds its bounds, for an interval of this level."""
    return BIAS_FAILURE_SHARE * (1 - level)


@dataclass(frozen=True, slots=True)
class _Term:
    """`weight` times a bounded number (none, if `place` is None) plus `constant`, in steps."""

    weight: int
    place: Place | None
    constant: int


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a group: the one private table that they come from, and what their conditions read."""

    read: ScanNode
    times: int
    """As often one row of the table can be among them."""
    origins: Mapping[Place, Scalar]
    """What columns of inner queries are computed from."""
    conditions: tuple[Scalar, ...]
    people: bool
    """Whether they are one row per person."""
    clipped: frozenset[str]
    """The columns of the table whose values may have been moved to bounds."""


def truncation_bias(plan: Plan, losses: TruncationLosses | None, tail: Fraction) -> dict[Place, BiasBounds]:
    """Return what may be missing of every measurement, by the group's label and the measurement's name.

    It does not include amounts above a bound that the answer selects: these are known only afterwards. All bounds hold
    at once, because a column may be computed from several measurements.
    """
    bounds = {} if losses is None else _bounds_of(plan, losses, tail)
    choices = {group.group.label for group in plan.groups if group.is_bound_selection}
    found = {
        (label, one.name): NO_BIAS if label in choices else _possible(group, one.quantity, losses, bounds)
        for group in plan.groups
        for label, one in ((group.group.label, measurement) for measurement in group.measured)
    }
    # nothing measures what people have beyond a total
    bounded = (
        (group.group.label, measurement)
        for group in plan.groups
        for measurement in group.measured
        if measurement.bound is not None
    )
    totals = {(label, one.name) for label, one in bounded if one.candidates is None}
    return {place: replace(one, lack=inf) if place in totals else one for place, one in found.items()}


def _possible(plan: GroupPlan, quantity: Quantity, losses: TruncationLosses | None, bounds: "_Bounds") -> BiasBounds:
    """Return what may be missing of a measurement, no more than there can be.

    A count of different values lies between 0 and the number of public ones, also without caps and bounds. How many
    of them rows that were left out held, no estimate of these rows tells.
    """
    found, distinct = _missing(plan, quantity, losses, bounds), quantity.function is Aggregation.COUNT
    if not (distinct and quantity.distinct) or found == NO_BIAS or _counts_people(quantity, plan.group):
        return found
    if isinstance(losses, TruncationEstimates):
        return UNBOUNDED
    most = different_values(quantity)
    return found if most is None else BiasBounds(min(found.excess, most), min(found.lack, most))


_Bounds = Mapping[tuple[str, str], Mapping[str, int] | None]
"""What was lost of each statistic at most, by table and name."""


def _bounds_of(plan: Plan, losses: TruncationLosses, tail: Fraction) -> _Bounds:
    """Return the bounds of every statistic that something measured rests on."""
    used: dict[str, dict[str, None]] = {}
    for group in plan.groups:
        rows = None if group.is_bound_selection else _rows(group.group, losses)
        if rows is not None:
            names = used.setdefault(rows.read.table, {})
            names |= {
                name: None for measurement in group.measured for name in _used(rows, measurement.quantity, losses)
            }
    tables = {table: tuple(names) for table, names in used.items() if names}
    return {
        (table, name): bounds
        for table, names in tables.items()
        for name, bounds in losses.bounds_at(table, names, tail / len(tables)).items()
    }


def _used(rows: _Rows, quantity: Quantity, losses: TruncationLosses) -> list[str]:
    terms = None if rows.people else _terms(quantity, rows)
    return [name for name in _statistics(rows, terms or ()) if (rows.read.table, name) in losses.released]


def _missing(plan: GroupPlan, quantity: Quantity, losses: TruncationLosses | None, bounds: _Bounds) -> BiasBounds:
    rows = _rows(plan.group, losses)
    if rows is None:
        return UNBOUNDED
    table = rows.read.table
    if table.endswith(REMOVED):  # it counts what is cut, and is cut at ten times what is kept itself
        whole = quantity.function is Aggregation.COUNT and not rows.conditions and not plan.group.keys
        return NO_BIAS if whole and quantity.where is None else UNBOUNDED
    cut = plan.group.contribution
    limited = (cut.bound_rows or cut.bound_groups) and plan.group.identity
    terms = None if rows.people else _terms(quantity, rows)
    known = {} if losses is None else {name: bounds[table, name] for name in _used(rows, quantity, losses)}
    found = _bounded(plan.group, quantity, rows, terms, known, _can_be_cut(rows, losses))
    if limited:  # nothing measures what a question itself cuts
        signed = terms is None or any(not _is_rising(term, rows) for term in terms)
        return UNBOUNDED if signed else replace(found, lack=inf)
    return found


def _can_be_cut(rows: _Rows, losses: TruncationLosses | None) -> bool:
    """Whether anything of the table can be cut at all."""
    if losses is not None:
        return any((rows.read.table, name) in losses.released for name in (ROWS, MOVED))
    return rows.read.max_rows_per_unit is not None or bool(rows.clipped)


def _bounded(
    group: Group,
    quantity: Quantity,
    rows: _Rows,
    terms: tuple[_Term, ...] | None,
    known: Mapping[str, Mapping[str, int] | None],
    cuttable: bool,
) -> BiasBounds:
    if not cuttable:
        return NO_BIAS
    conditions = [*rows.conditions, *(key.scalar for key in group.keys)]
    conditions += [] if quantity.where is None else [quantity.where]
    if _counts_people(quantity, group) and not conditions and not rows.people:
        return NO_BIAS  # everybody who has rows keeps some
    if not group.identity and _counts_alike(quantity, rows, conditions):
        return NO_BIAS  # each row is a person: none is left out, and nothing depends on where bounds move values to
    if not known or any(lost is None for lost in known.values()):
        return UNBOUNDED
    removed = (known.get(ROWS) or {}).get(REMOVED_FROM, 0)
    beyond = (known.get(MOVED) or {}).get(CLIPPED_ROWS, 0)
    people = (known.get(ROWS) or {}).get(CUT_PEOPLE, 0)
    people_beyond = (known.get(MOVED) or {}).get(CUT_PEOPLE, 0)
    if rows.people:
        plain = quantity.function is Aggregation.COUNT and (not quantity.arguments or _counts_people(quantity, group))
        return BiasBounds(people + people_beyond, people + people_beyond) if plain else UNBOUNDED
    removed, beyond = removed * rows.times, beyond * rows.times
    mistaken = beyond if any(_reads_bounds(condition, rows) for condition in conditions) else 0
    if _counts_people(quantity, group):
        people_beyond = people_beyond if mistaken else 0
        return BiasBounds(people_beyond, people + people_beyond)
    if quantity.function is Aggregation.COUNT:
        if _counts_by_value(quantity, rows):
            mistaken = beyond
        return BiasBounds(mistaken, removed + mistaken)
    if quantity.function is not Aggregation.SUM or quantity.distinct or terms is None:
        return UNBOUNDED
    if any(_reads_bounds(inner_condition, rows) for inner_condition in _inner_conditions(quantity.arguments[0])):
        mistaken = beyond
    return reduce(BiasBounds.plus, (_of_term(term, rows, known, removed, mistaken) for term in terms), NO_BIAS)


def _counts_alike(quantity: Quantity, rows: _Rows, conditions: Sequence[Scalar]) -> bool:
    """Whether a count is the same before and after bounds, if no row is left out."""
    counted = quantity.function is Aggregation.COUNT and not rows.people and not _counts_by_value(quantity, rows)
    return counted and not any(_reads_bounds(condition, rows) for condition in conditions)


def _counts_by_value(quantity: Quantity, rows: _Rows) -> bool:
    """Whether what a count counts depends on values that may have been moved to bounds."""
    by_value = quantity.distinct or any(not _null_with_columns(argument) for argument in quantity.arguments)
    return by_value and any(_reads_bounds(argument, rows) for argument in quantity.arguments)


def _of_term(
    term: _Term, rows: _Rows, known: Mapping[str, Mapping[str, int] | None], removed: int, mistaken: int
) -> BiasBounds:
    reach, moved = 0, NO_BIAS
    if term.place is not None:
        lost = known.get(_stored(rows, term.place))
        if lost is None:
            return UNBOUNDED
        above, below_it = lost.values()
        moved = BiasBounds(below_it, above).times(rows.times)
        facts = next(facts for name, _, facts in rows.read.columns if name == term.place[1])
        reach = abs(term.weight) * max(abs(facts.low), abs(facts.high))
    either = mistaken * (reach + abs(term.constant))
    missing = BiasBounds(0, removed).times(term.constant)
    return moved.times(term.weight).plus(missing).plus(BiasBounds(either, either))


def _is_rising(term: _Term, rows: _Rows) -> bool:
    """Whether a row that a question cuts can only have made a sum smaller."""
    if term.place is None:
        return term.constant >= 0
    facts = next(facts for name, _, facts in rows.read.columns if name == term.place[1])
    return min(term.weight * facts.low, term.weight * facts.high) + term.constant >= 0


def _rows(group: Group, losses: TruncationLosses | None) -> _Rows | None:
    """Return what the rows of a group come from; None where no bound is known for such rows."""
    reads: list[ScanNode] = []
    times, people = 1, False
    origins: dict[Place, Scalar] = {}
    conditions: list[Scalar] = []
    for node in nodes(group.rows):
        match node:
            case ScanNode():
                reads.append(node)
            case FilterNode(_, condition):
                conditions.append(condition)
            case JoinNode(kind, _, MaterializedNode() as other, condition):
                times *= other.most if kind is JoinKind.INNER else max(other.most, 1)
                conditions += [] if condition is None else [condition]
            case JoinNode():
                return None
            case AggregateNode(_, label, keys, _):
                if people or [key.scalar.facts.kind for key in keys] != [Kind.UNIT]:
                    return None
                people = True
                origins |= {(label, key.name): key.scalar for key in keys}
            case ProjectNode(_, label, items):
                origins |= {(label, item.name): item.scalar for item in items}
            case SortNode() | LimitNode() | MarkJoinNode() | WindowNode() | UnionAllNode():
                return None
    if len(reads) != 1:
        return None
    return _Rows(reads[0], times, origins, tuple(conditions), people, _clipped(reads[0], losses))


def _clipped(read: ScanNode, losses: TruncationLosses | None) -> frozenset[str]:
    """Return the columns with bounds; a number among declared keys has none that move it."""
    return frozenset(
        name
        for name, stored, facts in read.columns
        if facts.bounded
        and name != RANK
        and (losses is None or facts.type in TIMES or (read.table, fold_name(stored)) in losses.released)
    )


def _terms(quantity: Quantity, rows: _Rows) -> tuple[_Term, ...] | None:
    """Return a summed argument as terms of which a row has one; None where it is no such thing."""
    if quantity.function is not Aggregation.SUM or quantity.distinct:
        return ()
    argument = quantity.arguments[0]
    if not _reads_bounds(argument, rows):
        facts = argument.facts
        return (_Term(0, None, facts.low), _Term(0, None, facts.high)) if facts.bounded else None
    return _linear(argument, rows)


def _linear(scalar: Scalar, rows: _Rows) -> tuple[_Term, ...] | None:
    match scalar.operator:
        case Operator.COLUMN:
            place = _place(scalar)
            if place in rows.origins:
                return _linear(rows.origins[place], rows)
            if place[0] != rows.read.label:
                return None
            return (_Term(1, place, 0),)
        case Operator.CONSTANT:
            value = scalar.constant
            return (_Term(0, None, value),) if isinstance(value, int) else () if value is None else None
        case Operator.CLIPPED:  # narrowed by a condition: in every row that meets it, the value is inside
            return _linear(scalar.arguments[0], rows)
        case Operator.NEGATE:
            return _scaled(_linear(scalar.arguments[0], rows), -1)
        case Operator.MULTIPLY | Operator.ADD | Operator.SUBTRACT:
            return _combined(scalar, rows)
        case Operator.CASE:
            values = [*scalar.arguments[1:-1:2], scalar.arguments[-1]]
        case Operator.COALESCE:
            values = list(scalar.arguments)
        case _:
            return None
    parts = [_linear(value, rows) for value in values]
    found = [part for part in parts if part is not None]
    return None if len(found) < len(parts) else tuple(dict.fromkeys(term for part in found for term in part))


def _combined(scalar: Scalar, rows: _Rows) -> tuple[_Term, ...] | None:
    """Return a product with a constant, or a sum with one."""
    one, other = scalar.arguments
    if one.operator is Operator.CONSTANT and scalar.operator is not Operator.SUBTRACT:
        one, other = other, one
    if other.operator is not Operator.CONSTANT or not isinstance(other.constant, int):
        return None
    terms = _linear(one, rows)
    if terms is None:
        return None
    if scalar.operator is Operator.MULTIPLY:
        return _scaled(terms, other.constant)
    shift = other.constant if scalar.operator is Operator.ADD else -other.constant
    return tuple(_Term(term.weight, term.place, term.constant + shift) for term in terms)


def _scaled(terms: tuple[_Term, ...] | None, factor: int) -> tuple[_Term, ...] | None:
    if terms is None:
        return None
    return tuple(_Term(term.weight * factor, term.place, term.constant * factor) for term in terms)


def _inner_conditions(scalar: Scalar) -> Iterator[Scalar]:
    """Give what decides which of its values an argument has."""
    for part in walk(scalar):
        if part.operator is Operator.CASE:
            yield from part.arguments[0:-1:2]


def _null_with_columns(scalar: Scalar) -> bool:
    """Whether an argument is NULL just where a column is: then no bound changes whether it counts."""
    return all(part.operator in _PLAIN for part in walk(scalar))


def _statistics(rows: _Rows, terms: tuple[_Term, ...]) -> list[str]:
    """Return the statistics of the table that a bound rests on."""
    return list(dict.fromkeys([ROWS, MOVED, *(_stored(rows, term.place) for term in terms if term.place is not None)]))


def _stored(rows: _Rows, place: Place) -> str:
    return next(fold_name(stored) for name, stored, _ in rows.read.columns if name == place[1])


def _place(scalar: Scalar) -> Place:
    (found,) = columns_read(scalar)
    return found


def _reads_bounds(scalar: Scalar, rows: _Rows) -> bool:
    """Whether what an expression says of a row may change where a value is moved to its bounds."""
    if scalar.operator is Operator.STORED:  # compared as it was before its bounds
        return False
    if scalar.operator is Operator.COLUMN:
        place = _place(scalar)
        if place in rows.origins:
            return _reads_bounds(rows.origins[place], rows)
        return place[0] == rows.read.label and place[1] in rows.clipped
    if scalar.operator in _TELLING and _tells_alike(scalar, rows):
        return False
    return any(_reads_bounds(part, rows) for part in scalar.arguments)


def _tells_alike(scalar: Scalar, rows: _Rows) -> bool:
    """Whether a comparison of a column with constants is true of a value just where it is of the moved one.

    It is, if the value at each bound stands for all beyond it: x < k for a < k <= b, x = k for a < k < b.
    Proof: proofs/truncation.md, 5
    """
    found = [part for part in scalar.arguments if part.operator is not Operator.CONSTANT]
    constants = [part.constant for part in scalar.arguments if part.operator is Operator.CONSTANT]
    column = _origin(found[0], rows) if len(found) == 1 else None
    facts = None if column is None else _facts_of(column, rows)
    if facts is None:
        return False
    if scalar.operator is Operator.IS_NULL:
        return True
    if scalar.operator not in _ORDERING:
        return all(isinstance(constant, int) and facts.low < constant < facts.high for constant in constants)
    (limit,) = constants
    # k <= x says that x < k does not hold, k < x that x <= k does not
    below = (scalar.operator is Operator.LESS) == (scalar.arguments[0] is found[0])
    return isinstance(limit, int) and (facts.low < limit <= facts.high if below else facts.low <= limit < facts.high)


def _origin(scalar: Scalar, rows: _Rows) -> Place | None:
    """Return the column of the table that an expression is, if it is one."""
    if scalar.operator is not Operator.COLUMN:
        return None
    place = _place(scalar)
    if place in rows.origins:
        return _origin(rows.origins[place], rows)
    return place if place[0] == rows.read.label else None


def _facts_of(place: Place, rows: _Rows) -> Facts | None:
    return next((facts for name, _, facts in rows.read.columns if name == place[1] and facts.bounded), None)


def _counts_people(quantity: Quantity, group: Group) -> bool:
    return quantity.function is Aggregation.COUNT and quantity.distinct and quantity.arguments == (group.unit,)
