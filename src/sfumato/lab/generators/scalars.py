"""Random expressions over some columns, valid and hostile: the inside of what a fuzzer asks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")

NUMBERS = (
    *("0", "1", "-1", "2", "10", "0.5", "-3.25", "1e9", "0.000001", "9007199254740993"),
    *("9223372036854775807", "-9223372036854775808", "CAST('0.1' AS double precision)"),
)
INTEGERS = ("0", "1", "-1", "7", "2147483648")
TEXTS = (
    *("''", "'er'", "'a%b_c'", "'12'", "'-7.5'", "'2024-02-30'", "'2024-02-29'", "'%'", "'NaN'", "'-0.0'", "'é'"),
    *("'true'", "'</script>'", "'it''s'", f"'{'ab' * 700}'"),
)
PATTERNS = (*TEXTS, "'%o%o%o%'", "'_%_%_%'", "'%%%%%%%%e'", f"'%{'a_' * 90}%'")
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
NUMERIC = ("integer", "decimal")

_Form = Callable[[], str]


class Dice(Protocol):
    """A stream of choices, such as Python's random.Random; nothing private hangs on it."""

    def random(self) -> float:
        """Return a number in [0, 1)."""

    def randint(self, a: int, b: int) -> int:
        """Return an integer from a to b."""

    def choice(self, seq: Sequence[T]) -> T:
        """Return one of several."""


