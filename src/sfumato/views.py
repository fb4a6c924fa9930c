"""Answers from answers: cells of kept measurements that add up to another question, alone or with a fresh measurement.

Nothing is charged or read here. Proof: proofs/views.md
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial

import numpy as np

from sfumato.accounting.event import Composed
from sfumato.accounting.loss import PrivacyLoss
from sfumato.engines.engine import Engine
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.errors import NotKnown, Refusal, Setting
from sfumato.exact import typed_rational
from sfumato.language.scalar import columns_read
from sfumato.ledger.history import Entry
from sfumato.ledger.ledger import Ledger
from sfumato.planning.accuracy_target import CONFIDENCE
from sfumato.planning.aggregates.average import AverageColumn
from sfumato.planning.aggregates.count import CountColumn
from sfumato.planning.aggregates.sum import SumColumn
from sfumato.planning.canonical_flow import CanonicalFlow
from sfumato.planning.column_origins import origins, shown_unchanged
from sfumato.planning.derived_measurement import DerivedMeasurement, WeightedCells
from sfumato.planning.measurement_identity import MeasurementIdentity, family_of, views_in, words_of
from sfumato.planning.nested_conditions import step_margin
from sfumato.planning.notes.plan_notes import with_notes
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.planning.quote import AnswerSource, Quote, make_quote
from sfumato.planning.view_cells import GroupRows, cells_of
from sfumato.planning.view_signature import TOKEN_CHARS, ViewSignature, combination, measured_terms, signature_of
from sfumato.policy.policy import Policy
from sfumato.prepare import Prepared, QueryPreparer, RequestedPrice
from sfumato.release.derivation import Derivation
from sfumato.release.intervals.forms import Affine
from sfumato.release.intervals.measured_cells import measured_cells
from sfumato.release.intervals.noise_law import moments_of
from sfumato.release.marginal_consistency import shown_cells
from sfumato.release.measured_order import in_plan_order
from sfumato.release.noisy import NoisyGroup, NoisyResult, noisy_from_json
from sfumato.release.receipt import receipt_from_json
from sfumato.release.release import Release
from sfumato.stored_answer import MEASURED_ORDER, StoredAnswer

MAX_VIEWS = 4
"""Maximum number of kept groups that are combined into one group of an answer."""

_MAX_MARGIN_RATIO = Fraction(98, 100)
"""A combination is made where some margin becomes smaller by at least this factor."""
_MARGIN_RATIOS = tuple(Fraction(number, 1000) for number in (1000, 995, 985, 970, 940, 900))
"""Which parts of the best wider margin are tried for a fresh measurement: margins of integer noise come in steps."""

ColumnKey = tuple[str, str]
"""A measurement, by the label of its group and its name."""


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A kept group whose cells add up to those of an asked one."""

    receipt: str
    refines: str
    """The receipt of the answer whose noise its own was drawn from; such numbers are not independent."""
    entry: Entry
    group: GroupPlan
    noisy: NoisyGroup
    places: tuple[tuple[int, ...], ...]
    """For each asked cell the kept ones."""
    factors: Mapping[str, Mapping[str, int]]
    """For each asked measurement, by its name, the kept ones that add up to it."""


