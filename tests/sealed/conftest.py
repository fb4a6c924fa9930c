"""A PostgreSQL server for the tests of a store."""

from collections.abc import Iterator

import pytest
from tests.ledger.postgres import binaries, server


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    folder = binaries()
    if folder is None:
        pytest.skip("there is no PostgreSQL on this machine")
    with server(folder) as url:
        yield url
