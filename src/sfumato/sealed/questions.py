"""Express a query by sums over whole cells, or refuse it with a remedy."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from sfumato.analysis.private_query import PrivateQuery, RequestedAggregate
from sfumato.errors import UnsupportedSql, quote_value
from sfumato.language.facts import Kind
from sfumato.language.rel_nodes import FilterNode, JoinNode, ProjectNode, RelNode, ScanNode
from sfumato.language.scalar import Operator, Scalar, address, columns_read
from sfumato.policy.policy import fold_name
from sfumato.policy.sealing import MAX_CELLS
from sfumato.query.functions import PAIRS, SUMMING, power_of
from sfumato.query.relation import JoinKind
from sfumato.sealed.layout import SQUARES, Layout

_PRECOMPUTE_REMEDY = "Declare a column computed before sealing."
_BUCKETS_REMEDY = "Declare a bucketed cell column, computed before sealing, and count its cells."
_JOIN_REMEDY = "Join before sealing, so that one table has all the columns."
_SEALED_POWER = 2
"""Highest power of a column whose sums a store can hold."""


@dataclass(frozen=True, slots=True)
class SealedRows:
    """Rows of one sealed table, or pairs of rows of two, filtered by conditions on cells.

    `names` maps the names used above to scalars over the table's own columns.
    """

    reads: tuple[ScanNode, ...]
    conditions: tuple[Scalar, ...]
    names: Mapping[tuple[str, str], Scalar]

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables, in the order of `reads`."""
        return tuple(read.table for read in self.reads)

    def side(self, label: str) -> int:
        """Return the index of the table with this label."""
        return next(index for index, read in enumerate(self.reads) if read.label == label)

    def inline_names(self, scalar: Scalar) -> Scalar:
        """Rewrite a scalar in terms of the table's own columns."""
        if (reference := address(scalar)) is not None:
            return self.names.get(reference, scalar)
        arguments = tuple(self.inline_names(argument) for argument in scalar.arguments)
        return (
            scalar
            if arguments == scalar.arguments
            else Scalar(scalar.operator, arguments, scalar.facts, scalar.constant)
        )


def rows_of(flow: RelNode) -> SealedRows:
    """Return the rows below a group; refuse what needs more than joined cells of two tables."""
    match flow:
        case ScanNode():
            return SealedRows((flow,), (), {})
        case JoinNode(JoinKind.INNER, left, right, condition) if condition is not None:
            return _join_rows(rows_of(left), rows_of(right), condition)
        case FilterNode(source, condition):
            source_rows = rows_of(source)
            return SealedRows(
                source_rows.reads, (*source_rows.conditions, source_rows.inline_names(condition)), source_rows.names
            )
        case ProjectNode(source, label, items):
            source_rows = rows_of(source)
            named = {(label, item.name): source_rows.inline_names(item.scalar) for item in items}
            return SealedRows(source_rows.reads, source_rows.conditions, {**source_rows.names, **named})
        case _:
            raise _needs_other_rows()


def _join_rows(left: SealedRows, right: SealedRows, condition: Scalar) -> SealedRows:
    """Return pairs of rows of one unit: the store tests equal units, the rest are conditions on cells."""
    if len(left.reads) + len(right.reads) > 2:
        raise _needs_other_rows()
    parts_of_both = (*left.reads, *right.reads), (*left.conditions, *right.conditions), {**left.names, **right.names}
    rows = SealedRows(*parts_of_both)
    parts = [rows.inline_names(part) for part in _conjuncts(condition)]
    rest = tuple(part for part in parts if not _compares_units(part))
    if len(rest) == len(parts):
        raise _needs_other_rows()
    return SealedRows(rows.reads, (*rows.conditions, *rest), rows.names)


def _conjuncts(condition: Scalar) -> tuple[Scalar, ...]:
    if condition.operator is not Operator.AND:
        return (condition,)
    return tuple(part for argument in condition.arguments for part in _conjuncts(argument))


def _compares_units(scalar: Scalar) -> bool:
    return scalar.operator is Operator.EQUAL and all(part.facts.kind is Kind.UNIT for part in scalar.arguments)


def _needs_other_rows() -> UnsupportedSql:
    return UnsupportedSql(
        "This question joins tables, or looks at the rows of one person together.",
        "A store of ciphertexts adds up whole cells of one table, or of pairs of rows of two tables that were sealed "
        "to be joined, and can do nothing else.",
        f"{_JOIN_REMEDY} What is asked about each person is computed before sealing, too.",
    )