@dataclass(frozen=True, slots=True)
class ViewFinder:
    """Looks for kept groups among the last charges about the same rows, of one account or of all."""

    preparer: QueryPreparer
    ledger: Ledger
    account: str | None

    def views_of(self, plan: Plan, measured: MeasurementIdentity, engine: Engine) -> dict[str, list[StoredGroup]]:
        """Return the views of each group of a plan, by its label; empty where some group has none."""
        words = words_of(measured)
        found = {}
        for index, group in enumerate(plan.groups):
            wanted = measured.signature_at(index)
            views = list(self._views(group, wanted, words, engine)) if wanted is not None and _is_plain(group) else []
            if not views:
                return {}
            found[group.group.label] = views
        return found

    def named(self, plan: Plan, words: str, engine: Engine, receipts: Sequence[str]) -> dict[str, list[StoredGroup]]:
        """Return the views with these receipts, which an answer rests on."""
        entries = [entry for receipt in receipts if (entry := self.ledger.settled(receipt)) is not None]
        return {
            group.group.label: [
                view
                for entry in entries
                for view in self._of_entry(group, CanonicalFlow(group.group.rows), words, entry, engine)
            ]
            for group in plan.groups
        }

    def _views(self, group: GroupPlan, wanted: ViewSignature, words: str, engine: Engine) -> Iterator[StoredGroup]:
        accounts = self.ledger.accounts() if self.account is None else (self.account,)
        given, refined, family = 0, set[str](), family_of([wanted.base])
        flow = cache(partial(CanonicalFlow, group.group.rows))  # few kept signatures need it
        for account in accounts:
            for question, receipt in self.ledger.charges_of_family(account, engine.version, family):
                if not any(_may_answer(stored_view, wanted, flow) for stored_view in views_in(question)):
                    continue
                entry = self.ledger.settled(receipt, account)
                for view in () if entry is None else self._of_entry(group, flow(), words, entry, engine):
                    if view.receipt not in refined:  # a release that was refined is no independent number
                        yield view
                        given += 1
                    refined.add(view.refines)
                if given >= MAX_VIEWS:
                    return

    def _of_entry(
        self, asked: GroupPlan, flow: CanonicalFlow, words: str, entry: Entry, engine: Engine
    ) -> Iterator[StoredGroup]:
        """Give the groups of one stored answer whose cells add up to those that are asked for."""
        content = json.loads(entry.release or "{}")
        if content.get("order") != MEASURED_ORDER:
            return
        try:
            kept = StoredAnswer(entry, content).prepare_again(self.preparer, engine)
        except Refusal:
            return  # an older version answered what this one refuses
        measured = kept.names.measured
        if measured is None or content.get("question") not in kept.fingerprint_digests:
            return
        noisy = in_plan_order(noisy_from_json(content["noisy"]), measured, kept.plan)
        receipt = receipt_from_json(content["receipt"])
        drawn_from = "" if receipt.refines in receipt.rests_on else receipt.refines  # fresh noise is independent
        for group, numbers in zip(kept.plan.groups, noisy.groups, strict=True):
            own = CanonicalFlow(group.group.rows)
            signature = signature_of(group, own, words_of(measured))
            factors = {} if signature is None else _factors(asked, flow, group, own)
            if signature is None or factors is None or not _same_rows(asked, flow, signature, words):
                continue
            places = cells_of(GroupRows(asked.group, flow), GroupRows(group.group, own), numbers.keys, evaluate)
            if places is not None:
                listed = tuple(map(tuple, places))
                yield StoredGroup(receipt.id, drawn_from, entry, group, numbers, listed, factors)


def _is_plain(group: GroupPlan) -> bool:
    """Whether all columns of a group have bars for weighted sums in the place of their measurements."""
    return all(isinstance(output, CountColumn | SumColumn | AverageColumn) for output in group.derived)


def _same_rows(asked: GroupPlan, flow: CanonicalFlow, known: ViewSignature, words: str) -> bool:
    wanted = signature_of(asked, flow, words)
    return wanted is not None and wanted.base == known.base


def _may_answer(known: ViewSignature | None, wanted: ViewSignature, flow: Callable[[], CanonicalFlow]) -> bool:
    """Whether a stored signature is worth a closer look."""
    if known is None or known.base != wanted.base or not known.conditions <= wanted.conditions:
        return False
    if any(combination(total, known.sums) is None for total in wanted.sums):
        return False
    needed = set(wanted.leaves)
    for token, made in flow().conditions.items():
        if not any(token.startswith(condition) for condition in known.conditions):
            expanded = flow().expanded(*made)
            needed |= set() if expanded is None else {name[:TOKEN_CHARS] for _, name in columns_read(expanded)}
    return needed <= known.leaves


