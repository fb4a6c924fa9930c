"""Connections: whoever has not logged in takes no place of others, and the count is that of open sockets."""

import asyncio
import random
import resource
import socket

import pytest

from sfumato.errors import BadParameter
from sfumato.server.addresses import bind_socket
from sfumato.server.connections import ClientConnection, Connections, ListeningSocket, network_of
from sfumato.server.limits import ServerLimits, raise_file_limit
from sfumato.server.proxies import read_proxies

SMALL = ServerLimits(
    connections=40,
    connections_per_address=20,
    connections_per_account=8,
    connections_before_login=12,
    connections_before_login_per_address=6,
)


class Sockets:
    """Connections of a server, without a network: an ended one closes when the loop would close it."""

    def __init__(self, counted: Connections) -> None:
        self.counted = counted
        self.open: dict[int, ClientConnection] = {}
        self.ended: list[int] = []
        self._next = 0

    def accept(self, address: str) -> int | None:
        self._next += 1
        number = self._next
        if not self.counted.can_accept() or not self.counted.admit(number, address, lambda: self.ended.append(number)):
            return None
        self.open[number] = self.counted._open[number]
        return number

    def close(self, number: int) -> None:
        del self.open[number]
        self.counted.closed(number)


@pytest.mark.parametrize("seed", range(20))
def test_nobody_before_log_in_ends_a_connection_after_it_and_a_flood_ends_only_its_own(seed: int) -> None:
    dice, counted = random.Random(seed), Connections(SMALL)
    sockets = Sockets(counted)
    addresses = [f"10.0.0.{number}" for number in range(5)] + ["10.9.9.9"] * 6  # one of them floods
    for _ in range(600):
        step = dice.random()
        if step < 0.6:
            address = dice.choice(addresses)
            waiting = {name: len(found) for name, found in counted._waiting.items()}
            own = waiting.get(address, 0)
            sockets.accept(address)
            for ended in sockets.ended:
                victim = sockets.open[ended]
                assert victim.account is None
                assert victim.network == address or waiting[victim.network] == max(waiting.values()) >= own
        elif step < 0.8 and sockets.open:
            number = dice.choice(list(sockets.open))
            counted.log_in(sockets.open[number], f"account {number % 5}")
        elif step < 0.85 and sockets.open:
            counted.log_out(sockets.open[dice.choice(list(sockets.open))])
        elif sockets.open:
            sockets.close(dice.choice(list(sockets.open)))
        for number in sockets.ended:
            if number in sockets.open:
                sockets.close(number)
        sockets.ended.clear()
        accounts = [one.account for one in sockets.open.values() if one.account is not None]
        networks = [one.network for one in sockets.open.values()]
        assert counted.open == len(sockets.open) <= SMALL.connections
        assert counted.before_login == len(sockets.open) - len(accounts) <= SMALL.connections_before_login
        assert all(networks.count(one) <= SMALL.connections_per_address for one in networks)
        assert all(accounts.count(one) <= SMALL.connections_per_account for one in accounts)
    for number in list(sockets.open):
        sockets.close(number)
    assert (counted.open, counted.before_login) == (0, 0)
    assert not counted._per_network
    assert not counted._per_account


def test_when_all_places_are_taken_somebody_else_still_comes_in() -> None:
    counted = Connections(SMALL)
    sockets = Sockets(counted)
    for number in range(28):
        found = sockets.accept(f"10.0.{number}.1")
        assert found is not None
        assert counted.log_in(sockets.open[found], f"account {number}")
    for number in range(100):
        sockets.accept(f"10.1.0.{number % 3}")
        for ended in sockets.ended:
            sockets.close(ended)
        sockets.ended.clear()
    came = sockets.accept("10.2.0.1")
    assert came is not None
    assert came not in sockets.ended
    assert not counted.log_in(sockets.open[came], "too many")
    assert all(one.account is not None for number, one in sockets.open.items() if number <= 28)


def test_a_request_that_outlives_its_connection_counts_for_nobody() -> None:
    counted = Connections(SMALL)
    sockets = Sockets(counted)
    for _ in range(100):
        found = sockets.accept("10.0.0.1")
        assert found is not None
        connection = sockets.open[found]
        sockets.close(found)
        assert counted.log_in(connection, "research")
        counted.log_out(connection)
    assert not counted._per_account
    assert counted.before_login == 0


def test_the_limits_stay_well_below_the_files_of_the_process() -> None:
    for files in (64, 256, 1024, 4096, 65_536):
        limits = ServerLimits().within_files(files)
        assert limits.connections <= files // 2
        assert limits.connections_before_login < limits.connections
        assert limits.connections_before_login_per_address <= limits.connections_before_login
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert raise_file_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= before[0]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_one_network_is_an_ipv4_address_or_the_64_bits_of_an_ipv6_prefix() -> None:
    assert network_of("2001:db8:1:2::3") == network_of("2001:db8:1:2:ffff::9%eth0") != network_of("2001:db8:1:3::3")
    assert network_of("::ffff:10.0.0.1") == network_of("10.0.0.1") != network_of("10.0.0.2")
    assert len(network_of("x" * 1000)) < 100


def test_sockets_are_counted_from_accept_to_close_whatever_is_sent() -> None:
    async def course() -> None:
        counted = Connections(SMALL)
        listening = ListeningSocket.over(bind_socket("127.0.0.1", 0), counted)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            assert counted.of(writer.transport) is not None
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, sock=listening)
        clients = [socket.create_connection(listening.getsockname()) for _ in range(30)]
        while counted.before_login < SMALL.connections_before_login_per_address:
            await asyncio.sleep(0)
        while counted.open > SMALL.connections_before_login_per_address or counted.before_login > counted.open:
            await asyncio.sleep(0)
        for client in clients:
            client.close()
        while counted.open:
            await asyncio.sleep(0)
        server.close()

    asyncio.run(asyncio.wait_for(course(), 60))


def test_a_tls_handshake_that_never_ends_is_ended() -> None:
    async def course() -> None:
        counted = Connections(ServerLimits(handshake_seconds=0.05))
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        assert counted.admit(7, "10.0.0.1", lambda: ended.set_result(None))
        await asyncio.wait_for(ended, 60)

    asyncio.run(course())


def test_a_forwarded_address_is_believed_from_named_proxies_only() -> None:
    proxies = read_proxies(["10.0.0.1", "fd00::/8"])
    for peer in ("127.0.0.1", "10.0.0.2", "::1", ""):
        assert proxies.client_address(peer, ["6.6.6.6"]) == peer
    for peer in ("10.0.0.1", "fd00::5", "::ffff:10.0.0.1"):
        assert proxies.client_address(peer, ["1.1.1.1, 6.6.6.6"]) == "6.6.6.6"
        assert proxies.client_address(peer, ["6.6.6.6", "fd00::7"]) == "6.6.6.6"
        assert proxies.client_address(peer, ["nonsense"]) == peer
        assert proxies.client_address(peer, []) == peer
    with pytest.raises(BadParameter):
        read_proxies(["10.0.0.1/8"])
