"""One private GROUP BY as SQL: exact integers per cell, after every person was bounded.

What a person adds depends on that person's rows alone: which of them, or which cells, are kept is decided by a hash of
the person's opaque id and the values themselves, so that nobody's rows push out another's.  Proof: proofs/lineage.md
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sfumato.analysis.private_query import Group
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.flow import Tables, projected
from sfumato.engines.sql.fold import clipped
from sfumato.language.facts import Kind
from sfumato.language.scalar import Scalar
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.plan import GroupPlan, Measured
from sfumato.query.functions import Aggregation

_OWNER = "u"
_SPELLED = 300_000
"""So many characters of public texts may stand in a statement."""


@dataclass(frozen=True, slots=True)
class _Used:
    """The columns that a statement takes from the rows: `names` by what they compute, equal scalars once."""

    keys: list[str]
    names: dict[Scalar, str]
    kinds: dict[str, Kind]

    @property
    def all(self) -> list[str]:
        return list(dict.fromkeys([*self.keys, *self.names.values()]))


def group_sql(plan: GroupPlan, tables: Tables, dialect: Dialect) -> str | None:
    """Return the statement: keys, then each measurement, then how many people if the keys are secret.

    None where nothing is measured: public keys are known without looking. A NULL is no key, and its cell is to be
    dropped: dropping its rows would cost a test of every row.
    """
    numbers = [one for one in plan.measured if one.buckets is None]
    if not numbers and plan.group.public_keys:
        return None
    bounded = _bounded(plan, tables, dialect)
    measures = [_measure(one.quantity, plan.group, bounded.used, dialect) for one in numbers]
    people = [] if plan.group.public_keys else [_people(plan.group)]
    return _grouped(bounded, bounded.used.keys, [*measures, *people], dialect)


def histogram_sql(plan: GroupPlan, one: Measured, tables: Tables, dialect: Dialect) -> str:
    """Return the statement of a histogram: keys, bucket, and what is in it. Empty buckets are absent, or NULL is one.

    It is the statement of the group with one more key, over the same bounded rows.
    """
    bounded = _bounded(plan, tables, dialect)
    by, *added = one.quantity.arguments
    bucket = clipped(bounded.used.names[by], by.facts, dialect)  # what it was priced for, whatever is stored
    inner = replace(one.quantity, function=Aggregation.SUM if added else Aggregation.COUNT, arguments=tuple(added))
    measure = _measure(inner, plan.group, bounded.used, dialect)
    return _grouped(bounded, [*bounded.used.keys, bucket], [measure], dialect)


@dataclass(frozen=True, slots=True)
class _Bounded:
    """The rows of a group after every person was bounded."""

    rows: str
    used: _Used
    numbered: dict[str, tuple[str, ...]]


def _bounded(plan: GroupPlan, tables: Tables, dialect: Dialect) -> _Bounded:
    group = plan.group
    numbered = _numbered(group) if group.contribution.bound_groups else {}
    used = _used(group, plan.measured, numbered)
    needs_owner = group.contribution.bound_rows or group.contribution.bound_groups or _counts_people(plan)
    columns = {f"k{at}": key.scalar for at, key in enumerate(group.keys)}
    columns |= {name: scalar for scalar, name in used.names.items() if name not in columns}
    if needs_owner:
        columns[_OWNER] = group.unit
    rows = projected(group.rows, tables, columns, dialect)
    if group.contribution.bound_rows or group.contribution.bound_groups:
        rows = _present(rows, used.keys)  # else they would take the place of rows that count
    if numbered:
        rows = _with_numbers(rows, list(columns), numbered)
    if group.contribution.bound_rows:
        rows = _first_rows(rows, list(columns), group, used, dialect)
    if group.contribution.bound_groups and group.keys:
        rows = _first_cells(rows, list(columns), group, used, dialect)
    return _Bounded(rows, used, numbered)


def _numbered(group: Group) -> dict[str, tuple[str, ...]]:
    """Return the public texts that keys can be: their numbers are ranked in half the time that the texts take."""
    if not group.public_keys:
        return {}
    texts = {
        f"k{at}": tuple(cell for cell in key.cells or () if isinstance(cell, str))
        for at, key in enumerate(group.keys)
        if key.scalar.facts.kind is Kind.TEXT
    }
    spelled = sum(len(cell) + 10 for cells in texts.values() for cell in cells)
    return texts if spelled < _SPELLED and all(texts.values()) else {}


def _with_numbers(rows: str, columns: list[str], numbered: dict[str, tuple[str, ...]]) -> str:
    """Put the number of its cell in place of a text; a text that is no cell is dropped with its row."""
    listed = ", ".join(f"{name}_cells.number AS {name}" if name in numbered else f"r.{name}" for name in columns)
    joins = " ".join(f"JOIN {name}_cells ON r.{name} = {name}_cells.cell" for name in numbered)
    return f"SELECT {listed} FROM ({rows}) AS r {joins}"  # noqa: S608


def _with_keys(
    grouped: str, keys: list[str], others: int, numbered: dict[str, tuple[str, ...]], dialect: Dialect
) -> str:
    """Put the texts back, and say what their numbers are."""
    cells = ", ".join(
        f"{name}_cells(cell, number) AS (VALUES {_counted(texts, dialect)})" for name, texts in numbered.items()
    )
    names = [*keys, *(f"m{at}" for at in range(others))]
    listed = ", ".join(f"{name}_cells.cell" if name in numbered else f"g.{name}" for name in names)
    joins = " ".join(f"JOIN {name}_cells ON g.{name} = {name}_cells.number" for name in numbered)
    return f"WITH {cells} SELECT {listed} FROM ({grouped}) AS g({', '.join(names)}) {joins}"  # noqa: S608


def _counted(texts: tuple[str, ...], dialect: Dialect) -> str:
    return ", ".join(f"({dialect.literal(text)}, {number})" for number, text in enumerate(texts))


def _used(group: Group, measured: Sequence[Measured], numbered: dict[str, tuple[str, ...]]) -> _Used:
    names: dict[Scalar, str] = {}
    for one in measured:
        for scalar in one.quantity.parts:
            if not _is_owner(scalar, group):
                names.setdefault(scalar, f"v{len(names)}")
    kinds = {f"k{at}": key.scalar.facts.kind for at, key in enumerate(group.keys)}
    kinds |= dict.fromkeys(numbered, Kind.INTEGER) | {name: scalar.facts.kind for scalar, name in names.items()}
    return _Used([f"k{at}" for at in range(len(group.keys))], names, kinds)


def _is_owner(scalar: Scalar, group: Group) -> bool:
    return scalar == group.unit


def _counts_people(plan: GroupPlan) -> bool:
    arguments = (argument for one in plan.measured for argument in one.quantity.arguments)
    return not plan.group.public_keys or any(_is_owner(one, plan.group) for one in arguments)


def _present(rows: str, keys: list[str]) -> str:
    present = " AND ".join(f"{key} IS NOT NULL" for key in keys)
    return f"SELECT * FROM ({rows}) AS p WHERE {present}" if keys else rows  # noqa: S608


def _first_rows(rows: str, columns: list[str], group: Group, used: _Used, dialect: Dialect) -> str:
    """Keep of each person the rows that come first; equal rows are interchangeable."""
    rank = dialect.row_number([_OWNER], _drawn(used.all, group, used, dialect))
    return _ranked(rows, columns, rank, group.contribution.rows)


def _first_cells(rows: str, columns: list[str], group: Group, used: _Used, dialect: Dialect) -> str:
    """Keep of each person the rows of the cells that come first; ranking rows is faster than joining cells to them."""
    order = ", ".join(_drawn(used.keys, group, used, dialect))
    rank = f"dense_rank() OVER (PARTITION BY {_OWNER} ORDER BY {order})"
    return _ranked(rows, columns, rank, group.contribution.groups)


def _drawn(columns: list[str], group: Group, used: _Used, dialect: Dialect) -> list[str]:
    """Return an order of one person's rows or cells that only their values decide; a collision is no tie.

    It is the order of SHA-256 of the person's id and the values, the same in every engine. The id is 128 bits of a
    hash under the salt: nobody knows it, so that it is the key here, and the salt is in no statement.
    """
    if not group.identity and not columns:
        return []
    parts = [dialect.id_text(_OWNER)] if group.identity else []  # the number of a row is not about the person
    parts += [_value(name, used.kinds[name], dialect) for name in columns]
    return [dialect.draw(" || ".join(parts)), *(dialect.sortable(name, used.kinds[name]) for name in columns)]


def _value(name: str, kind: Kind, dialect: Dialect) -> str:
    """Return a value as a text that ends where it ends: no two lists of values become the same text."""
    text = dialect.scalar_text(name, kind)
    if kind is Kind.TEXT:
        text = f"CAST({dialect.octets(text)} AS {dialect.text_type}) || ':' || {text}"
    return f"':' || coalesce({text}, '-')"


def _ranked(rows: str, columns: list[str], rank: str, most: int) -> str:
    numbered = f"SELECT {', '.join(columns)}, {rank} AS nth FROM ({rows}) AS r"  # noqa: S608
    return f"SELECT {', '.join(columns)} FROM ({numbered}) AS n WHERE nth <= {most}"  # noqa: S608


def _grouped(bounded: _Bounded, keys: list[str], measures: list[str], dialect: Dialect) -> str:
    by = f" GROUP BY {', '.join(keys)}" if keys else ""
    grouped = f"SELECT {', '.join([*keys, *measures])} FROM ({bounded.rows}) AS bounded{by}"  # noqa: S608
    if not bounded.numbered:
        return grouped
    others = len(keys) + len(measures) - len(bounded.used.keys)
    return _with_keys(grouped, bounded.used.keys, others, bounded.numbered, dialect)


def _people(group: Group) -> str:
    return "count(*)" if group.contribution.rows == 1 else f"count(DISTINCT {_OWNER})"


def _measure(one: Quantity, group: Group, used: _Used, dialect: Dialect) -> str:
    where = "" if one.where is None else f" FILTER (WHERE {used.names[one.where]})"
    if one.argument is None:
        return f"count(*){where}"
    if _is_owner(one.argument, group):
        return f"{_people(group) if one.distinct else 'count(*)'}{where}"
    value = used.names[one.argument]
    if one.argument.facts.kind is Kind.INTEGER and (one.function is Aggregation.SUM or one.distinct):
        value = clipped(value, one.argument.facts, dialect)  # what it was priced for, whatever is stored
    return f"{dialect.aggregate(one.function, value, one.argument.facts, one.distinct)}{where}"