def _factors(
    asked: GroupPlan, flow: CanonicalFlow, kept: GroupPlan, own: CanonicalFlow
) -> dict[str, dict[str, int]] | None:
    names, known = zip(*((name, terms or {}) for name, terms in measured_terms(kept, own).items()), strict=True)
    found = {}
    for name, terms in measured_terms(asked, flow).items():
        parts = None if terms is None else combination(terms, known)
        if parts is None:
            return None
        found[name] = {names[index]: factor for index, factor in parts.items()}
    return found


def derive(plan: Plan, views: Mapping[str, Sequence[StoredGroup]], own: NoisyResult | None = None) -> Derivation:
    """Return the plan whose measurements are weighted sums of kept cells and, where `own` is given, of its own.

    Independent estimates of one number have weights that are inverse to their variances; what is summed up of one kept
    group alone has whole weights.
    """
    shape = (
        replace(plan, groups=tuple(map(_without_rest, plan.groups)), tables=(), hierarchies=()) if own is None else plan
    )
    groups, numbers = list(shape.groups), list(own.groups if own is not None else map(_empty, shape.groups))
    derived: list[DerivedMeasurement] = []
    rests_on: dict[str, Entry] = {}
    for group, table in zip(shape.groups, tuple(numbers), strict=True):
        labels = []
        for view in views.get(group.group.label, ()):
            labels.append(f"view {len(groups)} of {group.group.label}")
            groups.append(replace(view.group, group=replace(view.group.group, label=labels[-1]), derived=()))
            numbers.append(view.noisy)
            rests_on[view.receipt] = view.entry
        found = list(zip(labels, views.get(group.group.label, ()), strict=True))
        shown = shown_cells(table)
        if found:
            derived += [_weighted_measurement(group, name, found, shown, own is not None) for name in _names(group)]
    made = replace(shape, groups=tuple(groups), derived=tuple(derived))
    if own is None:
        events = tuple(entry.event for entry in rests_on.values() if entry.event is not None)
        paid = Composed(events) if len(events) > 1 else events[0]
        made = with_notes(replace(made, loss=PrivacyLoss(Fraction(0)), event=paid))
    noisy = NoisyResult(tuple(numbers), 0 if own is None else own.bits)
    return Derivation(made, noisy, tuple(rests_on), days_of(rests_on.values()), _margins(made, noisy))


def from_views(asked: Prepared, finder: ViewFinder, *, at_any_accuracy: bool = False) -> Prepared:
    """Return a question over kept cells that add up to it: alone, if they are as exact as it asks, or with its own.

    Otherwise return it as it is. Kept cells that would do without blocks of an ordered key do with them, too.
    """
    if asked.plan.hierarchies:
        apart = next(((plan, names) for plan, names in asked.plans if not plan.hierarchies), None)
        if apart is not None:
            flat = replace(asked, plan=apart[0], outcomes=(apart[0],), names=apart[1])
            found = from_views(flat, finder, at_any_accuracy=at_any_accuracy)
            if found.known is not None:
                return found
    measured = asked.names.measured
    if measured is None or asked.plan.event is None or len(asked.outcomes) > 1:
        return asked
    views = finder.views_of(asked.plan, measured, asked.engine)
    if not views:
        return asked
    known = derive(asked.plan, views)
    if at_any_accuracy or is_as_exact(known, asked.plan, asked.price_target.within):
        return replace(asked, known=known)
    if asked.plan.combines_groups:
        return asked  # its own groups are combined with each other
    return _cheaper(asked, views, finder) if asked.price_target.within else _combine(asked, views)


def _combine(asked: Prepared, views: Mapping[str, Sequence[StoredGroup]]) -> Prepared:
    """Return a question whose fresh numbers are combined with kept ones, where that makes a difference."""
    found = derive(asked.plan, views, unmeasured(asked.plan))
    alone = _margins_alone(asked.plan)
    helps = any(margin <= _MAX_MARGIN_RATIO * alone[name] for name, margin in found.margins.items() if name in alone)
    return replace(asked, combined=found) if helps else asked


