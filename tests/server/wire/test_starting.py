"""Start-up: TLS that is not there, wrong names and passwords, and packets that are no start-up at all."""

import json
import ssl
import struct
import subprocess
from pathlib import Path

import psycopg
import pytest
from tests.server.wire.served import Bare, Said, Served, message, served, start_up, text

from sfumato.server.audit import audit_path
from sfumato.server.scram import make_verifier
from sfumato.server.wire.authentication import PLAIN, begin
from sfumato.server.wire.sqlstates import WireError

WRONG = "x"
SSL, GSS = struct.pack(">II", 8, 80877103), struct.pack(">II", 8, 80877104)


def test_without_tls_the_answer_is_n_any_number_of_times(server: Served) -> None:
    with Bare(server) as client:
        for _ in range(20):
            assert client.send(SSL).socket.recv(1) == b"N"
            assert client.send(GSS).socket.recv(1) == b"N"
        client.start()
        assert client.rows("SELECT 1") == [("1",)]


def refusal(server: Served, **who: str) -> dict[str, str]:
    with Bare(server) as client, pytest.raises(Said) as refused:
        client.start(**who)  # type: ignore[arg-type]
    return refused.value.said


def test_an_unknown_user_and_a_wrong_password_are_told_the_same(server: Served) -> None:
    wrong = refusal(server, password=WRONG)
    assert (wrong["S"], wrong["C"]) == ("FATAL", "28P01")
    for user in ("nobody", "owner", "press", "postgres", "réséarch", "a" * 500):
        said = refusal(server, user=user, password=WRONG)
        assert said["M"].replace(user[:63], "research") == wrong["M"]
        assert {key: value for key, value in said.items() if key != "M"} == {k: v for k, v in wrong.items() if k != "M"}


def challenge(server: Served, user: str) -> dict[str, str]:
    with Bare(server) as client:
        client.send(start_up(("user", user), ("database", "clinic")))
        client.expect(b"R")
        first = b"n,,n=,r=abcdefghijkl"
        client.send(message(b"p", text("SCRAM-SHA-256") + struct.pack(">i", len(first)) + first))
        return dict(part.split("=", 1) for part in client.expect(b"R")[4:].decode().split(","))


def test_an_unknown_user_has_a_salt_that_never_changes(server: Served) -> None:
    first, second = challenge(server, "nobody"), challenge(server, "nobody")
    assert (first["s"], first["i"]) == (second["s"], second["i"])
    assert first["r"] != second["r"]
    known = challenge(server, "research")
    assert (len(known["s"]), known["i"]) == (len(first["s"]), first["i"])
    assert challenge(server, "other")["s"] != first["s"]


def test_every_spelling_of_a_name_has_one_salt_whether_it_is_known_or_not(server: Served) -> None:
    """A salt that differs between `nobody` and `NOBODY` alone would tell that nobody is unknown."""
    for name in ("research", "press", "nobody", "größe"):
        salts = {challenge(server, spelled)["s"] for spelled in (name, name.upper().replace("Ö", "ö"), name.title())}
        assert len(salts) == (1 if name != "größe" else 2)  # only A to Z are folded: the ß of upper case is SS


def test_neither_a_grant_nor_its_end_changes_a_salt(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        salts = [challenge(server, "press")["s"]]
        for change in (server.grants.grant, server.grants.revoke, server.grants.grant):
            change("press")
            salts.append(challenge(server, "PRESS")["s"])
        assert len({*salts}) == 1
        assert challenge(server, "research")["s"] not in salts


def test_a_wrong_database_is_told_only_to_those_who_may_come_in(server: Served) -> None:
    assert refusal(server, database="other")["C"] == "3D000"
    log = [json.loads(line) for line in audit_path(server.database.policy).read_text().splitlines()]
    assert ("research", "connect", "unknown_name") in {(one["account"], one["verb"], one["outcome"]) for one in log}
    assert refusal(server, database="other", password=WRONG)["C"] == "28P01"


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x04",
        b"\xff\xff\xff\xff",
        struct.pack(">I", 20_000),
        struct.pack(">II", 8, 0),
        struct.pack(">II", 8, 2 << 16),
        struct.pack(">II", 9, 3 << 16) + b"\x00",
        struct.pack(">II", 12, 3 << 16) + b"user",
        start_up(("user", "research"))[:-1] + b"x",
        start_up(("user", "")),
        start_up(("database", "clinic")),
        start_up(("user", "research"), ("replication", "true")),
        start_up(*((f"n{i}", "v") for i in range(300)), ("user", "research")),
        start_up(("user", "\udcff\udcfe".encode("utf-8", "surrogatepass").decode("latin-1"))),
        struct.pack(">II", 12, 3 << 16) + b"\xff\xfe\x00\x00",
        struct.pack(">III", 12, 80877102, 1),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100,
    ],
    ids=range(18),
)
def test_a_packet_that_is_no_start_up_ends_the_connection(server: Served, data: bytes) -> None:
    with Bare(server, timeout=5) as client:
        client.send(data)
        client.socket.shutdown(1)
        received = b""
        while piece := client.socket.recv(4096):
            received += piece
        assert received[:1] in (b"", b"E", b"R")
        assert b"Traceback" not in received
    with server.client() as client:
        assert client.rows("SELECT 1") == [("1",)]


