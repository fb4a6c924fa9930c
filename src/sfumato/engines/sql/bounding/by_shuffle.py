"""Bounding in one pass, where rows are sent around: read, sent to the others of their person, ranked there, written.

Nothing but the people is written down in between. The rows that are kept, and their numbers, are those of `copy`. What
a person's rows have together (what they were before bounds, how many there were before unique columns) is in the first
of their kept rows, in columns that no question reads: from these follow what was lost, and that no row is missing.

Proof: proofs/bounded_copy.md §3
"""

from sfumato.engines.build_catalog import most_rows, rows_in_sampling_order
from sfumato.engines.engine import Progress
from sfumato.engines.sql.bounding.row_ranks import in_order_of, kind_of, numbered_rows
from sfumato.engines.sql.bounding.truncation import cut_in_all, losses_avoided, tracked
from sfumato.engines.sql.build_protocol import Building
from sfumato.engines.sql.column import number_sql
from sfumato.engines.sql.dialect import ByShuffle, bounding_of
from sfumato.engines.sql.names import RANK, together_name
from sfumato.engines.sql.sampling_order import drawn_last, rehash_duplicate, row_hash
from sfumato.engines.sql.staging import count_people, owned_rows, read_rows, rows_named
from sfumato.policy.policy import Column, RowUnit, Table, UnitPath

HEAVY_UNIT_ROWS = 1 << 17
"""Units with more rows are ranked apart: most of their rows are dropped before rows of one person meet in one place."""
_KEPT, _OWN, _MET = "kept", "own", "met"
"""How many rows of a person are kept; and with unique columns, how many these leave, and how many there were."""


def in_one_pass(build: Building, table: Table) -> bool:
    """Tell whether a table is bounded so: a matter of the policy and the engine."""
    return isinstance(build.dialect.bounding, ByShuffle) and not isinstance(table.unit, RowUnit)


def bound_in_one_pass(build: Building, table: Table, columns: list[Column], unit: str, progress: Progress) -> str:
    """Return the query for the rows that are kept, with their numbers; the people are written down first."""
    count_people(build, table, columns)
    progress("bound", table.name)
    least = _least(table)
    ((apart,),) = build.rows(f"SELECT count(*) FROM {_people(build, table)} WHERE n > {least}")  # noqa: S608
    ranked = [_ranked(build, table, columns, _rows_of_most(build, table, columns, least if apart else None))]
    if apart:
        people = _leading(build, table, f"n > {least}")
        rows = owned_rows(build, columns, read_rows(build, table, columns), people, _along(table))
        ranked.append(_ranked(build, table, columns, rows, apart=True))
    together = together_in_one_pass(build, table, columns)
    return " UNION ALL ".join(
        numbered_rows(
            build.dialect,
            table,
            columns,
            unit,
            [(f"({rows}) AS r WHERE nth <= {most_rows(table)}", "nth")],
            _who(table),
            together=together,
        )
        for rows in ranked
    )


def together_in_one_pass(build: Building, table: Table, columns: list[Column]) -> dict[str, str]:
    """Return the hidden columns for the build itself, by their names, over the kept rows `r` of a person."""
    together = _together(build, table, columns) if in_one_pass(build, table) else {}
    return {together_name(name): sql for name, sql in together.items()}


def _together(build: Building, table: Table, columns: list[Column]) -> dict[str, str]:
    found, kept = (
        losses_avoided(build, columns, most_rows(table), _who(table)),
        f"count(*) OVER (PARTITION BY r.{_who(table)})",
    )
    if _is_unique(columns):
        found |= {_OWN: f"r.{_OWN}", _MET: f"r.{_MET}"}
    return {**found, _KEPT: kept} if found else {}


