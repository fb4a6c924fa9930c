"""A parsed query becomes a PrivateQuery, or is refused: from text, policy and public tables alone."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sfumato.analysis.averages import with_averages
from sfumato.analysis.catalog import REMOVED, Catalog, PublicData, Table
from sfumato.analysis.cross_unit_joins import CROSS_UNIT_NOTE, analyse_cross_unit_join
from sfumato.analysis.filter_pushdown import public_first
from sfumato.analysis.groups import RequestedBounds, group_by_unit, lower_aggregate, private_group_by
from sfumato.analysis.join_order import InnerJoins, inner_joins, join_in_order, remaining
from sfumato.analysis.joins import join_analysed
from sfumato.analysis.key_conditions import condition_on_keys
from sfumato.analysis.keys import cells_of, chosen_cells, computation, left_cells, possible_cells
from sfumato.analysis.lineage import OWNER, Analysed, UnitLineage, Visibility, is_unit_id
from sfumato.analysis.literal_rows import literal_rows, lower_plain_aggregate
from sfumato.analysis.mark_joins import analyse_mark_join
from sfumato.analysis.noisy_values import join_noisy_value
from sfumato.analysis.possible_cells import PossibleCells
from sfumato.analysis.private_query import Group, Key, PrivateQuery, PrivateRows
from sfumato.analysis.two_owners import TWO_OWNERS_NOTE, analyse_two_owners, is_flow, refuse_two_owners, scan_paired
from sfumato.analysis.unions import analyse_union_all
from sfumato.analysis.used import Used, find_used_columns
from sfumato.analysis.whole_days import whole_days
from sfumato.analysis.windows import analyse_window
from sfumato.errors import LoosenedPolicy, RawRows, UnitRevealed, UnsupportedSql, position_prefix
from sfumato.language.cost_limits import check_characters, check_condition
from sfumato.language.facts import Facts, Kind
from sfumato.language.interval_ends import ENDS_OF_SEVERAL_ROWS, resolve_ends
from sfumato.language.lower_logic import all_true, among, encode_literal, present
from sfumato.language.lowering import ScalarScope, lower, narrow_scope
from sfumato.language.outside import as_key, passed_on
from sfumato.language.rel_nodes import (
    RANK,
    AggregateNode,
    FilterNode,
    InputNode,
    Item,
    LimitNode,
    ProjectNode,
    ScanNode,
    SortNode,
)
from sfumato.language.scalar import Operator, Scalar, address, column
from sfumato.language.scalar import columns_read as columns_read
from sfumato.policy.policy import fold_name
from sfumato.query.expression import NOWHERE, Position, identifier
from sfumato.query.probes import preview_of
from sfumato.query.relation import (
    Filter,
    GroupBy,
    Join,
    Limit,
    MarkJoin,
    Options,
    Project,
    Query,
    Relation,
    Scan,
    Sort,
    UnionAll,
    Values,
    Window,
    inputs,
)
from sfumato.query.types import Type
from sfumato.query.unlabelled import number_labels


@dataclass(slots=True)
class _Question:
    """One analysis under way: the groups and notes that it found so far."""

    catalog: Catalog
    public: PublicData
    options: Options
    used: Used
    groups: list[Group] = field(default_factory=list)
    known: dict[Relation, str] = field(default_factory=dict)
    """The label of each group, by what it is whatever its labels."""
    alone: list[tuple[GroupBy, str]] = field(default_factory=list)
    """The first group with its label, until there is a second."""
    notes: list[str] = field(default_factory=list)
    first: list[ProjectNode] = field(default_factory=list)
    """Noisy values that are measured first, because people's rows are compared with them."""
    reads_pairs: bool = False
    """Whether a table with two owners may be scanned: while the source of its group is analysed."""


