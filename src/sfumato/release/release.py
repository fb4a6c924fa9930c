"""A release: what an analyst gets to see, with error bars, and what it cost."""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from math import ceil, inf, isinf
from typing import TYPE_CHECKING, Any

from sfumato.accounting.event import Event
from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.private_query import PrivateQuery
from sfumato.errors import UnknownName, quote_value
from sfumato.exact import decimal_rational, probability
from sfumato.language.calendar import DAY_MICROSECONDS
from sfumato.language.facts import Facts, Kind
from sfumato.planning.bounding.bias import bias_tail, limited_places
from sfumato.planning.bounding.truncation import TruncationBounds
from sfumato.planning.notes.note import printed_notes
from sfumato.planning.notes.truncation import BiasEstimate, bias_notes
from sfumato.planning.plan import Plan
from sfumato.query.types import NUMBERS, Type
from sfumato.release.bounding.bias import (
    MeasurementBias,
    bias_with_selection,
    column_bias,
    estimated_bias,
    intervals_with_bias,
)
from sfumato.release.bounding.marked_values import Marks, marked_values
from sfumato.release.bounding.selection import at_selected_bounds
from sfumato.release.decode import EngineValue, Value, decode, decode_column
from sfumato.release.intervals.confidence import (
    LEVEL,
    Bar,
    EvaluatedAnswer,
    answer,
    confidence_intervals,
    ends_of,
)
from sfumato.release.intervals.row_forms import Evaluate
from sfumato.release.lazy_notes import LazyNotes
from sfumato.release.noisy import NoisyResult
from sfumato.release.notes import answer_notes
from sfumato.release.possible_values import clamp_value, possible_ranges
from sfumato.release.receipt import Receipt, receipt_to_json
from sfumato.release.rendering.chart import Panel, chart
from sfumato.release.rendering.chart_kinds import chart_of_kind, joint_level
from sfumato.release.rendering.escaping import escape_unprintable, for_html
from sfumato.release.rendering.export import (
    ExportColumn,
    arrow_table,
    export_column,
    export_ends,
    marked_columns,
    pandas_frame,
    polars_frame,
)
from sfumato.release.rendering.table import MARK_LEGEND, IntervalEnds, format_value, text_table
from sfumato.release.stages import value_notes
from sfumato.release.thin_answers import note_texts

if TYPE_CHECKING:  # what editors complete after to_pandas() and the like
    import altair
    import pandas
    import polars
    import pyarrow

_PRINTED_ROWS = 40
"""Rows that are printed; `rows()` returns all of them."""

_TIDY_DIGITS, _MAX_FLOAT_ERROR, _MAX_ZERO_ERROR = 12, 2e-14, 1e-13
"""Ends of intervals are rounded to this many digits where that changes them by no more than this part, or amount."""