def lost_in_one_pass(build: Building, table: Table, columns: list[Column], unit: str) -> str:
    """Return the query for how many rows each person loses, after the others were written."""
    people, most = _people(build, table), most_rows(table)
    if not _is_unique(columns):  # all but the most that are kept
        return f"SELECT id, n - {most} AS n FROM {people} WHERE n > {most}"  # noqa: S608
    firsts = _firsts(build, table, columns, unit)
    return f"SELECT p.id AS id, p.n - k.kept AS n FROM {people} AS p JOIN {firsts} AS k ON p.id = k.id"  # noqa: S608


def cut_in_one_pass(build: Building, table: Table, columns: list[Column], unit: str) -> str | None:
    """Return the query for what each person loses; None where no losses are kept."""
    if build.policy.budget.truncation is None:
        return None
    return cut_in_all(build, columns, unit, _people(build, table), _firsts(build, table, columns, unit))


def all_accounted_for(build: Building, table: Table, columns: list[Column], unit: str, kept: int) -> bool:
    """Tell whether every row that was read has an owner or none, and of each owner as many are kept as there may be.

    With unique columns that number is known when rows meet: as many have to meet as were counted. The rows of a person
    with very many rows never meet, so there have to be some of them, and as many as were numbered.
    """
    people, most = _people(build, table), most_rows(table)
    count = f"SELECT sum(least(n, {most})), 0 FROM {people} AS p"  # noqa: S608
    if _is_unique(columns):
        right = f"k.met = p.n AND k.kept = least(k.own, {most})"
        wrong = f"CASE WHEN p.n <= {_least(table)} THEN NOT coalesce({right}, FALSE) ELSE k.kept IS NULL END"
        both = f"{people} AS p LEFT JOIN {_firsts(build, table, columns, unit)} AS k ON p.id = k.id"
        count = f"SELECT sum(k.kept), count(CASE WHEN {wrong} THEN 1 END) FROM {both}"  # noqa: S608
    ((expected, without),) = build.rows(count)
    return bool(build.read[table.name] == rows_named(build, table) and kept == (expected or 0) and without == 0)


def _firsts(build: Building, table: Table, columns: list[Column], unit: str) -> str:
    """Return the relation of the first kept rows of people: their ids, and what their rows have together."""
    quoted = build.dialect.quote_identifier
    names = [f"{quoted(together_name(name))} AS {quoted(name)}" for name in _together(build, table, columns)]
    listed = ", ".join([f"{quoted(unit)} AS id", *names])
    return f"(SELECT {listed} FROM {build.copy_relation(table.name)} WHERE {quoted(RANK)} = 1)"  # noqa: S608


def _least(table: Table) -> int:
    """Return the maximum number of rows of a person who is not ranked apart."""
    return max(HEAVY_UNIT_ROWS, most_rows(table))


def _is_unique(columns: list[Column]) -> bool:
    return any(column.unique for column in columns)


def _who(table: Table) -> str:
    """Return the column by which rows of one person meet: the name where each row has it, else the id."""
    return "id" if isinstance(table.unit, UnitPath) else "u"


def _along(table: Table) -> list[str]:
    return list(dict.fromkeys([_who(table), "id", "n"]))


def _people(build: Building, table: Table) -> str:
    """Return the relation of all people: ids, and how many rows they have."""
    if isinstance(table.unit, UnitPath):
        return build.stage("people")
    return f"(SELECT * FROM {build.stage('units')} WHERE u IS NOT NULL)"  # noqa: S608


def _leading(build: Building, table: Table, which: str) -> str:
    """Return the relation of what names or leads to some people: `which` is a condition on how many rows they have."""
    if not isinstance(table.unit, UnitPath):
        return f"(SELECT u, id, n FROM {build.stage('units')} WHERE u IS NOT NULL AND {which})"  # noqa: S608
    both = f"{build.stage('owners')} AS o JOIN {build.stage('people')} AS p ON o.id = p.id"
    return f"(SELECT o.k AS u, p.id AS id, p.n AS n FROM {both} WHERE {which})"  # noqa: S608


