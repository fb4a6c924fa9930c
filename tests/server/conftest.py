"""One server for all tests that leave it as it was: starting one takes longer than most of them."""

from collections.abc import Iterator

import pytest
from tests.server.clinic import make_clinic
from tests.server.running import Running


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A clinic with two analysts and its owner, served by a process of its own."""
    with Running(make_clinic(tmp_path_factory.mktemp("served")), names=("research", "press", "")) as running:
        yield running
    assert "Traceback" not in running.out
    assert running.token() not in running.out
