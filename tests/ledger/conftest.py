"""Ledgers to test: every law of requests holds for a file and for a server."""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
from tests.ledger.postgres import binaries, server
from tests.ledger.requesting import ADDRESS

_NUMBERS = count()


@pytest.fixture(scope="module")
def server_address() -> Iterator[str]:
    found = binaries()
    if found is None:
        assert not os.environ.get("CI"), "PostgreSQL is needed"
        pytest.skip("NO SERVER WAS TRIED: PostgreSQL is not installed")
    pytest.importorskip("psycopg", reason="NO SERVER WAS TRIED: psycopg is not installed")
    with server(found) as address:
        yield address


@pytest.fixture(params=["sqlite", "postgresql"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder whose ledger is empty: one file, or one database of a server. Every law holds for both."""
    if request.param == "postgresql":
        address: str = request.getfixturevalue("server_address")
        name = f"ledger_{next(_NUMBERS)}"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        (tmp_path / ADDRESS).write_text(f"{address.rpartition('/')[0]}/{name}")
    return tmp_path
