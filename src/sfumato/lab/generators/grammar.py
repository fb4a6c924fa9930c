"""Random questions over a schema, valid and hostile: what a fuzzer asks, one text per seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from sfumato.lab.generators.scalars import HOSTILE, Dice, Scalars
from sfumato.lab.generators.shapes import KEYS, SHAPES

T = TypeVar("T")

_MEASURES = (
    *("COUNT(*)", "COUNT", "SUM", "SUM", "AVG", "VAR_SAMP", "STDDEV_POP", "COUNT(DISTINCT", "MIN"),
    *("SUM(DISTINCT", "AVG(DISTINCT"),
)
_INSIDE = (*("COUNT(*)", "COUNT", "SUM", "AVG", "AVG", "MIN", "MAX", "MAX"), "SUM(DISTINCT", "AVG(DISTINCT", "VAR_SAMP")
LOW_BITS = ("1e2", "1e3", "1e5", "1e7", "1e9", "1e12")
"""Factors that move the last digits of a double before the point, so that an order dependence shows."""


@dataclass(frozen=True, slots=True)
class GrammarTables:
    """Tables with the types of their columns; `public` ones contain no personal data, `units` name people."""

    tables: Mapping[str, Mapping[str, str]]
    public: frozenset[str]
    units: Mapping[str, str]


class Grammar:
    """Questions over one schema, from one stream of choices."""

    def __init__(self, schema: GrammarTables, random: Dice) -> None:
        self.schema, self.random = schema, random
        self.shape = ""
        """Shape of the last generated query."""

    def query(self) -> str:
        """Return one question; about one in eight holds something that has to be refused or made harmless."""
        private = [name for name in self.schema.tables if name not in self.schema.public]
        table = self.one(private if self.random.random() < 0.95 else list(self.schema.tables))
        shapes = [self._grouping_query] * 6 + [self._total] * 4 + [self._per_unit] * 5 + [self._join_query] * 4
        shapes += (
            [self._with_public] * 4 + [self._with_values] * 2 + [self._nested_query] * 2 + [self._limited_query] * 2
        )
        shapes += [self._looked_up] * 2 + [self._window_query] * 2
        shapes += [partial(shape, self) for shape in SHAPES]
        shape = self.one(shapes)
        self.shape = (shape.func if isinstance(shape, partial) else shape).__name__.lstrip("_")
        text = shape(table)
        return text.replace("COUNT(*)", self.one(HOSTILE), 1) if self.random.random() < 0.04 else text

    def one(self, choices: Sequence[T]) -> T:
        """Return one of several."""
        return self.random.choice(choices)

    def few(self, most: int) -> int:
        """Return a number from 1 on."""
        return self.random.randint(1, most)

    def columns(self, table: str, label: str = "") -> dict[str, str]:
        """Return the columns of a table as they are written below a label; the unit is seldom among them."""
        unit = self.schema.units.get(table) if self.random.random() < 0.95 else None
        return {f"{label}{name}": type for name, type in self.schema.tables[table].items() if name != unit}

    def unit(self, table: str) -> str | None:
        """Return the column that names people; a public table has none."""
        return self.schema.units.get(table)

    def scalars(self, table: str) -> Scalars:
        """Return expressions over a table."""
        return Scalars(self.columns(table), self.random)

    def where(self, scalars: Scalars) -> str:
        """Return a WHERE, or nothing."""
        return f" WHERE {scalars.condition(2)}" if self.random.random() < 0.5 else ""

    def measure(self, scalars: Scalars, names: Sequence[str] = _MEASURES) -> str:
        """Return an aggregate, now and then with FILTER."""
        name, number = self.one(names), scalars.number(2)
        if self.random.random() < 0.3:
            number = f"LEAST(GREATEST({number}, -2), {self.one(['3', '1000', '9e15'])})"
        text = name if name == "COUNT(*)" else f"{name} {number})" if "(" in name else f"{name}({number})"
        return f"{text} FILTER (WHERE {scalars.condition(1)})" if self.random.random() < 0.2 else text

    def measures(self, scalars: Scalars, most: int) -> list[str]:
        """Return some aggregates."""
        return [self.measure(scalars) for _ in range(self.few(most))]

    def _select(self) -> str:
        """Return SELECT, now and then with a tighter bound on what one person adds."""
        if self.random.random() < 0.85:
            return "SELECT"
        option = self.one(["max_groups_contributed", "max_rows_contributed"])
        return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({option} = {self.few(3)})"

    def keyed(self, keys: Sequence[str], measures: Sequence[str], source: str, tail: str = "") -> str:
        """Return a question that groups by keys."""
        names = [f"{key} AS k{i}" for i, key in enumerate(keys)] + [f"{m} AS m{i}" for i, m in enumerate(measures)]
        places = ", ".join(str(i + 1) for i in range(len(keys)))
        grouped = f" GROUP BY {places}" if keys else ""
        return f"{self._select()} {', '.join(names)} FROM {source}{grouped}{tail}"

    def _grouping_query(self, table: str) -> str:
        scalars = self.scalars(table)
        keys = [scalars.of(self.one(KEYS), 1) for _ in range(self.few(2))]
        measures = self.measures(scalars, 3)
        tail = self.one(["", " HAVING COUNT(*) > 1", " ORDER BY 1 LIMIT 3", f" HAVING {measures[0]} IS NOT NULL"])
        return self.keyed(keys, measures, f"{table}{self.where(scalars)}", tail)

    def _looked_up(self, table: str) -> str:
        """Choose or mark rows by a subquery over a public table: each stays one row."""
        if not self.schema.public:
            return self._total(table)
        public, scalars = self.one(sorted(self.schema.public)), self.scalars(table)
        kind = self.one(["text", "integer"])
        inside = Scalars(self.columns(public), self.random)
        first, second = scalars.of(kind, 1), inside.of(kind, 1)
        listed = f"SELECT {second} FROM {public}{self.where(inside)}"  # noqa: S608
        test = self.one([f"{first} IN ({listed})", f"{first} NOT IN ({listed})", f"EXISTS ({listed})"])
        measures = self.measures(scalars, 2)
        if self.random.random() < 0.3:
            return self.keyed([f"CASE WHEN {test} THEN 1 ELSE 0 END"], measures, table)
        return self.keyed([], measures, f"{table} WHERE {test}")

    def _window_query(self, table: str) -> str:
        """Compute windows from the groups, and put answers together."""
        scalars = self.scalars(table)
        key, measure = scalars.of(self.one(KEYS), 1), self.measure(scalars)
        inner = f"SELECT {key} AS k, {measure} AS m FROM {table}{self.where(scalars)} GROUP BY 1"  # noqa: S608
        over = self.one(["RANK() OVER (ORDER BY m)", "SUM(m) OVER (ORDER BY k)", "m - LAG(m) OVER (ORDER BY k)"])
        text = f"SELECT k, {over} AS x FROM ({inner}) AS t"  # noqa: S608
        if self.random.random() < 0.3:
            return f"{text} UNION ALL SELECT k, 0 FROM ({inner}) AS u"  # noqa: S608
        return text if self.random.random() < 0.7 else f"{text} WHERE m > (SELECT AVG(m) FROM ({inner}) AS u)"  # noqa: S608

    def _total(self, table: str) -> str:
        scalars = self.scalars(table)
        return self.keyed([], self.measures(scalars, 3), f"{table}{self.where(scalars)}")

    def _per_unit(self, table: str) -> str:
        """Fold each person's rows first; what is computed from the folds shows their last digits."""
        unit = self.schema.units.get(table)
        if unit is None:
            return self._total(table)
        scalars = self.scalars(table)
        second = scalars.of(self.one(KEYS), 1) if self.random.random() < 0.3 else None
        folds = [f"{self._aggregate_of_rows(scalars)} AS f{i}" for i in range(self.few(2))]
        listed = [unit, *([f"{second} AS g"] if second else []), *folds, "COUNT(*) AS n"]
        having = self.one(["", "", "", " HAVING COUNT(*) > 1", f" HAVING {self.measure(scalars, _INSIDE)} > 0"])
        rows, by = f"{table}{self.where(scalars)}", f"{unit}{', 2' * bool(second)}"
        inner = f"SELECT {', '.join(listed)} FROM {rows} GROUP BY {by}{having}"  # noqa: S608
        outer = Scalars({**{f"f{i}": "decimal" for i in range(len(folds))}, "n": "integer"}, self.random)
        source = f"({inner}) AS t{self.one(['', ' WHERE n > 1', f' WHERE {outer.condition(1)}'])}"
        keys = [self.one(["n", "g" if second else "n", self._digits(outer)])] if self.random.random() < 0.4 else []
        measures = self.measures(outer, 2) if self.random.random() < 0.5 else [f"SUM({self._digits(outer)})"]
        return self.keyed(keys, measures, source)

    def _aggregate_of_rows(self, scalars: Scalars) -> str:
        """Return an aggregate of one person's rows: half of them of a column or its power, which soon leave 64 bits."""
        numbers = scalars.named("integer", "decimal")
        if not numbers or self.random.random() < 0.5:
            return self.measure(scalars, _INSIDE)
        number = self.one(numbers)
        number = number if self.random.random() < 0.3 else f"POWER({number}, {self.random.randint(2, 6)})"
        return f"{self.one(['AVG(', 'AVG(', 'SUM(', 'MAX(', 'MIN(', 'SUM(DISTINCT ', 'AVG(DISTINCT '])}{number})"

    def _digits(self, scalars: Scalars) -> str:
        """Return a small number that hangs on the last digits of another."""
        number = self.one([*scalars.columns, scalars.number(1)])
        number += self.one(["", "", *(f" * {power}" for power in LOW_BITS)])
        rounded = self.one(["FLOOR", "ROUND", "TRUNC", "ABS"])
        return f"{self.one([f'{rounded}({number})', f'CAST({number} AS integer)'])} % {self.one(['2', '7', '1000'])}"

    def _join_query(self, table: str) -> str:
        other = self.one(list(self.schema.tables))
        kind = self.one(["JOIN", "JOIN", "LEFT JOIN"])
        mine, theirs = self.columns(table, "t."), self.columns(other, "o.")
        alike = [f"t.{a} = o.{b}" for a, b in self._comparable_columns(table, other)] or ["1 = 1"]
        both = Scalars({**mine, **theirs}, self.random)
        on = self.one([self.one(alike), self.one(alike), f"{self.one(alike)} AND {both.condition(1)}"])
        if self.random.random() < 0.2:
            type = self.one(KEYS)
            on = f"{Scalars(mine, self.random).of(type, 1)} = {Scalars(theirs, self.random).of(type, 1)}"
        keys = [self.one([*theirs, both.of(self.one(KEYS), 1)])] if self.random.random() < 0.7 else []
        source = f"{table} t {kind} {other} o ON {on}{self.where(both) if self.random.random() < 0.3 else ''}"
        return self.keyed(keys, self.measures(both, 2), source)

    def _comparable_columns(self, table: str, other: str) -> list[tuple[str, str]]:
        mine, theirs = self.schema.tables[table], self.schema.tables[other]
        return [(a, b) for a in mine for b in theirs if mine[a] == theirs[b]]

    def _with_public(self, table: str) -> str:
        """Join a private table by a computed key with something that is computed from public rows, doubles too."""
        public = self.one(sorted(self.schema.public)) if self.schema.public else None
        mine = Scalars(self.columns(table, "v."), self.random)
        values = self._values() if public is None or self.random.random() < 0.2 else None
        if values is not None:
            rows, scalars = f"{values} AS r (x, y, d)", Scalars({"x": "integer", "y": "decimal"}, self.random)
        else:
            rows, scalars = f"{public}", Scalars(dict(self.schema.tables[public or ""]), self.random)
        if self.random.random() < 0.25:
            rows = f"{rows} CROSS JOIN (VALUES (1), (2), (3)) AS i (c)"
            scalars = Scalars({**scalars.columns, "c": "integer"}, self.random)
        folds = [self._public_fold(scalars) for _ in range(2)]
        by = self.one([*scalars.named(*KEYS)] or ["1"]) if self.random.random() < 0.6 else None
        inner = (
            f"SELECT {', '.join([*([f'{by} AS b'] if by else []), f'{folds[0]} AS a', f'{folds[1]} AS e'])} FROM {rows}"  # noqa: S608
        )
        inner += self.where(scalars) + (" GROUP BY 1" if by else "")
        folded = Scalars({"s.a": "decimal", "s.e": "decimal"}, self.random)
        some = f"CASE WHEN {folded.condition(1)} THEN 0 ELSE i.c END"
        many = f"{self.one(['FLOOR', 'ROUND'])}(s.a * {self.one(LOW_BITS)}) % 2 * i.c"
        key = self.one([self._digits(folded), some, many, many, "s.a", "i.c"])
        shown = f"SELECT {key} AS k, i.c AS c FROM ({inner}) s CROSS JOIN (VALUES (1), (2), (3), (4)) i(c)"  # noqa: S608
        on = self.one([f"{mine.of('integer', 1)} = p.k", self._zero(mine)])
        keys = [self.one(["p.c", "p.k"])] if self.random.random() < 0.3 else []
        kind = self.one(["JOIN", "LEFT JOIN"])
        return self.keyed(keys, self.measures(mine, 2), f"{table} v {kind} ({shown}) p ON {on}")

    def _public_fold(self, scalars: Scalars) -> str:
        """Return an aggregate of public rows, most often of a column as it is."""
        numbers, names = (
            scalars.named("integer", "decimal"),
            ("AVG", "VAR_SAMP", "STDDEV_POP", "SUM", "COUNT(*)", "MAX"),
        )
        if not numbers or self.random.random() < 0.3:
            return self.measure(scalars, names)
        return f"{self.one(['AVG', 'VAR_SAMP', 'STDDEV_POP', 'SUM'])}({self.one(numbers)})"

    def _zero(self, scalars: Scalars) -> str:
        """Return a comparison that every row with a value meets where the key is 0."""
        column = self.one([*scalars.named("integer"), "1"])
        return f"{column} - {column} = p.k"

    def _values(self) -> str:
        """Return a list of rows that the text spells out: integers, numbers of all sizes, texts."""
        numbers = [f"{self.random.randint(-999, 999)}e{self.random.randint(-12, 12)}" for _ in range(self.few(12))]
        return f"(VALUES {', '.join(f'({i % 3}, {n}, {self._text()})' for i, n in enumerate(numbers))})"

    def _text(self) -> str:
        return self.one(["'er'", "'icu'", "'rome'", "''", "'x'"])

    def _with_values(self, table: str) -> str:
        mine = Scalars(self.columns(table, "v."), self.random)
        both = Scalars({**mine.columns, "w.x": "integer", "w.y": "decimal", "w.d": "text"}, self.random)
        on = self.one([f"{mine.of('text', 1)} = w.d", f"{mine.of('integer', 1)} = w.x", f"{mine.number(1)} = w.y"])
        keys = [self.one(["w.x", "w.d", "w.y", both.of(self.one(KEYS), 1)])] if self.random.random() < 0.6 else []
        kind = self.one(["JOIN", "LEFT JOIN"])
        source = f"{table} v {kind} {self._values()} AS w (x, y, d) ON {on}"
        return self.keyed(keys, self.measures(both, 2), source)

    def _nested_query(self, table: str) -> str:
        """Ask about an answer: everything above the noise."""
        scalars = self.scalars(table)
        keys = [scalars.of(self.one(KEYS), 1) for _ in range(self.few(2))]
        tail = self.one(["", " HAVING COUNT(*) > 1", " ORDER BY 1 LIMIT 3"])
        names = [f"{key} AS k{i}" for i, key in enumerate(keys)] + [f"{self.measure(scalars)} AS n"]
        places = ", ".join(str(i + 1) for i in range(len(keys)))
        inner = f"SELECT {', '.join(names)} FROM {table}{self.where(scalars)} GROUP BY {places}{tail}"  # noqa: S608
        above = self.one(["AVG(n)", "MAX(n)", "SUM(GREATEST(n, 0))", "COUNT(*)", "STDDEV_POP(n)", "SUM(ABS(n))"])
        return f"SELECT {above} AS m FROM ({inner}) AS t{self.one(['', ' WHERE n > 1'])}"  # noqa: S608

    def _limited_query(self, table: str) -> str:
        """Aggregate above rows that were sorted, cut, made distinct or filtered below."""
        scalars = self.scalars(table)
        listed = [
            f"{scalars.of(type, 1)} AS {name}" for name, type in (("a", "integer"), ("b", "decimal"), ("c", "text"))
        ]
        distinct = self.one(["", "", "DISTINCT "])
        tail = self.one(["", " LIMIT 3", " ORDER BY 1, 2, 3 LIMIT 5 OFFSET 1", " ORDER BY 2"])
        inner = f"SELECT {distinct}{', '.join(listed)} FROM {table}{self.where(scalars)}{tail}"  # noqa: S608
        outer = Scalars({"a": "integer", "b": "decimal", "c": "text"}, self.random)
        keys = [self.one(["a", "c"])] if self.random.random() < 0.4 else []
        return self.keyed(keys, self.measures(outer, 2), f"({inner}) AS t")