@pytest.mark.parametrize(
    "answer",
    [
        message(b"Q", text("SELECT 1")),
        message(b"p", b""),
        message(b"p", text("SCRAM-SHA-1") + struct.pack(">i", 0)),
        message(b"p", text("SCRAM-SHA-256-PLUS") + struct.pack(">i", 23) + b"p=tls-unique,,n=,r=abcdefgh"),
        message(b"p", text("SCRAM-SHA-256") + struct.pack(">i", -1)),
        message(b"p", text("SCRAM-SHA-256") + struct.pack(">i", 1 << 30) + b"n,,n=,r=abcdefghijkl"),
        message(b"p", text("SCRAM-SHA-256") + struct.pack(">i", 6) + b"n,,r=a"),
        message(b"p", b"x" * 100_000),
        b"p" + struct.pack(">I", 1 << 31),
    ],
    ids=range(9),
)
def test_an_answer_that_is_no_scram_ends_the_connection(server: Served, answer: bytes) -> None:
    with Bare(server) as client:
        client.send(start_up(("user", "research"), ("database", "clinic")))
        client.expect(b"R")
        client.send(answer)
        with pytest.raises((Said, EOFError, ConnectionError)) as ended:
            client.until(b"Z")
        if isinstance(ended.value, Said):
            assert ended.value.said["S"] == "FATAL"


def test_the_exchange_of_the_standard() -> None:
    """RFC 7677, section 3."""
    salt = bytes.fromhex("5b6d99689d12358eeca04b141236fa81")
    verifier = make_verifier("pencil", salt, 4096)
    first = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    exchange = begin("user", (verifier,), "SCRAM-SHA-256", first, b"", None)
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    made = type(exchange)(
        "user", (verifier,), exchange.header, exchange.bare, f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", nonce, b""
    )
    proof = b"c=biws,r=" + nonce.encode() + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert made.final(proof)[1] == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    with pytest.raises(WireError):
        made.final(proof.replace(b"dHzb", b"eHzb"))
    with pytest.raises(WireError):
        made.final(proof.replace(b"biws", b"eSws"))


def test_a_newer_protocol_is_negotiated_down(server: Served) -> None:
    with Bare(server) as client:
        pairs = (("user", "research"), ("database", "clinic"), ("_pq_.wish", "1"))
        client.send(start_up(*pairs, version=(3 << 16) + 2))
        assert client.expect(b"v") == struct.pack(">ii", 3 << 16, 1) + text("_pq_.wish")
        client.authenticate(server.password)
        client.until(b"Z")


def certificate(folder: Path) -> tuple[ssl.SSLContext, bytes]:
    key, pem = folder / "key.pem", folder / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run(
        [*command, "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(pem)],
        check=True,
        capture_output=True,
        timeout=60,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key)
    return context, ssl.PEM_cert_to_DER_cert(pem.read_text())


def test_over_tls_the_password_is_bound_to_the_certificate(tmp_path: Path) -> None:
    context, der = certificate(tmp_path)
    with served(tmp_path, tls=context, certificate=der) as server:
        root = f"sslrootcert={tmp_path}/cert.pem"
        for more in ("sslmode=require", f"sslmode=verify-full {root} channel_binding=require"):
            with psycopg.connect(f"{server.dsn} {more}") as connection:
                assert connection.execute("SELECT count(*) FROM staff").fetchone() == (9,)
        with pytest.raises(psycopg.OperationalError, match="TLS"):
            psycopg.connect(f"{server.dsn} sslmode=disable")
        with Bare(server) as client:
            client.send(SSL + b"x" * 8)
            assert client.read()[0] == b"E"


def test_a_client_that_repeats_a_name_beyond_ascii_in_its_first_message_is_understood() -> None:
    secret = "a" * 32
    verifier, nonce = make_verifier(secret, b"s" * 16), "rOprNGfwEbeRWgbNEkqO"
    for name in ("é".encode(), b"\xff", b"*"):
        first = b"n,,n=" + name + b",r=" + nonce.encode()
        exchange = begin("é", (verifier,), PLAIN, first, b"x" * 18, None)
        assert exchange.challenge.startswith(f"r={nonce}")
        assert exchange.bare.startswith("n=")
        assert exchange.header == "n,,"
