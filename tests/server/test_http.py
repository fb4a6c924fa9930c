"""HTTP: what is answered, what is refused with which status, and that a refusal costs nothing."""

import gzip
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.server.clinic import BY_DEPT, COUNT
from tests.server.running import Running

from sfumato.errors import REFUSALS
from sfumato.server.statuses import STATUS


@pytest.fixture
def spent(server: Running) -> Iterator[None]:
    """Nothing may be spent by what happens in between."""
    before = server.spent()
    yield
    assert server.spent() == before


def test_an_answer_has_columns_rows_intervals_loss_and_receipt(server: Running) -> None:
    reply = server.ask(BY_DEPT, epsilon="0.5")
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    answer = reply.json
    assert answer["columns"] == ["dept", "n", "cost"]
    assert [row["dept"] for row in answer["rows"]] == ["er", "icu", "surgery"]
    assert all(type(row["n"]) is int for row in answer["rows"])
    assert all(
        low <= row["n"] <= high
        for row, (low, high) in zip(answer["rows"], (x["n"] for x in answer["intervals"]), strict=True)
    )
    assert answer["loss"] == {"epsilon": "1/2", "delta": "0"}
    assert answer["receipt"]["id"]
    again = server.ask(BY_DEPT, epsilon=0.5)
    assert again.json == answer  # kept: the same, and free


def test_a_number_is_read_as_its_decimal_text(server: Running) -> None:
    reply = server.post("/ask", '{"sql": "SELECT COUNT(*) AS n FROM visits WHERE cost > 1", "epsilon": 0.10}')
    assert reply.json["loss"]["epsilon"] == "1/10"
    reply = server.post("/ask", '{"sql": "SELECT COUNT(*) AS n FROM visits WHERE cost > 2", "epsilon": 1e-1}')
    assert reply.json["loss"]["epsilon"] == "1/10"
    within = server.post("/explain", '{"sql": "SELECT COUNT(*) AS n FROM visits", "within": {"n": 50.0}}')
    assert within.json["margins"]["n"] <= 50


def test_a_relative_margin_is_priced_by_a_first_measurement(server: Running) -> None:
    question = '{"sql": "SELECT COUNT(*) AS n FROM visits WHERE cost > 3", "within": {"n": "90%"}, "epsilon": "0.5"}'
    quote = server.post("/explain", question).json
    assert quote["most"]["epsilon"] == "1/2"
    answer = server.post("/ask", question).json
    assert answer["notes"][0].startswith(("Reached at 95 %: `n` ±90 %.", "Not reached: `n` ±90 %."))
    assert server.post("/ask", question).json["rows"] == answer["rows"]


BAD_PRICES = (
    *('"epsilon": null', '"epsilon": -1', '"epsilon": NaN', '"epsilon": Infinity', '"epsilon": true'),
    *('"epsilon": [1]', '"epsilon": {"a": 1}', '"epsilon": "0x1"', '"epsilon": ""', '"epsilon": "nan"'),
    *(
        '"epsilon": "1e99999"',
        '"epsilon": 1e999',
        '"epsilon": "-0.1"',
        '"epsilon": "١"',
        '"epsilon": "1" , "epsilon": "2"',
    ),
    *('"within": null', '"within": {}', '"within": []', '"within": {"n": null}', '"within": {"n": [1]}'),
    *('"within": {"n": 0}', '"within": {"n": true}', '"within": {"n": "x"}', '"within": {"zzz": 1}', '"within": 3'),
    *(
        '"epsilon": 1, "delta": null',
        '"epsilon": 1, "delta": "x"',
        '"epsilon": 1, "delta": 2',
        '"epsilon": 1, "price": 1',
    ),
    *('"epsilon": 1, "within": {"n": 1}', '"epsilon": ' + "9" * 5000, '"share": null', '"share": "x"'),
    *('"share": 2', '"share": true', '"share": ["1%"]', '"share": "1%", "epsilon": 1'),
)


@pytest.mark.usefixtures("spent")
@pytest.mark.parametrize("price", [pytest.param(price, id=price[:30]) for price in BAD_PRICES])
def test_a_price_that_means_nothing_is_refused_and_free(server: Running, price: str) -> None:
    for path in ("/ask", "/explain"):
        reply = server.post(path, f'{{"sql": "{COUNT}", {price}}}')
        assert 400 <= reply.status < 500, reply.body
        assert set(reply.json) >= {"code", "message", "remedy"}


