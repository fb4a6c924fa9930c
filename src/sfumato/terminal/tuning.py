"""Which caps and bounds err least on a workload: tried on the data itself, for its owner's eyes alone.

A copy is built aside in which nothing is cut. Under each draft of caps and bounds the statements of the workload cut
and clip it as the policy's own copy would be, so that the distance to the uncut answers is known, and the noise from
the quote. Nothing is charged, nothing is kept, and the copy is thrown away.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import islice
from math import log1p
from statistics import median
from typing import Any

from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.analyse import analyse
from sfumato.analysis.catalog import Catalog
from sfumato.database import Database
from sfumato.engines.aggregates import Aggregates, GroupAggregates, KeyFrequencies
from sfumato.engines.build_catalog import most_rows
from sfumato.engines.engine import Engine
from sfumato.engines.opening import backend_of, open_engine
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.engines.snapshots import places_of
from sfumato.engines.sql.names import quoted
from sfumato.errors import BadParameter, Refusal, UnsupportedSql
from sfumato.exact import typed_rational
from sfumato.mechanisms.meetings import Meetings
from sfumato.planning.plan import Plan, PlannedSelection
from sfumato.planning.planner import make_plan, parse_price_target
from sfumato.policy.columns import format_value
from sfumato.policy.policy import Column, ColumnType, Location, Policy, RowUnit, Table, UnitColumn, fold_name, position
from sfumato.policy.schemes import source_scheme
from sfumato.policy.table_keys import MAX_ROWS_PER_UNIT
from sfumato.policy_draft.accuracy import SHARE
from sfumato.query.parse import parse
from sfumato.randomness.identity import fresh_id
from sfumato.randomness.source import system_source
from sfumato.release.noisy import NoisyGroup, NoisyResult, NoisyValues
from sfumato.release.receipt import Receipt
from sfumato.release.release import Release, make_release
from sfumato.terminal.trial_runs import MAX_QUESTIONS, trial_run, typical_questions

_DIGITS = (1, 2, 5)
_CAPS = tuple(digit * 10**power for power in range(7) for digit in _DIGITS)
_ENDS = tuple(Fraction(digit) * Fraction(10) ** power for power in range(-6, 16) for digit in _DIGITS)
_SUMMED = (ColumnType.INTEGER, ColumnType.DECIMAL)
_MAX_TOTAL_STEPS = 1 << 62
_DRAW_COUNT = 9
"""Number of answers that are drawn for queries with private selection."""
MAX_RELATIVE_ERROR = 1000
"""Error in multiples of the answer above which errors count as equal."""
_TUNING_ROUNDS = 2
"""Number of rounds in which every bound is tried again while the others stay."""

Steps = tuple[int, int]
TableColumn = tuple[str, str]
"""A table and a column, folded."""
AnswerCells = dict[tuple[object, ...], tuple[Fraction, Fraction]]
"""Every number of an answer with its margin, by keys and column."""


@dataclass(frozen=True, slots=True)
class BoundsDraft:
    """One draft of caps by table, and of bounds and totals of a person by column, in steps."""

    caps: Mapping[str, int]
    bounds: Mapping[TableColumn, Steps]
    totals: Mapping[TableColumn, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TriedQuestion:
    """One question: how far its typical answer may be off, as a share of it, under the policy and under the advice."""

    sql: str
    now: Fraction
    advised: Fraction


@dataclass(frozen=True, slots=True)
class Tuned:
    """Bounds that were tried at this price, and those with the least error."""

    epsilon: Fraction
    questions: tuple[TriedQuestion, ...]
    lines: tuple[str, ...]
    """TOML to paste; empty where the policy's own caps and bounds are best."""


def tune(database: Database, questions: Sequence[str], epsilon: object) -> Tuned:
    """Return the caps and bounds with the least total error over these questions, or over typical ones."""
    database.require_owner("tune a policy")
    policy = database.policy
    scheme = source_scheme(policy.source.scheme)
    if scheme is not None and not scheme.can_tune:
        raise BadParameter(
            "This source cannot be tuned.",
            "Tuning tries many drafts on an unbounded copy, which takes too long on this engine.",
            "Tune an extract of it, as files.",
        )
    with _trial(policy) as trial:
        trial.epsilon = str(policy.budget.epsilon / SHARE) if epsilon is None else epsilon
        if _selects_bounds(policy):
            trial.choosing = lambda sql: trial_run(database, sql, trial.epsilon, _DRAW_COUNT)
        return _tune_bounds(trial, questions)


