"""What an account may use of a dataset. Anything else does not exist for it: see proofs/rights.md.

The owner, and an analyst without roles, may use everything. Several roles add up.
"""

from dataclasses import dataclass, replace

from sfumato.policy.policy import (
    Column,
    HiddenUnit,
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


EVERYTHING = Rights()


def rights_of(policy: Policy, account: str) -> Rights:
    """Return the rights of an account; the empty name is the owner's."""
    analyst = policy.analyst(account) if account else None
    if analyst is None or not analyst.roles:
        return EVERYTHING
    return Rights(tuple(role for name in analyst.roles if (role := policy.role(name)) is not None))


def may_see_cohorts(policy: Policy, account: str) -> bool:
    """Whether an account may see the names of cohorts: it may use the column that they come from."""
    cohort = policy.cohort
    return cohort is None or rights_of(policy, account).may_use_column(cohort.table, cohort.column)


def visible_policy(policy: Policy, account: str) -> Policy:
    """Return the policy as an account may see it: its own tables and columns, and no other analyst.

    It describes; the hash, the ledger and the engines have the whole one.
    """
    if not account:
        return policy
    rights = rights_of(policy, account)
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
        case _:
            return unit
    return unit if all(rights.may_use_column(*name) for name in named) else HiddenUnit()
