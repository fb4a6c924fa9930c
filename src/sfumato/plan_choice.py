"""Which of the plans of a question is charged: one that is paid for, or what suits the account as it is now."""

from dataclasses import dataclass
from enum import Enum

from sfumato.engines.engine import Engine
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.one_time_grants import has_grant
from sfumato.planning.budget_share import choose_plan
from sfumato.planning.named_plans import NamedPlans
from sfumato.planning.planner import PriceTarget
from sfumato.planning.price_target import StoredPlanKey
from sfumato.question_cohorts import paying_of


class Standing(Enum):
    """What an account has of a question that is asked by its preferred plan."""

    NEW = "new"
    """No charge of it can have measured the same cells, and its caps accept the plan."""
    PAID = "paid"
    """It has paid for exactly this plan."""
    STORED = "stored"
    """The answer that is made again has this plan."""


@dataclass(frozen=True, slots=True)
class PlanChooser:
    """Chooses plans for one account, from its ledger as it is now."""

    ledger: Ledger
    account: str
    engine: Engine

    def standing(self, found: NamedPlans, stored: StoredPlanKey | None, key: str | None) -> Standing | None:
        """Return why the preferred plan is asked by, whatever the other plans are; None where they have to be known.

        All names of all plans begin in one of `beginnings`. So without a charge that begins so no plan is paid for or
        being answered, and the preferred one comes first of those that the caps accept. One that is paid for is asked
        by in any case, because names are looked for in the order of preference. Only the charge of a `key` is before.
        """
        event = found.plans[0].event
        if stored is not None:
            return Standing.STORED if stored.is_of(found.plans[0], found.known_names[0]) else None
        if found.beginnings is None or event is None:
            return None
        paying = paying_of(self.engine, found.plans[0].cohorts)
        caps = self.ledger.caps_of_new(self.account, self.engine.version, found.beginnings, paying)
        if caps is None and key is not None:
            return None
        if caps is None:
            paid = self.ledger.is_paid(self.account, found.known_names[0], self.engine.version, event)
            return Standing.PAID if paid else None
        return Standing.NEW if all(cap.accepts(event) for cap in caps[:2]) else None

    def index_in(self, found: NamedPlans, target: PriceTarget, stored: StoredPlanKey | None, key: str | None) -> int:
        """Return which plan to ask by: that of a stored answer, one that is paid for, or what suits the account now."""
        plans = found.plans
        if stored is not None:
            return stored.index_in(plans, found.known_names)
        if len(plans) == 1:
            return 0
        places = [(place, text) for place, names in enumerate(found.known_names) for text in names]
        texts = [text for _, text in places]
        known = self.ledger.find_repeat(self.account, texts, self.engine.version, key)
        if known is not None:
            return places[known][0]
        requests = self.ledger.open_requests()
        for place, plan in enumerate(plans):
            if has_grant(requests, self.account, found.names[place].fingerprint, plan.event):
                return place  # the owner approved this plan, whatever suits the account now
        part = None if target.share is None else target.share.fraction
        paying = paying_of(self.engine, plans[0].cohorts)
        account, *others = self.ledger.caps(self.account, paying)  # the dataset is the account, or another cap
        dataset = others[0] if others else None
        return plans.index(choose_plan(plans, account, part, epsilon=target.accuracy_for, dataset=dataset))
