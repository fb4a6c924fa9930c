"""Bounding in one pass, where rows are sent around: read, sent to the others of their person, ranked there, written.

Nothing but the people is written down in between. The rows that are kept, and their numbers, are those of `copy`, which
is left what needs one row twice: unique keys, what is cut off, arrivals, and units through foreign keys.

Proof: proofs/bounded_copy.md §3
"""

from sfumato.engines.catalog_of import in_drawn_order, most_rows
from sfumato.engines.engine import Progress
from sfumato.engines.sql.building import Building
from sfumato.engines.sql.drawing import draw_again, drawn_last, first_draw
from sfumato.engines.sql.numbering import in_order_of, kind_of, numbered_rows
from sfumato.engines.sql.staging import are_needed_once, count_people, owned_rows, read_rows
from sfumato.policy.policy import Column, Table

VERY_MANY = 1 << 17
"""Whoever has more rows is ranked apart, where most rows are left out before any of a person's meet in one place."""


def in_one_pass(build: Building, table: Table) -> bool:
    """Tell whether a table is bounded so: a matter of the policy, the engine and of whether rows only arrived."""
    return build.dialect.sent is not None and are_needed_once(build, table, table.columns)


def kept_in_one_pass(build: Building, table: Table, columns: list[Column], unit: str | None, progress: Progress) -> str:
    """Return the query for the rows that are kept, with their numbers; the people are written down first."""
    count_people(build, table, columns)
    progress("bound", table.name)
    least = max(VERY_MANY, most_rows(table))
    many = f"SELECT u, id, n FROM {build.stage('units')} WHERE u IS NOT NULL AND n > {least}"  # noqa: S608
    ((apart,),) = build.rows(f"SELECT count(*) FROM ({many}) AS m")  # noqa: S608
    ranked = [_ranked(build, table, columns, many if apart else None)]
    if apart:
        ranked.append(_ranked_apart(build, table, columns, many))
    sources = [(f"({rows}) AS r WHERE nth <= {most_rows(table)}", "nth") for rows in ranked]
    return " UNION ALL ".join(numbered_rows(build.dialect, table, columns, unit, [one], "u") for one in sources)


def lost_in_one_pass(build: Building, table: Table) -> str:
    """Return the query for how many rows each person loses: all but the most that are kept."""
    most = most_rows(table)
    return f"SELECT id, n - {most} AS n FROM {build.stage('units')} WHERE u IS NOT NULL AND n > {most}"  # noqa: S608


def all_accounted_for(build: Building, table: Table, kept: int) -> bool:
    """Tell whether every row that was read has an owner or none, and of each owner as many are kept as there may be."""
    ((named, expected),) = build.rows(
        f"SELECT coalesce(sum(n), 0), coalesce(sum(CASE WHEN u IS NOT NULL THEN least(n, {most_rows(table)}) END), 0) "  # noqa: S608
        f"FROM {build.stage('units')}"
    )
    return bool(build.read[table.name] == named and kept == expected)


def _ranked(build: Building, table: Table, columns: list[Column], but: str | None) -> str:
    """Return the query for the rows of everybody but some, ranked where the rows of a person meet.

    Whoever has not too many rows has no draws: these are ranked by what they hold.
    """
    dialect, most, values = build.dialect, most_rows(table), _value_names(columns)
    if dialect.sent is None:
        raise AssertionError("this engine does not send rows around")
    read = read_rows(build, table, columns)
    if but is not None:
        read = f"SELECT * FROM ({read}) AS a WHERE NOT EXISTS (SELECT 1 FROM ({but}) AS m WHERE m.u = a.u)"  # noqa: S608
    rows = owned_rows(build, columns, dialect.sent(read, "u"), build.stage("units"), ["u", "id", "n"])
    first = _first(build, columns)
    if not in_drawn_order(table):  # else each question keeps fewer, so the order of everybody's rows is drawn
        first = f"CASE WHEN r.n > {most} THEN {first} END"
    drawn = f"SELECT u, id, {values}, {first} AS first FROM ({rows}) AS r"  # noqa: S608
    left = drawn_last(drawn, "u", f"u, id, {values}", most, dialect)
    rank = dialect.row_number(["u"], ["draw", *in_order_of(dialect, columns)])
    return f"SELECT u, id, {values}, CAST({rank} AS {dialect.rank_type}) AS nth FROM ({left}) AS l"  # noqa: S608


def _ranked_apart(build: Building, table: Table, columns: list[Column], people: str) -> str:
    """Return the query for the rows of these people, ranked: equal rows meet first, and then those that come first."""
    dialect, values = build.dialect, _value_names(columns)
    rows = owned_rows(build, columns, read_rows(build, table, columns), f"({people})", ["u", "id"])
    drawn = f"SELECT u, id, {values}, {_first(build, columns)} AS first FROM ({rows}) AS r"  # noqa: S608
    number = dialect.row_number(["u", "first"], [])
    drawn = f"SELECT u, id, {values}, first, {number} AS nth FROM ({drawn}) AS d"  # noqa: S608
    drawn = f"SELECT u, id, {values}, {draw_again('first', 'nth', dialect)} AS draw FROM ({drawn}) AS d"  # noqa: S608
    rank = dialect.row_number(["u"], ["draw"])
    return f"SELECT u, id, {values}, CAST({rank} AS {dialect.rank_type}) AS nth FROM ({drawn}) AS l"  # noqa: S608


def _value_names(columns: list[Column]) -> str:
    return ", ".join(f"c{at}" for at in range(max(len(columns), 1)))


def _first(build: Building, columns: list[Column]) -> str:
    own = f"{build.dialect.id_text('r.id')} || '#'"
    return first_draw(own, [(f"r.c{at}", kind_of(column)) for at, column in enumerate(columns)], build.dialect)
