"""Copies aside on which drafts of caps and bounds are tried, without noise; they do not leave, and are thrown away."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.analyse import analyse
from sfumato.analysis.catalog import Catalog
from sfumato.database import Database
from sfumato.engines.aggregates import Aggregates, GroupAggregates, KeyFrequencies
from sfumato.engines.engine import Engine
from sfumato.engines.opening import backend_of, open_engine
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.engines.snapshot_paths import places_of
from sfumato.errors import UnsupportedSql
from sfumato.mechanisms.meetings import Meetings
from sfumato.opening import open_policy
from sfumato.planning.plan import Plan, PlannedSelection
from sfumato.planning.planner import make_plan, parse_price_target
from sfumato.policy.policy import Column, ColumnType, Location, Policy, RowUnit, Table, UnitColumn, fold_name
from sfumato.policy.table_keys import MAX_ROWS_PER_UNIT
from sfumato.query.parse import parse
from sfumato.randomness.identity import fresh_id
from sfumato.randomness.source import system_source
from sfumato.release.noisy import NoisyGroup, NoisyResult, NoisyValues
from sfumato.release.receipt import Receipt
from sfumato.release.release import Release, make_release
from sfumato.release.stages import with_any_value
from sfumato.terminal.tuning_lines import BoundsDraft, Steps

_SUMMABLE_TYPES = (ColumnType.INTEGER, ColumnType.DECIMAL)
AnswerCells = dict[tuple[object, ...], tuple[Fraction, Fraction]]
"""Every number of an answer with its margin, by keys and column."""
Say = Callable[[str], None]


@dataclass(slots=True)
class Trial:
    """The uncut copy, and what was computed on it."""

    policy: Policy
    engine: Engine
    epsilon: object = None
    choosing: Callable[[str], list[Release]] | None = None
    """Draws answers under the policy itself, where questions choose privately; they do not leave."""
    kept: dict[object, AnswerCells | None] = field(default_factory=dict)
    say: Say = lambda words: None

    @property
    def cap(self) -> PrivacyLoss:
        return PrivacyLoss(self.policy.budget.epsilon, self.policy.budget.delta)

    def catalog(self, draft: BoundsDraft) -> Catalog:
        """Return the catalog in which statements cut and clip as this draft says."""
        tables = dict(self.engine.catalog.tables)
        for name, rows in draft.caps.items():
            table = tables[name]
            fields = []
            for declared in table.fields:
                steps = draft.bounds.get((name, declared.name))
                facts = declared.facts
                if steps is not None:
                    low, high = steps
                    facts = replace(facts, low=low, high=high, declared_low=True, declared_high=True)
                fields.append(
                    replace(declared, facts=facts, bounds_chosen=False, total=draft.totals.get((name, declared.name)))
                )
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
        exact = self.engine.run(self.engine.prepare(with_any_value(plan)))
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
    return chosen.mechanism.expected([held.for_cell(index) for index in range(len(exact.keys))])


@contextmanager
def open_trial(policy: Policy) -> Iterator[Trial]:
    """Build the uncut copy in a folder aside."""
    with _folder_aside(policy) as folder:
        loose = replace(
            policy,
            ledger=Location("sqlite", str(folder / "trial"), folder / "trial"),
            tables=tuple(_without_bounds(table) for table in policy.tables),
        )
        try:
            with open_engine(loose, lambda _phase, _table: None) as pending:
                engine = pending.commit("")
            try:
                yield Trial(policy, engine)
            finally:
                engine.close()
        finally:
            backend_of(loose).forget(loose)


@contextmanager
def _folder_aside(policy: Policy) -> Iterator[Path]:
    """Give a folder that is removed in the end; a dead process leaves it for the next build to remove."""
    folder = places_of(policy).sidecar(f"build-{fresh_id(system_source())}")
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _without_bounds(table: Table) -> Table:
    if not has_cap(table):
        return table
    columns = tuple(
        replace(column, bounds=None, total_per_unit=None) if is_tuned(table, column) else column
        for column in table.columns
    )
    return replace(table, rows_per_unit=MAX_ROWS_PER_UNIT, rows_chosen=True, columns=columns)


def has_cap(table: Table) -> bool:
    """Tell whether a table bounds the rows of a person."""
    if table.has_two_owners:  # each question selects how much of a person counts
        return False
    own = table.column(table.unit.column) if isinstance(table.unit, UnitColumn) else None
    return not (table.public or isinstance(table.unit, RowUnit) or (own is not None and own.unique))


def is_tuned(table: Table, column: Column) -> bool:
    """Tell whether the bounds of a column are tried."""
    own = table.names_people(column.name)
    return not own and column.type in _SUMMABLE_TYPES and column.bounds is not None and column.values is None


@contextmanager
def open_choosing(policy: Policy, widest: BoundsDraft) -> Iterator[Database]:
    """Open a copy aside under which each question chooses below these caps and within these bounds."""

    def chosen(table: Table) -> Table:
        name = fold_name(table.name)
        if name not in widest.caps:
            return table
        columns = tuple(
            _chosen_column(column, widest.bounds.get((name, fold_name(column.name)))) for column in table.columns
        )
        return replace(table, rows_per_unit=widest.caps[name], rows_chosen=True, columns=columns)

    with _folder_aside(policy) as folder:
        ledger = Location("sqlite", str(folder / "trial"), folder / "trial")
        budget = replace(policy.budget, truncation=None)
        loose = replace(policy, ledger=ledger, budget=budget, tables=tuple(map(chosen, policy.tables)))
        try:
            with open_policy(loose) as database:
                yield database
        finally:
            backend_of(loose).forget(loose)


def _chosen_column(column: Column, steps: Steps | None) -> Column:
    if steps is None or column.bounds is None:
        return column
    step = column.step or Fraction(1)
    low, high = (end * step if column.type is ColumnType.DECIMAL else end for end in steps)
    return replace(column, bounds=replace(column.bounds, low=low, high=high), bounds_chosen=True, total_per_unit=None)
