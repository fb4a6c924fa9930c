"""Relations: eleven frozen nodes. A question is a Project over what they build.

Every relation has `columns`, which expressions above refer to by label and name. A label is unique in its query and
does not come from the text (a table's label is its name, `visits#2` when it occurs again), so aliases leave no trace.

CTEs and subqueries are inlined where they are used: their columns are replaced by what they stand for. SELECT
DISTINCT is a GroupBy without measures. A per-unit subquery is a GroupBy below a GroupBy.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from textwrap import indent

from sfumato.query.aggregate import Aggregate
from sfumato.query.expression import NOWHERE, Column, Expression, Literal, Position, identifier
from sfumato.query.number_types import aggregate_type, number_type, widest_type
from sfumato.query.types import NumberType, Type
from sfumato.query.windows import WindowCall, WindowFrame


@dataclass(frozen=True, slots=True)
class Named:
    """An expression and the name its value gets."""

    name: str
    expression: Expression

    def __str__(self) -> str:
        return f"{identifier(self.name)} = {self.expression}"


@dataclass(frozen=True, slots=True)
class Measure:
    """An aggregate of the rows of a group, and the name its value gets."""

    name: str
    aggregate: Aggregate[Expression]
    type: Type
    at: Position = field(default=NOWHERE, compare=False, repr=False)

    @property
    def number(self) -> NumberType | None:
        """What PostgreSQL calls its type; None for what is no number."""
        return aggregate_type(self.aggregate.function, self.aggregate.arguments, self.type)

    def __str__(self) -> str:
        return f"{identifier(self.name)} = {self.aggregate.written(str)}"


class JoinKind(StrEnum):
    """INNER keeps pairs that meet the condition; LEFT also a left row that met none, with NULLs; FULL those of both."""

    INNER = "inner"
    LEFT = "left"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class SortKey:
    """One key of an ordering."""

    expression: Expression
    descending: bool
    nulls_first: bool

    def __str__(self) -> str:
        direction = "desc" if self.descending else "asc"
        return f"{self.expression} {direction} nulls {'first' if self.nulls_first else 'last'}"


@dataclass(frozen=True, slots=True)
class Over:
    """Value of a window function for a row: from the rows of its partition, in their order, inside its frame."""

    name: str
    call: Aggregate[Expression] | WindowCall[Expression]
    partition: tuple[Expression, ...]
    order: tuple[SortKey, ...]
    frame: WindowFrame
    type: Type
    at: Position = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        partition = f"by {', '.join(map(str, self.partition))} " if self.partition else ""
        order = f"sort {', '.join(map(str, self.order))} " if self.order else ""
        return f"{identifier(self.name)} = {self.call.written(str)} over ({partition}{order}{self.frame})"

    @property
    def number(self) -> NumberType | None:
        """What PostgreSQL calls its type; None for what is no number."""
        if isinstance(self.call, Aggregate):
            return aggregate_type(self.call.function, self.call.arguments, self.type)
        return number_type(self.call.arguments[0]) if self.call.arguments else None

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """Every expression that is computed of a row."""
        return (*self.call.parts, *self.partition, *(key.expression for key in self.order))


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of a table, with the columns that the catalog declares."""

    table: str
    label: str
    schema: tuple[tuple[str, Type], ...]
    at: Position = field(default=NOWHERE, compare=False, repr=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(self.label, name, type) for name, type in self.schema)

    def __str__(self) -> str:
        again = "" if self.label == self.table else f" as {identifier(self.label)}"
        return f"scan {identifier(self.table)}{again}"


