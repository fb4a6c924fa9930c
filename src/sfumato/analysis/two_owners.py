"""Questions about rows that belong to two people: counts and sums of them, in a few public groups, and nothing else.

Such a row is read once, with its own values and what public tables say of them. Everything else is refused: a table
with two owners is read by this module alone.  Proof: proofs/two_owners.md, (9) to (11)
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

from sfumato.analysis.catalog import Catalog, PublicData, Table
from sfumato.analysis.groups import RequestedBounds, private_group_by
from sfumato.analysis.keys import computation
from sfumato.analysis.lineage import Analysed, UnitLineage
from sfumato.analysis.possible_cells import PossibleCells
from sfumato.analysis.private_query import Group, RequestedAggregate
from sfumato.errors import LoosenedPolicy, TwoOwners, position_prefix
from sfumato.language.facts import Kind
from sfumato.language.lower_logic import all_true, present
from sfumato.language.lowering import lower
from sfumato.language.outside import as_key
from sfumato.language.rel_nodes import Item, ScanNode
from sfumato.language.scalar import Scalar, column
from sfumato.mechanisms.bounded_flow import MAX_BOUND
from sfumato.query.aggregate import Aggregate
from sfumato.query.expression import NOWHERE, Position
from sfumato.query.functions import Aggregation
from sfumato.query.private_rows import reads_private_tables
from sfumato.query.relation import Filter, GroupBy, Join, JoinKind, Options, Relation, Scan, inputs

MAX_FLOW_CELLS = 32
"""Maximum number of groups for rows of two people: each group is measured with a part of the price."""
TWO_OWNERS_NOTE = (
    "Each row belongs to two people. Part of epsilon selects how much of one person counts, so the margin is known "
    "only with the answer."
)
_WHY = "A row of two people leaves with either of them, so only totals of such rows have a proven bound."
_REMEDY = (
    "Ask for COUNT(*), or for SUM of a column whose bounds begin at 0 or above, with WHERE over the table's own "
    "columns and public tables joined by a unique key."
)


def refuse_two_owners(what: str, position: Position = NOWHERE, remedy: str = _REMEDY) -> TwoOwners:
    """Return the refusal of anything else that is asked of rows with two owners."""
    where = position_prefix(position)
    return TwoOwners(f"{where}{what}" if where else what[0].upper() + what[1:], _WHY, remedy)


def paired_tables(relation: Relation, catalog: Catalog) -> Iterator[tuple[Scan, Table]]:
    """Give the tables with two owners that a relation reads."""
    if isinstance(relation, Scan) and catalog.tables[relation.table].pair is not None:
        yield relation, catalog.tables[relation.table]
    for source in inputs(relation):
        yield from paired_tables(source, catalog)


def is_flow(group: Group) -> bool:
    """Whether a group is of rows with two owners."""
    return any(aggregate.aggregate.function is Aggregation.BOUNDED_FLOW for aggregate in group.asked)


def scan_paired(scan: Scan, table: Table) -> Analysed:
    """Return the rows of a table with two owners, each of them alone: for `analyse_two_owners` only."""
    if table.pair is None:
        raise AssertionError("its rows have two owners")
    scope = {(scan.label, field.name): column(scan.label, field.name, field.facts) for field in table.fields}
    columns = tuple((field.name, field.stored, field.facts) for field in table.fields)
    columns += tuple((owner.name, owner.stored, owner.facts) for owner in table.pair)
    cells = PossibleCells(
        {computation(scope[scan.label, field.name]): field.cells for field in table.fields if field.cells is not None}
    )
    first = table.pair[0]
    # each row stands for itself: `rows` counts how often a join repeats it, and must stay 1
    alone = UnitLineage(column(scan.label, first.name, first.facts), False, 1, None, frozenset(), (table.name,))
    return Analysed(ScanNode(scan.table, scan.label, columns, has_no_removed_table=True), scope, alone, cells)


def analyse_two_owners(
    relation: GroupBy, catalog: Catalog, options: Options, public: PublicData, analyse: Callable[[Relation], Analysed]
) -> tuple[Group, Analysed] | None:
    """Return the group of rows with two owners, and what may be done with its noisy cells; None if it reads none.

    `analyse` analyses the source of the group, in which the table may be scanned.
    """
    found = list(paired_tables(relation.source, catalog))
    if not found:
        return None
    scan, table = found[0]
    if len(found) > 1:
        raise refuse_two_owners(
            "rows with two owners are joined with each other. Joined rows, such as paths and triangles, have three "
            "owners or more.",
            scan.at,
        )
    _check_shape(relation.source, catalog)
    source = analyse(relation.source)
    owned = source.state
    if not isinstance(owned, UnitLineage) or owned.rows != 1:
        raise refuse_two_owners(
            "a join repeats rows that have two owners.",
            relation.at,
            "Join public tables by columns that are unique there, so that each row meets one of theirs at most.",
        )
    keys = tuple(Item(key.name, as_key(lower(key.expression, source.scope))) for key in relation.keys)
    if relation.per_unit or any(key.scalar.facts.kind is Kind.UNIT for key in keys):
        raise refuse_two_owners("this groups by a column that names people.", relation.at)
    group, noisy = private_group_by(relation, keys, source, owned, RequestedBounds(None, None), public)
    if not group.public_keys or group.cells > MAX_FLOW_CELLS:
        raise refuse_two_owners(
            f"rows with two owners are grouped by keys that are not declared, or that have more than {MAX_FLOW_CELLS} "
            "values.",
            relation.at,
            f"Group by columns with declared values, at most {MAX_FLOW_CELLS} together, or choose some of them with "
            "WHERE column IN (…).",
        )
    most, pair = _most_rows(options, table), _owners(scan, table)
    asked = tuple(_flow(aggregate, pair, table, most, group.cells) for aggregate in group.asked)
    return replace(group, asked=asked), noisy


def _check_shape(relation: Relation, catalog: Catalog) -> None:
    """Refuse everything between the table and its group but conditions and joins with public tables."""
    match relation:
        case Scan():
            return
        case Filter(source):
            _check_shape(source, catalog)
        case Join(kind, left, right):
            private = [side for side in (left, right) if reads_private_tables(side, catalog)]
            if len(private) > 1:
                raise refuse_two_owners("rows with two owners are joined with another private table.", relation.at)
            if kind is JoinKind.FULL or (kind is JoinKind.LEFT and private == [right]):
                raise refuse_two_owners("an outer join keeps public rows that have no owner.", relation.at)
            _check_shape(private[0], catalog)
        case _:
            raise refuse_two_owners(
                "rows with two owners are read by a subquery, IN (SELECT …), a window, UNION or LIMIT.",
                NOWHERE,
                "Write the table in FROM of the query that counts or adds up its rows, with conditions in WHERE.",
            )


def _most_rows(options: Options, table: Table) -> int:
    if options.max_groups_contributed is not None or options.privacy_unit_column is not None:
        raise refuse_two_owners("OPTIONS other than max_rows_contributed, epsilon and delta name one person.")
    wanted = options.max_rows_contributed
    if wanted is not None and wanted > table.rows_per_unit:
        raise LoosenedPolicy(
            f"max_rows_contributed = {wanted} is more than the policy's {table.rows_per_unit} rows per person.",
            "A query may tighten the policy, never loosen it.",
            f"Write max_rows_contributed = {table.rows_per_unit} or less, or leave it out.",
        )
    return table.rows_per_unit if wanted is None else wanted


def _owners(scan: Scan, table: Table) -> tuple[Scalar, Scalar]:
    if table.pair is None:
        raise AssertionError("its rows have two owners")
    first, second = (column(scan.label, owner.name, owner.facts) for owner in table.pair)
    return first, second


def _flow(
    one: RequestedAggregate, pair: tuple[Scalar, Scalar], table: Table, most: int, cells: int
) -> RequestedAggregate:
    """Return the largest flow in place of a count or a sum, or refuse another aggregate."""
    aggregate = one.aggregate
    arguments, reach, where = aggregate.arguments, 1, aggregate.where
    if aggregate.distinct or aggregate.function not in (Aggregation.COUNT, Aggregation.SUM):
        function = f"{aggregate.function.upper()}{' DISTINCT' * aggregate.distinct}"
        raise refuse_two_owners(f"{function} of rows with two owners is not supported.", one.at)
    if aggregate.function is Aggregation.COUNT:
        tests = [present(argument) for argument in arguments if argument.facts.nullable]
        where = all_true((*tests, *(() if where is None else (where,)))) if tests else where
        arguments = ()
    else:
        (argument,) = arguments
        facts = argument.facts
        if facts.kind is not Kind.INTEGER or not facts.bounded or facts.low < 0:
            raise refuse_two_owners(
                "SUM of rows with two owners needs values of at least 0.",
                one.at,
                "Ask the owner to declare bounds that begin at 0 or above, and a step; or write "
                "SUM(LEAST(GREATEST(column, 0), HIGH)).",
            )
        reach = max(1, facts.high)
    if most * reach > MAX_BOUND:
        raise refuse_two_owners(
            "this sum can reach too far for one person.",
            one.at,
            f"One person's rows times the largest value is at most {MAX_BOUND:,} steps: write OPTIONS("
            "max_rows_contributed = N), round the values as in SUM(ROUND(x / 1000)), or narrow them with LEAST.",
        )
    parameters = Fraction(table.pair_same_kind), Fraction(most * reach), Fraction(max(1, cells))
    flow = Aggregate(Aggregation.BOUNDED_FLOW, (*pair, *arguments), where=where, parameters=parameters)
    return replace(one, aggregate=flow)
