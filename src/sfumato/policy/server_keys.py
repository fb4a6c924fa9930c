"""The keys of [server]: where `sfumato serve` listens, and the limits of its clients. They promise nothing."""

from sfumato.policy.kinds import Default, Hashed, PolicyKey, Section, Text, Texts, WholeNumber
from sfumato.policy.server_settings import DEFAULT_SERVER, ServerSettings

MAX_PORT = 65_535
MAX_BYTES = 1 << 40


def _number(name: str, most: int, description: str) -> PolicyKey:
    return PolicyKey(name, WholeNumber(most), Default(getattr(DEFAULT_SERVER, name)), description, Hashed.APART)


SERVER = Section(
    (
        _number("http_port", MAX_PORT, "The port of HTTP and the console of `sfumato serve`."),
        _number("pg_port", MAX_PORT, "The port of PostgreSQL's protocol of `sfumato serve`."),
        PolicyKey(
            "public_url",
            Text(200),
            Default(words="none: browsers come to the address that is printed"),
            "The address under which a reverse proxy shows the console.",
            Hashed.APART,
        ),
        PolicyKey(
            "trusted_proxies",
            Texts("list of addresses and networks", 100, Text(100)),
            Default((), "none: no forwarded address counts"),
            "The reverse proxies whose X-Forwarded-For is trusted.",
            Hashed.APART,
        ),
        _number(
            "connections",
            60_000,
            "The maximum number of open connections of both ports; never more than half of the process's files.",
        ),
        _number(
            "connections_per_address", 60_000, "The maximum number of open connections of one IPv4 address or IPv6 /64."
        ),
        _number(
            "connections_per_account",
            60_000,
            "The maximum number of HTTP connections on which one account has logged in.",
        ),
        _number(
            "connections_before_login",
            60_000,
            "The maximum number of connections before log-in, which logged-in clients cannot use up.",
        ),
        _number(
            "connections_before_login_per_address",
            60_000,
            "The maximum number of connections of one address before log-in; beyond it the oldest of them is closed.",
        ),
        _number(
            "login_seconds",
            3600,
            "The seconds after which a connection ends that has not logged in to PostgreSQL's port.",
        ),
        _number("http_idle_seconds", 86_400, "The seconds after which an HTTP connection ends that sends nothing."),
        _number("pg_sessions", 10_000, "The maximum number of sessions over PostgreSQL's protocol."),
        _number("pg_sessions_per_account", 10_000, "The maximum number of such sessions of one account."),
        _number("pg_idle_seconds", 31_536_000, "The seconds after which such a session ends that sends nothing."),
        _number(
            "pg_session_seconds",
            31_536_000,
            "The seconds after which such a session ends in any case, between messages.",
        ),
        _number(
            "console_idle_seconds", 31_536_000, "The seconds after which a console session ends that sends nothing."
        ),
        _number("console_session_seconds", 31_536_000, "The seconds after which a console session ends in any case."),
        _number(
            "request_bytes_per_account",
            MAX_BYTES,
            "The bytes of one account's HTTP requests that are held at the same time.",
        ),
        _number("reply_bytes_per_account", MAX_BYTES, "The bytes of HTTP replies that one account has not read."),
        _number(
            "pg_bytes_per_account",
            MAX_BYTES,
            "The bytes that the sessions of one account over PostgreSQL's protocol hold between messages.",
        ),
        _number("requests_per_second", 1_000_000, "The number of requests of one account in a second; more wait."),
        _number(
            "anonymous_requests_per_second",
            1_000_000,
            "The number of HTTP requests of one address without a valid token in a second; more wait.",
        ),
        _number("waiting_per_account", 100_000, "The maximum number of waiting requests of one account."),
        _number(
            "questions", 256, "The maximum number of questions that run at once; one account uses at most half of them."
        ),
        _number(
            "answer_seconds", 86_400, "The seconds after which a client gets `still_answering`; the question continues."
        ),
    ),
    into=ServerSettings,
)
