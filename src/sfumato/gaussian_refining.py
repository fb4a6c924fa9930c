"""A finer answer by fresh Gaussian noise that, together with earlier answers, has the precision that was asked for.

The charge is the difference of the Rényi losses, exactly: precisions of Gaussian noise add up, and so do its losses.
Proof: proofs/refinement.md, (5) and (6)
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice

from sfumato.accounting.gaussian_curve import epsilon_of
from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import Refusal
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.max_norm import MaxNormPart
from sfumato.planning.measurement_identity import MeasurementIdentity, cells_prefix, words_of
from sfumato.planning.noise import event_of, variance_of
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.prepare import Prepared
from sfumato.release.derivation import Derivation
from sfumato.release.receipt import receipt_from_json
from sfumato.release.stages import with_any_value
from sfumato.stored_answer import MEASURED_ORDER, StoredAnswer, with_gaussian_noise
from sfumato.views import ColumnKey, StoredGroup, ViewFinder, column_margins, derive, is_as_exact, unmeasured

MAX_CHAIN_ANSWERS = 16
"""Maximum number of earlier answers that one refinement is combined with."""
_MAX_COMPARED_ANSWERS = 4
"""How many of the last answers to the same question are tried."""
_MAX_STEPS = 6
"""How often variances are changed until margins are as asked: those of weighted sums are no integers."""
_STEP_BACK = Fraction(9999, 10000)
_SMALL_STEP = Fraction(1001, 1000)
"""Variances that could be larger by less than this factor are large enough."""

Views = Mapping[str, Sequence[StoredGroup]]


def gaussian_refined(asked: Prepared, combined: Prepared, finder: ViewFinder, account: str) -> Prepared:
    """Return a question that refines earlier answers to it by fresh Gaussian noise, where that is cheaper.

    Otherwise return it `combined` with what is known. Budgets have to have a delta. With an epsilon the plan itself has
    to have Gaussian noise: for other noise of this price the difference could have a larger epsilon.
    """
    variances, measured = _variances(asked), asked.names.measured
    if variances is None or measured is None:
        return combined
    for receipt, views in islice(_chains(asked, measured, finder), _MAX_COMPARED_ANSWERS):
        found = _refine(asked, measured, variances, receipt, views, finder)
        if found is None:
            continue
        if found.known is not None or _is_cheaper(found, combined, finder, account):
            names = (found.fingerprint, *found.names.older)
            event = found.plan.event
            paid = event is not None and finder.ledger.is_paid(account, names, asked.engine.version, event)
            return found if found.known is not None else replace(found, paid=paid)
    return combined


def _variances(asked: Prepared) -> dict[ColumnKey, Fraction] | None:
    """Return the variances that were asked for; None where something else than noise on public cells is planned."""
    plan = asked.plan
    if plan.event is None or plan.combines_groups or plan.private.first or len(asked.outcomes) > 1:
        return None
    found: dict[ColumnKey, Fraction] = {}
    for group in plan.groups:
        if group.selection is not None or group.chosen:
            return None
        for measurement in group.measured:
            mechanism = measurement.mechanism
            if measurement.bound is not None or not isinstance(mechanism, Gaussian | Laplace | MaxNormPart):
                return None
            if not isinstance(mechanism, Gaussian) and asked.price_target.epsilon is not None:
                return None
            found[group.group.label, measurement.name] = variance_of(mechanism)
    return found or None


def _chains(asked: Prepared, measured: MeasurementIdentity, finder: ViewFinder) -> Iterator[tuple[str, Views]]:
    """Give earlier Gaussian answers to the same question, each with all that it is made from."""
    accounts = finder.ledger.accounts() if finder.account is None else (finder.account,)
    cells = [(group.cells, group.quantities) for group in measured.groups]
    for account in accounts:
        for _, entry in finder.ledger.charges_beginning(account, asked.engine.version, cells_prefix(measured.cells)):
            content = json.loads(entry.release or "{}")
            if content.get("order") != MEASURED_ORDER:
                continue
            try:
                kept = StoredAnswer(entry, content).prepare_again(finder.preparer, asked.engine)
            except Refusal:
                continue  # an older version answered what this one refuses
            known = kept.names.measured
            if known is None or [(group.cells, group.quantities) for group in known.groups] != cells:
                continue
            if not all(
                isinstance(measurement.mechanism, Gaussian)
                for group in kept.plan.groups
                for measurement in group.measured
            ):
                continue
            receipt = receipt_from_json(content["receipt"])
            parts = (receipt.id, *receipt.rests_on)[:MAX_CHAIN_ANSWERS]
            found = finder.named(asked.plan, words_of(measured), asked.engine, parts)
            views = {label: [view for view in every if _is_same_question(view)] for label, every in found.items()}
            if all(views.values()):
                yield receipt.id, views


def _is_same_question(view: StoredGroup) -> bool:
    """Whether a view has the cells that are asked for, one for one, each number with Gaussian noise."""
    if any(len(places) != 1 for places in view.places):
        return False
    mechanisms = {measurement.name: measurement.mechanism for measurement in view.group.measured}
    return all(
        list(parts.values()) == [1] and isinstance(mechanisms[next(iter(parts))], Gaussian)
        for parts in view.factors.values()
    )


def _refine(
    asked: Prepared,
    measured: MeasurementIdentity,
    variances: Mapping[ColumnKey, Fraction],
    receipt: str,
    views: Views,
    finder: ViewFinder,
) -> Prepared | None:
    """Return the question with the missing precision as fresh noise; None where parts of it are known well enough."""
    precision = {
        (label, name): sum((1 / _sigma_squared(view, name) for view in views[label]), Fraction(0))
        for label, name in variances
    }
    within, factor, best = asked.price_target.within, Fraction(1), None
    for _ in range(_MAX_STEPS):
        missing = {column: 1 / (variances[column] * factor) - precision[column] for column in variances}
        if not within and all(rest <= 0 for rest in missing.values()):
            return replace(asked, known=derive(asked.plan, views), combined=None)
        if any(rest <= 0 for rest in missing.values()):
            break
        plan = _with_variances(asked.plan, {column: 1 / rest for column, rest in missing.items()}, asked)
        found = derive(plan, views, unmeasured(plan))
        if not within or is_as_exact(found, plan, within):
            best = plan, found
        step = _step(found, within)
        if best is not None and step < _SMALL_STEP:
            break
        factor *= step
    if best is None:
        return None
    plan, found = best
    made, job = with_gaussian_noise(asked, plan, receipt), asked.engine.prepare(with_any_value(plan))
    return replace(made, job=job, combined=found, refines=receipt)


def _sigma_squared(view: StoredGroup, name: str) -> Fraction:
    (kept,) = view.factors[name]
    mechanism = next(measurement.mechanism for measurement in view.group.measured if measurement.name == kept)
    if not isinstance(mechanism, Gaussian):
        raise AssertionError("only Gaussian noise is refined by Gaussian noise")
    return mechanism.sigma_squared


def _with_variances(plan: Plan, variances: Mapping[ColumnKey, Fraction], asked: Prepared) -> Plan:
    """Return a plan with Gaussian noise of these variances, and what it costs.

    The numbers of a vector get variances in proportion to how far a person moves them: the loss of one is that of all.
    """
    smooth = {group.group.label for group in plan.groups if group.vector and _is_smooth(group)}
    for group in plan.groups:
        if group.group.label in smooth:
            moved = {
                measurement.name: measurement.sensitivity.l2_squared
                for measurement in group.measured
                if measurement.name in group.vector
            }
            unit = min(variances[group.group.label, name] / squared for name, squared in moved.items())
            variances = {**variances, **{(group.group.label, name): unit * squared for name, squared in moved.items()}}
    groups = tuple(
        replace(
            group,
            vector=group.vector if group.group.label in smooth else (),
            measured=tuple(
                replace(
                    measurement,
                    mechanism=Gaussian(
                        measurement.sensitivity.l2_squared,
                        variances[group.group.label, measurement.name],
                        measurement.sensitivity.neighbours,
                    ),
                )
                for measurement in group.measured
            ),
        )
        for group in plan.groups
    )
    delta = asked.price_target.delta
    parts = [vector for group in groups for vector in group.gaussian_parts]
    return replace(plan, groups=groups, loss=PrivacyLoss(epsilon_of(parts, delta), delta), event=event_of(groups))


def _is_smooth(group: GroupPlan) -> bool:
    """Whether a vector was planned with Gaussian noise: then what refines it is one, too (proofs/null_counts.md, 1)."""
    return all(
        isinstance(measurement.mechanism, Gaussian)
        for measurement in group.measured
        if measurement.name in group.vector
    )


def _step(found: Derivation, within: Sequence[tuple[str, Fraction]]) -> Fraction:
    """Return by what variances are multiplied so that margins become those that were asked for; 1 without any."""
    margins = column_margins(found)
    ratios = [margin / margins[name] for name, margin in within if margins.get(name)]
    return (min(ratios) ** 2 * _STEP_BACK).limit_denominator(10**6) if ratios else Fraction(1)


def _is_cheaper(found: Prepared, asked: Prepared, finder: ViewFinder, account: str) -> bool:
    """Whether fresh Gaussian noise uses less of the account than the question as it was planned."""
    if found.plan.event is None or asked.plan.event is None:
        return False
    own = finder.ledger.account(account, asked.paying)
    used, before = own.used_after(found.plan.event), own.used_after(asked.plan.event)
    return used is not None and (before is None or used < before)
