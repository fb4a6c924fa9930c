"""The plans of one question at one price, with the names under which a ledger may hold their releases."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.analysis.private_query import PrivateQuery
from sfumato.planning.fingerprint import query_fingerprints
from sfumato.planning.measurement_identity import PREFIX_CHARS, SharedParts, beginning_of, measurement_identity
from sfumato.planning.plan import Plan
from sfumato.planning.planner import PriceTarget, make_plans, make_preferred_plan
from sfumato.planning.release_names import ReleaseNames
from sfumato.query.canonical import canonical
from sfumato.query.relation import Query


@dataclass(frozen=True, slots=True)
class NamedPlans:
    """Plans of one question at one price, the preferred first, with their names."""

    plans: tuple[Plan, ...]
    names: list[ReleaseNames]
    noted: dict[int, Plan]
    """Those that were chosen before, by their places, with their notes."""
    complete: bool = True
    """Whether these are all plans, or the preferred one alone."""
    beginnings: tuple[str, ...] | None = None
    """How all names of all plans begin, at whatever price; None where that is not known."""

    @property
    def known_names(self) -> list[tuple[str, ...]]:
        """The names under which a ledger may hold the release of each plan, that of a new release first."""
        return [(name.fingerprint, *name.older) for name in self.names]


def named_plans(
    query: Query, private: PrivateQuery, target: PriceTarget, words: str, shared: SharedParts, *, alone: bool = False
) -> NamedPlans:
    """Return the plans of a question and their names; `alone` says that the preferred one suffices where it is known.

    `words` is the digest of the policy's words about its tables. `shared` keeps what does not depend on the price.
    """
    shared.meaning = shared.meaning or canonical(query)
    preferred = make_preferred_plan(private, target, shared.needs) if alone else None
    if preferred is not None and shared.beginnings is None:
        shared.beginnings = _beginnings(words, shared)
    complete = preferred is None or shared.beginnings is None
    plans = make_plans(private, target, known=shared.needs) if complete or preferred is None else (preferred,)
    return NamedPlans(plans, _names(plans, words, shared), {}, complete, shared.beginnings)


def _names(plans: Sequence[Plan], words: str, shared: SharedParts) -> list[ReleaseNames]:
    by_text = query_fingerprints(shared.meaning, plans, words)
    return [
        ReleaseNames(measurement_identity(plan, words, shared), text) for plan, text in zip(plans, by_text, strict=True)
    ]


def _beginnings(words: str, shared: SharedParts) -> tuple[str, ...] | None:
    """Return how all names begin: of measurements with their cells, of texts with the text; None where it is short."""
    by_text = json.dumps([shared.meaning])[:-1]
    if len(by_text) < PREFIX_CHARS:
        return None
    found = [beginning_of(groups, words, shared) for groups in shared.needs.cells]
    known = [one for one in found if one is not None]
    return (*dict.fromkeys(known), by_text[:PREFIX_CHARS]) if len(known) == len(found) else None
