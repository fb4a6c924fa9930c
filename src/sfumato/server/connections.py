"""The connections of a server: counted at accept, before TLS and before log-in, for both protocols together.

A client that has not logged in never takes the place of one that has. Where too many have not, the oldest connection of
the address that has most of them ends: a flood from one address ends its own connections. Proof: proofs/admission.md
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import Self

from sfumato.server.limits import ServerLimits
from sfumato.server.proxies import TrustedProxies

_MAX_REFUSALS_PER_ACCEPT = 64
"""Refused connections in a row before the event loop does something else."""
_MAX_CLOSING_CONNECTIONS = 8
"""Connections that were ended to make room and are not closed yet. The event loop closes them before more come, and
reads what others have sent: in a flood, a client that sends at once is read before it is evicted."""
_KEEPALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4), ("TCP_USER_TIMEOUT", 120_000))
"""A peer that does not answer is gone after two minutes: seconds, seconds, probes, milliseconds."""


def network_of(address: str) -> str:
    """Return the network of an address: an IPv4 address, or the /64 of an IPv6 address.

    >>> network_of("2001:db8::1:2"), network_of("::ffff:192.0.2.1")
    ('2001:db8::/64', '192.0.2.1')
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{IPv6Address(int(parsed) >> 64 << 64)}/64"


class ClientConnection:
    """One accepted connection."""

    __slots__ = ("abort", "account", "is_closed", "is_ended", "network", "started", "written")

    def __init__(self, network: str, abort: Callable[[], None]) -> None:
        self.network = network
        self.abort = abort
        """Ends it at once. A protocol replaces it when it has its transport."""
        self.account: str | None = None
        """Who has logged in; None before that."""
        self.is_closed = False
        """Whether its socket is closed; a request that was read from it may still be under way."""
        self.is_ended = False
        """Whether it was ended to make room for another; its socket closes soon."""
        self.started = False
        """Whether the protocol has it: the TLS handshake of an HTTP connection is complete."""
        self.written = 0
        """Bytes of HTTP replies that were handed to its transport."""


