"""What a policy says about its server: where it listens, the limits of its clients, and who vouches for people."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where `sfumato serve` listens, and the limits of its clients. Bytes, seconds and numbers of things."""

    http_port: int = 8000
    """Fixed, as the other one is, so that saved connections survive a restart."""
    pg_port: int = 5433
    public_url: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    connections: int = 2048
    connections_per_address: int = 512
    connections_per_account: int = 256
    connections_before_login: int = 256
    connections_before_login_per_address: int = 64
    login_seconds: int = 10
    http_idle_seconds: int = 30
    pg_sessions: int = 400
    pg_sessions_per_account: int = 128
    pg_idle_seconds: int = 3600
    pg_session_seconds: int = 86_400
    console_idle_seconds: int = 3600
    console_session_seconds: int = 28_800
    request_bytes_per_account: int = 8 << 20
    reply_bytes_per_account: int = 64 << 20
    pg_bytes_per_account: int = 64 << 20
    requests_per_second: int = 1000
    anonymous_requests_per_second: int = 100
    waiting_per_account: int = 512
    questions: int = 16
    answer_seconds: int = 120


DEFAULT_SERVER = ServerSettings()


@dataclass(frozen=True, slots=True)
class Identity:
    """The OpenID Connect provider that vouches for people."""

    issuer: str
    audience: str
    analyst: str = "claims.email"
    """The claim with the name of the analyst or owner."""
    client_id: str | None = None
    """The console's own name at the provider; None where it is the audience."""
    roles: str | None = None
    """The claim with the roles of an analyst; None where the policy alone says them."""
