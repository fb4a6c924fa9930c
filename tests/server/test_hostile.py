"""Under load and abuse: half-open requests, large bodies, malformed ones, many clients over one budget, neighbours."""

import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
from tests.server.clinic import BY_DEPT, COUNT, DEPTS, make_clinic
from tests.server.malformed import run
from tests.server.running import WIRE, Running

import sfumato


def test_half_open_requests_leave_others_served(server: Running) -> None:
    head = b"POST /ask HTTP/1.1\r\nHost: localhost\r\n"
    known = b"Authorization: Bearer %s\r\nContent-Type: application/json\r\n" % server.token().encode()
    heads = (b"", b"GET /hea", head, head + known + b"Content-Length: 100\r\n\r\n{")
    held = []
    try:
        for number in range(500):
            connection = socket.create_connection((server.host, server.port), timeout=10)
            connection.sendall(heads[number % len(heads)])
            held.append(connection)
        assert server.get("/health", None).status == 200
        assert server.ask(COUNT, epsilon="0.01").status == 200
    finally:
        for connection in held:
            connection.close()


def test_a_body_of_a_hundred_megabytes_is_refused_before_it_is_read(server: Running) -> None:
    server.get("/budget")
    before = server.memory()
    for body in (bytes(100 << 20), iter([bytes(1 << 20)] * 100)):
        given = {"Content-Type": "application/json", "Authorization": f"Bearer {server.token()}"}
        reply = server.request("POST", "/ask", body, given, None)  # type: ignore[arg-type]
        assert (reply.status, reply.json["code"]) == (413, "body_too_large")
        assert server.memory() - before < 60 << 20
    head = f"POST /ask HTTP/1.1\r\nHost: {server.host}\r\nContent-Length: {100 << 20}\r\n\r\n"
    with socket.create_connection((server.host, server.port), timeout=5) as connection:
        connection.sendall(head.encode())
        assert b" 413 " in connection.recv(4096)  # nothing of the body was sent


def test_malformed_requests_are_refused_and_nothing_else_happens(server: Running) -> None:
    seen = run(server, 1500, seed=2, said=lambda _: None)
    assert set(seen) & {400, 401, 404, 405, 413, 415}


def test_of_many_clients_over_both_protocols_exactly_as_many_are_answered_as_the_budget_has(tmp_path: Path) -> None:
    answers, clients, each = 120, 64, len(DEPTS)
    policy = make_clinic(tmp_path, epsilon="1.2", analyst="1.2")
    with Running(policy, names=("research", "press")) as running:
        found = WIRE.search(running.out)
        assert found is not None
        port = int(found[3])

        def asks(client: int) -> list[str]:
            questions = [f"{COUNT} WHERE cost > {client} AND dept = '{dept}'" for dept in DEPTS]
            name = ("research", "press")[client % 2]
            if client % 4 < 2:
                return [str(running.ask(sql, name, epsilon="0.01").status) for sql in questions]
            password = running.secrets[name].password
            given = f"host=127.0.0.1 port={port} user={name} dbname=clinic password={password} sslmode=disable"
            with psycopg.connect(given, autocommit=True, connect_timeout=30) as connection:
                connection.execute("SET sfumato.epsilon = '0.01'")
                return [_by_wire(connection, sql) for sql in questions]

        with ThreadPoolExecutor(clients) as pool:
            outcomes = Counter(one for client in pool.map(asks, range(clients)) for one in client)
        assert outcomes["200"] + outcomes["row"] == answers
        assert outcomes["402"] + outcomes["refused"] == clients * each - answers
        assert set(outcomes) <= {"200", "402", "row", "refused"}
    with sfumato.open(policy) as database:
        assert database.budget().spent.epsilon == database.budget().total.epsilon
        database.verify()


def _by_wire(connection: "psycopg.Connection[tuple[object, ...]]", sql: str) -> str:
    try:
        connection.execute(sql.encode()).fetchone()
    except psycopg.Error as error:
        return "refused" if "costs" in str(error) else str(error)
    return "row"


def test_before_any_question_every_page_is_the_same_without_one_person(tmp_path: Path) -> None:
    """Also its headers: only the port, of which there is one per server, differs."""
    pages: list[list[tuple[int, bytes, bytes]]] = []
    for folder, people in (("all", range(300)), ("without", range(299))):
        with Running(make_clinic(tmp_path / folder, people=people), names=("research", "")) as server:
            seen = []
            cookies = [{"Cookie": server.cookie()}]
            for path in ("/health", "/budget", "/history", "/tables", "/openapi.json", "/", "/nope"):
                for headers in ({}, *cookies):
                    reply = server.request("GET", path, headers=headers)
                    seen.append((reply.status, reply.body, repr(sorted(reply.headers.items())).encode()))
            by_margin = {"sql": BY_DEPT, "within": {"n": 20}}
            for question in ({"sql": BY_DEPT, "epsilon": "1"}, by_margin, {"sql": "SELECT patient FROM visits"}):
                reply = server.post("/explain", question)
                seen.append((reply.status, reply.body, b""))
            port = str(server.port).encode()
            pages.append([(status, body.replace(port, b"P"), head.replace(port, b"P")) for status, body, head in seen])
    assert pages[0] == pages[1]