class Connections:
    """All connections of one server. It belongs to one event loop."""

    def __init__(self, limits: ServerLimits | None = None, proxies: TrustedProxies | None = None) -> None:
        self.limits = limits or ServerLimits()
        self._proxies = proxies or TrustedProxies()
        self._open: dict[int, ClientConnection] = {}
        """By file descriptor."""
        self._per_network: dict[str, int] = {}
        self._per_account: dict[str, int] = {}
        self._waiting: dict[str, dict[ClientConnection, None]] = {}
        """Connections before login, by network, oldest first."""
        self._waiting_count = 0
        self._closing = 0

    @property
    def open(self) -> int:
        """How many are open."""
        return len(self._open)

    @property
    def before_login(self) -> int:
        """How many have not logged in."""
        return self._waiting_count

    def can_accept(self) -> bool:
        """Tell whether another socket may be accepted now."""
        return self._closing < _MAX_CLOSING_CONNECTIONS and len(self._open) - self._closing <= self.limits.connections

    def admit(self, descriptor: int, address: str, abort: Callable[[], None]) -> bool:
        """Count a connection that was accepted, or say that it must be closed."""
        network, limits = network_of(address), self.limits
        trusted = self._proxies.trusts(address)
        if not trusted and self._per_network.get(network, 0) >= limits.connections_per_address:
            return False
        own = self._waiting.get(network, {})
        if not trusted and len(own) >= limits.connections_before_login_per_address:
            self._evict(network)
        elif self._waiting_count >= limits.connections_before_login:
            self._evict(self._heaviest())
        connection = ClientConnection(network, abort)
        self._open[descriptor] = connection
        self._per_network[network] = self._per_network.get(network, 0) + 1
        self._wait(connection)
        self._watch_handshake(connection)
        return True

    def of(self, transport: asyncio.BaseTransport) -> ClientConnection | None:
        """Return the connection of a transport, whose protocol has begun; it is ended through the transport now."""
        raw_socket = transport.get_extra_info("socket")
        connection = self._open.get(raw_socket.fileno()) if raw_socket is not None else None
        if connection is not None:
            connection.started = True
            if isinstance(transport, asyncio.WriteTransport):
                connection.abort = transport.abort
        return connection

    def log_in(self, connection: ClientConnection, account: str) -> bool:
        """Note who has logged in; say whether there is room for them."""
        if connection.is_closed or connection.is_ended or connection.account == account:
            return True
        self.log_out(connection)
        per_account = self._per_account.get(account, 0)
        logged_in = sum(self._per_account.values())
        room = self.limits.connections - self.limits.connections_before_login
        if per_account >= self.limits.connections_per_account or logged_in >= room:
            return False
        self._stop_waiting(connection)
        connection.account = account
        self._per_account[account] = per_account + 1
        return True

    def log_out(self, connection: ClientConnection) -> None:
        """Note that the connection no longer belongs to an account."""
        if connection.account is not None and not connection.is_closed:
            _decrease(self._per_account, connection.account)
            connection.account = None
            self._wait(connection)
            if self._waiting_count > self.limits.connections_before_login:
                self._evict(self._heaviest())

    def closed(self, descriptor: int) -> None:
        """Forget a connection whose socket is closed."""
        connection = self._open.pop(descriptor, None)
        if connection is None:
            return
        connection.is_closed = True
        if connection.is_ended:
            self._closing -= 1
            return
        _decrease(self._per_network, connection.network)
        if connection.account is not None:
            _decrease(self._per_account, connection.account)
        else:
            self._stop_waiting(connection)

    def _wait(self, connection: ClientConnection) -> None:
        self._waiting.setdefault(connection.network, {})[connection] = None
        self._waiting_count += 1

    def _stop_waiting(self, connection: ClientConnection) -> None:
        own = self._waiting.get(connection.network, {})
        if connection in own:
            del own[connection]
            self._waiting_count -= 1
            if not own:
                del self._waiting[connection.network]

    def _heaviest(self) -> str:
        """Return a network with the most connections before login."""
        return max(self._waiting, key=lambda name: len(self._waiting[name]))

    def _evict(self, network: str) -> None:
        oldest = next(iter(self._waiting[network]))
        self._stop_waiting(oldest)
        _decrease(self._per_network, network)
        oldest.is_ended = True
        self._closing += 1
        oldest.abort()

    def _watch_handshake(self, connection: ClientConnection) -> None:
        def check() -> None:
            if not connection.started:
                connection.abort()

        with contextlib.suppress(RuntimeError):  # no loop runs yet
            asyncio.get_running_loop().call_later(self.limits.handshake_seconds, check)


class CountedSocket(socket.socket):
    """A socket that is counted until it is closed."""

    _connections: Connections | None = None
    _number = -1

    def counted(self, connections: Connections, address: str) -> bool:
        """Ask to be counted; False means that this socket must be closed."""
        self._number = self.fileno()
        if connections.admit(self._number, address, self.end):
            self._connections = connections
            return True
        return False

    def end(self) -> None:
        """End the connection; its reader sees the end."""
        with contextlib.suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close it, and count it no longer."""
        super().close()
        connections, self._connections = self._connections, None
        if connections is not None:
            connections.closed(self._number)


class ListeningSocket(socket.socket):
    """A bound socket that accepts only what its `Connections` admit. asyncio's servers take it as it is."""

    _connections: Connections

    @classmethod
    def over(cls, bound: socket.socket, connections: Connections) -> Self:
        """Take over a bound socket."""
        listener = cls(bound.family, bound.type, bound.proto, bound.detach())
        listener._connections = connections
        return listener

    def accept(self) -> tuple[socket.socket, object]:
        """Accept the next connection that is admitted; others are closed at once."""
        for _ in range(_MAX_REFUSALS_PER_ACCEPT):
            if not self._connections.can_accept():
                break  # evicted ones close first; others wait in the backlog
            descriptor, address = self._accept()  # type: ignore[attr-defined]
            accepted = CountedSocket(self.family, self.type, self.proto, descriptor)
            if accepted.counted(self._connections, str(address[0])):
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for name, value in _KEEPALIVE:
                    if hasattr(socket, name):
                        accepted.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
                return accepted, address
            accepted.close()
        raise BlockingIOError


def _decrease(counts: dict[str, int], name: str) -> None:
    left = counts.get(name, 0) - 1
    if left > 0:
        counts[name] = left
    else:
        counts.pop(name, None)
