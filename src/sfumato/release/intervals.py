"""Error bars: for every number of an answer what the true number may be, at any level. They cover what the noise does.

Counts and sums have the margin of their integer law; averages are a ratio (`ratio.py`); variances, and whatever is
computed from noisy numbers, come from draws (`draws.py`). Proof: proofs/intervals.md
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isinf, isnan
from typing import Any

import numpy as np

from sfumato.analysis.facts import Facts, Kind
from sfumato.analysis.flow import Flow, Given, Item, Show
from sfumato.analysis.scalar import Operator, Scalar, column, columns, walk
from sfumato.engines.desk import Values
from sfumato.planning.plan import Derived, GroupPlan, Plan
from sfumato.query.functions import Aggregation
from sfumato.query.types import Type
from sfumato.release.all_draws import DRAW, over_draws
from sfumato.release.decode import Kept
from sfumato.release.draws import drawn, middle_part, noise_of, noise_of_cells
from sfumato.release.estimates import (
    DEVIATIONS,
    SAMPLES,
    Table,
    estimated,
    estimates,
    integers,
    nulled,
    plain_name,
    public_range,
)
from sfumato.release.noise_law import Floats, Integers, law_of
from sfumato.release.noisy import Noisy, NoisyGroup
from sfumato.release.ratio import ratio_interval
from sfumato.release.tracing import Traced, place_name, trace, written_out

Evaluate = Callable[[Flow, Mapping[str, Mapping[str, Values]]], list[list[Any]]]
"""What runs a flow over given tables and returns its columns: `engines.desk.evaluate`."""

Bar = tuple[Kept, Kept]
"""The ends of an interval as an engine keeps them; None is an unbounded side."""

_DRAWS = 2_000
_MOST_DRAWS = 20_000
_RUNS = 400
_BLOCK = 100
_MOST_VALUES = 10_000_000
_DIVISIONS = frozenset({Operator.DIVIDE, Operator.QUOTIENT, Operator.MODULO})
_SPREAD = frozenset({Type.INTEGER, Type.DECIMAL, Type.DATE, Type.TIMESTAMP, Type.INTERVAL})
_FLAT = "draws"


@dataclass(frozen=True, slots=True)
class Answered:
    """The outcome of a plan over its noisy tables, and what its error bars need."""

    plan: Plan
    noisy: Noisy
    evaluate: Evaluate
    seed: str
    traced: Traced | None
    columns: tuple[tuple[Kept, ...], ...]
    places: tuple[tuple[Kept, ...], ...]
    """For each table of `traced`, which of its rows a row of the answer comes from; None where a left join met none."""

    def aggregate(self, scalar: Scalar | None) -> tuple[GroupPlan, Derived] | None:
        """Return the aggregate that a scalar is, if it is nothing else."""
        if scalar is None or scalar.operator is not Operator.COLUMN:
            return None
        return next((_aggregates(self.plan)[name] for name in columns(scalar) if name in _aggregates(self.plan)), None)

    def noisy_numbers(self, scalar: Scalar) -> bool:
        """Whether a scalar depends on a measurement: on more than keys and literals."""
        return not columns(scalar).isdisjoint(_aggregates(self.plan))


def answer(plan: Plan, noisy: Noisy, seed: str, evaluate: Evaluate) -> Answered:
    """Compute the outcome of a plan from its noisy tables."""
    tables = estimates(plan, noisy)
    traced = trace(plan.private.outcome)
    if traced is None:
        return Answered(plan, noisy, evaluate, seed, None, _tuples(evaluate(plan.private.outcome, tables)), ())
    sizes = {group.group.label: len(found.keys) for group, found in zip(plan.groups, noisy.groups, strict=True)}
    numbered = {
        given.label: {**tables[given.label], place_name(given): range(sizes[given.label])}
        for given in traced.tables
        if given.rows is None
    }
    found = _tuples(evaluate(traced.flow, numbered))
    shown = len(plan.private.outcome.items)
    return Answered(plan, noisy, evaluate, seed, traced, found[:shown], found[shown:])


def bars(answered: Answered, level: Fraction) -> list[list[Bar | None] | None]:
    """Return the bars of every column, None for a NULL; a column without noise, or that is no number, has none."""
    items = answered.plan.private.outcome.items
    if answered.traced is None:
        return _bars_of_whole_runs(answered, level)
    found: list[list[Bar | None] | None] = []
    computed: list[int] = []
    for place, (item, scalar) in enumerate(zip(items, answered.traced.items, strict=True)):
        plain = answered.aggregate(scalar)
        if item.scalar.facts.type not in _SPREAD or (scalar is not None and not answered.noisy_numbers(scalar)):
            found.append(None)
        elif plain is not None and scalar is not None:
            found.append(_plain_bars(answered, scalar, plain, level))
        else:
            found.append([None if value is None else (None, None) for value in answered.columns[place]])
            computed += [place] if scalar is not None else []
    for place, ends in _computed_bars(answered, computed, level).items():
        found[place] = ends
    return found


def _plain_bars(
    answered: Answered, scalar: Scalar, plain: tuple[GroupPlan, Derived], level: Fraction
) -> list[Bar | None]:
    """Return the bars of a column that is an aggregate of one cell, for the cells that the rows come from."""
    group, derived = plain
    measured = _measured(answered, group)
    if derived.aggregation in (Aggregation.COUNT, Aggregation.SUM):
        name = plain_name(derived)
        margin = next(one.mechanism for one in group.measured if one.name == name).margin(level)
        ends: list[Bar | None] = [(int(value) - margin, int(value) + margin) for value in measured[name]]
    elif derived.aggregation is Aggregation.AVG:
        ends = _pairs(*_average_ends(group, derived, measured, float(level)))
    else:
        ends = _pairs(*_variance_ends(answered, group, derived, float(level)))
    places = _places(answered, next(iter(columns(scalar)))[0])
    return [None if place is None else ends[int(place)] for place in places]


def _average_ends(
    group: GroupPlan, derived: Derived, measured: Mapping[str, Integers], level: float
) -> tuple[Floats, Floats]:
    laws = {one.name: law_of(one.mechanism) for one in group.measured}
    count, total = derived.count or "", derived.total or ""
    offset, step = float(derived.offset), float(derived.step)
    low, high = ratio_interval(
        measured[total].astype(np.float64),
        measured[count].astype(np.float64),
        (laws[total], laws[count]),
        (derived.low - offset, derived.high - offset),
        level,
    )
    return (low + offset) * step, (high + offset) * step


def _variance_ends(answered: Answered, group: GroupPlan, derived: Derived, level: float) -> tuple[Floats, Floats]:
    noise = noise_of(answered.plan, answered.seed, _draws(level))[group.group.label]
    measured = _measured(answered, group)
    reach = public_range(derived)
    widest = ((reach.high - reach.low) / 2) ** 2 * (2 if derived.aggregation in SAMPLES else 1)
    widest = widest**0.5 if derived.aggregation in DEVIATIONS else widest
    cells = len(next(iter(measured.values())))
    blocks = []
    for start in range(0, max(cells, 1), _BLOCK):  # some megabytes at a time: more would wait for memory
        part = {name: values[start : start + _BLOCK] for name, values in measured.items()}
        blocks.append(middle_part(np.asarray(drawn(derived, part, noise)), level))
    low, high = (np.concatenate(ends) for ends in zip(*blocks, strict=True))
    point = np.array(estimated(group, _group(answered, group))[derived.name], dtype=np.float64)
    # a bar that left out its own estimate would be read wrongly; a longer one covers no less
    low, high = np.minimum(np.clip(low, 0, widest), point), np.maximum(np.clip(high, 0, widest), point)
    return low, high


def _computed_bars(answered: Answered, computed: list[int], level: Fraction) -> dict[int, list[Bar | None]]:
    """Return the bars of columns that are computed from noisy numbers, by computing them from draws."""
    traced = answered.traced
    rows = len(answered.columns[0]) if answered.columns else 0
    if traced is None or not computed or not rows:
        return {}
    draws = max(_RUNS, min(_draws(float(level)), _MOST_VALUES // rows))
    scalars = {place: traced.items[place] for place in computed}
    used = sorted(set().union(*(columns(scalar) for scalar in scalars.values() if scalar is not None)))
    divisors = set().union(*(_divisors(scalar) for scalar in scalars.values() if scalar is not None))
    facts = {(given.label, name): known for given in traced.tables for name, known in given.columns}
    names = {name: column(_FLAT, str(number), facts[name]) for number, name in enumerate(used)}
    noise = noise_of(answered.plan, answered.seed, draws)
    table: dict[str, Values] = {
        str(number): _spread(answered, name, noise, draws, name in divisors) for number, name in enumerate(used)
    }
    number = str(len(used))
    table[number] = np.arange(rows * draws)
    place = Facts(Type.INTEGER, Kind.INTEGER, nullable=False, high=rows * draws)
    given = Given(_FLAT, (*((str(at), facts[name]) for at, name in enumerate(used)), (number, place)), None)
    written = [written_out(scalar, names) for scalar in scalars.values() if scalar is not None]
    items = tuple(Item(str(at), _as_real(scalar)) for at, scalar in enumerate(written) if scalar is not None)
    flow = Show(given, "bars", (*items, Item("row", column(_FLAT, number, place))))
    *found, at = answered.evaluate(flow, {_FLAT: table})
    order = np.empty(rows * draws, dtype=np.int64)
    order[np.array(at, dtype=np.int64)] = np.arange(rows * draws)
    return {
        place: _ends_of_draws(np.array(values, dtype=np.float64)[order].reshape(rows, draws), answered, place, level)
        for place, values in zip(computed, found, strict=True)
    }


def _as_real(scalar: Scalar) -> Scalar:
    """Return a scalar as a double: millions of wide integers would be fetched one by one."""
    if scalar.facts.kind is not Kind.INTEGER:
        return scalar
    return Scalar(Operator.REAL, (scalar,), Facts(Type.DECIMAL, Kind.REAL, scalar.facts.nullable), (1, 1))


def _ends_of_draws(draws: Floats, answered: Answered, place: int, level: Fraction) -> list[Bar | None]:
    low, high = middle_part(draws, float(level))
    whole = answered.plan.private.outcome.items[place].scalar.facts.kind is Kind.INTEGER
    return [
        None if value is None else (_end(least, value, whole, min), _end(most, value, whole, max))
        for value, least, most in zip(answered.columns[place], low.tolist(), high.tolist(), strict=True)
    ]


def _end(end: float, value: Kept, whole: bool, farther: Callable[[float, float], float]) -> Kept:
    """Return an end as its engine keeps it, never on the wrong side of the value itself."""
    if isinf(end) or isnan(end) or isinstance(value, str | None):
        return None
    return farther(round(end), value) if whole else float(farther(end, value))


def _spread(
    answered: Answered, name: tuple[str, str], noise: Mapping[str, Mapping[str, Integers]], draws: int, divides: bool
) -> Values:
    """Return one column of a given table over all rows of the answer and all draws, row by row."""
    places = _places(answered, name[0])
    found = _aggregates(answered.plan).get(name)
    if found is None:
        values = _given_values(answered, name)
        return [value for place in places for value in [None if place is None else values[int(place)]] * draws]
    group, derived = found
    chosen = [int(place) for place in places if place is not None]
    measured = {known: values[chosen] for known, values in _measured(answered, group).items()}
    columns_drawn = drawn(derived, measured, noise[group.group.label])
    if divides and derived.aggregation is Aggregation.COUNT:
        columns_drawn = np.maximum(columns_drawn, 0)  # dividing by a count that cannot be has no value: NULL, not < 0
    flat = columns_drawn.ravel()
    if len(chosen) == len(places):
        return flat  # NaN is NULL
    listed = iter(nulled(flat) if flat.dtype == np.float64 else flat.tolist())
    return [None if place is None else next(listed) for place in places for _ in range(draws)]


def _bars_of_whole_runs(answered: Answered, level: Fraction) -> list[list[Bar | None] | None]:
    """Return the bars of an outcome that aggregates noisy answers, by running all of it on draws of all cells.

    Where the draws do not have the rows of the answer, nobody can say which belongs to which: such bars are unbounded.
    """
    items = answered.plan.private.outcome.items
    spread = [place for place, item in enumerate(items) if item.scalar.facts.type in _SPREAD]
    runs = _runs(answered)
    fixed = [place for place in range(len(items)) if place not in spread]
    rows = len(answered.columns[0]) if answered.columns else 0
    alike = all(len(run[0]) == rows and all(run[place] == answered.columns[place] for place in fixed) for run in runs)
    found: list[list[Bar | None] | None] = [None] * len(items)
    for place in spread:
        if alike:
            draws = np.array([run[place] for run in runs], dtype=np.float64).reshape(len(runs), rows).T
            found[place] = _ends_of_draws(draws, answered, place, level)
        else:
            found[place] = [None if value is None else (None, None) for value in answered.columns[place]]
    return found


def _runs(answered: Answered) -> list[tuple[tuple[Kept, ...], ...]]:
    """Return the columns of the outcome for every draw: all in one statement where draws can be kept apart in it."""
    outcome = answered.plan.private.outcome
    flow = over_draws(outcome, _RUNS)
    tables = _whole_draws(answered)
    if flow is None:
        return [_tuples(answered.evaluate(outcome, table)) for table in tables]
    together: dict[str, dict[str, Values]] = {
        label: {
            **{name: [value for table in tables for value in table[label][name]] for name in point},
            DRAW: np.repeat(np.arange(_RUNS), [len(next(iter(table[label].values()), ())) for table in tables]),
        }
        for label, point in tables[0].items()
    }
    *found, numbers = answered.evaluate(flow, together)
    runs: list[list[list[Kept]]] = [[[] for _ in found] for _ in range(_RUNS)]
    for place, number in enumerate(numbers):
        for kept, values in zip(runs[int(number or 0)], found, strict=True):
            kept.append(values[place])
    return [_tuples(run) for run in runs]


def _whole_draws(answered: Answered) -> list[dict[str, Table]]:
    tables: list[dict[str, Table]] = [{} for _ in range(_RUNS)]
    for group, noisy in zip(answered.plan.groups, answered.noisy.groups, strict=True):
        point = estimated(group, noisy)
        noise = noise_of_cells(group, len(noisy.keys), answered.seed, _RUNS)
        columns_drawn = {derived.name: drawn(derived, _measured(answered, group), noise) for derived in group.derived}
        for run, table in enumerate(tables):
            filled: dict[str, Sequence[Kept]] = dict(point)
            for name, values in columns_drawn.items():
                one = values[:, run]
                filled[name] = nulled(one) if one.dtype == np.float64 else one.tolist()
            table[group.group.label] = filled
    return tables


def _draws(level: float) -> int:
    """Return how many draws a level needs: some fifty beyond each end, as far as that stays quick."""
    return min(max(_DRAWS, ceil(100 / (1 - level))), _MOST_DRAWS)


def _divisors(scalar: Scalar) -> set[tuple[str, str]]:
    """Return the columns that something is divided by."""
    divided = (part.arguments[1] for part in walk(scalar) if part.operator in _DIVISIONS)
    return set().union(*(columns(divisor) for divisor in divided))


def _aggregates(plan: Plan) -> dict[tuple[str, str], tuple[GroupPlan, Derived]]:
    return {(group.group.label, one.name): (group, one) for group in plan.groups for one in group.derived}


def _measured(answered: Answered, group: GroupPlan) -> dict[str, Integers]:
    return {name: integers(values) for name, values in _group(answered, group).columns}


def _group(answered: Answered, group: GroupPlan) -> NoisyGroup:
    return answered.noisy.groups[answered.plan.groups.index(group)]


def _places(answered: Answered, label: str) -> tuple[Kept, ...]:
    tables = answered.traced.tables if answered.traced else ()
    return next(places for given, places in zip(tables, answered.places, strict=True) if given.label == label)


def _given_values(answered: Answered, name: tuple[str, str]) -> Sequence[Kept]:
    """Return a column that has no noise: a key, or a column of a table that the text spells out."""
    tables = answered.traced.tables if answered.traced else ()
    given = next(table for table in tables if table.label == name[0])
    if given.rows is None:
        return estimates(answered.plan, answered.noisy)[name[0]][name[1]]
    place = next(at for at, (known, _) in enumerate(given.columns) if known == name[1])
    return [row[place] for row in given.rows]


def _pairs(low: Floats, high: Floats) -> list[Bar | None]:
    return [
        None if isnan(least) or isnan(most) else (least, most)
        for least, most in zip(low.tolist(), high.tolist(), strict=True)
    ]


def _tuples(found: list[list[Kept]]) -> tuple[tuple[Kept, ...], ...]:
    return tuple(tuple(values) for values in found)
