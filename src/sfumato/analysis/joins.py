"""Joins that keep every row its one owner: a person's rows with public rows, or with the same person's other rows.

Proof: proofs/lineage.md §3
"""

from dataclasses import replace

from sfumato.analysis.catalog import PublicData
from sfumato.analysis.keys import MAX_GROUP_CELLS, chosen_cells, computation
from sfumato.analysis.lineage import Analysed, UnitLineage, Visibility, is_unit_id
from sfumato.analysis.literal_rows import is_exact
from sfumato.analysis.possible_cells import DeferredCells, PossibleCells
from sfumato.analysis.used import Used
from sfumato.errors import QueryTooLarge, UnsafeJoin, UnsupportedSql, position_prefix
from sfumato.language.cost_limits import check_characters
from sfumato.language.determinism import refuse_engine_dependent
from sfumato.language.facts import Facts, Kind
from sfumato.language.lowering import ScalarScope, lower, narrow_scope
from sfumato.language.rel_nodes import (
    AggregateItem,
    AggregateNode,
    InputNode,
    Item,
    JoinNode,
    MarkJoinNode,
    MaterializedNode,
    RelNode,
    ScanNode,
    WindowAggregate,
    WindowNode,
    children,
    outputs,
)
from sfumato.language.scalar import Operator, Scalar, column, columns_read
from sfumato.query.expression import Call, Column, Expression, Position, conjuncts
from sfumato.query.functions import Function
from sfumato.query.relation import Join, JoinKind, MarkJoin
from sfumato.query.types import Type

MAX_JOINED_PUBLIC_ROWS = 1_000
"""How many rows of a public table an answer may be joined with."""
MAX_JOINED_ROWS_PER_UNIT = 100_000
"""How many rows of one person a join may make: more would let one person's rows decide how long an answer takes."""
MAX_COMPARED_PAIRS_PER_UNIT = 10_000_000
"""How many pairs of one person's rows a semi- or anti-join may test: about as much work as rows that a join makes."""
_COMPARABLE_KINDS = frozenset({Kind.INTEGER, Kind.TEXT, Kind.BOOLEAN})
"""Kinds in which one value equals at most one other: a double may equal several integers."""


def join_analysed(
    join: Join, left: Analysed, right: Analysed, used: Used, public: PublicData
) -> tuple[Analysed, str | None]:
    """Return the pairs of two analysed relations, and a note where something was implied."""
    if join.kind is JoinKind.FULL and any(isinstance(side.state, UnitLineage) for side in (left, right)):
        raise _rows_without_unit(join.at)
    match left.state, right.state:
        case (UnitLineage() as first, UnitLineage() as second):
            return _of_one_person(join, (left, first), (right, second))
        case (UnitLineage() as owned, Visibility.PUBLIC):
            return _with_public(join, left, owned, right, used, public), None
        case (Visibility.PUBLIC, UnitLineage() as owned):
            if join.kind is JoinKind.LEFT:
                raise _rows_without_unit(join.at)
            swapped = replace(join, left=join.right, right=join.left)
            return _with_public(swapped, right, owned, left, used, public), None
        case (UnitLineage(), Visibility.RELEASED) | (Visibility.RELEASED, UnitLineage()):
            raise UnsupportedSql(
                f"{position_prefix(join.at)}this joins people's rows with an aggregate of people's rows.",
                "The aggregate would be used without noise.",
                "Ask for the aggregate first, and write the answer into the second query as numbers.",
            )
    if join.single:
        written = None if join.condition is None else lower(join.condition, {**left.scope, **right.scope})
        keys = () if written is None else tuple(dict.fromkeys(public_sides(written, right)))
        if public.materialize(right.flow, (), keys).max_rows_per_key > 1:
            raise _several_rows(join)
    left, right = join_public_sides(left, right, join.at, public)
    scope = _scope(join, left, right)
    condition = None if join.condition is None else lower(join.condition, scope)
    released = any(side.state is Visibility.RELEASED for side in (left, right))
    state = Visibility.RELEASED if released else Visibility.PUBLIC
    flow = JoinNode(join.kind, left.flow, right.flow, condition)
    origins = {} if released else {**left.origins, **right.origins}
    return Analysed(flow, scope if released else _scope_after_join(join, scope), state, origins=origins), None


