"""The private tables of a copy: those of one person each row, and those whose rows have two owners."""

from sfumato.engines.engine import Progress
from sfumato.engines.sql.bounded_copy import CopiedTable, bounded_table
from sfumato.engines.sql.build_protocol import Building
from sfumato.engines.sql.two_owners import write_paired_table
from sfumato.policy.policy import Table


def write_private_tables(build: Building, progress: Progress) -> list[CopiedTable]:
    """Write every private table of the copy; another engine copies public tables."""
    copied: list[CopiedTable] = []
    for table in build.policy.tables:
        if table.public:
            progress("copy", table.name)
        else:
            copied += write_private_table(build, table, progress)
    return copied


def write_private_table(build: Building, table: Table, progress: Progress) -> list[CopiedTable]:
    """Write one private table of the copy, and what belongs to it."""
    return (write_paired_table if table.has_two_owners else bounded_table)(build, table, progress)
