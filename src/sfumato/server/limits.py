"""Limits of a server: connections, bytes and seconds, with safe defaults."""

import resource
from dataclasses import dataclass, replace

from sfumato.errors import FreeLimit
from sfumato.policy.server_settings import DEFAULT_SERVER, ServerSettings
from sfumato.release.release import Release

MAX_PUBLIC_ROWS = 100_000
"""Maximum rows of an exact answer over public tables, which is free and held in memory while it is sent."""
_MAX_FILES = 65_536
_MIN_BODY_BYTES, _MIN_REPLY_BYTES = 64 << 20, 256 << 20
_BURST_SECONDS = 5


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Resource limits of clients. Both protocols share one count of connections."""

    connections: int = DEFAULT_SERVER.connections
    """Open connections of both ports."""
    connections_per_address: int = DEFAULT_SERVER.connections_per_address
    """Open connections of one IPv4 address or IPv6 /64."""
    connections_per_account: int = DEFAULT_SERVER.connections_per_account
    """HTTP connections on which one account has logged in."""
    connections_before_login: int = DEFAULT_SERVER.connections_before_login
    """Connections before login. They are reserved: logged-in clients cannot use them up."""
    connections_before_login_per_address: int = DEFAULT_SERVER.connections_before_login_per_address
    handshake_seconds: float = 10.0
    """Until the TLS handshake of an HTTP connection is complete."""
    header_seconds: float = 20.0
    """Until the headers of a request are complete; also how long a client may leave a reply unread."""
    body_seconds: float = 30.0
    """Until the body of a request is complete."""
    login_seconds: float = DEFAULT_SERVER.login_seconds
    """Until a PostgreSQL client has logged in."""
    http_idle_seconds: int = DEFAULT_SERVER.http_idle_seconds
    """Between two requests on one HTTP connection."""
    header_bytes: int = 16 << 10
    login_body_bytes: int = 4 << 10
    """Body of a request without a grant."""
    body_bytes_per_account: int = DEFAULT_SERVER.request_bytes_per_account
    """Bodies of one account's requests that are held at the same time."""
    body_bytes: int = _MIN_BODY_BYTES
    """Bodies of all requests that are held at the same time."""
    reply_bytes_per_account: int = DEFAULT_SERVER.reply_bytes_per_account
    """Encoded replies to one account that it has not read; those of at most 64 KiB are not counted."""
    reply_bytes: int = _MIN_REPLY_BYTES
    """Encoded replies to all accounts that they have not read."""
    anonymous_requests_per_second: float = DEFAULT_SERVER.anonymous_requests_per_second
    """HTTP requests of one address without a grant. More wait."""
    anonymous_burst: float = _BURST_SECONDS * DEFAULT_SERVER.anonymous_requests_per_second
    pg_sessions: int = DEFAULT_SERVER.pg_sessions
    """Sessions over PostgreSQL's protocol."""
    pg_sessions_per_account: int = DEFAULT_SERVER.pg_sessions_per_account
    pg_idle_seconds: float = DEFAULT_SERVER.pg_idle_seconds
    """Until a session over PostgreSQL's protocol ends that sends nothing."""
    pg_session_seconds: float = DEFAULT_SERVER.pg_session_seconds
    """Until such a session ends in any case, between messages."""
    pg_bytes_per_account: int = DEFAULT_SERVER.pg_bytes_per_account
    """Bytes that such sessions of one account hold between messages."""
    console_idle_seconds: float = DEFAULT_SERVER.console_idle_seconds
    console_session_seconds: float = DEFAULT_SERVER.console_session_seconds

    def within_files(self, files: int) -> "ServerLimits":
        """Return limits under which connections use at most half of the process's files.

        >>> ServerLimits().within_files(1024).connections
        512
        """
        most = max(8, min(self.connections, files // 2))
        before_login = min(self.connections_before_login, most // 4)
        return replace(
            self,
            connections=most,
            pg_sessions=min(self.pg_sessions, max(1, most - before_login)),
            pg_sessions_per_account=min(self.pg_sessions_per_account, max(1, most // 2)),
            connections_per_address=min(self.connections_per_address, most // 2),
            connections_per_account=min(self.connections_per_account, most // 4),
            connections_before_login=before_login,
            connections_before_login_per_address=min(
                self.connections_before_login_per_address, max(1, before_login // 2)
            ),
        )


def limits_of(settings: ServerSettings) -> ServerLimits:
    """Return the limits that a policy sets."""
    return ServerLimits(
        connections=settings.connections,
        connections_per_address=settings.connections_per_address,
        connections_per_account=settings.connections_per_account,
        connections_before_login=settings.connections_before_login,
        connections_before_login_per_address=settings.connections_before_login_per_address,
        login_seconds=settings.login_seconds,
        http_idle_seconds=settings.http_idle_seconds,
        anonymous_requests_per_second=settings.anonymous_requests_per_second,
        anonymous_burst=_BURST_SECONDS * settings.anonymous_requests_per_second,
        body_bytes_per_account=settings.request_bytes_per_account,
        body_bytes=max(8 * settings.request_bytes_per_account, _MIN_BODY_BYTES),
        reply_bytes_per_account=settings.reply_bytes_per_account,
        reply_bytes=max(4 * settings.reply_bytes_per_account, _MIN_REPLY_BYTES),
        pg_sessions=settings.pg_sessions,
        pg_sessions_per_account=settings.pg_sessions_per_account,
        pg_idle_seconds=settings.pg_idle_seconds,
        pg_session_seconds=settings.pg_session_seconds,
        pg_bytes_per_account=settings.pg_bytes_per_account,
        console_idle_seconds=settings.console_idle_seconds,
        console_session_seconds=settings.console_session_seconds,
    )


def lowered_limits(wanted: ServerLimits, within: ServerLimits) -> dict[str, int]:
    """Return the limits that the process's files do not allow, with what is in force instead."""
    names = (
        *("connections", "connections_per_address", "connections_per_account", "connections_before_login"),
        *("connections_before_login_per_address", "pg_sessions", "pg_sessions_per_account"),
    )
    return {name: getattr(within, name) for name in names if getattr(within, name) < getattr(wanted, name)}


def raise_file_limit() -> int:
    """Raise this process's limit of open files as far as it may; return the limit in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return _MAX_FILES if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return soft
    return wanted


def check_public_rows(release: Release) -> Release:
    """Refuse an answer over public tables that is too long to be free."""
    if release.event is None and len(release) > MAX_PUBLIC_ROWS:
        raise FreeLimit(
            f"The answer has more than {MAX_PUBLIC_ROWS:,} rows.",
            "Answers over public tables are free, so their size is limited.",
            "Choose rows with WHERE or LIMIT, or aggregate them.",
        )
    return release
