"""Report to the owner what a policy lets analysts learn, and how exactly.

What `check_policy` returns follows from the policy and from public tables; no private row is read for it. What the data
itself says is `owners_text`: exact, for the owner's terminal, and in no file.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from sfumato.accounting.loss import PrivacyLoss, round_up
from sfumato.analysis.catalog import REMOVED
from sfumato.analysis.keys import MAX_GROUP_CELLS
from sfumato.database import Database
from sfumato.engines.opening import inspected
from sfumato.engines.sql.names import quoted
from sfumato.errors import Refusal
from sfumato.ledger.windows import unlimited_text
from sfumato.planning.quote import make_quote
from sfumato.policy.describing import owner_names
from sfumato.policy.policy import Column, ColumnType, OwnerPair, Policy, Reference, RowUnit, Table, UnitColumn, UnitPath
from sfumato.policy_draft.accuracy import SHARE, estimate_budget_use
from sfumato.policy_draft.naming import Names, own_key
from sfumato.prepare import RequestedPrice
from sfumato.release.rendering.account_reports import CHANGED
from sfumato.release.rendering.escaping import escape_unprintable
from sfumato.release.rendering.table import text_table
from sfumato.terminal.inspections import inspection_text
from sfumato.terminal.outside_bounds import count_outside, outside_text
from sfumato.terminal.trial_runs import shorten_sql, try_typical_questions

_SUMMABLE_TYPES = (ColumnType.INTEGER, ColumnType.DECIMAL)
_MAX_SUMS = 3
FOR_THE_OWNER = (
    "Only for the data owner. The following is computed from the data itself and is not private: no budget pays "
    "for it, and it is not stored."
)
MAX_UNWARNED_EPSILON = 10
"""A larger budget is warned about."""


@dataclass(frozen=True, slots=True)
class Learnable:
    """Aggregates that one column allows."""

    column: str
    type: str
    groups: str
    sums: str


@dataclass(frozen=True, slots=True)
class Checked:
    """The report on a policy whose data fits it."""

    people: tuple[tuple[str, str], ...]
    """Each table, and whom it protects."""
    columns: tuple[Learnable, ...]
    never: tuple[str, ...]
    tables: int
    """Estimated number of questions at `epsilon` that fit into the budget."""
    epsilon: str
    margins: tuple[tuple[str, str], ...]
    """Some questions at that price, and their margin at 95 %."""
    source_changed: bool
    """Whether the source has changed since its snapshot was taken."""
    hints: tuple[str, ...] = ()
    """Suggested changes, from names and numbers of the policy alone."""


def check_policy(database: Database) -> Checked:
    """Return what the policy of an open database lets analysts learn."""
    policy = database.policy
    private = [table for table in policy.tables if not table.public]
    query_epsilon = policy.budget.epsilon / SHARE
    bought = estimate_budget_use(policy.budget.epsilon, policy.budget.delta, 1, policy.neighbours)
    return Checked(
        tuple((escape_unprintable(table.name), _whom(table)) for table in policy.tables),
        tuple(
            _learnable(policy, table, column)
            for table in private
            for column in table.columns
            if _is_unbounded(table, column)
        ),
        tuple(_never(policy, private)),
        bought.tables,
        round_up(query_epsilon),
        tuple(_margins(database, private, str(query_epsilon))),
        database.source_changed(),
        tuple(_hints(policy, private)),
    )


def _hints(policy: Policy, private: list[Table]) -> Iterator[str]:
    if policy.budget.epsilon > MAX_UNWARNED_EPSILON:
        yield (
            f"budget.epsilon is {_shown_number(policy.budget.epsilon)}. Above {MAX_UNWARNED_EPSILON} it promises "
            "almost nothing: anyone who knows all but one bit about a person can become practically certain of "
            "that bit."
        )
    if policy.budget.every is not None:
        total = PrivacyLoss(policy.budget.epsilon, policy.budget.delta)
        yield f"The budget renews. {unlimited_text(total, policy.budget.every)}"
    for table in private:
        key = _likely_key(table, [other.name for other in policy.tables])
        if key is not None:
            yield escape_unprintable(
                f"{table.name}.{key} looks like a key. With unique = true a join by it counts each row once, not as "
                f"often as {table.rows_per_unit:,} times, and its noise is smaller by that."
            )


def _likely_key(table: Table, others: list[str]) -> str | None:
    """Return a column that looks like the key of a table's rows and is not declared as one."""
    key = own_key(Names(table.name, tuple(column.name for column in table.columns)), others)
    column = None if key is None else table.column(key)
    if column is None or column.unique or (table.rows_per_unit or 1) == 1 or table.has_two_owners:
        return None
    if table.unit == UnitColumn(column.name):
        return None
    return column.name


