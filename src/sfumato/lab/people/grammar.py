"""Random questions over a schema, valid and hostile: what a fuzzer asks, one text per seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sfumato.lab.people.scalars import HOSTILE, Dice, Scalars

T = TypeVar("T")

_KEYS = ("text", "integer", "boolean", "date")
_MEASURES = (
    *("COUNT(*)", "COUNT", "SUM", "SUM", "AVG", "VAR_SAMP", "STDDEV_POP", "COUNT(DISTINCT", "MIN"),
    *("SUM(DISTINCT", "AVG(DISTINCT"),
)
_INSIDE = (*("COUNT(*)", "COUNT", "SUM", "AVG", "AVG", "MIN", "MAX", "MAX"), "SUM(DISTINCT", "AVG(DISTINCT", "VAR_SAMP")
LOW_BITS = ("1e2", "1e3", "1e5", "1e7", "1e9", "1e12")
"""What brings the last digits of a double before the point: where its value hangs on an order, these show it."""


@dataclass(frozen=True, slots=True)
class Schema:
    """Tables with the types of their columns; `public` ones are about nobody, `units` name people."""

    tables: Mapping[str, Mapping[str, str]]
    public: frozenset[str]
    units: Mapping[str, str]


class Grammar:
    """Questions over one schema, from one stream of choices."""

    def __init__(self, schema: Schema, random: Dice) -> None:
        self.schema, self.random = schema, random

    def query(self) -> str:
        """Return one question; about one in eight holds something that has to be refused or made harmless."""
        private = [name for name in self.schema.tables if name not in self.schema.public]
        table = self._one(private if self.random.random() < 0.95 else list(self.schema.tables))
        shapes = [self._grouped] * 6 + [self._total] * 4 + [self._per_unit] * 5 + [self._joined] * 4
        shapes += [self._with_public] * 4 + [self._with_values] * 2 + [self._nested] * 2 + [self._limited] * 2
        shapes += [self._looked_up] * 2 + [self._windowed] * 2
        text = self._one(shapes)(table)
        return text.replace("COUNT(*)", self._one(HOSTILE), 1) if self.random.random() < 0.04 else text

    def _one(self, choices: Sequence[T]) -> T:
        return self.random.choice(choices)

    def _few(self, most: int) -> int:
        return self.random.randint(1, most)

    def _columns(self, table: str, label: str = "") -> dict[str, str]:
        """Return the columns of a table as they are written below a label; the unit is seldom among them."""
        unit = self.schema.units.get(table) if self.random.random() < 0.95 else None
        return {f"{label}{name}": type for name, type in self.schema.tables[table].items() if name != unit}

    def _scalars(self, table: str) -> Scalars:
        return Scalars(self._columns(table), self.random)

    def _where(self, scalars: Scalars) -> str:
        return f" WHERE {scalars.condition(2)}" if self.random.random() < 0.5 else ""

    def _measure(self, scalars: Scalars, names: Sequence[str] = _MEASURES) -> str:
        name, number = self._one(names), scalars.number(2)
        if self.random.random() < 0.3:
            number = f"LEAST(GREATEST({number}, -2), {self._one(['3', '1000', '9e15'])})"
        text = name if name == "COUNT(*)" else f"{name} {number})" if "(" in name else f"{name}({number})"
        return f"{text} FILTER (WHERE {scalars.condition(1)})" if self.random.random() < 0.2 else text

    def _measures(self, scalars: Scalars, most: int) -> list[str]:
        return [self._measure(scalars) for _ in range(self._few(most))]

    def _select(self) -> str:
        """Return SELECT, now and then with a tighter bound on what one person adds."""
        if self.random.random() < 0.85:
            return "SELECT"
        option = self._one(["max_groups_contributed", "max_rows_contributed"])
        return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({option} = {self._few(3)})"

    def _keyed(self, keys: Sequence[str], measures: Sequence[str], source: str, tail: str = "") -> str:
        """Return a question that groups by keys."""
        names = [f"{key} AS k{i}" for i, key in enumerate(keys)] + [f"{m} AS m{i}" for i, m in enumerate(measures)]
        places = ", ".join(str(i + 1) for i in range(len(keys)))
        grouped = f" GROUP BY {places}" if keys else ""
        return f"{self._select()} {', '.join(names)} FROM {source}{grouped}{tail}"

    def _grouped(self, table: str) -> str:
        scalars = self._scalars(table)
        keys = [scalars.of(self._one(_KEYS), 1) for _ in range(self._few(2))]
        measures = self._measures(scalars, 3)
        tail = self._one(["", " HAVING COUNT(*) > 1", " ORDER BY 1 LIMIT 3", f" HAVING {measures[0]} IS NOT NULL"])
        return self._keyed(keys, measures, f"{table}{self._where(scalars)}", tail)

    def _looked_up(self, table: str) -> str:
        """Choose or mark rows by a subquery over a public table: each stays one row."""
        if not self.schema.public:
            return self._total(table)
        public, scalars = self._one(sorted(self.schema.public)), self._scalars(table)
        kind = self._one(["text", "integer"])
        inside = Scalars(self._columns(public), self.random)
        one, other = scalars.of(kind, 1), inside.of(kind, 1)
        listed = f"SELECT {other} FROM {public}{self._where(inside)}"  # noqa: S608
        test = self._one([f"{one} IN ({listed})", f"{one} NOT IN ({listed})", f"EXISTS ({listed})"])
        measures = self._measures(scalars, 2)
        if self.random.random() < 0.3:
            return self._keyed([f"CASE WHEN {test} THEN 1 ELSE 0 END"], measures, table)
        return self._keyed([], measures, f"{table} WHERE {test}")

    def _windowed(self, table: str) -> str:
        """Compute windows from the groups, and put answers together."""
        scalars = self._scalars(table)
        key, measure = scalars.of(self._one(_KEYS), 1), self._measure(scalars)
        inner = f"SELECT {key} AS k, {measure} AS m FROM {table}{self._where(scalars)} GROUP BY 1"  # noqa: S608
        over = self._one(["RANK() OVER (ORDER BY m)", "SUM(m) OVER (ORDER BY k)", "m - LAG(m) OVER (ORDER BY k)"])
        text = f"SELECT k, {over} AS x FROM ({inner}) AS t"  # noqa: S608
        if self.random.random() < 0.3:
            return f"{text} UNION ALL SELECT k, 0 FROM ({inner}) AS u"  # noqa: S608
        return text if self.random.random() < 0.7 else f"{text} WHERE m > (SELECT AVG(m) FROM ({inner}) AS u)"  # noqa: S608

    def _total(self, table: str) -> str:
        scalars = self._scalars(table)
        return self._keyed([], self._measures(scalars, 3), f"{table}{self._where(scalars)}")

    def _per_unit(self, table: str) -> str:
        """Fold each person's rows first; what is computed from the folds shows their last digits."""
        unit = self.schema.units.get(table)
        if unit is None:
            return self._total(table)
        scalars = self._scalars(table)
        second = scalars.of(self._one(_KEYS), 1) if self.random.random() < 0.3 else None
        folds = [f"{self._folded(scalars)} AS f{i}" for i in range(self._few(2))]
        listed = [unit, *([f"{second} AS g"] if second else []), *folds, "COUNT(*) AS n"]
        having = self._one(["", "", "", " HAVING COUNT(*) > 1", f" HAVING {self._measure(scalars, _INSIDE)} > 0"])
        rows, by = f"{table}{self._where(scalars)}", f"{unit}{', 2' * bool(second)}"
        inner = f"SELECT {', '.join(listed)} FROM {rows} GROUP BY {by}{having}"  # noqa: S608
        outer = Scalars({**{f"f{i}": "decimal" for i in range(len(folds))}, "n": "integer"}, self.random)
        source = f"({inner}) AS t{self._one(['', ' WHERE n > 1', f' WHERE {outer.condition(1)}'])}"
        keys = [self._one(["n", "g" if second else "n", self._digits(outer)])] if self.random.random() < 0.4 else []
        measures = self._measures(outer, 2) if self.random.random() < 0.5 else [f"SUM({self._digits(outer)})"]
        return self._keyed(keys, measures, source)

    def _folded(self, scalars: Scalars) -> str:
        """Return an aggregate of one person's rows: half of them of a column or its power, which soon leave 64 bits."""
        numbers = scalars.named("integer", "decimal")
        if not numbers or self.random.random() < 0.5:
            return self._measure(scalars, _INSIDE)
        number = self._one(numbers)
        number = number if self.random.random() < 0.3 else f"POWER({number}, {self.random.randint(2, 6)})"
        return f"{self._one(['AVG(', 'AVG(', 'SUM(', 'MAX(', 'MIN(', 'SUM(DISTINCT ', 'AVG(DISTINCT '])}{number})"

    def _digits(self, scalars: Scalars) -> str:
        """Return a small number that hangs on the last digits of another."""
        number = self._one([*scalars.columns, scalars.number(1)])
        number += self._one(["", "", *(f" * {power}" for power in LOW_BITS)])
        rounded = self._one(["FLOOR", "ROUND", "TRUNC", "ABS"])
        return f"{self._one([f'{rounded}({number})', f'CAST({number} AS integer)'])} % {self._one(['2', '7', '1000'])}"

    def _joined(self, table: str) -> str:
        other = self._one(list(self.schema.tables))
        kind = self._one(["JOIN", "JOIN", "LEFT JOIN"])
        mine, theirs = self._columns(table, "t."), self._columns(other, "o.")
        alike = [f"t.{a} = o.{b}" for a, b in self._alike(table, other)] or ["1 = 1"]
        both = Scalars({**mine, **theirs}, self.random)
        on = self._one([self._one(alike), self._one(alike), f"{self._one(alike)} AND {both.condition(1)}"])
        if self.random.random() < 0.2:
            type = self._one(_KEYS)
            on = f"{Scalars(mine, self.random).of(type, 1)} = {Scalars(theirs, self.random).of(type, 1)}"
        keys = [self._one([*theirs, both.of(self._one(_KEYS), 1)])] if self.random.random() < 0.7 else []
        source = f"{table} t {kind} {other} o ON {on}{self._where(both) if self.random.random() < 0.3 else ''}"
        return self._keyed(keys, self._measures(both, 2), source)

    def _alike(self, table: str, other: str) -> list[tuple[str, str]]:
        mine, theirs = self.schema.tables[table], self.schema.tables[other]
        return [(a, b) for a in mine for b in theirs if mine[a] == theirs[b]]

    def _with_public(self, table: str) -> str:
        """Join a private table by a computed key with something that is computed from public rows, doubles too."""
        public = self._one(sorted(self.schema.public)) if self.schema.public else None
        mine = Scalars(self._columns(table, "v."), self.random)
        given = self._values() if public is None or self.random.random() < 0.2 else None
        if given is not None:
            rows, scalars = f"{given} AS r (x, y, d)", Scalars({"x": "integer", "y": "decimal"}, self.random)
        else:
            rows, scalars = f"{public}", Scalars(dict(self.schema.tables[public or ""]), self.random)
        if self.random.random() < 0.25:
            rows = f"{rows} CROSS JOIN (VALUES (1), (2), (3)) AS i (c)"
            scalars = Scalars({**scalars.columns, "c": "integer"}, self.random)
        folds = [self._public_fold(scalars) for _ in range(2)]
        by = self._one([*scalars.named(*_KEYS)] or ["1"]) if self.random.random() < 0.6 else None
        inner = (
            f"SELECT {', '.join([*([f'{by} AS b'] if by else []), f'{folds[0]} AS a', f'{folds[1]} AS e'])} FROM {rows}"  # noqa: S608
        )
        inner += self._where(scalars) + (" GROUP BY 1" if by else "")
        folded = Scalars({"s.a": "decimal", "s.e": "decimal"}, self.random)
        some = f"CASE WHEN {folded.condition(1)} THEN 0 ELSE i.c END"
        many = f"{self._one(['FLOOR', 'ROUND'])}(s.a * {self._one(LOW_BITS)}) % 2 * i.c"
        key = self._one([self._digits(folded), some, many, many, "s.a", "i.c"])
        shown = f"SELECT {key} AS k, i.c AS c FROM ({inner}) s CROSS JOIN (VALUES (1), (2), (3), (4)) i(c)"  # noqa: S608
        on = self._one([f"{mine.of('integer', 1)} = p.k", self._zero(mine)])
        keys = [self._one(["p.c", "p.k"])] if self.random.random() < 0.3 else []
        kind = self._one(["JOIN", "LEFT JOIN"])
        return self._keyed(keys, self._measures(mine, 2), f"{table} v {kind} ({shown}) p ON {on}")

    def _public_fold(self, scalars: Scalars) -> str:
        """Return an aggregate of public rows, most often of a column as it is."""
        numbers, names = (
            scalars.named("integer", "decimal"),
            ("AVG", "VAR_SAMP", "STDDEV_POP", "SUM", "COUNT(*)", "MAX"),
        )
        if not numbers or self.random.random() < 0.3:
            return self._measure(scalars, names)
        return f"{self._one(['AVG', 'VAR_SAMP', 'STDDEV_POP', 'SUM'])}({self._one(numbers)})"

    def _zero(self, scalars: Scalars) -> str:
        """Return a comparison that every row with a value meets where the key is 0."""
        column = self._one([*scalars.named("integer"), "1"])
        return f"{column} - {column} = p.k"

    def _values(self) -> str:
        """Return a list of rows that the text spells out: integers, numbers of all sizes, texts."""
        numbers = [f"{self.random.randint(-999, 999)}e{self.random.randint(-12, 12)}" for _ in range(self._few(12))]
        return f"(VALUES {', '.join(f'({i % 3}, {n}, {self._text()})' for i, n in enumerate(numbers))})"

    def _text(self) -> str:
        return self._one(["'er'", "'icu'", "'rome'", "''", "'x'"])

    def _with_values(self, table: str) -> str:
        mine = Scalars(self._columns(table, "v."), self.random)
        both = Scalars({**mine.columns, "w.x": "integer", "w.y": "decimal", "w.d": "text"}, self.random)
        on = self._one([f"{mine.of('text', 1)} = w.d", f"{mine.of('integer', 1)} = w.x", f"{mine.number(1)} = w.y"])
        keys = [self._one(["w.x", "w.d", "w.y", both.of(self._one(_KEYS), 1)])] if self.random.random() < 0.6 else []
        kind = self._one(["JOIN", "LEFT JOIN"])
        source = f"{table} v {kind} {self._values()} AS w (x, y, d) ON {on}"
        return self._keyed(keys, self._measures(both, 2), source)

    def _nested(self, table: str) -> str:
        """Ask about an answer: everything above the noise."""
        scalars = self._scalars(table)
        keys = [scalars.of(self._one(_KEYS), 1) for _ in range(self._few(2))]
        tail = self._one(["", " HAVING COUNT(*) > 1", " ORDER BY 1 LIMIT 3"])
        names = [f"{key} AS k{i}" for i, key in enumerate(keys)] + [f"{self._measure(scalars)} AS n"]
        places = ", ".join(str(i + 1) for i in range(len(keys)))
        inner = f"SELECT {', '.join(names)} FROM {table}{self._where(scalars)} GROUP BY {places}{tail}"  # noqa: S608
        above = self._one(["AVG(n)", "MAX(n)", "SUM(GREATEST(n, 0))", "COUNT(*)", "STDDEV_POP(n)", "SUM(ABS(n))"])
        return f"SELECT {above} AS m FROM ({inner}) AS t{self._one(['', ' WHERE n > 1'])}"  # noqa: S608

    def _limited(self, table: str) -> str:
        """Aggregate above rows that were sorted, cut, made distinct or filtered below."""
        scalars = self._scalars(table)
        listed = [
            f"{scalars.of(type, 1)} AS {name}" for name, type in (("a", "integer"), ("b", "decimal"), ("c", "text"))
        ]
        distinct = self._one(["", "", "DISTINCT "])
        tail = self._one(["", " LIMIT 3", " ORDER BY 1, 2, 3 LIMIT 5 OFFSET 1", " ORDER BY 2"])
        inner = f"SELECT {distinct}{', '.join(listed)} FROM {table}{self._where(scalars)}{tail}"  # noqa: S608
        outer = Scalars({"a": "integer", "b": "decimal", "c": "text"}, self.random)
        keys = [self._one(["a", "c"])] if self.random.random() < 0.4 else []
        return self._keyed(keys, self._measures(outer, 2), f"({inner}) AS t")
