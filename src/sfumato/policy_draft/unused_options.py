"""An option without effect is refused: its author would believe that something is protected that is not."""

from collections.abc import Callable

from sfumato.errors import BadParameter
from sfumato.policy.policy import ColumnType, fold_name
from sfumato.policy_draft.draft import Draft, DraftColumn, DraftOptions, DraftTable
from sfumato.policy_draft.unit_options import ROWS

Effect = Callable[[DraftTable, DraftColumn], str | None]
"""Says why an option has no effect on a column, or None where it has."""


def refuse_unused_options(draft: Draft, options: DraftOptions) -> None:
    """Refuse what was said on the command line and stands nowhere in the draft."""
    for option, names, effect in (
        ("--type", options.types, _any),
        ("--bounds", options.bounds, _grid),
        ("--step", options.steps, _why_step_is_unused),
        ("--values", options.values, _grid),
        ("--format", options.formats, _any),
        ("--unique", options.unique, _any),
    ):
        for name in names:
            _check_column(draft, option, name, options, effect)
    for name in options.rows_per_unit:
        _check_rows(draft, name, options)


def _check_column(draft: Draft, option: str, name: str, options: DraftOptions, effect: Effect) -> None:
    reasons = [effect(table, column) for table, column in _columns_named(draft, name)]
    if reasons and None not in reasons:
        raise _without_effect(f"{option} {name}=…" if option != "--unique" else f"{option} {name}", reasons[0] or "")


def _columns_named(draft: Draft, name: str) -> list[tuple[DraftTable, DraftColumn]]:
    return [
        (table, column)
        for table in draft.tables
        for column in table.columns
        if fold_name(name) in (fold_name(column.name), fold_name(f"{table.name}.{column.name}"))
    ]


def _any(table: DraftTable, _column: DraftColumn) -> str | None:
    if table.public:
        return f"The table {table.name} is public: its answers are exact, and its columns are as they are."
    return None


def _grid(table: DraftTable, column: DraftColumn) -> str | None:
    if not table.public and column.name == table.unit:
        return f"The column {column.name} names the person: it is never shown, summed or grouped by."
    return _any(table, column)


def _why_step_is_unused(table: DraftTable, column: DraftColumn) -> str | None:
    if column.type is not ColumnType.DECIMAL:
        return f"The column {column.name} is of type {column.type}, and only decimals have a step."
    return _grid(table, column)


def _check_rows(draft: Draft, name: str, options: DraftOptions) -> None:
    meant = [table for table in draft.tables if not name or fold_name(table.name) == fold_name(name)]
    own = set(map(fold_name, options.rows_per_unit)) if not name else set()
    reasons = [_no_rows(table) for table in meant if fold_name(table.name) not in own]
    if None not in reasons:
        why = next(filter(None, reasons), "Every table has its own number.")
        raise _without_effect(f"--rows-per-unit {f'{name}=' if name else ''}{options.rows_per_unit[name]}", why)


def _no_rows(table: DraftTable) -> str | None:
    if table.public:
        return f"The table {table.name} is public, so it has no limit per person."
    if table.unit == ROWS:
        return f"In {table.name} each row is a separate person."
    if table.rows_per_unit is None:
        return f"In {table.name} one row of each person counts, because the column that names them is a key."
    return None


def inference_without_effect() -> BadParameter:
    """Return the refusal of --look where everything is known."""
    return _without_effect("--look", "All entries are given already, or the data has none to take.")


def _without_effect(option: str, why: str) -> BadParameter:
    return BadParameter(f"{option} has no effect.", why, "Remove the option, or correct the name in it.")
