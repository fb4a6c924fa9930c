"""Check the host and origin of a request: foreign pages cannot use a session.

A page elsewhere that gives this server a name of its own (DNS rebinding) is known by `Host`; one that sends a form or a
script's request is known by `Origin`.
"""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from sfumato.errors import BadParameter, ForeignOrigin, quote_value

_AUTHORITY = re.compile(r"(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9_.-]{1,253})(?::(\d{1,5}))?")
_STANDARD = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class PublicUrl:
    """The address under which a reverse proxy shows the server."""

    scheme: str
    name: str
    """In lower case; an IPv6 address without its brackets."""
    port: int


@dataclass(frozen=True, slots=True)
class Origins:
    """The names and the port under which this server is reached."""

    scheme: str
    names: tuple[str, ...]
    """In lower case; an IPv6 address without its brackets. *.example.org stands for one more label."""
    port: int
    public: PublicUrl | None = None

    def scheme_for(self, host: str) -> str:
        """Return the scheme that the browser used to reach this host."""
        return self.public.scheme if self.public is not None and _name(host) == self.public.name else self.scheme

    def check(self, host: str | None, origin: str | None) -> None:
        """Refuse a request that is meant for another server, or that a foreign page sent."""
        if host is None or not self._is_ours(host) or (origin is not None and not self._is_page_of_ours(origin)):
            raise ForeignOrigin(
                "This request is not for this server.",
                "It names another host, or was sent by a page of another site.",
                "Use the address that `sfumato serve` printed.",
            )

    def _is_page_of_ours(self, origin: str) -> bool:
        scheme, separator, authority = origin.partition("://")
        match_ = _AUTHORITY.fullmatch(authority)
        if not separator or scheme not in _STANDARD or match_ is None:
            return False
        name, port = _name(authority), int(match_[2] or _STANDARD[scheme])
        if self.public == PublicUrl(scheme, name, port):
            return True
        return (scheme, port) == (self.scheme, self.port) and any(_fits(name, known) for known in self.names)

    def _is_ours(self, authority: str) -> bool:
        name = _name(authority)
        public = self.public is not None and name == self.public.name
        return public or any(_fits(name, known) for known in self.names)


def read_public_url(text: str) -> PublicUrl:
    """Read the address under which a reverse proxy shows the server, such as https://db.example/.

    >>> read_public_url("https://db.example/")
    PublicUrl(scheme='https', name='db.example', port=443)
    """
    try:
        parts = urlsplit(text)
        match_ = _AUTHORITY.fullmatch(parts.netloc)
    except ValueError:
        match_ = None
    if match_ is None or parts.scheme not in _STANDARD or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise BadParameter(
            f"{quote_value(text)} is not a public address.",
            "It is the address that browsers use, without a path: the console lies at its root.",
            "Write for example https://db.example/.",
        )
    return PublicUrl(parts.scheme, _name(parts.netloc), int(match_[2] or _STANDARD[parts.scheme]))


def _name(authority: str) -> str:
    match_ = _AUTHORITY.fullmatch(authority)
    return match_[1].strip("[]").lower() if match_ else ""


def _fits(name: str, known: str) -> bool:
    if known.startswith("*."):
        first, _, rest = name.partition(".")
        return bool(first) and rest == known[2:]
    return bool(name) and name == known
