"""The wheel and the environments that the tests of this folder share; each is made once."""

from pathlib import Path

import pytest
from tests.deployment.environments import Environment, build, make_environment


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this source."""
    return build(tmp_path_factory.mktemp("wheel"), "wheel")


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    """What `pip install sfumato` makes: no extra."""
    return make_environment(tmp_path_factory.mktemp("bare") / "venv", wheel, ())


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    """What `deploy/constraints/server.txt` installs."""
    return make_environment(tmp_path_factory.mktemp("server") / "venv", wheel, ("server", "postgres", "plot", "report"))
