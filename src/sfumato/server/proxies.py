"""Reverse proxies: forwarded addresses are believed only from proxies that the owner named."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from sfumato.errors import BadParameter, quote_value


@dataclass(frozen=True, slots=True)
class TrustedProxies:
    """The proxies of one server; none unless the owner named some."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    def trusts(self, address: str) -> bool:
        """Tell whether an address is that of a named proxy."""
        if not self.networks:
            return False
        try:
            found = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        return any(found in network for network in self.networks)

    def client_address(self, peer: str, forwarded_for: Sequence[str]) -> str:
        """Return where a request came from: the last address in X-Forwarded-For that is no named proxy.

        Only a named proxy's header counts, and only what such proxies added to it.

        >>> read_proxies(["10.0.0.0/8"]).client_address("10.0.0.1", ["6.6.6.6, 192.0.2.7, 10.0.0.2"])
        '192.0.2.7'
        >>> read_proxies([]).client_address("127.0.0.1", ["6.6.6.6"])
        '127.0.0.1'
        """
        if not self.trusts(peer):
            return peer
        client = peer
        for text in reversed(",".join(forwarded_for).split(",")):
            try:
                client = str(ip_address(text.strip()))
            except ValueError:
                return client
            if not self.trusts(client):
                return client
        return client


def read_proxies(texts: Iterable[str]) -> TrustedProxies:
    """Read addresses and networks, such as 10.0.0.1 and 10.0.0.0/8."""
    networks = []
    for text in texts:
        try:
            networks.append(ip_network(text))
        except ValueError:
            pass
        else:
            continue
        raise BadParameter(
            f"{quote_value(text)} is not the address of a proxy.",
            "A trusted proxy is named by its IP address, or by a network without host bits.",
            "Write for example 10.0.0.1 or 10.0.0.0/8.",
        )
    return TrustedProxies(tuple(networks))
