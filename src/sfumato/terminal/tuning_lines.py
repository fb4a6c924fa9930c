"""Drafts of caps and bounds, and the lines of a policy that they change."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from sfumato.policy.columns import format_value
from sfumato.policy.policy import Column, ColumnType, Policy, fold_name, position

Steps = tuple[int, int]
TableColumn = tuple[str, str]
"""A table and a column, folded."""


@dataclass(frozen=True, slots=True)
class BoundsDraft:
    """One draft of caps by table, and of bounds and totals of a person by column, in steps."""

    caps: Mapping[str, int]
    bounds: Mapping[TableColumn, Steps]
    totals: Mapping[TableColumn, int] = field(default_factory=dict)


def chosen_lines(policy: Policy, widest: BoundsDraft) -> Iterator[str]:
    """Give the lines under which each question chooses below these caps and within these bounds."""
    for table in policy.tables:
        name = fold_name(table.name)
        if name not in widest.caps:
            continue
        yield f"[tables.{_toml_key(table.name)}]"
        yield f'rows_per_unit = {{ most = {widest.caps[name]}, choose = "private" }}  # now {table.rows_per_unit}'
        columns = [column for column in table.columns if (name, fold_name(column.name)) in widest.bounds]
        if columns:
            yield f"[tables.{_toml_key(table.name)}.columns]"
        for column in columns:
            kind, bounds, *rest = _policy_parts(column, *widest.bounds[name, fold_name(column.name)], None)
            within = bounds.removeprefix("bounds = ")
            parts = [kind, f'bounds = {{ within = {within}, choose = "private" }}', *rest]
            yield f"{_toml_key(column.name)} = {{ {', '.join(parts)} }}{_current_text(column)}"


def changed_lines(policy: Policy, now: BoundsDraft, best: BoundsDraft) -> Iterator[str]:
    """Give the lines that differ, as they are pasted into the policy."""
    for table in policy.tables:
        name = fold_name(table.name)
        if best.caps.get(name) != now.caps.get(name):
            yield f"[tables.{_toml_key(table.name)}]"
            before = "chosen, at most " if table.rows_chosen else ""
            yield f"rows_per_unit = {best.caps[name]}  # now {before}{now.caps[name]}"
        places = {(name, fold_name(column.name)): column for column in table.columns}
        changed = {
            key: column
            for key, column in places.items()
            if (best.bounds.get(key), best.totals.get(key)) != (now.bounds.get(key), now.totals.get(key))
        }
        if changed:
            yield f"[tables.{_toml_key(table.name)}.columns]"
        for key, column in changed.items():
            parts = _policy_parts(column, *best.bounds[key], best.totals.get(key))
            yield f"{_toml_key(column.name)} = {{ {', '.join(parts)} }}{_current_text(column)}"


def _policy_parts(column: Column, low: int, high: int, total: int | None) -> Iterator[str]:
    step = column.step or Fraction(1)
    yield f'type = "{column.type}"'
    yield f"bounds = [{format_value(low * step)}, {format_value(high * step)}]"
    if column.type is ColumnType.DECIMAL:
        yield f"step = {format_value(step)}"
    if total is not None:
        yield f"total_per_unit = {format_value(total * step)}"
    if column.unique:
        yield "unique = true"


def _current_text(column: Column) -> str:
    if column.bounds is None:
        return ""
    low, high = (Fraction(position(end)) for end in (column.bounds.low, column.bounds.high))
    total = "" if column.total_per_unit is None else f", of a person at most {format_value(column.total_per_unit)}"
    return (
        f"  # now {'chosen within ' if column.bounds_chosen else ''}[{format_value(low)}, {format_value(high)}]{total}"
    )


def _toml_key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "a").replace("-", "a").isalnum()
    return name if bare else f'"{name}"'