def _several_rows(join: Join) -> UnsupportedSql:
    return UnsupportedSql(
        f"{position_prefix(join.at)}this subquery may have several rows.",
        "A single value is needed here, and several rows of the public table agree in what is compared.",
        "Compare a column that is unique there, or aggregate the subquery, for example with MAX or MIN.",
    )


def join_public_sides(
    left: Analysed, right: Analysed, position: Position, public: PublicData
) -> tuple[Analysed, Analysed]:
    """Return two sides that are public or noisy as one statement can have them."""
    if left.state is right.state:
        return left, right
    return _as_literal_rows(left, position, public), _as_literal_rows(right, position, public)


def _as_literal_rows(side: Analysed, position: Position, public: PublicData) -> Analysed:
    """Return a public relation as rows that come with the statement: noisy tables meet nothing but such rows."""
    if side.state is not Visibility.PUBLIC:
        return side
    label = next((label for label, _ in side.scope), "public")
    names = {name: f"{name[0]}.{name[1]}" for name in side.scope}
    rows = public.rows(side.flow, tuple(side.scope.values()), MAX_JOINED_PUBLIC_ROWS)
    if rows is None:
        raise QueryTooLarge(
            f"{position_prefix(position)}the public table that is joined with the answer has more than "
            f"{MAX_JOINED_PUBLIC_ROWS:,} rows.",
            "It is written into the statement that works on the answer.",
            "Choose its rows in a subquery with WHERE, or join it with the private table before grouping.",
        )
    columns = tuple((names[name], scalar.facts) for name, scalar in side.scope.items())
    scope = {name: column(label, names[name], scalar.facts) for name, scalar in side.scope.items()}
    return Analysed(InputNode(label, columns, rows), scope, Visibility.PUBLIC)


def _scope(join: Join, left: Analysed, right: Analysed) -> ScalarScope:
    """Return the columns of both sides; those that an outer join fills with NULL may be NULL."""
    padded = {JoinKind.INNER: (), JoinKind.LEFT: (right,), JoinKind.FULL: (left, right)}[join.kind]
    scope = {**left.scope, **right.scope}
    for side in padded:
        real = frozenset((label, name) for label, name, _ in outputs(side.flow))
        scope |= {name: _nullable(name, scalar, real) for name, scalar in side.scope.items()}
    return scope


def _nullable(name: tuple[str, str], scalar: Scalar, real: frozenset[tuple[str, str]]) -> Scalar:
    """Return a column that may also be NULL; one that was known by its only value is read again: it may have none."""
    facts = replace(scalar.facts, nullable=True)
    if scalar.operator is not Operator.CONSTANT:
        return replace(scalar, facts=facts)
    if name not in real:
        raise UnsupportedSql(
            "This outer join is not supported.",
            "A column of its second table has only one possible value, and may be absent besides.",
            "Write JOIN, or leave out the condition that fixes the column.",
        )
    return column(*name, facts)


def _scope_after_join(join: Join, scope: ScalarScope) -> ScalarScope:
    """Return the scope after an inner join, whose condition held."""
    return scope if join.condition is None or join.kind is not JoinKind.INNER else narrow_scope(scope, join.condition)


def _with_public(
    join: Join, private: Analysed, owned: UnitLineage, other: Analysed, used: Used, public: PublicData
) -> Analysed:
    """Join a person's rows with public rows: each meets at most as many as agree with it in the compared columns."""
    check_exact(other.flow, join.at)
    keys = () if join.condition is None else public_sides(lower(join.condition, _scope(join, private, other)), other)
    other = materialize_public(other, tuple(dict.fromkeys(keys)), used, public)
    scope = _scope(join, private, other)
    condition = None if join.condition is None else lower(join.condition, scope)
    most = other.flow.most if isinstance(other.flow, MaterializedNode) else 0
    if join.single and most > 1:
        raise _several_rows(join)
    check_pairs(owned.rows * most, owned.rows, join.at)
    flow = JoinNode(join.kind, private.flow, other.flow, condition)
    check_characters(flow, owned.rows * most, tests_of_pairs(join.kind, condition, private, other), join.at)
    inner = join.kind is JoinKind.INNER
    cells = private.cells
    if inner and condition is not None:  # a condition between public tables that meet here narrows the keys of both
        for part in condition.arguments if condition.operator is Operator.AND else (condition,):
            cells = chosen_cells(part, cells, public) if part.operator is Operator.OR else cells
    return replace(
        private,
        flow=flow,
        scope=_scope_after_join(join, scope),
        state=replace(
            owned,
            rows=owned.rows * most,
            unique=owned.unique if most == 1 else frozenset(),
            constant_per_unit=_constant_columns(private, owned)
            | _settled_beside(condition, private, owned, other, most),
        ),
        cells=cells if inner else PossibleCells.merged(cells, _outer_cells(other, public)),
        origins={**private.origins, **(other.origins if inner else {})},
    )


