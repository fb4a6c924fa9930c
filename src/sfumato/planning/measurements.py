"""What must be measured so that everything that was asked follows: each distinct quantity once.

COUNT, SUM and AVG of one argument are two measurements; a variance adds one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting.event import Neighbours
from sfumato.analysis.private_query import Asked, Group
from sfumato.errors import QueryTooLarge, UnboundedSum, UnsupportedSql, at
from sfumato.language.facts import Kind
from sfumato.language.flow import Flow, Read, below
from sfumato.language.numbers import shifted, squared
from sfumato.language.scalar import Operator, Scalar
from sfumato.planning.plan import Derived
from sfumato.planning.sensitivities import of_distinct_values, of_people, of_rows, of_sum
from sfumato.query.functions import Aggregation
from sfumato.sensitivity.norms import Sensitivity

FARTHEST_SUM = 1 << 62
"""One person's part of a sum stays below it, so that sums of people and noise fit everywhere."""

VARIANCES = frozenset(
    {Aggregation.VAR_SAMP, Aggregation.VAR_POP, Aggregation.STDDEV_SAMP, Aggregation.STDDEV_POP},
)
_QUARTER = Fraction(1, 4)


@dataclass(frozen=True, slots=True)
class Quantity:
    """One integer per cell: a count of rows, of values or of people, or a sum."""

    aggregation: Aggregation
    argument: Scalar | None
    distinct: bool
    where: Scalar | None


@dataclass(frozen=True, slots=True)
class Measurement:
    """A quantity by its name, how far one person moves it, and how much the outputs depend on it.

    `importance` is what one squared unit of its error (a unit is what one person can do to one cell) adds to the
    expected squared errors of all outputs. Proof: proofs/planning.md, §5
    """

    name: str
    quantity: Quantity
    sensitivity: Sensitivity
    importance: Fraction


@dataclass(frozen=True, slots=True)
class Needs:
    """What one group needs: `keys` is how far one person moves them where they must be selected, else None."""

    group: Group
    keys: Sensitivity | None
    measurements: tuple[Measurement, ...]
    derived: tuple[Derived, ...]


@dataclass(frozen=True, slots=True)
class _Parts:
    """The quantities that one asked aggregate follows from: N, T and Q of `Derived`."""

    count: Quantity | None
    total: Quantity | None = None
    squares: Quantity | None = None
    offset: int = 0

    def importances(self) -> Iterator[tuple[Quantity, Fraction]]:
        """Give each quantity with what the error of this output owes to it."""
        alone = self.total is None
        yield from (
            (quantity, importance)
            for quantity, importance in (
                (self.count, Fraction(1) if alone else _QUARTER),
                (self.total, Fraction(1)),
                (self.squares, Fraction(1)),
            )
            if quantity is not None
        )


def needs_of(group: Group, neighbours: Neighbours) -> Needs:
    """Return the distinct measurements of a group and how each asked aggregate follows from them, or refuse."""
    asked = [(one, _parts(one, group)) for one in group.asked]
    importance: dict[Quantity, Fraction] = {}
    for _, parts in asked:
        for quantity, amount in parts.importances():
            importance[quantity] = importance.get(quantity, Fraction(0)) + amount
    names = {quantity: f"m{place}" for place, quantity in enumerate(importance, 1)}
    cells = max(1, group.cells) if group.public_keys else None
    return Needs(
        group,
        None if group.public_keys else of_people(group.contribution, cells, neighbours),
        tuple(
            Measurement(name, quantity, _sensitivity(quantity, group, cells, neighbours), importance[quantity])
            for quantity, name in names.items()
        ),
        tuple(_derived(one, parts, names) for one, parts in asked),
    )


def measurements(needs: tuple[Needs, ...]) -> tuple[Measurement, ...]:
    """Return the measurements of all groups, in order."""
    return tuple(one for need in needs for one in need.measurements)


def _parts(asked: Asked, group: Group) -> _Parts:
    aggregation, argument = asked.aggregation, asked.argument
    if aggregation is Aggregation.COUNT:
        return _Parts(_count(asked))
    if aggregation in {Aggregation.MIN, Aggregation.MAX} or argument is None:
        beyond = f"{_own_name(argument, group)} {'<' if aggregation is Aggregation.MIN else '>'} THRESHOLD"
        raise UnsupportedSql(
            f"{_place(asked)} is not answered.",
            "The extreme value is one person's own, and noise on it would have to cover the whole range.",
            f"Count the rows beyond a threshold instead: COUNT(*) FILTER (WHERE {beyond}).",
        )
    if not argument.facts.bounded:
        raise _unbounded(asked, argument, group)
    offset = _offset(asked, argument, group)
    value = shifted(argument, offset) if offset else argument
    total = Quantity(Aggregation.SUM, value, asked.distinct, asked.where)
    squares = None
    if aggregation in VARIANCES:
        squares = Quantity(Aggregation.SUM, squared(value), asked.distinct, asked.where)
    for quantity in (total, squares):
        if quantity is not None and _reaches_too_far(quantity, group.contribution.rows):
            raise QueryTooLarge(
                f"{_place(asked)} reaches too far.",
                "One person could add 2^62 steps of the grid or more to it.",
                "Narrow the values with LEAST and GREATEST, or ask the owner for a coarser step or fewer rows.",
            )
    return _Parts(None if aggregation is Aggregation.SUM else _count(asked), total, squares, offset)


