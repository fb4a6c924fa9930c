"""Rows that belong to two people, as a policy says it: `unit = ["src", "dst"]`, or two kinds of people by name."""

import re
from collections.abc import Callable

from sfumato.policy.entry import Entry, items, missing, quote_entry, refuse, text
from sfumato.policy.kinds import SectionValues
from sfumato.policy.policy import Column, OwnerPair, PrivacyUnit, UnitColumn, UnitPath, fold_name
from sfumato.policy.table_keys import MAX_UNIT_CHARS

_KIND = re.compile(r"\s*(?P<kind>[^\W\d]\w{0,39})\s*:(?P<owner>.*)", re.DOTALL)
_EXAMPLE = 'unit = ["src", "dst"], or unit = ["customer: o_custkey", "supplier: l_suppkey"]'
_NO_EFFECT = {
    "groups_per_unit": "A person who shares rows with others cannot be kept to some groups without moving the others' "
    "rows, so each group is measured with a part of the price instead.",
}


def read_owner_pair(
    entry: Entry, columns: tuple[Column, ...], read_owner: Callable[[Entry, str], PrivacyUnit]
) -> OwnerPair:
    """Read both owners of a row; `read_owner` reads one of them."""
    listed = items(entry, 2)
    if len(listed) != 2:
        raise refuse(
            entry, f"lists {len(listed)} owners.", "A row belongs to one person or to two.", f"Write {_EXAMPLE}."
        )
    known = {fold_name(column.name) for column in columns}
    kinds, owners = list[str | None](), list[UnitColumn | UnitPath]()
    for below in listed:
        words = text(below, MAX_UNIT_CHARS).strip()
        named = None if fold_name(words) in known else _KIND.fullmatch(words)
        owner = read_owner(below, named["owner"].strip() if named else words)
        if not isinstance(owner, UnitColumn | UnitPath):
            raise refuse(
                below,
                f"is {quote_entry(below.value)}.",
                "Each owner of a row is named by a column, or by a path to one.",
                f"Write {_EXAMPLE}.",
            )
        kinds.append(fold_name(named["kind"]) if named else None)
        owners.append(owner)
    if owners[0] == owners[1]:
        raise refuse(
            entry, "names the same owner twice.", "Both people of a row would be one person.", "Name the other column."
        )
    if (kinds[0] is None) is not (kinds[1] is None) or (kinds[0] is not None and kinds[0] == kinds[1]):
        raise refuse(
            entry,
            "names the kind of one owner, or the same kind twice.",
            "Owners of different kinds have a name each. Owners of the same kind, such as both ends of a message, have "
            "none.",
            f"Write {_EXAMPLE}.",
        )
    # neither the order of owners of one kind nor that of two kinds means anything: there is one form of each
    (first, kind), (second, other) = sorted(zip(owners, kinds, strict=True), key=_canonical_order)
    return OwnerPair((first, second), None if kind is None or other is None else (kind, other))


def _canonical_order(one: tuple[UnitColumn | UnitPath, str | None]) -> tuple[str, str]:
    owner, kind = one
    match owner:
        case UnitColumn(column):
            return kind or "", fold_name(column)
        case UnitPath(table, column, here, there):
            return kind or "", fold_name(f"{table}.{column} via {here} = {there}")


def check_owner_pair(keys: SectionValues, columns: tuple[Column, ...]) -> None:
    """Refuse what has no meaning, or no proof, where rows have two owners."""
    for key, why in _NO_EFFECT.items():
        if key in keys:
            raise refuse(keys[key], "is written for rows with two owners.", why, f"Remove {key}.")
    if "rows_per_unit" not in keys:
        raise missing(
            keys.entry,
            "rows_per_unit",
            "Each question selects privately how many rows of one person count, up to a number that the policy states.",
            "Add rows_per_unit = N: of each person, at most N rows count, owned or shared, rounded up to a power of "
            "two.",
        )
    for column in columns:
        below = keys["columns"].below(column.name, None)
        if column.unique:
            raise refuse(
                below.below("unique", True),
                "is written for rows with two owners.",
                "Which of two equal values is kept would depend on people who share a row.",
                "Remove unique.",
            )
        if column.total_per_unit is not None:
            raise refuse(
                below.below("total_per_unit", None),
                "is written for rows with two owners.",
                "Each question selects the total per person itself.",
                "Remove total_per_unit.",
            )
        if column.bounds_chosen:
            raise refuse(
                below.below("bounds", None),
                "are selected privately, for rows with two owners.",
                "Each question selects the total per person itself, and clips values at the declared bounds.",
                "Write bounds = [LOW, HIGH].",
            )
