"""One private GROUP BY as SQL: exact integers per cell, after every person was bounded.

What a person adds depends on that person's rows alone: which of them, or which cells, are kept is decided by a hash of
the person's opaque id and the values themselves, so that no person's rows push out another's.  Proof: proofs/lineage.md
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from sfumato.analysis.private_query import Group
from sfumato.engines.sql.auxiliary_columns import rows_are_distinct
from sfumato.engines.sql.bounding.bound_index import places_of, stored_of
from sfumato.engines.sql.bounding.candidates import (
    FillingOrder,
    IndexedMeasurement,
    at_all_bounds_sql,
    bound_of,
    bounded_measures,
    filled_sql,
    is_additive,
    is_own_total,
    own_totals_sql,
)
from sfumato.engines.sql.bounding.selection import totals_sql
from sfumato.engines.sql.bucket_lists import bucket_list_sql, lists_buckets, person_list_sql
from sfumato.engines.sql.builder import select, subquery, union_all
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.flow import Tables, projected
from sfumato.engines.sql.matched_pairs import matched_pairs_sql
from sfumato.engines.sql.row_weights import RowForm, row_form
from sfumato.engines.sql.sampling_order import sampling_order_sql
from sfumato.engines.sql.scalar import in_bounds
from sfumato.engines.sql.value_counts import counted_rows
from sfumato.engines.sql.value_ranks import CellColumns, first_numbered, numbered_cells, own_rows, repeated_values
from sfumato.language.facts import Kind
from sfumato.language.scalar import Scalar
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.plan import GroupPlan, PlannedMeasurement, PlannedSelection
from sfumato.query.functions import Aggregation

_OWNER = "u"
_CELL = "cell"
_RANK = "nth_row"
_OWN = "own"
_MULTIPLICITY = "alike"
_ROWS = "own_rows"
_STORED = "stored"
_BESIDE = "beside"
_NOTHING: Mapping[str, Scalar] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Used:
    """The columns that a statement takes from the rows: `names` by what they compute, equal scalars once."""

    keys: list[str]
    names: dict[Scalar, str]
    kinds: dict[str, Kind]

    @property
    def all(self) -> list[str]:
        return list(dict.fromkeys([*self.keys, *self.names.values()]))


def group_sql(plan: GroupPlan, tables: Tables, dialect: Dialect) -> str | None:
    """Return the statement: keys, then each measurement, then how many people if the keys are secret.

    None where nothing is measured: public keys are known without looking. A NULL is no key, and its cell is to be
    dropped: dropping its rows would cost a test of every row.
    """
    numbers = [one for one in plan.measured if one.buckets is None]
    if not numbers and plan.group.public_keys:
        return None
    if (added_up := totals_sql(plan, tables, dialect)) is not None:
        return added_up
    plan = replace(plan, measured=tuple(numbers), chosen=())
    bounded = _bounded(plan, tables, dialect)
    if _has_own_totals(plan):
        cuts = [bound_of(one) or _measure(one.quantity, plan.group, bounded, dialect) for one in numbers]
        return own_totals_sql(cuts, bounded.rows, bounded.used.names, _OWNER, dialect)
    open_levels = any(one.candidates is not None and one.selected is None for one in numbers)
    if open_levels and plan.group.public_keys and all(map(is_additive, numbers)):
        placed = places_of(plan)
        levelled: list[IndexedMeasurement | str] = [
            (one, placed[one.candidates.weight][1])
            if one.candidates is not None
            else dialect.aggregate_if(*_measures(one, plan, bounded, dialect)[0])
            for one in numbers
        ]
        return at_all_bounds_sql(levelled, bounded.rows, bounded.used.keys, bounded.used.names, dialect)
    pairs = [pair for one in numbers for pair in _measures(one, plan, bounded, dialect)]
    people = [] if plan.group.public_keys else [bounded.people.sql(dialect)]
    common = {where for _, where in pairs}
    if len(common) == 1 and None not in common and not people:  # cells without such rows are empty
        rows = select("*", subquery(bounded.rows, "c"), where=[where for where in common if where is not None])
        return _grouped(replace(bounded, rows=rows), bounded.used.keys, [sql for sql, _ in pairs])
    measures = [dialect.aggregate_if(sql, where) for sql, where in pairs]
    return _grouped(bounded, bounded.used.keys, [*measures, *people])


def histogram_sql(plan: GroupPlan, one: PlannedMeasurement, tables: Tables, dialect: Dialect) -> str:
    """Return the statement of a histogram: keys, bucket, and what is in it. Empty buckets are absent, or NULL is one.

    It is the statement of the group with one more key, over the same bounded rows.
    """
    bounded = _bounded(replace(plan, measured=(one,), chosen=()), tables, dialect)
    by, *added = one.quantity.arguments
    bucket = in_bounds(by, bounded.used.names[by], dialect)  # the range that was priced, whatever is stored
    inner = replace(one.quantity, function=Aggregation.SUM if added else Aggregation.COUNT, arguments=tuple(added))
    measure = _measure(inner, plan.group, bounded, dialect)
    return _grouped(bounded, [*bounded.used.keys, bucket], [measure])


def buckets_sql(plan: GroupPlan, one: PlannedSelection, tables: Tables, dialect: Dialect) -> str:
    """Return the statement of what is chosen: keys, bucket, and what the rows in it weigh together.

    A row weighs an equal part of what those of its owner weigh, rounded down, and 1 where each person has one row. Only
    rows count that have a bucket and, where there is a condition, meet it; one without a key counts and is in no cell.
    Where the copy knows how many rows an owner has, they are not counted. Where there are very many buckets, keys come
    with a list of all rows instead: see `bucket_lists`. Where arrays are quicker, rows come as they are: `row_weights`.
    """
    if (form := row_form(plan.group, one, dialect)) is not None:
        return _rows_sql(plan, one, form, tables, dialect)
    several = plan.group.contribution.rows > 1
    counted = counted_rows(plan.group, one) if several else None
    if counted is not None:
        plan = replace(plan, group=replace(plan.group, rows=counted.rows))
    alone = replace(plan, measured=(), chosen=(one,))
    bounded = _bounded(alone, tables, dialect, {} if counted is None else {_STORED: counted.count})
    used = bounded.used
    (by,) = one.quantity.arguments
    bucket = used.names[by]
    present = [f"{bucket} IS NOT NULL"]
    present += [] if one.quantity.where is None else [used.names[one.quantity.where]]
    keys = [*used.keys, bucket]

    def rows(own: str, *tests: str) -> str:
        return select([*keys, f"{own} AS {_OWN}"], subquery(bounded.rows, "b"), where=[*present, *tests])

    listed = lists_buckets(plan.group, one, dialect)
    if not several and not listed:
        return _grouped(replace(bounded, rows=rows("1")), keys, ["count(*)"])
    by_counting = f"count(*) OVER (PARTITION BY {_OWNER})"
    if not several:
        found = rows("1")
    elif counted is None:
        found = rows(by_counting)
    elif counted.whole:
        found = rows(_STORED)
    else:
        found = union_all([rows("1", f"{_STORED} <= 1"), rows(by_counting, f"{_STORED} > 1")])
    if listed:
        number = bucket_list_sql(in_bounds(by, bucket, dialect), _OWN, plan.group, one, dialect)
        return _grouped(replace(bounded, rows=found), used.keys, [number])
    bigint = dialect.bigint
    weight = dialect.floor_divide(f"CAST({one.weight} AS {bigint})", f"greatest(CAST({_OWN} AS {bigint}), 1)")
    return _grouped(replace(bounded, rows=found), keys, [f"CAST(sum({weight}) AS {bigint})"])


def _rows_sql(plan: GroupPlan, one: PlannedSelection, form: RowForm, tables: Tables, dialect: Dialect) -> str:
    """Return the statement of rows that count in what is chosen: their values and what is beside them."""
    group = replace(plan.group, rows=form.rows)
    one = replace(one, quantity=replace(one.quantity, arguments=(form.value,)))
    beside = {} if form.second_column is None else {_BESIDE: form.second_column}
    bounded = _bounded(replace(plan, group=group, measured=(), chosen=(one,)), tables, dialect, beside)
    value = bounded.used.names[form.value]
    present = [f"{value} IS NOT NULL"]
    present += [] if one.quantity.where is None else [bounded.used.names[one.quantity.where]]
    if not form.listed:
        return select([value, *beside], subquery(bounded.rows, "b"), where=present)
    rows = select("*", subquery(bounded.rows, "b"), where=present)
    number = person_list_sql(in_bounds(form.value, value, dialect), _BESIDE, form.span, dialect)
    return _grouped(replace(bounded, rows=rows), bounded.used.keys, [number])


def matched_sql(plan: GroupPlan, one: PlannedSelection, tables: Tables, dialect: Dialect) -> str:
    """Return the statement of values that are matched to people: see `matched_pairs_sql`."""
    bounded = _bounded(replace(plan, measured=(), chosen=(one,)), tables, dialect)
    used, limit = bounded.used, plan.group.contribution
    (argument,) = one.quantity.arguments
    value = used.names[argument]
    present = [f"{name} IS NOT NULL" for name in (*used.keys, value)]
    present += [] if one.quantity.where is None else [used.names[one.quantity.where]]
    if argument.facts.kind is Kind.INTEGER:
        value = in_bounds(argument, value, dialect)  # the range that was priced, whatever is stored
    rows = select([*used.keys, _OWNER, f"{value} AS val"], subquery(bounded.rows, "b"), where=present)
    return matched_pairs_sql(rows, used.keys, _OWNER, limit.rows, dialect, once=not bounded.is_scan)


@dataclass(frozen=True, slots=True)
class _People:
    """How the people in a cell are counted."""

    sole: bool
    """Whether a person has one row at most."""
    alike: bool
    """Whether the first row of a person in a cell says how many there are, and the others 0."""
    whole: bool
    """Whether all rows are there that these numbers speak of."""

    def sql(self, dialect: Dialect, where: str | None = None) -> str:
        """Return the number of people, of those rows that meet a condition."""
        if self.sole or not self.alike:
            return dialect.aggregate_if("count(*)" if self.sole else f"count(DISTINCT {_OWNER})", where)
        if self.whole and where is None:
            return dialect.filtered("count(*)", f"{_MULTIPLICITY} > 0")
        # a row that is alone stands for its person; only where a person has several can the first be missing
        tests = [where] if where is not None else []
        alone = dialect.filtered("count(*)", " AND ".join([f"{_MULTIPLICITY} = 1", *tests]))
        several = dialect.filtered(f"count(DISTINCT {_OWNER})", " AND ".join([f"{_MULTIPLICITY} <> 1", *tests]))
        return f"{alone} + {several}"


@dataclass(frozen=True, slots=True)
class _Bounded:
    """The rows of a group after every person was bounded."""

    rows: str
    used: _Used
    people: _People
    is_scan: bool = False
    """Whether they are merely read: then reading them twice takes less than writing them down."""


def _bounded(plan: GroupPlan, tables: Tables, dialect: Dialect, beside: Mapping[str, Scalar] = _NOTHING) -> _Bounded:
    """Return the rows with everything that is measured of them and, `beside` it, scalars under these names.

    Each statement is given a plan of what it measures and nothing else: the length of all statements together grows
    with the number of measurements, not with its square.
    """
    group, limit = plan.group, plan.group.contribution
    used, bound_groups = _used(group, plan.all_outputs), limit.bound_groups and bool(group.keys)
    cells = numbered_cells(group) if bound_groups else None
    owned = own_rows(group) if bound_groups and cells is None and not limit.bound_rows else None
    stored, filled = stored_of(plan)
    repeated = None
    if not (bound_groups or stored.columns or filled) and limit.rows > 1 and _counts_people(plan):
        repeated = repeated_values(group)
    people = _People(
        limit.rows == 1,
        repeated is not None or (cells is not None and cells.alike is not None),
        (repeated is not None and repeated.whole) or (cells is not None and cells.whole),
    )
    ranked = limit.bound_rows or (bound_groups and (cells is None or not cells.whole))
    columns = {f"k{at}": key.scalar for at, key in enumerate(group.keys)}
    columns |= {name: scalar for scalar, name in used.names.items() if name not in columns}
    ranked = ranked or any(cut.bounds_groups for cut, _ in filled)
    if ranked or filled or (plan.chosen and limit.rows > 1) or _tells_people_apart(plan, people):
        columns[_OWNER] = group.unit
    rank = next((one.candidates.rank for one in plan.measured if one.candidates is not None), None)
    if rank is not None and filled:
        columns[_RANK] = rank
    flow = stored.rows
    columns |= stored.columns
    if cells is not None:
        flow, columns[_CELL] = cells.rows, cells.number
        columns |= {} if cells.whole else {_ROWS: cells.own}
        columns |= {_MULTIPLICITY: cells.alike} if cells.alike is not None and _counts_people(plan) else {}
    if repeated is not None:
        flow, columns[_MULTIPLICITY] = repeated.rows, repeated.alike
    if owned is not None:
        flow, columns[_ROWS] = owned.rows, owned.own
    columns |= beside
    rows, names = projected(flow, tables, columns, dialect), list(columns)
    if ranked:
        rows = _present(rows, used.keys)  # else they would take the place of rows that count
    if limit.bound_rows:
        rows = _first_rows(rows, names, group, used, dialect)
    if cells is not None and cells.whole:
        rows = select("*", subquery(rows, "n"), where=f"{_CELL} <= {limit.groups}")
    elif bound_groups:
        kept = None
        if cells is not None:
            at, once = CellColumns(_OWNER, _CELL, _ROWS), limit.bound_rows or cells.alike is None
            kept = first_numbered(rows, names, at, cells.number.facts.high, limit.groups, dialect, once=once)
        numbers = [_CELL] if cells is not None else []
        rows = kept or _first_cells(rows, names, group, used, numbers, dialect)
    if filled and not _has_own_totals(plan):
        groups = _drawn(used.keys, group, used, dialect) if group.keys else []
        order = FillingOrder(_OWNER, _drawn(used.all, group, used, dialect), None, limit.rows, groups)
        if rank is not None:
            order = FillingOrder(_OWNER, [_RANK], _RANK, rank.facts.high, groups)
        rows = filled_sql(rows, names, filled, used.names, order, dialect)
    return _Bounded(rows, used, people, is_scan=not ranked and not filled and rows_are_distinct(group.rows))


def _has_own_totals(plan: GroupPlan) -> bool:
    """Whether people's totals decide what is cut off, so that no order of their rows is needed."""
    if plan.group.keys or not plan.group.public_keys or plan.chosen or not stored_of(plan)[1]:
        return False
    return all(one.buckets is None and _is_own(one) for one in plan.measured)


