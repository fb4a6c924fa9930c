"""What of a question can be answered from sums of whole cells, and how: everything else is refused with its remedy."""

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

_BEFORE = "Declare a column computed before sealing."
_BUCKETS = "Declare a bucketed cell column, computed before sealing, and count its cells."
_JOIN = "Join before sealing, so that one table has all the columns."
_SEALED_POWER = 2
"""The highest power of a column whose sums a store can hold."""


@dataclass(frozen=True, slots=True)
class SealedRows:
    """Rows of one sealed table, or pairs of rows of two, some cells left out by conditions.

    `names` is what each name above stands for.
    """

    reads: tuple[ScanNode, ...]
    conditions: tuple[Scalar, ...]
    names: Mapping[tuple[str, str], Scalar]

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables, in the order of `reads`."""
        return tuple(read.table for read in self.reads)

    def side(self, label: str) -> int:
        """Return which of the tables a column is of."""
        return next(at for at, read in enumerate(self.reads) if read.label == label)

    def inlined(self, scalar: Scalar) -> Scalar:
        """Return a scalar in terms of the table's own columns."""
        if (found := address(scalar)) is not None:
            return self.names.get(found, scalar)
        arguments = tuple(self.inlined(argument) for argument in scalar.arguments)
        return (
            scalar
            if arguments == scalar.arguments
            else Scalar(scalar.operator, arguments, scalar.facts, scalar.constant)
        )


def rows_of(flow: RelNode) -> SealedRows:
    """Return the rows below a group, or refuse what needs more than one table or more than one row at a time."""
    match flow:
        case ScanNode():
            return SealedRows((flow,), (), {})
        case JoinNode(JoinKind.INNER, left, right, condition) if condition is not None:
            return _joined(rows_of(left), rows_of(right), condition)
        case FilterNode(source, condition):
            below = rows_of(source)
            return SealedRows(below.reads, (*below.conditions, below.inlined(condition)), below.names)
        case ProjectNode(source, label, items):
            below = rows_of(source)
            named = {(label, item.name): below.inlined(item.scalar) for item in items}
            return SealedRows(below.reads, below.conditions, {**below.names, **named})
        case _:
            raise _too_much()


def _joined(left: SealedRows, right: SealedRows, condition: Scalar) -> SealedRows:
    """Return pairs of rows of one person. That they are is what the store tests; the rest is a condition on cells."""
    if len(left.reads) + len(right.reads) > 2:
        raise _too_much()
    both = (*left.reads, *right.reads), (*left.conditions, *right.conditions), {**left.names, **right.names}
    rows = SealedRows(*both)
    parts = [rows.inlined(part) for part in _parts(condition)]
    rest = tuple(part for part in parts if not _same_person(part))
    if len(rest) == len(parts):
        raise _too_much()
    return SealedRows(rows.reads, (*rows.conditions, *rest), rows.names)


def _parts(condition: Scalar) -> tuple[Scalar, ...]:
    if condition.operator is not Operator.AND:
        return (condition,)
    return tuple(part for argument in condition.arguments for part in _parts(argument))


def _same_person(scalar: Scalar) -> bool:
    return scalar.operator is Operator.EQUAL and all(part.facts.kind is Kind.UNIT for part in scalar.arguments)


def _too_much() -> UnsupportedSql:
    return UnsupportedSql(
        "This question joins tables, or looks at the rows of one person together.",
        "A store of ciphertexts adds up whole cells of one table, or of pairs of rows of two tables that were sealed "
        "to be joined, and can do nothing else.",
        f"{_JOIN} What is asked about each person is computed before sealing, too.",
    )


def check_question(private: PrivateQuery, layouts: Mapping[str, Layout]) -> None:
    """Refuse what a sealed store cannot answer. It depends on the text and the policy alone."""
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
            _require_cells(condition, rows, sides, "WHERE", _BEFORE)
        for key in group.keys:
            _require_cells(rows.inlined(key.scalar), rows, sides, "GROUP BY", _BUCKETS)
        if not group.public_keys:
            raise UnsupportedSql(
                "The groups of this question are too many to be listed.",
                "A sealed store has declared cells, and private keys cannot be selected in it.",
                "Group by cell columns as they are, or by fewer of them.",
            )
        for asked in group.asked:
            _check_asked(asked, rows, sides)


def _check_sides(sides: tuple[Layout, ...]) -> None:
    for layout in sides if len(sides) > 1 else ():
        if not layout.joins:
            raise UnsupportedSql(
                f"The table {quote_value(layout.table.name)} was not sealed to be joined.",
                "The ciphertexts of one person are unrelated, unless the policy reveals this to the store.",
                _JOIN,
            )
    if prod(len(layout.cells) for layout in sides) > MAX_CELLS:
        raise UnsupportedSql(
            f"The cells of these tables make more than {MAX_CELLS} pairs.",
            "Every pair of cells is added up separately.",
            _JOIN,
        )


def _check_asked(asked: RequestedAggregate, rows: SealedRows, sides: tuple[Layout, ...]) -> None:
    aggregate, name = asked.aggregate, asked.aggregate.function.upper()
    if aggregate.where is not None:
        _require_cells(rows.inlined(aggregate.where), rows, sides, "FILTER", _BEFORE)
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
            _BEFORE,
        )
    if aggregate.function not in SUMMING:
        raise UnsupportedSql(
            f"{name} is not answered by a sealed store.", "The store never learns the order of values.", _BUCKETS
        )
    if aggregate.argument is None or aggregate.argument.facts.kind is Kind.UNIT:  # nobody is NULL: rows are counted
        return
    argument = rows.inlined(aggregate.argument)
    found = measure_of(argument, rows, sides)
    if found is None:
        _require_cells(argument, rows, sides, f"an expression of {name}", _BEFORE)
        return
    side, measure = found
    declared = {fold_name(name): facts for name, _, facts in rows.reads[side].columns}
    if argument.facts != declared[measure]:  # a product of a step and a number can be the same integers
        raise _sealed_column(measure, f"an expression of {name}", _BEFORE)
    if power_of(aggregate.function) == _SEALED_POWER and sides[side].column(SQUARES, measure, 0) is None:
        raise UnsupportedSql(
            f"{name}({measure}) needs the sum of squares, which is not sealed.",
            "A store can only add the values that it holds.",
            f"Name the column in squares = [{quote_value(measure)}] and seal the rows again.",
        )


def measure_of(scalar: Scalar, rows: SealedRows, sides: tuple[Layout, ...]) -> tuple[int, str] | None:
    """Return the measure that a scalar is, as it is sealed, and of which table; None for anything else."""
    found = address(scalar)
    if found is None:
        return None
    side, name = rows.side(found.label), fold_name(found.name)
    return (side, name) if any(column.measure == name for column in sides[side].columns) else None


def _require_cells(scalar: Scalar, rows: SealedRows, sides: tuple[Layout, ...], where: str, remedy: str) -> None:
    for label, column in columns_read(scalar):
        layout, name = sides[rows.side(label)], fold_name(column)
        if name not in {fold_name(one.name) for one in (*layout.cell_columns, *layout.slot_columns)}:
            raise _sealed_column(name, where, remedy)


def _sealed_column(name: str, where: str, remedy: str) -> UnsupportedSql:
    return UnsupportedSql(
        f"The column {quote_value(name)} cannot be used in {where} here.",
        "It is sealed: its values cannot be compared or computed with, only added up as they are.",
        remedy,
    )