def _is_unbounded(table: Table, column: Column) -> bool:
    return not table.names_people(column.name)


def _whom(table: Table) -> str:
    rows = "1 row counts" if table.rows_per_unit == 1 else f"at most {table.rows_per_unit or 1:,} rows count"
    groups = f", in at most {table.groups_per_unit:,} groups of an answer" if table.groups_per_unit else ""
    match table.unit:
        case UnitColumn(column):
            return f"one {escape_unprintable(column)}: {rows}{groups}"
        case UnitPath(other, column, _, _):
            return f"one {escape_unprintable(column)}, found in {escape_unprintable(other)}: {rows}{groups}"
        case RowUnit():
            return "each row is a separate person"
        case OwnerPair() as pair:
            owners = escape_unprintable(" and one ".join(owner_names(pair)))
            return f"one {owners} per row: {rows}, as many as each question selects"
    return "public, no personal data: exact and free"


def _learnable(policy: Policy, table: Table, column: Column) -> Learnable:
    return Learnable(
        escape_unprintable(f"{table.name}.{column.name}"),
        column.type,
        _group_advice(policy, column),
        _sum_advice(column),
    )


def _group_advice(policy: Policy, column: Column) -> str:
    if isinstance(column.values, Reference):
        return escape_unprintable(f"the keys of {column.values.table}.{column.values.column}")
    if column.values is not None:
        return f"{len(column.values):,} declared keys"
    if column.type is ColumnType.BOOLEAN:
        return "2 keys"
    grid = column.grid
    if grid is not None:
        cells = grid.greatest - grid.least + 1
        return f"{cells:,} public keys" if cells <= MAX_GROUP_CELLS else "in buckets of your choice"
    return "keys chosen privately" if policy.budget.delta else "no: declare keys, or a delta"


def _sum_advice(column: Column) -> str:
    if column.type not in _SUMMABLE_TYPES:
        return "–"
    if column.bounds is None:
        return "no: declare bounds"
    step = f" in steps of {_shown_number(column.step)}" if column.step not in (None, 1) else ""
    total = (
        "" if column.total_per_unit is None else f"; at most {_shown_number(column.total_per_unit)} per person in a sum"
    )
    return f"{_shown_number(column.bounds.low)} to {_shown_number(column.bounds.high)}{step}{total}"


def _shown_number(value: object) -> str:
    return f"{float(value):,.12g}" if not isinstance(value, int) else f"{value:,}"  # type: ignore[arg-type]


def _never(policy: Policy, private: list[Table]) -> Iterator[str]:
    yield "rows as they are, and anything about fewer people than the noise hides"
    names = [
        escape_unprintable(f"{table.name}.{table.unit.column}")
        for table in private
        if isinstance(table.unit, UnitColumn)
    ]
    if names:
        yield f"{', '.join(names)}: columns that name people are counted and joined, never shown or grouped by"
    for table in private:
        if table.has_two_owners:
            yield escape_unprintable(
                f"{table.name}: anything but counts and sums of its rows, because each belongs to two people"
            )
    yield "columns that the policy does not declare"
    for table in private:
        if isinstance(table.unit, UnitColumn) and (table.rows_per_unit or 1) > 1:
            removed = escape_unprintable(f"{table.name}{REMOVED}")
            yield f'rows that rows_per_unit drops; "{removed}" counts, with noise, the people concerned'
    if not policy.budget.delta:
        yield "keys that are not declared: selecting them privately needs a delta"