def _cheaper(asked: Prepared, views: Mapping[str, Sequence[StoredGroup]], finder: ViewFinder) -> Prepared:
    """Return the cheapest question found that has the margins that were asked for together with kept numbers."""
    within = asked.price_target.within
    known = column_margins(derive(asked.plan, views))
    if any(name not in known or known[name] <= 0 for name, _ in within):
        return asked
    shares = [1 - min(margin / known[name], Fraction(1)) ** 2 for name, margin in within]
    best = Fraction(1 / max(float(max(shares)), 1e-6) ** 0.5).limit_denominator(10**6)  # variances add inversely
    for part in _MARGIN_RATIOS:
        factor = best * part
        price = RequestedPrice(
            None, {name: (margin * factor).limit_denominator(10**6) for name, margin in within}, None, None
        )
        if factor <= 1:
            return asked
        try:
            wider = finder.preparer.prepare(asked.sql, None, price, None, asked.engine)
        except Refusal:
            continue
        if wider.plan.event is None or wider.plan.combines_groups or wider.plan.loss.epsilon >= asked.plan.loss.epsilon:
            continue
        if [_names(group) for group in wider.plan.groups] != [_names(group) for group in asked.plan.groups]:
            continue
        found = derive(wider.plan, views, unmeasured(wider.plan))
        if is_as_exact(found, wider.plan, within):
            return replace(wider, combined=found)
    return asked


def combine_again(asked: Prepared, noisy: NoisyResult, receipts: Sequence[str], finder: ViewFinder) -> Derivation:
    """Return the noisy numbers of an answer combined with those that it rests on, as when it was given."""
    measured = asked.names.measured
    words = "" if measured is None else words_of(measured)
    return derive(asked.plan, finder.named(asked.plan, words, asked.engine, receipts), noisy)


def unmeasured(plan: Plan) -> NoisyResult:
    """Return the cells of a plan as if they were empty: margins are computed from them before data is read."""
    return NoisyResult(tuple(map(_empty, plan.groups)), 0)


def asks_for_what_is_known(price: RequestedPrice) -> bool:
    """Whether a price is 0: what is known already, or nothing."""
    given = [price.epsilon] if price.epsilon is not None else []
    if isinstance(price.share, str) and price.share.strip().endswith("%"):
        given.append(price.share.strip()[:-1].rstrip())
    elif price.share is not None:
        given.append(price.share)
    return len(given) == 1 and price.within is None and typed_rational(given[0], "epsilon") == 0


def nominal_price(policy: Policy) -> RequestedPrice:
    """Return a price that plans a question which is not charged."""
    return RequestedPrice(min(Fraction(1), policy.budget.epsilon))


def named_price(price: RequestedPrice, policy: Policy) -> RequestedPrice:
    """Return a price as it was said; where none was, one that plans a question which is not charged."""
    if any(one is not None for one in (price.epsilon, price.within, price.share)):
        return price
    return replace(nominal_price(policy), delta=price.delta)


def not_known(fresh: Prepared) -> NotKnown:
    """Refuse a question that was asked for what is known, with the price of a fresh answer."""
    quote = make_quote(fresh.plan)
    return NotKnown(
        "Earlier answers do not tell this.",
        "With epsilon = 0 an answer uses only what was measured before, for this account and snapshot.",
        ("A fresh answer costs for example ", Setting("share", "1%"), f" ({quote.loss}{quote.bought()})."),
    )