def _selects_bounds(policy: Policy) -> bool:
    """Whether questions choose caps or bounds privately."""
    return any(table.rows_chosen or any(_is_chosen(column) for column in table.columns) for table in policy.tables)


def _is_chosen(column: Column) -> bool:
    return column.bounds is not None and column.bounds_chosen


def queries_in_ledger(database: Database) -> list[str]:
    """Return the queries of the ledger, each once, without measurements of extensions."""
    database.require_owner("see what others asked")
    queries: dict[str, None] = {}
    for entry in reversed(database.payer.ledger.history()):
        try:
            parse(entry.sql, database.catalog)
        except Refusal:
            continue
        queries[entry.sql] = None
    return list(queries)


@dataclass(slots=True)
class _Trial:
    """The uncut copy, and what was computed on it."""

    policy: Policy
    engine: Engine
    epsilon: object = None
    choosing: Callable[[str], list[Release]] | None = None
    """Draws answers under the policy itself, where questions choose privately; they do not leave."""
    kept: dict[object, AnswerCells | None] = field(default_factory=dict)

    @property
    def cap(self) -> PrivacyLoss:
        return PrivacyLoss(self.policy.budget.epsilon, self.policy.budget.delta)

    def catalog(self, draft: BoundsDraft) -> Catalog:
        """Return the catalog in which statements cut and clip as this draft says."""
        tables = dict(self.engine.catalog.tables)
        for name, rows in draft.caps.items():
            table = tables[name]
            fields = []
            for one in table.fields:
                steps = draft.bounds.get((name, one.name))
                facts = one.facts
                if steps is not None:
                    low, high = steps
                    facts = replace(facts, low=low, high=high, declared_low=True, declared_high=True)
                fields.append(replace(one, facts=facts, bounds_chosen=False, total=draft.totals.get((name, one.name))))
            tables[name] = replace(table, fields=tuple(fields), rows_per_unit=rows, rows_chosen=False)
        return replace(self.engine.catalog, tables=tables)

    def answers(self, sql: str, draft: BoundsDraft) -> Release:
        """Return the answer without noise, but with its error bars. It does not leave."""
        catalog = self.catalog(draft)
        query = parse(sql, catalog)
        with self.engine.public.one_question():
            private = analyse(query, catalog, self.engine.public)
        plan = make_plan(
            private, parse_price_target(self.epsilon, None, None, query.options, self.policy.budget, self.cap)
        )
        exact = self.engine.run(self.engine.prepare(plan))
        receipt = Receipt("trial", "", self.engine.version, plan.loss, None, None, 0)
        return make_release(plan, _noiseless_result(plan, exact), receipt, evaluate)


def _noiseless_result(plan: Plan, exact: Aggregates) -> NoisyResult:
    groups = []
    for group, aggregates in zip(plan.groups, exact.groups, strict=True):
        columns: list[tuple[str, NoisyValues]] = [
            (name, tuple(int(value) for value in values)) for name, values in aggregates.columns.items()
        ]
        columns += [(chosen.name, _expected_values(chosen, aggregates)) for chosen in group.chosen]
        groups.append(NoisyGroup(aggregates.keys, tuple(columns)))
    return NoisyResult(tuple(groups), 0)


def _expected_values(chosen: PlannedSelection, exact: GroupAggregates) -> NoisyValues:
    """Return the expected cross-unit counts; a choice among buckets has no such number."""
    held = exact.held[chosen.name]
    if not isinstance(chosen.mechanism, Meetings) or not isinstance(held, KeyFrequencies):
        raise UnsupportedSql(
            "Bounds are not tuned for quantiles, extremes and modes.",
            "Their error is known only with the answer.",
            "Tune by counts, sums and averages, and leave this question out.",
        )
    return chosen.mechanism.expected([held.for_cell(place) for place in range(len(exact.keys))])


@contextmanager
def _trial(policy: Policy) -> Iterator[_Trial]:
    """Build the uncut copy in a folder aside, which a dead process leaves for the next build to remove."""
    folder = places_of(policy).sidecar(f"build-{fresh_id(system_source())}")
    folder.mkdir(mode=0o700)
    loose = replace(
        policy,
        ledger=Location("sqlite", str(folder / "trial"), folder / "trial"),
        tables=tuple(_without_bounds(table) for table in policy.tables),
    )
    try:
        with open_engine(loose, lambda _phase, _table: None) as pending:
            engine = pending.commit("")
        try:
            yield _Trial(policy, engine)
        finally:
            engine.close()
    finally:
        backend_of(loose).forget(loose)
        shutil.rmtree(folder, ignore_errors=True)