def analyse(query: Query, catalog: Catalog, public: PublicData) -> PrivateQuery:
    """Analyse a query over private rows, or refuse it with the declaration that would allow it."""
    relation = with_averages(query.relation, catalog)
    reading = _Question(catalog, public, query.options, find_used_columns(relation))
    below = _analyse(relation.source, reading)
    outcome = ProjectNode(below.flow, relation.label, _items(relation, below))
    if isinstance(below.state, UnitLineage):
        raise _shows_people(relation, outcome, reading)
    if resolve_ends(outcome).unresolved:
        raise UnsupportedSql(*ENDS_OF_SEVERAL_ROWS)
    notes = tuple(dict.fromkeys((*query.notes, *reading.notes)))
    days = whole_days(relation)
    groups = tuple(reading.groups)
    if reading.first and any(map(is_flow, groups)):
        raise refuse_two_owners(
            "a value of rows with two owners is measured first, or compared with one that is.",
            NOWHERE,
            "Ask for the value first, and write the answer into the second query as a number.",
        )
    return PrivateQuery(groups, outcome, query.names, catalog.neighbours, notes, days, first=tuple(reading.first))


def analyse_rows(query: Query, catalog: Catalog, public: PublicData) -> PrivateRows:
    """Return the rows that the query shows, so that an extension can measure them, or refuse it from the text alone."""
    if query.options != Options():
        raise UnsupportedSql(
            "OPTIONS are not supported here.", "A fit has its own parameters.", "Leave OPTIONS out, and give those."
        )
    reading = _Question(catalog, public, query.options, find_used_columns(query.relation))
    shown = _analyse(query.relation, reading)
    owned, notes = shown.state, tuple(dict.fromkeys((*query.notes, *reading.notes)))
    if reading.first:
        raise UnsupportedSql(
            "A value that is measured first is not supported here.",
            "The rows themselves are measured, in one step.",
            "Ask for the value first, and write the answer as a number.",
        )
    if not isinstance(owned, UnitLineage):
        raise UnsupportedSql(
            "This question shows no rows of people.",
            "Aggregates and public tables have no rows of people to measure.",
            "Write SELECT with the columns themselves, from a private table.",
        )
    columns = []
    for item, name in zip(query.relation.items, query.names, strict=True):
        scalar = shown.scope[query.relation.label, item.name]
        if scalar.facts.kind is Kind.UNIT:
            raise UnitRevealed(
                f"`{name}` names people.",
                "Measuring it would reveal something about a single person.",
                "Leave the column out; sfumato knows whose row it is without it.",
            )
        columns.append(Key(name, scalar, cells_of(scalar, shown.cells, shown.origins, public)))
    rows = FilterNode(shown.flow, all_true(tuple(test for key in columns for test in _presence_tests(key))))
    return PrivateRows(rows, tuple(columns), owned.unit, owned.shared_ids, owned.rows, catalog.neighbours, notes)


def _presence_tests(key: Key) -> Iterator[Scalar]:
    """Give the tests that a column has a value, and one of its cells where more values than those could be stored."""
    yield present(key.scalar)
    facts = key.scalar.facts
    if key.cells is not None and (
        facts.kind is Kind.TEXT or (facts.kind is Kind.INTEGER and facts.span > len(key.cells))
    ):
        yield among(key.scalar, [encode_literal(cell, facts) for cell in key.cells])


def _items(project: Project, below: Analysed) -> tuple[Item, ...]:
    return tuple(Item(item.name, lower(item.expression, below.scope)) for item in project.items)


def _shows_people(project: Project, outcome: ProjectNode, reading: _Question) -> RawRows | UnitRevealed:
    table = _private_table(project.source, reading)
    named = identifier(table.name)
    if _per_person(project.source) is not None:
        return _one_row_per_person(table)
    example = f"for example: `SELECT COUNT(*) FROM {named}`."  # noqa: S608
    if any(item.scalar.facts.kind is Kind.UNIT for item in outcome.items):
        return UnitRevealed(
            "This query shows who people are.",
            "An answer about a single person cannot be private.",
            f"Ask for numbers about many people, {example}",
        )
    return RawRows(
        "This query shows rows as they are.",
        "Only aggregates over many people get noise.",
        f"Ask for COUNT(*), SUM or AVG, with GROUP BY where you want several, {example}",
    )


