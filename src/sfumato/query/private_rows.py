"""Whether the rows of a relation are people's, told from the text and the names of units alone.

The judgement is analysis's; this is what the parser needs to refuse with a question that can be asked instead.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sfumato.query.catalog import Catalog
from sfumato.query.expression import Column, Expression
from sfumato.query.rebuilding import rebuild_fields
from sfumato.query.relation import GroupBy, Named, Project, Relation, Scan, UnionAll, Values, inputs

UnitNames = Mapping[tuple[str, str], str]
"""The columns that tell whose row it is, each with what it tells it by: empty for the person's own name, else the key
that leads to the person by the policy's `via`."""

_OWN = ""


def unit_columns(relation: Relation, catalog: Catalog) -> UnitNames | None:
    """Return the columns that tell whose rows come out of a relation; None for public rows."""
    return _unit_names(relation, catalog)


def is_unit_column(expression: Expression, names: UnitNames | None) -> bool:
    """Whether an expression is the column that names the person of a row."""
    return names is not None and _told_by(expression, names) == _OWN


def is_same_unit(first: Expression, second: Expression, names: UnitNames | None, others: UnitNames | None) -> bool:
    """Whether two rows are of one person where these are equal: both name the person, or lead there by one key."""
    known = None if names is None else _told_by(first, names)
    return known is not None and others is not None and _told_by(second, others) == known


def reads_private_tables(relation: Relation, catalog: Catalog) -> bool:
    """Tell whether a relation scans a private table."""
    if isinstance(relation, Scan):
        return not catalog.tables[relation.table].public
    return any(reads_private_tables(source, catalog) for source in inputs(relation))


def has_private_rows(relation: Relation, catalog: Catalog) -> bool:
    """Whether rows of people, or one row for each person, come out of a relation."""
    return _unit_names(relation, catalog) is not None


def group_within_units(relation: Relation, catalog: Catalog) -> Relation:
    """Return a relation in which rows that are grouped by a key that leads to the person stay that person's.

    A key of the policy's `via` leads to one person: to group by it, and by the person as well, gives the same groups.
    """

    def change(_: str, part: Any) -> Any:
        return group_within_units(part, catalog) if isinstance(part, Relation) else part

    grouped: Relation = rebuild_fields(relation, change)
    if not isinstance(grouped, GroupBy):
        return grouped
    below = _unit_names(grouped.source, catalog)
    told_by = set(_renamed_units(below or {}, grouped.label, grouped.keys).values())
    return replace(grouped, per_unit=True) if told_by and _OWN not in told_by else grouped


def group_again_within_units(relation: Relation, catalog: Catalog) -> Relation:
    """Return the same of every group whose rows are grouped or aggregated once more."""

    def change(_: str, part: Any) -> Any:
        if not isinstance(part, Relation):
            return part
        return (group_within_units if isinstance(relation, GroupBy) else group_again_within_units)(part, catalog)

    grouped: Relation = rebuild_fields(relation, change)
    return grouped


def _unit_names(relation: Relation, catalog: Catalog) -> UnitNames | None:
    """Return the columns that tell whose row it is; None where no row belongs to a person."""
    match relation:
        case Values():
            return None
        case Scan(table, label):
            known = catalog.tables[table]
            if known.public:
                return None
            own = {} if known.unit is None else {(label, known.unit): _OWN}
            return {(label, name): key for name, key in known.keys_to_unit.items()} | own
        case GroupBy(source, label, keys, per_unit=per_unit):
            below = _unit_names(source, catalog)
            named = _renamed_units(below or {}, label, keys)
            return named if per_unit or _OWN in named.values() else None
        case Project(source, label, items):
            below = _unit_names(source, catalog)
            if below is None:
                return None
            return _renamed_units(below, label, items)
        case UnionAll(left, right, label):
            sides = [(side, _unit_names(side, catalog)) for side in (left, right)]
            if all(known_names is None for _, known_names in sides):
                return None
            told = [
                [(known_names or {}).get((side.label, item.name)) for item in side.items] for side, known_names in sides
            ]
            return {
                (label, f"c{index}"): first
                for index, (first, second) in enumerate(zip(*told, strict=True), 1)
                if first is not None and first == second
            }
        case _:
            names = [_unit_names(below, catalog) for below in inputs(relation)]
            known_ones = [mapping for mapping in names if mapping is not None]
            return {name: key for mapping in known_ones for name, key in mapping.items()} if known_ones else None


def _renamed_units(names: UnitNames, label: str, items: tuple[Named, ...]) -> UnitNames:
    unit_names = {(label, item.name): _told_by(item.expression, names) for item in items}
    return {name: key for name, key in unit_names.items() if key is not None}


def _told_by(expression: Expression, names: UnitNames) -> str | None:
    return names.get((expression.of, expression.name)) if isinstance(expression, Column) else None
