"""Questions that an account has asked before, under any of their names."""

from collections.abc import Sequence

from sfumato.accounting.event import Event, from_json, is_refinement, unordered
from sfumato.ledger.chain import Row
from sfumato.ledger.state import State
from sfumato.ledger.store import Store


def find_repeat(store: Store, state: State, names: Sequence[str], keyed: Row | None) -> int | None:
    """Return which name has an answer or a charge without one, that of a keyed charge first; None where none has."""
    if keyed is not None and keyed.same in names:
        return names.index(keyed.same)
    known = store.answered(names) | state.unanswered.keys()
    return next((index for index, same in enumerate(names) if same in known), None)


def is_paid(store: Store, state: State, names: Sequence[str], event: Event, key: str = "") -> bool:
    """Whether some name has an answer, or a charge of this event that has none yet and is taken up at no cost.

    A charge that refines an earlier answer is taken up under its own key alone.
    """
    if store.answered(names):
        return True
    begun = [store.row(place) for same in names if (place := state.unanswered.get(same))]
    own = [row for row in begun if row is not None and (row.key == key or not is_refinement(event))]
    return any(unordered(from_json(row.event)) == unordered(event) for row in own)
