"""The stored part of an answer, and how the same answer is made again from it. Nothing is charged or read."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sfumato.accounting.event import Composed, Concentrated, Event, GaussianNoise, is_refinement
from sfumato.engines.engine import Engine
from sfumato.errors import BadParameter, UnknownName, quote_value
from sfumato.exact import integer
from sfumato.granted_texts import prepare_as_granted
from sfumato.ledger.charge import Charge
from sfumato.ledger.history import Entry
from sfumato.ledger.payer import ChargedRelease, Payer
from sfumato.ledger.windows import budget_notes
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.planning.fingerprint import first_spelling
from sfumato.planning.margin_targets import goal_from_json
from sfumato.planning.measurement_identity import measurement_identity, words_of
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.planning.price_target import StoredPlanKey, account_of_share, price_target_to_json, split_of, weights_of
from sfumato.planning.release_names import ReleaseNames
from sfumato.policy.policy import Policy, Sharing
from sfumato.prepare import Prepared, QueryPreparer, RequestedPrice
from sfumato.randomness.source import declared_gamma
from sfumato.release.measured_order import in_measured_order, in_plan_order
from sfumato.release.noisy import NoisyResult, noisy_from_json, noisy_to_json
from sfumato.release.publish import needed_bits
from sfumato.release.receipt import Receipt, receipt_from_json, receipt_to_json

MEASURED_ORDER = "measured"
"""The order of the numbers of a stored release that is named by what was measured."""
_PRICES = ("epsilon", "within", "share", "delta")


def answer_to_json(receipt: Receipt, noisy: NoisyResult, asked: Prepared) -> str:
    """Return what is stored of an answer; with its price target, the same plan can be made again."""
    target = price_target_to_json(asked.price_target)
    measured = asked.names.measured
    if measured is not None:
        noisy = in_measured_order(noisy, measured)
    content = {"receipt": receipt_to_json(receipt), "noisy": noisy_to_json(noisy), "wish": target}
    content |= {} if measured is None else {"order": MEASURED_ORDER}
    together = {"together": len(asked.texts), "texts": asked.texts} if len(asked.texts) > 1 else {}
    return json.dumps({**content, "question": asked.fingerprint_digest, **together})


def charged_release(asked: Prepared, policy: Policy) -> ChargedRelease:
    """Return what a ledger is asked to charge for a question."""
    plan = asked.plan
    if plan.event is None:
        raise AssertionError("what is free is not charged")
    shared = policy.answers is Sharing.SHARED
    charged = (asked.fingerprint, asked.sql, plan.event, plan.loss, asked.engine.version, shared)
    found = ChargedRelease(*charged, cohorts=asked.paying, older=asked.names.older)
    return replace(found, only_granted=asked.only_granted)


def make_receipt(
    asked: Prepared,
    name: str,
    payer: Payer,
    policy: Policy,
    timing: str,
    charge: Charge | None,
    noisy: NoisyResult | None,
) -> Receipt:
    """Return the receipt of an answer; without a charge it was free."""
    bits, needed = (0, 0) if noisy is None else (noisy.bits, needed_bits(asked.plan, noisy))
    return Receipt(
        name,
        payer.policy,
        asked.engine.version,
        asked.plan.loss,
        None if charge is None else charge.sequence,
        None if charge is None else charge.head,
        bits,
        timing,
        payer.source.name,
        declared_gamma(payer.source),
        needed,
        asked.units,
        promise="".join(budget_notes(policy)),
        cohorts=() if charge is None or asked.paying is None else asked.paying.visible_names,
    )


def answer_from_json(text: str, asked: Prepared) -> tuple[NoisyResult, Receipt]:
    """Return the noisy numbers of a stored answer in the order of the plan that asks for them, and its receipt.

    A release of a version before 0.10 is found by the text of its question, and has the order of that plan.
    """
    content = json.loads(text)
    noisy, measured = noisy_from_json(content["noisy"]), asked.names.measured
    if measured is not None and content.get("order") == MEASURED_ORDER:
        noisy = in_plan_order(noisy, measured, asked.plan)
    return noisy, receipt_from_json(content["receipt"])


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An entry of the ledger that has an answer, with what was stored of it."""

    entry: Entry
    content: Mapping[str, Any]

    def prepare_again(self, preparer: QueryPreparer, engine: Engine) -> Prepared:
        """Return the question as it was asked, with the plan that it was charged for."""
        target = self.content.get("wish") or {"epsilon": str(self.entry.loss.epsilon)}
        plan = StoredPlanKey(
            self.entry.event,
            account_of_share(target),
            self.content.get("question"),
            weights_of(target),
            split_of(target),
        )
        epsilon, within, share, delta = (target.get(name) for name in _PRICES)
        price = RequestedPrice(epsilon, within, share, delta, plan)
        if "texts" not in self.content:
            found = prepare_as_granted(preparer, self.entry.sql, None, price, None, engine)
            found = replace(found, price_target=replace(found.price_target, goal=goal_from_json(target.get("goal"))))
            return self._as_charged(found)
        return preparer.prepare_workload(preparer.analyse_all(self.content["texts"], engine), price, None, engine)

    def _as_charged(self, asked: Prepared) -> Prepared:
        """Return a question with the noise of its charge: what refines by Gaussian noise measures the difference."""
        plan, event = asked.plan, self.entry.event
        refines = self.entry.refines
        if not refines or refines not in self.entry.rests_on or not isinstance(event, Composed):
            return asked
        groups = refined_groups(plan.groups, event.events)
        if groups is None:
            return asked
        found = with_gaussian_noise(asked, replace(plan, groups=groups, loss=self.entry.loss, event=event), refines)
        return found if self.content.get("question") in found.fingerprint_digests else asked

    def answers(self, asked: Prepared, policy: str) -> bool:
        """Tell whether it answers this question under the policy with this hash."""
        event, stored = asked.plan.event, self.entry.event
        if event is None or stored is None:
            if event != stored:
                return False
        elif first_spelling(event) != first_spelling(stored) and not is_refinement(stored):
            return False
        digest = self.content.get("question")
        return self.entry.policy == policy if digest is None else digest in asked.fingerprint_digests

    def question_index(self, question: object) -> int:
        """Return which of the questions that were asked together is meant; there is one, if none were."""
        together = integer(self.content.get("together", 1), "together", 1)
        if together > 1 and "texts" not in self.content:
            raise BadParameter(
                "This answer belongs to several questions that were asked together.",
                "Each of them has its own table, under one receipt.",
                "Ask the same list again: it is free.",
            )
        place = 1 if question is None and together == 1 else question
        if together == 1 and place != 1:
            raise BadParameter(
                f"This answer belongs to one question, and not to question {quote_value(place)}.",
                "Only questions that were asked together are numbered.",
                "Leave `question` out.",
            )
        if place is None or integer(place, "question", 1) > together:
            raise BadParameter(
                f"This answer belongs to {together} questions that were asked together.",
                "Each of them has its own table, under one receipt.",
                f"Say which, for example question=1; the last is question={together}.",
            )
        return integer(place, "question", 1) - 1


