"""The number of charges of each account: charges that were counted once are not counted again."""

from sfumato.ledger.store import Store
from sfumato.policy.policy import MAX_CHARGES_PER_ACCOUNT


class ChargeCounts:
    """Counts of durable charges by account, for one open store. Called by one thread at a time.

    Rows are only appended, so a count up to a sequence stays as it is, whichever process appends. Later rows are
    counted in the store, by an index over account and sequence.
    """

    def __init__(self, max_charges: int = MAX_CHARGES_PER_ACCOUNT) -> None:
        self.max_charges = max_charges
        """Maximum number of charges of one account."""
        self._counted: dict[str, tuple[int, int]] = {}
        """For each account the last sequence that was counted, and the number of its charges up to there."""

    def count(self, store: Store, account: str, last: int | None = None) -> int:
        """Return how many charges an account has made, in total or up to a sequence. Rows up to there are durable."""
        counted, number = self._counted.get(account, (0, 0))
        last = store.last() if last is None else last
        if last > counted:
            number += store.count_charges(account, counted, last)
            self._counted[account] = last, number
        return number
