"""One person's contribution at every bound: rows in the person's own order, each as far as it fits below the bound.

Theorem: at a bound one person adds at most that much over all cells together, and what a person adds depends on that
person's rows alone.  Proof: proofs/chosen_caps.md
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sfumato.engines.sql.bounding.bound_index import BoundIndexColumns
from sfumato.engines.sql.bounding.row_ranks import place_sql
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.scalar import in_bounds
from sfumato.engines.sql.value_ranks import BITS, MAX_RANK_WORDS, bit_of, bits_up_to
from sfumato.language.facts import MAX_INTERMEDIATE_STEPS, Facts, Kind
from sfumato.language.scalar import Scalar
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.bounding.candidates import ContributionBound
from sfumato.planning.plan import GroupPlan, PlannedMeasurement
from sfumato.query.functions import Aggregation
from sfumato.query.types import Type

_ROWS = Facts(Type.INTEGER, Kind.INTEGER, nullable=False, low=0, high=1 << 62)
_SUMS = Facts(Type.INTEGER, Kind.INTEGER, low=-MAX_INTERMEDIATE_STEPS, high=MAX_INTERMEDIATE_STEPS)
MAX_SUMMED_ROWS = 1 << 41
"""More rows than any table has: sums of fewer small integers are computed in 64 bits."""
Names = Mapping[Scalar, str]
"""The columns that hold what scalars compute."""
IndexedMeasurement = tuple[PlannedMeasurement, BoundIndexColumns]
"""A measurement at every candidate bound, and the columns that say where rows lie among these."""


@dataclass(frozen=True, slots=True)
class FillingOrder:
    """In which order the rows of a person fill bounds."""

    owner: str
    """The column that tells people apart."""
    by: Sequence[str]
    rank: str | None
    """The column that numbers the rows of a person in that order, with gaps where rows were left out."""
    most: int
    """The highest number that there may be."""
    groups: Sequence[str] = ()
    """In which order the groups of a person fill bounds."""


def filled_sql(
    rows: str,
    columns: Sequence[str],
    filled: Sequence[tuple[ContributionBound, BoundIndexColumns]],
    names: Names,
    order: FillingOrder,
    dialect: Dialect,
) -> str:
    """Return rows with what their person has before them in an order, and so at which bounds they count."""
    source, words = f"({rows}) AS w", -(-order.most // BITS)
    by_rows = all(cut.bounds_rows and not cut.bounds_groups for cut, _ in filled)
    if order.rank is not None and words <= MAX_RANK_WORDS and by_rows:
        masks = _masks_sql(rows, filled, names, order, words, dialect)
        source = f"{source} JOIN ({masks}) AS m ON w.{order.owner} = m.owner"
        before = {
            placed.before: _before_by_mask(cut, at, names, order, words, dialect)
            for at, (cut, placed) in enumerate(filled)
        }
    else:
        before = {placed.before: _before_sql(cut, names, order, dialect) for cut, placed in filled}
    rows = f"SELECT {_selected(columns, before)} FROM {source}"  # noqa: S608
    places: dict[str, str] = {}
    for cut, placed in filled:
        places |= _places_sql(cut, names, placed, dialect) if cut.is_selected else {}
    return f"SELECT {_selected([*columns, *before], places)} FROM ({rows}) AS f" if places else rows  # noqa: S608


def _masks_sql(
    rows: str,
    filled: Sequence[tuple[ContributionBound, BoundIndexColumns]],
    names: Names,
    order: FillingOrder,
    words: int,
    dialect: Dialect,
) -> str:
    """Return the query for the numbers of each person's rows that count, as bits: counting bits is no sorting."""
    listed = [f"{order.owner} AS owner"]
    for at, (cut, _) in enumerate(filled):
        counts = " AND ".join(_counts(cut.weight, names)) or "TRUE"
        for word in range(words):
            bit = bit_of(f"CAST({order.rank} AS {dialect.bigint})", word, words, dialect)
            mask = dialect.bit_or(f"CASE WHEN {counts} THEN {bit} ELSE 0 END")
            listed.append(f"{mask} AS m{at}_{word}")
    return f"SELECT {', '.join(listed)} FROM ({rows}) AS r GROUP BY {order.owner}"  # noqa: S608