def _is_own(one: PlannedMeasurement) -> bool:
    if one.bound is not None:
        return is_own_total(one, one.bound)
    return one.quantity.function is Aggregation.COUNT and not one.quantity.distinct


def _measures(
    one: PlannedMeasurement, plan: GroupPlan, bounded: _Bounded, dialect: Dialect
) -> Sequence[tuple[str, str | None]]:
    """Return a measurement as SQL: one integer, or one for each candidate; and which rows it counts, where not all."""
    if one.bound is None:
        return [(_measure(one.quantity, plan.group, bounded, dialect), None)]
    placed = places_of(plan)[one.bound.weight][1]
    if one.bound.bounds_groups:
        levels = range(len(one.bound.thresholds)) if one.selected is None else [one.selected]
        return [(f"count(DISTINCT {_OWNER})", f"{placed.first} <= {level}") for level in levels]
    return list(bounded_measures(one, one.bound, bounded.used.names, placed, dialect))


def _used(group: Group, measured: Sequence[PlannedMeasurement | PlannedSelection]) -> _Used:
    names: dict[Scalar, str] = {}
    for one in measured:
        cut = one.bound if isinstance(one, PlannedMeasurement) else None
        for scalar in (*one.quantity.parts, *(() if cut is None else cut.weight.parts)):
            if not _is_owner(scalar, group):
                names.setdefault(scalar, f"v{len(names)}")
    kinds = {f"k{at}": key.scalar.facts.kind for at, key in enumerate(group.keys)}
    kinds |= {name: scalar.facts.kind for scalar, name in names.items()}
    return _Used([f"k{at}" for at in range(len(group.keys))], names, kinds)


