"""The draft as a TOML file for people: each line says what it promises; what is unknown stands there commented out."""

import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from textwrap import wrap

from sfumato.accounting.event import Neighbours
from sfumato.accounting.loss import round_up
from sfumato.errors import Refusal
from sfumato.policy.policy import ColumnType, CsvFormat
from sfumato.policy.reading import read_policy
from sfumato.policy_draft.accuracy import estimate_budget_use
from sfumato.policy_draft.draft import Draft, DraftColumn, DraftTable, column_text
from sfumato.policy_draft.literals import key_text, quoted_text
from sfumato.policy_draft.unit_options import ROWS, Unit

FILL_IN = "FILL IN"
"""The words at every line that a policy must have and that only its owner can write."""
_WIDTH = 112
_RISK = "taken from the data by --look: your risk"
_EXAMPLES = {
    ColumnType.INTEGER: "bounds = [LOW, HIGH]",
    ColumnType.DECIMAL: "bounds = [LOW, HIGH], step = 0.01",
    ColumnType.DATE: "bounds = [2020-01-01, 2029-12-31]",
    ColumnType.TIMESTAMP: "bounds = [2020-01-01T00:00:00, 2029-12-31T23:59:59]",
    ColumnType.TEXT: 'values = ["a", "b"]',
}
_WITHOUT = {
    ColumnType.TEXT: ": public keys; without them, groups are chosen privately",
    ColumnType.DATE: "; without bounds: groups are chosen privately",
    ColumnType.TIMESTAMP: "; without bounds: groups are chosen privately",
}


def policy_text(draft: Draft, name: str, source: str) -> str:
    """Return the file. `source` is the path of the data as the policy will name it."""
    return "\n".join(_policy_lines(draft, name, source)) + "\n"


def check_draft(draft: Draft, name: str, source: str) -> None:
    """Refuse a draft that no completion makes a policy: bounds in the wrong order, keys outside of them, …"""
    tables = tuple(replace(table, rows_per_unit=1) if table.needs_rows else table for table in draft.tables)
    whole = replace(draft, tables=tables, epsilon=draft.epsilon or "1", delta=draft.delta or "0")
    if not whole.unknown():
        words = tomllib.loads(policy_text(whole, name, source), parse_float=Decimal)
        read_policy(
            {"ledger": f"sqlite:{name}.ledger", **words}
        )  # its place is beside the file, which is not there yet


def _policy_lines(draft: Draft, name: str, source: str) -> Iterator[str]:
    yield from _comment(
        "A policy: what the owner of this data promises. It was drafted from names and types"
        + (
            ", and from the data where a line says so: a bound or a key that is taken from the data can give a person"
            " away, and no budget pays for that. Replace each such line by what you know without looking."
            if _has_inferred_values(draft)
            else _values_read(draft)
        )
        + f" Lines marked {FILL_IN} are yours to write: remove the # and say what you know."
        + f" Then run: sfumato check {shlex.quote(name + '.toml')}. Every key is explained in docs/policy/index.md."
    )
    yield ""
    yield f"name = {quoted_text(name)}"
    yield f"source = {quoted_text(f'{draft.scheme}:{source}')}"
    yield ""
    yield from _csv_form(draft.csv)
    yield from _budget(draft)
    for table in draft.tables:
        yield ""
        yield from _table_lines(table)
    yield ""
    yield from _analysts(draft)


def _values_read(draft: Draft) -> str:
    if any(column.type_read for table in draft.tables for column in table.columns):
        return ". The types of CSV columns are those as which all values read; no other value about a person was read."
    return "; no value about a person was read."


def _analysts(draft: Draft) -> Iterator[str]:
    yield from _comment("Analysts may have budgets of their own inside the one above.")
    price = 'price = "1%"    # of this budget: what a question costs that names no price'
    if not draft.analysts:
        yield from ("# [analysts.research]", "# epsilon = 1", f"# {price}")
    for at, (name, given) in enumerate(draft.analysts):
        if at:
            yield ""
        yield f"[analysts.{key_text(name)}]"
        if given is not None:
            yield f"epsilon = {given}"
        elif draft.epsilon is not None:
            yield f"epsilon = {draft.epsilon}    # all of the budget above; write less to keep some for other accounts"
        else:
            yield f"# epsilon = 1      # {FILL_IN}: the most of the budget above that this analyst may use"
        yield price


def _csv_form(form: CsvFormat) -> Iterator[str]:
    """How CSV files are written, where it is not the plain form; `null` is the owner's own word."""
    if form == CsvFormat():
        return
    yield from _comment(
        "How the CSV files are written: the delimiter comes from their first line, the encoding from their "
        "bytes. Nothing is guessed when rows are read."
    )
    yield "[csv]"
    for key in ("delimiter", "encoding", "decimal", "thousands"):
        if (value := getattr(form, key)) != getattr(CsvFormat(), key):
            yield f"{key} = {quoted_text(value)}"
    for key in ("null", "symbols", "true", "false"):
        if texts := getattr(form, key):
            yield f"{key} = [{', '.join(map(quoted_text, texts))}]"
    yield ""