Ranges = Sequence[Sequence[IntervalEnds | None] | None]
"""For each column the ends of every value; None for a column that has no noise, or is no number."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Release:
    """A table of noisy values with their intervals. Columns of the same name are told apart: n, n_2, n_3."""

    columns: tuple[str, ...]
    facts: tuple[Facts, ...] = field(repr=False)
    values: tuple[tuple[Value, ...], ...] = field(repr=False)
    """Column by column."""
    ranges: Callable[[Fraction], Ranges] = field(repr=False)
    possible: tuple[tuple[int | None, int | None], ...] = field(repr=False)
    """What each column can really be, where policy and question say so: a count is at least 0."""
    receipt: Receipt
    event: Event | None
    noted: LazyNotes = field(default_factory=LazyNotes)
    biased: Callable[[Fraction], Ranges] | None = field(default=None, repr=False)
    """The same with what caps and bounds cut off; None where nothing was cut."""
    cut: tuple[IntervalEnds | None, ...] = field(default=(), repr=False)
    """Of each column what it may have too much, and what it may lack, at 95 %; empty where nothing was published."""
    marked: Callable[[], Marks] | None = field(default=None, repr=False)
    """Returns which values are marked at 95 %; None where nothing can be cut off."""
    repeated: bool = False
    """Whether it was paid for before: this time it was free."""
    _known: dict[tuple[Fraction, bool], Ranges] = field(default_factory=dict)
    _marks: list[Marks] = field(default_factory=list)

    @property
    def loss(self) -> PrivacyLoss:
        """The privacy loss of the release."""
        return self.receipt.loss

    @property
    def notes(self) -> tuple[str, ...]:
        """All notes, the most important first; at most three of them are printed."""
        return self.noted()

    def rows(self) -> list[dict[str, Any]]:
        """Return the answer, one dict per row."""
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*self.values, strict=True)]

    def intervals(self, level: object = LEVEL, *, bias: bool = False) -> list[dict[str, Any]]:
        """Return the same rows with (low, high) for every number: the true one lies there with this probability.

        An unbounded side is None; NULL is None; keys are as they are. Public answers are exact: (value, value).
        With `bias` the intervals hold what the answer would have been without caps and bounds: counts, sums and
        averages, where `budget.truncation` pays for knowing what they cut off; other sides are None.
        """
        ranges = self._ranges(level, bool(bias))
        columns = [values if ends is None else ends for values, ends in zip(self._exact_ends(), ranges, strict=True)]
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*columns, strict=True)]

    def marks(self) -> list[dict[str, bool]]:
        """Return for each row which numbers are marked: without bounds and clipping, they may lie outside the interval.

        Amounts that bounds and clipping remove are estimated by the published truncation losses. Where none were
        published, a number is marked if they can have removed anything of it.
        """
        marks = self._all_marks()
        names = [name for name, column in zip(self.columns, marks, strict=True) if column is not None]
        columns = [column for column in marks if column is not None]
        if not columns:
            return [{} for _ in range(len(self))]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def marked_columns(self) -> tuple[str, ...]:
        """Return the columns that have a marked number."""
        return tuple(name for name, rows in self._marked_rows().items() if rows)

    def clamped(self) -> "Release":
        """Return the release with counts and sums brought to what is possible, and their intervals too.

        This is free and never less accurate for one number; sums of clamped numbers are too high on average.
        """
        values = tuple(
            tuple(clamp_value(value, limits) for value in column)
            for column, limits in zip(self.values, self.possible, strict=True)
        )
        biased = None if self.biased is None else partial(self._clamped, True)
        return replace(self, values=values, ranges=partial(self._clamped, False), biased=biased, _known={})

    def to_arrow(
        self, intervals: bool = False, level: object = LEVEL, *, with_intervals: bool = False
    ) -> "pyarrow.Table":
        """Return an Arrow table with the receipt as metadata; intervals come as columns n_low and n_high."""
        table = arrow_table(self.typed_columns(intervals or with_intervals, level))
        described = {"loss": str(self.loss), "receipt": receipt_to_json(self.receipt), "notes": json.dumps(self.notes)}
        described["marked"] = json.dumps(self._marked_rows())
        return table.replace_schema_metadata({f"sfumato.{key}": text for key, text in described.items()})

    def to_pandas(self, intervals: bool = False, level: object = LEVEL) -> "pandas.DataFrame":
        """Return a pandas data frame (`pip install 'sfumato[pandas]'`); intervals come as columns n_low and n_high.

        `frame.attrs["marked"]` has the numbers of the rows that are marked, by their column.
        """
        frame = pandas_frame(self.typed_columns(intervals, level))
        frame.attrs["marked"] = self._marked_rows()
        return frame

    def to_polars(self, intervals: bool = False, level: object = LEVEL) -> "polars.DataFrame":
        """Return a polars data frame (`pip install 'sfumato[polars]'`); intervals come as columns n_low and n_high.

        With them come columns n_marked: whether the value may lie outside without bounds and clipping.
        """
        marks = marked_columns(self.columns, self._all_marks()) if intervals else []
        found = [*self.typed_columns(intervals, level), *marks]
        names = unique_names([column.name for column in found])
        renamed = [replace(column, name=name) for column, name in zip(found, names, strict=True)]
        frame: polars.DataFrame = polars_frame(renamed)
        return frame

    def typed_columns(self, intervals: bool = False, level: object = LEVEL) -> list[ExportColumn]:
        """Return the columns as other programs hold them; intervals come as columns n_low and n_high at the end."""
        triples = list(zip(self.columns, self.values, self.facts, strict=True))
        found = [export_column(*triple) for triple in triples]
        if intervals:
            for (name, _, facts), ends in zip(triples, self._ranges(level), strict=True):
                if ends is not None:
                    for side, end_name in enumerate((f"{name}_low", f"{name}_high")):
                        found.append(export_ends(end_name, [end and end[side] for end in ends], facts))
        names = unique_names([column.name for column in found])
        return [replace(column, name=name) for column, name in zip(found, names, strict=True)]

    def plot(self, column: str | None = None, *, kind: str | None = None) -> "altair.TopLevelMixin":
        """Return an Altair chart of every number, or of one, by the keys (`pip install 'sfumato[plot]'`).

        `kind` may be "heatmap" (two keys), "shares" (stacked to 100 %) or "scatter" (two numbers, with error crosses).
        Its `save` writes SVG, PNG and HTML.
        """
        ranges = dict(zip(self.columns, self._ranges(LEVEL), strict=True))
        types = dict(zip(self.columns, self.facts, strict=True))
        numbers = [name for name in self.columns if types[name].type in NUMBERS]
        noisy = [name for name in numbers if ranges[name] is not None]
        # an exact answer has no noise to tell its numbers from its keys: the first column is a key if others are left
        measures = (
            [column]
            if column is not None
            else noisy or [name for name in numbers if name != self.columns[0]] or numbers
        )
        if not measures or any(name not in numbers for name in measures):
            raise UnknownName(
                f"There is no number {quote_value(column)} to plot."
                if column is not None
                else "There is no number to plot.",
                "A chart shows numbers by the keys of their rows.",
                f"Name one of the numbers of the answer: {', '.join(numbers) or 'it has none'}.",
            )
        values = dict(zip(self.columns, self.values, strict=True))
        keys = [(name, values[name]) for name in self.columns if ranges[name] is None and name not in measures]
        if kind == "shares":  # a share depends on all parts, so their intervals must hold together
            ranges = dict(zip(self.columns, self._ranges(joint_level(keys, LEVEL)), strict=True))
        panels = [Panel(name, values[name], ranges[name] or [None] * len(self)) for name in measures]
        price = f"{self.loss}; error bars at {float(100 * LEVEL):g} %" if self.event is not None else "exact and free"
        if self.notes and self.notes[0].startswith("Rehearsal:"):
            price = f"rehearsal with synthetic rows; {price}"
        found: altair.TopLevelMixin = (
            chart(keys, panels, price) if kind is None else chart_of_kind(kind, keys, panels, price)
        )
        return found

    def __len__(self) -> int:
        return len(self.values[0]) if self.values else 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    def __repr__(self) -> str:
        return self.to_text()

    def to_text(self, more_notes: str | None = "release.notes") -> str:
        """Return the answer as a text table; `more_notes` says where further notes are, None prints all of them."""
        columns, numbers = self._cells()
        lines = [text_table(self.columns, columns, numbers)]
        lines += [f"({len(self):,} rows)"] if len(self) > _PRINTED_ROWS else []
        notes = map(escape_unprintable, printed_notes(self.notes, more_notes))
        return "\n".join([*lines, f"cost: {self.loss}; ± at 95 %", *self.legend(), *notes])

    def legend(self) -> tuple[str, ...]:
        """Return the line that explains marks; none where no value has one."""
        return (MARK_LEGEND,) if any(any(column or ()) for column in self._all_marks()) else ()

    def _repr_html_(self) -> str:
        columns, numbers = self._cells()
        head = "".join(f"<th>{for_html(name)}</th>" for name in self.columns)
        aligned = ["right" if number else "left" for number in numbers]
        body = "".join(
            "<tr>"
            + "".join(
                f'<td style="text-align:{side}">{for_html(cell)}</td>' for cell, side in zip(row, aligned, strict=True)
            )
            + "</tr>"
            for row in zip(*columns, strict=True)
        )
        foot = "<br>".join(
            for_html(line)
            for line in (
                f"cost: {self.loss}; ± at 95 %",
                *self.legend(),
                *printed_notes(self.notes, "release.notes"),
            )
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{foot}</p>"

    def _cells(self) -> tuple[list[list[str]], list[bool]]:
        ranges = self._ranges(LEVEL)
        columns = [
            [
                format_value(value, ends[at] if ends else None, marked=bool(marks and marks[at]))
                for at, value in enumerate(values[:_PRINTED_ROWS])
            ]
            for values, ends, marks in zip(self.values, ranges, self._all_marks(), strict=True)
        ]
        return columns, [facts.type in NUMBERS for facts in self.facts]

    def truncation_of(self, name: str) -> IntervalEnds | None:
        """Return what a column may have too much, and what it may lack, for want of what caps and bounds cut off."""
        if name not in self.columns:
            raise UnknownName(
                f"There is no column {quote_value(name)}.",
                "The bias is known per column.",
                f"There are: {', '.join(self.columns)}.",
            )
        return self.cut[self.columns.index(name)] if self.cut else None

    def _ranges(self, level: object, bias: bool = False) -> Ranges:
        exact = probability(decimal_rational(level, "level"), "level")
        if (exact, bias) not in self._known:
            find = self.biased if bias and self.biased is not None else self.ranges
            self._known[exact, bias] = find(exact)
        return self._known[exact, bias]

    def _all_marks(self) -> Marks:
        if not self._marks:
            self._marks.append([None] * len(self.columns) if self.marked is None else self.marked())
        return self._marks[0]

    def _marked_rows(self) -> dict[str, list[int]]:
        """Return the numbers of the rows that are marked, by their column."""
        columns = zip(self.columns, self._all_marks(), strict=True)
        return {name: [at for at, is_marked in enumerate(marks) if is_marked] for name, marks in columns if marks}

    def _exact_ends(self) -> list[Sequence[Value | IntervalEnds]]:
        """Return the columns as `intervals` shows those without noise: a public answer's numbers are their own ends."""
        if self.event is not None:
            return list(self.values)
        return [
            [(value, value) if facts.type in NUMBERS and value is not None else value for value in values]
            for values, facts in zip(self.values, self.facts, strict=True)
        ]

    def _clamped(self, bias: bool, level: Fraction) -> Ranges:
        return [
            ends and [end and (clamp_value(end[0], limits), clamp_value(end[1], limits)) for end in ends]
            for ends, limits in zip(self._ranges(level, bias), self.possible, strict=True)
        ]