def _count(asked: Asked) -> Quantity:
    """Return the count of an argument; of one that is never NULL it is the count of rows."""
    argument = asked.argument
    if argument is not None and not asked.distinct and not argument.facts.nullable:
        argument = None
    return Quantity(Aggregation.COUNT, argument, asked.distinct and argument is not None, asked.where)


def _offset(asked: Asked, argument: Scalar, group: Group) -> int:
    """Return what is subtracted from each value: a sum of values around 0 moves least."""
    alike = {
        other.aggregation
        for other in group.asked
        if (other.argument, other.distinct, other.where) == (argument, asked.distinct, asked.where)
    }
    spread = bool(alike & VARIANCES)
    if asked.aggregation is Aggregation.SUM or (Aggregation.SUM in alike and not spread):
        return 0
    if asked.distinct and spread:
        return argument.facts.low  # different values must have different squares
    return (argument.facts.low + argument.facts.high) // 2


def _sensitivity(quantity: Quantity, group: Group, cells: int | None, neighbours: Neighbours) -> Sensitivity:
    contribution, argument = group.contribution, quantity.argument
    if argument is None:
        return of_rows(contribution, cells, neighbours)
    if quantity.aggregation is Aggregation.SUM:
        return of_sum(contribution, cells, argument.facts.low, argument.facts.high, neighbours)
    if argument.facts.kind is Kind.UNIT and quantity.distinct:
        return of_people(contribution, cells, neighbours)
    if quantity.distinct:
        return of_distinct_values(contribution, cells, _different(argument), neighbours)
    return of_rows(contribution, cells, neighbours)


def _different(argument: Scalar) -> int | None:
    """Return how many different values there are at most, where facts tell."""
    match argument.facts.kind:
        case Kind.BOOLEAN:
            return 2
        case Kind.INTEGER:
            return argument.facts.span
        case _:
            return None


def _reaches_too_far(total: Quantity, rows: int) -> bool:
    facts = total.argument.facts if total.argument is not None else None
    # what 128 bits cannot hold has become a double, which no longer counts as bounded
    return facts is None or not facts.bounded or max(abs(facts.low), abs(facts.high)) * rows >= FARTHEST_SUM


def _derived(asked: Asked, parts: _Parts, names: dict[Quantity, str]) -> Derived:
    facts = asked.argument.facts if asked.argument is not None and parts.total is not None else None
    return Derived(
        asked.name,
        asked.aggregation,
        None if parts.count is None else names[parts.count],
        None if parts.total is None else names[parts.total],
        None if parts.squares is None else names[parts.squares],
        Fraction(1) if facts is None else facts.step,
        Fraction(parts.offset),
        0 if facts is None else facts.low,
        0 if facts is None else facts.high,
    )


def _unbounded(asked: Asked, argument: Scalar, group: Group) -> UnboundedSum:
    why = "Nothing bounds its values, so one person could move it by any amount."
    grid = argument.facts.kind is Kind.INTEGER
    declared = "bounds = [LOW, HIGH]" if grid else "bounds = [LOW, HIGH], step = STEP"
    if (table := _table(argument, group.rows)) is not None:
        column = _column(argument)
        remedy = f"Declare them: [tables.{table}.columns] {column} = {{ {declared} }}"
        clipped = f", or write {asked.aggregation.upper()}(LEAST(GREATEST({column}, LOW), HIGH))." if grid else "."
        return UnboundedSum(f"{_place(asked)} needs bounds.", why, remedy + clipped)
    remedy = (
        "Narrow it in the text: LEAST(GREATEST(…, LOW), HIGH)."
        if grid
        else f"Ask the owner to declare the columns that it is computed from with {{ {declared} }}."
    )
    return UnboundedSum(f"{_place(asked)} needs bounds.", why, remedy)


def _table(argument: Scalar, rows: Flow) -> str | None:
    """Return the table of a plain column; None where the argument is computed."""
    if argument.operator is not Operator.COLUMN or not isinstance(argument.constant, tuple):
        return None
    waiting = [rows]
    while waiting:
        flow = waiting.pop()
        if isinstance(flow, Read) and flow.label == argument.constant[0]:
            return flow.table
        waiting.extend(below(flow))
    return None


def _own_name(argument: Scalar | None, group: Group) -> str:
    """Return the name of a column of a table, or an ellipsis: no name that the text does not have."""
    return _column(argument) if argument is not None and _table(argument, group.rows) is not None else "…"


def _column(argument: Scalar | None) -> str:
    """Return the name of a plain column, or an ellipsis."""
    if argument is not None and argument.operator is Operator.COLUMN and isinstance(argument.constant, tuple):
        return str(argument.constant[1])
    return "…"


def _place(asked: Asked) -> str:
    """Return the aggregate as a refusal names it, with its place in the text."""
    line, column, written = asked.at
    text = f"{asked.aggregation.upper()}({'DISTINCT ' * asked.distinct}{_column(asked.argument)})"
    return f"{at((line, column))}{' '.join(written.split()) or text}"