def _constant_columns(side: Analysed, owned: UnitLineage) -> frozenset[tuple[str, str]]:
    """Return the columns of a side that hold one value in all rows of a person."""
    return (
        owned.constant_per_unit if owned.rows > 1 else frozenset((label, name) for label, name, _ in outputs(side.flow))
    )


def _settled_beside(
    condition: Scalar | None, private: Analysed, owned: UnitLineage, other: Analysed, most: int
) -> frozenset[tuple[str, str]]:
    """Return the columns of public rows, where all rows of a person meet the same one or none."""
    public = frozenset((label, name) for label, name, _ in outputs(other.flow))
    alike = condition is not None and columns_read(condition) <= public | _constant_columns(private, owned)
    return public if most == 1 and alike else frozenset()


def materialize_public(other: Analysed, keys: tuple[Scalar, ...], used: Used, public: PublicData) -> Analysed:
    """Return public rows that are computed once, so that the facts about them hold for the rows that are read."""
    label = f'"kept" {_first_label(other.flow)}'
    known = {name: Item(f"{name[0]}.{name[1]}", scalar) for name, scalar in other.scope.items() if name in used}
    items = tuple(known.values())
    rows = public.materialize(other.flow, items, keys)
    flow = MaterializedNode(other.flow, label, items, keys, max(1, rows.max_rows_per_key), rows)
    scope = {
        name: _bound_by_public_rows(column(label, item.name, item.scalar.facts), flow, public)
        for name, item in known.items()
    }
    return Analysed(flow, scope, Visibility.PUBLIC, origins={label: flow})


def _bound_by_public_rows(value: Scalar, flow: MaterializedNode, public: PublicData) -> Scalar:
    """Return a column of kept rows within what it holds there, where nothing else bounds it: a count, or a rank."""
    if value.facts.kind is not Kind.INTEGER or value.facts.bounded:
        return value
    low, high = public.value_range(flow, value) or (0, 0)
    return replace(value, facts=replace(value.facts, low=low, high=high, declared_low=True, declared_high=True))


def _first_label(flow: RelNode) -> str:
    while not isinstance(flow, ScanNode | InputNode | MaterializedNode):
        flow = children(flow)[0]
    return flow.label


def check_exact(flow: RelNode, position: Position) -> None:
    """Refuse public rows that hold an aggregate of doubles: engines add them in no fixed order, each time another."""
    if isinstance(flow, AggregateNode):
        for measure in flow.measures:
            if not is_exact(measure):
                raise _inexact(measure, position)
    if isinstance(flow, WindowNode):
        for value in flow.values:
            if isinstance(value, WindowAggregate) and not is_exact(value.folded):
                raise _inexact(value.folded, position)
    for source in children(flow):
        check_exact(source, position)


def _inexact(measure: AggregateItem, position: Position) -> UnsupportedSql:
    function = measure.aggregate.function.upper()
    return UnsupportedSql(
        f"{position_prefix(position)}this joins people's rows with an inexact {function} of public numbers.",
        "Floating-point numbers are added in no fixed order, so such a value may differ from run to run.",
        "Ask for it first and write the number into the text, or use COUNT, MIN, MAX, or SUM and AVG of a column that "
        "has a step.",
    )


def _outer_cells(other: Analysed, public: PublicData) -> PossibleCells:
    """Return the values of the public columns; an outer join may also leave NULL, so its rows are not all there are."""
    return PossibleCells(
        {computation(scalar): _distinct(other.flow, scalar, public) for scalar in other.scope.values()}
    )


