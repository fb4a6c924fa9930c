"""SQL text becomes a Query of our own algebra; nothing of the text or of its parser goes further."""

from collections.abc import Mapping
from dataclasses import dataclass

from sfumato.query.catalog import Catalog
from sfumato.query.expression import Literal
from sfumato.query.literal import Unbound, sample
from sfumato.query.names import unique
from sfumato.query.parameters import Bindings
from sfumato.query.parse_reading import Reading
from sfumato.query.parse_select import read_query
from sfumato.query.parse_tree import parameters_of, read_tree
from sfumato.query.placement import filtered
from sfumato.query.relation import Named, Project, Query
from sfumato.query.types import Type


@dataclass(frozen=True, slots=True)
class Outline:
    """What is known of a question whose values are not: the columns of its answer, and the types of its parameters."""

    columns: tuple[tuple[str, Type], ...]
    parameters: Mapping[str, Type]


def parse(sql: str, catalog: Catalog, bindings: Bindings | None = None) -> Query:
    """Return the question that `sql` asks, or refuse it by name and place.

    It depends on the text, the catalog and the values of parameters alone.
    """
    tree, options = read_tree(sql, bindings is not None)
    reading = Reading(sql, catalog, bindings)
    block = read_query(tree, reading, {})
    names = tuple(output.name for output in block.outputs)
    items = (Named(name, output.expression) for name, output in zip(unique(names), block.outputs, strict=True))
    relation = Project(filtered(block.relation, block.pending), reading.label("select"), tuple(items))
    return Query(relation, names, options)


def outline(sql: str, catalog: Catalog, types: Mapping[str, Type]) -> Outline:
    """Return the columns of a question and the types of its parameters, those that `types` does not tell included.

    A parameter without a type gets that of its neighbours, as text in quotes does; where nothing tells, it is text.
    """
    learned: dict[str, Type] = {}
    names = parameters_of(sql)
    unbound = {name: Literal(Unbound(name, learned), Type.TEXT) for name in names}
    known = {name: sample(type) for name, type in types.items() if type is not Type.TEXT}
    query = parse(sql, catalog, {**unbound, **known})
    if any(name in names and name not in types for name in learned):  # once more: one parameter has one type
        settled = {name: sample(type) for name, type in learned.items() if name not in types and type is not Type.TEXT}
        query = parse(sql, catalog, {**unbound, **known, **settled})
    columns = zip(query.names, query.relation.items, strict=True)
    return Outline(
        tuple((name, item.expression.type) for name, item in columns),
        {name: types.get(name) or learned.get(name, Type.TEXT) for name in names},
    )
