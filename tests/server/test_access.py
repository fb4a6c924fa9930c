"""Named tokens that expire, sessions apart from them, and stores that several servers share: one law for each store."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from tests.ledger.postgres import binaries
from tests.ledger.postgres import server as postgres
from tests.server.clinic import make_clinic
from tests.server.running import Running
from tests.server.wire.served import Bare, served

from sfumato.backups.backup import back_up
from sfumato.cli import main
from sfumato.errors import BadParameter, GrantsDamaged
from sfumato.policy.canonical import identity_digest
from sfumato.policy.policy import Policy
from sfumato.policy.reading import read_policy
from sfumato.server.grant_stores import postgres as postgres_store
from sfumato.server.grant_stores.stored import GrantKind
from sfumato.server.grants import MAX_GRANTS_PER_PERSON, OWNER, Grants
from sfumato.server.scram import is_proof
from sfumato.server.sessions import Sessions

Open = Callable[[], Grants]
NOW = 1_800_000_000.0


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


CLOCK = Clock()


@pytest.fixture(scope="module")
def database() -> Iterator[str | None]:
    folder = binaries()
    if folder is None:
        yield None
        return
    with postgres(folder) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path, database: str | None) -> Iterator[Open]:
    """Give a function that opens the same grants again, as another process does."""
    CLOCK.now = NOW
    path = make_clinic(tmp_path)
    more = 'owners = ["Vera", "otto"]\nidentity = { issuer = "https://login.example.org/", audience = "sfumato" }'
    text = path.read_text().replace('name = "clinic"', f'name = "clinic"\n{more}')
    if request.param == "postgresql":
        if database is None:
            pytest.skip("needs PostgreSQL's binaries")
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
        text = text.replace("sqlite:clinic.ledger", database)
    path.write_text(text)
    policy, opened = read_policy(path), list[Grants]()

    def open_again() -> Grants:
        opened.append(Grants(policy, path, clock=CLOCK))
        return opened[-1]

    yield open_again
    for grants in opened:
        grants.close()


def test_an_analyst_has_several_named_tokens_and_one_can_be_replaced_or_revoked(store: Open) -> None:
    grants, other = store(), store()
    laptop, server = grants.grant("research", "laptop"), grants.grant("research", "server")
    assert {grant.label for grant in other.all()} == {"laptop", "server"}
    again = grants.grant("research", "laptop")
    assert other.of_token(laptop.token) is None
    assert all(other.of_token(secrets.token) is not None for secrets in (again, server))
    assert other.revoke("Research", "laptop")
    assert grants.of_token(again.token) is None
    assert grants.of_token(server.token) is not None
    assert not grants.revoke("research", "laptop")
    assert grants.revoke("research")
    assert other.of_token(server.token) is None


def test_every_password_of_an_account_fits_and_every_log_in_tries_as_many(store: Open) -> None:
    grants = store()
    passwords = [grants.grant("research", label).password for label in ("a", "b")]
    logins = grants.of_user("research")
    assert len(logins) == len(grants.of_user("stranger")) == MAX_GRANTS_PER_PERSON
    assert len({(login.verifier.salt, login.verifier.iterations) for login in logins}) == 1
    assert sorted(login.grant.label for login in logins if login.grant is not None) == ["a", "b"]
    assert passwords[0] != passwords[1]
    assert not any(is_proof(login.verifier, b"message", bytes(32)) for login in logins)


def test_a_token_ends_when_it_expires_with_its_password_and_its_session(store: Open) -> None:
    grants = store()
    secrets = grants.grant("research", "short", 3600)
    grant = grants.of_token(secrets.token)
    assert grant is not None
    session = Sessions(grants, CLOCK).begin(grant)
    CLOCK.now += 3599
    assert grants.stands(grant)
    assert Sessions(grants, CLOCK).grant_of(session) == grant
    CLOCK.now += 1
    assert not grants.stands(grant)
    assert grants.of_token(secrets.token) is None
    assert all(login.grant is None for login in grants.of_user("research"))
    assert Sessions(grants, CLOCK).grant_of(session) is None


def test_the_last_use_is_on_record_and_never_goes_back(store: Open) -> None:
    grants = store()
    token = grants.grant("research").token
    assert store().all()[0].used is None
    CLOCK.now += 100
    assert grants.of_token(token) is not None
    grants.write_uses()
    assert store().all()[0].used == NOW + 100
    CLOCK.now -= 50
    grants.of_token(token)
    grants.write_uses()
    assert store().all()[0].used == NOW + 100


def test_sessions_are_shared_listed_and_ended_apart_from_tokens(store: Open) -> None:
    grants, other = store(), store()
    token = grants.grant("research").token
    grant = grants.of_token(token)
    assert grant is not None
    first = Sessions(grants, CLOCK).begin(grant, "192.0.2.1")
    CLOCK.now += 1
    second = Sessions(grants, CLOCK).begin(grant, "192.0.2.1")
    assert Sessions(other, CLOCK).grant_of(first) == grant
    assert [session.address for session in other.sessions()] == ["192.0.2.1"] * 2
    assert other.end_sessions([other.sessions()[0].key]) == 1
    assert [Sessions(grants, CLOCK).grant_of(one) is None for one in (first, second)] == [True, False]
    assert grants.of_token(token) is not None
    assert grants.revoke("research")
    assert other.sessions() == ()
    assert Sessions(other, CLOCK).grant_of(second) is None


def _digest(grants: Grants) -> str:
    assert grants.policy.identity is not None
    return identity_digest(grants.policy.identity)


def test_a_session_without_a_token_ends_alone(store: Open) -> None:
    grants = store()
    grants.ready()
    named = grants.identity_grant("research", CLOCK(), CLOCK() + 600, identity=_digest(grants))
    assert named is not None
    identity = Sessions(grants, CLOCK).begin(named)
    found = Sessions(grants, CLOCK).grant_of(identity)
    assert found is not None
    assert (found.account, found.kind) == ("research", GrantKind.SESSION)
    assert grants.stands(found)
    assert grants.identity_grant("stranger", CLOCK(), None, identity=_digest(grants)) is None
    assert grants.identity_grant("", CLOCK(), None, identity=_digest(grants)) is None
    Sessions(grants, CLOCK).end(identity)
    assert not grants.stands(found)
    grants.close()


OLDER_TABLES = {
    "0.13": ("identity",),
    "0.12": ("identity", "roles"),
}
"""Columns that tables of older versions lack."""


@pytest.mark.parametrize("version", OLDER_TABLES)
def test_tables_of_an_older_version_are_read_and_converted_and_their_tokens_count(
    store: Open, database: str | None, tmp_path: Path, version: str
) -> None:
    before = store()
    token = before.grant("research").token
    named = before.identity_grant("press", CLOCK(), None, identity=_digest(before))
    assert named is not None
    by_provider = Sessions(before, CLOCK).begin(named)
    before.close()
    is_file = before.policy.ledger.path is not None
    prefix = "" if is_file else "sfumato_"
    changes = [
        f"ALTER TABLE {prefix}{table} DROP COLUMN {column}"
        for table in ("grants", "sessions")
        for column in OLDER_TABLES[version]
    ]
    changes += [f"DROP TABLE {prefix}once"] if version == "0.12" else []
    if is_file:
        with closing(sqlite3.connect(tmp_path / "clinic.ledger.grants")) as file:
            for change in (*changes, f"PRAGMA user_version = {3 if version == '0.13' else 2}"):
                file.execute(change)
            file.commit()
    else:
        assert database is not None
        with psycopg.connect(database, autocommit=True) as connection:
            for change in changes:
                connection.execute(change.encode())
    after = store()
    found = after.of_token(token)
    assert found is not None
    assert (found.roles, found.identity) == (None, None)
    assert Sessions(after, CLOCK).grant_of(by_provider) is None  # nothing says which provider vouched for it
    after.ready()
    drawn = after.grant("visitor", identity=_digest(after))
    again = store().of_token(drawn.token)
    assert again is not None
    assert again.identity == _digest(after)
    assert after.use_once("a", CLOCK() + 60)
    assert store().of_token(token) is not None


def test_owners_have_names_and_lose_access_with_them(store: Open, tmp_path: Path) -> None:
    grants = store()
    vera = grants.of_token(grants.grant("vera").token)
    unnamed = grants.of_token(grants.grant(OWNER).token)
    assert vera is not None
    assert unnamed is not None
    assert (vera.account, vera.person, unnamed.person) == (OWNER, "vera", "")
    assert all(login.grant is None for login in grants.of_user("vera"))
    path = tmp_path / "clinic.toml"
    path.write_text(path.read_text().replace('"Vera", ', ""))
    later = Grants(read_policy(path), path, clock=CLOCK)
    assert not later.stands(vera)
    assert later.stands(unnamed)
    assert grants.revoke("Vera")
    assert not grants.stands(vera)
    assert grants.stands(unnamed)
    later.close()


def test_the_number_of_tokens_of_a_person_is_bounded(store: Open) -> None:
    grants = store()
    for place in range(MAX_GRANTS_PER_PERSON):
        grants.grant("research", f"token {place}")
    with pytest.raises(BadParameter, match="no more of them"):
        grants.grant("research", "one more")
    grants.grant("research", "token 0")
    grants.grant("press")


@pytest.mark.parametrize("label", ["", " a", "a" * 64, "a\nb"])
def test_a_label_is_a_name(tmp_path: Path, label: str) -> None:
    with pytest.raises(BadParameter, match="name of a token"):
        Grants(read_policy(make_clinic(tmp_path))).grant("research", label)


def _old_file(folder: Path) -> tuple[Policy, Path, str, str]:
    """Write a file of version 0.10 with the grants of the store, and return a token and a password."""
    path = make_clinic(folder)
    policy = read_policy(path)
    made = Grants(policy, path)
    secrets = made.grant("research")
    access = made._store.read()
    grant = access.grants[0]
    assert grant.verifier is not None
    made.close()
    stored = {
        "account": grant.account,
        "id": grant.id,
        "token": grant.token,
        "salt": grant.verifier.salt.hex(),
        "iterations": grant.verifier.iterations,
        "stored_key": grant.verifier.stored_key.hex(),
        "server_key": grant.verifier.server_key.hex(),
        "since": grant.since,
    }
    file = folder / "clinic.ledger.grants"
    file.unlink()
    file.touch(0o600)
    file.write_text(json.dumps({"format": 1, "secret": access.secret.hex(), "grants": [stored]}))
    return policy, path, secrets.token, secrets.password


def test_a_file_of_an_older_version_is_read_and_becomes_sqlite_with_the_first_change(tmp_path: Path) -> None:
    policy, path, token, _ = _old_file(tmp_path)
    file = tmp_path / "clinic.ledger.grants"
    before = file.read_bytes()
    grants = Grants(policy, path)
    grants.ready()
    found = grants.of_token(token)
    assert found is not None
    assert (found.label, found.expires) == ("default", None)
    assert grants.of_user("research")[0].grant == found
    assert file.read_bytes() == before
    grants.grant("press")
    assert file.read_bytes().startswith(b"SQLite format 3")
    assert file.stat().st_mode & 0o777 == 0o600
    assert grants.stands(found)
    assert Grants(policy, path).of_token(token) == found


def test_a_file_of_an_older_version_is_taken_over_by_a_ledger_on_postgresql(
    tmp_path: Path, database: str | None
) -> None:
    if database is None:
        pytest.skip("needs PostgreSQL's binaries")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    _, path, token, _ = _old_file(tmp_path)
    path.write_text(path.read_text().replace("sqlite:clinic.ledger", database))
    (tmp_path / "clinic.ledger.grants").rename(tmp_path / "clinic.toml.grants")
    grants = Grants(read_policy(path), path)
    grants.ready()
    assert grants.of_token(token) is not None
    grants.close()


def test_a_database_that_is_away_lets_nobody_in(
    tmp_path: Path, database: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if database is None:
        pytest.skip("needs PostgreSQL's binaries")
    path = make_clinic(tmp_path)
    path.write_text(path.read_text().replace("sqlite:clinic.ledger", database))
    grants = Grants(read_policy(path), path)
    token = grants.grant("research").token
    grants.ready()
    assert grants.of_token(token) is not None
    monkeypatch.setattr(postgres_store, "MAX_SILENT_SECONDS", -1.0)
    with pytest.raises(GrantsDamaged, match="does not answer"):
        grants.of_token(token)
    grants.close()


def test_a_backup_has_grants_without_sessions(tmp_path: Path) -> None:
    path = make_clinic(tmp_path / "here")
    grants = Grants(read_policy(path), path)
    token = grants.grant("research").token
    grant = grants.of_token(token)
    assert grant is not None
    Sessions(grants).begin(grant)
    runner = CliRunner()
    asked = runner.invoke(main, ["ask", str(path), "SELECT COUNT(*) FROM visits", "--epsilon", "1"])
    assert asked.exit_code == 0, asked.output
    back_up(path, tmp_path / "backup")
    with closing(sqlite3.connect(tmp_path / "backup" / "grants")) as copied:
        assert copied.execute("SELECT label FROM grants").fetchall() == [("default",)]
        assert copied.execute("SELECT count(*) FROM sessions").fetchone() == (0,)


def test_the_command_line_grants_lists_and_revokes(tmp_path: Path) -> None:
    path = make_clinic(tmp_path)
    runner = CliRunner()
    assert runner.invoke(main, ["grants", str(path)]).exit_code == 0
    given = runner.invoke(main, ["grant", str(path), "research", "--name", "laptop", "--expires", "30d"])
    assert given.exit_code == 0, given.output
    listed = runner.invoke(main, ["grants", str(path)], env={"COLUMNS": "120"}).output
    assert "laptop" in listed
    assert "research" in listed
    assert runner.invoke(main, ["grant", str(path), "research", "--expires", "soon"]).exit_code == 2
    gone = runner.invoke(main, ["revoke", str(path), "research", "--name", "laptop"])
    assert gone.output == "Revoked what research had.\n"
    assert "laptop" not in runner.invoke(main, ["grants", str(path)]).output


def test_each_of_two_passwords_logs_in_over_the_wire(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        second = server.grants.grant("research", "second").password
        for password in (server.password, second):
            with Bare(server) as client:
                client.start("research", password)
        assert all(grant.used is None for grant in server.grants.all())
        server.grants.write_uses()
        assert all(grant.used is not None for grant in server.grants.all())


def test_the_console_lists_and_ends_tokens_and_sessions_of_ones_own(tmp_path: Path) -> None:
    path = make_clinic(tmp_path)
    with Running(path, names=("research", "press", OWNER)) as server:
        mine, theirs = server.cookie("research"), server.cookie("press")
        shown = server.request("GET", "/access", headers={"Cookie": mine}, name=None).body.decode()
        assert "research" in shown
        assert "press" not in shown
        grants = Grants(read_policy(path), path)
        foreign = next(grant for grant in grants.all() if grant.account == "press")
        assert server.form("/access/end", {"token": foreign.id}, mine).status == 303
        assert grants.stands(foreign)  # not one's own
        own = next(one for one in grants.sessions() if one.account == "research")
        assert server.form("/access/end", {"session": own.key}, mine).status == 303
        assert "Your token" in server.request("GET", "/", headers={"Cookie": mine}, name=None).body.decode()
        assert server.get("/budget").status == 200  # the token stands
        assert server.form("/access/grant", {"name": "research", "label": "x"}, theirs).status == 401
        owner = server.cookie(OWNER)
        given = server.form("/access/grant", {"name": "visitor", "label": "kiosk", "days": "3"}, owner)
        assert given.status == 200
        assert "New access for visitor" in given.body.decode()
        kiosk = next(grant for grant in grants.all() if grant.label == "kiosk")
        assert kiosk.expires is not None
        assert server.form("/access/end", {"token": kiosk.id}, owner).status == 303
        assert not grants.stands(kiosk)
        drawn = server.form("/access/password", {}, theirs)
        assert drawn.status == 200
        assert "password" in drawn.body.decode()


def test_what_a_person_draws_ends_no_later_than_the_token_that_they_came_in_with(tmp_path: Path) -> None:
    path = make_clinic(tmp_path)
    with Running(path, names=("research",)) as server:
        grants = Grants(read_policy(path), path)
        token = grants.grant("press", "an hour", 3600).token
        for _ in range(3):  # by drawing again and again, nobody stays for longer
            entered = server.form("/login", {"token": token}, "")
            drawn = server.form("/access/password", {}, entered.headers["set-cookie"].partition(";")[0])
            assert drawn.status == 200
            first, last = sorted((one for one in grants.all() if one.account == "press"), key=lambda one: one.label)
            assert (first.label, last.label) == ("an hour", "console")
            assert first.expires is not None
            assert last.expires is not None
            assert last.expires <= first.expires
            token = drawn.body.decode().partition("<dt>token</dt><dd><code>")[2].partition("<")[0]
