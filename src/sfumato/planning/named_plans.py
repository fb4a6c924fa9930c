"""The plans of one question at one price, with the names under which a ledger may hold their releases."""

from sfumato.analysis.private_query import PrivateQuery
from sfumato.planning.fingerprint import query_fingerprints
from sfumato.planning.measurement_identity import SharedParts, measurement_identity
from sfumato.planning.plan import Plan
from sfumato.planning.planner import PriceTarget, make_plans
from sfumato.planning.release_names import ReleaseNames
from sfumato.query.canonical import canonical
from sfumato.query.relation import Query


def named_plans(
    query: Query, private: PrivateQuery, target: PriceTarget, words: str, shared: SharedParts
) -> tuple[tuple[Plan, ...], list[ReleaseNames]]:
    """Return the plans of a question and their names.

    `words` is the digest of the policy's words about its tables. `shared` keeps what does not depend on the price.
    """
    plans = make_plans(private, target, known=shared.needs)
    shared.meaning = shared.meaning or canonical(query)
    by_text = query_fingerprints(shared.meaning, plans, words)
    return plans, [
        ReleaseNames(measurement_identity(plan, words, shared), text) for plan, text in zip(plans, by_text, strict=True)
    ]