def _is_owner(scalar: Scalar, group: Group) -> bool:
    return scalar == group.unit


def _counts_people(plan: GroupPlan) -> bool:
    arguments = (argument for one in plan.measured for argument in one.quantity.arguments)
    return not plan.group.public_keys or any(_is_owner(one, plan.group) for one in arguments)


def _tells_people_apart(plan: GroupPlan, people: _People) -> bool:
    """Whether counting people needs their ids: not where every cell of a person has a first row that counts."""
    if people.sole or not (people.alike and people.whole):
        return _counts_people(plan)
    filtered = (one.quantity.arguments for one in plan.measured if one.quantity.where is not None)
    return any(_is_owner(argument, plan.group) for arguments in filtered for argument in arguments)


def _present(rows: str, keys: list[str]) -> str:
    return select("*", subquery(rows, "p"), where=[f"{key} IS NOT NULL" for key in keys]) if keys else rows


def _first_rows(rows: str, columns: list[str], group: Group, used: _Used, dialect: Dialect) -> str:
    """Keep of each person the rows that come first; equal rows are interchangeable."""
    rank = dialect.row_number([_OWNER], _drawn(used.all, group, used, dialect))
    return _ranked(rows, columns, rank, group.contribution.rows)


def _first_cells(rows: str, columns: list[str], group: Group, used: _Used, numbers: list[str], dialect: Dialect) -> str:
    """Keep of each person the rows of the cells that come first; ranking rows is faster than joining cells to them.

    The numbers that the copy gave them, where it did, are in the same order as the hash. That keys are told apart does
    not rest on them.
    """
    order = [*numbers, *(dialect.sortable(key, used.kinds[key]) for key in used.keys)]
    if not numbers:
        order = _drawn(used.keys, group, used, dialect)
    rank, most = f"dense_rank() OVER (PARTITION BY {_OWNER} ORDER BY {', '.join(order)})", group.contribution.groups
    if _ROWS not in columns or numbers:
        return _ranked(rows, columns, rank, most)
    few = select(columns, subquery(rows, "f"), where=f"{_ROWS} <= {most}")
    many = select("*", subquery(rows, "m"), where=f"{_ROWS} > {most}")
    return union_all([few, _ranked(many, columns, rank, most)])


