"""How much a flow makes an engine do, told from the text and from the sizes of public tables.

It is an estimate in rows and pairs of rows: joins by an equality are taken to be cheap, all others to look at every
pair. What is cheap by this measure and takes long all the same is stopped by the engine's clock.
"""

from collections.abc import Callable

from sfumato.errors import FreeLimit
from sfumato.language.flow import Flow, Fold, Given, Kept, Marked, Pair, Read, Stacked, Take, below, outputs
from sfumato.language.scalar import Operator, Scalar, columns
from sfumato.query.relation import JoinKind

MOST_WORK = 100_000_000
"""So many rows and pairs of rows may be looked at for what is free."""

Sizes = Callable[[Read | Given | Kept], int]
"""Tells how many rows there are."""


def check_work(flow: Flow, sizes: Sizes) -> None:
    """Refuse a flow that would take too long, before anything is run."""
    _, work = _measured(flow, sizes)
    if work > MOST_WORK:
        raise FreeLimit(
            f"This question looks at about {_rounded(work)} rows or pairs of rows that cost nothing.",
            f"Rows of public tables and of VALUES are free, so that there is a limit: {MOST_WORK:,}.",
            "Join by an equality, or use shorter lists and fewer tables.",
        )


def _rounded(work: int) -> str:
    return f"{work:,}" if work < 10**15 else f"10^{len(str(work)) - 1}"


def _measured(flow: Flow, sizes: Sizes) -> tuple[int, int]:
    """Return how many rows a flow may have and how many rows and pairs it looks at."""
    match flow:
        case Read() | Given() | Kept():
            rows = sizes(flow)
            return rows, rows
        case Pair(kind, left, right, condition):
            (first, before), (second, behind) = _measured(left, sizes), _measured(right, sizes)
            met = max(first, second) if _by_equality(condition, left, right) else first * second
            kept = {JoinKind.LEFT: first, JoinKind.FULL: first + second}.get(kind, 0)
            return max(met, kept), before + behind + met
        case Stacked(left, right):
            (first, before), (second, behind) = _measured(left, sizes), _measured(right, sizes)
            return first + second, before + behind
        case Marked(left, right, _, condition):
            (first, before), (second, behind) = _measured(left, sizes), _measured(right, sizes)
            looked = max(first, second) if _by_equality(condition, left, right) else first * second
            return first, before + behind + looked
        case _:
            (source,) = below(flow)
            rows, work = _measured(source, sizes)
            if isinstance(flow, Fold) and not flow.keys:
                rows = 1
            if isinstance(flow, Take) and flow.count is not None:
                rows = min(rows, flow.count)
            return rows, work


def _by_equality(condition: Scalar | None, left: Flow, right: Flow) -> bool:
    """Whether all pairs meet an equality of something on the left with something on the right."""
    if condition is None:
        return False
    first, second = ({(label, name) for label, name, _ in outputs(side)} for side in (left, right))
    parts = condition.arguments if condition.operator is Operator.AND else (condition,)
    for part in parts:
        if part.operator is Operator.EQUAL:
            one, other = (columns(side) for side in part.arguments)
            if one and other and ((one <= first and other <= second) or (one <= second and other <= first)):
                return True
    return False
