"""Laws that name the fixture `every_engine` run once on each engine of `engines.ENGINES`."""

from collections.abc import Iterator

import pytest
from tests.engines.engines import ENGINES, UnderLaw, trying


@pytest.fixture(scope="session", params=ENGINES, ids=lambda engine: engine.dialect.name)
def every_engine(request: pytest.FixtureRequest) -> Iterator[UnderLaw]:
    with trying(request.param) as engine:
        yield engine