def _distinct(flow: RelNode, scalar: Scalar, public: PublicData) -> DeferredCells:
    return DeferredCells(lambda _: public.distinct(flow, scalar, MAX_GROUP_CELLS))


def public_sides(condition: Scalar, other: Analysed) -> list[Scalar]:
    """Return the public sides of equalities that every pair meets, as they are compared."""
    public = frozenset().union(*(columns_read(scalar) for scalar in other.scope.values()))
    parts = condition.arguments if condition.operator is Operator.AND else (condition,)
    sides = []
    for part in parts:
        if part.operator is not Operator.EQUAL or any(
            side.facts.kind not in _COMPARABLE_KINDS for side in part.arguments
        ):
            continue
        first, second = part.arguments
        for public_side, private_side in ((first, second), (second, first)):
            reads, tests = columns_read(public_side), columns_read(private_side)
            if reads and reads <= public and not tests & public:  # the rest is of the private row, whatever it met
                sides.append(public_side)
    return sides


def _of_one_person(
    join: Join, one: tuple[Analysed, UnitLineage], other: tuple[Analysed, UnitLineage]
) -> tuple[Analysed, str | None]:
    """Join rows of one person with each other; that the owners are equal is implied and cannot be left out."""
    (left, first), (right, second) = one, other
    if not (first.shared_ids and second.shared_ids):
        raise UnsafeJoin(
            f"{position_prefix(join.at)}these tables have no person in common.",
            'With unit = "rows" each row is a separate person, who is in no other table.',
            "Ask about each table separately, or declare the column that names the person as its unit.",
        )
    scope = _scope(join, left, right)
    same = Scalar(Operator.EQUAL, (first.unit, second.unit), Facts(Type.BOOLEAN, Kind.BOOLEAN, nullable=False))
    written = None if join.condition is None else lower(join.condition, scope)
    condition = same if written is None else _join_conditions(same, written)
    equalities = _equalities(join.condition, scope)
    once = second.rows == 1 or _meets_once(equalities, (right, second), left)
    reverse = first.rows == 1 or _meets_once(equalities, (left, first), right)
    rows = first.rows if once else first.rows * second.rows
    if reverse and join.kind is JoinKind.INNER:
        rows = min(rows, second.rows)
    check_pairs(rows, max(first.rows, second.rows), join.at)
    unique = (first.unique if once else frozenset()) | (
        second.unique if reverse and join.kind is JoinKind.INNER else frozenset()
    )
    limits = [groups for groups in (first.groups, second.groups) if groups is not None]
    settled = _constant_columns(left, first) | _constant_columns(right, second)
    if join.kind is not JoinKind.INNER and not columns_read(condition) <= settled | columns_read(same):
        settled = _constant_columns(left, first)  # some rows of a person may have met one, and others none
    names = first.names + second.names
    owned = UnitLineage(first.unit, True, rows, min(limits, default=None), unique, names, settled)
    flow = JoinNode(join.kind, left.flow, right.flow, condition)
    check_characters(flow, rows, tests_of_pairs(join.kind, condition, left, right), join.at)
    analysed = Analysed(
        flow,
        _scope_after_join(join, scope),
        owned,
        PossibleCells.merged(left.cells, right.cells),
        {**left.origins, **right.origins},
    )
    return analysed, None if _equates_units(join.condition, scope) else _note(first, second)


def tests_of_pairs(kind: JoinKind, condition: Scalar | None, left: Analysed, right: Analysed) -> tuple[Scalar, ...]:
    """Return the conditions that are tested for each pair; equalities are looked up, if each side has one table."""
    if condition is None:
        return ()
    refuse_engine_dependent((condition,))
    parts = condition.arguments if condition.operator is Operator.AND else (condition,)
    return tuple(
        part for part in parts if part.operator is not Operator.EQUAL or not _is_looked_up(kind, part, left, right)
    )


def _is_looked_up(kind: JoinKind, equality: Scalar, left: Analysed, right: Analysed) -> bool:
    """Whether each side is computed for the rows of one table, once, and not for each pair."""
    tables = [{label for label, _, _ in outputs(side.flow)} for side in (left, right)]
    sides = [{label for label, _ in columns_read(side)} for side in equality.arguments]
    if any(side & tables[0] and side & tables[1] for side in sides):
        return False
    # a condition on the left table alone does not choose its rows in a LEFT JOIN: it is tested for each pair
    return kind is JoinKind.INNER or any(side & tables[1] for side in sides)


