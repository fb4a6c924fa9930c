"""A policy in the one spelling that all policies of the same meaning share, and its SHA-256.

The text is itself a policy in TOML, without `source` and `ledger`. What belongs to it: the name, the neighbour
relation, the budget and the analysts, every table and column with all that is promised of them; defaults written out,
names folded, numbers reduced, everything without an order sorted. What does not: where the data and the ledger lie
(moving a file promises nothing else; its content is the data version's matter), when it is read again, comments and
spellings.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256

from sfumato.caches import SameObjects
from sfumato.policy.account_keys import ANALYST, BUDGET
from sfumato.policy.keys import CSV, POLICY, SEALED
from sfumato.policy.kinds import Default, Hashed, Section
from sfumato.policy.policy import (
    PLAIN,
    Analyst,
    Bounds,
    Column,
    ColumnType,
    CsvFormat,
    HiddenUnit,
    OwnerPair,
    Policy,
    PrivacyUnit,
    Reference,
    Role,
    RowUnit,
    SealedTable,
    Table,
    UnitColumn,
    UnitPath,
    Value,
    fold_name,
)
from sfumato.policy.server_settings import Identity
from sfumato.policy.table_keys import COLUMN, DEFAULT_TEXT_CHARS, TABLE

_FORM = "# sfumato policy, canonical form 1"
_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f]')
"""A new meaning of any line is a new form: a hash never changes what it stands for."""


def canonical_text(policy: Policy) -> str:
    """Return the policy's canonical text."""
    return _lines(
        [
            _FORM,
            *hashed_lines(POLICY, policy),
            "[budget]",
            *hashed_lines(BUDGET, policy.budget),
            *_padding(policy),
            *_cohort(policy),
            *_sealing(policy),
            *_sections(policy),
            *(line for table in sorted(policy.tables, key=_folded_name) for line in _table(table)),
            *(line for role in sorted(policy.roles, key=_folded_name) for line in _role(role)),
            *(line for analyst in sorted(policy.analysts, key=_folded_name) for line in _analyst(analyst)),
        ]
    )


def policy_hash(policy: Policy) -> str:
    """Return the SHA-256 of the canonical text: equal for policies of equal meaning, different for others."""
    return _policy_hash(SameObjects(policy))


@lru_cache(maxsize=8)
def _policy_hash(policy: SameObjects) -> str:
    return sha256(canonical_text(policy.objects[0]).encode()).hexdigest()


def identity_digest(identity: Identity) -> str:
    """Return the SHA-256 of an `[identity]` section: what a provider vouched for counts under the same one alone."""
    parts = identity.issuer, identity.audience, identity.analyst, identity.client_id, identity.roles
    return sha256(json.dumps(parts).encode()).hexdigest()


def tables_hash(policy: Policy) -> str:
    """Return the SHA-256 of the tables alone, on which the bounded copy depends: a new budget need not rebuild it."""
    return sha256(f"{_lines([*_csv_form(policy.csv), *_cohort(policy)])}{_words(policy.tables)}".encode()).hexdigest()


def tables_digest(policy: Policy, names: Iterable[str]) -> str:
    """Return the SHA-256 digest of the policy entries of these tables and of every table they reference.

    A table leads to the one that names its person, and to those that its columns take their keys from; whom we
    protect, and under which relation, is said of every table.
    """
    referenced: dict[str, Table] = {}
    waiting = [fold_name(name) for name in names]
    while waiting:
        name = waiting.pop()
        table = policy.table(name)
        if table is not None and name not in referenced:
            referenced[name] = table
            waiting += [fold_name(other) for other in referenced_tables(table)]
    text = _lines([f"neighbours = {_quote_toml(policy.neighbours)}", *_sealing(policy), *_csv_form(policy.csv)])
    text += _lines(_cohort(policy))
    words = _words_of_tables(SameObjects(policy.tables))
    text += _lines([f"{_FORM}, tables"]) + "".join(words[name] for name in sorted(referenced))
    return sha256(text.encode()).hexdigest()


