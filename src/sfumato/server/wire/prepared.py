"""The statements that a session has prepared, by name, within limits."""

from sfumato.server.wire.answers import ReadyStatement
from sfumato.server.wire.sqlstates import WireError, too_large

MOST_STATEMENTS = 1000
MOST_BYTES = 4 << 20


class PreparedStatements:
    """Prepared statements; the one without a name is replaced by the next."""

    def __init__(self) -> None:
        self._statements: dict[str, ReadyStatement] = {}
        self._bytes: dict[str, int] = {}

    def known(self, name: str) -> ReadyStatement:
        """Return a statement that there is."""
        found = self._statements.get(name)
        if found is None:
            raise WireError("26000", f'prepared statement "{name[:63]}" does not exist')
        return found

    def check_new(self, name: str) -> None:
        """Refuse a name that is taken."""
        if name and name in self._statements:
            raise WireError("42P05", f'prepared statement "{name[:63]}" already exists')

    def keep(self, name: str, prepared: ReadyStatement, size: int) -> None:
        """Keep a statement of so many characters."""
        self.forget(name)
        if len(self._statements) >= MOST_STATEMENTS or sum(self._bytes.values()) + size > MOST_BYTES:
            raise too_large("Too many statements are prepared.", "DEALLOCATE some.")
        self._statements[name] = prepared
        self._bytes[name] = size

    def forget(self, name: str) -> None:
        """Let go of a statement, if there is one of this name."""
        self._statements.pop(name, None)
        self._bytes.pop(name, None)

    def remove(self, name: str | None) -> None:
        """Let go of a statement that there is, or of all."""
        if name is None:
            self._statements.clear()
            self._bytes.clear()
        else:
            self.known(name)
            self.forget(name)
