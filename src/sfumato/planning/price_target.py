"""What is kept of a wish beside an answer, so that the same plan can be made again, and how that plan is found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from typing import Any

from sfumato.accounting.event import Event
from sfumato.accounting.filter import Filter
from sfumato.planning.margin_targets import goal_to_json
from sfumato.planning.plan import Plan
from sfumato.planning.planner import PriceTarget


@dataclass(frozen=True, slots=True)
class StoredPlanKey:
    """A known plan of an earlier answer: its event, and the account of which it was a share."""

    event: Event
    account: Filter | None
    fingerprint_digest: str | None = None
    """The SHA-256 of the fingerprint of its question, where it was stored."""
    weights: tuple[tuple[str, Fraction], ...] = ()
    """How often its groups counted, as in `PriceTarget`."""
    split: tuple[tuple[str, str, Fraction], ...] | None = None
    """The shares of what was measured, as in `PriceTarget`."""

    def index_in(self, plans: tuple[Plan, ...], fingerprints: Sequence[Sequence[str]]) -> int:
        """Return which of these plans it was, or the first; several may cost the same and measure other cells.

        `fingerprints` are the names under which a release of each plan may be stored.
        """
        alike = [place for place, plan in enumerate(plans) if plan.event == self.event]
        named = [place for place, names in enumerate(fingerprints) if self._names_one_of(names)]
        both = [place for place in named if place in alike]
        return next(iter((*both, *alike, *named)), 0)  # what was refined has the event of the difference

    def is_of(self, plan: Plan, fingerprints: Sequence[str]) -> bool:
        """Whether it surely was this plan, of several of which this is the first."""
        return plan.event == self.event and self._names_one_of(fingerprints)

    def _names_one_of(self, fingerprints: Sequence[str]) -> bool:
        return self.fingerprint_digest in {sha256(text.encode()).hexdigest() for text in fingerprints}


def price_target_to_json(wish: PriceTarget) -> dict[str, object]:
    """Return a wish as JSON holds it; a share with the caps and the order of its account, which may change."""
    within = {name: str(margin) for name, margin in wish.within}
    epsilon = None if wish.epsilon is None else str(wish.epsilon)
    document: dict[str, object] = {"epsilon": epsilon, "within": within or None, "delta": str(wish.delta)}
    if wish.share is not None:
        account = wish.share.account
        document["share"] = str(wish.share.fraction)
        document["account"] = [str(account.epsilon), str(account.delta), account.order]
    if wish.weights:
        document["weights"] = {label: str(weight) for label, weight in wish.weights}
    if wish.split:
        document["split"] = [[label, name, str(share)] for label, name, share in wish.split]
    if wish.goal is not None:
        document["goal"] = goal_to_json(wish.goal)
    return document


def weights_of(document: Mapping[str, Any]) -> tuple[tuple[str, Fraction], ...]:
    """Return how often the groups of a kept wish counted."""
    return tuple((label, Fraction(weight)) for label, weight in document.get("weights", {}).items())


def split_of(document: Mapping[str, Any]) -> tuple[tuple[str, str, Fraction], ...] | None:
    """Return the shares of what was measured for a kept wish; None where no margins of a workload decided them."""
    if "split" not in document:
        return None
    return tuple((label, name, Fraction(share)) for label, name, share in document["split"])


def account_of_share(document: Mapping[str, Any]) -> Filter | None:
    """Return the account, before any charge, that a kept share was one of; None where there was no share."""
    if document.get("account") is None:
        return None
    epsilon, delta, order = document["account"]
    return Filter(Fraction(epsilon), Fraction(delta), order)
