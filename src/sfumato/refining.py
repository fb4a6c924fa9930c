"""A finer answer to the same question for the difference of the prices, where losses are pure and noise is Laplace.

Under a budget with a delta `gaussian_refining` does so by fresh noise.
Each answer is refined at most once: its charge has a key that no other charge of the account can have.
Proof: proofs/refinement.md
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np

from sfumato.accounting.event import Composed, LaplaceRefinement, is_refinement
from sfumato.accounting.loss import PrivacyLoss
from sfumato.accounting.pure import epsilon
from sfumato.engines.aggregates import Aggregates
from sfumato.engines.engine import Engine
from sfumato.errors import EngineFailed, Refusal
from sfumato.gaussian_refining import gaussian_refined
from sfumato.granted_texts import prepare_as_granted
from sfumato.kept_answers import from_stored_measurements
from sfumato.ledger.history import Entry
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.one_time_grants import has_grant, no_such_grant
from sfumato.mechanisms.answers import integer_answers
from sfumato.mechanisms.laplace import Laplace
from sfumato.planning.measurement_identity import MeasurementIdentity, cells_prefix
from sfumato.planning.plan import Plan
from sfumato.policy.policy import Policy
from sfumato.prepare import Prepared, QueryPreparer, Refinement, RequestedPrice
from sfumato.randomness.refined_laplace import RefinedLaplace
from sfumato.randomness.source import Source
from sfumato.release.measured_order import in_plan_order
from sfumato.release.noisy import NoisyGroup, NoisyResult, noisy_from_json
from sfumato.release.receipt import receipt_from_json
from sfumato.stored_answer import MEASURED_ORDER, StoredAnswer
from sfumato.views import ViewFinder, asks_for_what_is_known, from_views, nominal_price, not_known

Scales = Mapping[tuple[str, str], Fraction]
"""The scale of each measurement, by label and name."""


def source_answer(
    sql: str,
    parameters: object,
    price: RequestedPrice,
    key: str | None,
    engine: Engine,
    finder: ViewFinder,
    account: str,
    policy: Policy,
) -> Prepared:
    """Return a question with what answers it: kept measurements where they are as exact as it asks, or its own.

    With an epsilon or share of 0 only what is known may answer it.
    """
    known = asks_for_what_is_known(price)
    prepare = finder.preparer.prepare
    said = nominal_price(policy) if known else price
    alone = not known and finder.account is not None  # other accounts' answers may have been measured in other ways
    asked = prepare_as_granted(finder.preparer, sql, parameters, said, key, engine, alone=alone)
    if asked.only_granted:
        return granted_answer(asked, finder.ledger, account)
    if asked.plan.event is None:
        return asked
    asked = from_stored_measurements(asked, finder.preparer, finder.ledger, finder.account, at_any_accuracy=known)
    fresh = asked
    if not asked.costs_nothing:
        asked = from_views(asked, finder, at_any_accuracy=known)
    if asked.costs_nothing:
        return asked
    if known:
        raise not_known(prepare(sql, parameters, RequestedPrice(share="1%"), None, engine))
    if key is not None or (_renews(policy, account) and not policy.budget.delta):
        return asked  # beyond the window of the first answer the difference of pure losses is not the price
    if has_grant(finder.ledger.open_requests(), account, asked.fingerprint, asked.plan.event):
        return asked  # the owner has granted this measurement, not a finer one of an earlier answer
    if asked.is_new:
        return asked  # no answer that could be refined
    if policy.budget.delta:  # the conditional draw would cost more than the difference
        return gaussian_refined(fresh, asked, finder, account)
    return refined(asked, finder.preparer, finder.ledger, account)


def _renews(policy: Policy, account: str) -> bool:
    """Whether a cap that a charge of an account counts against begins anew with each window."""
    analyst = policy.analyst(account) if account else None
    return policy.budget.every is not None or (analyst is not None and analyst.every is not None)


def granted_answer(asked: Prepared, ledger: Ledger, account: str) -> Prepared:
    """Return a question whose names the owner has granted, if it is paid for or its grant is open; or refuse."""
    names = (asked.names.fingerprint, *asked.names.older)
    event = asked.plan.event
    if event is not None and ledger.is_paid(account, names, asked.engine.version, event):
        return replace(asked, paid=True)
    if not has_grant(ledger.open_requests(), account, asked.fingerprint, event):
        raise no_such_grant()
    return asked


def is_known(asked: Prepared, finder: ViewFinder) -> bool:
    """Whether kept measurements answer a question at no cost."""
    found = from_stored_measurements(asked, finder.preparer, finder.ledger, finder.account)
    return found.costs_nothing or from_views(found, finder).costs_nothing


def refined(asked: Prepared, preparer: QueryPreparer, ledger: Ledger, account: str) -> Prepared:
    """Return a question that refines an earlier answer of the account; as it is where none can be refined.

    Losses have to be pure: with a delta the conditional draw would cost more than the difference.
    """
    measured, scales = asked.names.measured, _scales(asked.plan)
    if measured is None or scales is None or asked.plan.event is None or len(asked.outcomes) > 1:
        return asked
    done: set[str] = set()
    best: tuple[Fraction, Refinement, PrivacyLoss, Composed] | None = None
    for question, entry in ledger.charges_beginning(account, asked.engine.version, cells_prefix(measured.cells)):
        content = json.loads(entry.release or "{}")
        receipt = receipt_from_json(content["receipt"])
        done.add(receipt.refines)
        if receipt.id in done or content.get("order") != MEASURED_ORDER:
            continue
        found = _earlier(asked, measured, scales, question, entry, content, preparer)
        if found is None:
            continue
        before, noisy, paid_loss = found
        events = _difference(asked.plan, before)
        if sum((event.sensitivity / event.before for event in events), Fraction(0)) > paid_loss:
            continue  # other measurements were charged as one: the difference would not lead to this price
        loss = PrivacyLoss(sum((event.added_loss for event in events), Fraction(0)))
        if best is None or loss.epsilon < best[0]:
            refinement = Refinement(receipt.id, entry.time, noisy, before, asked)
            best = loss.epsilon, refinement, loss, Composed(events)
    if best is None:
        return asked
    _, refinement, loss, event = best
    plan = replace(asked.plan, loss=loss, event=event)
    names = (asked.fingerprint, *asked.names.older)
    # by an attempt that ended before its answer
    paid = ledger.is_paid(account, names, asked.engine.version, event, refinement.key)
    return replace(asked, plan=plan, outcomes=(plan,), refinement=refinement, combined=None, paid=paid)


def _difference(plan: Plan, before: Scales) -> tuple[LaplaceRefinement, ...]:
    """Return what smaller noise costs beside the noise before it; measurements of a vector are charged as one.

    Proof: proofs/refinement.md, (2) and (7)
    """
    events: list[LaplaceRefinement] = []
    for group in plan.groups:
        together: list[LaplaceRefinement] = []
        for measurement in group.measured:
            noise = measurement.mechanism
            if not isinstance(noise, Laplace):
                raise AssertionError("only Laplace noise is refined")
            earlier = before[group.group.label, measurement.name]
            event = LaplaceRefinement(noise.sensitivity, earlier, noise.scale, noise.neighbours)
            (together if measurement.name in group.vector else events).append(event)
        if together:
            wider = min(event.before / event.sensitivity for event in together)
            finest = min(event.scale / event.sensitivity for event in together)
            events.append(LaplaceRefinement(1, wider, finest, together[0].neighbours))
    return tuple(events)


def _earlier(
    asked: Prepared,
    measured: MeasurementIdentity,
    scales: Scales,
    question: str,
    entry: Entry,
    content: Mapping[str, str],
    preparer: QueryPreparer,
) -> tuple[Scales, NoisyResult, Fraction] | None:
    """Return the scales and numbers of an answer to the same question with more noise on every number.

    The last is its pure loss, which was charged for it and all that it refines.
    """
    try:
        kept = StoredAnswer(entry, content).prepare_again(preparer, asked.engine)
    except Refusal:
        return None
    known, other = kept.names.measured, _scales(kept.plan)
    event = kept.plan.event if is_refinement(entry.event) else entry.event
    if known is None or other is None or event is None or question not in (known.text, known.first_text):
        return None
    if [(group.cells, group.quantities) for group in known.groups] != [
        (group.cells, group.quantities) for group in measured.groups
    ]:
        return None
    before: dict[tuple[str, str], Fraction] = {}
    for group, own in zip(known.groups, measured.groups, strict=True):
        names = (kept.plan.groups[group.place].group.label, asked.plan.groups[own.place].group.label)
        for name, own_name in zip(group.columns, own.columns, strict=True):
            before[names[1], own_name] = other[names[0], name]
    if any(before[name] <= scale for name, scale in scales.items()):
        return None
    noisy = in_plan_order(noisy_from_json(content["noisy"]), measured, asked.plan)
    return before, noisy, Fraction(epsilon(event))


def _scales(plan: Plan) -> dict[tuple[str, str], Fraction] | None:
    """Return the scales of a plan that is nothing but independent Laplace noise on public cells; else None."""
    found = {}
    for group in plan.groups:
        if group.selection is not None or group.chosen:
            return None
        for measurement in group.measured:
            if not isinstance(measurement.mechanism, Laplace) or measurement.bound is not None:
                return None
            found[group.group.label, measurement.name] = measurement.mechanism.scale
    return found


def publish_refined(plan: Plan, aggregates: Aggregates, refinement: Refinement, source: Source) -> NoisyResult:
    """Draw smaller noise given the earlier one.

    Theorem: the result has the law of a fresh release of the plan, and the earlier release is it with independent noise
    on top.  Proof: proofs/refinement.md
    """
    groups = []
    for group, exact, earlier in zip(plan.groups, aggregates.groups, refinement.noisy.groups, strict=True):
        if tuple(exact.keys) != earlier.keys:
            raise EngineFailed
        columns = []
        for measurement in group.measured:
            if not isinstance(measurement.mechanism, Laplace):
                raise AssertionError("only Laplace noise is refined")
            values = integer_answers(np.asarray(exact.columns[measurement.name])).astype(object)
            larger = np.array(earlier.numbers(measurement.name), dtype=object) - values
            law = RefinedLaplace(refinement.before[group.group.label, measurement.name], measurement.mechanism.scale)
            columns.append((measurement.name, tuple(int(value) for value in values + law.draw(larger, source))))
        groups.append(NoisyGroup(earlier.keys, tuple(columns)))
    return NoisyResult(tuple(groups), 0)