@pytest.mark.usefixtures("spent")
def test_no_price_is_refused(server: Running) -> None:
    reply = server.ask("SELECT COUNT(*) AS n FROM visits WHERE cost > 7")
    assert (reply.status, reply.json["code"]) == (400, "bad_parameter")


BODIES: tuple[object, ...] = (
    *(
        b"",
        b"{",
        b"[]",
        b"null",
        b'"SELECT 1"',
        b"\xff\xfe{}",
        b'{"sql": 1}',
        b'{"sql": null}',
        b'{"epsilon": 1}',
        b"[" * 100_000,
    ),
    *(
        {"sql": ["SELECT 1"]},
        {"sql": "SELECT 1", "Epsilon": 1},
        b'{"sql": "SELECT 1"} x',
        b'\xef\xbb\xbf{"sql": "SELECT 1"}',
    ),
    *(
        b'{"sql": "\\ud800", "epsilon": 1}',
        b'{"sql": "SELECT 1\\u0000", "epsilon": 1}',
        b'{"sql": "SELECT \x00", "epsilon": 1}',
    ),
)


@pytest.mark.usefixtures("spent")
@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body)[:30])
def test_a_body_that_is_no_question_is_refused(server: Running, body: object) -> None:
    reply = server.post("/ask", body)
    assert 400 <= reply.status < 500, reply.body
    assert set(reply.json) >= {"code", "message", "remedy"}


@pytest.mark.parametrize(
    "header",
    [
        *("", "Bearer", "Bearer ", "Basic cmVzZWFyY2g6eA==", "Bearer x", "Token {token}", "Bearer {token}x", "bearer"),
        *("Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJyZXNlYXJjaCJ9.", "Bearer {password}", "Digest {token}", "{token}"),
    ],
)
def test_without_a_token_nothing_is_open(server: Running, header: str) -> None:
    secrets = server.secrets["research"]
    given = {"Authorization": header.format(token=secrets.token, password=secrets.password)} if header else {}
    for method, path in (
        ("GET", "/budget"),
        ("GET", "/history"),
        ("GET", "/tables"),
        ("GET", "/openapi.json"),
        ("POST", "/ask"),
    ):
        body = json.dumps({"sql": COUNT, "epsilon": "1"}) if method == "POST" else None
        reply = server.request(method, path, body, {"Content-Type": "application/json", **given}, None)
        assert (reply.status, reply.json["code"]) == (401, "not_granted")
        assert reply.headers["www-authenticate"] == "Bearer"


def test_two_tokens_are_none(server: Running) -> None:
    head = f"GET /budget HTTP/1.1\r\nHost: {server.host}\r\n" + f"Authorization: Bearer {server.token()}\r\n" * 2
    assert b" 401 " in server.raw(f"{head}Connection: close\r\n\r\n".encode()).split(b"\r\n")[0]


def test_health_is_open_and_says_nothing(server: Running) -> None:
    assert server.get("/health", None).json == {"status": "ok"}


@pytest.mark.parametrize(
    "path",
    [
        "/nope",
        "/ask/",
        "/static/../../pyproject.toml",
        "/..%2f..%2fetc/passwd",
        "/releases/",
        "/%00",
        "//etc/passwd",
        "/console/static/%2e%2e/%2e%2e/gate.py",
    ],
)
def test_unknown_paths_are_404(server: Running, path: str) -> None:
    reply = server.get(path)
    assert (reply.status, reply.json["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/ask"),
        ("DELETE", "/budget"),
        ("PUT", "/explain"),
        ("BREW", "/health"),
        ("OPTIONS", "/ask"),
        ("TRACE", "/history"),
        ("PATCH", "/"),
    ],
)
def test_unknown_methods_are_405(server: Running, method: str, path: str) -> None:
    reply = server.request(method, path)
    assert (reply.status, reply.json["code"]) == (405, "method_not_allowed")
    assert reply.headers["allow"] == ("POST" if path in ("/ask", "/explain") else "GET, HEAD")


@pytest.mark.usefixtures("spent")
@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=latin-1",
        "text/json",
        "",
    ],
)
def test_other_content_types_are_415(server: Running, kind: str) -> None:
    reply = server.request("POST", "/ask", json.dumps({"sql": COUNT, "epsilon": "1"}), {"Content-Type": kind})
    assert (reply.status, reply.json["code"]) == (415, "wrong_media_type")


