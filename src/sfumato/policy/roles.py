"""Reads roles, and gives analysts what their roles say."""

from collections.abc import Iterable
from fractions import Fraction

from sfumato.errors import suggestion
from sfumato.policy.account_keys import ADD_EPSILON, ANALYST, MAX_ANALYSTS, MAX_ROLES, ROLE
from sfumato.policy.entry import Entry, items, missing, named, quote_entry, refuse, text
from sfumato.policy.kinds import SectionValues
from sfumato.policy.policy import ALL_COLUMNS, Analyst, Budget, Period, Role, Table, fold_name

_MAX_COLUMN_CHARS = 200
_MAX_LISTED_COLUMNS = 100_000


def read_roles(entry: Entry, tables: tuple[Table, ...], budget: Budget) -> tuple[Role, ...]:
    """Read every role; the tables and columns that it names must be declared."""
    return tuple(_role(name, below, tables, budget) for name, below in named(entry, "role", MAX_ROLES).items())


def read_analysts(entry: Entry, budget: Budget, roles: tuple[Role, ...]) -> tuple[Analyst, ...]:
    """Read every analyst; what is not written for one comes from the roles."""
    return tuple(_analyst(name, below, budget, roles) for name, below in named(entry, "analyst", MAX_ANALYSTS).items())


def _role(name: str, entry: Entry, tables: tuple[Table, ...], budget: Budget) -> Role:
    keys = ROLE.read_keys(entry)
    fields = keys.fields
    _check_price(keys, fields["price"], min(fields["epsilon"] or budget.epsilon, budget.epsilon))
    listed = tuple(keys["tables"].value) if "tables" in keys else ()  # type: ignore[arg-type]
    for index, table in enumerate(fields["tables"] or ()):
        _known_table(keys["tables"].below(index, listed[index]), table, tables)
    usable = None if fields["tables"] is None else tuple(sorted(map(fold_name, fields["tables"])))
    columns = None
    if "columns" in keys:
        usable_tables = [table for table in tables if usable is None or fold_name(table.name) in usable]
        found = {pair for below in items(keys["columns"], _MAX_LISTED_COLUMNS) for pair in _pairs(below, usable_tables)}
        columns = tuple(sorted(found))
        usable = tuple(sorted({table for table, _ in found})) if usable is None else usable
    return Role(name, **fields | {"tables": usable, "columns": columns})


def _pairs(entry: Entry, tables: list[Table]) -> list[tuple[str, str]]:
    """Read TABLE.COLUMN, TABLE.* or COLUMN, which stands for that column of every table of the role."""
    typed = fold_name(text(entry, _MAX_COLUMN_CHARS))
    before, dot, after = typed.partition(".")
    table = next((table for table in tables if fold_name(table.name) == before), None) if dot else None
    if table is not None:
        if after == ALL_COLUMNS or not table.columns or table.column(after) is not None:
            return [(before, after)]
        raise _unknown(entry, f"names no column of {table.name}.", after, (column.name for column in table.columns))
    pairs = [(fold_name(table.name), typed) for table in tables if table.column(typed) is not None]
    if pairs:
        return pairs
    named_columns = (f"{table.name}.{column.name}" for table in tables for column in table.columns)
    raise _unknown(entry, "names no column of the tables of this role.", typed, named_columns)


def _known_table(entry: Entry, name: str, tables: tuple[Table, ...]) -> None:
    if all(fold_name(table.name) != fold_name(name) for table in tables):
        raise _unknown(entry, "names no table of this policy.", name, (table.name for table in tables))


def _unknown(entry: Entry, what: str, typed: str, known: Iterable[str]) -> Exception:
    return refuse(
        entry,
        f"is {quote_entry(entry.value)}: it {what}",
        "A role can use only what the policy declares.",
        f'{suggestion(typed, tuple(known))}Write for example tables = ["visits"], columns = ["visits.age"].',
    )


def _analyst(name: str, entry: Entry, budget: Budget, roles: tuple[Role, ...]) -> Analyst:
    keys = ANALYST.read_keys(entry)
    fields, own = keys.fields, []
    for typed in fields["roles"]:
        role = next((role for role in roles if fold_name(role.name) == fold_name(typed)), None)
        if role is None:
            raise refuse(
                keys["roles"],
                f"names {quote_entry(typed)}.",
                "A role says which tables an analyst may use, so it must be declared.",
                f"{suggestion(typed, [role.name for role in roles])}Add [roles.{typed}], or remove the name.",
            )
        own.append(role)
    fields["roles"] = tuple(role.name for role in own)
    if fields["every"] is None and fields["epsilon"] is None:
        fields["every"] = _shared_window(own)
    for key in ("epsilon", "delta"):
        given = [value for role in own if (value := getattr(role, key)) is not None]
        if fields[key] is None and given:
            fields[key] = max(given)
    if fields["epsilon"] is None:
        raise missing(entry, "epsilon", ADD_EPSILON.why, ADD_EPSILON.remedy)
    if fields["delta"] is None:
        fields["delta"] = budget.delta
    if fields["price"] is None:
        fields["price"] = next((role.price for role in own if role.price is not None), None)
    _check_price(keys, fields["price"], min(fields["epsilon"], budget.epsilon))
    return Analyst(name, **fields)


def _shared_window(roles: list[Role]) -> Period | None:
    """Return the window of the roles whose epsilon counts: that of the largest, and of equal ones the longest."""
    largest = max((role.epsilon for role in roles if role.epsilon is not None), default=None)
    windows = [role.every for role in roles if role.epsilon is not None and role.epsilon == largest]
    if not windows or None in windows:
        return None
    return max(filter(None, windows), key=tuple(Period).index)


def _check_price(keys: SectionValues, price: str | None, cap: Fraction) -> None:
    """Refuse a price that no question could be asked at."""
    if price is not None and not price.endswith("%") and Fraction(price) > cap:
        raise refuse(
            keys.written.get("price", keys.entry),
            f"{'is' if 'price' in keys else 'has the price'} {price}, above the budget of ε = {cap}.",
            "No question could be answered at this price.",
            'Write a share such as price = "1%", or a smaller epsilon.',
        )