def refined_groups(groups: tuple[GroupPlan, ...], events: Sequence[Event]) -> tuple[GroupPlan, ...] | None:
    """Return groups with the Gaussian noise of a charge that refined an answer; None where it is no such charge.

    Of a vector the loss tells the variances: each is in proportion to how far a person moves the number.
    """
    rest, found = list(events), []
    vectors = any(isinstance(event, Concentrated) for event in events)
    for group in groups:
        vector = group.vector if vectors else ()
        noise: dict[str, Gaussian] = {}
        for measurement in group.measured:
            if measurement.name in noise:
                continue
            match rest.pop(0) if rest else None:
                case Concentrated(rho, neighbours) if vector and measurement.name == vector[0]:
                    moved = {other.name: other.sensitivity.l2_squared for other in group.measured}
                    noise |= {name: Gaussian(moved[name], moved[name] / (2 * rho), neighbours) for name in vector}
                case GaussianNoise(squared, variance, neighbours) if measurement.name not in vector:
                    noise[measurement.name] = Gaussian(squared, variance, neighbours)
                case _:
                    return None
        measured = tuple(replace(measurement, mechanism=noise[measurement.name]) for measurement in group.measured)
        found.append(replace(group, vector=vector, measured=measured))
    return None if rest else tuple(found)


def with_gaussian_noise(asked: Prepared, plan: Plan, refines: str) -> Prepared:
    """Return a question with another plan that measures the same beside an earlier answer, under names of its own."""
    measured = asked.names.measured
    made = None if measured is None else measurement_identity(plan, words_of(measured), refines=refines)
    if made is None:
        raise AssertionError("what reads noisy numbers is not refined")
    return replace(asked, plan=plan, outcomes=(plan,), names=ReleaseNames(made, made.first_text))


def no_such_answer() -> UnknownName:
    """Refuse a receipt that names no answer of this account."""
    return UnknownName(
        "There is no answer with this receipt.",
        "Answers are kept for the account that paid for them.",
        "Look for its id in the history.",
    )
