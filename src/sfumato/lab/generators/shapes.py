"""Random queries: quantiles, pairs, roll-ups, lists, cross-unit joins and per-person computations."""

# ruff: noqa: S608  (texts for a fuzzer; the parser is what is tested)

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from sfumato.lab.generators.scalars import Scalars

T = TypeVar("T")
KEYS = ("text", "integer", "boolean", "date")
_QUANTILE_FORMS = ("MEDIAN({})", "QUANTILE_CONT({}, 0.9)", "QUANTILE_DISC({}, 0.25)", "MIN({})", "MAX({})", "MODE({})")
_PAIR_FUNCTIONS = (
    "CORR",
    "COVAR_POP",
    "COVAR_SAMP",
    "REGR_SLOPE",
    "REGR_INTERCEPT",
    "REGR_R2",
    "REGR_AVGX",
    "REGR_SYY",
)
_ROLL_UPS = ("ROLLUP (1, 2)", "CUBE (1, 2)", "GROUPING SETS ((1, 2), (1), ())", "GROUPING SETS ((1), (2))")


class Phrases(Protocol):
    """Building blocks of random queries; a grammar provides them."""

    def one(self, choices: Sequence[T]) -> T:
        """Return one of several."""

    def few(self, most: int) -> int:
        """Return a number from 1 on."""

    def unit(self, table: str) -> str | None:
        """Return the column that names people."""

    def columns(self, table: str, label: str = "") -> dict[str, str]:
        """Return the columns of a table, as they are written below a label."""

    def scalars(self, table: str) -> Scalars:
        """Return expressions over a table."""

    def where(self, scalars: Scalars) -> str:
        """Return a WHERE, or nothing."""

    def measure(self, scalars: Scalars) -> str:
        """Return an aggregate."""


def quantile_query(say: Phrases, table: str) -> str:
    """Quantiles, extremes and modes, of bounded and of any numbers, in groups or of all."""
    scalars = say.scalars(table)
    columns = scalars.named("integer", "decimal", "date") or ["1"]
    number = say.one([say.one(columns), f"LEAST(GREATEST({scalars.number(1)}, 0), {say.one(['9', '500'])})"])
    measures = [f"{say.one(_QUANTILE_FORMS).format(number)} AS m{index}" for index in range(say.few(3))]
    key = say.one(scalars.named("text", "boolean") or ["1"]) if say.few(2) == 1 else None  # each cell takes a while
    shown = ", ".join([*([f"{key} AS k"] if key else []), *measures])
    return f"SELECT {shown} FROM {table}{say.where(scalars)}{' GROUP BY 1' if key else ''}"


def pair_query(say: Phrases, table: str) -> str:
    """Functions of two columns."""
    scalars = say.scalars(table)
    both = [f"LEAST(GREATEST({scalars.number(1)}, -5), {say.one(['7', '100'])})" for _ in range(2)]
    shown = ", ".join(f"{say.one(_PAIR_FUNCTIONS)}({both[0]}, {both[1]}) AS m{index}" for index in range(say.few(2)))
    return f"SELECT {shown}, COUNT(*) AS n FROM {table}{say.where(scalars)}"


def grouping_sets_query(say: Phrases, table: str) -> str:
    """Several groupings of the same rows."""
    scalars = say.scalars(table)
    keys = [scalars.of(say.one(KEYS), 1) for _ in range(2)]
    measure = say.measure(scalars)
    shown = f"{keys[0]} AS k0, {keys[1]} AS k1, {measure} AS m, COUNT(*) AS n"
    return f"SELECT {shown} FROM {table}{say.where(scalars)} GROUP BY {say.one(_ROLL_UPS)}"


