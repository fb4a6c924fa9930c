"""Which caps and bounds err least on a workload: tried on the data itself, for its owner's eyes alone.

A copy is built aside in which nothing is cut. Under each draft of caps and bounds the statements of the workload cut
and clip it as the policy's own copy would be, so that the distance to the uncut answers is known, and the noise from
the quote. Nothing is charged, nothing is kept, and the copy is thrown away.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from math import inf, log1p
from statistics import median
from typing import Any

from sfumato.database import Database
from sfumato.engines.build_catalog import most_rows
from sfumato.engines.sql.names import quoted
from sfumato.errors import BadParameter, Refusal
from sfumato.exact import typed_rational
from sfumato.policy.columns import format_value
from sfumato.policy.policy import Column, ColumnType, Policy, fold_name
from sfumato.policy.schemes import source_scheme
from sfumato.policy_draft.accuracy import SHARE
from sfumato.query.parse import parse
from sfumato.release.release import Release
from sfumato.terminal.trial_runs import MAX_QUESTIONS, trial_run, typical_questions
from sfumato.terminal.tuning_lines import BoundsDraft, Steps, TableColumn, changed_lines, chosen_lines
from sfumato.terminal.tuning_trial import AnswerCells, Say, Trial, has_cap, is_tuned, open_choosing, open_trial

_DIGITS = (1, 2, 5)
_CAPS = tuple(digit * 10**power for power in range(7) for digit in _DIGITS)
_ENDS = tuple(Fraction(digit) * Fraction(10) ** power for power in range(-6, 16) for digit in _DIGITS)
_SUMMABLE_TYPES = (ColumnType.INTEGER, ColumnType.DECIMAL)
_MAX_TOTAL_STEPS = 1 << 62
_DRAW_COUNT = 9
"""Number of answers that are drawn for queries with private selection."""
MAX_RELATIVE_ERROR = 1000
"""Error in multiples of the answer above which errors count as equal."""
_MAX_CLIPPED_SHARE = 0.1
"""Share of the values that a bound may clip on its side to be tried."""
_TUNING_ROUNDS = 2
"""Number of rounds in which every bound is tried again while the others stay."""


@dataclass(frozen=True, slots=True)
class TriedQuestion:
    """One question: how far its typical answer may be off, as a share of it, under the policy and under the advice."""

    sql: str
    now: Fraction
    advised: Fraction
    chosen: Fraction | None = None
    """The same, where each question chooses its caps and bounds; None where that could not be rehearsed."""

    @property
    def worse(self) -> bool:
        """Whether the advice makes this answer worse."""
        return self.advised > self.now


@dataclass(frozen=True, slots=True)
class SkippedQuestion:
    """A question that cannot be rehearsed, and why."""

    sql: str
    why: str


@dataclass(frozen=True, slots=True)
class Tuned:
    """Bounds that were tried at this price, and those with the least error."""

    epsilon: Fraction
    questions: tuple[TriedQuestion, ...]
    lines: tuple[str, ...]
    """TOML to paste; empty where the policy's own caps and bounds are best."""
    skipped: tuple[SkippedQuestion, ...] = ()
    choosing: tuple[str, ...] = ()
    """TOML to paste so that each question chooses; empty where that is no better for every question."""


def tune(database: Database, questions: Sequence[str], epsilon: object, say: Say = lambda words: None) -> Tuned:
    """Return the caps and bounds with the least total error over these questions, or over typical ones.

    The advice makes no question worse; where there is none of this kind, it tells which ones it makes worse. `say` is
    told what is being tried.
    """
    database.require_owner("tune a policy")
    policy = database.policy
    scheme = source_scheme(policy.source.scheme)
    if scheme is not None and not scheme.can_tune:
        raise BadParameter(
            "This source cannot be tuned.",
            "Tuning tries many drafts on an unbounded copy, which takes too long on this engine.",
            "Tune an extract of it, as files.",
        )
    price = str(policy.budget.epsilon / SHARE) if epsilon is None else epsilon
    say("building a copy in which nothing is cut")
    with open_trial(policy) as trial:
        trial.epsilon, trial.say = price, say
        if _selects_bounds(policy):
            trial.choosing = lambda sql: trial_run(database, sql, price, _DRAW_COUNT)
        tuned, widest = _tune_bounds(trial, questions)
        return tuned if trial.choosing is not None else _compare_with_choosing(trial, tuned, widest)


