"""In how many rows of a person a column has a value, where the copy says so: then no question has to count them.

A quantile shares a person's weight among the rows that have a value. As long as a question leaves no row out, they are
those of the copy; and a person with one such row there has no other, whatever is left out.  Proof: proofs/lineage.md §6
"""

from dataclasses import dataclass

from sfumato.analysis.private_query import Group
from sfumato.engines.sql.auxiliary_columns import Hidden, keeps_all_rows, rows_are_distinct, with_auxiliary_column
from sfumato.engines.sql.names import value_count_column
from sfumato.language.rel_nodes import RelNode
from sfumato.language.scalar import Operator, Scalar, walk
from sfumato.mechanisms.spacing import Spacing
from sfumato.planning.aggregates.quantile import bucket_of
from sfumato.planning.plan import PlannedSelection

_COUNTS = Hidden(value_count_column, lambda read: read.counted)


@dataclass(frozen=True, slots=True)
class CountedRows:
    """The rows of a group with one more column: how many rows of the same owner have a value in the copy."""

    rows: RelNode
    count: Scalar
    whole: bool
    """Whether all of them count here; else it is known only where the number is 1."""


def counted_rows(group: Group, one: PlannedSelection) -> CountedRows | None:
    """Return the rows with these counts; None unless they are rows of the copy and the values are a column's own."""
    limit, (bucket,) = group.contribution, one.quantity.arguments
    if limit.bound_rows or (limit.bound_groups and group.keys):
        return None
    if not group.identity or not rows_are_distinct(group.rows):
        return None
    of = column_of(bucket)
    found = None if of is None else with_auxiliary_column(group.rows, of, _COUNTS)
    whole = one.quantity.where is None and keeps_all_rows(group.rows)
    return None if found is None else CountedRows(*found, whole)


def column_of(bucket: Scalar) -> Scalar | None:
    """Return the column whose buckets these are: then they are NULL where it is, and nowhere else."""
    read = {part for part in walk(bucket) if part.operator is Operator.COLUMN}
    if len(read) != 1:
        return None
    (of,) = read
    return of if bucket == bucket_of(of, Spacing(of.facts.low, of.facts.high)) else None