def _per_person(relation: Relation) -> GroupBy | None:
    """Return the group that a question shows as it is, if it shows one."""
    while isinstance(relation, Filter | Sort):
        relation = relation.source
    return relation if isinstance(relation, GroupBy) else None


def _one_row_per_person(table: Table) -> UnitRevealed:
    named, unit = identifier(table.name), identifier(table.unit or "…")
    inner = f"SELECT {unit}, COUNT(*) AS n FROM {named} GROUP BY {unit}"  # noqa: S608
    again = f"SELECT n, COUNT(*) FROM ({inner}) AS t GROUP BY n"  # noqa: S608
    return UnitRevealed(
        "This query has one row for each person.",
        "An answer about a single person cannot be private.",
        "Group by something else, or aggregate the query once more"
        + (f", for example: `{again}`." if table.unit else "."),
    )


def _private_table(relation: Relation, reading: _Question) -> Table:
    """Return the first private table that is read below."""
    relations = [relation]
    for node in relations:
        if isinstance(node, Scan) and not reading.catalog.tables[node.table].public:
            return reading.catalog.tables[node.table]
        relations.extend(inputs(node))
    raise AssertionError("rows of people come from a private table")


def _analyse(relation: Relation, reading: _Question) -> Analysed:
    joins = inner_joins(relation, reading.catalog) if isinstance(relation, Join | Filter) else None
    if joins is not None:
        return _analyse_inner_joins(joins, reading)
    match relation:
        case Scan():
            if reading.catalog.tables[relation.table].pair is None:
                return _scan(relation, reading)
            if not reading.reads_pairs:
                raise refuse_two_owners("this shows or uses rows that have two owners.", relation.at)
            return scan_paired(relation, reading.catalog.tables[relation.table])
        case Values():
            return _analyse_values(relation)
        case Join(_, left, right):
            sides = _analyse(left, reading), _analyse(right, reading)
            if isinstance(sides[0].state, UnitLineage) and sides[1].state is Visibility.RELEASED:
                found = join_noisy_value(
                    relation, sides[0], sides[0].state, sides[1], reading.groups, len(reading.first)
                )
                if found is not None:
                    reading.first.append(found[1])
                    return found[0]
            pair, note = join_analysed(relation, *sides, reading.used, reading.public)
            reading.notes += [] if note is None else [note]
            return pair
        case Filter():
            nearer = public_first(relation, reading.catalog)
            if not isinstance(nearer, Filter):
                return _analyse(nearer, reading)
            return _filter(nearer, _analyse(nearer.source, reading), reading)
        case GroupBy(source):
            shared = analyse_two_owners(
                relation, reading.catalog, reading.options, reading.public, lambda side: _with_pairs(side, reading)
            )
            if shared is not None:
                reading.notes.append(TWO_OWNERS_NOTE)
                return _release_group(relation, *shared, reading)
            met = analyse_cross_unit_join(
                relation, reading.catalog, reading.options, reading.public, lambda side: _analyse(side, reading)
            )
            if met is not None:
                reading.notes.append(CROSS_UNIT_NOTE)
                return _release_group(relation, *met, reading)
            return _analyse_group_by(relation, _analyse(source, reading), reading)
        case Project(source):
            return _project(relation, _analyse(source, reading), reading)
        case Sort(source):
            return _sort(relation, _analyse(source, reading))
        case Limit(source):
            return _limit(relation, _analyse(source, reading), reading)
        case Window(source):
            return analyse_window(relation, _analyse(source, reading), reading.used)
        case UnionAll(left, right):
            return analyse_union_all(relation, _analyse(left, reading), _analyse(right, reading), reading.public)
        case MarkJoin(left, right):
            sides = _analyse(left, reading), _analyse(right, reading)
            return analyse_mark_join(relation, *sides, reading.used, reading.public)