def make_release(
    plan: Plan, noisy: NoisyResult, receipt: Receipt, evaluate: Evaluate, losses: TruncationBounds | None = None
) -> Release:
    """Return the release of a plan's noisy measurements; `evaluate` runs the outcome (`engines.after_noise`).

    `losses` is what was published of what caps and bounds cut off.
    """
    plan = at_selected_bounds(plan, noisy.groups)
    answered = answer(plan, noisy, evaluate)
    facts, columns = as_printed(plan.private, answered.columns)
    values = _decoded_columns(_with_shown_ends(answered, columns), facts)
    names = unique_names(plan.private.names)
    bar_facts = tuple(map(answered.interval_facts, range(len(facts))))
    ranges = partial(_decoded, partial(confidence_intervals, answered), bar_facts, answered.shown_ends)
    lacking = partial(bias_with_selection, plan, noisy, losses)
    biased = partial(_decoded, partial(intervals_with_bias, answered, missing=lacking), bar_facts, answered.shown_ends)
    cut = () if losses is None else _cut(answered, lacking(bias_tail(LEVEL)), bar_facts)
    estimates = {} if losses is None else _estimates(answered, noisy, losses, values, bar_facts)
    found = [*value_notes(plan, noisy, evaluate), *answer_notes(plan, noisy, answered)]
    found += bias_notes(dict(zip(names, estimates, strict=False)))
    noted = LazyNotes(partial(note_texts, plan, names, values, found))
    marked = partial(_marked, answered, noisy, losses)
    return Release(
        names, facts, values, ranges, possible_ranges(answered), receipt, plan.event, noted, biased, cut, marked
    )


