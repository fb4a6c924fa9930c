"""Limits of the policy are those of the server, and none exceeds what the process may open."""

import resource
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from tests.server.clinic import make_clinic
from tests.server.running import Running

from sfumato.policy.reading import read_policy
from sfumato.policy.server_settings import DEFAULT_SERVER
from sfumato.server.datasets import gate_limits
from sfumato.server.limits import ServerLimits, limits_of, lowered_limits

COUNTS = (
    *("connections", "connections_per_address", "connections_per_account", "connections_before_login"),
    "connections_before_login_per_address",
)
FIXED = {
    *("handshake_seconds", "header_seconds", "body_seconds", "header_bytes", "login_body_bytes"),
    *("body_bytes", "reply_bytes", "anonymous_burst"),
}
"""Limits of single messages, and of all accounts together: multiples of those of one account."""
SESSIONS = ("pg_sessions", "pg_sessions_per_account")


def test_without_a_word_in_the_policy_the_limits_are_the_defaults() -> None:
    assert limits_of(DEFAULT_SERVER) == ServerLimits()


def test_every_limit_of_clients_is_a_key_of_the_policy() -> None:
    numbers = [name for name, value in asdict(DEFAULT_SERVER).items() if isinstance(value, int)]
    limits = asdict(limits_of(DEFAULT_SERVER)) | asdict(gate_limits(DEFAULT_SERVER))
    doubled = {name: 2 * getattr(DEFAULT_SERVER, name) for name in numbers}
    others = replace(DEFAULT_SERVER, **doubled)
    changed = asdict(limits_of(others)) | asdict(gate_limits(others))
    unchanged = {name for name, value in limits.items() if changed[name] == value}
    assert unchanged - FIXED == {"others", "shutdown_seconds"}


@pytest.mark.parametrize("files", [64, 256, 1024, 4096, 65_536])
@pytest.mark.parametrize("wanted", [1, 100, 60_000])
def test_no_limit_is_above_the_files_of_the_process(files: int, wanted: int) -> None:
    changes: dict[str, Any] = dict.fromkeys((*COUNTS, *SESSIONS), wanted)
    settings = replace(DEFAULT_SERVER, **changes)
    within = limits_of(settings).within_files(files)
    assert within.connections <= max(8, files // 2)
    assert within.pg_sessions <= within.connections - within.connections_before_login
    for name in (*COUNTS[1:], *SESSIONS):
        assert getattr(within, name) <= within.connections
        assert getattr(within, name) <= max(wanted, 1)
    told = lowered_limits(limits_of(settings), within)
    assert all(value < wanted for value in told.values())
    assert set(told) == {name for name in (*COUNTS, *SESSIONS) if getattr(within, name) < wanted}


def test_a_server_takes_its_limits_and_its_proxy_from_the_policy(tmp_path: Path) -> None:
    policy = make_clinic(tmp_path, top='server.public_url = "https://db.example/"\nserver.requests_per_second = 7\n'
                         "server.connections = 60000")  # fmt: skip
    assert read_policy(policy).server.requests_per_second == 7
    with Running(policy) as server:
        files = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 65_536)
        assert f"This process may open {files:,} files" in server.out
        assert server.get("/budget", Host="db.example").status == 200
        assert server.get("/budget", Host="other.example").status == 403