@lru_cache(maxsize=8)
def _words_of_tables(tables: SameObjects) -> dict[str, str]:
    """Return what a policy says about each of its tables, by folded name.

    It is of all tables, so that the time of a question does not tell which tables others have asked about.
    """
    return {fold_name(table.name): _lines(_table(table)) for table in reversed(tables.objects[0])}


def referenced_tables(table: Table) -> list[str]:
    """Return the tables that say whose the rows of a table are, and those that its columns take their keys from."""
    others = [column.values.table for column in table.columns if isinstance(column.values, Reference)]
    owners = table.unit.owners if isinstance(table.unit, OwnerPair) else (table.unit,)
    return [*others, *(owner.table for owner in owners if isinstance(owner, UnitPath))]


def _words(tables: Iterable[Table]) -> str:
    lines = [line for table in sorted(tables, key=_folded_name) for line in _table(table)]
    return _lines([f"{_FORM}, tables", *lines])


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _folded_name(named: Table | Column | Analyst | Role) -> str:
    return fold_name(named.name)


def _name(name: str) -> str:
    return _quote_toml(fold_name(name))


def hashed_lines(section: Section, holder: object) -> list[str]:
    """Return the lines of the keys that have one: those of form 1 always, later ones where they are not the default.

    Form 1 is older than the later keys: there, silence means the default.
    """
    lines = []
    for key in section.keys:
        if key.hashed is Hashed.APART or isinstance(key.kind, Section):
            continue
        value = getattr(holder, key.target)
        default = key.default.value if isinstance(key.default, Default) else None
        if key.hashed is Hashed.ALWAYS or value != default:
            lines.append(f"{key.name} = {_list_text(value) if isinstance(value, tuple) else _value(value)}")
    return lines


def _list_text(values: Iterable[Value]) -> str:
    return f"[{', '.join(map(_value, values))}]"


def _analyst(analyst: Analyst) -> list[str]:
    sorted_roles = replace(analyst, roles=tuple(sorted(map(fold_name, analyst.roles))))
    return [f"[analysts.{_name(analyst.name)}]", *hashed_lines(ANALYST, sorted_roles)]


def _role(role: Role) -> list[str]:
    """Return what a role may use; its caps are written out for each analyst."""
    lines = [f"[roles.{_name(role.name)}]"]
    if role.tables is not None:
        lines.append(f"tables = {_list_text(role.tables)}")
    if role.columns is not None:
        lines.append(f"columns = {_list_text(f'{table}.{column}' for table, column in role.columns)}")
    return lines


def _padding(policy: Policy) -> list[str]:
    """Return the line that form 1 has below the budget."""
    return [] if policy.padding is None else [f"padding = {_value(policy.padding)}"]


def _cohort(policy: Policy) -> list[str]:
    """Form 1 is older than this key: there, silence means that all people share one budget."""
    return [] if policy.cohort is None else [f"cohort = {_quote_toml(fold_name(str(policy.cohort)))}"]


def _sealing(policy: Policy) -> list[str]:
    """Return the promises about a sealed store, without the paths of store and key."""
    return [] if policy.sealed is None else ["[sealed]", *hashed_lines(SEALED, policy.sealed)]


def _sections(policy: Policy) -> list[str]:
    """Return the sections that are not the default; those of form 1 have their own place."""
    lines = []
    for key in POLICY.keys:
        if isinstance(key.kind, Section) and key.kind.into and key.hashed is Hashed.CHANGED:
            value = getattr(policy, key.target)
            if isinstance(key.default, Default) and value != key.default.value:
                lines += [f"[{key.name}]", *hashed_lines(key.kind, value)]
    return lines


def _csv_form(form: CsvFormat) -> list[str]:
    """Form 1 is older than these keys: there, silence means commas, UTF-8 and a decimal point."""
    return [] if form == PLAIN else ["[csv]", *hashed_lines(CSV, form)]


def _sealed_lines(sealed: SealedTable) -> list[str]:
    named = {key: getattr(sealed, key) for key in ("cells", "measures", "squares", "nulls", "splayed")}
    lists = [f"{key} = [{', '.join(sorted(_name(name) for name in names))}]" for key, names in named.items()]
    return [*lists, f"capacity = {sealed.capacity}"]