def _with_pairs(source: Relation, reading: _Question) -> Analysed:
    """Analyse the source of a group of rows with two owners: only here their table may be scanned."""
    reading.reads_pairs = True
    try:
        return _analyse(source, reading)
    finally:
        reading.reads_pairs = False


def _analyse_inner_joins(joins: InnerJoins, reading: _Question) -> Analysed:
    """Join tables in an order that the text does not decide, then filter."""

    def join(pair: Join, left: Analysed, right: Analysed) -> tuple[Analysed, str | None]:
        return join_analysed(pair, left, right, reading.used, reading.public)

    joined = join_in_order(joins, lambda leaf: _analyse(leaf, reading), join)
    reading.notes += joined.notes
    above = remaining(joined)
    return joined.rows if above is None else _filter(above, joined.rows, reading)


def _scan(scan: Scan, reading: _Question) -> Analysed:
    table = reading.catalog.tables[scan.table]
    scope = {(scan.label, field.name): column(scan.label, field.name, field.facts) for field in table.fields}
    columns = tuple((field.name, field.stored, field.facts) for field in table.fields)
    cells = PossibleCells(
        {computation(scope[scan.label, field.name]): field.cells for field in table.fields if field.cells is not None},
        frozenset(computation(scope[scan.label, field.name]) for field in table.fields if field.has_too_many_cells),
    )
    if table.public or table.owner is None:
        flow = ScanNode(scan.table, scan.label, columns)
        return Analysed(flow, scope, Visibility.PUBLIC, origins={scan.label: flow})
    hidden = table.owner.name
    if all(name != hidden for name, _, _ in columns):
        columns += ((hidden, table.owner.stored, table.owner.facts),)
    unit = column(scan.label, hidden, table.owner.facts)
    unique = frozenset((scan.label, field.name) for field in table.fields if field.unique)
    _check_unit(reading.options, table, scan.at)
    owned = UnitLineage(unit, table.identity, table.rows_per_unit, table.groups_per_unit, unique, (_owner_name(table),))
    # where each row is a person, row numbers tell rows apart, so no person can have two rows
    most = table.rows_per_unit if table.identity else None
    once = tuple(field.stored for field in table.fields if field.unique and field.facts.kind is not Kind.UNIT)
    sole = any(field.unique and field.facts.kind is Kind.UNIT for field in table.fields)
    numbered = tuple(field.stored for field in table.fields if field.has_value_ranks)
    counted = tuple(field.stored for field in table.fields if field.has_value_counts)
    free = tuple(field.name for field in table.fields if field.bounds_chosen)
    if table.in_sampling_order and most is not None:
        columns += ((RANK, RANK, Facts(Type.INTEGER, Kind.INTEGER, nullable=False, low=1, high=most)),)
    totals = tuple((field.name, field.total) for field in table.fields if field.total is not None)
    levelled = tuple(field.stored for field in table.fields if field.has_bound_index)
    summed = tuple(field.stored for field in table.fields if field.has_running_total)
    flow = ScanNode(
        scan.table, scan.label, columns, most, once, sole, numbered, counted, free, totals, levelled, summed
    )
    flow = replace(
        flow,
        has_no_removed_table=scan.table + REMOVED not in reading.catalog.tables,
        rows_chosen=table.rows_chosen and most is not None,
        groups_chosen=table.groups_chosen and most is not None,
        people=(table.owner.stored,) if table.people_numbered else (),
        multiplied=tuple(field.stored for field in table.fields if field.has_value_multiplicities),
    )
    return Analysed(flow, scope, owned, cells)


def _owner_name(table: Table) -> str:
    return f"{table.name}.{table.unit}" if table.unit is not None else f"the owner of {table.name}"


def _check_unit(options: Options, table: Table, position: Position) -> None:
    wanted = options.privacy_unit_column
    if wanted is not None and (table.unit is None or fold_name(wanted) != fold_name(table.unit)):
        raise LoosenedPolicy(
            f"{position_prefix(position)}the query names another privacy unit than the policy does for {table.name}.",
            "Only the policy decides whom a table protects.",
            f"Leave privacy_unit_column out{f', or write {table.unit}' if table.unit else ''}.",
        )


