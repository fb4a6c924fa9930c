"""Bugs to plant again: what was once wrong with the house, each as the change that would bring it back."""

from sfumato.lab.planted_bug import Bug, planned

_EVEN = "tests/statistical/test_evenness.py"
_ENFORCED = "tests/paths/test_enforcement.py"

FINDINGS: tuple[Bug, ...] = (
    planned(
        "public rows hold sums of doubles",
        "neighbours",
        ("analysis/joins.py", "    _check_exact(other.flow, join.at)\n", ""),
    ),
    planned(
        "public rows are computed again in the statement",
        "neighbours",
        ("analysis/joins.py", "    _check_exact(other.flow, join.at)\n", ""),
        (
            "engines/duckdb_flow.py",
            "            return _kept(flow, ordered)\n",
            "            again = {f'c{at}': scalar for at, scalar in enumerate(flow.rows.again[1].values())}\n"
            "            rows = projected(flow.rows.again[0], tables, again)\n"
            "            names = ', '.join(f'c{at} AS {quoted(name)}' for at, (name, _) in enumerate(flow.columns))\n"
            "            return Frame(f'(SELECT {names or 0} FROM ({rows})) AS {quoted(flow.label)}', (flow.label,))\n",
        ),
        (
            "engines/duckdb_public.py",
            "    process: int\n    facts: dict[Hashable, Any]",
            "    process: int\n    again: Any\n    facts: dict[Hashable, Any]",
        ),
        (
            "engines/duckdb_public.py",
            "made = self._make(flow, tuple(columns.values()), keys)",
            "made = self._make(flow, columns, keys)",
        ),
        (
            "engines/duckdb_public.py",
            "    def _make(self, flow: Flow, columns: tuple[Scalar, ...], keys: tuple[Scalar, ...]) -> _KeptTable:\n",
            "    def _make(self, flow: Flow, listed_columns: Any, keys: tuple[Scalar, ...]) -> _KeptTable:\n"
            "        columns = tuple(listed_columns.values())\n",
        ),
        (
            "engines/duckdb_public.py",
            "int(most or 0), os.getpid())",
            "int(most or 0), os.getpid(), (flow, listed_columns))",
        ),
    ),
    planned(
        "public rows that a row meets are not cut at what was priced",
        _ENFORCED,
        (
            "engines/duckdb_flow.py",
            "FROM {kept.rows.relation} WHERE {quoted(RANK)} <= {kept.most}",
            "FROM {kept.rows.relation}",
        ),
    ),
    planned(
        "rows of a person are not cut at what was priced",
        _ENFORCED,
        (
            "engines/duckdb_flow.py",
            'tests = [] if read.most is None else [f"{quoted(RANK)} <= {read.most}"]',
            "tests: list[str] = []",
        ),
    ),
    planned(
        "values are not clipped at what was priced",
        _ENFORCED,
        (
            "engines/duckdb_group.py",
            "value = clipped(value, one.argument.facts)  # what it was priced for, whatever is stored",
            "pass",
        ),
    ),
    planned(
        "a person's long averages go through doubles",
        "neighbours",
        (
            "engines/duckdb_fold.py",
            "        case Aggregation.SUM | Aggregation.AVG if facts.kind is Kind.INTEGER:\n",
            "        case Aggregation.AVG if facts.kind is Kind.INTEGER and not _short(facts):\n"
            '            double = aggregate("sum", f"({sql})::DOUBLE")\n'
            '            return [f"({double})::HUGEINT", aggregate("count", sql)]\n'
            "        case Aggregation.SUM | Aggregation.AVG if facts.kind is Kind.INTEGER:\n",
        ),
    ),
    planned(
        "a person's distinct sums go through doubles",
        "neighbours",
        (
            "engines/duckdb_fold.py",
            "        case Aggregation.SUM | Aggregation.AVG if facts.kind is Kind.INTEGER:\n",
            "        case Aggregation.SUM if facts.kind is Kind.INTEGER and folded.distinct and not _short(facts):\n"
            '            return [f"({aggregate("sum", f"({sql})::DOUBLE")})::HUGEINT"]\n'
            "        case Aggregation.SUM | Aggregation.AVG if facts.kind is Kind.INTEGER:\n",
        ),
    ),
    planned(
        "zero has a sign",
        "tests/paths/test_per_person.py",
        (
            "engines/duckdb_fold.py",
            'return f"CASE WHEN {sql} = 0::DOUBLE THEN 0::DOUBLE ELSE {sql} END"',
            "return sql",
        ),
    ),
    planned(
        "cells of a person are ranked by a badly mixed hash",
        _EVEN,
        (
            "engines/duckdb_group.py",
            '        mixed = f"hash(xor({mixed}, hash({column})))"\n',
            "        pass\n    mixed = f\"hash({', '.join([_OWNER, *columns] if group.identity else columns)})\"\n",
        ),
    ),
    planned(
        "free questions may take all the time there is",
        "tests/paths/test_free_limits.py",
        ("analysis/work.py", "MOST_WORK = 100_000_000", "MOST_WORK = 10**40"),
        ("engines/clock.py", "SECONDS = 20.0", "SECONDS = 2e9"),
    ),
    planned(
        "nested operations double what they hold",
        "tests/paths/test_cost_of_expressions.py",
        ("engines/duckdb_numbers.py", "    if leaf:\n", "    if leaf or sql:\n"),
    ),
)
