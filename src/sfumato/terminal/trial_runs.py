"""Which typical questions will be useful, and at what price: tried on the data, for its owner's eyes alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import chain, islice, zip_longest
from statistics import median

from sfumato.accounting.loss import round_up
from sfumato.database import Database
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.engines.sql.names import quoted
from sfumato.errors import Refusal
from sfumato.policy.policy import Column, ColumnType, Policy, Table, UnitColumn, UnitPath, fold_name
from sfumato.prepare import RequestedPrice
from sfumato.release.key_rounds import add_later_rounds
from sfumato.release.publish import publish
from sfumato.release.receipt import Receipt
from sfumato.release.release import Release, make_release
from sfumato.release.rendering.escaping import escape_unprintable
from sfumato.release.stages import read_and_publish

MAX_QUESTIONS = 12
MAX_USEFUL_RATIO = Fraction(1, 10)
"""An answer whose error bar is at most a tenth of its value."""
MAX_ROUGH_RATIO = Fraction(1, 2)
_SUMMABLE_TYPES = (ColumnType.INTEGER, ColumnType.DECIMAL)
_TIMES = (ColumnType.DATE, ColumnType.TIMESTAMP)
_MAX_KEYS = 100
_TRIALS_PER_QUERY = 5
"""Number of noise draws per query, so that no single draw decides."""
_ZERO_ANSWER_RATIO = Fraction(10**6)
"""The share of an answer that is zero."""


@dataclass(frozen=True, slots=True)
class TrialResult:
    """One question: how wide its error bar is beside its value, and the price at which it would be a tenth."""

    sql: str
    share: Fraction | None
    """The error bar as a share of the value, in the middle one of the cells; None where there is nothing to show."""
    price: Fraction | None

    def words(self, budget: Fraction) -> tuple[str, str, str]:
        """Return how exact it is, whether that is useful, and the price of a tenth."""
        if self.share is None or self.price is None:
            return "–", "no: too few people for any answer", "–"
        shown = f"± {float(self.share):.1%}" if self.share < 10 else "over 1000%"
        judged = "yes" if self.share <= MAX_USEFUL_RATIO else "roughly" if self.share <= MAX_ROUGH_RATIO else "no"
        price = f"ε = {round_up(self.price, 3)}" if self.price <= budget else "beyond the budget"
        return shown, judged, price


def trial_run(database: Database, sql: str, epsilon: object, times: int) -> list[Release]:
    """Return answers that are not charged and must not leave: the owner, who may read the data, sees how wide they are.

    `sfumato check` judges typical questions by them. No way in for analysts calls it, and their handles are refused.
    """
    database.require_owner("rehearse an answer")
    prepared = database.prepare(sql, None, RequestedPrice(epsilon))
    if prepared.plan.event is None:
        return [database.ask(sql, epsilon=epsilon)]  # free
    aggregates, source = prepared.engine.run(prepared.job), database.payer.source
    receipt = Receipt(
        "rehearsal", database.payer.policy, prepared.engine.version, prepared.plan.loss, units=prepared.units
    )
    run = partial(read_and_publish, prepared.engine, source)
    once = [publish(prepared.plan, aggregates, source) for _ in range(times)]
    noisy = [add_later_rounds(prepared.plan, noisy, run) for noisy in once]
    return [make_release(prepared.plan, result, receipt, evaluate) for result in noisy]


def try_typical_questions(database: Database, epsilon: Fraction) -> list[TrialResult]:
    """Try typical questions at this price. Nothing is charged, and nothing of the answers is kept."""
    results = []
    for sql in islice(typical_questions(database.policy), 4 * MAX_QUESTIONS):
        try:
            results.append(_judge(sql, trial_run(database, sql, str(epsilon), _TRIALS_PER_QUERY), epsilon))
        except Refusal:  # a refused question is no example
            continue
        if len(results) == MAX_QUESTIONS:
            break
    return results


def _judge(sql: str, releases: list[Release], epsilon: Fraction) -> TrialResult:
    """Return the share in the middle: over the cells of an answer, and over the noise of several."""
    shares = [median(ratios) for release in releases if (ratios := _shares(release))]
    if not shares:
        return TrialResult(sql, None, None)
    share = Fraction(median(shares))
    return TrialResult(sql, share, epsilon * share / MAX_USEFUL_RATIO)


def _shares(release: Release) -> list[Fraction]:
    ratios = []
    for row, ends in zip(release.rows(), release.intervals(), strict=True):
        value, interval = row["x"], ends["x"]
        if isinstance(value, int | float) and interval is not None and None not in interval:
            low, high = interval
            ratios.append(Fraction(high - low) / 2 / Fraction(abs(value)) if value else _ZERO_ANSWER_RATIO)
    return ratios


def typical_questions(policy: Policy) -> Iterator[str]:
    """Give questions that people ask, of each private table in turn: counts, averages, groups, sums, months, joins."""
    private = [table for table in policy.tables if not table.public]
    joins = [join for candidate in private for other in private if (join := _join_count(candidate, other))]
    turns = zip_longest(*(_of_table(table) for table in private), joins)
    return (sql for sql in chain.from_iterable(turns) if sql is not None)


def _of_table(table: Table) -> Iterator[str]:
    columns = [column for column in table.columns if not table.names_people(column.name)]
    keys = [quoted(column.name) for column in columns if _is_key(column)][:3]
    summed = sorted((column for column in columns if _is_summed(column)), key=_is_key)  # first those that are no keys
    numbers = [quoted(column.name) for column in summed][:3]
    dates = [quoted(column.name) for column in columns if column.bounds and column.type in _TIMES][:1]
    several = isinstance(table.unit, UnitColumn) and (table.rows_per_unit or 1) > 1
    source = quoted(table.name)
    yield _select("COUNT(*)", source)
    if table.has_two_owners:  # totals, and nothing else
        yield from (_select(f"SUM({number})", source) for number in numbers[:1])
        yield from (_select("COUNT(*)", source, key) for key in keys[:1])
        return
    yield from (_select(f"AVG({number})", source) for number in numbers[:1])
    yield from (_select("COUNT(*)", source, key) for key in keys[:1])
    yield from (_select(f"SUM({number})", source) for number in numbers[:1])
    yield from (_select(f"AVG({number})", source, key) for key in keys[:1] for number in numbers[:1] if key != number)
    yield from (_select("COUNT(*)", source, f"date_trunc('month', {day})") for day in dates)
    if several and isinstance(table.unit, UnitColumn):
        yield _select(f"COUNT(DISTINCT {quoted(table.unit.column)})", source)
    for column in summed[:1]:
        yield f"{_select('COUNT(*)', source)} WHERE {quoted(column.name)} > {_middle(column)}"
    yield from (_select(f"AVG({number})", source) for number in numbers[1:])
    yield from (_select("COUNT(*)", source, key) for key in keys[1:])
    yield from (_select(f"SUM({number})", source) for number in numbers[1:])


def _select(number: str, source: str, key: str = "") -> str:
    if key:
        return f"SELECT {key} AS k, {number} AS x FROM {source} GROUP BY {key}"  # noqa: S608  (asked, not run)
    return f"SELECT {number} AS x FROM {source}"  # noqa: S608


def _middle(column: Column) -> int:
    """Return a whole number in the middle of the bounds."""
    grid = column.grid
    return 0 if grid is None else int((grid.low + grid.high) / 2)


def _is_summed(column: Column) -> bool:
    return column.bounds is not None and column.type in _SUMMABLE_TYPES and not column.unique


def _is_key(column: Column) -> bool:
    if column.values is not None or column.type is ColumnType.BOOLEAN:
        return True
    grid = column.grid
    return grid is not None and column.type is ColumnType.INTEGER and grid.greatest - grid.least < _MAX_KEYS


def _join_count(first: Table, second: Table) -> str | None:
    """Return the count over two tables of the same people: by the path of one, or by the names that both have."""
    match second.unit:
        case UnitPath(target, _, here, there) if fold_name(target) == fold_name(first.name):
            return _join(first, there, second, here)
        case UnitColumn(column) if isinstance(first.unit, UnitColumn) and (first.rows_per_unit or 1) == 1:
            return None if first.name == second.name else _join(first, first.unit.column, second, column)
    return None


def _join(first: Table, there: str, second: Table, here: str) -> str:
    left, right = quoted(first.name), quoted(second.name)
    return _select("COUNT(*)", f"{left} JOIN {right} ON {left}.{quoted(there)} = {right}.{quoted(here)}")


def shorten_sql(sql: str) -> str:
    """Return a question as people would write it."""
    return escape_unprintable(sql.replace('"', "").replace(" AS x", "").replace(" AS k", "").removeprefix("SELECT "))