@pytest.mark.usefixtures("spent")
def test_compressed_bodies_are_refused_unread(server: Running) -> None:
    bomb = io.BytesIO()
    with gzip.GzipFile(fileobj=bomb, mode="wb") as stream:
        for _ in range(64):
            stream.write(bytes(1 << 20))
    before = server.memory()
    reply = server.post("/ask", bomb.getvalue(), Content_Encoding="gzip")
    assert reply.status == 415
    assert server.memory() - before < 20 << 20


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Host": ""},
        {"Host": "127.0.0.1.evil.example"},
    ],
)
@pytest.mark.usefixtures("spent")
def test_foreign_pages_and_hosts_are_refused(server: Running, headers: dict[str, str]) -> None:
    for method, path in (("GET", "/budget"), ("GET", "/"), ("GET", "/health"), ("POST", "/ask")):
        body = json.dumps({"sql": COUNT, "epsilon": "1"}) if method == "POST" else None
        reply = server.request(method, path, body, {"Content-Type": "application/json", **headers})
        assert 400 <= reply.status < 500
        assert "access-control-allow-origin" not in reply.headers


def test_our_own_page_is_not_foreign_and_nobody_else_may_read_along(server: Running) -> None:
    reply = server.get("/budget", Origin=server.url.rstrip("/"))
    assert reply.status == 200
    assert "access-control-allow-origin" not in reply.headers
    assert server.get("/health", Host=f"localhost:{server.port}").status == 200


def test_explaining_is_free_and_the_same_text_each_time(server: Running, spent: None) -> None:
    question = {"sql": "SELECT dept, COUNT(*) AS n FROM visits WHERE cost > 31 GROUP BY dept", "epsilon": "0.25"}
    first, again = (server.post("/explain", question) for _ in range(2))
    assert first.status == 200
    assert first.body == again.body
    assert first.json["loss"]["epsilon"] == "1/4"
    assert first.json["margins"]["n"] > 0


def test_explaining_says_what_a_household_loses_and_asking_knows_none(server: Running) -> None:
    question = {"sql": "SELECT COUNT(*) AS n FROM visits WHERE cost > 32", "epsilon": "0.25"}
    for four in (4, "4"):
        reply = server.post("/explain", {**question, "household": four})
        assert reply.json["notes"][0].startswith("A household of 4 loses ε = 1, δ = 0 together")
        assert reply.json["loss"]["epsilon"] == "1/4"
    for wrong in (0, -1, 1.5, "four", None, [4], 10**6, "9" * 5000):
        assert server.post("/explain", {**question, "household": wrong}).status == 400
    assert server.post("/ask", {**question, "household": 4}).json["code"] == "bad_request"


def test_repeats_of_one_key_are_one_charge(server: Running) -> None:
    question = {"sql": "SELECT COUNT(*) AS n FROM visits WHERE cost > 11", "epsilon": "1"}
    first, again = (server.post("/ask", question, Idempotency_Key="once") for _ in range(2))
    assert first.body == again.body
    other = server.post("/ask", {**question, "sql": BY_DEPT, "epsilon": "2"}, Idempotency_Key="once")
    assert (other.status, other.json["code"]) == (400, "bad_parameter")
    assert server.post("/ask", question, Idempotency_Key="k" * 201).status == 400


def test_over_budget_is_not_200_and_costs_nothing(server: Running, spent: None) -> None:
    reply = server.ask(COUNT, epsilon="1000")
    assert (reply.status, reply.json["code"]) == (402, "budget_exhausted")


def test_an_error_in_the_question_has_its_place(server: Running) -> None:
    reply = server.ask("SELECT COUNT(*)\nFROM nowhere", epsilon="1")
    assert (reply.status, reply.json["code"]) == (400, "unknown_name")
    assert reply.json["position"] == {"line": 2, "column": 6}


def test_public_tables_are_exact_and_need_no_price(server: Running, spent: None) -> None:
    reply = server.ask("SELECT dept, floor FROM wards ORDER BY floor")
    assert reply.json["rows"] == [
        {"dept": "er", "floor": 1},
        {"dept": "icu", "floor": 2},
        {"dept": "surgery", "floor": 3},
    ]


def test_history_is_ones_own(server: Running) -> None:
    asked = "SELECT COUNT(*) AS {} FROM visits WHERE cost > 61"  # by no other test
    mine, theirs = asked.format("mine"), asked.format("theirs")
    server.ask(mine, epsilon="0.1")
    server.ask(theirs, "press", epsilon="0.1")
    assert mine in [one["sql"] for one in server.get("/history").json]
    assert theirs.encode() not in server.get("/history").body
    assert mine.encode() not in server.get("/history", "press").body


