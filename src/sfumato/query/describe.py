"""Describe a query without running it: the columns of its answer and the types of its parameters."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sfumato.query.catalog import Catalog
from sfumato.query.declared import Admitted
from sfumato.query.expression import Call, Column, Expression, Literal, walk
from sfumato.query.functions import Function
from sfumato.query.interval_calls import has_interval_call
from sfumato.query.literal import Unbound, sample
from sfumato.query.number_types import number_type
from sfumato.query.parameters import LiteralList
from sfumato.query.parse import parse
from sfumato.query.parsing.tree import parameters_of
from sfumato.query.private_rows import reads_private_tables
from sfumato.query.probes import is_empty, preview_of, without_reading
from sfumato.query.relation import GroupBy, MarkJoin, Project, Query, Relation, UnionAll, Window, inputs
from sfumato.query.types import NumberType, Type


@dataclass(frozen=True, slots=True)
class QueryDescription:
    """The columns of an answer, those of them that carry noise, and the types of the parameters by name.

    A parameter among `arrays` is a list of values of its type.
    """

    columns: tuple[tuple[str, Type], ...]
    noisy: tuple[bool, ...]
    parameters: Mapping[str, Type]
    arrays: frozenset[str] = frozenset()
    numbers: tuple[NumberType | None, ...] = ()
    """PostgreSQL's types of the columns that are numbers."""
    is_preview: bool = False
    """Whether it shows the first rows of a private table."""


@dataclass(frozen=True, slots=True)
class _SketchTable:
    """A table of which only names and types are known: what its columns can hold is for the real values."""

    columns: Mapping[str, str]
    public: bool
    unit: str | None
    keys_to_unit: Mapping[str, str]
    previewed: bool

    def declared(self, _column: str) -> Admitted | None:
        return None


@dataclass(frozen=True, slots=True)
class _Sketch:
    tables: Mapping[str, _SketchTable]


def _sketch(catalog: Catalog) -> Catalog:
    """Return the catalog without the values that its columns can hold: those of the samples mean nothing."""
    return _Sketch(
        {
            name: _SketchTable(table.columns, table.public, table.unit, table.keys_to_unit, table.previewed)
            for name, table in catalog.tables.items()
        }
    )


def describe_query(
    sql: str, catalog: Catalog, types: Mapping[str, Type], arrays: Collection[str] = (), previews: bool = False
) -> QueryDescription:
    """Return the outline of a question; `types` holds those of its parameters that are known, of items for `arrays`.

    With `previews`, the first rows of a private table are made up, and have one more column.

    A parameter without a type gets that of its neighbours, as text in quotes does; where nothing tells, it is text.
    """
    learned: dict[str, Type] = {}
    names, whole = parameters_of(sql), catalog
    catalog = _sketch(catalog) if names else catalog
    lists = set(arrays)
    unbound = {name: Literal(Unbound(name, learned, lists), Type.TEXT) for name in names}
    known = {name: _sample(name, type, lists) for name, type in types.items() if type is not Type.TEXT}
    query = parse(sql, catalog, {**unbound, **known})
    settled = {
        name: _sample(name, type, lists)
        for name, type in learned.items()
        if name not in types and type is not Type.TEXT
    }
    if settled:  # once more: one parameter has one type
        query = parse(sql, catalog, {**unbound, **known, **settled})
    shown = without_reading(query, whole, previews)
    is_preview = reads_private_tables(query.relation, whole) and _shows_first_rows(query.relation)
    query = shown if len(shown.names) > len(query.names) else query  # only a preview has another column
    columns = zip(query.names, query.relation.items, strict=True)
    return QueryDescription(
        tuple((name, item.expression.type) for name, item in columns),
        noisy_columns(query, catalog),
        {name: types.get(name) or learned.get(name, Type.TEXT) for name in names},
        frozenset(lists & set(names)),
        tuple(number_type(item.expression) for item in query.relation.items),
        is_preview,
    )


def _shows_first_rows(relation: Relation) -> bool:
    return preview_of(relation) is not None and not is_empty(relation)


def _sample(name: str, type: Type, lists: Collection[str]) -> Literal | LiteralList:
    """Return a value of a parameter's type, in a list where it stands for an array."""
    return LiteralList((sample(type),)) if name in lists else sample(type)


def noisy_columns(query: Query, catalog: Catalog) -> tuple[bool, ...]:
    """Tell for each column whether it depends on a measure over people's rows; ends of error bars have none."""
    meanings: dict[tuple[str, str], Expression] = {}
    measured: set[tuple[str, str]] = set()
    waiting: list[Relation] = [query.relation]
    while waiting:
        relation = waiting.pop()
        waiting += inputs(relation)
        match relation:
            case GroupBy(_, label, keys, measures):
                meanings |= {(label, key.name): key.expression for key in keys}
                measured |= {(label, measure.name) for measure in measures if reads_private_tables(relation, catalog)}
            case Project(_, label, items):
                meanings |= {(label, item.name): item.expression for item in items}
            case Window(_, label, values) if reads_private_tables(relation, catalog):
                measured |= {(label, value.name) for value in values}
            case UnionAll(left, right, label):
                for column, pair in zip(relation.columns, zip(left.items, right.items, strict=True), strict=True):
                    parts = tuple(item.expression for item in pair)
                    meanings[label, column.name] = Call(Function.COALESCE, parts, column.type)
            case MarkJoin(_, right, label) if reads_private_tables(right, catalog):
                measured.add((label, relation.mark_column.name))

    def depends(expression: Expression) -> bool:
        names = [(node.of, node.name) for node, _ in walk(expression) if isinstance(node, Column)]
        return any(name in measured or (name in meanings and depends(meanings[name])) for name in names)

    return tuple(depends(item.expression) and not has_interval_call(item.expression) for item in query.relation.items)