def _analyse_values(values: Values) -> Analysed:
    rows, facts = literal_rows(values)
    names = [f"c{i}" for i in range(1, len(facts) + 1)]
    columns = tuple(zip(names, facts, strict=True))
    scope = {(values.label, name): column(values.label, name, known) for name, known in columns}
    flow = InputNode(values.label, columns, rows)
    return Analysed(flow, scope, Visibility.PUBLIC, origins={values.label: flow})


def _filter(relation: Filter, source: Analysed, reading: _Question) -> Analysed:
    condition = lower(relation.condition, source.scope)
    # what a noisy value was chosen by says nothing of the true one, whose interval these facts will bound
    scope = source.scope if source.state is Visibility.RELEASED else narrow_scope(source.scope, relation.condition)
    cells = source.cells
    if isinstance(source.state, UnitLineage):
        check_condition(source.flow, source.state.rows, condition)
        for part in condition.arguments if condition.operator is Operator.AND else (condition,):
            known = [source.marks[name] for name in columns_read(part) if name in source.marks]
            marked_by = known[0] if known and part.operator is Operator.COLUMN else None
            cells = chosen_cells(part, cells, reading.public) if marked_by is None else left_cells(*marked_by, cells)
    flow = FilterNode(source.flow, condition)
    filtered = source.with_flow(flow, scope, cells)
    if isinstance(source.state, UnitLineage):
        return replace(filtered, state=_fewer(source.state, scope))
    return (
        replace(filtered, origins=dict.fromkeys(source.origins, flow))
        if source.state is Visibility.PUBLIC
        else filtered
    )


def _fewer(owned: UnitLineage, scope: ScalarScope) -> UnitLineage:
    """Return the owner of rows of which a person has no more than a column without repetition has values left."""
    known = [scope[name].facts for name in owned.unique if name in scope]
    left = [facts.span for facts in known if facts.kind is Kind.INTEGER and facts.bounded and not facts.nullable]
    return replace(owned, rows=min([owned.rows, *(max(1, span) for span in left)]))


def _analyse_group_by(relation: GroupBy, source: Analysed, reading: _Question) -> Analysed:
    keys = tuple(Item(key.name, as_key(lower(key.expression, source.scope))) for key in relation.keys)
    if not isinstance(source.state, UnitLineage):
        return _plain_fold(relation, keys, source)
    measured = (
        part for measure in relation.measures for part in lower_aggregate(measure.aggregate, source.scope).parts
    )
    check_characters(source.flow, source.state.rows, (*(key.scalar for key in keys), *measured), relation.at)
    if relation.per_unit or any(is_unit_id(key.scalar) for key in keys):
        return group_by_unit(relation, keys, source, source.state, reading.public)
    limits = RequestedBounds(reading.options.max_rows_contributed, reading.options.max_groups_contributed)
    group, noisy = private_group_by(relation, keys, source, source.state, limits, reading.public)
    released, excluding = _release_group(relation, group, noisy, reading), condition_on_keys(relation)
    return released if excluding is None else _filter(Filter(relation, excluding), released, reading)


def _release_group(relation: GroupBy, group: Group, noisy: Analysed, reading: _Question) -> Analysed:
    """Keep a group whose cells get noise, and return what the rest of the query may do with them."""
    first = _first_of(relation, group.label, reading)
    if first == group.label:
        reading.groups.append(group)
        return noisy
    # the same groups are measured once, wherever the question uses them: it then sees the same noise everywhere
    again = InputNode(group.label, noisy.flow.columns, None, first) if isinstance(noisy.flow, InputNode) else noisy.flow
    return replace(noisy, flow=again)


def _first_of(relation: GroupBy, label: str, reading: _Question) -> str:
    """Return the label of the first group that is the same as this one; the only one is compared with nothing."""
    if not reading.groups:
        reading.alone.append((relation, label))
        return label
    while reading.alone:
        other, first = reading.alone.pop()
        reading.known[number_labels(other)] = first
    return reading.known.setdefault(number_labels(relation), label)


