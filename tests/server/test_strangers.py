"""Nobody without a grant can spend, delay or erase anything of others: over HTTP, on a server of its own."""

import asyncio
import http.client
import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event, Thread

import pytest
from tests.refusals import refusing
from tests.server import soak
from tests.server.clinic import COUNT, make_clinic
from tests.server.running import Running, until
from tests.server.test_gate import House

import sfumato
from sfumato.database import Database
from sfumato.errors import Busy, Stopping
from sfumato.server.gate import Caller
from sfumato.server.http import make_app
from sfumato.server.limits import ServerLimits
from sfumato.server.origins import Origins, read_public_url
from sfumato.server.quota import ByteQuota
from sfumato.server.statuses import refusal_document

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def exchanged(server: Running, content: bytes, seconds: float = 60) -> bytes:
    """Send bytes, leave the connection open, and return what comes until the server closes it."""
    with socket.create_connection((server.host, server.port), timeout=seconds) as connection:
        connection.sendall(content)
        received = b""
        while part := connection.recv(65536):
            received += part
        return received


@pytest.mark.parametrize(
    "headers",
    ["Content-Length: 4\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 70"],
)
@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_a_length_that_is_said_twice_is_refused_and_the_connection_ends(
    server: Running, headers: str, version: str
) -> None:
    body = json.dumps({"sql": COUNT, "epsilon": "1"}).encode()
    head = f"POST /explain HTTP/{version}\r\nHost: {server.host}\r\nAuthorization: Bearer {server.token()}\r\n"
    head += f"Content-Type: application/json\r\n{headers}\r\n\r\n"
    hidden = b"GET /budget HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    reply = exchanged(server, head.encode() + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) + hidden)
    assert reply.split(b"\r\n")[0].endswith(b"400 Bad Request")
    assert b'"code": "bad_request"' in reply
    assert reply.count(b"HTTP/1.1 ") == 1


def test_a_forwarded_address_is_not_believed_unless_the_owner_named_the_proxy(tmp_path: Path) -> None:
    policy = make_clinic(tmp_path)
    options = ("--public-url", "https://db.example/", "--trusted-proxy", "127.0.0.9")
    forwarded = {"X-Forwarded-For": "203.0.113.7"}
    with Running(policy, options) as server:
        assert server.get("/budget", **forwarded).status == 200
        assert "strict-transport-security" not in server.get("/budget", **forwarded).headers
        public = server.get("/budget", Host="db.example", Origin="https://db.example")
        assert (public.status, public.headers["strict-transport-security"]) == (200, "max-age=31536000")
        assert server.get("/budget", Host="db.example", Origin="http://db.example").status == 403
        form = FORM | {"Host": "db.example", "Origin": "https://db.example"}
        reply = server.request("POST", "/login", f"token={server.token()}", form, None)
        assert reply.headers["set-cookie"].startswith("__Host-sfumato-")
        assert "Secure" in reply.headers["set-cookie"]
        connection = http.client.HTTPConnection(server.host, server.port, source_address=("127.0.0.9", 0))
        connection.request("GET", "/history", headers=forwarded | {"Authorization": f"Bearer {server.token()}"})
        assert connection.getresponse().status == 200
        connection.close()
        log = [json.loads(line) for line in (tmp_path / "clinic.ledger.audit").read_text().splitlines()]
    assert {line["address"] for line in log if line["verb"] == "budget"} == {"127.0.0.1"}
    assert {line["address"] for line in log if line["verb"] == "history"} == {"203.0.113.7"}


def test_the_token_is_in_no_cookie_and_a_session_ends_at_log_out_and_at_revocation(tmp_path: Path) -> None:
    with Running(make_clinic(tmp_path), names=("research", "")) as server:
        cookie = server.cookie()
        assert server.token() not in cookie
        assert "domain" not in cookie.lower()
        page = {"Cookie": cookie, "Accept": "text/html"}
        assert b'id="sql"' in server.request("GET", "/", None, page, None).body
        stolen = {"Cookie": f"{cookie.partition('=')[0]}={server.token()}", "Accept": "text/html"}
        assert b'id="sql"' not in server.request("GET", "/", None, stolen, None).body
        origin = page | FORM | {"Origin": server.url.rstrip("/")}
        assert server.request("POST", "/logout", "", origin, None).status == 303
        assert b'id="sql"' not in server.request("GET", "/", None, page, None).body
        server.cookies.clear()
        page["Cookie"] = server.cookie()
        given = {"Cookie": server.cookie(""), "Origin": server.url.rstrip("/")} | FORM
        assert server.request("POST", "/owner/revoke", "name=research", given, None).status == 303
        assert b'id="sql"' not in server.request("GET", "/", None, page, None).body


def test_large_bodies_without_a_grant_are_refused_unread_and_take_no_memory(tmp_path: Path) -> None:
    with Running(make_clinic(tmp_path)) as server, ExitStack() as held:
        server.get("/health", None)
        head = f"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: {server.url.rstrip('/')}\r\n"
        lengths = ("Content-Length: 1048576\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\nf4240\r\n")
        before = server.memory()
        for number in range(120):
            connection = held.enter_context(socket.create_connection((server.host, server.port), timeout=60))
            connection.setblocking(False)
            with suppress(OSError):
                connection.send((head + lengths[number % 2]).encode() + b"t" * (1 << 20))
        assert server.ask(COUNT, epsilon="0.1").status == 200  # it came after all of them
        assert server.memory() - before < 40 << 20
        held.close()
        for content in ("t" * 5000, "token=" + "t" * 5000):
            reply = server.request("POST", "/login", content, FORM | {"Origin": server.url.rstrip("/")}, None)
            assert (reply.status, reply.json["code"]) == (413, "body_too_large")


