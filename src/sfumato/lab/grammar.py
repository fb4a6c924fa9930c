"""Random questions over a schema, valid and hostile: what a fuzzer asks, one text per seed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

T = TypeVar("T")

NUMBERS = ("0", "1", "-1", "2", "10", "0.5", "-3.25", "1e9", "9223372036854775807", "-9223372036854775808", "0.000001")
TEXTS = ("''", "'er'", "'a%b_c'", "'12'", "'-7.5'", "'2024-02-30'", "'2024-02-29'", "'%'", "'NaN'", "'é'", "'true'")
DATES = ("DATE '2024-02-29'", "DATE '0001-01-01'", "DATE '9999-12-31'")
TIMES = ("TIMESTAMP '2024-12-31 23:59:59.999999'", "TIMESTAMP '0001-01-01 00:00:00'")
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
PARTS = ("year", "quarter", "month", "week", "day", "dow", "isodow", "doy", "epoch")
HOSTILE = (
    "1/0",
    "CAST('x' AS integer)",
    "CAST('2023-02-30' AS date)",
    "9223372036854775807 + 1",
    "SQRT(-1)",
    "POWER(10, 9) * POWER(10, 9)",
    "regexp_matches('a', '(a+)+b')",
    "repeat('a', 1000000000)",
    "(SELECT 1)",
    "random()",
    "error('x')",
)


@dataclass(frozen=True, slots=True)
class Schema:
    """Tables with the types of their columns; `public` ones are about nobody, `units` name people."""

    tables: Mapping[str, Mapping[str, str]]
    public: frozenset[str]
    units: Mapping[str, str]


class Dice(Protocol):
    """A stream of choices, such as Python's random.Random; nothing private hangs on it."""

    def random(self) -> float:
        """Return a number in [0, 1)."""

    def randint(self, a: int, b: int) -> int:
        """Return an integer from a to b."""

    def choice(self, seq: Sequence[T]) -> T:
        """Return one of several."""