@dataclass(frozen=True, slots=True)
class Values:
    """Rows spelled out in the text; one row without columns is what a SELECT without FROM reads."""

    label: str
    types: tuple[Type, ...]
    rows: tuple[tuple[Literal, ...], ...]
    at: Position = field(default=NOWHERE, compare=False, repr=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        cells = zip(*self.rows, strict=True) if self.rows else iter(() for _ in self.types)
        pairs = enumerate(zip(self.types, cells, strict=True), 1)
        return tuple(Column(self.label, f"c{i}", type, number=widest_type(column, type)) for i, (type, column) in pairs)

    def __str__(self) -> str:
        rows = ("(" + ", ".join(map(str, row)) + ")" for row in self.rows)
        return f"{identifier(self.label)} {', '.join(rows)}"


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of rows. An inner join's condition mentions both sides, or is None; the rest is in a Filter above.

    With `single` each left row has to meet one right row at most: the right side is a subquery with one value.
    """

    kind: JoinKind
    left: "Relation"
    right: "Relation"
    condition: Expression | None
    at: Position = field(default=NOWHERE, compare=False, repr=False)
    single: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.left.columns + self.right.columns

    def __str__(self) -> str:
        on = "" if self.condition is None else f" on {self.condition}"
        return f"{self.kind} join{on}{_child_text(self.left, self.right)}"


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which the condition is true (neither false nor NULL)."""

    source: "Relation"
    condition: Expression

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.source.columns

    def __str__(self) -> str:
        return f"filter {self.condition}{_child_text(self.source)}"


@dataclass(frozen=True, slots=True)
class GroupBy:
    """One row per distinct combination of keys (NULL is a key like any other); without keys, exactly one row.

    With `per_unit` the person is one more key, which the text does not name: a key of the text leads to the person.
    """

    source: "Relation"
    label: str
    keys: tuple[Named, ...]
    measures: tuple[Measure, ...]
    at: Position = field(default=NOWHERE, compare=False, repr=False)
    per_unit: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        keys = tuple(column_of(self.label, key.name, key.expression) for key in self.keys)
        return keys + tuple(
            Column(self.label, measure.name, measure.type, number=measure.number) for measure in self.measures
        )

    def __str__(self) -> str:
        parts = "; ".join(map(str, (*self.keys, *self.measures)))
        return f"{identifier(self.label)}{' per unit' * self.per_unit} {parts}{_child_text(self.source)}"


@dataclass(frozen=True, slots=True)
class Project:
    """Every row turned into other columns."""

    source: "Relation"
    label: str
    items: tuple[Named, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(column_of(self.label, item.name, item.expression) for item in self.items)

    def __str__(self) -> str:
        return f"{identifier(self.label)} {'; '.join(map(str, self.items))}{_child_text(self.source)}"


@dataclass(frozen=True, slots=True)
class Sort:
    """The rows in an order."""

    source: "Relation"
    keys: tuple[SortKey, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.source.columns

    def __str__(self) -> str:
        return f"sort {', '.join(map(str, self.keys))}{_child_text(self.source)}"


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `count` rows (all, if None) after the first `offset`."""

    source: "Relation"
    count: int | None
    offset: int

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.source.columns

    def __str__(self) -> str:
        offset = f" offset {self.offset}" if self.offset else ""
        return f"limit {'all' if self.count is None else self.count}{offset}{_child_text(self.source)}"


@dataclass(frozen=True, slots=True)
class Window:
    """Every row with more columns: what window functions say of it."""

    source: "Relation"
    label: str
    values: tuple[Over, ...]
    at: Position = field(default=NOWHERE, compare=False, repr=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        values = (Column(self.label, over.name, over.type, number=over.number) for over in self.values)
        return (*self.source.columns, *values)

    def __str__(self) -> str:
        return f"{identifier(self.label)} {'; '.join(map(str, self.values))}{_child_text(self.source)}"


@dataclass(frozen=True, slots=True)
class UnionAll:
    """The rows of two projections with as many columns, of the same types; equal rows count as often as they occur."""

    left: "Project"
    right: "Project"
    label: str
    at: Position = field(default=NOWHERE, compare=False, repr=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        pairs = zip(self.left.items, self.right.items, strict=True)
        sides = ((first.expression, second.expression) for first, second in pairs)
        return tuple(
            Column(self.label, f"c{i}", pair[0].type, number=widest_type(pair, pair[0].type))
            for i, pair in enumerate(sides, 1)
        )

    def __str__(self) -> str:
        return f"{identifier(self.label)} of both{_child_text(self.left, self.right)}"


@dataclass(frozen=True, slots=True)
class MarkJoin:
    """Every left row once, with one more column: whether some right row meets the condition with it (never NULL)."""

    left: "Relation"
    right: "Relation"
    label: str
    condition: Expression | None
    at: Position = field(default=NOWHERE, compare=False, repr=False)

    @property
    def mark_column(self) -> Column:
        """The column that it adds."""
        return Column(self.label, "found", Type.BOOLEAN, self.at)

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.left.columns, self.mark_column)

    def __str__(self) -> str:
        on = "" if self.condition is None else f" on {self.condition}"
        return f"{identifier(self.label)} found{on}{_child_text(self.left, self.right)}"


Relation = Scan | Values | Join | Filter | GroupBy | Project | Sort | Limit | Window | UnionAll | MarkJoin


@dataclass(frozen=True, slots=True)
class Options:
    """Options of GoogleSQL's OPTIONS(…), exact; they may only tighten the policy."""

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    max_groups_contributed: int | None = None
    max_rows_contributed: int | None = None
    privacy_unit_column: str | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """One question: `relation` is a Project whose columns are called `names` (which may repeat) in the answer."""

    relation: Project
    names: tuple[str, ...]
    options: Options = Options()
    notes: tuple[str, ...] = field(default=(), compare=False)
    """Notes on the text alone, such as a literal that a column never has."""

    def __str__(self) -> str:
        return str(self.relation)


def column_of(label: str, name: str, expression: Expression, at: Position = NOWHERE) -> Column:
    """Return the column that holds an expression's values."""
    return Column(label, name, expression.type, at, number_type(expression))


def inputs(relation: Relation) -> tuple[Relation, ...]:
    """Return the relations directly below."""
    match relation:
        case Join(_, left, right) | UnionAll(left, right) | MarkJoin(left, right):
            return (left, right)
        case Scan() | Values():
            return ()
        case _:
            return (relation.source,)


def expressions(relation: Relation) -> Iterator[Expression]:
    """Give the expressions of a relation, not of those below it."""
    match relation:
        case Scan() | Values() | Limit() | UnionAll():
            return
        case Join(condition=condition) | MarkJoin(condition=condition):
            yield from () if condition is None else (condition,)
        case Filter(condition=condition):
            yield condition
        case GroupBy(keys=keys, measures=measures):
            yield from (key.expression for key in keys)
            yield from (part for measure in measures for part in measure.aggregate.parts)
        case Project(items=items):
            yield from (item.expression for item in items)
        case Sort(keys=keys):
            yield from (key.expression for key in keys)
        case Window(values=values):
            for value in values:
                yield from value.expressions


def _child_text(*relations: Relation) -> str:
    return "".join("\n" + indent(str(relation), "  ") for relation in relations)