def _compare_with_choosing(trial: Trial, tuned: Tuned, widest: BoundsDraft) -> Tuned:
    """Return the advice beside what questions would choose below the widest caps and bounds, if they may."""
    trial.say("rehearsing questions that choose their own caps and bounds")
    lines = tuple(chosen_lines(trial.policy, widest))
    if not lines:
        return tuned
    try:
        with open_choosing(trial.policy, widest) as database:
            trial.choosing = lambda sql: trial_run(database, sql, trial.epsilon, _DRAW_COUNT)
            questions = tuple(_with_choice(trial, question, widest) for question in tuned.questions)
    except Refusal as refusal:
        return replace(tuned, skipped=(*tuned.skipped, SkippedQuestion("bounds chosen by each question", refusal.why)))
    tried = [question for question in questions if question.chosen is not None]
    better = (
        len(tried) == len(questions)
        and all(question.chosen is not None and question.chosen <= question.now for question in tried)
        and _combined_error([question.chosen or Fraction(0) for question in tried])
        < _combined_error([question.advised for question in tried])
    )
    return replace(tuned, questions=questions, choosing=lines if better else ())


def _with_choice(trial: Trial, question: TriedQuestion, truth: BoundsDraft) -> TriedQuestion:
    try:
        return replace(question, chosen=_error_now(trial, question.sql, truth, truth))
    except Refusal:
        return question


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


def _tune_bounds(trial: Trial, queries: Sequence[str]) -> tuple[Tuned, BoundsDraft]:
    """Return the advice, and the draft in which nothing is cut."""
    policy = trial.policy
    tables = {fold_name(table.name): table for table in policy.tables if has_cap(table)}
    columns = {
        (name, fold_name(column.name)): column
        for name, table in tables.items()
        for column in table.columns
        if is_tuned(table, column)
    }
    now = BoundsDraft(
        {name: most_rows(table) for name, table in tables.items()},
        {key: _declared_steps(column) for key, column in columns.items()},
        {
            key: column.steps(column.total_per_unit)
            for key, column in columns.items()
            if column.total_per_unit is not None
        },
    )
    caps = {name: _tried_caps(trial, name, now) for name in tables}
    whole = replace(now, caps={name: cap[-1] for name, cap in caps.items()}, totals={})
    ends = {key: _tried_ends(trial, key, column, whole) for key, column in columns.items()}
    truth = replace(whole, bounds={key: (lows[0], highs[-1]) for key, (lows, highs) in ends.items()})
    questions, skipped = _find_answerable(trial, queries, (now, truth))
    search = _Search(trial, questions, now, truth, caps, ends, columns)
    best = search.least_error(no_question_worse=True)
    if best == now:  # then one that is better in total, and says which questions it makes worse
        best = search.least_error(no_question_worse=False)
    errors = [_error_now(trial, sql, now, truth) for sql in questions]
    advised = [_query_error(trial, sql, best, truth) or Fraction(0) for sql in questions]
    lines = tuple(changed_lines(policy, now, best))
    if trial.choosing is not None and _combined_error(errors) <= _combined_error(
        advised
    ):  # the bounds that questions choose are better than any draft
        advised, lines = errors, ()
    compared = tuple(TriedQuestion(*fields) for fields in zip(questions, errors, advised, strict=True))
    return Tuned(typed_rational(trial.epsilon, "epsilon"), compared, lines, skipped), truth


@dataclass(slots=True)
class _Search:
    """The search for the draft with the least error: one cap or bound at a time, while the others stay."""

    trial: Trial
    questions: Sequence[str]
    now: BoundsDraft
    truth: BoundsDraft
    caps: Mapping[str, list[int]]
    ends: Mapping[TableColumn, tuple[list[int], list[int]]]
    columns: Mapping[TableColumn, Column]

    def least_error(self, *, no_question_worse: bool) -> BoundsDraft:
        """Return the draft with the least total error, of those that make no question worse if that is asked for."""

        def better(drafts: Sequence[BoundsDraft]) -> BoundsDraft:
            return min(drafts, key=lambda draft: self._error(draft, no_question_worse))

        best, now = self.now, self.now
        for turn in range(_TUNING_ROUNDS):
            for name, tried in self.caps.items():
                self.trial.say(f"trying caps of {name} (round {turn + 1} of {_TUNING_ROUNDS})")
                best = better(
                    [replace(best, caps={**best.caps, name: cap}) for cap in sorted({*tried, now.caps[name]})]
                )
            for key, (lows, highs) in self.ends.items():
                self.trial.say(f"trying bounds of {'.'.join(key)} (round {turn + 1} of {_TUNING_ROUNDS})")
                low, high = best.bounds[key]
                fits = best.totals.get(key, _MAX_TOTAL_STEPS)
                uppers = [(low, candidate) for candidate in highs if low < candidate <= fits]
                best = better([best, *(replace(best, bounds={**best.bounds, key: upper}) for upper in uppers)])
                low, high = best.bounds[key]
                signs = _MAX_TOTAL_STEPS if key not in best.totals else 0
                lowers = [(candidate, high) for candidate in lows if -signs <= candidate < high]
                best = better([best, *(replace(best, bounds={**best.bounds, key: lower}) for lower in lowers)])
            for key, column in self.columns.items():
                best = better([best, *_with_totals(best, key, column)])
        return best

    def _error(self, draft: BoundsDraft, no_question_worse: bool) -> float:
        if no_question_worse and draft != self.now:
            for sql in self.questions:
                before = _query_error(self.trial, sql, self.now, self.truth)
                after = _query_error(self.trial, sql, draft, self.truth)
                if before is not None and (after is None or after > before):
                    return inf
        return _total_error(self.trial, self.questions, draft, self.truth)


