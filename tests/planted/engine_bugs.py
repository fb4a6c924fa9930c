"""Bugs to plant again in the engines: a person's rows decided whether a question is answered, or counted twice."""

from tests.planted.bug import Bug, planned

_STAGING = "engines/sql/staging.py"
_MANY = "tests/engines/test_many_rows.py"
_SHARED = "tests/engines/test_shared_keys.py"

ENGINE_BUGS: tuple[Bug, ...] = (
    planned(
        "what all values of a column are decides a condition",
        "tests/engines/test_optimizer.py",
        (
            "engines/duckdb/connection.py",
            """    execute(connection, "SET disabled_optimizers = 'statistics_propagation'")\n""",
            "",
        ),
    ),
    planned(
        "bits are added up in 8 bits",
        "neighbours",
        ("engines/duckdb/dialect.py", "CAST(bit_count({integer}) AS BIGINT)", "bit_count({integer})"),
    ),
    planned(
        "bits are added up in 8 bits, by law",
        f"{_MANY}::test_what_statements_add_up_has_64_bits_or_more",
        ("engines/duckdb/dialect.py", "CAST(bit_count({integer}) AS BIGINT)", "bit_count({integer})"),
    ),
    planned(
        "rows of a person are numbered in 32 bits",
        f"{_MANY}::test_every_engine_returns_the_same_of_people_with_many_rows",
        (
            "engines/sql/window.py",
            'return f"CAST({sql} AS {dialect.integer_type(facts)})" if facts.kind is Kind.INTEGER else sql',
            "return sql",
        ),
    ),
    planned(
        "a row of a path belongs to everybody who has its key",
        "paths",
        (
            _STAGING,
            'select("k, min(u) AS u, max(u) AS other", subquery(found, "p"), where=present, group_by="k")',
            'select("DISTINCT k, u, u AS other", subquery(found, "p"), where=present)',
        ),
        (
            _STAGING,
            "LEFT JOIN {build.stage('owners')} AS o ON f.u = o.k",
            "LEFT JOIN {build.stage('owners')} AS o ON FALSE",
        ),
    ),
    planned(
        "a key that leads to several people is left out in silence",
        _SHARED,
        (_STAGING, "    if shared:\n", "    if shared is None:\n"),
    ),
    planned(
        "rows with several owners are not counted again",
        _SHARED,
        (
            _STAGING,
            "LEFT JOIN {build.stage('owners')} AS o ON f.u = o.k",
            "LEFT JOIN {build.stage('owners')} AS o ON FALSE",
        ),
    ),
    planned(
        "a text keeps the collation that a file declares for its column",
        "tests/engines/test_duckdb_source.py",
        (
            "engines/duckdb/source.py",
            'replace(column, sql=f"({column.sql} COLLATE C)") if column.type == "VARCHAR" else column',
            "column",
        ),
    ),
)