def _without_bounds(table: Table) -> Table:
    if not _has_cap(table):
        return table
    columns = tuple(
        replace(column, bounds=None, total_per_unit=None) if _is_tuned(table, column) else column
        for column in table.columns
    )
    return replace(table, rows_per_unit=MAX_ROWS_PER_UNIT, rows_chosen=True, columns=columns)


def _has_cap(table: Table) -> bool:
    own = table.column(table.unit.column) if isinstance(table.unit, UnitColumn) else None
    return not (table.public or isinstance(table.unit, RowUnit) or (own is not None and own.unique))


def _is_tuned(table: Table, column: Column) -> bool:
    own = table.unit == UnitColumn(column.name)
    return not own and column.type in _SUMMED and column.bounds is not None and column.values is None


def _tune_bounds(trial: _Trial, queries: Sequence[str]) -> Tuned:
    policy = trial.policy
    tables = {fold_name(table.name): table for table in policy.tables if _has_cap(table)}
    columns = {
        (name, fold_name(column.name)): column
        for name, table in tables.items()
        for column in table.columns
        if _is_tuned(table, column)
    }
    now = BoundsDraft(
        {name: most_rows(table) for name, table in tables.items()},
        {place: _declared_steps(column) for place, column in columns.items()},
        {
            place: column.steps(column.total_per_unit)
            for place, column in columns.items()
            if column.total_per_unit is not None
        },
    )
    caps = {name: _tried_caps(trial, name, now) for name in tables}
    whole = replace(now, caps={name: cap[-1] for name, cap in caps.items()}, totals={})
    ends = {place: _tried_ends(trial, place, column, whole) for place, column in columns.items()}
    truth = replace(whole, bounds={place: (lows[0], highs[-1]) for place, (lows, highs) in ends.items()})
    questions = _find_answerable(trial, queries, (now, truth))
    best = now
    for _ in range(_TUNING_ROUNDS):
        for name, tried in caps.items():
            drafts = [replace(best, caps={**best.caps, name: cap}) for cap in sorted({*tried, now.caps[name]})]
            best = min(drafts, key=lambda draft: _total_error(trial, questions, draft, truth))
        for place, (lows, highs) in ends.items():
            low, high = best.bounds[place]
            fits = best.totals.get(place, _MAX_TOTAL_STEPS)
            drafts = [best]
            drafts += [
                replace(best, bounds={**best.bounds, place: (low, candidate)})
                for candidate in highs
                if low < candidate <= fits
            ]
            best = min(drafts, key=lambda draft: _total_error(trial, questions, draft, truth))
            low, high = best.bounds[place]
            signs = _MAX_TOTAL_STEPS if place not in best.totals else 0
            drafts = [best]
            drafts += [
                replace(best, bounds={**best.bounds, place: (candidate, high)})
                for candidate in lows
                if -signs <= candidate < high
            ]
            best = min(drafts, key=lambda draft: _total_error(trial, questions, draft, truth))
        for place, column in columns.items():
            drafts = [best, *_with_totals(best, place, column)]
            best = min(drafts, key=lambda draft: _total_error(trial, questions, draft, truth))
    errors = [_error_now(trial, sql, now, truth) for sql in questions]
    advised = [_query_error(trial, sql, best, truth) or Fraction(0) for sql in questions]
    lines = tuple(_changed_lines(policy, now, best))
    if trial.choosing is not None and _combined_error(errors) <= _combined_error(
        advised
    ):  # what questions choose is better than any draft
        advised, lines = errors, ()
    compared = tuple(TriedQuestion(*fields) for fields in zip(questions, errors, advised, strict=True))
    return Tuned(typed_rational(trial.epsilon, "epsilon"), compared, lines)