def _has_inferred_values(draft: Draft) -> bool:
    return any(
        table.inferred or any(column.inferred for column in table.columns) for table in draft.tables if not table.public
    )


def _budget(draft: Draft) -> Iterator[str]:
    yield from _comment(
        "The price of all answers together. No outcome becomes more than e^epsilon times as likely because one "
        "person is in the data. Delta is the chance of more than that, and should be far below one in the number "
        "of people. With delta = 0 every group key must be declared."
    )
    yield from _comment(purchase_words(draft))
    yield "[budget]"
    yield f"epsilon = {draft.epsilon}" if draft.epsilon else f"# epsilon = 1      # {FILL_IN}"
    yield f"delta = {draft.delta}" if draft.delta else f"# delta = 1e-6     # {FILL_IN}"
    if any(table.private for table in draft.tables):
        why = "once per snapshot: publishes how much rows_per_unit and bounds remove"
        yield f"truncation = {_truncation(draft)}  # {why}"


def _truncation(draft: Draft) -> str:
    """Return a twentieth of the budget, and never more than 0.05."""
    try:
        epsilon = Fraction((draft.epsilon or "1").strip('"'))
    except (ValueError, ZeroDivisionError):  # said better by `check_draft`, with the key
        return "0.05"
    return f"{float(min(epsilon / 20, Fraction(1, 20))):g}" if epsilon > 0 else "0.05"


def purchase_words(draft: Draft) -> str:
    """Describe what the budget allows, where budget and rows are known."""
    rows = [
        1 if table.one_row else table.rows_per_unit or 1
        for table in draft.tables
        if table.private and not table.needs_rows
    ]
    if draft.epsilon is None or draft.delta is None or not rows:
        return ""
    try:
        epsilon, delta = (Fraction(text.strip('"')) for text in (draft.epsilon, draft.delta))
        bought = estimate_budget_use(epsilon, delta, max(rows), Neighbours.ADD_REMOVE)
    except (Refusal, ValueError, ZeroDivisionError):  # said better by `check_draft`, with the key
        return ""
    return (
        f"This budget answers about {bought.tables} tables of counts in which each count is within"
        f" ±{bought.margin:,} of the truth with 95 % (each at epsilon = {round_up(bought.epsilon)}); fewer, if they are"
        " to be more exact."
    )


def _table_lines(table: DraftTable) -> Iterator[str]:
    name = key_text(table.name)
    yield from _comment(table.comment)
    if table.public:
        yield from _comment(
            "Declared by the owner to contain no personal data: answers about it alone are exact and free."
        )
        yield f"[tables.{name}]"
        yield "public = true"
        yield from _from(table)
        yield from _public_columns(table, name)
        return
    if not table.private:
        yield from _comment(
            f"{FILL_IN}: whom does {table.name} protect? Until this is filled in, queries cannot use it. If it "
            "contains no personal data, write public = true. If the person is named in another table, write a "
            'path: unit = "TABLE.COLUMN via HERE = THERE". Otherwise name the column, or "rows" if each row is a '
            "person." + (f" By their names, these could be meant: {'; '.join(table.choices)}." if table.choices else "")
        )
        yield from (f"# {line}".rstrip() for line in _private(replace(table, unit="COLUMN"), name))
        return
    yield from _private(table, name)


def _public_columns(table: DraftTable, name: str) -> Iterator[str]:
    """Write the columns of a public CSV table, whose types are read from its public values."""
    if any(column.inferred for column in table.columns):
        yield ""
        yield f"[tables.{name}.columns]    # the types are read from the table, which is public"
        yield from (f'{key_text(column.name)} = {{ type = "{column.type}" }}' for column in table.columns)


def _private(table: DraftTable, name: str) -> Iterator[str]:
    yield f"[tables.{name}]"
    yield from _from(table)
    yield f"unit = {quoted_text(table.unit or '')}    # {_whom(table)}"
    if table.unit != ROWS:
        if table.one_row:
            yield "rows_per_unit = 1    # the person's own key is unique: one row of each person counts"
        elif table.rows_per_unit is not None:
            risk = f"; {_RISK}" if table.inferred else ""
            yield (
                f"rows_per_unit = {table.rows_per_unit}    # the maximum rows per person; extra rows are dropped{risk}"
            )
        else:
            yield f"# rows_per_unit = 20    # {FILL_IN}: the maximum rows per person; more rows, more noise"
        yield (
            "# groups_per_unit = 3    # optional: the maximum groups per person in one answer; fewer groups, less noise"
        )
    yield ""
    yield f"[tables.{name}.columns]"
    for column in table.columns:
        yield from _column_lines(column, column.name == table.unit)
    for column_name in table.unusable:
        yield f"# {key_text(column_name)} cannot be declared: its name, or the kind of its values"


