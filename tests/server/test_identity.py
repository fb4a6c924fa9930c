"""Single sign-on against a real provider: what it signed for us counts, and nothing else does."""

import hmac
import http.client
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from click.testing import CliRunner
from joserfc import jwk
from tests.server.clinic import make_clinic
from tests.server.provider import Provider
from tests.server.running import WIRE, Reply, Running

from sfumato.cli import main
from sfumato.policy.reading import read_policy
from sfumato.policy.server_settings import Identity
from sfumato.server import identity as module
from sfumato.server.grants import Grants
from sfumato.server.identity import IdentityError, IdentityProvider, Person


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[Running]:
    text = f'identity = {{ issuer = "{provider.issuer}", audience = "sfumato" }}\nowners = ["vera@example.org"]'
    before = len(provider.fetched)
    with Running(make_clinic(tmp_path_factory.mktemp("identity"), top=text)) as running:
        assert len(provider.fetched) == before  # nothing is fetched at start
        yield running


class Clock:
    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


def _client(provider: Provider, clock: Clock | None = None) -> IdentityProvider:
    return IdentityProvider(Identity(provider.issuer, "sfumato"), clock=clock or Clock())


def _unsigned(provider: Provider) -> str:
    parts = ({"alg": "none", "kid": provider.keys[0].kid}, provider.claims())
    head, body = (urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    return f"{head}.{body}.AA"


def _by_public_key(provider: Provider) -> str:
    """Sign with the public key as a shared secret."""
    parts = ({"alg": "HS256", "kid": provider.keys[0].kid}, provider.claims())
    signed = ".".join(urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    signature = hmac.digest(provider.keys[0].as_pem(private=False), signed.encode(), "sha256")
    return f"{signed}.{urlsafe_b64encode(signature).rstrip(b'=').decode()}"


FALSE: dict[str, Callable[[Provider], str]] = {
    "wrong audience": lambda p: p.token(aud="other"),
    "no audience": lambda p: p.token(aud=None),
    "audience list without us": lambda p: p.token(aud=["a", "b"]),
    "wrong issuer": lambda p: p.token(iss="http://127.0.0.1:9/"),
    "expired": lambda p: p.token(exp=int(time.time()) - 3600),
    "no expiry": lambda p: p.token(exp=None),
    "expiry in words": lambda p: p.token(exp="never"),
    "not yet": lambda p: p.token(nbf=int(time.time()) + 3600),
    "issued later": lambda p: p.token(iat=int(time.time()) + 3600),
    "alg none": _unsigned,
    "shared secret": _by_public_key,
    "unknown key": lambda p: p.token(jwk.generate_key("RSA", 2048, {"kid": "other"}, auto_kid=False)),
    "key of another with our name": lambda p: p.token(
        jwk.generate_key("RSA", 2048, {"kid": p.keys[0].kid}, auto_kid=False)
    ),
    "changed body": lambda p: ".".join(
        (p.token().split(".")[0], p.token(email="press").split(".")[1], p.token().split(".")[2])
    ),
    "no name": lambda p: p.token(email=None),
    "name of another type": lambda p: p.token(email=["research"]),
    "unverified address": lambda p: p.token(email_verified=False),
    "no token": lambda _: "a.b.c",
    "long": lambda p: p.token(more="x" * (16 << 10)),
}


@pytest.mark.parametrize("kind", FALSE)
def test_a_token_that_is_not_for_us_counts_for_nothing(provider: Provider, kind: str) -> None:
    client = _client(provider)
    assert client.person_of(provider.token()).name == "research"
    with pytest.raises(IdentityError):
        client.person_of(FALSE[kind](provider))


def test_keys_are_kept_fetched_again_when_unknown_and_not_by_every_guess(provider: Provider) -> None:
    clock = Clock()
    client = _client(provider, clock)
    before = provider.fetched.count("/keys")
    old = provider.token()
    for _ in range(5):
        client.person_of(old)
    assert provider.fetched.count("/keys") == before + 1
    provider.rotate()
    new = provider.token(exp=int(clock.now) + 7200, iat=None)
    with pytest.raises(IdentityError):
        client.person_of(new)  # too early for another look
    clock.now += module.FETCH_SECONDS
    assert client.person_of(new).name == "research"
    with pytest.raises(IdentityError):
        client.person_of(old)  # its key was taken back
    assert client.known(old) is None
    for _ in range(20):
        with pytest.raises(IdentityError):
            client.person_of(FALSE["unknown key"](provider))
    assert provider.fetched.count("/keys") <= before + 3


def test_a_provider_that_is_away_lets_nobody_new_in_and_known_keys_count_on(provider: Provider) -> None:
    clock, away = Clock(), False

    def fetch(address: str, form: object) -> object:
        if away:
            raise OSError
        return module.fetch_json(address, form)  # type: ignore[arg-type]

    client = IdentityProvider(Identity(provider.issuer, "sfumato"), fetch, clock)
    token = provider.token(exp=int(clock.now) + 10**6)
    away = True
    with pytest.raises(IdentityError):
        client.person_of(token)
    clock.now += module.FETCH_SECONDS
    away = False
    assert client.person_of(token).name == "research"
    away = True
    clock.now += 2 * module.KEYS_SECONDS
    assert client.person_of(token).name == "research"
    clock.now += 24 * module.KEYS_SECONDS
    with pytest.raises(IdentityError):
        client.person_of(token)


def test_a_token_is_remembered_until_it_expires_and_exchanged_once(provider: Provider) -> None:
    clock = Clock()
    client, token = _client(provider, clock), provider.token()
    assert client.known(token) is None
    person = client.exchange(token)
    assert isinstance(person, Person)
    assert client.known(token) == person
    with pytest.raises(IdentityError):
        client.exchange(token)  # a replay
    clock.now = person.expires
    assert client.known(token) is None


def _get(server: Running, path: str, cookie: str = "") -> Reply:
    return server.request("GET", path, headers={"Cookie": cookie} if cookie else {}, name=None)


def _cookie(reply: Reply) -> str:
    return reply.headers["set-cookie"].partition(";")[0]


def _follow(address: str) -> str:
    """Go to the provider as a browser does, and return the path that it leads back to."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    connection.request("GET", f"{parts.path}?{parts.query}")
    back = urlsplit(connection.getresponse().headers["Location"])
    connection.close()
    return f"{back.path}?{back.query}"


def test_http_takes_a_signed_token_and_no_forged_one(server: Running, provider: Provider) -> None:
    given = {"Authorization": f"Bearer {provider.token()}"}
    assert server.request("GET", "/budget", headers=given, name=None).status == 200
    assert server.request("GET", "/owner", headers=given, name=None).status in (303, 401)
    for kind in ("alg none", "wrong audience", "expired"):
        forged = {"Authorization": f"Bearer {FALSE[kind](provider)}"}
        assert server.request("GET", "/budget", headers=forged, name=None).status == 401
    for stranger in ("nobody@example.org", ""):
        other = {"Authorization": f"Bearer {provider.token(email=stranger)}"}
        assert server.request("GET", "/budget", headers=other, name=None).status == 401
    assert server.get("/budget").status == 200  # granted tokens work as before
    owner = {"Authorization": f"Bearer {provider.token(email='Vera@example.org')}"}
    assert server.request("GET", "/metrics", headers=owner, name=None).status == 200


def test_the_console_logs_in_by_the_code_flow_once_and_in_one_browser(server: Running, provider: Provider) -> None:
    assert "Log in with your organisation" in _get(server, "/").body.decode()
    begun = _get(server, "/login/identity")
    assert begun.status == 303
    address, flow = begun.headers["location"], _cookie(begun)
    assert "code_challenge_method=S256" in address
    back = _follow(address)
    assert _get(server, back).status == 401  # another browser
    logged_in = _get(server, back, flow)
    assert logged_in.status == 200
    cookies = logged_in.headers["set-cookie"]
    assert _get(server, back, flow).status == 401  # a replay
    session = cookies.partition(";")[0]
    page = _get(server, "/access", session).body.decode()
    assert "research" in page
    assert "identity" in page
    forged = _follow(_get(server, "/login/identity").headers["location"])
    assert _get(server, forged, flow).status == 401  # the state of another flow


def test_a_short_lived_password_for_psql_comes_from_the_provider_s_token(server: Running, provider: Provider) -> None:
    token = provider.token()
    runner = CliRunner()
    drawn = runner.invoke(main, ["login", server.url], input=token)
    assert drawn.exit_code == 0, drawn.output
    found = dict(line.split(": ", 1) for line in drawn.output.splitlines() if ": " in line)
    assert runner.invoke(main, ["login", server.url], input=token).exit_code == 2  # a replay
    wire = WIRE.search(server.out)
    assert wire is not None
    with psycopg.connect(
        host=wire[2], port=int(wire[3]), user=found["user"], dbname=wire[4], password=found["password"]
    ) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    given = {"Authorization": f"Bearer {found['token']}"}
    assert server.request("GET", "/budget", headers=given, name=None).status == 200


ROLES = """
[roles.wards]
tables = ["wards"]

[roles.visits]
tables = ["visits"]
columns = ["visits.dept"]

[roles.all]
tables = ["visits", "wards"]
"""


def _visible(server: Running, token: str) -> dict[str, list[str]] | int:
    reply = server.request("GET", "/tables", headers={"Authorization": f"Bearer {token}"}, name=None)
    if reply.status != 200:
        return reply.status
    return {table["name"]: [column["name"] for column in table["columns"]] for table in reply.json["tables"]}


def test_roles_come_from_claims_and_follow_into_sessions_passwords_and_caches(
    tmp_path: Path, provider: Provider
) -> None:
    top = f'identity = {{ issuer = "{provider.issuer}", audience = "sfumato", roles = "claims.realm.groups" }}'
    policy = make_clinic(tmp_path, top=top)
    text = policy.read_text().replace("[analysts.press]", '[analysts.press]\nroles = ["wards", "visits"]')
    policy.write_text(text + ROLES)
    count, cost = "SELECT COUNT(*) AS n FROM visits", "SELECT SUM(cost) AS n FROM visits"
    with Running(policy) as server:

        def token(*groups: str, person: str = "research") -> str:
            return provider.token(email=person, realm={"groups": list(groups)}, jti=str(next(numbers)))

        def asked(by: str, sql: str) -> int:
            headers = {"Authorization": f"Bearer {by}", "Content-Type": "application/json"}
            body = json.dumps({"sql": sql, "epsilon": "1"})
            return server.request("POST", "/ask", body, headers, None).status

        numbers = iter(range(100))
        assert _visible(server, token("Wards", "unknown")) == {"wards": ["dept", "floor"]}
        assert _visible(server, token("wards", "visits")) == {"wards": ["dept", "floor"], "visits": ["dept"]}
        for nothing in ((), ("unknown",), ("owner",)):
            assert _visible(server, token(*nothing)) == 401
        assert _visible(server, provider.token()) == 401  # a token without the claim
        assert _visible(server, provider.token(realm={"groups": "wards"})) == {"wards": ["dept", "floor"]}
        assert _visible(server, token("all", person="press")) == 401  # the policy gives press two other roles
        assert _visible(server, token("all", "wards", person="press")) == {"wards": ["dept", "floor"]}
        granted = _visible(server, server.token())  # by the owner
        assert isinstance(granted, dict)
        assert set(granted) == {"visits", "wards"}
        assert asked(token("all"), cost) == asked(token("all"), count) == 200
        assert asked(token("visits"), count) == 200
        assert asked(token("visits"), cost) == asked(token("wards"), count) == 400  # also where the answer is cached
        drawn = server.request(
            "POST", "/login/token", headers={"Authorization": f"Bearer {token('visits')}"}, name=None
        ).json
        assert _visible(server, drawn["token"]) == {"visits": ["dept"]}
        wire = WIRE.search(server.out)
        assert wire is not None
        place = {"host": wire[2], "port": int(wire[3]), "user": drawn["user"], "dbname": wire[4]}
        with psycopg.connect(**place, password=drawn["password"], autocommit=True) as session:
            shown = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
            assert session.execute(shown).fetchall() == [("visits", "dept")]
            with pytest.raises(psycopg.errors.UndefinedColumn):
                session.execute(cost.encode())
        provider.extra = {"realm": {"groups": ["visits"]}}
        try:
            begun = _get(server, "/login/identity")
            logged_in = _get(server, _follow(begun.headers["location"]), _cookie(begun))
        finally:
            provider.extra = {}
        session_cookie = logged_in.headers["set-cookie"].partition(";")[0]
        page = _get(server, "/", session_cookie).body.decode()
        assert "floor" not in page
        assert "dept" in page
        password = server.form("/access/password", {}, session_cookie)
        assert password.status == 200
        grants = Grants(read_policy(policy), policy)
        assert {grant.label: grant.roles for grant in grants.all()} == {
            "default": None,
            "login": ("visits",),
            "console": ("visits",),
        }
        grants.close()


def test_servers_over_one_store_finish_the_log_ins_of_each_other_and_exchange_a_token_once(
    tmp_path: Path, provider: Provider
) -> None:
    policy = make_clinic(tmp_path, top=f'identity = {{ issuer = "{provider.issuer}", audience = "sfumato" }}')
    read = read_policy(policy)
    assert read.identity is not None
    stores = [Grants(read, policy), Grants(read, policy)]
    for store in stores:
        store.ready()
    first, second = (IdentityProvider(read.identity, secret=one.login_secret, once=one.use_once) for one in stores)
    here = "http://127.0.0.1:1/login/callback"

    def code(address: str) -> str:
        return parse_qs(urlsplit(_follow(address)).query)["code"][0]

    flow, address = first.begin(here)
    assert second.finish(flow.state, code(address), here).name == "research"
    for client in (first, second):
        with pytest.raises(IdentityError):
            client.finish(flow.state, "code", here)  # the provider has no such code
    again, address = first.begin(here)
    with pytest.raises(IdentityError):
        second.finish(again.state, code(address), "http://127.0.0.1:2/login/callback")  # another address
    with pytest.raises(IdentityError):
        second.finish(again.state[:-1] + ("A" if again.state[-1] != "A" else "B"), code(address), here)
    other = IdentityProvider(read.identity)
    flow, address = other.begin(here)
    with pytest.raises(IdentityError):
        first.finish(flow.state, code(address), here)  # of a server with other grants
    token = provider.token()
    assert first.exchange(token).name == "research"
    with pytest.raises(IdentityError):
        second.exchange(token)
    for store in stores:
        store.close()


def test_a_state_counts_once_even_if_the_provider_takes_a_code_twice(tmp_path: Path, provider: Provider) -> None:
    clock = Clock()
    kept: dict[str, object] = {}

    def fetch(address: str, form: object) -> object:
        if form is None:
            return module.fetch_json(address, None)
        kept.setdefault("reply", module.fetch_json(address, form))  # type: ignore[arg-type]
        return kept["reply"]

    client = IdentityProvider(Identity(provider.issuer, "sfumato"), fetch, clock)
    flow, address = client.begin("http://127.0.0.1:1/login/callback")
    back = parse_qs(urlsplit(_follow(address)).query)["code"][0]
    assert client.finish(flow.state, back, flow.redirect).name == "research"
    with pytest.raises(IdentityError):
        client.finish(flow.state, back, flow.redirect)
    kept.clear()
    flow, address = client.begin("http://127.0.0.1:1/login/callback")
    clock.now += module.FLOW_SECONDS + 1
    with pytest.raises(IdentityError):
        client.finish(flow.state, parse_qs(urlsplit(_follow(address)).query)["code"][0], flow.redirect)


def test_without_identity_in_the_policy_there_is_no_such_page(tmp_path: Path) -> None:
    with Running(make_clinic(tmp_path)) as plain:
        assert _get(plain, "/login/identity").status == 404
        assert "organisation" not in _get(plain, "/").body.decode()
