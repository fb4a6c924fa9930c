"""A quote: what a plan costs and how near its answers will be, told before any data is read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from html import escape
from math import inf

from sfumato.accounting.group import group_loss
from sfumato.accounting.loss import PrivacyLoss, round_up
from sfumato.errors import BadParameter, quote_value
from sfumato.exact import integer
from sfumato.mechanisms.bounded_flow import BOUND_EPSILON_SHARE, BoundedFlow
from sfumato.mechanisms.key_rounds import KeyRounds
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.matched_count import MatchedCount
from sfumato.mechanisms.max_norm import MaxNormPart
from sfumato.mechanisms.meetings import Meetings
from sfumato.mechanisms.permute_and_flip import PermuteAndFlip
from sfumato.mechanisms.quantiles import Quantiles
from sfumato.mechanisms.spelled_list import SpelledList
from sfumato.mechanisms.top_list import TopList
from sfumato.planning.accuracy_target import CONFIDENCE
from sfumato.planning.aggregates.distinct_count import different_values
from sfumato.planning.aggregates.families import OutputColumn
from sfumato.planning.bounding.bias import NO_BIAS, BiasBounds, bias_tail, limited_places, truncation_bias
from sfumato.planning.bounding.truncation import TruncationBounds
from sfumato.planning.bounding.truncation_estimates import TruncationEstimates
from sfumato.planning.budget_effect import BudgetEffect
from sfumato.planning.column_origins import GroupColumn, Origin, origins, shown_unchanged
from sfumato.planning.key_selection import size_words
from sfumato.planning.nested_conditions import step_margin
from sfumato.planning.noise import Mechanism
from sfumato.planning.notes.bound_selection import selection_notes
from sfumato.planning.notes.distinct_counts import matching_notes
from sfumato.planning.notes.note import Note, NoteRank, texts_by_rank
from sfumato.planning.notes.truncation import BiasEstimate, bias_notes
from sfumato.planning.plan import GroupPlan, KeySelection, Plan, PlannedMeasurement, PlannedSelection
from sfumato.planning.top_lists import list_note
from sfumato.query.types import Type

Margin = int | float | None
_SHOWN_MARGINS = 3
_MAX_HOUSEHOLD_SIZE = 1000
_MIN_ROUNDED_MARGIN = 1e15
GROUPS_SELECTED = "Groups are selected privately"
"""How the note begins that says from how many people on a group appears."""


class AnswerSource(StrEnum):
    """Where an answer comes from: measured anew, from kept answers, from both, or a kept one made more exact."""

    FRESH = "fresh"
    KNOWN = "known"
    COMBINED = "combined"
    REFINED = "refined"


@dataclass(frozen=True, slots=True)
class Quote:
    """The price of a query and what it buys.

    `margins` gives each column that carries noise its half-width at 95 %, in the column's own unit; None where it
    depends on the data. `mechanisms` says in words how each column is made.
    """

    loss: PrivacyLoss
    margins: Mapping[str, Margin]
    mechanisms: Mapping[str, str]
    notes: tuple[str, ...]
    effect: BudgetEffect | None = None
    """What it does to the account's budget; None where no account is known."""
    source: AnswerSource = AnswerSource.FRESH
    """Where the answer will come from."""
    loss_if_new: PrivacyLoss | None = None
    """What it would cost if its measurements were not paid for yet; None where `loss` says so."""
    cohorts: tuple[str, ...] = ()
    """The cohorts that pay, where people have budgets by cohort."""
    answered: str = ""
    """The days of the account's own answers that this one is had from, or refines; empty where it is fresh."""
    most: PrivacyLoss | None = None
    """The most that all measurements cost, where `loss` is that of a first one; None where `loss` is all."""

    def paid(self, loss_if_new: PrivacyLoss) -> "Quote":
        """Return the quote of a question whose measurements are paid for: it costs nothing more."""
        return replace(self, loss=PrivacyLoss(Fraction(0), Fraction(0)), loss_if_new=loss_if_new)

    @property
    def price_text(self) -> str:
        """The price in words, with what a new question would cost where this one is paid for."""
        known = "" if self.loss_if_new is None else f" (already paid; new, it would cost {self.loss_if_new})"
        more = "" if self.most is None else f" first; at most {self.most} with the answer"
        return f"{self.loss}{known}{more}"

    @property
    def share(self) -> Fraction | None:
        """The share of the budget that it takes, as the ledger counts it now: 0 where it is free. None if unbounded."""
        return None if self.effect is None else self.effect.share

    @property
    def used_after(self) -> Fraction | None:
        """The used share of the budget after it. Above 1 it does not fit."""
        return None if self.effect is None else self.effect.used

    @property
    def spent_after(self) -> PrivacyLoss | None:
        """The bound of everything answered, after it."""
        return None if self.effect is None else self.effect.spent

    def bought(self) -> str:
        """Return the margins of the first columns as the end of a sentence; nothing where they depend on the data."""
        fixed = [f"{name} ±{round_margin(margin)}" for name, margin in self.margins.items() if margin is not None]
        more = ", …" if len(fixed) > _SHOWN_MARGINS else ""
        return f", {', '.join(fixed[:_SHOWN_MARGINS])}{more} at 95 %" if fixed else ""

    def __str__(self) -> str:
        lines = [f"price: {self.price_text}", *(() if self.effect is None else (str(self.effect),))]
        if self.source is not AnswerSource.FRESH:
            day = f" (your answer of {self.answered})" if self.answered else ""
            lines.insert(1, f"source: {self.source}{day}")
        for name, words in self.mechanisms.items():
            lines.append(f"{name}: {words}{_margin_text(self.margins, name)}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("column", "95 % margin", "how it is made"))
        body = "".join(
            f"<tr><td>{_harmless(name)}</td><td style='text-align:right'>{_shown(self.margins, name)}</td>"
            f"<td>{_harmless(words)}</td></tr>"
            for name, words in self.mechanisms.items()
        )
        effect = () if self.effect is None else (str(self.effect),)
        notes = "<br>".join(
            map(_harmless, (f"price: {self.price_text}; nothing was spent or read", *effect, *self.notes))
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{notes}</p>"


def _shown(margins: Mapping[str, Margin], name: str) -> str:
    if name not in margins:
        return ""
    margin = margins[name]
    return "depends on the data" if margin is None else f"±{round_margin(margin)}"


def _harmless(text: str) -> str:
    """Return a text as the content of an element: names and notes may hold anything."""
    return escape("".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text))


def make_quote(plan: Plan, losses: TruncationBounds | None = None, spent: Fraction | None = None) -> Quote:
    """Return the quote of a plan; it reads no data.

    `losses` is what was published of what caps and bounds cut off, and `spent` what the policy spends to know it.
    """
    derived = {(group.group.label, output.name): output for group in plan.groups for output in group.derived}
    measured = {(group.group.label, output.name): output for group in plan.groups for output in group.all_outputs}
    steps = {(group.group.label, total.name): (group, total.steps) for group in plan.groups for total in group.sums}
    margins: dict[str, Margin] = {}
    mechanisms: dict[str, str] = {}
    for name, item, origin in zip(plan.private.names, plan.private.outcome.items, origins(plan.private), strict=True):
        used = _used(origin, derived, measured, steps)
        if used:
            margin = _margin(shown_unchanged(origin, derived), derived, measured, item.scalar.facts.type, steps)
            margins[name] = margin if margins.get(name, margin) == margin else None
        words = _words(used) if used else _key_words(origin, plan)
        mechanisms[name] = words if mechanisms.get(name, words) == words else f"{mechanisms[name]}; {words}"
    notes = texts_by_rank([*_notes(plan), *_bias(plan, derived, losses, spent)])
    return Quote(plan.loss, margins, mechanisms, notes)


def for_household(quote: Quote, people: object) -> Quote:
    """Return the quote with the loss of a household of this size; as it is for None."""
    if people is None:
        return quote
    return replace(quote, notes=(household_note(quote.loss, people), *quote.notes))


def household_note(loss: PrivacyLoss, people: object) -> str:
    """Say what the people of a household lose together (proofs/group.md)."""
    size = integer(people, "household", 1)
    if size > _MAX_HOUSEHOLD_SIZE:
        raise BadParameter(
            f"A household of {quote_value(size)} is too large.",
            f"The loss of a household is computed for up to {_MAX_HOUSEHOLD_SIZE:,} people.",
            "Give a smaller number.",
        )
    return f"A household of {size} loses {group_loss(loss, size)} together; each person in it loses {loss}."


def _bias(
    plan: Plan, derived: dict[GroupColumn, OutputColumn], losses: TruncationBounds | None, spent: Fraction | None
) -> Iterator[Note]:
    """Say how far truncation may have moved counts and sums, or when that will be known."""
    found = truncation_bias(plan, losses, bias_tail(CONFIDENCE))
    if spent is None or all(bounds == NO_BIAS for bounds in found.values()):
        return
    if losses is None:
        text = (
            "How much bounds and clipping remove from this snapshot is not known. It is measured once, when a snapshot "
            f"is taken, for ε = {round_up(spent)} of the dataset's budget."
        )
        yield Note(NoteRank.HINT, text)
        return
    selected = {
        (group.group.label, measurement.name)
        for group in plan.groups
        for measurement in group.measured
        if measurement.candidates is not None
    }
    steps = {(group.group.label, total.name): total.steps for group in plan.groups for total in group.sums}
    tail, cut, later, limits = (
        bias_tail(CONFIDENCE),
        dict[str, BiasEstimate | None](),
        list[str](),
        limited_places(plan),
    )
    likely, most = (truncation_bias(plan, TruncationEstimates(losses, margins), tail) for margins in (False, True))
    for name, origin in zip(plan.private.names, origins(plan.private), strict=True):
        source = shown_unchanged(origin, derived)
        one = None if source is None else derived[source]
        if source is not None and one is not None and one.plain is not None:
            if (source[0], one.plain) in selected:  # the amount above the bound is added: proofs/chosen_caps.md, 4
                later.append(name)
                continue
            # a row that is missing is missing in one step: proofs/disjoint_conditions.md, 4
            parts = [(source[0], part) for part in steps.get((source[0], one.plain), (one.plain,))]
            ends = [_bias_ends([bias[part] for part in parts], one.step) for bias in (likely, most)]
            cut[name] = BiasEstimate.between(ends[0], ends[1], is_limit=(source[0], one.plain) in limits)
    yield from bias_notes(cut)
    if later:
        names = ", ".join(f"`{name}`" for name in dict.fromkeys(later))
        text = f"How much bounds and clipping remove from {names} depends on the selected bound. The answer states it."
        yield Note(NoteRank.HINT, text)


def _bias_ends(bias: Sequence[BiasBounds], step: Fraction) -> tuple[float, float]:
    most = (max(lost.excess for lost in bias), max(lost.lack for lost in bias))
    excess, lack = (end if end == inf else _float(Fraction(end) * step) for end in most)
    return excess, lack


_Steps = Mapping[GroupColumn, tuple[GroupPlan, tuple[str, ...]]]
"""What is a sum of steps: its group, and their names."""


def _used(
    origin: Origin,
    derived: Mapping[GroupColumn, OutputColumn],
    measured: Mapping[GroupColumn, PlannedMeasurement | PlannedSelection],
    steps: _Steps,
) -> list[PlannedMeasurement | PlannedSelection]:
    """Return the measurements that a column depends on, each once."""
    names: dict[GroupColumn, None] = {}
    for label, name in sorted(origin.sources):
        if (one := derived.get((label, name))) is not None:
            parts = [step for part in one.measured for step in steps.get((label, part), (None, (part,)))[1]]
            names.update({(label, part): None for part in parts})
    return [measured[source] for source in names]


def _margin(
    source: GroupColumn | None,
    derived: Mapping[GroupColumn, OutputColumn],
    measured: Mapping[GroupColumn, PlannedMeasurement | PlannedSelection],
    type: Type,
    steps: _Steps,
) -> Margin:
    one = None if source is None else derived[source]
    if source is not None and one is not None and (source[0], one.plain or "") in steps:
        margin = step_margin(steps[source[0], one.plain or ""][0], one.plain or "")
        return None if margin is None else _in_type(margin * one.step, type)
    plain = None if source is None or one is None or one.plain is None else measured[source[0], one.plain]
    if one is None or not isinstance(plain, PlannedMeasurement) or plain.candidates is not None:
        return None
    reach = plain.mechanism.margin(CONFIDENCE) * one.step
    if (values := different_values(plain.quantity)) is not None:  # neither the answer nor the truth is beyond them
        reach = min(reach, Fraction(values))
    return _in_type(reach, type)


def _in_type(reach: Fraction, type: Type) -> Margin:
    return int(reach) if type is Type.INTEGER and reach.denominator == 1 else _float(reach)


def _float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return inf


def _margin_text(margins: Mapping[str, Margin], name: str) -> str:
    if name not in margins:
        return ""
    margin = margins[name]
    return "; margin depends on the data" if margin is None else f"; ±{round_margin(margin)} at 95 %"


def round_margin(margin: int | float) -> str:
    """Return a margin with the digits that mean something: three, and all before the point.

    >>> round_margin(1198), round_margin(6283.901030504912), round_margin(0.0123456)
    ('1,198', '6,284', '0.0123')
    """
    if isinstance(margin, int):
        return f"{margin:,}"
    return f"{margin:,.0f}" if 100 <= margin < _MIN_ROUNDED_MARGIN else f"{margin:.3g}"


def _words(used: list[PlannedMeasurement | PlannedSelection]) -> str:
    """Name the law, its parameters in steps of each measurement's grid, and how many measurements there are."""
    laws: dict[str, list[str]] = {}
    for one in used:
        name, parameter = _law(one.mechanism)
        if isinstance(one, PlannedMeasurement) and one.candidates is not None and isinstance(one.mechanism, Laplace):
            parameter = f"{round_up(one.mechanism.scale / one.candidates.thresholds[-1])} times the selected bound"
        laws.setdefault(name, []).append(parameter)
    words = [f"{name}{'s' * (len(numbers) > 1)} {', '.join(numbers)}" for name, numbers in laws.items()]
    return "; ".join(words) + (f" ({len(used)} measurements)" if len(used) > 1 else "")


def _law(mechanism: Mechanism) -> tuple[str, str]:
    if isinstance(mechanism, Meetings):
        return "discrete Laplace, scale found privately", f"ε = {round_up(mechanism.epsilon)}"
    if isinstance(mechanism, BoundedFlow):
        scale = f"{round_up(mechanism.noise(1).scale / 2)} times a person's share"
        selects, adds = (round_up(mechanism.epsilon * part) for part in (BOUND_EPSILON_SHARE, 1 - BOUND_EPSILON_SHARE))
        parts = f"ε = {selects} selects the share, ε = {adds} adds noise"
        groups = f", in {mechanism.cells} groups" if mechanism.cells > 1 else ""
        return "largest flow, discrete Laplace, scale", f"{scale} ({parts}{groups})"
    if isinstance(mechanism, MatchedCount):
        scale = round_up(mechanism.noise(0).scale)
        return "matching, discrete Laplace, scale", f"{scale} times the values counted per person"
    if isinstance(mechanism, Quantiles | PermuteAndFlip):
        among = f"{mechanism.buckets:,} buckets" if isinstance(mechanism, Quantiles) else "all values"
        return "exact choice", f"among {among}, ε = {round_up(mechanism.epsilon)}"
    if isinstance(mechanism, Laplace):
        return "discrete Laplace, scale", round_up(mechanism.scale)
    if isinstance(mechanism, MaxNormPart):
        return f"discrete max-norm of {len(mechanism.joint.sides)}, scale", round_up(mechanism.scale)
    return "discrete Gaussian, variance", round_up(mechanism.sigma_squared)


def _key_words(origin: Origin, plan: Plan) -> str:
    if not origin.sources:
        return "exact"
    labels = {label for label, _ in origin.sources}
    selections = [group.selection for group in plan.groups if group.group.label in labels and group.selection]
    for selection in selections:
        if isinstance(selection, TopList | SpelledList):
            return (
                f"the {selection.chosen:,} largest, chosen privately"
                if selection.chosen > 1
                else "the largest, chosen privately"
            )
    return "keys selected privately" if selections else "public keys"


def _notes(plan: Plan) -> Iterator[Note]:
    yield from (note for note in plan.notes if note.if_empty is None)
    yield from matching_notes(plan)
    yield from selection_notes(plan)
    for group in plan.groups:
        if isinstance(group.selection, TopList | SpelledList):
            yield Note(NoteRank.LACK, list_note(group.selection))
        elif group.selection is not None:
            text = (
                f"{GROUPS_SELECTED} with δ = {round_up(group.selection.delta)}: a group appears with "
                f"probability 95 % from {size_words(group)} on. Smaller groups may be missing; "
                "an answer without groups costs the same."
            )
            yield Note(NoteRank.LACK, text + _rounds_words(group.selection))


def _rounds_words(selection: KeySelection) -> str:
    """Say that keys are selected in rounds, where they are."""
    if not isinstance(selection, KeyRounds):
        return ""
    return (
        f" They are selected in {len(selection.rounds)} rounds: after a round, each person is counted in up to "
        f"{selection.groups_per_unit:,} groups that were not found yet."
    )