def _from(table: DraftTable) -> Iterator[str]:
    if table.stored is not None:
        yield f"from = {quoted_text(table.stored)}"


def _whom(table: DraftTable) -> str:
    if table.unit == ROWS:
        whom = "each row is a separate person"
    elif Unit(table.unit or "").path:
        whom = "a row belongs to the person to whom this path leads"
    else:
        whom = "rows with the same value belong to one person"
    how = "a foreign key" if table.by_reference else "names alone"
    return f"{whom}; PROPOSED by {how}: check it" if table.proposed else whom


def _column_lines(column: DraftColumn, names_people: bool) -> Iterator[str]:
    line = f"{key_text(column.name)} = {column_text(column, names_people)}"
    if column.personal is not None:
        yield f"# {line}    # LEFT OUT: it looks like {column.personal}; remove the # to let questions use it"
        return
    remark = _remark(column, names_people)
    yield f"{line}    # {remark}" if remark else line


def _remark(column: DraftColumn, names_people: bool) -> str:
    remarks = [column.comment] if column.comment else []
    remarks += ["names the person: never shown, never grouped by"] if names_people else []
    if column.proposed_key:
        remarks.append("unique is PROPOSED by its name: each person keeps one row per value; check it")
    if names_people:
        return "; ".join(remarks)
    if column.inferred:
        remarks.append(_RISK)
    if column.type_read:
        remarks.append("every value of the source reads as this type (--types)")
    if column.type_guessed and column.type is ColumnType.INTEGER:
        remarks.append("integer, because its bounds are whole numbers; decimals would be rounded")
    if column.listed:
        remarks.append("the labels of its type in the source")
    if column.untyped:
        remarks.append(f"the source says no type: one of {', '.join(ColumnType)}")
    if column.default_step:
        remarks.append(f"the default step is {column.step}: the precision that matters")
    if column.bounds is None and not column.keyed and not column.unique and column.type in _EXAMPLES:
        example = "bounds = [LOW, HIGH]" if column.step is not None else _EXAMPLES[column.type]
        remarks.append(f"add {example}{_WITHOUT.get(column.type, '; without bounds: counted, and not summed')}")
    return "; ".join(remarks)


def notices(draft: Draft) -> list[str]:
    """Return every proposal, omission and assumption, for the terminal."""
    lines = [*_form_notice(draft.csv), *draft.remarks]
    for table in draft.tables:
        if table.private:
            lines += list(_notice_lines(table))
    waiting = [table.name for table in draft.tables if not table.private and not table.public]
    if waiting and len(waiting) < len(draft.tables):
        lines.append(
            f"Not in the policy, because their unit is not given: {', '.join(waiting)}. Give it with --unit, or "
            f"use --public {waiting[0]} for a table without personal data."
        )
    return lines


def _form_notice(form: CsvFormat) -> Iterator[str]:
    plain = CsvFormat()
    if form.delimiter != plain.delimiter:
        between = "a tab" if form.delimiter == "\t" else form.delimiter
        yield f"The first line of the CSV files uses the delimiter {between} ([csv] delimiter)."
    if form.encoding != plain.encoding:
        yield f"The CSV files are not UTF-8. Taken from their bytes: encoding = {quoted_text(form.encoding)} ([csv])."
    if form.delimiter == ";" and form.decimal == ".":
        yield "If their numbers are written with a decimal comma, say so: --csv decimal=,"


def _notice_lines(table: DraftTable) -> Iterator[str]:
    if table.proposed:
        how = "the person is" if Unit(table.unit or "").path else "the person is named by"
        by = "a foreign key" if table.by_reference else "names"
        yield f"Proposed by {by}, check it: in {table.name} {how} {table.unit}."
    for column in table.columns:
        if column.proposed_key:
            yield (
                f"Proposed by its name, check it: {table.name}.{column.name} is a key (unique = true); each "
                "person keeps one row per value."
            )
    left = [f"{column.name} ({column.personal})" for column in table.columns if column.personal is not None]
    if left:
        yield (
            f"Left out of {table.name}, because of what they look like: {', '.join(left)}. To keep one:"
            f" --type {table.name}.{left[0].partition(' ')[0]}=text."
        )
    whole = [column.name for column in table.columns if column.type_guessed and column.type is ColumnType.INTEGER]
    if whole:
        yield (
            f"Taken as integer in {table.name}, because the bounds are whole numbers: {', '.join(whole)}. Decimals "
            f"would be rounded; for them write --type {whole[0]}=decimal."
        )
    for column in table.columns:
        if column.default_step and column.name != table.unit:
            yield f"The default step of {table.name}.{column.name} is {column.step}. Set another with --step."


def _comment(text: str) -> Iterator[str]:
    yield from (f"# {line}" for line in wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False))