def _plain_fold(relation: GroupBy, keys: tuple[Item, ...], source: Analysed) -> Analysed:
    """Aggregate public or noisy rows, exactly."""
    measures = tuple(lower_plain_aggregate(measure, source.scope) for measure in relation.measures)
    facts: list[tuple[str, Facts]] = [(key.name, key.scalar.facts) for key in keys]
    facts += [(measure.name, measure.facts) for measure in measures]
    scope = {(relation.label, name): column(relation.label, name, known) for name, known in facts}
    flow = AggregateNode(source.flow, relation.label, keys, measures)
    origins = {relation.label: flow} if source.state is Visibility.PUBLIC else {}
    return Analysed(flow, scope, source.state, origins=origins)


def _project(relation: Project, source: Analysed, reading: _Question) -> Analysed:
    items = _items(relation, source)
    if isinstance(source.state, UnitLineage):
        return _private_project(relation, items, source, source.state, reading)
    scope = {(relation.label, item.name): column(relation.label, item.name, item.scalar.facts) for item in items}
    flow = ProjectNode(source.flow, relation.label, items)
    return Analysed(flow, scope, source.state, origins={relation.label: flow} if source.origins else {})


def _private_project(
    relation: Project, items: tuple[Item, ...], source: Analysed, owned: UnitLineage, reading: _Question
) -> Analysed:
    """Compute columns of private rows one row at a time; the owner goes with them, whether it was selected or not."""
    check_characters(source.flow, owned.rows, (item.scalar for item in items))
    scope, computed = {}, list[Item]()
    for item in items:
        scope[relation.label, item.name], columns = passed_on(relation.label, item.name, item.scalar)
        computed += [Item(*fields) for fields in columns]
    shown = (*computed, Item(OWNER, owned.unit))
    shown_as = {computation(scope[relation.label, item.name]): item.scalar for item in items}
    cells = possible_cells(shown_as, source.cells, source.origins, reading.public)
    unique = {(relation.label, item.name) for item in items if address(item.scalar) in owned.unique}
    unit = column(relation.label, OWNER, owned.unit.facts)
    settled = frozenset((relation.label, item.name) for item in shown if owned.is_settled(item.scalar))
    lineage = replace(owned, unit=unit, unique=frozenset(unique), constant_per_unit=settled)
    return Analysed(ProjectNode(source.flow, relation.label, shown), scope, lineage, cells)


def _sort(relation: Sort, source: Analysed) -> Analysed:
    if isinstance(source.state, UnitLineage):
        return source  # the order of private rows is never shown
    keys = tuple((lower(key.expression, source.scope), key.descending, key.nulls_first) for key in relation.keys)
    ordering = tuple(key for key in keys if columns_read(key[0]))  # constants order nothing
    return source.with_flow(SortNode(source.flow, ordering), source.scope) if ordering else source


def _limit(relation: Limit, source: Analysed, reading: _Question) -> Analysed:
    if isinstance(source.state, UnitLineage):
        if (shown := _per_person(relation.source)) is not None:
            raise _one_row_per_person(_private_table(shown, reading))
        named = identifier(_private_table(relation, reading).name)
        example = f"`SELECT COUNT(*) FROM {named}`"  # noqa: S608
        if preview_of(relation) is not None:
            raise RawRows(
                f"A preview of {named} is not available.",
                "Its rows are about people, and only aggregates over many people get noise.",
                'The data owner can allow previews of made-up rows: preview = "synthetic". '
                f"Ask for an aggregate, for example: {example}.",
            )
        raise UnsupportedSql(
            "LIMIT or OFFSET over people's rows is not supported.",
            "Which rows remain would depend on the rows of all people, and rows of people are not shown.",
            f"Choose rows with WHERE and aggregate them; LIMIT may then choose groups. For example: {example}.",
        )
    return source.with_flow(LimitNode(source.flow, relation.count, relation.offset), source.scope)
