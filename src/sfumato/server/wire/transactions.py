"""Transaction blocks: settings follow them, and nothing else does; what was charged stays charged."""

from sfumato.server.wire.settings import Settings
from sfumato.server.wire.sqlstates import WireError
from sfumato.server.wire.statements import End, Savepoint, Statement


class TransactionBlock:
    """Whether a session is in a transaction, and whether that has failed."""

    def __init__(self, settings: Settings) -> None:
        self.status = b"I"
        """As ReadyForQuery says it: I outside a block, T in one, E in a failed one."""
        self._settings = settings

    def begin(self) -> None:
        """Begin a transaction; in one, nothing happens."""
        if self.status == b"I":
            self._settings.begin()
            self.status = b"T"

    def end(self, commit: bool, chain: bool) -> str:
        """End a transaction, and say how; a failed one is rolled back in any case."""
        kept = commit and self.status != b"E"
        if kept:
            self._settings.commit()
        else:
            self._settings.roll_back()
        chained = chain and self.status != b"I"
        self.status = b"I"
        if chained:
            self.begin()
        return "COMMIT" if kept else "ROLLBACK"

    def savepoint(self, verb: str, name: str) -> None:
        """Set a savepoint, let it go, or return to it."""
        if self.status == b"I":
            raise outside_block(verb)
        if verb == "SAVEPOINT":
            self._settings.save(name)
        elif verb == "RELEASE":
            self._settings.release(name)
        else:
            self._settings.back_to(name)
            self.status = b"T"

    def rest(self) -> None:
        """Nothing runs: settings made for a transaction alone are over where there is none."""
        if self.status == b"I":
            self._settings.commit()

    def check(self, statement: Statement) -> None:
        """Refuse everything but its end in a block that has failed."""
        returns = isinstance(statement, Savepoint) and statement.verb == "ROLLBACK"
        if self.status == b"E" and not returns and not isinstance(statement, End):
            raise WireError(
                "25P02",
                "current transaction is aborted, commands ignored until end of transaction block",
                "A statement before it failed.",
                "ROLLBACK;",
            )

    def fail(self) -> None:
        """Something went wrong."""
        if self.status == b"T":
            self.status = b"E"


def outside_block(verb: str) -> WireError:
    """Refuse a statement that needs a transaction block."""
    return WireError("25P01", f"{verb} can only be used in transaction blocks", "", "BEGIN;")