class Scalars:
    """Expressions over columns, which are given as they are written, with their types."""

    def __init__(self, columns: Mapping[str, str], random: Dice) -> None:
        self.columns, self.random = columns, random

    def one(self, choices: Sequence[T]) -> T:
        """Return one of several."""
        return self.random.choice(choices)

    def named(self, *types: str) -> list[str]:
        """Return the columns of these types."""
        return [name for name, type in self.columns.items() if type in types]

    def number(self, depth: int) -> str:
        """Return a number, whole or not."""
        return self.of(self.one(NUMERIC), depth)

    def condition(self, depth: int) -> str:
        """Return a condition."""
        return self.of("boolean", depth)

    def of(self, type: str, depth: int) -> str:
        """Return an expression of a type, nested so deep at most."""
        columns = self.named(type)
        if depth == 0 or self.random.random() < 0.3:
            return self.one(columns) if columns and self.random.random() < 0.85 else self.literal(type)
        if self.random.random() < 0.02:
            return self.one(HOSTILE)
        return self.one(self._forms(depth - 1)[type])()

    def literal(self, type: str) -> str:
        """Return a value that the text spells out."""
        spelled = {"text": TEXTS, "date": DATES, "timestamp": TIMES, "boolean": ("TRUE", "FALSE", "NULL::boolean")}
        return self.one(spelled.get(type, NUMBERS if type == "decimal" else INTEGERS))

    def _forms(self, depth: int) -> dict[str, list[_Form]]:
        return {
            "decimal": [*self._numbers(depth), *self._choices("decimal", depth)],
            "integer": [*self._integers(depth), *self._choices("integer", depth)],
            "boolean": self._conditions(depth),
            "text": [*self._texts(depth), *self._choices("text", depth)],
            "date": [*self._dates(depth), *self._choices("date", depth)],
            "timestamp": self._times(depth),
        }

    def _choices(self, type: str, depth: int) -> list[_Form]:
        return [
            lambda: f"CASE WHEN {self.condition(depth)} THEN {self.of(type, depth)} ELSE {self.of(type, depth)} END",
            lambda: f"COALESCE({self.of(type, depth)}, {self.of(type, depth)})",
            lambda: f"NULLIF({self.of(type, depth)}, {self.of(type, depth)})",
        ]

    def _numbers(self, depth: int) -> list[_Form]:
        def n() -> str:
            return self.number(depth)

        return [
            lambda: f"({n()} {self.one(['+', '-', '*', '/', '%'])} {n()})",
            lambda: f"{self.one(['ABS', 'FLOOR', 'CEIL', 'ROUND', 'SIGN', 'SQRT', 'TRUNC'])}({n()})",
            lambda: f"{self.one(['LEAST', 'GREATEST'])}({n()}, {n()})",
            lambda: f"POWER({n()}, {self.random.randint(0, 9)})",
            lambda: f"CAST({self.of(self.one(['text', *NUMERIC]), depth)} AS {self._numeric()})",
            lambda: f"width_bucket({n()}, 0, 10, 5)",
            lambda: f"({n()} {self.one(['/', '%'])} {self._divisor()})",
        ]

    def _divisor(self) -> str:
        """Return a key as a divisor: NULL instead of 0, or the length of a text, which may be 0."""
        numbers, texts = self.named(*NUMERIC) or ["7"], self.named("text") or ["'er'"]
        return self.one([f"NULLIF({self.one(numbers)}, 0)", f"LENGTH({self.one(texts)})"])

    def _numeric(self) -> str:
        """Return a type of numbers: floating ones are half of them."""
        return self.one(["numeric(12, 2)", "numeric", "double precision", "real"])

    def _integers(self, depth: int) -> list[_Form]:
        def s(type: str) -> str:
            return self.of(type, depth)

        return [
            lambda: f"({s('integer')} {self.one(['+', '-', '*', '/', '%', '//'])} {s('integer')})",
            lambda: f"LENGTH({s('text')})",
            lambda: f"({s('integer')} {self.one(['/', '//', '%'])} {self._divisor()})",
            lambda: f"CAST({s(self.one(['text', 'decimal', 'boolean']))} AS integer)",
            lambda: f"CAST(FLOOR({s('decimal')}) AS integer) % 7",
            lambda: f"year({s('date')})",
            lambda: f"({s('date')} - {s('date')})",
            lambda: f"CAST(EXTRACT({self.one(PARTS)} FROM {s(self.one(['date', 'timestamp']))}) AS integer)",
            lambda: f"strpos({s('text')}, {s('text')})",
        ]

    def _conditions(self, depth: int) -> list[_Form]:
        def s(type: str) -> str:
            return self.of(type, depth)

        def n() -> str:
            return self.number(depth)

        return [
            lambda: f"{n()} {self.one(['=', '<>', '<', '<=', '>', '>='])} {n()}",
            lambda: f"{s('text')} {self.one(['=', '<', 'LIKE', 'ILIKE'])} {self.one(PATTERNS)}",
            lambda: f"({s('boolean')} {self.one(['AND', 'OR'])} {s('boolean')})",
            lambda: f"NOT ({s('boolean')})",
            lambda: f"{s(self.one(['text', 'integer', 'date', 'decimal']))} IS {self.one(['', 'NOT '])}NULL",
            lambda: f"{s('integer')} BETWEEN {s('integer')} AND {s('integer')}",
            lambda: f"{s('integer')} IN (1, 2, 3)",
            lambda: f"{s('text')} IN ('er', 'oslo', 'rome')",
            lambda: f"{s('date')} {self.one(['<', '='])} {self.one(DATES)}",
            lambda: f"{n()} IS DISTINCT FROM {n()}",
        ]

    def _texts(self, depth: int) -> list[_Form]:
        def s(type: str) -> str:
            return self.of(type, depth)

        return [
            lambda: f"{self.one(['LOWER', 'UPPER', 'TRIM'])}({s('text')})",
            lambda: f"SUBSTRING({s('text')}, {self.random.randint(-3, 5)}, {self.random.randint(0, 4)})",
            lambda: f"({s('text')} || {s('text')})",
            lambda: f"REPLACE({s('text')}, 'e', 'xyz')",
            lambda: f"CAST({s(self.one(['integer', 'decimal', 'boolean', 'date', 'timestamp']))} AS text)",
            lambda: f"LEFT({s('text')}, {s('integer')})",
        ]

    def _dates(self, depth: int) -> list[_Form]:
        def s(type: str) -> str:
            return self.of(type, depth)

        return [
            lambda: f"({s('date')} + {s('integer')})",
            lambda: f"CAST({s('text')} AS date)",
            lambda: f"CAST(date_trunc('{self.one(UNITS)}', {s(self.one(['date', 'timestamp']))}) AS date)",
            lambda: f"CAST({s('date')} + INTERVAL '{self.random.randint(-30, 30)} months' AS date)",
        ]

    def _times(self, depth: int) -> list[_Form]:
        def s(type: str) -> str:
            return self.of(type, depth)

        return [
            lambda: f"date_trunc('{self.one(UNITS)}', {s('timestamp')})",
            lambda: f"CAST({s('text')} AS timestamp)",
            lambda: f"({s('timestamp')} + INTERVAL '{self.random.randint(-99, 99)} hours')",
        ]
