"""Connections: from the first byte to a session, with limits on how many and how long; and cancellation."""

import asyncio
import contextlib
import hmac
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

from sfumato.database import Database
from sfumato.errors import Refusal, Stopping
from sfumato.query.probes import mark_column
from sfumato.randomness.source import read_exactly, system_source
from sfumato.server.addresses import bind_socket
from sfumato.server.connections import Connections, ListeningSocket
from sfumato.server.gate import Caller, Gateway
from sfumato.server.grant_stores.stored import Grant
from sfumato.server.tls import Tls
from sfumato.server.wire.authentication import Exchange, begin, failed, mechanisms, printable_name
from sfumato.server.wire.charge_notices import price_notice
from sfumato.server.wire.frames import (
    Body,
    TooLarge,
    error_frame,
    frame,
    notice_frame,
    parameter_status,
    read_frame,
    zero_ended,
)
from sfumato.server.wire.memory import MemoryLimits, SessionMemory
from sfumato.server.wire.pg_catalog.catalogue import Catalogue
from sfumato.server.wire.pg_catalog.relations import LISTING_DATABASES
from sfumato.server.wire.pg_catalog.session_facts import SessionFacts
from sfumato.server.wire.session import WireSession
from sfumato.server.wire.settings import SERVER_VERSION, Settings
from sfumato.server.wire.sqlstates import WireError, reported, violation
from sfumato.server.wire.startup import MAX_STARTUP_BYTES, CancelRequest, GssRequest, SslRequest, StartUp, read_packet

_MAX_BYTES_BEFORE_LOGIN = 4096
"""Bytes of a message before the client has logged in."""
_STREAM_BUFFER_BYTES = 16 << 10
"""Bytes that are read ahead from one client."""
_CHANNEL = "postgresql"


@dataclass(slots=True)
class Wire:
    """Everything that the connections of one server share."""

    gates: tuple[Gateway, ...]
    """One per dataset; the name of its policy is the name of the database."""
    tls: Callable[[], Tls | None]
    """Returns the certificate in force."""
    connections: Connections
    """Those of both protocols, with their limits."""
    sessions: dict[tuple[int, int], WireSession] = field(default_factory=dict)
    accounts: dict[str, int] = field(default_factory=dict)
    catalogues: dict[tuple[str, bool, int], Catalogue] = field(default_factory=dict)
    """By dataset and account, whether the database has tables, and the number of the policy in force."""
    memory: SessionMemory = field(default_factory=SessionMemory)
    served: "dict[asyncio.Task[None], _Connection]" = field(default_factory=dict)

    def gate_of(self, database: str) -> Gateway:
        """Return the dataset that a database name means. The first one answers for all other names.

        A client learns only after log-in that there is no database of its name.
        """
        return next((gate for gate in self.gates if gate.policy.name == database), self.gates[0])

    def catalogue(self, gate: Gateway, grant: Grant, database: str) -> Catalogue:
        """Return the catalogue of an account; a database that lists the others has no tables."""
        has_tables, caller = database == gate.policy.name, Caller(grant, _CHANNEL, "", gate.dataset)
        key = (caller.view, has_tables, gate.policies)
        made = self.catalogues.get(key)
        if made is None:  # worker threads come here at once, and may forget what another has made
            for old in [known for known in list(self.catalogues) if known[:2] == key[:2]]:
                self.catalogues.pop(old, None)
            shown = gate.database(caller)
            columns = _with_marks(shown) if has_tables else {}
            made = Catalogue(shown.visible_policy, columns, grant.account)
            made = self.catalogues.setdefault(key, made)
        return made

    def end(self) -> None:
        """Tell every client that the server ends, as PostgreSQL does, and let go of it."""
        for task, connection in self.served.items():
            connection.say(error_frame(reported(Stopping())))
            task.cancel()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection; whatever goes wrong ends it, and nothing else."""
        task = asyncio.current_task()
        if task is None:
            raise AssertionError("a connection is served by a task")
        connection = self.served[task] = _Connection(self, reader, writer)
        try:
            await connection.serve()
        except (WireError, Refusal) as error:
            connection.say(error_frame(reported(error)))
        except (OSError, EOFError, TimeoutError, asyncio.CancelledError):
            pass
        except Exception:  # a bug ends this connection, without a trace that could hold a value
            connection.say(
                error_frame(reported(violation("The server ended this connection because of an internal error.")))
            )
        finally:
            self.served.pop(task, None)
            await connection.close()


async def start(
    gates: tuple[Gateway, ...],
    host: str,
    port: int,
    tls: Callable[[], Tls | None] | None = None,
    limits: MemoryLimits | None = None,
    connections: Connections | None = None,
    listener: ListeningSocket | None = None,
) -> "WireServer":
    """Listen for PostgreSQL's clients. With TLS they can bind the password to the certificate.

    Without a `listener` the port is taken here.
    """
    counted = connections or Connections()
    wire = Wire(gates, tls or (lambda: None), counted, memory=SessionMemory(limits or _memory(counted)))
    taken = listener or ListeningSocket.over(bind_socket(host, port), counted)
    return WireServer(
        wire, await asyncio.start_server(wire.connected, sock=taken, backlog=512, limit=_STREAM_BUFFER_BYTES)
    )


def _memory(connections: Connections) -> MemoryLimits:
    most = connections.limits.pg_bytes_per_account
    return MemoryLimits(most, max(4 * most, MemoryLimits().server))


class WireServer:
    """A server that listens, and its connections."""

    def __init__(self, wire: Wire, listener: asyncio.Server) -> None:
        self.wire = wire
        self._listener = listener

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Listen no longer, and end every connection with PostgreSQL's own words."""
        self._listener.close()
        self.wire.end()