def _error_now(trial: _Trial, sql: str, now: BoundsDraft, truth: BoundsDraft) -> Fraction:
    """Return the share by which a typical cell may be off under the policy, whose questions may choose privately.

    Then it is drawn: what is cut is how far the middle of some answers is from the truth.
    """
    if trial.choosing is None:
        return _query_error(trial, sql, now, truth) or Fraction(0)
    draws = [dict(_release_numbers(release)) for release in trial.choosing(sql)]
    shares = []
    for key, (true, _) in (_answer_cells(trial, sql, truth) or {}).items():
        errors = [draw[key] for draw in draws if key in draw] or [(Fraction(0), Fraction(0))]
        value, margin = (Fraction(median(part)) for part in zip(*errors, strict=True))
        shares.append((abs(value - true) + margin) / max(abs(true), Fraction(1, 10**6)))
    return Fraction(median(shares)) if shares else Fraction(0)


def _with_totals(best: BoundsDraft, place: TableColumn, column: Column) -> Iterator[BoundsDraft]:
    """Give drafts with other totals of a person, and with none: round ones from one value to all that rows admit."""
    low, high = best.bounds[place]
    others = {other: total for other, total in best.totals.items() if other != place}
    yield replace(best, totals=others)
    step, reach = column.step or Fraction(1), best.caps[place[0]] * high
    for end in _ENDS:
        total = end / step
        if low >= 0 and high <= total < reach and total.denominator == 1:
            yield replace(best, totals={**others, place: int(total)})


def _declared_steps(column: Column) -> Steps:
    grid = column.grid
    if grid is None:
        raise AssertionError("it has bounds")
    return grid.least, grid.greatest


def _tried_caps(trial: _Trial, table: str, now: BoundsDraft) -> list[int]:
    """Return the caps to try: round ones, up to the first that removes no rows."""
    caps, before = [], -1
    for cap in _CAPS:
        sql = f"SELECT COUNT(*) AS x FROM {quoted(table)}"  # noqa: S608
        [row] = trial.answers(sql, _with_cap(now, table, cap)).rows()
        if row["x"] == before:
            break
        caps.append(cap)
        before = row["x"]
    return caps


def _with_cap(draft: BoundsDraft, table: str, cap: int) -> BoundsDraft:
    return BoundsDraft({**draft.caps, table: cap}, {})


def _tried_ends(trial: _Trial, place: TableColumn, column: Column, whole: BoundsDraft) -> tuple[list[int], list[int]]:
    """Return the lower and the upper ends to try, in steps: round ones, the declared ones, and the widest."""
    table, name = place
    step = column.step or Fraction(1)
    low, high = _declared_steps(column)
    rounds = [int(end / step) for end in _ENDS if (end / step).denominator == 1 and end / step < _MAX_TOTAL_STEPS]
    value = quoted(name)
    counts = [f"COUNT({value}) AS x"]
    counts += [f"COUNT({value}) FILTER (WHERE {value} > {format_value(bound * step)}) AS a{bound}" for bound in rounds]
    counts += [f"COUNT({value}) FILTER (WHERE {value} < -{format_value(bound * step)}) AS b{bound}" for bound in rounds]
    counts += [f"COUNT({value}) FILTER (WHERE {value} < 0) AS n"]
    sql = f"SELECT {', '.join(counts)} FROM {quoted(table)}"  # noqa: S608
    [found] = trial.answers(sql, BoundsDraft(whole.caps, {})).rows()
    above = [
        bound for bound in rounds if found[f"a{bound}"] <= found["x"] / 2
    ]  # at least half of the values are not cut
    widest = next((bound for bound in above if not found[f"a{bound}"]), high)
    highs = sorted({one for one in above if one <= widest} | {high, widest})
    below = [-bound for bound in rounds if found[f"b{bound}"] <= found["x"] / 2]
    lowest = next((-bound for bound in rounds if not found[f"b{bound}"]), low) if found["n"] else min(0, low)
    lows = sorted({one for one in below if one >= lowest and found["n"]} | {low, lowest})
    return lows, highs


def _find_answerable(trial: _Trial, queries: Sequence[str], drafts: Sequence[BoundsDraft]) -> list[str]:
    """Return the questions that can be tried; one that was asked for and cannot is refused."""
    answerable = []
    for sql in dict.fromkeys(queries) or islice(typical_questions(trial.policy), 4 * MAX_QUESTIONS):
        try:
            for draft in drafts:
                trial.answers(sql, draft)
        except Refusal:
            if queries:
                raise
            continue  # what cannot be asked is no example
        answerable.append(sql)
        if not queries and len(answerable) == MAX_QUESTIONS:
            break
    return answerable


