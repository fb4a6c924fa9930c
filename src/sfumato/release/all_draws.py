"""An outcome over many draws of the noise at once: every row carries the number of its draw, and draws never meet."""

from dataclasses import replace

from sfumato.analysis.facts import Facts, Kind
from sfumato.analysis.flow import Flow, Fold, Given, Item, Keep, Kept, Order, Pair, Read, Show, Take
from sfumato.analysis.scalar import Operator, Scalar, column
from sfumato.query.types import Type

DRAW = '"draw"'
"""The column of the draw's number; no query can spell a name that holds a quotation mark like this."""

_TRUTH = Facts(Type.BOOLEAN, Kind.BOOLEAN, nullable=False)


def over_draws(outcome: Show, draws: int) -> Show | None:
    """Return the outcome of all draws, their number last; None where it takes rows by their place (LIMIT)."""
    found = _drawn(outcome, draws)
    return None if found is None or not isinstance(found[0], Show) else found[0]


def _drawn(flow: Flow, draws: int) -> tuple[Flow, Scalar | None] | None:
    """Return the flow and the number of each row's draw; no number for rows that the text spells out."""
    match flow:
        case Take() | Read() | Kept():
            return None
        case Given(label, columns, rows):
            if rows is not None:
                return flow, None
            facts = Facts(Type.INTEGER, Kind.INTEGER, nullable=False, low=0, high=draws)
            return replace(flow, columns=(*columns, (DRAW, facts))), column(label, DRAW, facts)
        case Pair(_, left, right):
            return _drawn_pair(flow, _drawn(left, draws), _drawn(right, draws))
        case Keep(source) | Order(source):
            below = _drawn(source, draws)
            return None if below is None else (replace(flow, source=below[0]), below[1])
        case Fold(source, label, keys):
            below = _drawn(source, draws)
            if below is None or below[1] is None:
                return None
            number = Item(DRAW, below[1])
            return replace(flow, source=below[0], keys=(*keys, number)), column(label, DRAW, below[1].facts)
        case Show(source, label, items):
            below = _drawn(source, draws)
            if below is None or below[1] is None:
                return None
            number = Item(DRAW, below[1])
            return replace(flow, source=below[0], items=(*items, number)), column(label, DRAW, below[1].facts)


def _drawn_pair(
    pair: Pair, left: tuple[Flow, Scalar | None] | None, right: tuple[Flow, Scalar | None] | None
) -> tuple[Flow, Scalar | None] | None:
    if left is None or right is None:
        return None
    joined = replace(pair, left=left[0], right=right[0])
    if left[1] is None and right[1] is not None:
        return None  # a spelled-out row that met none of a draw would have no number
    if left[1] is None or right[1] is None:
        return joined, left[1]
    same = Scalar(Operator.EQUAL, (left[1], right[1]), _TRUTH)
    both = same if pair.condition is None else Scalar(Operator.AND, (same, pair.condition), pair.condition.facts)
    return replace(joined, condition=both), left[1]