class _Connection:
    """One connection before it is a session."""

    def __init__(self, wire: Wire, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._wire = wire
        self._reader = reader
        self._writer = writer
        self._counted = wire.connections.of(writer.transport)
        self._encrypted = False
        self._binding: bytes | None = None
        """Digest of the certificate that this connection was encrypted with."""

    async def serve(self) -> None:
        """Let the client say who it is, then answer it until it leaves."""
        async with asyncio.timeout(self._wire.connections.limits.login_seconds):
            packet = await self._first()
            if packet is None:
                return
            caller = await self._authenticate(packet)
        if self._counted is not None and not self._wire.connections.log_in(self._counted, caller.holder):
            raise _too_many()
        await self._session(packet, caller)

    def say(self, data: bytes) -> None:
        """Send something, if anybody is there to read it."""
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.write(data)

    async def close(self) -> None:
        """Close the connection; who does not read has no claim on what is left."""
        with contextlib.suppress(OSError, RuntimeError, TimeoutError, asyncio.CancelledError):
            self._writer.close()
            async with asyncio.timeout(1.0):
                await self._writer.wait_closed()
        self._writer.transport.abort()  # a transport that closes still waits for its reader

    async def _first(self) -> StartUp | None:
        while True:
            (length,) = struct.unpack(">I", await self._reader.readexactly(4))
            if length < 8 or length > MAX_STARTUP_BYTES:
                raise violation("The first packet is not a start-up message of protocol 3.0.")
            packet = read_packet(await self._reader.readexactly(length - 4))
            match packet:
                case SslRequest() if (tls := self._wire.tls()) is not None and not self._encrypted:
                    await self._encrypt(tls)
                case SslRequest() | GssRequest():
                    self._writer.write(b"N")
                    await self._writer.drain()
                case CancelRequest(process, secret):
                    self._cancel(process, secret)
                    return None
                case StartUp():
                    self._check(packet)
                    return packet

    def _check(self, packet: StartUp) -> None:
        if any(gate.stopping for gate in self._wire.gates):
            raise WireError("57P03", "the database system is shutting down", "", "Try again later.", fatal=True)
        if self._wire.tls() is not None and not self._encrypted:
            raise WireError(
                "28000",
                "This server requires TLS.",
                "The password would otherwise not be bound to it.",
                "Connect with sslmode=require.",
                fatal=True,
            )
        if packet.minor or packet.unknown:
            options = b"".join(zero_ended(name) for name in packet.unknown)
            self._writer.write(frame(b"v", struct.pack(">ii", 3 << 16, len(packet.unknown)) + options))

    async def _encrypt(self, tls: Tls) -> None:
        if self._reader._buffer:  # type: ignore[attr-defined]  # bytes before the handshake are not protected by it
            raise violation("Something was sent before TLS began.")
        self._writer.write(b"S")
        await self._writer.drain()
        await self._writer.start_tls(tls.context)
        self._encrypted = True
        self._binding = sha256(tls.certificate).digest() if tls.certificate else None

    def _cancel(self, process: int, secret: int) -> None:
        for (known, expected), session in list(self._wire.sessions.items()):
            if known == process and hmac.compare_digest(expected.to_bytes(4, "big"), secret.to_bytes(4, "big")):
                session.cancel()

    async def _authenticate(self, packet: StartUp) -> Caller:
        gate, address, binding = self._wire.gate_of(packet.database), self._address(), self._binding
        logins = gate.grants.of_user(packet.user)
        offered = b"".join(zero_ended(name) for name in mechanisms(binding)) + b"\x00"
        self._writer.write(frame(b"R", struct.pack(">i", 10) + offered))
        await self._writer.drain()
        try:
            body = Body(await self._answer())
            mechanism, length = body.text(), body.number(">i")
            first = body.raw(length) if length >= 0 else b""
            nonce = read_exactly(system_source(), 18)
            exchange: Exchange = begin(
                packet.user, tuple(login.verifier for login in logins), mechanism, first, nonce, binding
            )
            self._writer.write(frame(b"R", struct.pack(">i", 11) + exchange.challenge.encode()))
            await self._writer.drain()
            fitting, proof = exchange.final(await self._answer())
            grant = logins[fitting].grant
            if grant is None:
                raise failed(packet.user)
        except WireError:
            gate.audit.write(_CHANNEL, address, None, "connect", "not_granted")
            raise
        self._writer.write(frame(b"R", struct.pack(">i", 12) + proof) + frame(b"R", struct.pack(">i", 0)))
        if packet.database not in (gate.policy.name, *LISTING_DATABASES):
            name = printable_name(packet.database)
            gate.audit.write(_CHANNEL, address, grant.account, "connect", "unknown_name")
            raise WireError("3D000", f'database "{name}" does not exist', "", f"Use {gate.policy.name}.", fatal=True)
        gate.grants.note_use(grant)
        gate.audit.write(_CHANNEL, address, grant.account, "connect", "ok")
        return Caller(grant, _CHANNEL, address, gate.dataset)

    async def _answer(self) -> bytes:
        try:
            kind, body = await read_frame(
                self._reader, await self._reader.readexactly(1), largest=_MAX_BYTES_BEFORE_LOGIN
            )
        except TooLarge:
            raise violation("A message of the authentication is too long.") from None
        if kind != b"p":
            raise violation("A message of the authentication was expected.")
        return body

    def _address(self) -> str:
        name = self._writer.get_extra_info("peername")
        return str(name[0]) if isinstance(name, tuple) and name else ""

    async def _session(self, packet: StartUp, caller: Caller) -> None:
        wire, account, gate = self._wire, caller.holder, self._wire.gate_of(packet.database)
        limits = wire.connections.limits
        if len(wire.sessions) >= limits.pg_sessions or wire.accounts.get(account, 0) >= limits.pg_sessions_per_account:
            raise _too_many()
        try:
            settings = Settings(caller.grant.account, packet.settings)
        except WireError as error:
            said = error.reported
            raise WireError(said.sqlstate, said.message, said.detail, said.hint, fatal=True) from None
        key = self._key()
        host, port = self._writer.get_extra_info("sockname")[:2]
        facts = SessionFacts(caller.grant.account, packet.database, key[0], host, port, self._encrypted, settings)
        wire.catalogue(gate, caller.grant, packet.database)  # built before the session begins
        session = WireSession(
            self._reader,
            self._writer,
            gate,
            caller,
            lambda: wire.catalogue(gate, caller.grant, packet.database),
            settings,
            facts,
            wire.memory,
            limits.pg_idle_seconds,
            limits.pg_session_seconds,
        )
        wire.sessions[key] = session
        wire.accounts[account] = wire.accounts.get(account, 0) + 1
        try:
            for name, value in _startup_settings(settings, caller.grant.account).items():
                self._writer.write(parameter_status(name, value))
            self._writer.write(frame(b"K", struct.pack(">II", *key)))
            if settings.wants_notices and not settings.price():
                for notice in price_notice(gate.policy, caller.account):
                    self._writer.write(notice_frame(notice))
            await session.serve()
        finally:
            session.end()
            del wire.sessions[key]
            wire.accounts[account] -= 1

    def _key(self) -> tuple[int, int]:
        while True:
            process, secret = struct.unpack(">II", read_exactly(system_source(), 8))
            process &= 0x7FFFFFFF
            if process and secret and all(process != known for known, _ in self._wire.sessions):
                return process, secret


def _too_many() -> WireError:
    return WireError("53300", "too many connections", "", "Close some, or try again later.", fatal=True)


def _with_marks(database: Database) -> dict[str, dict[str, str]]:
    """Return the columns of every table; where previews are made up, private tables have one that marks them."""
    columns = database.columns()
    for name, table in database.catalog.tables.items():
        if table.previewed and name in columns:
            columns[name] |= {mark.name: str(mark.expression.type) for mark in mark_column(table.columns)}
    return columns


def _startup_settings(settings: Settings, user: str) -> dict[str, str]:
    """Return what a client is told when it begins."""
    fixed = {"server_version": SERVER_VERSION, "server_encoding": "UTF8", "integer_datetimes": "on"}
    fixed |= {"is_superuser": "off", "session_authorization": user, "in_hot_standby": "off"}
    return fixed | {"default_transaction_read_only": "off"} | settings.reported()
