"""Whether the rows of a relation are people's, told from the text and the names of units alone.

The judgement is analysis's; this is what the parser needs to refuse with a question that can be asked instead.
"""

from sfumato.query.catalog import Catalog
from sfumato.query.expression import Column, Expression
from sfumato.query.relation import GroupBy, Project, Relation, Scan, Values, inputs

Names = frozenset[tuple[str, str]]


def people_of(relation: Relation, catalog: Catalog) -> Names | None:
    """Return the columns that name the people whose rows come out of a relation; None where they are nobody's."""
    return _people(relation, catalog)


def is_one(expression: Expression, names: Names | None) -> bool:
    """Whether an expression is the column that names the person of a row."""
    return names is not None and _is_one(expression, names)


def holds_people(relation: Relation, catalog: Catalog) -> bool:
    """Whether rows of people, or one row for each person, come out of a relation."""
    return _people(relation, catalog) is not None


def _people(relation: Relation, catalog: Catalog) -> Names | None:
    """Return the columns that name people; None where no row belongs to a person."""
    match relation:
        case Values():
            return None
        case Scan(table, label):
            known = catalog.tables[table]
            if known.public:
                return None
            return frozenset() if known.unit is None else frozenset({(label, known.unit)})
        case GroupBy(source, label, keys):
            below = _people(source, catalog)
            named = {(label, key.name) for key in keys if _is_one(key.expression, below or frozenset())}
            return frozenset(named) if named else None
        case Project(source, label, items):
            below = _people(source, catalog)
            if below is None:
                return None
            return frozenset((label, item.name) for item in items if _is_one(item.expression, below))
        case _:
            found = [_people(below, catalog) for below in inputs(relation)]
            known_ones = [one for one in found if one is not None]
            return frozenset().union(*known_ones) if known_ones else None


def _is_one(expression: Expression, names: Names) -> bool:
    return isinstance(expression, Column) and (expression.of, expression.name) in names