def test_half_open_connections_leave_files_for_others(tmp_path: Path) -> None:
    with Running(make_clinic(tmp_path)) as server, ExitStack() as held:
        for _ in range(3 * ServerLimits().connections_before_login):
            held.enter_context(socket.create_connection((server.host, server.port), timeout=60))
        assert server.ask(COUNT, epsilon="0.1").status == 200
        files = Path(f"/proc/{server.process.pid}/fd")
        until(lambda: len(os.listdir(files)) < ServerLimits().connections_before_login_per_address + 60)


def test_a_hangup_does_not_end_the_server_and_a_stopping_one_says_so(tmp_path: Path) -> None:
    with Running(make_clinic(tmp_path)) as server:
        server.process.send_signal(signal.SIGHUP)
        assert server.ask(COUNT, epsilon="0.1").status == 200
        server.process.send_signal(signal.SIGHUP)
        assert server.spent() == "1/10"
        server.end()
        assert server.process.returncode == 0


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.database.close()


async def answered(app: object, method: str, path: str, token: str = "", body: bytes = b"") -> tuple[int, bytes]:
    """Send a request to the application itself."""
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    headers += [(b"authorization", f"Bearer {token}".encode())] if token else []
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers}
    scope |= {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "scheme": "http", "http_version": "1.1"}
    sent: list[dict[str, object]] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    await app(scope | {"root_path": ""}, receive, send)  # type: ignore[operator]
    return sent[0]["status"], b"".join(one.get("body", b"") for one in sent[1:])  # type: ignore[return-value, misc]


def test_every_page_of_a_stopping_server_says_503_and_what_was_begun_is_answered(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = house.grants.grant("research").token
    app = make_app(house.gate, Origins("http", ("127.0.0.1",), 80))
    let_go, begun, ask = Event(), Event(), Database.ask

    def waiting(database: Database, sql: str, **price: object) -> sfumato.Release:
        begun.set()
        let_go.wait(60)
        return ask(database, sql, **price)  # type: ignore[arg-type]

    monkeypatch.setattr(Database, "ask", waiting)
    body = json.dumps({"sql": COUNT, "epsilon": "1"}).encode()

    async def course() -> None:
        first = asyncio.create_task(answered(app, "POST", "/ask", token, body))
        await asyncio.to_thread(begun.wait, 60)
        stopping = asyncio.create_task(house.gate.stop())
        await asyncio.to_thread(until, lambda: house.gate.stopping)
        for ended in (False, True):
            for method, path in (("POST", "/ask"), ("GET", "/budget"), ("GET", "/health"), ("GET", "/"), ("GET", "/x")):
                status, content = await answered(app, method, path, token, body)
                assert (status, json.loads(content)["code"]) == (503, "stopping"), path
            if not ended:
                let_go.set()
                status, content = await first
                assert (status, json.loads(content)["loss"]["epsilon"]) == (200, "1")
                assert await stopping
        with pytest.raises(Stopping):
            await house.gate.explain(research, COUNT, epsilon="1")

    grant = house.grants.of_token(token)
    assert grant is not None
    research = Caller(grant, "postgresql", "")
    asyncio.run(course())


def test_bytes_are_counted_per_account_and_in_all() -> None:
    quota = ByteQuota(100, 60)
    assert quota.take("a", 60)
    assert not quota.take("a", 1)
    assert quota.take("b", 40)
    assert not quota.take(None, 1)
    quota.give_back("a", 60)
    assert quota.take(None, 60)
    quota.give_back(None, 60)
    quota.give_back("b", 40)
    assert quota.held == 0


def test_strangers_of_one_address_wait_and_those_with_a_grant_do_not(house: House) -> None:
    token = house.grants.grant("research").token
    app = make_app(house.gate, Origins("http", ("127.0.0.1",), 80))
    empty = ServerLimits().anonymous_burst + 3 * ServerLimits().anonymous_requests_per_second

    async def course() -> None:
        bucket = app._anonymous.of("127.0.0.1")
        for _ in range(int(empty)):
            bucket.take()
        status, content = await answered(app, "GET", "/health")
        assert (status, json.loads(content)["code"]) == (429, Busy.code)
        assert (await answered(app, "GET", "/budget", token))[0] == 200

    asyncio.run(course())


def test_a_public_address_is_one_that_browsers_use() -> None:
    assert read_public_url("http://[::1]:8000/").port == 8000
    for wrong in ("db.example", "ftp://db.example", "https://db.example/path", "https://u@db.example", "https://[", ""):
        with refusing():
            read_public_url(wrong)


def test_an_analyst_is_answered_beside_all_strangers_at_once(tmp_path: Path) -> None:
    """A few rounds of the soak; `python -m tests.server.soak` goes on for minutes."""
    course = soak.run(tmp_path, questions=6, seconds=600, pause=0, rounds=2)
    assert len(course.seconds) == 6
    assert all(course.strangers.values())  # each attack did something


def test_a_client_of_a_stopping_server_is_told_so() -> None:
    body = json.dumps(refusal_document(Stopping())).encode()
    reply = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    def serve(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(reply)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=serve, args=(listening,))
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        with sfumato.connect(url, token=Stopping.code) as database, pytest.raises(Stopping, match="being stopped"):
            database.budget()
        thread.join()
