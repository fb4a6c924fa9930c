"""Statements that change the session, move cursors or copy rows; they have a tag, and no rows of a question."""

from collections.abc import Awaitable
from dataclasses import dataclass, replace
from sys import getsizeof
from typing import Protocol, TypeVar

from sfumato.server.wire.answers import Answering
from sfumato.server.wire.copy_statements import Copy
from sfumato.server.wire.copying import copy_begin, copy_end
from sfumato.server.wire.cursor_statements import CloseCursor, Declare, Move
from sfumato.server.wire.cursors import Cursors
from sfumato.server.wire.frames import command_complete
from sfumato.server.wire.outgoing import Outgoing
from sfumato.server.wire.portals import Portals
from sfumato.server.wire.prepared import PreparedStatements
from sfumato.server.wire.ready import ReadyStatement
from sfumato.server.wire.settings import Settings
from sfumato.server.wire.sqlstates import unsupported
from sfumato.server.wire.statements import (
    Begin,
    Deallocate,
    DiscardTemporary,
    EmptyStatement,
    End,
    Explain,
    Prepare,
    ResetAll,
    Savepoint,
    SelectStatement,
    SetTo,
    ShowSetting,
    read_statement,
)
from sfumato.server.wire.temporary_views import TemporaryViews
from sfumato.server.wire.transactions import TransactionBlock, outside_block
from sfumato.server.wire.view_statements import CreateView, DropView

T = TypeVar("T")


class Wait(Protocol):
    """Waits for something, or until the client cancels it."""

    async def __call__(self, work: Awaitable[T]) -> T:
        """Return its result."""
        ...


@dataclass(frozen=True, slots=True)
class Commands:
    """Runs the commands of one session."""

    _settings: Settings
    _block: TransactionBlock
    _statements: PreparedStatements
    _portals: Portals
    _cursors: Cursors
    _views: TemporaryViews
    _answering: Answering
    _outgoing: Outgoing
    _wait: Wait

    async def run(self, prepared: ReadyStatement, values: list[object], is_block: bool = False) -> None:
        """Do what a statement asks, and send its tag; `is_block` if others came in the same text."""
        match prepared.statement:
            case SetTo(name, value, local, tag):
                self._settings.set(name, value, local)
                self._done(tag)
            case ResetAll(tag, everything):
                self._settings.reset_all()
                if everything:
                    self._statements.remove(None)
                    self._cursors.close(None)
                    self._views.clear()
                self._done(tag)
            case Begin(tag):
                self._block.begin()
                self._done(tag)
            case End(commit, chain):
                tag = self._block.end(commit, chain)
                self._done(tag)
                self._portals.end_transaction()
                self._cursors.end_transaction(tag == "COMMIT")
                self._views.end_transaction(tag == "COMMIT")
            case Savepoint(verb, name):
                self._block.savepoint(verb, name)
                self._cursors.savepoint(verb, name)
                self._views.savepoint(verb, name)
                self._done(verb)
            case Prepare(name, types, sql):
                await self._prepare_statement(name, types, sql)
            case Deallocate(name):
                self._statements.remove(name)
                self._done("DEALLOCATE ALL" if name is None else "DEALLOCATE")
            case Declare(hold=hold):
                if not (hold or is_block or self._block.status == b"T"):
                    raise outside_block("DECLARE CURSOR")
                await self._answering.declare(prepared, values)
                self._done("DECLARE CURSOR")
            case Move(name, direction):
                rows, notices = await self._wait(self._answering.move(name, direction))
                self._outgoing.notify(notices)
                self._done(f"MOVE {len(rows)}")
            case CloseCursor(name):
                self._cursors.close(name)
                self._done("CLOSE CURSOR ALL" if name is None else "CLOSE CURSOR")
            case Copy(format=form):
                answer = await self._wait(self._answering.copy(prepared, values))
                self._outgoing.send(copy_begin(answer.columns, form))
                await self._outgoing.send_all(answer.messages)
                self._outgoing.send(copy_end(form, not answer.messages))
                self._outgoing.notify(answer.notices)
                self._done(f"COPY {len(answer.messages)}")
            case CreateView() as view:
                await self._wait(self._answering.create_view(view))
                self._done("CREATE VIEW")
            case DropView() as view:
                self._outgoing.notify(self._answering.drop_views(view))
                self._done("DROP VIEW")
            case DiscardTemporary(tag):
                self._views.clear()
                self._done(tag)
            case EmptyStatement(tag):
                self._done(tag)
            case _:
                raise AssertionError("a statement with rows is not a command")

    async def _prepare_statement(self, name: str, types: tuple[str, ...], sql: str) -> None:
        self._statements.check_new(name)
        statement = read_statement(sql)
        if not isinstance(statement, SelectStatement | Explain | ShowSetting):
            raise unsupported("Only questions can be prepared.", "PREPARE name AS SELECT …")
        declared = [self._answering.oid_of(type) for type in types]
        prepared = await self._wait(self._answering.prepare(statement, declared))
        self._statements.keep(name, replace(prepared, text_bytes=getsizeof(sql)))
        self._done("PREPARE")

    def _done(self, tag: str) -> None:
        self._outgoing.send(command_complete(tag))
