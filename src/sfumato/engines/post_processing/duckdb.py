"""Arithmetic after the noise: flows over noisy tables. Most are plain, and need no engine.

Whatever is computed here is a function of what was released already.
"""

from collections.abc import Mapping

from sfumato.engines.post_processing.python import plain_outcome
from sfumato.engines.post_processing.values import Values
from sfumato.language.rel_nodes import RelNode


def evaluate(flow: RelNode, given: Mapping[str, Mapping[str, Values]]) -> list[list[object]]:
    """Return the columns of a flow over noisy tables, which are given by label and column name.

    Rows come as the flow orders them; rows that it leaves equal stay in the given order. An integer beyond the
    range of its column's facts, however long, is cut to that range: operators are total there and nowhere else.
    A float that is not finite is NULL.
    """
    plain = plain_outcome(flow, given)
    if plain is not None:
        return [list(column) for column in plain]
    from sfumato.engines.post_processing.by_engine import evaluate_by_engine

    return evaluate_by_engine(flow, given)