def _drawn(columns: list[str], group: Group, used: _Used, dialect: Dialect) -> list[str]:
    owner = _OWNER if group.identity else None  # the number of a row is not about the person
    return sampling_order_sql(owner, [(name, used.kinds[name]) for name in columns], dialect)


def _ranked(rows: str, columns: list[str], rank: str, most: int) -> str:
    numbered = select([*columns, f"{rank} AS nth"], subquery(rows, "r"))
    return select(columns, subquery(numbered, "n"), where=f"nth <= {most}")


def _grouped(bounded: _Bounded, keys: list[str], measures: list[str]) -> str:
    return select([*keys, *measures], subquery(bounded.rows, "bounded"), group_by=keys)


def _measure(one: Quantity, group: Group, bounded: _Bounded, dialect: Dialect) -> str:
    used = bounded.used
    where = None if one.where is None else used.names[one.where]
    if one.argument is None:
        return dialect.aggregate_if("count(*)", where)
    if _is_owner(one.argument, group):
        return bounded.people.sql(dialect, where) if one.distinct else dialect.aggregate_if("count(*)", where)
    value = used.names[one.argument]
    if one.argument.facts.kind is Kind.INTEGER and (one.function is Aggregation.SUM or one.distinct):
        value = in_bounds(one.argument, value, dialect)  # the range that was priced, whatever is stored
    return dialect.aggregate_if(dialect.aggregate(one.function, value, one.argument.facts, one.distinct), where)