def cross_unit_query(say: Phrases, table: str) -> str:
    """Rows of different people that have something in common."""
    scalars = say.scalars(table)
    common = scalars.named(*KEYS)[:4] or ["1"]
    names = dict.fromkeys(say.one(common) for _ in range(say.few(2)))
    on = " AND ".join(f"a.{name} = b.{name}" for name in names)
    unit = say.unit(table)
    apart = f" AND a.{unit} {say.one(['<>', '<', '='])} b.{unit}" if unit is not None and say.few(3) == 1 else ""
    mine = Scalars(say.columns(table, "a."), scalars.random)
    count = say.one(["COUNT(*)", "COUNT(*)", "COUNT(*)", "SUM(1)", f"COUNT({mine.number(1)})"])
    key = say.one([f"a.{name}" for name in common]) if say.few(3) == 1 else None
    shown = f"{key} AS k, {count} AS m" if key else f"{count} AS m"
    by = " GROUP BY 1" if key else ""
    return f"SELECT {shown} FROM {table} a JOIN {table} b ON {on}{apart}{say.where(mine)}{by}"


def largest_groups(say: Phrases, table: str) -> str:
    """The largest groups, whose keys may be undeclared."""
    scalars = say.scalars(table)
    unit = say.unit(table) or "1"
    key, most = scalars.of(say.one(("text", "integer")), 1), say.few(3)
    if say.few(4) == 1:
        return f"SELECT {say.one([f'APPROX_TOP_K({key}, {most})', f'MODE({key})', f'HISTOGRAM({key})'])} FROM {table}"
    count = say.one([f"COUNT(DISTINCT {unit})", "COUNT(*)", f"SUM(LEAST(GREATEST({scalars.number(1)}, 0), 5))"])
    tail = say.one(["", f" OFFSET {most}"])
    rows = f"{table}{say.where(scalars)}"
    return f"SELECT {key} AS k, {count} AS m FROM {rows} GROUP BY 1 ORDER BY m DESC LIMIT {most}{tail}"


def own(say: Phrases, table: str) -> str:
    """Rows chosen by other rows of the same person."""
    unit, scalars = say.unit(table), say.scalars(table)
    if unit is None:
        return grouping_sets_query(say, table)
    inner = f"SELECT {unit} FROM {table}{say.where(scalars)}"
    tests = [f"{unit} IN ({inner})", f"{unit} NOT IN ({inner})"]
    alike = f"SELECT 1 FROM {table} i WHERE i.{unit} = {table}.{unit} AND {say.scalars(table).condition(1)}"
    tests += [f"EXISTS ({alike})", f"NOT EXISTS ({alike})"]
    return f"SELECT {say.measure(scalars)} AS m FROM {table} WHERE {say.one(tests)}"


def window_query(say: Phrases, table: str) -> str:
    """Windows inside a person's rows."""
    unit, scalars = say.unit(table), say.scalars(table)
    if unit is None:
        return pair_query(say, table)
    order = say.one([*scalars.columns, scalars.number(1)])
    number = f"LEAST(GREATEST({scalars.number(1)}, -9), 9)"
    window = say.one(
        [
            "ROW_NUMBER()",
            "RANK()",
            f"SUM({number})",
            f"LAG({number})",
            f"LAG({number}, 2, 0)",
            f"MAX({number})",
            "COUNT(*)",
        ]
    )
    frame = " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW" if window[:3] in {"SUM", "MAX"} and say.few(2) == 1 else ""
    inner = f"SELECT {unit}, {window} OVER (PARTITION BY {unit} ORDER BY {order}{frame}) AS w FROM {table}"
    shown = say.one(["COUNT(*)", "SUM(LEAST(GREATEST(w, -3), 3))", "AVG(LEAST(GREATEST(w, 0), 10))"])
    tail = say.one(["", " WHERE w = 1", " WHERE w > 1", " GROUP BY w"])
    return f"SELECT {shown} AS m FROM ({inner}{say.where(scalars)}) AS t{tail}"