def _rows_of_most(build: Building, table: Table, columns: list[Column], least: int | None) -> str:
    """Return the query for the rows of all people, or of people with at most `least` rows, sent to their person."""
    sent, read = bounding_of(build.dialect, ByShuffle).repartition, read_rows(build, table, columns)
    if isinstance(table.unit, UnitPath):
        people = _leading(build, table, "TRUE" if least is None else f"n <= {least}")
        return sent(owned_rows(build, columns, read, people, _along(table)), "id")
    if least is not None:  # before they are sent, or all rows of a person would meet
        many = _leading(build, table, f"n > {least}")
        read = f"SELECT * FROM ({read}) AS a WHERE NOT EXISTS (SELECT 1 FROM {many} AS m WHERE m.u = a.u)"  # noqa: S608
    return owned_rows(build, columns, sent(read, "u"), build.stage("units"), _along(table))


def _ranked(build: Building, table: Table, columns: list[Column], rows: str, *, apart: bool = False) -> str:
    """Return the query for rows with their ranks: of a person who has too many by draws, else by what they hold.

    `apart`: of people with very many, where equal rows meet first, and then those that come first. Who has a value of
    a unique column more than once has too many, too: it is known when one row of each value is left.
    """
    dialect, most, who = build.dialect, most_rows(table), _who(table)
    unknown = f"CAST(NULL AS {dialect.bigint})"
    unique = [number_sql(column, f"c{at}") for at, column in enumerate(columns) if column.unique]
    lost = [f"o{at}" for at in tracked(build, columns)]
    values = [(f"r.c{at}", kind_of(column)) for at, column in enumerate(columns)]
    names = ", ".join([*_along(table), *(f"c{at}" for at in range(max(len(columns), 1))), *lost])
    first = row_hash(f"{dialect.id_text('r.id')} || '#'", values, dialect)
    # each question keeps fewer, so the order of all people's rows is drawn
    all_drawn = apart or rows_in_sampling_order(table)
    if not all_drawn and not unique:
        first = f"CASE WHEN r.n > {most} THEN {first} END"
    chosen, order = f"SELECT {names}, {first} AS first FROM ({rows}) AS r", "draw"  # noqa: S608
    among = [f"{name} NULLS LAST" for name in lost]
    if apart or unique:
        number, met = dialect.row_number([who, "first"], among), ""
        if unique:
            met = f", {unknown if apart else f'count(*) OVER (PARTITION BY {who})'} AS {_MET}"
        chosen = f"SELECT {names}, first, {number} AS nth{met} FROM ({chosen}) AS d"  # noqa: S608
        names += f", {_MET}" if unique else ""
        chosen = f"SELECT {names}, {rehash_duplicate('first', 'nth', dialect)} AS draw FROM ({chosen}) AS d"  # noqa: S608
    else:
        chosen = drawn_last(chosen, who, names, most, dialect, among)
    for key in unique:
        once = dialect.row_number([who, key], ["draw"])
        chosen = f"SELECT {names}, draw, {once} AS once FROM ({chosen}) AS d"  # noqa: S608
        chosen = f"SELECT {names}, draw FROM ({chosen}) AS o WHERE {key} IS NULL OR once = 1"  # noqa: S608
    if unique:
        own = unknown if apart else f"count(*) OVER (PARTITION BY {who})"
        chosen = f"SELECT {names}, draw, {own} AS {_OWN} FROM ({chosen}) AS d"  # noqa: S608
        names += f", {_OWN}"
    if unique and not all_drawn:
        order = f"CASE WHEN n > {most} OR {_OWN} < n THEN draw END"
    rank = dialect.row_number([who], [order] if apart else [order, *in_order_of(dialect, columns)])
    return f"SELECT {names}, CAST({rank} AS {dialect.rank_type}) AS nth FROM ({chosen}) AS l"  # noqa: S608
