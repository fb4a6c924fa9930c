"""What one person adds at every level: rows in an order of the person's own, each as far as it fits below the level.

Theorem: at a level one person adds at most that much over all cells together, and what a person adds depends on that
person's rows alone.  Proof: proofs/chosen_caps.md
"""

from collections.abc import Mapping, Sequence

from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.fold import clipped
from sfumato.language.facts import Facts, Kind
from sfumato.language.scalar import Scalar
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.plan import Measured
from sfumato.planning.tiers import ClippedTotal, Levels
from sfumato.query.functions import Aggregation
from sfumato.query.types import Type

_ROWS = Facts(Type.INTEGER, Kind.INTEGER, nullable=False, low=0, high=1 << 62)
Cut = Levels | ClippedTotal
Names = Mapping[Scalar, str]
"""The columns that hold what scalars compute."""


def before_sql(levels: Cut, names: Names, owner: str, order: Sequence[str], dialect: Dialect) -> str:
    """Return how much of its person came before a row, in this order: rows, or what their values add up to."""
    frame = f"PARTITION BY {owner} ORDER BY {', '.join(order)} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    weight = _weight_sql(levels, names, dialect)
    return f"CAST(coalesce(sum({weight}) OVER ({frame}), 0) AS {_wide(levels, dialect)})"


def _weight_sql(levels: Cut, names: Names, dialect: Dialect) -> str:
    """Return what a row weighs: 1, or its value; 0 where it does not count."""
    conditions, value = _counts(levels.weight, names), "1"
    if not _by_rows(levels):
        (argument,) = levels.weight.arguments
        value = clipped(names[argument], argument.facts, dialect)
    return f"CASE WHEN {' AND '.join(conditions)} THEN {value} ELSE 0 END" if conditions else value


def is_own_total(one: Measured, levels: Cut) -> bool:
    """Whether a person adds what that person's rows weigh together, cut off at the level: then no order matters."""
    if not _by_rows(levels):
        return one.quantity == levels.weight
    counted = [[part for part in of.arguments if part.facts.nullable] for of in (one.quantity, levels.weight)]
    same = counted[0] == counted[1] and one.quantity.where == levels.weight.where
    return same and one.quantity.function is Aggregation.COUNT and not one.quantity.distinct


def own_totals_sql(cuts: Sequence[Cut | str], rows: str, names: Names, owner: str, dialect: Dialect) -> str:
    """Return the statement of a group without keys, of measurements that are each an `is_own_total`, or counts as SQL.

    min(x, L) of each person's total x, summed over people.  Proof: proofs/chosen_caps.md, 1
    """
    totals, measures = [], []
    for place, cut in enumerate(cuts):
        if isinstance(cut, str):
            totals.append(f"{cut} AS x{place}")
            measures.append(dialect.aggregate(Aggregation.SUM, f"x{place}", _ROWS, False))
            continue
        weight, wide = _weight_sql(cut, names, dialect), _wide(cut, dialect)
        totals.append(f"CAST(coalesce(sum({weight}), 0) AS {wide}) AS x{place}")
        measures += [_cut_total(f"x{place}", amount, cut, dialect) for amount in _amounts(cut)]
    people = f"SELECT {', '.join(totals)} FROM ({rows}) AS w GROUP BY {owner}"  # noqa: S608
    return f"SELECT {', '.join(measures)} FROM ({people}) AS people"  # noqa: S608


def _cut_total(total: str, amount: int, cut: Cut, dialect: Dialect) -> str:
    level = dialect.integer(amount, _wide(cut, dialect))
    facts = Facts(Type.INTEGER, Kind.INTEGER, nullable=False, low=0, high=amount)
    return dialect.aggregate(
        Aggregation.SUM, f"CASE WHEN {total} > {level} THEN {level} ELSE {total} END", facts, False
    )


def counted_by_level(
    counts: Sequence[tuple[Quantity, Levels]], rows: str, keys: Sequence[str], rank: str, names: Names, dialect: Dialect
) -> str:
    """Return the statement of counts at levels that the rank of a row decides, all with the same levels.

    Rows are counted once, by cell and by the least level at which they count; then these counts are added up.
    """
    amounts = counts[0][1].amounts
    steps = " ".join(f"WHEN {rank} <= {amount} THEN {place}" for place, amount in enumerate(amounts))
    inner = [*keys, f"CASE {steps} END AS lv"]
    for place, (quantity, _) in enumerate(counts):
        where = " AND ".join(_counts(quantity, names))
        inner.append(f"count(*){f' FILTER (WHERE {where})' if where else ''} AS n{place}")
    by = ", ".join([*keys, "lv"])
    parts = f"SELECT {', '.join(inner)} FROM ({rows}) AS w WHERE {rank} <= {amounts[-1]} GROUP BY {by}"  # noqa: S608
    measures = [
        f"{dialect.aggregate(Aggregation.SUM, f'n{place}', _ROWS, False)} FILTER (WHERE lv <= {level})"
        for place in range(len(counts))
        for level in range(len(amounts))
    ]
    return f"SELECT {', '.join([*keys, *measures])} FROM ({parts}) AS parts GROUP BY {', '.join(keys)}"  # noqa: S608


def is_rank(levels: Cut) -> bool:
    """Whether the number of a row within its person tells how much came before it, if no condition drops rows."""
    return isinstance(levels, Levels) and levels.by_rows and levels.rank is not None and not levels.weight.parts


def level_measures(one: Measured, levels: Cut, names: Names, before: str, dialect: Dialect) -> list[str]:
    """Return the measurement at every level, or cut off at the one total, as SQL over the rows of a cell."""
    return [_at_level(one, levels, names, before, amount, dialect) for amount in _amounts(levels)]


def _amounts(levels: Cut) -> tuple[int, ...]:
    return levels.amounts if isinstance(levels, Levels) else (levels.most,)


def _by_rows(levels: Cut) -> bool:
    return isinstance(levels, Levels) and levels.by_rows


def _at_level(one: Measured, levels: Cut, names: Names, before: str, amount: int, dialect: Dialect) -> str:
    level = dialect.integer(amount, _wide(levels, dialect))
    where = " AND ".join([*_counts(one.quantity, names), f"{before} < {level}"])
    if one.quantity.function is Aggregation.COUNT:
        return f"count(*) FILTER (WHERE {where})"
    argument = one.quantity.arguments[0]
    value = clipped(names[argument], argument.facts, dialect)  # what it was priced for, whatever is stored
    if not _by_rows(levels):
        value = f"CASE WHEN {value} > {level} - {before} THEN {level} - {before} ELSE {value} END"
        value = f"CAST({value} AS {dialect.integer_type(argument.facts)})"
    return f"{dialect.aggregate(Aggregation.SUM, value, argument.facts, False)} FILTER (WHERE {where})"


def _counts(one: Quantity, names: Names) -> list[str]:
    """Return what must hold of a row that counts."""
    where = [] if one.where is None else [names[one.where]]
    return [*where, *(f"{names[part]} IS NOT NULL" for part in one.arguments if part.facts.nullable)]


def _wide(levels: Cut, dialect: Dialect) -> str:
    """Return a type for what one person has: it stays below 2^62."""
    most = 2 * (levels.amounts[-1] if isinstance(levels, Levels) else levels.reach)
    return dialect.integer_type(Facts(Type.INTEGER, Kind.INTEGER, nullable=False, low=0, high=max(most, 1 << 33)))