def sourced_quote(asked: Prepared, quote: Quote, ledger: Ledger, account: str) -> Quote:
    """Return the quote of a question with where its answer comes from, and the days of the account's own answers."""
    entries = [ledger.settled(receipt, account) for receipt in _used_receipts(asked, ledger, account)]
    quote = replace(quote, answered=days_of(entry for entry in entries if entry is not None))
    if asked.known is not None:
        return quote_of(asked.known, quote, AnswerSource.KNOWN)
    if asked.refinement is not None or asked.refines:
        if asked.combined is not None:
            quote = quote_of(asked.combined, quote, AnswerSource.COMBINED)
        note = f"Refines your answer of {quote.answered} for the difference of the prices."
        return replace(quote, source=AnswerSource.REFINED, notes=(note, *quote.notes))
    if asked.combined is not None:
        return quote_of(asked.combined, quote, AnswerSource.COMBINED)
    return replace(quote, source=AnswerSource.KNOWN) if asked.costs_nothing else quote


def _used_receipts(asked: Prepared, ledger: Ledger, account: str) -> tuple[str, ...]:
    """Return the receipts of the earlier answers that a question uses."""
    if asked.refinement is not None:
        return (asked.refinement.receipt,)
    if (derived := asked.known or asked.combined) is not None:
        return derived.rests_on
    stored = asked.kept
    if stored is None and asked.paid:
        names = (asked.fingerprint, *asked.names.older)
        stored = next(filter(None, (ledger.stored(account, name, asked.engine.version) for name in names)), None)
    return () if stored is None else (receipt_from_json(json.loads(stored)["receipt"]).id,)


def free_text(release: Release, entry: Callable[[str], Entry | None]) -> str:
    """Say that an answer was paid for before, and when; `entry` finds charges of this account, and no others."""
    entries = [entry(receipt) for receipt in (release.receipt.id, *release.receipt.rests_on)]
    found = [item for item in entries if item is not None]
    own = found[:1] if entries[0] is not None else found
    return f"free: from your answer of {days_of(own)}" if own else "free: from an earlier answer"


def is_as_exact(known: Derivation, plan: Plan, within: Sequence[tuple[str, Fraction]]) -> bool:
    """Whether derived numbers have no more noise than a plan, or lie within the margins that were asked for."""
    if within:
        margins = column_margins(known)
        return all(name in margins and margins[name] <= margin for name, margin in within)
    return all(known.margins[name] <= margin for name, margin in _margins_alone(plan).items())


def _margins_alone(plan: Plan) -> dict[ColumnKey, int]:
    """Return how far what a plan measures may be off, without kept numbers: sums of steps in the place of steps."""
    found: dict[ColumnKey, int] = {}
    for group in plan.groups:
        inside = {total.steps[0] for total in group.sums}
        names = [
            *(measurement.name for measurement in group.measured if measurement.name not in inside),
            *(total.name for total in group.sums),
        ]
        margins = {(group.group.label, name): step_margin(group, name) for name in names}
        found |= {name: margin for name, margin in margins.items() if margin is not None}
    return found


def column_margins(known: Derivation) -> dict[str, Fraction]:
    """Return how far the columns of an answer may be off that are derived numbers and nothing else."""
    plan, found = known.plan, dict[str, Fraction]()
    derived = {(group.group.label, output.name): output for group in plan.groups for output in group.derived}
    for name, origin in zip(plan.private.names, origins(plan.private), strict=True):
        source = shown_unchanged(origin, derived)
        one = None if source is None else derived[source]
        if source is not None and one is not None and one.plain is not None:
            margin = known.margins.get((source[0], one.plain))
            if margin is not None:
                found[name] = max(margin * one.step, found.get(name, Fraction(0)))
    return found


def quote_of(known: Derivation, quote: Quote, source: AnswerSource) -> Quote:
    """Return a quote with the margins of derived numbers, and where they come from."""
    margins = column_margins(known)
    shown: dict[str, int | float | None] = {
        name: _as_margin(margins[name]) if name in margins else None for name in quote.margins
    }
    answers = f"{len(known.rests_on)} earlier answer{'s' * (len(known.rests_on) > 1)}"
    words = f"computed from {answers}" if source is AnswerSource.KNOWN else f"combined with {answers}"
    made = {name: words if name in quote.margins else told for name, told in quote.mechanisms.items()}
    return replace(quote, margins=shown, mechanisms=made, source=source)


