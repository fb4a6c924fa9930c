"""Starting, stopping and starting again: ports, certificates, signals, other processes, and clear errors."""

import datetime
import http.client
import signal
import socket
import sqlite3
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from ipaddress import ip_address
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner, Result
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.ledger.postgres import binaries
from tests.server.clinic import BY_DEPT, COUNT, make_clinic
from tests.server.running import Running, until

import sfumato
from sfumato.cli import main
from sfumato.errors import BadParameter, BudgetExhausted, LedgerUnavailable
from sfumato.policy.canonical import policy_hash
from sfumato.policy.reading import read_policy
from sfumato.server import serving
from sfumato.server.serving import ListeningPlace

OTHERS = "SELECT COUNT(*) AS n FROM visits WHERE cost > 20"
"""A question that no other answer contains."""


def said_by(*words: str) -> Result:
    """Run a command in this process; a server that runs is another one."""
    return CliRunner().invoke(main, words)


def certificate(folder: Path, days: int = 1) -> tuple[Path, Path]:
    """Write a certificate for db.example and 127.0.0.1, valid until so many days from now."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "db.example")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now - datetime.timedelta(days=30))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("db.example"), address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    cert, private = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return cert, private


def test_granting_on_the_command_line_prints_both_secrets_and_counts_at_once(tmp_path: Path) -> None:
    policy = make_clinic(tmp_path)
    with Running(policy) as server:
        old = server.token()
        done = said_by("grant", str(policy), "research")
        assert done.exit_code == 0
        token, password = (line.partition(": ")[2] for line in done.stdout.splitlines())
        assert done.stdout == f"token: {token}\npassword: {password}\n"
        given = {"Authorization": f"Bearer {old}"}
        assert server.request("GET", "/budget", headers=given, name=None).status == 401
        given = {"Authorization": f"Bearer {token}"}
        assert server.request("GET", "/budget", headers=given, name=None).status == 200
        assert said_by("revoke", str(policy), "research").exit_code == 0
        assert server.request("GET", "/budget", headers=given, name=None).status == 401
        assert said_by("grant", str(policy), "nobody").exit_code == 2
        assert said_by("grant", str(policy)).exit_code == 2
        owner = said_by("grant", str(policy), "--owner").stdout
        assert owner.startswith("token: ")
        assert "password" not in owner
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert token.encode() not in path.read_bytes()
            assert password.encode() not in path.read_bytes()


def test_sigterm_lets_a_running_question_settle_and_ends_soon(tmp_path: Path) -> None:
    with Running(make_clinic(tmp_path)) as server, ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(server.ask, f"{COUNT} WHERE cost > {n}", epsilon=f"0.0{n}") for n in range(1, 5)]
        until(lambda: len(server.get("/history").json) > 0)
        server.end()
        assert server.process.returncode == 0
        statuses = []
        for one in asked:
            try:
                statuses.append(one.result().status)
            except (OSError, http.client.HTTPException):
                statuses.append(0)  # it came after the door was closed
    assert set(statuses) <= {200, 503, 0}
    with sfumato.open(server.policy, analyst="research") as database:
        charged = database.history(limit=10_000)
        assert {one.state for one in charged} == {"settled"}
        assert len(charged) >= statuses.count(200)
    assert server.token() not in server.out
    assert "Traceback" not in server.out


def test_after_a_kill_it_starts_again_at_once_on_the_same_port(tmp_path: Path) -> None:
    def question(n: int) -> str:
        return f"SELECT COUNT(*) AS n FROM visits WHERE cost > {n % 90}"  # noqa: S608

    server = Running(make_clinic(tmp_path))
    with server:
        answers = []
        with ThreadPoolExecutor(4) as pool:

            def client(first: int) -> None:
                for n in range(first, 40_000, 4):
                    try:
                        reply = server.ask(question(n), epsilon=f"{1000 + n}e-6")
                    except (OSError, http.client.HTTPException):
                        return
                    answers.append((n, reply.json["rows"]))

            clients = [pool.submit(client, first) for first in range(4)]
            until(lambda: len(answers) >= 8)
            server.end(signal.SIGKILL)
            for one in clients:
                one.result()
        server.options = ("--http-port", str(server.port))
        server.begin()
        assert server.get("/health", None).status == 200
        charged = server.get("/history?limit=1000").json
        settled = [one for one in charged if one["state"] == "settled"]
        assert len(settled) >= len(answers) > 0  # every answer that left is in the ledger
        assert len(charged) - len(answers) <= 4  # at most one charge per client is without an answer
        for n, rows in answers[-3:]:
            again = server.ask(question(n), epsilon=f"{1000 + n}e-6")
            assert again.json["rows"] == rows
        for one in charged:
            if one["state"] != "settled":
                assert server.ask(one["sql"], epsilon=one["epsilon"]).status == 200  # it takes up what was charged
        later = server.get("/history?limit=1000").json
        assert [(one["sequence"], one["state"]) for one in later] == [(one["sequence"], "settled") for one in charged]


def test_what_cannot_work_is_a_clear_refusal(tmp_path: Path) -> None:
    policy = str(make_clinic(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = said_by("serve", policy, "--http-port", port)
        assert done.exit_code == 2
        assert f"Port {port}" in done.stderr
        done = said_by("serve", policy, "--http-port", "0", "--pg-port", port)
        assert f"Port {port}" in done.stderr
    (tmp_path / "expired").mkdir()
    cert, key = certificate(tmp_path)
    expired, old_key = certificate(tmp_path / "expired", -1)
    for words, said in (
        (("--host", "0.0.0.0"), "no certificate"),  # noqa: S104
        (("--host", "no.such.host.invalid"), "no host"),
        (("--http-port", "70000"), "no port"),
        (("--tls-cert", str(cert)), "belong together"),
        (("--tls-cert", str(tmp_path / "none"), "--tls-key", str(key)), "cannot be read"),
        (("--tls-cert", str(cert), "--tls-key", str(old_key)), "cannot be used"),
        (("--tls-cert", str(expired), "--tls-key", str(old_key)), "expired on"),
    ):
        done = said_by("serve", policy, *words)
        assert done.exit_code == 2, done.stderr
        assert said in done.stderr
        assert "Traceback" not in done.stderr
    assert said_by("serve", str(tmp_path / "none.toml")).exit_code == 2


def test_ports_are_fixed_and_the_policy_may_name_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def open_sockets(place: ListeningPlace) -> NoReturn:
        asked.append((place.http_port, place.pg_port))
        raise BadParameter("Seen.", "Seen.", "Seen.")

    monkeypatch.setattr(serving, "open_sockets", open_sockets)
    policy = make_clinic(tmp_path)
    said_by("serve", str(policy))
    policy.write_text(policy.read_text() + "\n[server]\nhttp_port = 8123\n")
    said_by("serve", str(policy))
    said_by("serve", str(policy), "--http-port", "0", "--pg-port", "5999")
    assert asked == [(8000, 5433), (8123, 5433), (0, 5999)]


def test_the_ports_are_no_part_of_the_promise(tmp_path: Path) -> None:
    policy = make_clinic(tmp_path)
    before = policy_hash(read_policy(policy))
    policy.write_text(policy.read_text() + "\n[server]\nhttp_port = 8123\npg_port = 5434\n")
    assert policy_hash(read_policy(policy)) == before


def test_with_a_certificate_everything_is_encrypted(tmp_path: Path) -> None:
    policy = make_clinic(tmp_path)
    cert, key = certificate(tmp_path)
    with Running(policy, ("--tls-cert", str(cert), "--tls-key", str(key), "--host", "0.0.0.0")) as server:  # noqa: S104
        assert (server.scheme, server.host) == ("https", "db.example")
        trusted = ssl.create_default_context(cafile=str(cert))
        url = f"https://127.0.0.1:{server.port}/"
        with sfumato.connect(url, token=server.token(), context=trusted) as database:
            assert len(database.ask(BY_DEPT, epsilon="1").rows()) == 3
        with sfumato.connect(url, token=server.token()) as stranger, pytest.raises(LedgerUnavailable, match="trusted"):
            stranger.budget()
        plain = Running(policy)
        plain.host, plain.port = "127.0.0.1", server.port
        assert b"200" not in plain.raw(b"GET /health HTTP/1.1\r\nHost: db.example\r\n\r\n", 3)


def test_another_process_and_a_second_server_share_one_budget(tmp_path: Path) -> None:
    policy = make_clinic(tmp_path, epsilon="1", analyst="1")
    with Running(policy) as first, Running(policy, secrets=first.secrets) as second:
        assert first.ask(COUNT, epsilon="0.4").status == 200
        assert second.ask(COUNT, epsilon="0.4").json == first.ask(COUNT, epsilon="0.4").json
        with sfumato.open(policy, analyst="research") as database:
            database.ask(BY_DEPT, epsilon="0.4")
            assert database.ask(COUNT, epsilon="0.3").rows() == database.ask(COUNT, epsilon="0.4").rows()
            with pytest.raises(BudgetExhausted):
                database.ask(OTHERS, epsilon="0.3")
        assert second.ask(OTHERS, epsilon="0.3").status == 402
        assert first.spent() == second.spent() == "4/5"


@pytest.mark.skipif(binaries() is None, reason="needs PostgreSQL's binaries")
def test_a_changed_policy_and_a_locked_ledger_are_clear_errors(tmp_path: Path) -> None:
    policy = make_clinic(tmp_path)
    with Running(policy) as server:
        assert server.out.splitlines()[0] == server.url
        assert "\x1b" not in server.out
        with closing(sqlite3.connect(tmp_path / "clinic.ledger", isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            reply = server.ask(COUNT, epsilon="1")
            assert (reply.status, reply.json["code"]) == (503, "ledger_unavailable")
            assert server.get("/health", None).status == 200
            other.execute("ROLLBACK")
        assert server.ask(COUNT, epsilon="1").status == 200
        assert server.spent() == "1"
        policy.write_text(policy.read_text().replace("epsilon = 100", "epsilon = 90"))
        reply = server.ask(COUNT, epsilon="2")
        assert (reply.status, reply.json["code"]) == (409, "policy_changed")
        assert "Traceback" not in server.out
        assert server.token() not in server.out
