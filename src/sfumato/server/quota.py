"""Bytes that the server holds for clients, counted as they arrive."""


class ByteQuota:
    """Counts held bytes per account and in all. It belongs to one event loop."""

    def __init__(self, total: int, per_account: int) -> None:
        self._total = total
        self._per_account = per_account
        self._held: dict[str | None, int] = {}
        self._sum = 0

    @property
    def held(self) -> int:
        """How many bytes are held now."""
        return self._sum

    def take(self, account: str | None, count: int) -> bool:
        """Hold more bytes for an account, or say that there is no room for them."""
        own = self._held.get(account, 0) + count
        if own > self._per_account or self._sum + count > self._total:
            return False
        self._held[account] = own
        self._sum += count
        return True

    def give_back(self, account: str | None, count: int) -> None:
        """Hold so many bytes less."""
        self._sum -= count
        left = self._held.get(account, 0) - count
        if left > 0:
            self._held[account] = left
        else:
            self._held.pop(account, None)
