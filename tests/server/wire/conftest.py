"""One server for the tests of the wire protocol that spend little and change nothing for others."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.wire.served import Served, served


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Path(tmp_path_factory.mktemp("wire"))) as made:
        yield made
