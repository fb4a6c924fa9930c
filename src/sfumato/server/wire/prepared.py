"""The statements that a session has prepared, by name, within limits."""

from sys import getsizeof

from sfumato.server.quota import Holding
from sfumato.server.wire.memory import SessionMemory
from sfumato.server.wire.ready import ReadyStatement
from sfumato.server.wire.sqlstates import WireError, too_large

MAX_PREPARED_STATEMENTS = 1000


class PreparedStatements:
    """Prepared statements, each with its memory; the one without a name is replaced by the next."""

    def __init__(self, memory: SessionMemory, account: str) -> None:
        self._memory = memory
        self._account = account
        self._statements: dict[str, tuple[ReadyStatement, Holding]] = {}

    def known(self, name: str) -> ReadyStatement:
        """Return a statement that there is."""
        found = self._statements.get(name)
        if found is None:
            raise WireError("26000", f'prepared statement "{name[:63]}" does not exist')
        return found[0]

    def check_new(self, name: str) -> None:
        """Refuse a name that is taken."""
        if name and name in self._statements:
            raise WireError("42P05", f'prepared statement "{name[:63]}" already exists')

    def keep(self, name: str, prepared: ReadyStatement) -> None:
        """Keep a statement under a name."""
        self.forget(name)
        if len(self._statements) >= MAX_PREPARED_STATEMENTS:
            raise too_large(
                "Too many statements are prepared.",
                f"DEALLOCATE some: a session has at most {MAX_PREPARED_STATEMENTS}.",
            )
        holding = Holding(self._memory, self._account)
        holding.add(prepared.size + getsizeof(name))
        self._statements[name] = prepared, holding

    def forget(self, name: str) -> None:
        """Let go of a statement, if there is one of this name."""
        found = self._statements.pop(name, None)
        if found is not None:
            found[1].release()

    def remove(self, name: str | None) -> None:
        """Let go of a statement that there is, or of all."""
        if name is not None:
            self.known(name)
        for statement in list(self._statements) if name is None else [name]:
            self.forget(statement)
