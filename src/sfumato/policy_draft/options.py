"""Options of the command line, as wishes: every one is NAME=VALUE, and a slip is refused by its own words."""

from collections.abc import Iterable
from dataclasses import fields

from sfumato.errors import BadParameter, quote_value
from sfumato.policy.entry import Entry, check_name
from sfumato.policy.keys import CSV
from sfumato.policy.table_keys import MAX_ROWS_PER_UNIT
from sfumato.policy_draft.draft import DraftOptions
from sfumato.policy_draft.literals import ends_text

_TABS = {"tab": "\t", "\\t": "\t"}


def parse_pairs(options: Iterable[str], name: str) -> dict[str, str]:
    """Read NAME=VALUE."""
    found = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not (equals and key.strip() and value.strip()):
            raise BadParameter(
                f"{name} {quote_value(option)} names no column and value.",
                "An option of a column is written COLUMN=VALUE.",
                f"Write for example {_EXAMPLES[name]}.",
            )
        found[key.strip()] = value.strip()
    return found


def rows_per_unit(options: Iterable[str]) -> dict[str, int]:
    """Read how many rows count: N for every table, TABLE=N for one."""
    found = {}
    for option in options:
        table, _, number = option.rpartition("=")
        if not (number.isascii() and number.isdigit() and 1 <= int(number[:12]) <= MAX_ROWS_PER_UNIT):
            raise BadParameter(
                f"--rows-per-unit {quote_value(option)} names no number of rows.",
                "It is a whole number from 1, for every table or for one.",
                "Write for example --rows-per-unit 20 or --rows-per-unit visits=20.",
            )
        found[table.strip()] = int(number)
    return found


def analysts(options: Iterable[str]) -> dict[str, str | None]:
    """Read analysts: NAME, or NAME=EPSILON."""
    found: dict[str, str | None] = {}
    for option in options:
        name, equals, epsilon = option.partition("=")
        check_name(Entry(name.strip(), ("analysts",)), name.strip(), "analyst")
        if equals and not epsilon.strip():
            raise BadParameter(
                f"--analyst {quote_value(option)} names no epsilon.",
                "An analyst is written NAME or NAME=EPSILON.",
                "Write for example --analyst research or --analyst research=1.",
            )
        found[name.strip()] = epsilon.strip() if equals else None
    return found


def column_options(
    types: Iterable[str],
    bounds: Iterable[str],
    steps: Iterable[str],
    values: Iterable[str],
    formats: Iterable[str] = (),
) -> DraftOptions:
    """Read what is said of columns."""
    return DraftOptions(
        types=parse_pairs(types, "--type"),
        bounds={name: ends_text(typed) for name, typed in parse_pairs(bounds, "--bounds").items()},
        steps=parse_pairs(steps, "--step"),
        values={name: tuple(typed.split(",")) for name, typed in parse_pairs(values, "--values").items()},
        formats=parse_pairs(formats, "--format"),
    )


def csv_options(options: Iterable[str]) -> dict[str, object]:
    """Read how CSV files are written: KEY=VALUE, null=A,B; a tab may be called tab."""
    found: dict[str, object] = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or key.strip() not in CSV.names or not value:
            raise BadParameter(
                f"--csv {quote_value(option)} is not an option of CSV files.",
                f"It is KEY=VALUE, with one of the keys {', '.join(CSV.names)}.",
                "Write for example --csv delimiter=; or --csv null=NA.",
            )
        found[key.strip()] = value.split(",") if key.strip() == "null" else _TABS.get(value.lower(), value)
    return found


def merge_options(first: DraftOptions, second: DraftOptions) -> DraftOptions:
    """Return both; where they differ the first counts."""
    merged: dict[str, object] = {}
    for field in fields(DraftOptions):
        one, other = getattr(first, field.name), getattr(second, field.name)
        merged[field.name] = {**other, **one} if isinstance(one, dict) else one or other
    return DraftOptions(**merged)  # type: ignore[arg-type]


_EXAMPLES = {
    "--type": "--type age=integer",
    "--bounds": "--bounds age=0:120",
    "--step": "--step cost=0.01",
    "--values": "--values dept=er,icu,surgery",
    "--format": "--format day=%d/%m/%Y",
}
