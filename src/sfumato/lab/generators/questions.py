"""Plain questions over any schema, one of every kind: what a record-and-replay audit asks of a policy."""

from collections.abc import Iterator

from sfumato.lab.generators.grammar import GrammarTables

_NUMBERS = ("integer", "decimal")
_ONE_GROUP = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 1)"


def questions(schema: GrammarTables) -> list[str]:
    """Return questions that use every column, every aggregate, subqueries by person, and joins of every two tables.

    >>> columns = {"visits": {"patient": "integer", "cost": "decimal"}}
    >>> two = GrammarTables(columns, frozenset(), {"visits": "patient"})
    >>> len(questions(two)) > 10
    True
    """
    private = [table for table in schema.tables if table not in schema.public]
    queries = [sql for table in private for sql in (*_of_one(schema, table), *_of_people(schema, table))]
    queries += [sql for table in private for other in schema.tables for sql in _join_queries(schema, table, other)]
    return list(dict.fromkeys(queries))


def _columns_of_types(schema: GrammarTables, table: str, *types: str) -> list[str]:
    return [name for name, type in schema.tables[table].items() if type in types and name != schema.units.get(table)]


def _of_one(schema: GrammarTables, table: str) -> Iterator[str]:
    numbers, flags = _columns_of_types(schema, table, *_NUMBERS), _columns_of_types(schema, table, "boolean")
    texts = _columns_of_types(schema, table, "text")
    yield f"SELECT COUNT(*) FROM {table}"  # noqa: S608
    for name in schema.tables[table]:
        yield f"SELECT COUNT({name}), COUNT(DISTINCT {name}) FROM {table}"  # noqa: S608
        yield f"SELECT {name}, COUNT(*) FROM {table} GROUP BY {name}"  # noqa: S608
    for index, name in enumerate(numbers):
        yield f"SELECT SUM({name}) FROM {table}"  # noqa: S608
        yield f"SELECT AVG({name}), VAR_POP({name}), COUNT(*) FROM {table}"  # noqa: S608
        yield f"SELECT SUM(LEAST(GREATEST({name}, -2), 3)) FROM {table}"  # noqa: S608
        yield f"SELECT SUM(DISTINCT {name}) FROM {table}"  # noqa: S608
        yield f"SELECT SUM({name} * {name}) FROM {table} WHERE {name} > 1"  # noqa: S608
        yield f"SELECT SUM({name}) FILTER (WHERE {name} BETWEEN 0 AND 4) FROM {table}"  # noqa: S608
        yield f"SELECT SUM(10 / NULLIF({name}, 0)) FROM {table} WHERE {name} BETWEEN -1 AND 3"  # noqa: S608
        for key in [*texts, *flags][index % 2 :: 2]:
            yield f"SELECT {key}, SUM({name}), COUNT({name}) FROM {table} GROUP BY {key}"  # noqa: S608
    for flag in flags:
        yield f"SELECT COUNT(*) FILTER (WHERE {flag}) FROM {table}"  # noqa: S608


def _of_people(schema: GrammarTables, table: str) -> Iterator[str]:
    unit = schema.units.get(table)
    if unit is None:
        return
    yield f"SELECT COUNT(DISTINCT {unit}) FROM {table}"  # noqa: S608
    inner = f"SELECT {unit}, COUNT(*) AS n FROM {table} GROUP BY {unit}"  # noqa: S608
    yield f"SELECT AVG(n), COUNT(*) FROM ({inner}) AS t"  # noqa: S608
    yield f"SELECT n, COUNT(*) FROM ({inner}) AS t GROUP BY n"  # noqa: S608
    for key in _columns_of_types(schema, table, "text", "boolean"):
        yield f"SELECT {key}, COUNT(DISTINCT {unit}) FROM {table} GROUP BY {key}"  # noqa: S608
        yield f"{_ONE_GROUP} {key}, COUNT(*), COUNT(DISTINCT {unit}) FROM {table} GROUP BY {key}"
    yield f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 1) COUNT(*) FROM {table}"  # noqa: S608
    for name in _columns_of_types(schema, table, *_NUMBERS):
        yield f"SELECT SUM(s), COUNT(s) FROM (SELECT {unit}, SUM({name}) AS s FROM {table} GROUP BY {unit}) AS t"  # noqa: S608
        yield f"SELECT AVG(m) FROM (SELECT {unit}, MAX({name}) AS m FROM {table} GROUP BY {unit}) AS t"  # noqa: S608


def _join_queries(schema: GrammarTables, table: str, other: str) -> Iterator[str]:
    mine, theirs = schema.units.get(table), schema.units.get(other)
    if mine is not None and theirs is not None:
        pairs = [(mine, theirs)]
    else:
        shared = [name for name in _columns_of_types(schema, table, "text") if name in schema.tables[other]]
        pairs = [(name, name) for name in shared] if other in schema.public else []
    for left, right in pairs:
        for kind in ("JOIN", "LEFT JOIN"):
            joined = f"FROM {table} a {kind} {other} b ON a.{left} = b.{right}"
            yield f"SELECT COUNT(*) {joined}"
            for name in _columns_of_types(schema, table, *_NUMBERS):
                yield f"SELECT SUM(a.{name}) {joined}"
    if mine is not None and theirs is not None:  # nothing in the text says that both rows are one person's
        for number in _columns_of_types(schema, table, *_NUMBERS):
            for compared in _columns_of_types(schema, other, *_NUMBERS)[:1]:
                yield f"SELECT COUNT(*) FROM {table} a JOIN {other} b ON a.{number} <= b.{compared}"  # noqa: S608