def union_all_query(say: Phrases, table: str) -> str:
    """Rows of two tables below one another."""
    unit, scalars = say.unit(table), say.scalars(table)
    if unit is None:
        return grouping_sets_query(say, table)
    kind = say.one(["UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT"])
    columns = [f"{unit} AS p, {scalars.of('text', 1)} AS c, {scalars.of('integer', 1)} AS n" for _ in range(2)]
    parts = [f"SELECT {shown} FROM {table}{say.where(scalars)}" for shown in columns]
    shown = say.one(["COUNT(*)", "COUNT(DISTINCT p)", "SUM(LEAST(GREATEST(n, 0), 5))"])
    key = say.few(2) == 1
    return f"SELECT {'c, ' * key}{shown} AS m FROM ({f' {kind} '.join(parts)}) AS t{' GROUP BY c' * key}"


def many_ranked(say: Phrases, table: str) -> str:
    """Many quantiles, of one column or of several, each with its own condition or all without one."""
    scalars = say.scalars(table)
    numbers = scalars.named("integer", "decimal", "date") or ["1"]
    column, count = say.one(numbers), 4 + 2 * say.few(8)
    kind = say.few(3)
    measures = []
    for index in range(count):
        number = column if kind == 1 else say.one(numbers)
        level = f"0.{say.few(999):03}"
        condition = f" FILTER (WHERE {scalars.condition(1)})" if kind == 3 and say.few(3) == 1 else ""
        measures.append(f"{say.one(['QUANTILE_CONT', 'QUANTILE_DISC'])}({number}, {level}){condition} AS m{index}")
    return f"SELECT {', '.join(measures)} FROM {table}{say.where(scalars)}"


def variance_query(say: Phrases, table: str) -> str:
    """Variances, deviations and correlations of columns as they are, whose bounds may be chosen, with conditions."""
    scalars = say.scalars(table)
    numbers = scalars.named("integer", "decimal") or ["1"]
    measures = []
    for index in range(say.few(3)):
        first, second = say.one(numbers), say.one(numbers)
        measure = say.one(
            [
                f"VAR_POP({first})",
                f"VAR_SAMP({first})",
                f"STDDEV({first})",
                f"CORR({first}, {second})",
                f"COVAR_POP({first}, {second})",
                f"AVG({first})",
                f"SUM({first})",
            ]
        )
        condition = f" FILTER (WHERE {scalars.condition(1)})" if say.few(2) == 1 else ""
        measures.append(f"{measure}{condition} AS m{index}")
    key = say.one(scalars.named(*KEYS) or ["1"]) if say.few(3) == 1 else None
    shown = ", ".join([*([f"{key} AS k"] if key else []), *measures])
    return f"SELECT {shown} FROM {table}{say.where(scalars)}{' GROUP BY 1' if key else ''}"


def many_groups(say: Phrases, table: str) -> str:
    """Keys of many values, of which one person may have a row with each, bounded by the policy or by the question."""
    scalars = say.scalars(table)
    keys = scalars.named("integer", "text") or ["1"]
    key = say.one([say.one(keys), say.one(keys), f"{say.one(keys)} IS NULL"])
    options = f" WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = {say.one([1, 5, 127, 128, 200])})"
    measures = [say.measure(scalars), say.one(["COUNT(*)", f"COUNT(DISTINCT {say.unit(table) or '*'})"])]
    condition = f" FILTER (WHERE {scalars.condition(1)})" if say.few(2) == 1 and "FILTER" not in measures[0] else ""
    shown = f"{key} AS k, {measures[0]}{condition} AS m, {measures[1]} AS n"
    return f"SELECT{options * (say.few(2) == 1)} {shown} FROM {table}{say.where(scalars)} GROUP BY 1"


def array_query(say: Phrases, table: str) -> str:
    """Comparisons with the members of arrays, some of them NULL, in every spelling."""
    scalars = say.scalars(table)
    column = say.one(scalars.named("integer") or ["1"])
    members = ", ".join(say.one(["0", "1", "2", "7", "40", "NULL"]) for _ in range(say.few(3)))
    array = say.one([f"ARRAY[{members}]", f"'{{{members}}}'", f"'{{{members}}}'::bigint[]", "'{}'::integer[]"])
    compared = say.one(["{} = ANY({})", "{} <> ALL({})", "NOT {} = SOME({})", "{} < ANY({})", "{} >= ALL({})"])
    condition = compared.format(column, array)
    key = say.one(scalars.named("text", "boolean") or ["1"])
    where = say.one([f" WHERE {condition}", f" WHERE {condition} OR {scalars.condition(1)}", ""])
    measure = f"COUNT(*) FILTER (WHERE {condition}) AS n" if not where else f"{say.measure(scalars)} AS n"
    return f"SELECT {key} AS k, {measure} FROM {table}{where} GROUP BY 1"


