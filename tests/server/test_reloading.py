"""Certificate and policy are read again while a server runs: connections stay, and no budget grows by itself."""

import asyncio
import http.client
import signal
import socket
import ssl
import threading
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest
from tests.server.clinic import COUNT, make_clinic
from tests.server.running import WIRE, Running, until
from tests.server.test_gate import House
from tests.server.test_serving import certificate, said_by

import sfumato
from sfumato.database import Database
from sfumato.errors import NotGranted, PolicyChanged, UnknownName
from sfumato.ledger.opening import existing_ledger, policy_in_force
from sfumato.opening import open_recorded
from sfumato.policy.canonical import policy_hash
from sfumato.policy.reading import read_policy
from sfumato.server.datasets import ServedDataset
from sfumato.server.gate import render_unchanged
from sfumato.server.reloading import Reload
from sfumato.server.watch import PolicyWatch


def asked(number: int) -> str:
    """Return a question that no other answer contains."""
    return f"SELECT COUNT(*) AS n FROM visits WHERE cost > {number}"  # noqa: S608


def any_certificate() -> ssl.SSLContext:
    """Return a context that takes every certificate: which one it is, the test compares."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def presented(host: str, port: int, name: str | None) -> bytes:
    """Return the certificate that a new handshake shows, with or without a host name in it."""
    with (
        socket.create_connection((host, port), timeout=30) as raw,
        any_certificate().wrap_socket(raw, server_hostname=name) as wrapped,
    ):
        return wrapped.getpeercert(binary_form=True) or b""


def test_a_certificate_is_replaced_under_traffic(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    new_cert, new_key = certificate(other, days=2)
    context = any_certificate()
    with Running(make_clinic(tmp_path), ("--tls-cert", str(cert), "--tls-key", str(key))) as server:
        found = WIRE.search(server.out)
        assert found is not None
        password = server.secrets["research"].password
        place = f"host=127.0.0.1 port={found[3]} user=research dbname=clinic password={password} sslmode=require"
        kept = http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=30)
        token = {"Authorization": f"Bearer {server.token()}"}

        def budget(connection: http.client.HTTPSConnection) -> int:
            connection.request("GET", "/budget", headers=token)
            reply = connection.getresponse()
            reply.read()
            assert reply.headers["strict-transport-security"] == "max-age=31536000"
            return reply.status

        over, failed, count = threading.Event(), [], [0]

        def traffic() -> None:
            """New connections one after the other; each must be answered."""
            while not over.is_set():
                connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=30)
                try:
                    failed.extend([] if budget(connection) == 200 else ["status"])
                    count[0] += 1
                except OSError as error:
                    failed.append(repr(error))
                finally:
                    connection.close()

        thread = threading.Thread(target=traffic)
        with psycopg.connect(place, autocommit=True) as session:
            assert budget(kept) == 200
            local_port = kept.sock.getsockname()[1]
            old = presented("127.0.0.1", server.port, None)
            thread.start()
            try:
                until(lambda: count[0] > 2)
                cert.write_text(new_cert.read_text())
                key.write_text(new_key.read_text())
                server.process.send_signal(signal.SIGHUP)
                until(lambda: presented("127.0.0.1", server.port, None) != old)
                after = count[0]
                until(lambda: count[0] > after + 2)
            finally:
                over.set()
                thread.join()
            new = ssl.PEM_cert_to_DER_cert(new_cert.read_text())
            assert presented("127.0.0.1", server.port, "db.example") == new
            with psycopg.connect(f"{place} channel_binding=require") as bound:  # SCRAM binds to the new certificate
                assert bound.info.status.name == "OK"
            assert budget(kept) == 200  # connections stay
            assert kept.sock.getsockname()[1] == local_port
            assert session.execute("SHOW sfumato.budget").fetchone() is not None
            cert.write_text("nothing")
            server.process.send_signal(signal.SIGHUP)
            plain = http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=30)

            def ready() -> tuple[int, bytes]:
                plain.request("GET", "/ready")
                reply = plain.getresponse()
                return reply.status, reply.read()

            until(lambda: ready()[0] == 503 and b'"certificate": false' in ready()[1])
            assert presented("127.0.0.1", server.port, None) == new  # the one before it stays in force
            cert.write_text(new_cert.read_text())
            until(lambda: ready()[0] == 200)  # noticed without a signal
            plain.close()
        kept.close()
        assert failed == []
    assert "The certificate was read again." in server.out
    assert "was not taken over" in server.out


def test_a_larger_budget_waits_for_its_owner_and_connections_stay(tmp_path: Path) -> None:
    policy = make_clinic(tmp_path, epsilon="2", analyst="1")
    with Running(policy, names=("research", "press")) as server:
        found = WIRE.search(server.out)
        assert found is not None
        password = server.secrets["research"].password
        place = f"host=127.0.0.1 port={found[3]} user=research dbname=clinic password={password} sslmode=disable"
        text, confirmed = policy.read_text(), policy_hash(read_policy(policy))
        with psycopg.connect(place, autocommit=True) as session:
            session.execute("SET sfumato.epsilon = '0.25'")
            assert server.ask(asked(1), epsilon="0.5").status == 200
            policy.write_text("not a policy")
            server.process.send_signal(signal.SIGHUP)
            until(lambda: not server.get("/ready", None).json["checks"]["policy"])
            assert server.ask(asked(2), epsilon="0.25").status == 200  # the one before it stays in force
            more = text.replace("epsilon = 2", "epsilon = 4").replace(
                "[analysts.research]\nepsilon = 1", "[analysts.research]\nepsilon = 3"
            )
            policy.write_text(more)
            server.process.send_signal(signal.SIGHUP)
            until(lambda: not server.get("/ready", None).json["checks"]["policy"])
            reply = server.ask(asked(3), epsilon="2")
            assert (reply.status, reply.json["code"]) == (409, "policy_changed")
            ledger = existing_ledger(read_policy(policy))
            assert ledger is not None
            with closing(ledger):
                assert policy_in_force(ledger) == confirmed  # nothing was recorded
            assert said_by("check", str(policy)).exit_code == 0  # the owner's word
            until(lambda: server.get("/ready", None).json["checks"]["policy"])
            assert server.get("/budget").json["total"]["epsilon"] == "3"
            assert server.ask(asked(3), epsilon="2").status == 200
            row = session.execute(asked(4).encode()).fetchone()  # over the connection that was open before
            assert row is not None
            policy.write_text(more.replace("[analysts.press]", "[analysts.reporters]"))
            assert said_by("check", str(policy)).exit_code == 0
            until(lambda: server.get("/budget", "press").status == 401)
            assert server.get("/budget").status == 200
            assert len(session.execute(asked(4).encode()).fetchall()) == 1  # known, and free
    assert server.out.count("is in force") == 2
    assert "Traceback" not in server.out


def test_a_changed_unit_is_confirmed_and_counts_without_a_restart(tmp_path: Path) -> None:
    policy = make_clinic(tmp_path)
    with Running(policy) as server:
        assert server.ask(COUNT, epsilon="1").status == 200
        policy.write_text(policy.read_text().replace("rows_per_unit = 4", "rows_per_unit = 2"))
        assert said_by("check", str(policy)).exit_code == 2  # it must be confirmed
        reply = server.ask(COUNT, epsilon="1")
        assert (reply.status, reply.json["code"]) == (409, "policy_changed")
        assert said_by("check", str(policy), "--confirm", policy_hash(read_policy(policy))).exit_code == 0
        until(lambda: server.get("/ready", None).json["checks"]["policy"])
        reply = server.ask(COUNT, epsilon="1")
        assert reply.status == 200
        assert reply.json["receipt"]["policy"] == policy_hash(read_policy(policy))
        assert server.spent() == "2"


def test_a_prepared_statement_whose_columns_have_changed_is_not_charged(tmp_path: Path) -> None:
    policy = make_clinic(tmp_path)
    (tmp_path / "data" / "wards.csv").write_text("dept,floor\ner,2020-01-01\nicu,2020-01-02\nsurgery,2020-01-03\n")
    text = policy.read_text()
    dates, texts = (
        text.replace('floor = { type = "integer" }', f'floor = {{ type = "{one}" }}') for one in ("date", "text")
    )
    policy.write_text(dates)
    by_floor = b"SELECT floor, COUNT(*) AS n FROM visits JOIN wards ON visits.dept = wards.dept GROUP BY floor"
    with Running(policy) as server:
        found = WIRE.search(server.out)
        assert found is not None
        password = server.secrets["research"].password
        place = f"host=127.0.0.1 port={found[3]} user=research dbname=clinic password={password} sslmode=disable"
        with psycopg.connect(place, autocommit=True) as session, session.cursor(binary=True) as cursor:
            cursor.execute("SET sfumato.epsilon = '1'")
            for sql in (by_floor, COUNT.encode()):
                assert cursor.execute(sql, prepare=True).fetchall()
            policy.write_text(texts)
            assert said_by("check", str(policy), "--confirm", policy_hash(read_policy(policy))).exit_code == 0
            until(lambda: server.get("/ready", None).json["checks"]["policy"])
            spent = server.spent()
            with pytest.raises(psycopg.errors.FeatureNotSupported, match="cached plan must not change result type"):
                cursor.execute(by_floor, prepare=True)
            assert server.spent() == spent
            assert cursor.execute(COUNT.encode(), prepare=True).fetchall()  # its columns are the same
            assert len(session.execute(by_floor, prepare=False).fetchall()) == 3


def test_a_reload_never_records_a_policy(tmp_path: Path) -> None:
    house = House(tmp_path)
    text = house.path.read_text()
    served = ServedDataset(house.path, house.gate, PolicyWatch(house.path, house.database.policy))
    before = policy_in_force(house.database.payer.ledger)
    said: list[str] = []

    async def course() -> None:
        reload = Reload((served,), None, said.append)
        for changed in (
            text.replace("epsilon = 100", "epsilon = 1000"),
            text.replace("rows_per_unit = 4", "rows_per_unit = 40"),
            text.replace('unit = "patient"\nrows_per_unit = 4', 'unit = "rows"'),
            text + "\n[analysts.more]\nepsilon = 50\n",
        ):
            house.path.write_text(changed)
            await reload.read_changes(True)
            assert policy_in_force(house.database.payer.ledger) == before
            assert house.gate.owner is house.database
            with pytest.raises(PolicyChanged):
                open_recorded(read_policy(house.path))
        assert len(said) == 1  # what is said again is said once
        house.path.write_text(f"{text}\n[server]\nquestions = 3\n")
        await reload.read_changes(True)
        assert "server changed. This counts after a restart." in said[-1]
        assert house.gate.owner is house.database
        house.path.write_text(text.replace("[analysts.research]", '[analysts.research]\nprice = "1%"'))
        await reload.read_changes(True)  # what the ledger does not record counts at once
        assert house.gate.policy.analysts[0].price == "1%"
        assert policy_in_force(house.gate.owner.payer.ledger) == before

    asyncio.run(course())


def test_requests_under_way_end_with_the_handles_they_began_with(tmp_path: Path) -> None:
    house = House(tmp_path)
    research = house.caller("research")
    began, go_on = threading.Event(), threading.Event()

    def slow() -> int:
        began.set()
        assert go_on.wait(60)
        return len(handle.history())

    async def course() -> None:
        waiting = asyncio.ensure_future(house.gate.work(research, slow))
        await asyncio.to_thread(began.wait, 60)
        try:
            house.gate.take_over(open_recorded(house.database.policy))
            assert house.gate.owner is not house.database
            await house.gate.ask(research, COUNT, render_unchanged, epsilon="1")
            assert not handle._closed
        finally:
            go_on.set()
        assert await waiting == 1
        while not handle._closed:  # closed by the thread that used it last
            await asyncio.sleep(0)
        assert house.database._closed
        assert (await house.gate.budget(research)).spent.epsilon == 1
        await house.gate.stop()

    handle = house.gate.database(research)
    asyncio.run(course())


def take_over(house: House, text: str) -> None:
    """Record another policy, as `sfumato check` does, and bring it into force."""
    house.path.write_text(text)
    sfumato.open(house.path).close()
    policy = read_policy(house.path)
    watch = house.gate._watch
    assert watch is not None
    watch.take_over(policy)
    house.grants.use_policy(policy)
    house.gate.take_over(open_recorded(policy))


def test_who_is_no_longer_in_the_policy_learns_nobody_elses_name(tmp_path: Path) -> None:
    house = House(tmp_path)
    research = house.caller("research")  # as of a request that has begun: its body arrives slowly

    async def course() -> None:
        take_over(house, house.path.read_text().replace("[analysts.research]\nepsilon = 50\n", ""))
        asking = (
            lambda: house.gate.ask(research, COUNT, render_unchanged, epsilon="1"),
            lambda: house.gate.explain(research, COUNT, epsilon="1"),
            lambda: house.gate.budget(research),
            lambda: house.gate.history(research),
        )
        for ask in asking:
            with pytest.raises(NotGranted) as refused:
                await ask()
            assert "press" not in str(refused.value)
        await house.gate.stop()

    asyncio.run(course())


def test_an_answer_of_the_policy_before_is_not_kept_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(tmp_path)
    research = house.caller("research")
    began, go_on = threading.Event(), threading.Event()
    ask = Database.ask

    def slow(database: Database, sql: str, **price: object) -> sfumato.Release:
        release = ask(database, sql, **price)  # type: ignore[arg-type]
        began.set()
        assert go_on.wait(60)
        return release

    async def course() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(Database, "ask", slow)
            waiting = asyncio.ensure_future(house.gate.ask(research, COUNT, render_unchanged, epsilon="1"))
            await asyncio.to_thread(began.wait, 60)
        fewer = house.path.read_text().replace("[analysts.research]", '[analysts.research]\nroles = ["wards"]')
        try:
            take_over(house, f'{fewer}\n[roles.wards]\ntables = ["wards"]\n')
        finally:
            go_on.set()
        assert (await waiting).receipt.id  # it ends under the policy with which it began
        for ask_again in (house.gate.explain, partial(house.gate.ask, render=render_unchanged)):  # price, then answer
            with pytest.raises(UnknownName):
                await ask_again(research, COUNT, epsilon="1")
        await house.gate.stop()

    asyncio.run(course())