def _marked(answered: EvaluatedAnswer, noisy: NoisyResult, losses: TruncationBounds | None) -> Marks:
    cut = estimated_bias(answered.plan, noisy, losses, bias_tail(LEVEL), margins=True)
    return marked_values(answered, LEVEL, cut)


def _estimates(
    answered: EvaluatedAnswer,
    noisy: NoisyResult,
    losses: TruncationBounds,
    values: tuple[tuple[Value, ...], ...],
    facts: Sequence[Facts],
) -> list[BiasEstimate | None]:
    """Return what each column probably lacks; None where that depends on the row."""
    plan = answered.plan
    likely, most = (estimated_bias(plan, noisy, losses, bias_tail(LEVEL), margins=margins) for margins in (False, True))
    limits = limited_places(plan)
    found: list[BiasEstimate | None] = []
    for index, known in enumerate(facts):
        pairs = [column_bias(answered, index, cut) for cut in (likely, most)]
        ends = [(_or_infinity(pair[0], known), _or_infinity(pair[1], known)) for pair in pairs if pair is not None]
        one = answered.aggregate(answered.traced.items[index])
        limit = bool(limits) if one is None else (one[0].group.label, one[1].plain) in limits
        total = None if limit else sum(value for value in values[index] if isinstance(value, int | float))
        found.append(BiasEstimate.between(ends[0], ends[1], total, limit) if len(ends) == len(pairs) else None)
    return found


