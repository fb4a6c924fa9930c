"""Where a server listens: a loopback address, or any other with TLS."""

import socket
from ipaddress import ip_address
from urllib.parse import quote

from sfumato.errors import BadParameter, quote_value

LOCAL = ("localhost", "127.0.0.1", "::1")
_MAX_PORT = 65535


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address; a name counts if all its addresses do."""
    return all(ip_address(address).is_loopback for address in _addresses(host))


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket that has its port and does not listen yet."""
    if not 0 <= port <= _MAX_PORT:
        raise BadParameter(
            f"There is no port {quote_value(port)}.", f"Ports go from 1 to {_MAX_PORT}.", "0 chooses a free port."
        )
    address = _addresses(host)[0]
    bound_socket = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    bound_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a server that was killed starts again at once
    try:
        bound_socket.bind((address, port))
        return bound_socket
    except OSError:
        bound_socket.close()
    raise port_in_use(host, port)


def port_in_use(host: str, port: int) -> BadParameter:
    """Return the refusal of a port that cannot be had."""
    return BadParameter(
        f"Port {port} of {quote_value(host)} cannot be used.",
        "Another program listens there, this machine has no such address, or the port is reserved.",
        "Name another port; 0 chooses a free port.",
    )


def url(scheme: str, host: str, port: int, user: str = "", path: str = "") -> str:
    """Return an address to paste.

    >>> url("postgresql", "::1", 5433, "ann b", "clinic")
    'postgresql://ann%20b@[::1]:5433/clinic'
    """
    before = f"{quote(user, safe='')}@" if user else ""
    return f"{scheme}://{before}{f'[{host}]' if ':' in host else host}:{port}/{quote(path, safe='')}"


def _addresses(host: str) -> list[str]:
    try:
        infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        infos = []
    if not infos:
        raise BadParameter(
            f"There is no host {quote_value(host)}.",
            "Its name has no address here.",
            "Give an address of this machine.",
        )
    return [str(info[4][0]).partition("%")[0] for info in infos]
