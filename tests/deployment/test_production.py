"""The container's own command serves the compose file's policy, from the wheel, with data and ledger in PostgreSQL.

No container is needed: the paths of the container are folders of the test. `python -m tests.deployment.container`
builds the image itself where a builder is at hand.
"""

import os
import re
import shutil
import signal
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from tests.deployment.environments import Environment
from tests.deployment.files import DEPLOY, SECRETS, STATE, container_command
from tests.ledger.postgres import binaries
from tests.ledger.postgres import server as postgres
from tests.server.running import PAGE, until
from tests.server.test_serving import certificate

import sfumato

COUNT = "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Path]:
    """A folder in place of the container's root: policy and state, secrets, and a database as compose prepares it."""
    folder = binaries()
    if folder is None:
        assert not os.environ.get("CI"), "PostgreSQL is needed"
        pytest.skip("PostgreSQL is not installed")
    root = tmp_path / "root"
    state, secrets = root / STATE.strip("/"), root / SECRETS.strip("/")
    state.mkdir(parents=True)
    secrets.mkdir(parents=True)
    for made, name in zip(certificate(tmp_path), ("tls.crt", "tls.key"), strict=True):
        shutil.copy(made, secrets / name)
    (secrets / "reader_password").write_text("it's a secret")
    (secrets / "ledger_password").write_text("another")
    with postgres(folder) as url:
        at = urlsplit(url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE DATABASE clinic")
        subprocess.run(
            ["sh", DEPLOY / "compose" / "initdb.sh"],
            env={
                "PATH": f"{folder}:/usr/bin:/bin",
                "PGHOST": str(at.hostname),
                "PGPORT": str(at.port),
                "POSTGRES_USER": str(at.username),
                "POSTGRES_DB": "clinic",
                "SECRETS": str(secrets),
            },
            check=True,
            capture_output=True,
        )
        with psycopg.connect(url.replace("/postgres", "/clinic"), autocommit=True) as connection:
            connection.execute(
                "INSERT INTO visits SELECT i % 600, (ARRAY['er', 'icu', 'surgery'])[1 + i % 3], i % 50"
                " FROM generate_series(1, 900) AS i"
            )
        policy = (DEPLOY / "compose" / "policy.toml").read_text()
        (state / "policy.toml").write_text(policy.replace("@db/", f"@{at.hostname}:{at.port}/"))
        (state / "policy.toml").chmod(0o400)
        yield root


@contextmanager
def started(server: Environment, root: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run the container's command with its paths below `root`, on a free port."""
    command = [str(server.program), *container_command()[1:], "--http-port", "0", "--pg-port", "0"]
    command = [re.sub(f"^(?={STATE}|{SECRETS})", str(root), word) for word in command]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        cwd=root / STATE.strip("/"),
        env={"PATH": f"{server.folder / 'bin'}:/usr/bin:/bin", "HOME": "/nonexistent", "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = PAGE.match(line)
        assert found, (line, process.communicate(timeout=30) if not line else "")
        yield process, int(found[3])
    finally:
        process.kill()
        process.communicate()


def test_the_containers_command_serves_the_compose_files_policy(server: Environment, container: Path) -> None:
    policy = container / STATE.strip("/") / "policy.toml"
    granted = server.run(server.program, "grant", policy, "research", cwd=policy.parent)
    assert granted.returncode == 0, granted.stderr
    token = granted.stdout.splitlines()[0].removeprefix("token: ")
    trusted = ssl.create_default_context(cafile=container / SECRETS.strip("/") / "tls.crt")
    with started(server, container) as (process, port):

        def healthy() -> bool:
            return server.run(server.python, DEPLOY / "healthcheck.py", str(port), cwd=container).returncode == 0

        until(healthy)
        with sfumato.connect(f"https://127.0.0.1:{port}/", token=token, context=trusted) as database:
            release = database.ask(COUNT, epsilon="0.5")
            assert [row["dept"] for row in release.rows()] == ["er", "icu", "surgery"]
            assert float(database.budget().spent.epsilon) == 0.5
        backed_up = server.run(server.program, "backup", policy, container / "backup", cwd=policy.parent)
        assert backed_up.returncode == 0, backed_up.stderr
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=30)
        assert process.returncode == 0
        assert "Traceback" not in log
        assert not healthy()
    # data and ledger are on a server: the files that belong to them lie beside the policy, for its owner alone
    modes = {path.name: path.stat().st_mode & 0o777 for path in policy.parent.iterdir() if path != policy}
    assert {"policy.toml.sfumato.copy.salt", "policy.toml.audit"} <= set(modes)
    assert set(modes.values()) == {0o600}
    spent = server.run(server.program, "budget", policy, "--all", cwd=policy.parent)
    assert "research" in spent.stdout