def _total_error(trial: _Trial, questions: Sequence[str], draft: BoundsDraft, truth: BoundsDraft) -> float:
    """Return how far typical cells may be off over all questions, cut and noise together."""
    errors = (_query_error(trial, sql, draft, truth) for sql in questions)
    return _combined_error(Fraction(MAX_RELATIVE_ERROR) if error is None else error for error in errors)


def _combined_error(errors: Iterable[Fraction]) -> float:
    """Return the sum over questions, in which one whose answer nothing can save does not outweigh all others."""
    return sum(log1p(float(min(error, Fraction(MAX_RELATIVE_ERROR)))) for error in errors)


def _query_error(trial: _Trial, sql: str, draft: BoundsDraft, truth: BoundsDraft) -> Fraction | None:
    values, real = _answer_cells(trial, sql, draft), _answer_cells(trial, sql, truth)
    if values is None or real is None:
        return None
    shares = []
    for key, (true, _) in real.items():
        value, margin = values.get(key, (Fraction(0), Fraction(0)))
        shares.append((abs(value - true) + margin) / max(abs(true), Fraction(1, 10**6)))
    return Fraction(median(shares)) if shares else Fraction(0)


def _answer_cells(trial: _Trial, sql: str, draft: BoundsDraft) -> AnswerCells | None:
    """Return every number of an answer by its keys and column, with its margin; None where it cannot be asked."""
    known = (sql, *(tuple(sorted(parts.items())) for parts in (draft.caps, draft.bounds, draft.totals)))
    if known not in trial.kept:
        try:
            trial.kept[known] = dict(_release_numbers(trial.answers(sql, draft)))
        except Refusal:
            trial.kept[known] = None
    return trial.kept[known]


def _release_numbers(release: Release) -> Iterator[tuple[tuple[object, ...], tuple[Fraction, Fraction]]]:
    for row, ends in zip(release.rows(), release.intervals(), strict=True):
        keys = tuple((name, value) for name, value in row.items() if not _is_bar(ends[name]))
        for name, value in row.items():
            bar = ends[name]
            if _is_bar(bar) and isinstance(value, int | float):
                yield (*keys, name), (Fraction(value), Fraction(bar[1] - bar[0]) / 2)


def _is_bar(ends: Any) -> bool:
    return isinstance(ends, tuple) and len(ends) == 2 and None not in ends


def _changed_lines(policy: Policy, now: BoundsDraft, best: BoundsDraft) -> Iterator[str]:
    """Give the lines that differ, as they are pasted into the policy."""
    for table in policy.tables:
        name = fold_name(table.name)
        if best.caps.get(name) != now.caps.get(name):
            yield f"[tables.{_toml_key(table.name)}]"
            before = "chosen, at most " if table.rows_chosen else ""
            yield f"rows_per_unit = {best.caps[name]}  # now {before}{now.caps[name]}"
        places = {(name, fold_name(column.name)): column for column in table.columns}
        changed = {
            place: column
            for place, column in places.items()
            if (best.bounds.get(place), best.totals.get(place)) != (now.bounds.get(place), now.totals.get(place))
        }
        if changed:
            yield f"[tables.{_toml_key(table.name)}.columns]"
        for place, column in changed.items():
            parts = _policy_parts(column, *best.bounds[place], best.totals.get(place))
            yield f"{_toml_key(column.name)} = {{ {', '.join(parts)} }}{_current_text(column)}"


def _policy_parts(column: Column, low: int, high: int, total: int | None) -> Iterator[str]:
    step = column.step or Fraction(1)
    yield f'type = "{column.type}"'
    yield f"bounds = [{format_value(low * step)}, {format_value(high * step)}]"
    if column.type is ColumnType.DECIMAL:
        yield f"step = {format_value(step)}"
    if total is not None:
        yield f"total_per_unit = {format_value(total * step)}"
    if column.unique:
        yield "unique = true"


def _current_text(column: Column) -> str:
    if column.bounds is None:
        return ""
    low, high = (Fraction(position(end)) for end in (column.bounds.low, column.bounds.high))
    total = "" if column.total_per_unit is None else f", of a person at most {format_value(column.total_per_unit)}"
    return f"  # now {'chosen within ' if _is_chosen(column) else ''}[{format_value(low)}, {format_value(high)}]{total}"


def _toml_key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "a").replace("-", "a").isalnum()
    return name if bare else f'"{name}"'