def test_a_release_is_had_again_by_its_receipt_as_json_csv_and_arrow(server: Running) -> None:
    answer = server.ask(BY_DEPT, epsilon="0.5").json
    receipt, before = answer["receipt"]["id"], server.spent()
    assert server.get(f"/releases/{receipt}").json == answer
    wider = server.get(f"/releases/{receipt}?level=0.99").json
    assert wider["intervals"][0]["n"][0] < answer["intervals"][0]["n"][0]
    text = server.get(f"/releases/{receipt}.csv")
    assert text.headers["content-type"].startswith("text/csv")
    assert text.body.decode().splitlines()[0] == "dept,n,cost,n_low,n_high,cost_low,cost_high"
    arrow = server.get(f"/releases/{receipt}?format=arrow")
    table: Any = pa.ipc.open_file(arrow.body).read_all()
    assert table.column("n").to_pylist() == [row["n"] for row in answer["rows"]]
    for form in ("csv", "arrow"):
        assert server.get(f"/releases/{receipt}.{form}?level=2").status == 400
    arrow = server.get(f"/releases/{receipt}?format=arrow&level=0.99")
    table = pa.ipc.open_file(arrow.body).read_all()
    assert table.column("n_low").to_pylist() == [row["n"][0] for row in wider["intervals"]]
    text = server.get(f"/releases/{receipt}.csv?level=0.99")
    assert text.body.decode().splitlines()[1].split(",")[3] == str(wider["intervals"][0]["n"][0])
    for path in (f"/releases/{receipt}", f"/releases/{receipt}.arrow"):
        assert server.get(path, "press").status == 404
    for path in (
        f"/releases/{'0' * 32}",
        f"/releases/{receipt}.exe",
        f"/releases/{receipt}?format=x",
        "/releases/..%2fx",
    ):
        assert server.get(path).status == 404
    assert server.get(f"/releases/{receipt}?level=2").status == 400
    assert server.spent() == before


def test_every_reply_forbids_framing_sniffing_and_foreign_resources(server: Running) -> None:
    for reply in (server.get("/health", None), server.get("/nope"), server.ask(COUNT)):
        assert "default-src 'none'" in reply.headers["content-security-policy"]
        assert "unsafe" not in reply.headers["content-security-policy"]
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert "server" not in reply.headers


def test_the_description_names_every_page_and_code(server: Running) -> None:
    found = server.get("/openapi.json").json
    assert {"/ask", "/explain", "/budget", "/history", "/tables", "/health", "/releases/{receipt}"} <= set(
        found["paths"]
    )
    assert set(found["components"]["schemas"]["Refusal"]["properties"]["code"]["enum"]) == {
        one.code for one in REFUSALS
    }


def test_every_code_has_a_status() -> None:
    assert set(STATUS) == {one.code for one in REFUSALS}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 100,
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST /ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /ask HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_what_is_no_http_is_400_or_the_end(server: Running, content: bytes) -> None:
    first = server.raw(content).split(b"\r\n")[0]
    assert first == b"" or b" 4" in first or b" 5" not in first
    assert server.get("/health", None).status == 200


def test_the_page_about_the_server_has_the_same_table() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "server.md").read_text(encoding="utf-8")
    listed = {
        code: int(status)
        for status, codes in re.findall(r"(?m)^\| (\d{3}) \| (`.*) \|$", page)
        for code in re.findall(r"`(\w+)`", codes)
    }
    assert len(listed) > 12
    assert {code: STATUS[code] for code in listed} == listed


def test_history_comes_in_pages_newest_first(server: Running) -> None:
    for number in range(3):
        sql = f"SELECT COUNT(*) AS page{number} FROM visits WHERE cost > {40 + number}"  # noqa: S608
        assert server.ask(sql, epsilon="0.01").status == 200
    whole = server.get("/history?limit=1000").json
    sequences = [entry["sequence"] for entry in whole]
    assert sequences == sorted(sequences, reverse=True)
    assert "page2" in whole[0]["sql"]
    assert server.get("/history?limit=2").json == whole[:2]
    assert server.get(f"/history?limit=2&before={sequences[1]}").json == whole[2:4]
    assert server.get("/history?before=1").json == []


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=-1", "limit=x", "limit=1001", "before=0", "limit=1&limit=2", "limit="]
)
def test_a_page_that_cannot_be_is_refused(server: Running, query: str) -> None:
    reply = server.get(f"/history?{query}")
    assert (reply.status, reply.json["code"]) == (400, "bad_parameter")