def _before_by_mask(
    cut: ContributionBound, at: int, names: Names, order: FillingOrder, words: int, dialect: Dialect
) -> str:
    """Return how many rows of its person came before a row that counts, by their bits."""
    number = f"CAST({order.rank} AS {dialect.bigint})"
    upto = " + ".join(bits_up_to(number, word, f"m{at}_{word}", dialect) for word in range(words))
    return _if_it_counts(f"{upto} - 1", cut, names, dialect)


def _selected(names: Sequence[str], more: Mapping[str, str]) -> str:
    return ", ".join([*names, *(f"{sql} AS {name}" for name, sql in more.items())])


def _before_sql(cut: ContributionBound, names: Names, order: FillingOrder, dialect: Dialect) -> str:
    """Return how much of its person came before a row, in this order: rows, or what their values add up to.

    Of groups it is how many of them came before that of the row, of those in which a row of the person counts.
    """
    if cut.bounds_groups:
        counts = " AND ".join(_counts(cut.weight, names)) or "TRUE"
        part = f"PARTITION BY {order.owner}, CASE WHEN {counts} THEN 1 ELSE 0 END"
        before = f"dense_rank() OVER ({part} ORDER BY {', '.join(order.groups)}) - 1"
        return _if_it_counts(before, cut, names, dialect)
    frame = f"PARTITION BY {order.owner} ORDER BY {', '.join(order.by)}"
    frame = f"{frame} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    return _if_it_counts(f"coalesce(sum({_weight_sql(cut, names, dialect)}) OVER ({frame}), 0)", cut, names, dialect)


def _if_it_counts(before: str, cut: ContributionBound, names: Names, dialect: Dialect) -> str:
    """Return what came before a row that counts; NULL for any other."""
    counts = " AND ".join(_counts(cut.weight, names))
    return f"CAST({f'CASE WHEN {counts} THEN {before} END' if counts else before} AS {_wide(cut, dialect)})"


def _places_sql(bound: ContributionBound, names: Names, placed: BoundIndexColumns, dialect: Dialect) -> dict[str, str]:
    """Return the places of a row among the bounds, by what came before it; where it does not count, it has none."""
    found = {placed.first: place_sql(placed.before, bound.thresholds, above=True)}
    if not bound.bounds_rows:
        after = f"({placed.before} + {_weight_sql(bound, names, dialect)})"
        found[placed.last] = place_sql(after, bound.thresholds)
    return {name: f"CASE WHEN {placed.before} IS NOT NULL THEN {sql} END" for name, sql in found.items()}


def _weight_sql(bound: ContributionBound, names: Names, dialect: Dialect) -> str:
    """Return what a row weighs: 1, or its value; 0 where it does not count."""
    conditions, value = _counts(bound.weight, names), "1"
    if not bound.bounds_rows:
        (argument,) = bound.weight.arguments
        value = in_bounds(argument, names[argument], dialect)
    return f"CASE WHEN {' AND '.join(conditions)} THEN {value} ELSE 0 END" if conditions else value


def is_own_total(one: PlannedMeasurement, bound: ContributionBound) -> bool:
    """Whether a person adds what that person's rows weigh together, cut off at the bound: then no order matters."""
    if not bound.bounds_rows:
        return one.quantity == bound.weight
    counted = [[part for part in of.arguments if part.facts.nullable] for of in (one.quantity, bound.weight)]
    same = counted[0] == counted[1] and one.quantity.where == bound.weight.where
    return same and one.quantity.function is Aggregation.COUNT and not one.quantity.distinct


def bound_of(one: PlannedMeasurement) -> ContributionBound | None:
    """Return where what a person adds is cut off: of candidates, the selected one, if one was."""
    if one.bound is None or one.selected is None:
        return one.bound
    return replace(one.bound, thresholds=(one.bound.thresholds[one.selected],))


def without_idle_bounds(plan: GroupPlan) -> GroupPlan:
    """Return a group without selected bounds that cut nothing off: the last ones, which no person exceeds.

    Proof: proofs/chosen_caps.md, 6
    """
    return replace(
        plan,
        measured=tuple(
            replace(measurement, bound=None, selected=None) if _whole(measurement) else measurement
            for measurement in plan.measured
        ),
    )