def check_sealed_query(private: PrivateQuery, layouts: Mapping[str, Layout]) -> None:
    """Refuse queries that a sealed store cannot answer, from the text and the policy alone."""
    for group in private.groups:
        rows = rows_of(group.rows)
        sides = tuple(layouts[table] for table in rows.tables)
        _check_sides(sides)
        if group.contribution.bound_rows or group.contribution.bound_groups:
            raise UnsupportedSql(
                "This question asks for fewer rows or groups per person than the policy.",
                "Rows of one person cannot be distinguished once they are sealed.",
                "Leave out that option, or seal with a smaller rows_per_unit.",
            )
        for condition in rows.conditions:
            _require_cells(condition, rows, sides, "WHERE", _PRECOMPUTE_REMEDY)
        for key in group.keys:
            _require_cells(rows.inline_names(key.scalar), rows, sides, "GROUP BY", _BUCKETS_REMEDY)
        if not group.public_keys:
            raise UnsupportedSql(
                "The groups of this question are too many to be listed.",
                "A sealed store has declared cells, and private keys cannot be selected in it.",
                "Group by cell columns as they are, or by fewer of them.",
            )
        for requested in group.asked:
            _check_aggregate(requested, rows, sides)


def _check_sides(sides: tuple[Layout, ...]) -> None:
    for layout in sides if len(sides) > 1 else ():
        if not layout.joins:
            raise UnsupportedSql(
                f"The table {quote_value(layout.table.name)} was not sealed to be joined.",
                "The ciphertexts of one person are unrelated, unless the policy reveals this to the store.",
                _JOIN_REMEDY,
            )
    if prod(len(layout.cells) for layout in sides) > MAX_CELLS:
        raise UnsupportedSql(
            f"The cells of these tables make more than {MAX_CELLS} pairs.",
            "Every pair of cells is added up separately.",
            _JOIN_REMEDY,
        )


def _check_aggregate(requested: RequestedAggregate, rows: SealedRows, sides: tuple[Layout, ...]) -> None:
    aggregate, name = requested.aggregate, requested.aggregate.function.upper()
    if aggregate.where is not None:
        _require_cells(rows.inline_names(aggregate.where), rows, sides, "FILTER", _PRECOMPUTE_REMEDY)
    if aggregate.distinct:
        raise UnsupportedSql(
            f"{name}(DISTINCT …) is not answered by a sealed store.",
            "Equal values have unrelated ciphertexts, so they cannot be recognised.",
            "Seal a table with one row for each of what is to be counted.",
        )
    if aggregate.function in PAIRS or power_of(aggregate.function) > _SEALED_POWER:
        raise UnsupportedSql(
            f"{name} is not answered by a sealed store.",
            "It needs sums of products or of higher powers, and a store can only add the values that it holds.",
            _PRECOMPUTE_REMEDY,
        )
    if aggregate.function not in SUMMING:
        raise UnsupportedSql(
            f"{name} is not answered by a sealed store.", "The store never learns the order of values.", _BUCKETS_REMEDY
        )
    if (
        aggregate.argument is None or aggregate.argument.facts.kind is Kind.UNIT
    ):  # units are never NULL: rows are counted
        return
    argument = rows.inline_names(aggregate.argument)
    sealed_measure = measure_of(argument, rows, sides)
    if sealed_measure is None:
        _require_cells(argument, rows, sides, f"an expression of {name}", _PRECOMPUTE_REMEDY)
        return
    side, measure = sealed_measure
    declared = {fold_name(name): facts for name, _, facts in rows.reads[side].columns}
    if argument.facts != declared[measure]:  # a product of a step and a number can be the same integers
        raise _unusable_column(measure, f"an expression of {name}", _PRECOMPUTE_REMEDY)
    if power_of(aggregate.function) == _SEALED_POWER and sides[side].column(SQUARES, measure, 0) is None:
        raise UnsupportedSql(
            f"{name}({measure}) needs the sum of squares, which is not sealed.",
            "A store can only add the values that it holds.",
            f"Name the column in squares = [{quote_value(measure)}] and seal the rows again.",
        )


def measure_of(scalar: Scalar, rows: SealedRows, sides: tuple[Layout, ...]) -> tuple[int, str] | None:
    """Return table index and name of the sealed measure that a scalar is; None for anything else."""
    reference = address(scalar)
    if reference is None:
        return None
    side, name = rows.side(reference.label), fold_name(reference.name)
    return (side, name) if any(column.measure == name for column in sides[side].columns) else None


def _require_cells(scalar: Scalar, rows: SealedRows, sides: tuple[Layout, ...], where: str, remedy: str) -> None:
    for label, column in columns_read(scalar):
        layout, name = sides[rows.side(label)], fold_name(column)
        if name not in {fold_name(cell_column.name) for cell_column in (*layout.cell_columns, *layout.slot_columns)}:
            raise _unusable_column(name, where, remedy)


def _unusable_column(name: str, where: str, remedy: str) -> UnsupportedSql:
    return UnsupportedSql(
        f"The column {quote_value(name)} cannot be used in {where} here.",
        "It is sealed: its values cannot be compared or computed with, only added up as they are.",
        remedy,
    )