def _table(table: Table) -> list[str]:
    lines = [f"[tables.{_name(table.name)}]"]
    if table.unit is None:
        lines.append("public = true")
    else:
        rows = f'{{ most = {table.rows_per_unit}, choose = "private" }}' if table.rows_chosen else table.rows_per_unit
        lines += [f"unit = {_unit_value(table.unit)}", f"rows_per_unit = {rows}"]
    if table.stored is not None:
        lines.append(f"from = {_quote_toml(fold_name(table.stored))}")
    if table.groups_per_unit is not None:
        most = table.groups_per_unit
        chosen = f'{{ most = {most}, choose = "private" }}'
        lines.append(f"groups_per_unit = {chosen if table.groups_chosen else most}")
    if table.sealed is not None:
        lines += _sealed_lines(table.sealed)
    lines += hashed_lines(TABLE, table)
    if table.columns:
        lines.append(f"[tables.{_name(table.name)}.columns]")
    return lines + [_column(column) for column in sorted(table.columns, key=_folded_name)]


def _unit_value(unit: PrivacyUnit) -> str:
    if not isinstance(unit, OwnerPair):
        return _quote_toml(_unit(unit))
    return f"[{', '.join(_quote_toml(words) for words in owner_words(unit))}]"


def owner_words(unit: OwnerPair) -> list[str]:
    """Return both owners of a row as a policy writes them; those of one kind in one order, because they have none."""
    words = [_unit(owner) for owner in unit.owners]
    if unit.kinds is None:
        return sorted(words)
    return sorted(f"{fold_name(kind)}: {word}" for kind, word in zip(unit.kinds, words, strict=True))


def _unit(unit: PrivacyUnit) -> str:
    match unit:
        case RowUnit():
            return "rows"
        case UnitColumn(column):
            return fold_name(column)
        case UnitPath(table, column, here, there):
            return fold_name(f"{table}.{column} via {here} = {there}")
        case HiddenUnit() | OwnerPair():
            raise AssertionError("a policy that is hashed is whole")


def _column(column: Column) -> str:
    parts = [f"type = {_quote_toml(column.type)}"]
    match column.bounds:
        case Bounds(low, high):
            ends = f"[{_value(low)}, {_value(high)}]"
            chosen = f'{{ within = {ends}, choose = "private" }}'
            parts.append(f"bounds = {chosen if column.bounds_chosen else ends}")
    if column.step is not None and column.type is ColumnType.DECIMAL:
        parts.append(f"step = {_value(column.step)}")
    match column.values:
        case Reference(table, name):
            parts.append(f"values = {_quote_toml(fold_name(f'{table}.{name}'))}")
        case tuple(values):
            parts.append(f"values = {_list_text(_sort_values(values))}")
    if column.total_per_unit is not None:
        parts.append(f"total_per_unit = {_value(column.total_per_unit)}")
    if column.unique:
        parts.append("unique = true")
    if column.length not in (
        None,
        DEFAULT_TEXT_CHARS,
    ):  # form 1 is older than the key: there this is what silence means
        parts.append(f"length = {column.length}")
    if column.joins:
        parts.append('join = "deterministic"')
    if column.format is not None:
        parts.append(f"format = {_quote_toml(column.format)}")
    parts += hashed_lines(COLUMN, column)
    return f"{_name(column.name)} = {{ {', '.join(parts)} }}"


def _sort_values(values: tuple[Value, ...]) -> list[Value]:
    """Sort values of one type: which one decides only the order, and any fixed one will do."""
    return sorted(values, key=_value)


def _value(value: Value) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case Fraction():
            return _quote_toml(str(value))
        case datetime():
            return value.isoformat(timespec="microseconds")
        case date():
            return value.isoformat()
        case str():
            return _quote_toml(value)


def _quote_toml(words: str) -> str:
    """Return a TOML string: quotes, backslashes and control characters escaped, everything else as it is."""
    if not _ESCAPED.search(words):
        return f'"{words}"'
    return '"' + "".join(_escape_character(character) for character in words) + '"'


def _escape_character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return f"\\u{ord(character):04x}" if character < " " or character == "\x7f" else character