def _cut(answered: EvaluatedAnswer, found: MeasurementBias, facts: Sequence[Facts]) -> tuple[IntervalEnds | None, ...]:
    """Return what each column may have too much and lack, as people see it; None where a bar depends on the row."""
    pairs = [column_bias(answered, index, found) for index in range(len(facts))]
    return tuple(
        None if pair is None or index in answered.shown_ends else _decoded_pair(pair, known)
        for index, (pair, known) in enumerate(zip(pairs, facts, strict=True))
    )


def _or_infinity(amount: float, facts: Facts) -> float:
    value = _amount(amount, facts)
    return float(value) if isinstance(value, int | float) else inf


def _decoded_pair(pair: tuple[float, float], facts: Facts) -> IntervalEnds:
    return _amount(pair[0], facts), _amount(pair[1], facts)


def _amount(amount: float, facts: Facts) -> Value:
    if isinf(amount):
        return None
    return decode(ceil(amount) if facts.kind is Kind.INTEGER else amount, facts)


def exact_release(
    names: Sequence[str],
    facts: Sequence[Facts],
    columns: Sequence[Sequence[EngineValue]],
    receipt: Receipt,
    notes: tuple[str, ...] = (),
) -> Release:
    """Return the release of a question that read public tables alone: exact and free."""
    values = _decoded_columns(columns, facts)
    nothing = ((None, None),) * len(values)
    ranges = partial(_no_ranges, len(values))
    return Release(unique_names(names), tuple(facts), values, ranges, nothing, receipt, None, LazyNotes.of(notes))


def _no_ranges(columns: int, _level: Fraction) -> Ranges:
    return [None] * columns


def as_printed(
    private: PrivateQuery, columns: Sequence[Sequence[EngineValue]]
) -> tuple[tuple[Facts, ...], tuple[Sequence[EngineValue], ...]]:
    """Return the columns of an answer and what is known of them, as people see them: the start of a month is a date."""
    facts = [item.scalar.facts for item in private.outcome.items]
    shown = list(columns)
    for place in private.days:
        facts[place] = replace(facts[place], type=Type.DATE)
        shown[place] = [None if moment is None else int(moment) // DAY_MICROSECONDS for moment in columns[place]]
    return tuple(facts), tuple(shown)


def _decoded_columns(columns: Sequence[Sequence[EngineValue]], facts: Sequence[Facts]) -> tuple[tuple[Value, ...], ...]:
    pairs = zip(columns, facts, strict=True)
    return tuple(decode_column(column, known) for column, known in pairs)


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Tell columns of the same name apart by a number, so that no dict loses one.

    >>> unique_names(["n", "n", "n_2"])
    ('n', 'n_3', 'n_2')
    """
    given: list[str] = []
    for index, name in enumerate(names):
        taken, unique, number = {*given, *names[index + 1 :]}, name, 2
        while unique in given or (number > 2 and unique in taken):
            unique, number = f"{name}_{number}", number + 1
        given.append(unique)
    return tuple(given)


def _decoded(
    find: Callable[[Fraction], list[list[Bar | None] | None]],
    facts: tuple[Facts, ...],
    shown_ends: Collection[int],
    level: Fraction,
) -> Ranges:
    """Return the bars as people read them; a column that shows an end of a bar has none."""
    return [
        None if ends is None or index in shown_ends else [_decoded_bar(bar, known) for bar in ends]
        for index, (ends, known) in enumerate(zip(find(level), facts, strict=True))
    ]


def _with_shown_ends(
    answered: EvaluatedAnswer, columns: Sequence[Sequence[EngineValue]]
) -> list[Sequence[EngineValue]]:
    """Return the columns with those that show ends of bars as such."""
    bars = confidence_intervals(answered, LEVEL) if answered.shown_ends else []
    return [
        ends_of(answered, index, bars[index], answered.shown_ends[index]) if index in answered.shown_ends else column
        for index, column in enumerate(columns)
    ]


def _decoded_bar(bar: Bar | None, facts: Facts) -> IntervalEnds | None:
    return None if bar is None else (_tidy(decode(bar[0], facts)), _tidy(decode(bar[1], facts)))


def _tidy(end: Value) -> Value:
    """Return the end of an interval without what only the rounding of floats added: 121 for 120.99999999999932.

    >>> _tidy(120.99999999999932), _tidy(8e-15), _tidy(1 / 3), _tidy(7)
    (121.0, 0.0, 0.3333333333333333, 7)
    """
    if not isinstance(end, float):
        return end
    near = 0.0 if abs(end) < _MAX_ZERO_ERROR else float(f"{end:.{_TIDY_DIGITS}g}")
    return near if abs(near - end) <= max(_MAX_ZERO_ERROR, _MAX_FLOAT_ERROR * abs(end)) else end