def _margins(database: Database, private: list[Table], query_epsilon: str) -> Iterator[tuple[str, str]]:
    """Quote typical questions: they read no data and cost nothing."""
    for table in private:
        source = quoted(table.name)
        yield from _quote_margins(database, "COUNT(*)", source, table, query_epsilon)
        if isinstance(table.unit, UnitColumn) and (table.rows_per_unit or 1) > 1:
            yield from _quote_margins(
                database, f"COUNT(DISTINCT {quoted(table.unit.column)})", source, table, query_epsilon
            )
        sums = [
            column
            for column in table.columns
            if column.bounds and column.type in _SUMMABLE_TYPES and _is_unbounded(table, column)
        ]
        for column in sums[:_MAX_SUMS]:
            yield from _quote_margins(database, f"SUM({quoted(column.name)})", source, table, query_epsilon)


def _quote_margins(
    database: Database, number: str, source: str, table: Table, query_epsilon: str
) -> Iterator[tuple[str, str]]:
    try:
        sql = f"SELECT {number} AS x FROM {source}"  # noqa: S608
        quote = make_quote(database.prepare(sql, None, RequestedPrice(query_epsilon)).plan)  # whatever is known already
    except Refusal:  # a refused question is no example
        return
    margin = quote.margins.get("x")
    if margin is not None:
        yield escape_unprintable(f"{number.replace(chr(34), '')} FROM {table.name}"), f"± {margin:,}"


def checked_text(checked: Checked) -> str:
    """Return the report for people."""
    people = text_table(["table", "protects"], _align_columns(checked.people), [False, False])
    rows = [(column.column, column.type, column.groups, column.sums) for column in checked.columns]
    learn = (
        text_table(["column", "type", "group by", "sum, average"], _align_columns(rows), [False] * 4)
        if rows
        else "nothing"
    )
    parts = [
        "The policy is valid and matches the data.",
        f"Who is protected\n{_indent(people)}",
        f"What analysts can learn\n{_indent(learn)}",
        "What they cannot\n" + "\n".join(f"  - {line}" for line in checked.never),
    ]
    if checked.margins:
        exact = text_table(["question", "error bar, 95 %"], _align_columns(checked.margins), [False, True])
        parts.append(
            f"How exactly, at epsilon = {checked.epsilon} a question (the budget answers about {checked.tables})"
            f"\n{_indent(exact)}"
        )
    if checked.hints:
        parts.append("What you might want to change\n" + "\n".join(f"  - {line}" for line in checked.hints))
    if checked.source_changed:
        parts.append(CHANGED)
    return "\n\n".join(parts)


def owners_text(database: Database) -> str:
    """Return the report for the owner only: truncation losses, and the error of typical queries."""
    outside = outside_text(count_outside(database))
    parts = [FOR_THE_OWNER, _inspection_advice(database.policy), outside, _useful(database)]
    return "\n\n".join(filter(None, parts))


def _inspection_advice(policy: Policy) -> str:
    try:
        report = inspected(policy)
    except Refusal as refusal:  # the snapshot is there, and the files have gone or changed since
        return f"The source cannot be read now: {escape_unprintable(refusal.what)}"
    return "" if report is None else inspection_text(report, policy)


def _useful(database: Database) -> str:
    budget = database.policy.budget
    query_epsilon = budget.epsilon / SHARE
    rows = [
        (shorten_sql(trial.sql), *trial.words(budget.epsilon))
        for trial in try_typical_questions(database, query_epsilon)
    ]
    if not rows:
        return ""
    names = ["question", f"at ε = {round_up(query_epsilon)}", "useful", "price of ± 10 %"]
    table = text_table(names, _align_columns(rows), [False, True, False, False])
    return f"Which questions will be useful (of groups: the typical one)\n{_indent(table)}"


def checked_json(checked: Checked) -> str:
    """Return the report for programs."""
    return json.dumps(asdict(checked), ensure_ascii=False, indent=2)


def _align_columns(rows: Sequence[tuple[str, ...]]) -> list[list[str]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
