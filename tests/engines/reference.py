"""The bounded copy again, slowly and in plain Python, from the definition, sharing no code with the engine's."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from fractions import Fraction
from hashlib import sha256
from struct import pack
from typing import Any

from sfumato.policy.policy import Column, ColumnType, Policy, Reference, Table, UnitColumn, UnitPath, position
from sfumato.sensitivity.clipping import to_grid
from sfumato.sensitivity.grid import Grid

Row = Mapping[str, Any]
_INT64 = range(-(2**63), 2**63)


def keyed(salt: bytes, purpose: str, text: str) -> int:
    return int(sha256(f"{salt.hex()}{purpose}:{text}".encode()).hexdigest()[:32], 16)


def value_of(column: Column, value: Any, keys: frozenset[Any] | None) -> Any:
    """Return the value in the copy: an integer on the grid, text, or None."""
    found = _converted(column, value, beyond=1)  # outside its bounds, a value is one step beyond them
    if found is not None and keys is not None and found not in keys:
        return None
    return found


def _converted(column: Column, value: Any, beyond: int = 0) -> Any:
    match column.type:
        case ColumnType.TEXT:
            return value
        case ColumnType.BOOLEAN:
            return int(value) if value in (0, 1) and value is not None else None
        case ColumnType.DATE | ColumnType.TIMESTAMP:
            if value is None:
                return None
            if isinstance(value, datetime) and column.type is ColumnType.DATE:
                value = value.date()
            elif column.type is ColumnType.TIMESTAMP and not isinstance(value, datetime):
                value = datetime(value.year, value.month, value.day)
            return _gridded(column, position(value), beyond)
    return _gridded(column, value, beyond)


def _gridded(column: Column, value: Any, beyond: int) -> int | None:
    step = column.step or Fraction(1)
    grid = Grid(Fraction(-(10**40)) * step, Fraction(10**40) * step, step)
    if column.grid is not None:
        grid = Grid(column.grid.low - beyond * step, column.grid.high + beyond * step, step)
    result = to_grid([value], grid)
    if not result.present[0]:
        return None
    number = int(result.integers[0])
    return number if number in _INT64 else None


def person(column: Column, value: Any) -> str | None:
    """Return the text that names a person."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return str((value - datetime(1970, 1, 1)) // timedelta(microseconds=1))
    if isinstance(value, date):
        return str((value - date(1970, 1, 1)).days)
    return str(value)


def bounded_reference(policy: Policy, tables: Mapping[str, list[Row]], salt: bytes) -> dict[str, Counter[Any]]:
    return {table.name: Counter(_table(policy, table, tables, salt)) for table in policy.tables if not table.public}


def _table(policy: Policy, table: Table, tables: Mapping[str, list[Row]], salt: bytes) -> Iterable[tuple[Any, ...]]:
    own = table.unit.column.lower() if isinstance(table.unit, UnitColumn) else None
    columns = sorted((c for c in table.columns if c.name.lower() != own), key=lambda c: c.name.lower())
    keys = [_keys(column, tables) for column in columns]
    units: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for row in tables[table.name]:
        values = tuple(value_of(column, row[column.name], k) for column, k in zip(columns, keys, strict=True))
        if table.unit is not None and own is None and not isinstance(table.unit, UnitPath):
            yield values
        for owner in _owners(policy, table, row, tables):
            units[keyed(salt, "unit", owner)].append(values)
    for unit, rows in units.items():
        for values in _kept(table, columns, unit, rows):
            yield (unit, *values)


def _keys(column: Column, tables: Mapping[str, list[Row]]) -> frozenset[Any] | None:
    match column.values:
        case Reference(table, name):
            return frozenset(_converted(column, row[name]) for row in tables[table])
        case tuple(values):
            return frozenset(_converted(column, value) for value in values)
    return None


def _owners(policy: Policy, table: Table, row: Row, tables: Mapping[str, list[Row]]) -> set[str]:
    match table.unit:
        case UnitColumn(name):
            column = table.column(name)
            assert column is not None
            found = {person(column, row[name])}
        case UnitPath(target, name, here, there):
            goal, link = policy.table(target), table.column(here)
            assert goal is not None
            assert link is not None
            column = goal.column(name)
            assert column is not None
            found = {
                person(column, other[name])
                for other in tables[target]
                if row[here] is not None and person(link, other[there]) == person(link, row[here])
            }
        case _:
            return set()
    return {owner for owner in found if owner is not None}


def shares_a_key(policy: Policy, tables: Mapping[str, list[Row]]) -> bool:
    """Whether a key of some path leads to more than one person: then there is no copy."""
    paths = [table.unit for table in policy.tables if isinstance(table.unit, UnitPath)]
    for path in paths:
        goal = policy.table(path.table)
        assert goal is not None
        owner, key = goal.column(path.column), goal.column(path.there)
        assert owner is not None
        assert key is not None
        pairs = {(person(key, row[path.there]), person(owner, row[path.column])) for row in tables[path.table]}
        known = [found for found, who in pairs if found is not None and who is not None]
        if len(known) != len(set(known)):
            return True
    return False


def _draw(text: str) -> int:
    return int(sha256(text.encode()).hexdigest()[:32], 16)


def _spelled(value: Any) -> str:
    if isinstance(value, float):
        return pack(">d", value).hex().upper()
    return f"{len(value.encode())}:{value}" if isinstance(value, str) else str(value)


def _kept(table: Table, columns: list[Column], unit: int, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    seen: Counter[tuple[Any, ...]] = Counter()
    drawn = []
    for values in rows:
        seen[values] += 1
        parts = [":-" if value is None else f":{_spelled(value)}" for value in values]
        first = _draw(f"{unit:X}#{''.join(parts)}")
        drawn.append((first if seen[values] == 1 else _draw(f"again:{first:X}:{seen[values]}"), values))
    drawn.sort(key=lambda pair: pair[0])
    for at, column in enumerate(columns):
        if column.unique:
            taken: set[Any] = set()
            left = []
            for draw, values in drawn:
                if values[at] is None or values[at] not in taken:
                    taken.add(values[at])
                    left.append((draw, values))
            drawn = left
    unit_of = table.column(table.unit.column) if isinstance(table.unit, UnitColumn) else None
    most = 1 if unit_of is not None and unit_of.unique else table.rows_per_unit
    return [values for _, values in drawn[:most]]
