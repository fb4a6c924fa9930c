"""What an account may use of a dataset. Anything else does not exist for it: see proofs/rights.md.

The owner, and an analyst without roles, may use everything. Several roles add up.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from sfumato.policy.policy import (
    Column,
    HiddenUnit,
    OwnerPair,
    Policy,
    PrivacyUnit,
    Reference,
    Role,
    Table,
    UnitColumn,
    UnitPath,
    fold_name,
)


@dataclass(frozen=True, slots=True)
class Rights:
    """Which names exist for an account."""

    roles: tuple[Role, ...] | None = None
    """The roles of the account; None where it may use everything."""

    @property
    def complete(self) -> bool:
        """Whether every name exists."""
        return self.roles is None

    def may_use_table(self, table: str) -> bool:
        """Whether a table exists for the account."""
        return self.roles is None or any(role.may_use_table(fold_name(table)) for role in self.roles)

    def may_use_column(self, table: str, column: str) -> bool:
        """Whether a column of a table exists for the account."""
        folded = fold_name(table), fold_name(column)
        return self.roles is None or any(role.may_use_column(*folded) for role in self.roles)


ALL_RIGHTS = Rights()


def rights_of(
    policy: Policy,
    account: str,
    granted: Collection[tuple[str, str]] = (),
    *,
    claimed: tuple[str, ...] | None = None,
) -> Rights:
    """Return the rights of an account; the empty name is the owner's.

    `granted` are names that the owner has granted for one question, by folded table and column: the empty column
    stands for the table without columns. `claimed` are the roles that an identity provider gave the person who uses
    the account: then no others count.
    """
    analyst = policy.analyst(account) if account else None
    if analyst is None or (not analyst.roles and claimed is None):
        return ALL_RIGHTS
    names = analyst.roles if claimed is None else claimed_roles(policy, account, claimed)
    roles = tuple(role for name in names if (role := policy.role(name)) is not None)
    more = Role("", tuple(sorted({table for table, _ in granted})), tuple(pair for pair in granted if pair[1]))
    return Rights((*roles, more) if granted else roles)


def may_see_cohorts(policy: Policy, account: str, claimed: tuple[str, ...] | None = None) -> bool:
    """Whether an account may see the names of cohorts: it may use the column that they come from."""
    cohort = policy.cohort
    return cohort is None or rights_of(policy, account, claimed=claimed).may_use_column(cohort.table, cohort.column)


def claimed_roles(policy: Policy, account: str, claimed: Iterable[str]) -> tuple[str, ...]:
    """Return the claimed roles that count, by folded name: those of the policy, and of the analyst's if there are any.

    Other names of the provider mean nothing here.
    """
    analyst = policy.analyst(account)
    allowed = analyst.roles if analyst is not None and analyst.roles else tuple(role.name for role in policy.roles)
    wanted = {fold_name(name) for name in claimed}
    return tuple(sorted({fold_name(name) for name in allowed} & wanted))


def visible_policy(
    policy: Policy,
    account: str,
    granted: Collection[tuple[str, str]] = (),
    *,
    claimed: tuple[str, ...] | None = None,
) -> Policy:
    """Return the policy as an account may see it: its own tables and columns, and no other analyst.

    It describes; the hash, the ledger and the engines have the whole one.
    """
    if not account:
        return policy
    rights = rights_of(policy, account, granted, claimed=claimed)
    tables = tuple(_visible_table(table, rights) for table in policy.tables if rights.may_use_table(table.name))
    own = tuple(analyst for analyst in policy.analysts if fold_name(analyst.name) == account)
    return replace(policy, tables=tables, analysts=own, roles=(), owners=())


def _visible_table(table: Table, rights: Rights) -> Table:
    if rights.complete:
        return table
    columns = (column for column in table.columns if rights.may_use_column(table.name, column.name))
    shown = tuple(_visible_column(column, rights) for column in columns)
    unit = None if table.unit is None else _visible_unit(table, table.unit, rights)
    return replace(table, columns=shown, unit=unit, sealed=None, stored=None)


def _visible_column(column: Column, rights: Rights) -> Column:
    values = column.values
    if isinstance(values, Reference) and not rights.may_use_column(values.table, values.column):
        return replace(column, values=())
    return column


def _visible_unit(table: Table, unit: PrivacyUnit, rights: Rights) -> PrivacyUnit:
    match unit:
        case UnitColumn(column):
            named: tuple[tuple[str, str], ...] = ((table.name, column),)
        case UnitPath(other, column, here, there):
            named = ((other, column), (other, there), (table.name, here))
        case OwnerPair():
            hidden = any(isinstance(_visible_unit(table, owner, rights), HiddenUnit) for owner in unit.owners)
            return HiddenUnit() if hidden else unit
        case _:
            return unit
    return unit if all(rights.may_use_column(*name) for name in named) else HiddenUnit()
