"""Which cohorts of people pay for questions, and what questions say of them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

from sfumato.analysis.paying_cohorts import all_or_some
from sfumato.analysis.private_query import PrivateQuery
from sfumato.engines.cohort_set import cohorts_of
from sfumato.engines.engine import Engine
from sfumato.ledger.cohorts import PayingCohorts, cohort_notes


def paying_of(engine: Engine, cohorts: tuple[str, ...] | None = None, *, shown: bool = True) -> PayingCohorts | None:
    """Return the cohorts of a snapshot that pay: these, or all that are open; None where people share one budget."""
    known = cohorts_of(engine)
    return None if known is None else PayingCohorts(known.kept, cohorts or known.names, shown)


def with_cohort_notes(private: PrivateQuery) -> PrivateQuery:
    """Return a question that says which cohorts pay, where not all do."""
    return replace(private, notes=(*cohort_notes(private.cohorts), *private.notes))


def all_cohorts(asked: Sequence[tuple[str, ...] | None], engine: Engine) -> tuple[str, ...] | None:
    """Return the cohorts that pay for questions which are charged as one; None where all do."""
    known = cohorts_of(engine)
    if known is None or None in asked:
        return None
    some = {name for cohorts in asked for name in cohorts or ()}
    return all_or_some(tuple(name for name in known.names if name in some), known.names)


def with_cohorts(digest: str, cohorts: tuple[str, ...] | None) -> str:
    """Return the digest of the policy's words, and of the cohorts whose people alone are read."""
    return digest if cohorts is None else sha256(json.dumps([digest, sorted(cohorts)]).encode()).hexdigest()