def _as_margin(margin: Fraction) -> int | float:
    return int(margin) if margin.denominator == 1 else float(margin)


def days_of(entries: Iterable[Entry]) -> str:
    """Return the days of charges as people read them."""
    days = dict.fromkeys(f"{entry.time.day} {entry.time:%B %Y}" for entry in entries)
    return " and ".join(days)


def _names(group: GroupPlan) -> list[str]:
    return [measurement.name for measurement in group.measured]


def _weighted_measurement(
    group: GroupPlan, name: str, views: Sequence[tuple[str, StoredGroup]], shown: Sequence[int], with_own: bool
) -> DerivedMeasurement:
    own = next(measurement for measurement in group.measured if measurement.name == name)
    variances = [_cell_variances(view, name) for _, view in views]
    fresh = moments_of(own.mechanism)[0] if with_own else None
    parts: dict[ColumnKey, tuple[list[int], list[int], list[float]]] = {}
    known: dict[tuple[float, ...], list[float]] = {}
    for row, index in enumerate(shown):
        each = (*(variance[row] for variance in variances), *(() if fresh is None else (fresh,)))
        weights = known.get(each)
        if weights is None:
            weights = known[each] = _inverse_shares(each)
        for weight, (label, view) in zip(weights, views, strict=False):
            for part, factor in view.factors[name].items():
                rows, cells, values = parts.setdefault((label, part), ([], [], []))
                rows += [row] * len(view.places[row])
                cells += view.places[row]
                values += [weight * factor] * len(view.places[row])
        if fresh is not None:
            rows, cells, values = parts.setdefault((group.group.label, name), ([], [], []))
            rows.append(row)
            cells.append(index)
            values.append(weights[-1])
    listed = tuple(WeightedCells(*at, tuple(r), tuple(c), tuple(w)) for at, (r, c, w) in parts.items())
    return DerivedMeasurement(group.group.label, name, listed)


def _cell_variances(view: StoredGroup, name: str) -> list[float]:
    """Return the variance of an asked measurement in every asked cell, from the kept cells that add up to it."""
    laws = {one.name: one.mechanism for one in view.group.measured}
    of_one = sum(factor**2 * moments_of(laws[part])[0] for part, factor in view.factors[name].items())
    return [of_one * len(places) for places in view.places]


def _inverse_shares(variances: Sequence[float]) -> list[float]:
    """Return weights that are inverse to variances and add up to 1."""
    if len(variances) == 1:
        return [1.0]
    each = [max(variance, 1e-300) for variance in variances]
    precision = [min(each) / one for one in each]
    return [one / sum(precision) for one in precision]


def _without_rest(group: GroupPlan) -> GroupPlan:
    keys = tuple(replace(key, has_remainder=False, null_is_apart=False) for key in group.group.keys)
    return replace(group, group=replace(group.group, keys=keys))


def _empty(group: GroupPlan) -> NoisyGroup:
    """Return the cells of a group that is not measured."""
    keys = group.group.all_cells()
    return NoisyGroup(keys, tuple((measurement.name, (0,) * len(keys)) for measurement in group.measured))


def _margins(plan: Plan, noisy: NoisyResult) -> dict[ColumnKey, Fraction]:
    cells = measured_cells(plan, noisy)
    sizes = {
        group.group.label: len(shown_cells(noisy_group))
        for group, noisy_group in zip(plan.groups, noisy.groups, strict=True)
    }
    found = {}
    names = [(output.label, output.name) for output in plan.derived]
    names += [(group.group.label, total.name) for group in plan.groups if group.derived for total in group.sums]
    for label, name in names:
        rows = sizes[label]
        form = Affine(cells, np.zeros(rows), *cells.entries(label, name, rows))
        found[label, name] = Fraction(float(form.margin(1 - CONFIDENCE).max(initial=0.0)))
    return found
