"""Show the owner what the policy removes from the data, in words and tables."""

from collections.abc import Iterator, Sequence

from sfumato.accounting.loss import round_up
from sfumato.engines.inspection import InspectedColumn, InspectedTable, SourceReport
from sfumato.policy.policy import Policy
from sfumato.policy_draft.accuracy import SHARE, count_margin
from sfumato.release.rendering.escaping import escape_unprintable
from sfumato.release.rendering.table import text_table

_EMPTY_CELL = "–"


def inspection_text(inspected: SourceReport, policy: Policy) -> str:
    """Return the exact report: rows and people, lost values, what would read them, and a delta that is too large."""
    parts = [_section("Effect on rows", _rows_text(inspected.tables))]
    lossy = [column for column in inspected.columns if not column.whole]
    if any(not column.marked for column in lossy):
        parts.append(_section("Effect on values", _values_text([column for column in lossy if not column.marked])))
    else:
        parts.append("Every value is of its type, within its bounds and among its keys.")
    sums = [column for column in inspected.columns if column.clipped or column.capped]
    if sums:
        parts.append(_section("Effect on sums", _sums_text(sums)))
    several = [table for table in inspected.tables if len(table.caps) > 1]
    parts += [
        _section(escape_unprintable(f"Which rows_per_unit for {table.table}"), _caps_text(table, policy))
        for table in several
    ]
    remedies = [_remedy(column) for column in lossy if column.remedy]
    if remedies:
        parts.append("How to read more of them\n" + "\n".join(remedies))
    for column in inspected.columns:
        if column.rounded:
            parts.append(_rounding_text(column))
    readable = [column for column in inspected.columns if column.reads_as]
    if readable:
        lines = [escape_unprintable(f"  - {column.table}.{column.column} {column.reads_as}.") for column in readable]
        parts.append("Columns of text that read as another type\n" + "\n".join(lines))
    empty = [f"{column.table}.{column.column}" for column in inspected.columns if not column.present]
    if empty and any(table.rows for table in inspected.tables):
        parts.append(escape_unprintable(f"Columns without any value: {', '.join(empty)}."))
    parts += list(_warnings(inspected, policy))
    return "\n\n".join(parts)


def _remedy(column: InspectedColumn) -> str:
    where, lost = f"{column.table}.{column.column}", f"{column.unreadable:,} of {column.present:,}"
    if column.marked:
        marked = f"{column.marked:,} rows have a mark for a missing value there; {column.remedy}"
        return escape_unprintable(
            f"  - {where}: {marked}. Otherwise all people with the same mark count as one person."
        )
    return escape_unprintable(f"  - {where}: {lost} values are not of type {column.type}; {column.remedy}.")


def _rounding_text(column: InspectedColumn) -> str:
    return escape_unprintable(
        f"{column.table}.{column.column} is declared as integer, and {_share_text(column.rounded, column.present)} of "
        'its values have decimals, which are rounded. To keep them, write type = "decimal" and a step such as 0.01.'
    )


def _rows_text(tables: Sequence[InspectedTable]) -> str:
    names = [
        "table",
        "rows",
        "people",
        "rows without a person",
        "people with too many",
        "rows cut",
        "rows that repeat a key",
    ]
    columns = [
        [escape_unprintable(table.table) for table in tables],
        [f"{table.rows:,}" for table in tables],
        [f"{table.people:,}" for table in tables],
        [_share_text(table.rows_without_unit, table.rows) for table in tables],
        [_share_text(table.units_over_bound, table.people) for table in tables],
        [_share_text(table.removed, table.rows) for table in tables],
        [_share_text(table.repeated, table.rows) for table in tables],
    ]
    return _without_nothing(names, columns, 3)


def _values_text(inspected: Sequence[InspectedColumn]) -> str:
    names = ["column", "values", "not of its type", "below its bounds", "above", "no declared key", "too long"]
    columns = [
        [escape_unprintable(f"{column.table}.{column.column}") for column in inspected],
        [f"{column.present:,}" for column in inspected],
        [_share_text(column.unreadable, column.present) for column in inspected],
        [_share_text(column.below, column.present) for column in inspected],
        [_share_text(column.above, column.present) for column in inspected],
        [_share_text(column.undeclared, column.present) for column in inspected],
        [_share_text(column.cut, column.present) for column in inspected],
    ]
    return _without_nothing(names, columns, 2)


def _sums_text(inspected: Sequence[InspectedColumn]) -> str:
    """Return what is lost of each sum; signs are left out, so that losses on both sides add up."""
    names = ["SUM", "lost to bounds", "lost to rows_per_unit", "lost in total"]
    columns = [
        [escape_unprintable(f"{column.table}.{column.column}") for column in inspected],
        [_percent(column.clipped, column.total) for column in inspected],
        [_percent(column.capped, column.total) for column in inspected],
        [_percent(column.clipped + column.capped, column.total) for column in inspected],
    ]
    return text_table(names, columns, [False, True, True, True])


def _caps_text(table: InspectedTable, policy: Policy) -> str:
    """Return the rows that each bound would drop, and the noise of a count under it."""
    declared = policy.table(table.table)
    most = None if declared is None else declared.rows_per_unit
    query_epsilon = policy.budget.epsilon / SHARE
    owned = table.rows - table.rows_without_unit
    names = ["rows_per_unit", "people cut", "rows lost", f"noise of a count at ε = {round_up(query_epsilon)}"]
    columns = [
        [f"{cap.rows:,}{' (now)' if cap.rows == most else ''}" for cap in table.caps],
        [_percent(cap.units_over_bound, table.people) for cap in table.caps],
        [_share_text(cap.removed, owned) for cap in table.caps],
        [f"± {count_margin(query_epsilon, cap.rows, policy.neighbours):,}" for cap in table.caps],
    ]
    return text_table(names, columns, [True] * 4)


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if part and whole else _EMPTY_CELL


def _without_nothing(names: list[str], columns: list[list[str]], first: int) -> str:
    """Return a table without the columns that say nothing, of those from the first on."""
    indices = [
        index for index in range(len(names)) if index < first or any(cell != _EMPTY_CELL for cell in columns[index])
    ]
    return text_table(
        [names[index] for index in indices], [columns[index] for index in indices], [index > 0 for index in indices]
    )


def _share_text(count: int, whole: int) -> str:
    if not count:
        return _EMPTY_CELL
    return f"{count:,} ({count / whole:.1%})" if whole else f"{count:,}"


def _warnings(inspected: SourceReport, policy: Policy) -> Iterator[str]:
    for table in inspected.tables:
        if table.shared_keys:
            yield escape_unprintable(
                f"The next snapshot will be refused. {table.shared_keys:,} values of {table.key_column} lead to more "
                f"than one person, and tables.{table.table}.unit finds people by them. Give each value one person, or "
                "set shared values to NULL."
            )
    people = inspected.people
    if people and policy.budget.delta * people > 1:
        yield (
            f"budget.delta = {float(policy.budget.delta):g} is above one in the number of people, which is "
            f"{people:,}: it allows one person's data to be revealed entirely. Choose a value far below "
            f"{1 / people:.1g}."
        )


def _section(title: str, table: str) -> str:
    return title + "\n" + "\n".join(f"  {line}" for line in table.splitlines())