def _error_now(trial: Trial, sql: str, now: BoundsDraft, truth: BoundsDraft) -> Fraction:
    """Return the share by which a typical cell may be off under the policy, whose questions may choose privately.

    Then it is drawn: the truncation loss is how far the middle of some answers is from the truth.
    """
    if trial.choosing is None:
        return _query_error(trial, sql, now, truth) or Fraction(0)
    draws = [dict(_release_numbers(release)) for release in trial.choosing(sql)]
    real = _answer_cells(trial, sql, truth) or {}
    found = {}
    for key in real:
        errors = [draw[key] for draw in draws if key in draw] or [(Fraction(0), Fraction(0))]
        value, margin = (Fraction(median(part)) for part in zip(*errors, strict=True))
        found[key] = value, margin
    return typical_error(found, real)


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


def _tried_caps(trial: Trial, table: str, now: BoundsDraft) -> list[int]:
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


def _tried_ends(trial: Trial, place: TableColumn, column: Column, whole: BoundsDraft) -> tuple[list[int], list[int]]:
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
        bound for bound in rounds if found[f"a{bound}"] <= found["x"] * _MAX_CLIPPED_SHARE
    ]  # bounds that move most values say little about any of them
    widest = next((bound for bound in above if not found[f"a{bound}"]), high)
    highs = sorted({bound for bound in above if bound <= widest} | {high, widest})
    below = [-bound for bound in rounds if found[f"b{bound}"] <= found["x"] * _MAX_CLIPPED_SHARE]
    lowest = next((-bound for bound in rounds if not found[f"b{bound}"]), low) if found["n"] else min(0, low)
    lows = sorted({bound for bound in below if bound >= lowest and found["n"]} | {low, lowest})
    return lows, highs


def _find_answerable(
    trial: Trial, queries: Sequence[str], drafts: Sequence[BoundsDraft]
) -> tuple[list[str], tuple[SkippedQuestion, ...]]:
    """Return the questions that can be tried, and those that cannot with the reason; where none can, it is refused."""
    answerable: list[str] = []
    skipped: list[SkippedQuestion] = []
    refused: Refusal | None = None
    for sql in dict.fromkeys(queries) or islice(typical_questions(trial.policy), 4 * MAX_QUESTIONS):
        trial.say(f"trying question {len(answerable) + 1}")
        try:
            for draft in drafts:
                trial.answers(sql, draft)
        except Refusal as refusal:
            if queries:  # a refused question is no example of a typical one
                refused = refused or refusal
                skipped.append(SkippedQuestion(sql, f"{refusal.what} {refusal.why}"))
            continue
        answerable.append(sql)
        if not queries and len(answerable) == MAX_QUESTIONS:
            break
    if refused is not None and not answerable:
        raise refused
    return answerable, tuple(skipped)


def _total_error(trial: Trial, questions: Sequence[str], draft: BoundsDraft, truth: BoundsDraft) -> float:
    """Return how far typical cells may be off over all questions, cut and noise together."""
    errors = (_query_error(trial, sql, draft, truth) for sql in questions)
    return _combined_error(Fraction(MAX_RELATIVE_ERROR) if error is None else error for error in errors)


def _combined_error(errors: Iterable[Fraction]) -> float:
    """Return the sum over questions, in which one whose answer nothing can save does not outweigh all others."""
    return sum(log1p(float(min(error, Fraction(MAX_RELATIVE_ERROR)))) for error in errors)


def _query_error(trial: Trial, sql: str, draft: BoundsDraft, truth: BoundsDraft) -> Fraction | None:
    values, real = _answer_cells(trial, sql, draft), _answer_cells(trial, sql, truth)
    if values is None or real is None:
        return None
    return typical_error(values, real)


def typical_error(values: AnswerCells, real: AnswerCells) -> Fraction:
    """Return the error of the typical cell that is not empty; a cell that is not in the answer is missing as a whole.

    The widest bounds have cells that no data is in, nor in the answer.
    """
    full = {key: true for key, (true, _) in real.items() if true} or {key: true for key, (true, _) in real.items()}
    shares = []
    for key, true in full.items():
        value, margin = values.get(key, (Fraction(0), Fraction(0)))
        shares.append((abs(value - true) + margin) / max(abs(true), Fraction(1, 10**6)))
    return Fraction(median(shares)) if shares else Fraction(0)


def _answer_cells(trial: Trial, sql: str, draft: BoundsDraft) -> AnswerCells | None:
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