class Grammar:
    """Questions over one schema, from one stream of choices."""

    def __init__(self, schema: Schema, random: Dice) -> None:
        self.schema, self.random = schema, random

    def query(self) -> str:
        """Return one question; about one in six holds something that has to be refused or made harmless."""
        private = [name for name in self.schema.tables if name not in self.schema.public]
        table = self._one(private if self.random.random() < 0.95 else list(self.schema.tables))
        shape = self._one([self._grouped] * 6 + [self._total] * 4 + [self._per_unit] * 2 + [self._joined] * 3)
        text = shape(table)
        return text.replace("COUNT(*)", self._one(HOSTILE), 1) if self.random.random() < 0.05 else text

    def _one(self, choices: Sequence[T]) -> T:
        return self.random.choice(choices)

    def _grouped(self, table: str) -> str:
        keys = [self._scalar(table, self._one(["text", "integer", "boolean", "date"]), 1) for _ in range(self._few(2))]
        measures = [self._measure(table) for _ in range(self._few(3))]
        names = [f"{key} AS k{i}" for i, key in enumerate(keys)] + [f"{m} AS m{i}" for i, m in enumerate(measures)]
        tail = self._one(["", " HAVING COUNT(*) > 1", " ORDER BY 1 LIMIT 3", f" HAVING {measures[0]} IS NOT NULL"])
        places = ", ".join(str(i + 1) for i in range(len(keys)))
        return f"SELECT {', '.join(names)} FROM {table}{self._where(table)} GROUP BY {places}{tail}"  # noqa: S608

    def _total(self, table: str) -> str:
        measures = [f"{self._measure(table)} AS m{i}" for i in range(self._few(3))]
        return f"SELECT {', '.join(measures)} FROM {table}{self._where(table)}"  # noqa: S608

    def _per_unit(self, table: str) -> str:
        unit = self.schema.units.get(table)
        if unit is None:
            return self._total(table)
        inner = f"SELECT {unit}, {self._measure(table)} AS a, COUNT(*) AS b FROM {table}{self._where(table)}"  # noqa: S608
        outer = self._one(["SUM(b)", "AVG(b)", "SUM(a)", "COUNT(*)", "COUNT(a)", "AVG(a)"])
        return f"SELECT {outer} AS m FROM ({inner} GROUP BY {unit}) AS t{self._one(['', ' WHERE b > 1'])}"  # noqa: S608

    def _joined(self, table: str) -> str:
        other = self._one(list(self.schema.tables))
        kind = self._one(["JOIN", "JOIN", "LEFT JOIN"])
        on = self._one([f"t.{mine} = o.{theirs}" for mine, theirs in self._alike(table, other)] or ["1 = 1"])
        key = self._one([f"o.{name}" for name in self.schema.tables[other]])
        measure = self._one(["COUNT(*)", *(f"SUM(t.{name})" for name in self._of(table, "integer", "decimal"))])
        return f"SELECT {key} AS k, {measure} AS m FROM {table} t {kind} {other} o ON {on} GROUP BY 1"  # noqa: S608

    def _alike(self, table: str, other: str) -> list[tuple[str, str]]:
        mine, theirs = self.schema.tables[table], self.schema.tables[other]
        return [(a, b) for a in mine for b in theirs if mine[a] == theirs[b]]

    def _few(self, most: int) -> int:
        return self.random.randint(1, most)

    def _measure(self, table: str) -> str:
        number = self._scalar(table, self._one(["integer", "decimal"]), 2)
        name = self._one(["COUNT(*)", "COUNT", "SUM", "SUM", "AVG", "VAR_SAMP", "STDDEV_POP", "COUNT(DISTINCT", "MIN"])
        text = name if name == "COUNT(*)" else f"{name} {number})" if "(" in name else f"{name}({number})"
        return f"{text} FILTER (WHERE {self._condition(table, 1)})" if self.random.random() < 0.2 else text

    def _where(self, table: str) -> str:
        return f" WHERE {self._condition(table, 2)}" if self.random.random() < 0.5 else ""

    def _condition(self, table: str, depth: int) -> str:
        return self._scalar(table, "boolean", depth)

    def _of(self, table: str, *types: str) -> list[str]:
        unit = self.schema.units.get(table) if self.random.random() < 0.95 else None
        return [name for name, type in self.schema.tables[table].items() if type in types and name != unit]

    def _scalar(self, table: str, type: str, depth: int) -> str:
        columns = self._of(table, type)
        if depth == 0 or self.random.random() < 0.3:
            return self._one(columns) if columns and self.random.random() < 0.85 else self._literal(type)
        if self.random.random() < 0.03:
            return self._one(HOSTILE)
        return self._one(self._forms(table, depth - 1)[type])()

    def _literal(self, type: str) -> str:
        spelled = {"text": TEXTS, "date": DATES, "timestamp": TIMES, "boolean": ("TRUE", "FALSE", "NULL::boolean")}
        return self._one(spelled.get(type, NUMBERS if type == "decimal" else ("0", "1", "-1", "7", "2147483648")))

    def _forms(self, table: str, depth: int) -> dict[str, list[Callable[[], str]]]:
        def s(type: str) -> str:
            return self._scalar(table, type, depth)

        def n() -> str:
            return s(self._one(["integer", "decimal"]))

        choice: Callable[[str], Callable[[], str]] = lambda type: (  # noqa: E731
            lambda: f"CASE WHEN {s('boolean')} THEN {s(type)} ELSE {s(type)} END"
        )
        either: Callable[[str], Callable[[], str]] = lambda type: lambda: f"COALESCE({s(type)}, {s(type)})"  # noqa: E731
        number: list[Callable[[], str]] = [
            lambda: f"({n()} {self._one(['+', '-', '*', '/', '%'])} {n()})",
            lambda: f"{self._one(['ABS', 'FLOOR', 'CEIL', 'ROUND', 'SIGN', 'SQRT', 'TRUNC'])}({n()})",
            lambda: f"{self._one(['LEAST', 'GREATEST'])}({n()}, {n()})",
            lambda: f"POWER({n()}, {self.random.randint(0, 9)})",
            lambda: f"CAST({s(self._one(['text', 'integer', 'decimal']))} AS numeric(12, 2))",
            lambda: f"NULLIF({n()}, {n()})",
            lambda: f"width_bucket({n()}, 0, 10, 5)",
            choice("decimal"),
            either("decimal"),
        ]
        integer: list[Callable[[], str]] = [
            lambda: f"({s('integer')} {self._one(['+', '-', '*', '/', '%', '//'])} {s('integer')})",
            lambda: f"LENGTH({s('text')})",
            lambda: f"CAST({s(self._one(['text', 'decimal', 'boolean']))} AS integer)",
            lambda: f"year({s('date')})",
            lambda: f"({s('date')} - {s('date')})",
            lambda: f"CAST(EXTRACT({self._one(PARTS)} FROM {s(self._one(['date', 'timestamp']))}) AS integer)",
            lambda: f"strpos({s('text')}, {s('text')})",
            choice("integer"),
        ]
        boolean: list[Callable[[], str]] = [
            lambda: f"{n()} {self._one(['=', '<>', '<', '<=', '>', '>='])} {n()}",
            lambda: f"{s('text')} {self._one(['=', '<', 'LIKE', 'ILIKE'])} {self._one(TEXTS)}",
            lambda: f"({s('boolean')} {self._one(['AND', 'OR'])} {s('boolean')})",
            lambda: f"NOT ({s('boolean')})",
            lambda: f"{s(self._one(['text', 'integer', 'date']))} IS NULL",
            lambda: f"{s('integer')} BETWEEN {s('integer')} AND {s('integer')}",
            lambda: f"{s('integer')} IN (1, 2, 3)",
            lambda: f"{s('date')} < {self._one(DATES)}",
        ]
        text: list[Callable[[], str]] = [
            lambda: f"{self._one(['LOWER', 'UPPER', 'TRIM'])}({s('text')})",
            lambda: f"SUBSTRING({s('text')}, {self.random.randint(-3, 5)}, {self.random.randint(0, 4)})",
            lambda: f"({s('text')} || {s('text')})",
            lambda: f"REPLACE({s('text')}, 'e', 'xyz')",
            lambda: f"CAST({s(self._one(['integer', 'decimal', 'boolean', 'date', 'timestamp']))} AS text)",
            lambda: f"LEFT({s('text')}, {s('integer')})",
            choice("text"),
        ]
        date: list[Callable[[], str]] = [
            lambda: f"({s('date')} + {s('integer')})",
            lambda: f"CAST({s('text')} AS date)",
            lambda: f"CAST(date_trunc('{self._one(UNITS)}', {s(self._one(['date', 'timestamp']))}) AS date)",
            lambda: f"CAST({s('date')} + INTERVAL '{self.random.randint(-30, 30)} months' AS date)",
        ]
        timestamp: list[Callable[[], str]] = [
            lambda: f"date_trunc('{self._one(UNITS)}', {s('timestamp')})",
            lambda: f"CAST({s('text')} AS timestamp)",
            lambda: f"({s('timestamp')} + INTERVAL '{self.random.randint(-99, 99)} hours')",
        ]
        return {
            "decimal": number,
            "integer": integer,
            "boolean": boolean,
            "text": text,
            "date": date,
            "timestamp": timestamp,
        }
