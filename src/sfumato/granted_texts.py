"""Questions that are read with the names which the owner has granted an account for exactly this text.

Every other text is read with the names of the account's own roles. Proof: proofs/approvals.md, 9
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from sfumato.analysis.catalog import Catalog
from sfumato.engines.engine import Engine
from sfumato.errors import UnknownName
from sfumato.policy.policy import Policy, Preview
from sfumato.prepare import Prepared, QueryPreparer, RequestedPrice
from sfumato.query.describe import QueryDescription, describe_query
from sfumato.query.parameters import bind, inline_parameters
from sfumato.query.types import Type


def prepare_as_granted(
    preparer: QueryPreparer,
    sql: str,
    parameters: object,
    price: RequestedPrice,
    key: str | None,
    engine: Engine,
    *,
    alone: bool = False,
) -> Prepared:
    """Prepare a question; where it names what the account may not use, with what the owner granted for this text.

    Then only a grant may pay for it. `alone` says that the preferred plan suffices where the account has no other.
    """
    try:
        return preparer.prepare(sql, parameters, price, key, engine, alone=alone)
    except UnknownName as refusal:
        refused = refusal
    text = inline_parameters(sql, bind(parameters))
    wider = _with_granted_names(preparer, text, refused)
    return replace(wider.prepare(text, None, price, key, engine), only_granted=True)


def describe_granted(
    preparer: QueryPreparer,
    sql: str,
    types: Mapping[str, Type],
    arrays: Collection[str],
    policy: Policy,
    catalog: Catalog,
    engine: Engine,
) -> QueryDescription:
    """Describe a question; where it names what the account may not use, with what the owner granted for this text."""
    previews = policy.preview is Preview.SYNTHETIC
    try:
        return describe_query(sql, catalog, types, arrays, previews)
    except UnknownName as refusal:
        refused = refusal
    wider = _with_granted_names(preparer, sql, refused)
    return describe_query(sql, wider.catalog(engine), types, arrays, previews)


def _with_granted_names(preparer: QueryPreparer, text: str, refused: UnknownName) -> QueryPreparer:
    wider = None if refused.undeclared is None else preparer.with_granted_names(text)
    if wider is None:
        raise refused
    return wider