def check_pairs(rows: int, before: int, position: Position) -> None:
    if rows > max(MAX_JOINED_ROWS_PER_UNIT, before):
        raise QueryTooLarge(
            f"{position_prefix(position)}this join gives one person up to {rows:,} rows.",
            f"More than {MAX_JOINED_ROWS_PER_UNIT:,} would let one person's rows decide how long the answer takes.",
            "Join on a column that is unique within a person, aggregate per person first, or choose rows with WHERE.",
        )


def check_marks(
    relation: MarkJoin, left: tuple[Analysed, int], right: tuple[Analysed, int], flow: MarkJoinNode
) -> None:
    """Refuse a semi- or anti-join that tests too many pairs of one person's rows; it makes no row of two.

    `left` and `right` come with how many rows of one person there are, and how many of them each meets. Equalities are
    looked up, so that pairs are tested only where something else is compared.
    """
    (rows, own), (others, most) = left, right
    tests = tests_of_pairs(JoinKind.INNER, flow.condition, rows, others)
    if not tests:
        return
    if own * most > MAX_COMPARED_PAIRS_PER_UNIT:
        raise QueryTooLarge(
            f"{position_prefix(relation.at)}this compares up to {own * most:,} pairs of one person's rows.",
            f"More than {MAX_COMPARED_PAIRS_PER_UNIT:,} would let one person's rows decide how long the answer takes.",
            "Compare by equalities alone, aggregate per person first, or choose rows with WHERE.",
        )
    check_characters(flow, own * most, tests, relation.at, joined=True)


def _join_conditions(same: Scalar, written: Scalar) -> Scalar:
    parts = written.arguments if written.operator is Operator.AND else (written,)
    return Scalar(Operator.AND, (same, *(part for part in parts if part != same)), replace(written.facts))


def _equalities(condition: Expression | None, scope: ScalarScope) -> list[tuple[Expression, Expression]]:
    """Return both directions of every equality that all pairs meet, where one value equals at most one other."""
    parts = () if condition is None else conjuncts(condition)
    pairs = [
        part.arguments
        for part in parts
        if isinstance(part, Call)
        and part.function is Function.EQUAL
        and all(side.facts.kind in _COMPARABLE_KINDS | {Kind.UNIT} for side in lower(part, scope).arguments)
    ]
    return [(first, second) for pair in pairs for first, second in (pair, pair[::-1])]


def _meets_once(
    equalities: list[tuple[Expression, Expression]], side: tuple[Analysed, UnitLineage], other: Analysed
) -> bool:
    """Whether a row of the other side meets one row of a person: by a column without repetition, or all of a key."""
    analysed, owned = side
    compared = [mine for mine, theirs in equalities if _reads(theirs, other)]
    if any(_is_unique(column, owned) for column in compared):
        return True
    if not isinstance(analysed.flow, AggregateNode):
        return False
    named = {column.name for column in compared if isinstance(column, Column) and column.of == analysed.flow.label}
    return all(key.name in named or is_unit_id(key.scalar) for key in analysed.flow.keys)


def _is_unique(side: Expression, owned: UnitLineage) -> bool:
    return isinstance(side, Column) and (side.of, side.name) in owned.unique


def _reads(side: Expression, analysed: Analysed) -> bool:
    return isinstance(side, Column) and (side.of, side.name) in analysed.scope


def _equates_units(condition: Expression | None, scope: ScalarScope) -> bool:
    return any(
        isinstance(expression, Column) and scope[expression.of, expression.name].facts.kind is Kind.UNIT
        for expression, _ in _equalities(condition, scope)
    )


def _note(first: UnitLineage, second: UnitLineage) -> str:
    return f"This join matches only rows of the same person: {first.names[-1]} = {second.names[0]} is added to it."


def _rows_without_unit(position: Position) -> UnsafeJoin:
    return UnsafeJoin(
        f"{position_prefix(position)}this outer join keeps public rows without a match.",
        "Such a row belongs to no person: whether it appears depends on all people at once.",
        "Write JOIN, or put the private table first; groups with public keys appear even where they are empty.",
    )