def _whole(one: PlannedMeasurement) -> bool:
    return one.candidates is not None and one.selected == len(one.candidates.thresholds) - 1


def own_totals_sql(
    cuts: Sequence[ContributionBound | str], rows: str, names: Names, owner: str, dialect: Dialect
) -> str:
    """Return the statement of a group without keys, of measurements that are each an `is_own_total`, or counts as SQL.

    min(x, L) of each person's total x, summed over people.  Proof: proofs/chosen_caps.md, 1
    """
    totals, measures = [], []
    for index, cut in enumerate(cuts):
        if isinstance(cut, str):
            totals.append(f"{cut} AS x{index}")
            measures.append(dialect.aggregate(Aggregation.SUM, f"x{index}", _ROWS, False))
            continue
        totals.append(f"CAST({_own_total(cut, names, dialect)} AS {_wide(cut, dialect)}) AS x{index}")
        measures += [_cut_total(f"x{index}", amount, cut, dialect) for amount in cut.thresholds]
    people = f"SELECT {', '.join(totals)} FROM ({rows}) AS w GROUP BY {owner}"  # noqa: S608
    return f"SELECT {', '.join(measures)} FROM ({people}) AS people"  # noqa: S608


def _own_total(cut: ContributionBound, names: Names, dialect: Dialect) -> str:
    """Return what the rows of a person weigh together."""
    if not cut.bounds_rows:
        return f"coalesce(sum({_weight_sql(cut, names, dialect)}), 0)"
    conditions = _counts(cut.weight, names)
    return f"count(CASE WHEN {' AND '.join(conditions)} THEN 1 END)" if conditions else "count(*)"


def _cut_total(total: str, amount: int, cut: ContributionBound, dialect: Dialect) -> str:
    limit = dialect.integer(amount, _wide(cut, dialect))
    facts = Facts(Type.INTEGER, Kind.INTEGER, nullable=False, low=0, high=amount)
    return dialect.aggregate(
        Aggregation.SUM, f"CASE WHEN {total} > {limit} THEN {limit} ELSE {total} END", facts, False
    )


def is_additive(one: PlannedMeasurement) -> bool:
    """Whether what is measured of a cell is the sum of what is measured of its parts, however it is parted."""
    return one.quantity.function in {Aggregation.COUNT, Aggregation.SUM} and not one.quantity.distinct


def at_all_bounds_sql(
    measured: Sequence[IndexedMeasurement | str], rows: str, keys: Sequence[str], names: Names, dialect: Dialect
) -> str:
    """Return the statement of what is measured at every bound, and of what else can be added up.

    Rows are added up once, by cell and by their places among the bounds; and then what was found, bound by bound.
    """
    places, inner, outer = dict.fromkeys(keys), list[str](), list[str]()
    for at, measurement in enumerate(measured):
        if isinstance(measurement, str):
            inner.append(f"{measurement} AS p{at}")
            outer.append(dialect.aggregate(Aggregation.SUM, f"p{at}", _SUMS, False))
            continue
        bound, placed = measurement[0].candidates, measurement[1]
        if bound is None:
            raise AssertionError("it has candidate bounds")
        places |= dict.fromkeys([placed.first] if bound.bounds_rows else [placed.first, placed.last])
        inner += _parts(measurement[0], bound, at, placed, names, dialect)
        outer += _of_parts(measurement[0], bound, at, placed, dialect)
    by = ", ".join(places)
    parts = f"SELECT {by}, {', '.join(inner)} FROM ({rows}) AS w GROUP BY {by}"  # noqa: S608
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join([*keys, *outer])} FROM ({parts}) AS parts{grouped}"  # noqa: S608


