"""A session after its start-up: the simple and the extended protocol, transactions, and what follows an error."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from sys import getsizeof
from time import monotonic
from typing import TypeVar

from sfumato.errors import NotGranted, Refusal, Stopping
from sfumato.server.gate import Caller, Gateway
from sfumato.server.quota import Holding
from sfumato.server.wire.answers import Answering, one_statement, question_of
from sfumato.server.wire.commands import Commands
from sfumato.server.wire.cursors import Cursors, already_exists
from sfumato.server.wire.frames import (
    Body,
    TooLarge,
    command_complete,
    error_frame,
    frame,
    parameter_description,
    parameter_status,
    read_frame,
    ready,
    row_description,
)
from sfumato.server.wire.memory import SessionMemory, size_of
from sfumato.server.wire.outgoing import Outgoing
from sfumato.server.wire.pg_catalog.catalogue import Catalogue
from sfumato.server.wire.pg_catalog.session_facts import SessionFacts
from sfumato.server.wire.portals import Portal, Portals, formats_of, read_values
from sfumato.server.wire.prepared import PreparedStatements
from sfumato.server.wire.ready import Answer, ReadyStatement
from sfumato.server.wire.settings import Settings
from sfumato.server.wire.sqlstates import Reported, WireError, reported, stale, too_large, unsupported, violation
from sfumato.server.wire.statements import (
    EmptyStatement,
    ExecutePrepared,
    Statement,
    read_statement,
    split,
)
from sfumato.server.wire.temporary_views import TemporaryViews
from sfumato.server.wire.transactions import TransactionBlock
from sfumato.server.wire.values import read_value
from sfumato.server.wire.waiting import StatementWait

MAX_PENDING_MESSAGES = 5000
"""Maximum number of messages before a Sync."""
MAX_PENDING_BYTES = 1 << 20
CHECK_SECONDS = 20.0
"""A session that waits looks every so often whether its grant still counts."""
MAX_LOOP_CHARS = 4096
"""Texts and values up to this length are read on the event loop; longer ones in a worker thread."""
_MESSAGE_BYTES = 200
"""Memory of a message that waits, besides its body."""

T = TypeVar("T")


class WireSession:
    """One client that was let in."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        gate: Gateway,
        caller: Caller,
        catalogue: Callable[[], Catalogue],
        settings: Settings,
        facts: SessionFacts,
        memory: SessionMemory,
        max_idle_seconds: float,
        max_seconds: float,
    ) -> None:
        self._reader = reader
        self._max_idle_seconds = max_idle_seconds
        """A session that sends nothing for so long ends."""
        self._max_seconds = max_seconds
        """A session that has lasted so long ends between two messages; who owes a Sync has CHECK_SECONDS for it."""
        self._began = monotonic()
        self._gate = gate
        self._caller = caller
        self._settings = settings
        self._told, self._wait_for = settings.reported(), StatementWait()
        self._cursors = Cursors(memory, caller.holder)
        self._views = TemporaryViews(memory, caller.holder)
        self._answering = Answering(
            gate, caller, catalogue, settings, facts, memory, self._wait_for, self._cursors, self._views
        )
        outgoing = self._outgoing = Outgoing(writer)
        self._send, self._drain = outgoing.send, outgoing.drain
        self._flush, self._give_turn = outgoing.flush, outgoing.give_turn
        self._block = TransactionBlock(settings)
        self._statements = PreparedStatements(memory, caller.holder)
        self._portals = Portals()
        self._commands = Commands(
            settings, self._block, self._statements, self._portals, self._cursors, self._views, self._answering,
            outgoing, self._wait,
        )  # fmt: skip
        self._pending: list[tuple[bytes, bytes]] = []
        self._since_sync = self._pending_bytes = 0
        self._skipping = self._has_failed = False
        self._is_block = False
        """Whether several statements came in one text: they are one transaction."""
        self._holding: Callable[[], Holding] = lambda: Holding(memory, caller.holder)
        self._reading, self._waiting = self._holding(), self._holding()

    def cancel(self) -> None:
        """Stop waiting for the running question; a charged answer is kept."""
        self._wait_for.cancel()

    def end(self) -> None:
        """Stop what runs, and let go of all that the session holds."""
        self._wait_for.cancel()
        self._portals.clear()
        self._cursors.close(None)
        self._views.end()
        self._pending.clear()
        self._statements.remove(None)
        for holding in (self._reading, self._waiting):
            holding.release()

    async def serve(self) -> None:
        """Answer until the client leaves."""
        await self._ready()
        while True:
            try:
                kind, body = await read_frame(self._reader, await self._first_byte(), self._reading)
                if kind == b"X":
                    return
                await self._take(kind, body)
            except TooLarge as large:
                await self._refuse_oversized(large)
            self._reading.release()

    async def _first_byte(self) -> bytes:
        """Wait for the next message; meanwhile see that the session may go on."""
        begun = monotonic()
        while True:
            left = self._max_seconds - (monotonic() - self._began)
            if left <= (0 if not self._since_sync else -CHECK_SECONDS):
                raise WireError(
                    "57P01",
                    "terminating connection due to session timeout",
                    f"A session ends after {self._max_seconds:g} seconds.",
                    "Connect again.",
                    fatal=True,
                )
            most = left if left > 0 else CHECK_SECONDS + left
            try:
                async with asyncio.timeout(min(CHECK_SECONDS, self._max_idle_seconds, most)):
                    return await self._reader.readexactly(1)
            except TimeoutError:
                self._check_session()
            if monotonic() - begun >= self._max_idle_seconds:
                raise WireError(
                    "57P05",
                    "terminating connection due to idle-session timeout",
                    f"The limit is {self._max_idle_seconds:g} seconds without a message.",
                    "Connect again.",
                    fatal=True,
                )

    async def _take(self, kind: bytes, body: bytes) -> None:
        """Do what a message asks; those of the extended protocol wait for a Sync or Flush, as answers may."""
        if kind in _MESSAGE_METHODS or kind == b"H":
            self._since_sync += 1
            self._pending_bytes += len(body)
            if self._skipping:
                return
            if self._since_sync > MAX_PENDING_MESSAGES or self._pending_bytes > MAX_PENDING_BYTES:
                self._fail(too_large("Too many messages came without a Sync.", "Send a Sync more often."))
                await self._flush()
            elif kind == b"H":
                await self._work()
                await self._flush()
            else:
                await self._keep(kind, body)
        elif kind == b"S":
            await self._work()
            await self._synchronise()
        elif kind == b"Q":
            await self._work()
            if not self._skipping:
                await self._simple(Body(body))
        elif kind == b"F":
            if not self._skipping:
                self._fail(unsupported("Functions cannot be called by number."))
                self._skipping = False
                await self._ready()
        elif kind not in (b"d", b"c", b"f"):  # the rest of a COPY is passed over, as elsewhere
            raise violation(f"There is no message of the kind {kind!r}.")

    async def _keep(self, kind: bytes, body: bytes) -> None:
        try:
            self._waiting.add(len(body) + _MESSAGE_BYTES)
        except WireError as full:
            self._fail(full)
            await self._flush()
        else:
            self._pending.append((kind, body))

    async def _work(self) -> None:
        """Do what has been waiting."""
        pending, self._pending = self._pending, []
        self._waiting.release()
        for kind, body in pending:
            if self._skipping:
                break
            try:
                self._check_session()
                await _MESSAGE_METHODS[kind](self, Body(body))
            except (Refusal, WireError) as error:
                self._fail(error)
            await self._give_turn()

    async def _synchronise(self) -> None:
        self._skipping, self._since_sync, self._pending_bytes = False, 0, 0
        if self._block.status == b"I":
            self._portals.end_transaction()
        await self._ready()

    async def _refuse_oversized(self, large: TooLarge) -> None:
        kind = large.kind
        if self._skipping and kind in _MESSAGE_METHODS:
            return
        self._fail(large.error)
        if kind not in _MESSAGE_METHODS:
            self._skipping = False
            await self._ready()
        await self._flush()

    # ── simple ──

    async def _simple(self, body: Body) -> None:
        undo = self._settings.undo()  # one text is one transaction, unless it says otherwise
        try:
            text = body.text()
            body.end()
            self._check_session()
            pieces = await self._compute(len(text), lambda: split(text))
            if not pieces:
                self._send(frame(b"I"))
            self._is_block = len(pieces) > 1
            for offset, sql in pieces:
                await self._statement(offset, sql)
                await self._drain()
        except (Refusal, WireError) as error:
            self._fail(error)
            if self._block.status == b"I":
                undo()
        self._skipping = self._is_block = False
        self._portals.close("")
        await self._ready()

    async def _statement(self, offset: int, sql: str) -> None:
        statement: Statement = EmptyStatement("")
        try:
            statement = await self._compute(len(sql), lambda: read_statement(sql))
            self._block.check(statement)
            if isinstance(statement, ExecutePrepared):
                prepared, values = await self._execute_prepared(statement)
            else:
                prepared, values = await self._wait(self._answering.prepare(statement)), []
            if prepared.parameters and not values:
                raise WireError("42P02", "there is no parameter $1", "A simple query has no values.", "PREPARE it.")
            if prepared.columns is None:
                await self._commands.run(prepared, values, self._is_block)
                return
            formats = (int(prepared.is_binary),) * len(prepared.columns)
            answer = await self._wait(self._answering.run(prepared, values, formats))
        except (Refusal, WireError) as error:
            raise self._locate_error(error, statement, offset) from None
        self._send(row_description(answer.columns, formats))
        await self._outgoing.send_all(answer.messages)
        self._outgoing.notify(answer.notices)
        self._send(command_complete(f"{answer.tag} {len(answer.messages)}" if answer.count else answer.tag))

    async def _execute_prepared(self, statement: ExecutePrepared) -> tuple[ReadyStatement, list[object]]:
        prepared = self._statements.known(statement.name)
        values = await self._wait(self._answering.constants(statement.values))
        if len(values) != len(prepared.parameters):
            raise WireError(
                "42601",
                f'wrong number of parameters for prepared statement "{statement.name[:63]}"',
                f"Expected {len(prepared.parameters)} parameters but got {len(values)}.",
            )
        texts = [value if isinstance(value, bool | int | None) else str(value) for value in values]
        return await self._fresh(prepared), [
            read_value(str(text).encode(), oid, False, f"${number}") if text is not None else None
            for number, (text, oid) in enumerate(zip(texts, prepared.parameters, strict=True), 1)
        ]

    def _locate_error(self, error: Refusal | WireError, statement: Statement, offset: int) -> WireError:
        text, inside = question_of(statement)
        said = reported(error, text, offset + inside)
        return WireError(
            said.sqlstate, said.message, said.detail, said.hint, said.position, fatal=said.severity == "FATAL"
        )

    # ── extended ──

    async def _parse(self, body: Body) -> None:
        name, text = body.text(), body.text()
        declared = [body.number(">I") for _ in range(body.count())]
        body.end()
        self._statements.check_new(name)
        offset, statement = await self._compute(len(text), lambda: one_statement(text))
        self._block.check(statement)
        try:
            prepared = await self._wait(self._answering.prepare(statement, declared))
        except (Refusal, WireError) as error:
            raise self._locate_error(error, statement, offset) from None
        self._statements.keep(name, replace(prepared, offset=offset, text_bytes=getsizeof(text)))
        self._send(frame(b"1"))

    async def _bind(self, body: Body) -> None:
        portal, name = body.text(), body.text()
        prepared = self._statements.known(name)
        forms = [body.number(">h") for _ in range(body.count())]
        values = [body.value() for _ in range(body.count())]
        results = [body.number(">h") for _ in range(body.count())]
        body.end()
        self._block.check(prepared.statement)
        described, prepared = prepared.columns, await self._fresh(prepared)
        if name and prepared.columns != described:
            raise stale()
        if len(values) != len(prepared.parameters):
            raise WireError(
                "08P01",
                f"bind message supplies {len(values)} parameters, but the prepared statement requires "
                f"{len(prepared.parameters)}",
            )
        self._portals.check_new(portal)
        if portal in self._cursors:
            raise already_exists(portal)
        inputs = formats_of(forms, len(values))
        formats = formats_of(results, len(prepared.columns or ()))
        holding = self._holding()

        def read() -> list[object]:
            found = read_values(values, prepared.parameters, inputs)
            holding.add(prepared.size + 4 * len(portal) + size_of(found) + 8 * len(formats))
            return found

        given = await self._compute(sum(len(value or b"") for value in values), read)
        self._portals.open(portal, Portal(prepared, given, formats, holding))
        self._send(frame(b"2"))

    async def _describe(self, body: Body) -> None:
        kind, name = body.raw(1), body.text()
        body.end()
        if kind == b"S":
            prepared = await self._fresh(self._statements.known(name))
            self._block.check(prepared.statement)
            self._send(parameter_description(prepared.parameters))
            formats: tuple[int, ...] = (0,) * len(prepared.columns or ())
        elif kind == b"P" and name in self._cursors:
            prepared = self._cursors.known(name).question
            formats = (0,) * len(prepared.columns or ())
        elif kind == b"P":
            portal = self._portals.known(name)
            prepared, formats = portal.prepared, portal.formats
            self._block.check(prepared.statement)
        else:
            raise violation("Describe names neither a statement nor a portal.", fatal=False)
        self._send(frame(b"n") if prepared.columns is None else row_description(prepared.columns, formats))

    async def _execute(self, body: Body) -> None:
        name, most = body.text(), body.number(">i")
        body.end()
        portal = self._portals.known(name)
        statement = portal.prepared.statement
        self._block.check(statement)
        if portal.prepared.columns is None:
            if statement == EmptyStatement(""):
                self._send(frame(b"I"))
            else:
                await self._located_command(portal)
            return
        if portal.answer is None:
            try:
                portal.answer = await self._wait(self._answering.run(portal.prepared, portal.values, portal.formats))
            except (Refusal, WireError) as error:
                raise self._locate_error(error, statement, portal.prepared.offset) from None
        await self._rows(portal, portal.answer, most)

    async def _rows(self, portal: Portal, answer: Answer, most: int) -> None:
        first = portal.shown
        last = len(answer.messages) if most <= 0 else min(first + most, len(answer.messages))
        for at in range(first, last):
            self._send(answer.messages[at])
            portal.shown = at + 1
            await self._drain()
        if not first:
            self._outgoing.notify(answer.notices)
        if 0 < most == last - first and last < len(answer.messages):
            self._send(frame(b"s"))
        else:
            portal.answer = replace(answer, messages=(), holding=None, notices=())  # all have left
            portal.shown = 0
            self._send(command_complete(f"{answer.tag} {last - first}" if answer.count else answer.tag))

    async def _close(self, body: Body) -> None:
        kind, name = body.raw(1), body.text()
        body.end()
        if kind == b"S":
            self._statements.forget(name)
        elif kind == b"P":
            self._portals.close(name)
            self._cursors.forget(name)
        else:
            raise violation("Close names neither a statement nor a portal.", fatal=False)
        self._send(frame(b"3"))

    # ── statements that change the session ──

    async def _located_command(self, portal: Portal) -> None:
        try:
            await self._commands.run(portal.prepared, portal.values)
        except (Refusal, WireError) as error:
            raise self._locate_error(error, portal.prepared.statement, portal.prepared.offset) from None

    # ── what all of them need ──

    async def _wait(self, work: Awaitable[T]) -> T:
        """Wait for something, or until the client cancels it."""
        return await self._wait_for.result(work, self._settings.timeout)

    async def _compute(self, size: int, work: Callable[[], T]) -> T:
        """Compute something from what a client sent: long things in a worker thread, not on the event loop."""
        return work() if size <= MAX_LOOP_CHARS else await self._wait(self._gate.work(self._caller, work))

    async def _fresh(self, prepared: ReadyStatement) -> ReadyStatement:
        """Return a statement as the settings of now have it."""
        if not self._answering.is_stale(prepared):
            return prepared
        return await self._wait(self._answering.prepare(prepared.statement, prepared.parameters))

    def _check_session(self) -> None:
        """Refuse a session of a server that stops, or of a grant that no longer counts."""
        if self._gate.stopping:
            raise Stopping()
        if not self._gate.grants.stands(self._caller.grant):
            raise NotGranted()

    def _fail(self, error: Refusal | WireError) -> None:
        """Send an error; messages up to the next Sync are passed over, and a transaction has failed."""
        said: Reported = reported(Stopping() if self._gate.stopping else error)
        if said.severity == "FATAL":
            raise WireError(said.sqlstate, said.message, said.detail, said.hint, fatal=True)
        self._send(error_frame(said))
        self._skipping = self._has_failed = True
        self._pending.clear()
        self._waiting.release()
        self._block.fail()

    async def _ready(self) -> None:
        self._block.rest()
        if self._block.status == b"I":
            self._cursors.end_transaction(not self._has_failed)
            self._views.end_transaction(not self._has_failed)
        self._has_failed = False
        now = self._settings.reported()
        for name, value in now.items():
            if self._told.get(name) != value:
                self._send(parameter_status(name, value))
        self._told = now
        self._send(ready(self._block.status))
        await self._flush()


_MESSAGE_METHODS = {
    b"P": WireSession._parse,
    b"B": WireSession._bind,
    b"D": WireSession._describe,
    b"E": WireSession._execute,
    b"C": WireSession._close,
}
