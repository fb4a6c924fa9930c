"""The first packet of a connection: encryption, cancellation, or the name of a user and a database."""

import re
import struct
from dataclasses import dataclass

from sfumato.server.wire.frames import Body
from sfumato.server.wire.sqlstates import WireError, violation

SSL, GSS, CANCEL, VERSION = 80877103, 80877104, 80877102, 3 << 16
MAX_STARTUP_BYTES = 10_000
_MAX_PARAMETERS = 100
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,62}", re.ASCII)


@dataclass(frozen=True, slots=True)
class SslRequest:
    """The client would like TLS."""


@dataclass(frozen=True, slots=True)
class GssRequest:
    """The client would like GSSAPI, which is not there."""


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """A request to stop a running question of another connection."""

    process: int
    secret: int


@dataclass(frozen=True, slots=True)
class StartUp:
    """Who comes, to which database, with which settings."""

    user: str
    database: str
    settings: tuple[tuple[str, str], ...]
    minor: int
    unknown: tuple[str, ...]
    """Options of the protocol itself that we do not know; the client is told."""


def read_packet(data: bytes) -> SslRequest | GssRequest | CancelRequest | StartUp:
    """Return what a first packet says; `data` begins after its length."""
    if len(data) < 4:
        raise violation("The first packet is too short.")
    (code,) = struct.unpack_from(">I", data)
    if code == SSL and len(data) == 4:
        return SslRequest()
    if code == GSS and len(data) == 4:
        return GssRequest()
    if code == CANCEL and len(data) == 12:
        return CancelRequest(*struct.unpack_from(">II", data, 4))
    if code >> 16 != 3:
        raise WireError("0A000", "Only version 3 of the protocol is supported.", hint="Use a newer client.", fatal=True)
    return _start_up(_pairs(data[4:]), code & 0xFFFF)


def _pairs(data: bytes) -> dict[str, str]:
    body, found = Body(data), dict[str, str]()
    try:
        while name := body.text():
            if len(found) >= _MAX_PARAMETERS:
                raise violation("The first packet has too many settings.")
            found[name] = body.text()
        body.end()
    except WireError as error:
        raise violation(error.reported.message) from None
    return found


def _start_up(pairs: dict[str, str], minor: int) -> StartUp:
    user, database = pairs.pop("user", ""), pairs.pop("database", "")
    if not user:
        raise WireError("28000", "No user is named.", "", "Name the analyst: user=NAME.", fatal=True)
    if pairs.pop("replication", "false").lower() not in ("false", "off", "no", "0"):
        raise WireError("0A000", "Replication is not offered.", fatal=True)
    unknown = tuple(name for name in pairs if name.startswith("_pq_."))
    options = pairs.pop("options", "")
    settings = [(name, value) for name, value in pairs.items() if name not in unknown]
    return StartUp(user, database or user, (*settings, *read_options(options)), minor, unknown)


def read_options(options: str) -> list[tuple[str, str]]:
    r"""Read the settings of `options`: -c name=value or --name=value; a backslash keeps a blank.

    >>> read_options(r"-c sfumato.epsilon=0.5 -csearch_path=a --sfumato.within=n\ =\ 25")
    [('sfumato.epsilon', '0.5'), ('search_path', 'a'), ('sfumato.within', 'n = 25')]
    """
    words = [re.sub(r"\\(.)", r"\1", word) for word in re.findall(r"(?:\\.|[^\s\\])+", options)]
    found: list[tuple[str, str]] = []
    waiting = iter(words)
    for word in waiting:
        if word == "-c":
            setting = next(waiting, "")
        elif word.startswith(("--", "-c")):
            setting = word[2:]
        else:
            setting = ""
        name, equals, value = setting.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not _NAME.fullmatch(name):
            raise WireError(
                "42601",
                "The options of the connection cannot be read.",
                "They are settings, each after -c.",
                "Write for example options='-c sfumato.epsilon=0.5'.",
                fatal=True,
            )
        found.append((name, value.strip()))
    return found
