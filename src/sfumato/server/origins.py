"""Whom a request is meant for, and whose page sent it: foreign pages cannot use somebody's access.

A page elsewhere that gives this server a name of its own (DNS rebinding) is known by `Host`; one that sends a form or a
script's request is known by `Origin`.
"""

import re
from dataclasses import dataclass

from sfumato.errors import ForeignOrigin

_AUTHORITY = re.compile(r"(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9_.-]{1,253})(?::(\d{1,5}))?")
_STANDARD = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origins:
    """The names and the port under which this server is reached."""

    scheme: str
    names: tuple[str, ...]
    """In lower case; an IPv6 address without its brackets. *.example.org stands for one more label."""
    port: int

    def check(self, host: str | None, origin: str | None) -> None:
        """Refuse a request that is meant for another server, or that a foreign page sent."""
        if host is None or not self._is_ours(host) or (origin is not None and not self._is_page_of_ours(origin)):
            raise ForeignOrigin(
                "This request is not for this server.",
                "It names another host, or was sent by a page of somebody else.",
                "Use the address that `sfumato serve` printed.",
            )

    def _is_page_of_ours(self, origin: str) -> bool:
        scheme, separator, authority = origin.partition("://")
        found = _AUTHORITY.fullmatch(authority)
        if not separator or scheme != self.scheme or found is None or not self._is_ours(authority):
            return False
        return int(found[2] or _STANDARD[scheme]) == self.port

    def _is_ours(self, authority: str) -> bool:
        found = _AUTHORITY.fullmatch(authority)
        name = found[1].strip("[]").lower() if found else ""
        return any(_fits(name, known) for known in self.names)


def _fits(name: str, known: str) -> bool:
    if known.startswith("*."):
        first, _, rest = name.partition(".")
        return bool(first) and rest == known[2:]
    return bool(name) and name == known