def _parts(
    one: PlannedMeasurement,
    bound: ContributionBound,
    at: int,
    placed: BoundIndexColumns,
    names: Names,
    dialect: Dialect,
) -> Iterator[str]:
    """Give the sums over rows of a cell that lie alike among the bounds. Rows that do not count have no place."""
    if one.quantity.function is Aggregation.COUNT:
        yield f"count(*) AS p{at}"
        return
    (argument,) = one.quantity.arguments
    value = in_bounds(argument, names[argument], dialect)  # the range that was priced, whatever is stored
    facts = _sums(one, bound)
    parts = {f"p{at}": dialect.aggregate(Aggregation.SUM, value, argument.facts, False)}
    if not bound.bounds_rows:
        parts[f"b{at}"] = dialect.aggregate(Aggregation.SUM, placed.before, _before_facts(bound), False)
        parts[f"n{at}"] = "count(*)"
    yield from (f"CAST({sql} AS {dialect.integer_type(facts)}) AS {name}" for name, sql in parts.items())


def _of_parts(
    one: PlannedMeasurement, bound: ContributionBound, at: int, placed: BoundIndexColumns, dialect: Dialect
) -> Iterator[str]:
    """Give the measurement at every bound: where a value is cut off, what is left of the bound counts."""
    facts = _sums(one, bound)
    for index, amount in enumerate(bound.thresholds):
        left = f"{dialect.integer(amount, dialect.integer_type(facts))} * n{at} - b{at}"
        last = None if bound.bounds_rows else placed.last
        yield dialect.aggregate(Aggregation.SUM, part_at_bound(index, placed.first, last, f"p{at}", left), facts, False)


def part_at_bound(index: int, first: str, last: str | None, whole: str, left: str) -> str:
    """Return what rows add at a bound that lie alike among all: the whole, or what is left below it, or nothing.

    `first` and `last` are the columns with the first bounds at which they count, and at which all of their values do.
    """
    if last is None:  # rows count as a whole
        return f"CASE WHEN {first} <= {index} THEN {whole} END"
    return f"CASE WHEN {last} <= {index} THEN {whole} WHEN {first} <= {index} THEN {left} END"


def _sums(one: PlannedMeasurement, bound: ContributionBound) -> Facts:
    """Return how far what is added up can reach."""
    if one.quantity.function is Aggregation.COUNT:
        return _ROWS
    facts, most = one.quantity.arguments[0].facts, 0 if bound.bounds_rows else bound.thresholds[-1]
    return Facts(
        Type.INTEGER,
        Kind.INTEGER,
        low=min(facts.low, 0) * MAX_SUMMED_ROWS,
        high=max(facts.high, most, 0) * MAX_SUMMED_ROWS,
    )


def bounded_measures(
    one: PlannedMeasurement, bound: ContributionBound, names: Names, placed: BoundIndexColumns, dialect: Dialect
) -> Iterator[tuple[str, str]]:
    """Give the measurement at the selected threshold, or at every one: SQL over the rows that meet a condition."""
    for index, threshold in enumerate(bound.thresholds):
        if one.selected not in (None, index):
            continue
        limit = dialect.integer(threshold, _wide(bound, dialect))
        # NULL where the row does not count
        where = f"{placed.first} <= {index}" if bound.is_selected else f"{placed.before} < {limit}"
        if one.quantity.function is Aggregation.COUNT:
            yield "count(*)", where
            continue
        (argument,) = one.quantity.arguments
        value = in_bounds(argument, names[argument], dialect)
        if not bound.bounds_rows:
            left = f"{limit} - {placed.before}"
            fits = f"{placed.last} <= {index}" if bound.is_selected else f"{value} <= {left}"
            part = f"CASE WHEN {fits} THEN {value} ELSE {left} END"
            value = f"CAST({part} AS {dialect.integer_type(argument.facts)})"
        yield dialect.aggregate(Aggregation.SUM, value, argument.facts, False), where


def _counts(one: Quantity, names: Names) -> list[str]:
    """Return what must hold of a row that counts."""
    where = [] if one.where is None else [names[one.where]]
    arguments = [] if one.distinct else one.arguments  # different people are counted: each person has an id
    return [*where, *(f"{names[part]} IS NOT NULL" for part in arguments if part.facts.nullable)]


def _before_facts(bound: ContributionBound) -> Facts:
    return Facts(Type.INTEGER, Kind.INTEGER, nullable=False, low=0, high=max(2 * bound.max_contribution, 1 << 33))


def _wide(bound: ContributionBound, dialect: Dialect) -> str:
    """Return a type for what one person has: it stays below 2^62."""
    return dialect.integer_type(_before_facts(bound))
