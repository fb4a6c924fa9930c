"""Several datasets in one server: each has its own path, database name, ledger and grants; limits are shared."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.server.clinic import COUNT, make_clinic
from tests.server.running import WIRE, Running
from tests.server.test_serving import said_by

import sfumato
from sfumato.errors import NotGranted
from sfumato.policy.reading import read_policy
from sfumato.server.grants import Grants, Secrets
from sfumato.server.metrics import TOKEN_VARIABLE

OPERATOR = "operator-token-of-the-tests"


class Several(Running):
    """A server of two datasets."""

    grants: dict[str, Secrets]

    def __enter__(self) -> "Several":
        self.begin()
        return self


def make_two(folder: Path) -> tuple[Path, dict[str, dict[str, Secrets]]]:
    """Write two clinics whose policies lie in one folder, and grant access to both."""
    together = folder / "policies"
    together.mkdir()
    secrets: dict[str, dict[str, Secrets]] = {}
    for name in ("north", "south"):
        written = make_clinic(folder / name).read_text()
        written = written.replace('name = "clinic"', f'name = "{name}"')
        written = written.replace("csv:data", f"csv:../{name}/data").replace("clinic.ledger", f"{name}.ledger")
        policy = together / f"{name}.toml"
        policy.write_text(written)
        grants = Grants(read_policy(policy), policy)
        secrets[name] = {who: grants.grant(who) for who in ("research", "press", "")}
        grants.close()
    return together, secrets


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Several, dict[str, dict[str, Secrets]]]]:
    folder, secrets = make_two(tmp_path_factory.mktemp("two"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TOKEN_VARIABLE, OPERATOR)
        with Several(folder) as server:
            yield server, secrets
    assert "Traceback" not in server.out


def bearer(secrets: Secrets) -> dict[str, str]:
    return {"Authorization": f"Bearer {secrets.token}"}


@contextmanager
def connected(server: Several, name: str, secrets: dict[str, dict[str, Secrets]]) -> Iterator[Any]:
    with sfumato.connect(f"{server.url}d/{name}/", token=secrets[name]["research"].token) as database:
        yield database


def test_each_dataset_has_its_own_path_budget_and_grants(two: tuple[Several, dict[str, dict[str, Secrets]]]) -> None:
    server, secrets = two
    with connected(server, "north", secrets) as north, connected(server, "south", secrets) as south:
        assert north.ask(COUNT, epsilon="1").receipt.policy != south.ask(COUNT, epsilon="2").receipt.policy
        assert (north.budget().spent.epsilon, south.budget().spent.epsilon) == (1, 2)
        assert (north.tables()["name"], south.tables()["name"]) == ("north", "south")
    with (
        sfumato.connect(f"{server.url}d/south/", token=secrets["north"]["research"].token) as wrong,
        pytest.raises(NotGranted),
    ):
        wrong.budget()
    for path in ("/budget", "/d/none/budget", "/d/north/none", "/d/"):
        assert server.request("GET", path, None, bearer(secrets["north"]["research"]), None).status == 404, path
    found = server.request("GET", "/d/north/openapi.json", None, bearer(secrets["north"]["research"]), None).json
    assert found["servers"] == [{"url": "/d/north"}]


def test_the_database_name_chooses_the_dataset(two: tuple[Several, dict[str, dict[str, Secrets]]]) -> None:
    server, secrets = two
    ports = [match[3] for match in WIRE.finditer(server.out)]
    assert len(ports) == 2
    for name in ("north", "south"):
        place = f"host=127.0.0.1 port={ports[0]} user=research sslmode=disable"
        password = secrets[name]["research"].password
        with psycopg.connect(f"{place} dbname={name} password={password}", autocommit=True) as session:
            listed = session.execute("SELECT datname FROM pg_database").fetchall()
            assert (name,) in listed
            session.execute("SET sfumato.epsilon = '0.5'")
            assert session.execute("SELECT COUNT(*) FROM visits WHERE cost > 7").fetchone() is not None
        other = {"north": "south", "south": "north"}[name]
        assert (other,) not in listed
        for wrong in (other, "none" if name == "south" else other):
            with pytest.raises(psycopg.OperationalError, match="authentication failed"):
                psycopg.connect(f"{place} dbname={wrong} password={password}")


def test_the_console_lets_one_choose_and_sessions_are_apart(two: tuple[Several, dict[str, dict[str, Secrets]]]) -> None:
    server, secrets = two
    chooser = server.get("/", None, Accept="text/html").body.decode()
    assert re.findall(r'href="(/d/[^"]+)"', chooser) == ["/d/north/", "/d/south/"]
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": server.url.rstrip("/")}
    cookies = {}
    for name in ("north", "south"):
        body = urlencode({"token": secrets[name][""].token})
        reply = server.request("POST", f"/d/{name}/login", body, form, None)
        assert (reply.status, reply.headers["location"]) == (303, f"/d/{name}/")
        cookies[name] = reply.headers["set-cookie"].partition(";")[0]
    assert cookies["north"].partition("=")[0] != cookies["south"].partition("=")[0]
    both = {"Cookie": "; ".join(cookies.values()), "Accept": "text/html"}
    for name in ("north", "south"):
        for page in ("", "owner", "access", "approvals", "dashboard"):
            shown = server.request("GET", f"/d/{name}/{page}", None, both, None)
            assert shown.status == 200, page
            links = re.findall(r'(?:href|action|formaction)="(/[^"]*)"', shown.body.decode())
            assert all(link == "/" or link.startswith((f"/d/{name}/", "/static/")) for link in links), links
        assert f"<strong>{name}</strong>" in server.request("GET", f"/d/{name}/", None, both, None).body.decode()
    only = {"Cookie": cookies["north"].replace(cookies["north"].partition("=")[0], cookies["south"].partition("=")[0])}
    shown = server.request("GET", "/d/south/owner", None, {**only, "Accept": "text/html"}, None)
    assert (shown.status, shown.headers["location"]) == (303, "/d/south/")  # a session of another dataset


def test_monitoring_tells_the_datasets_apart(two: tuple[Several, dict[str, dict[str, Secrets]]]) -> None:
    server, secrets = two
    ready = server.get("/ready", None)
    assert ready.status == 200
    assert set(ready.json["datasets"]) == {"north", "south"}
    assert all(ready.json["checks"].values())
    assert server.get("/health", None).json == {"status": "ok"}
    page = server.request("GET", "/metrics", None, {"Authorization": f"Bearer {OPERATOR}"}, None)
    assert page.status == 200
    families = {family.name: family for family in text_string_to_metric_families(page.body.decode())}
    totals = {
        (sample.labels["dataset"], sample.labels["account"]): sample.value
        for sample in families["sfumato_budget_epsilon"].samples
        if sample.labels["state"] == "total"
    }
    assert totals["north", "research"] == totals["south", "research"] == 50
    assert len(families["process_open_fds"].samples) == 1
    owner = bearer(secrets["north"][""])
    assert server.request("GET", "/metrics", None, owner, None).status == 401  # it would show the other dataset, too
    own = server.request("GET", "/d/north/metrics", None, owner, None).body.decode()
    assert "sfumato_budget_epsilon" in own
    assert "south" not in own


def test_what_cannot_be_one_server_is_refused(tmp_path: Path) -> None:
    folder, _ = make_two(tmp_path)
    north, south = sorted(folder.glob("*.toml"))
    text = south.read_text()
    south.write_text(text.replace('name = "south"', 'name = "North"'))
    done = said_by("serve", str(north), str(south))
    assert (done.exit_code, "Two datasets are called" in done.stderr) == (2, True)
    south.write_text(f"{text}\n[server]\nhttp_port = 8001\n")
    north.write_text(f"{north.read_text()}\n[server]\nhttp_port = 8002\n")
    done = said_by("serve", str(folder))
    assert (done.exit_code, "different settings in [server]" in done.stderr) == (2, True)
    (tmp_path / "empty").mkdir()
    done = said_by("serve", str(tmp_path / "empty"))
    assert (done.exit_code, "no policy in this folder" in done.stderr) == (2, True)
    assert os.listdir(tmp_path / "empty") == []