def interval_query(say: Phrases, table: str) -> str:
    """Error bars as values: of aggregates, above a subquery, in conditions and orders; also below the noise."""
    scalars = say.scalars(table)
    key, measure = say.one(scalars.named("text", "boolean") or ["1"]), say.measure(scalars)
    inner = f"SELECT {key} AS k, {measure} AS x, COUNT(*) AS n FROM {table}{say.where(scalars)} GROUP BY 1"
    end = say.one(["dp_low", "dp_high", "dp_margin", "DP_INTERVAL_LOW"])
    above = f"SELECT k, x, {end}(x) AS e, {end}(n / SUM(n) OVER ()) AS s FROM ({inner}) AS t"
    return say.one(
        [
            above,
            f"SELECT k, {end}(x) AS e FROM ({inner}) AS t WHERE {end}(n) > 1 ORDER BY {end}(x) LIMIT 2",
            f"SELECT MAX({end}(x)) AS e, SUM(n) AS n FROM ({inner}) AS t",
            f"SELECT {key} AS k, COUNT(*) AS n, {end}(n) AS e FROM {table} GROUP BY 1 HAVING {end}(COUNT(*)) < 9",
            f"SELECT SUM({end}({scalars.number(1)})) AS e FROM {table}",
        ]
    )


def share_query(say: Phrases, table: str) -> str:
    """Quotients of counts and sums, which keep their fraction where PostgreSQL's do."""
    scalars = say.scalars(table)
    key, column = say.one(scalars.named("text", "boolean") or ["1"]), say.one(scalars.named("integer") or ["1"])
    inner = f"SELECT {key} AS k, COUNT(*) AS n, SUM({column}) AS s FROM {table}{say.where(scalars)} GROUP BY 1"
    share = say.one(["n / SUM(n) OVER ()", "s / n", "n / 2", "SAFE_DIVIDE(s, n)", "s / NULLIF(n, 0)"])
    return f"SELECT k, {share} AS share FROM ({inner}) AS t"


def listed_tables(say: Phrases, table: str) -> str:
    """A FROM list in any order: people's tables by the person, and rows that the text spells out."""
    unit, scalars = say.unit(table), say.scalars(table)
    key = say.one(scalars.named("integer") or ["1"])
    tables = [f"{table} AS a", f"{table} AS b", "(VALUES (0, 1), (1, 1), (2, 5)) AS v (x, y)"]
    tables += [say.one(["(VALUES (1, 'p'), (5, 'q')) AS w (z, t)", "generate_series(0, 5) AS w (z)"])]
    conditions = [f"a.{unit} = b.{unit}" if unit else f"a.{key} = b.{key}", f"a.{key} = v.x", "v.y = w.z"]
    order = [tables.pop(say.few(len(tables)) - 1) for _ in range(4)]
    shown = say.one(["COUNT(*) AS n", f"SUM(a.{key}) AS n", "v.y AS k, COUNT(*) AS n"])
    group = " GROUP BY 1" if " AS k" in shown else ""
    return f"SELECT {shown} FROM {', '.join(order)} WHERE {' AND '.join(conditions)}{group}"


SHAPES: tuple[Callable[[Phrases, str], str], ...] = (
    *(
        quantile_query,
        pair_query,
        grouping_sets_query,
        cross_unit_query,
        largest_groups,
        own,
        window_query,
        union_all_query,
    ),
    *(many_ranked, variance_query, variance_query, many_groups, many_groups),
    *(array_query, interval_query, share_query, listed_tables),
)
"""Each takes what questions are put together from, and a table."""
