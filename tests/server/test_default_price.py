"""A question that names no price costs what the policy says for its analyst, in every interface."""

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from tests.server.running import WIRE, Running
from tests.server.wire.served import make_clinic

import sfumato
from sfumato.cli import main
from sfumato.errors import BadPolicy
from sfumato.policy.canonical import policy_hash
from sfumato.policy.reading import read_policy

SQL = "SELECT COUNT(*) AS n FROM visits WHERE age < {}"
ONE_PERCENT = Fraction(1, 100)
OPTIONS = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.125)"


def _clinic(folder: Path, price: str) -> Path:
    """Write a clinic whose research has this default price, and whose press has none."""
    path = make_clinic(folder, epsilon="10")
    path.write_text(path.read_text().replace("[analysts.research]\n", f"[analysts.research]\nprice = {price}\n"))
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(_clinic(tmp_path_factory.mktemp("price"), '"1%"'), names=("research", "press")) as running:
        yield running


def _used(server: Running) -> Fraction:
    return Fraction(server.get("/budget").json["used"])


def _by_http(server: Running, sql: str) -> None:
    assert server.post("/explain", {"sql": sql}).json["share"] is not None
    assert server.ask(sql).status == 200


def _by_psql(server: Running, sql: str) -> None:
    found = WIRE.search(server.out)
    assert found is not None
    user, host, port, name = found.groups()
    assert user
    password = server.secrets["research"].password
    with psycopg.connect(
        host=host, port=int(port), user="research", dbname=name, password=password, sslmode="prefer"
    ) as connection:
        assert connection.execute(sql).fetchall()


def _by_client(server: Running, sql: str) -> None:
    with sfumato.connect(server.url, token=server.token()) as remote:
        quote = remote.explain(sql)
        remote.ask(sql)
        assert quote.used_after == remote.budget().used
        assert quote.spent_after == remote.budget().spent


def _by_console(server: Running, sql: str) -> None:
    page = server.request("GET", "/", None, {"Cookie": server.cookie()}, None).body.decode()
    assert 'name="share" value="1%"' in page
    headers = {"Cookie": server.cookie(), "Origin": server.url.rstrip("/"), "Content-Type": "application/json"}
    said = json.loads(server.request("POST", "/price", json.dumps({"sql": sql}), headers, None).body)
    assert "of the budget" in said["price"]
    _by_http(server, sql)


@pytest.mark.parametrize(
    ("number", "ask"),
    list(enumerate([_by_http, _by_psql, _by_client, _by_console])),
    ids=["http", "psql", "client", "console"],
)
def test_every_interface_of_a_server_takes_one_percent(server: Running, number: int, ask: object) -> None:
    before = _used(server)
    assert callable(ask)
    ask(server, SQL.format(20 + number))
    assert Fraction(99, 100) * ONE_PERCENT < _used(server) - before <= ONE_PERCENT


def test_python_and_the_command_line_take_the_price_of_the_policy_and_the_owner_names_one(tmp_path: Path) -> None:
    path = _clinic(tmp_path, "0.25")
    with sfumato.open(path) as owner, owner.as_analyst("research") as research, owner.as_analyst("press") as press:
        assert research.ask(SQL.format(30)).loss.epsilon == Fraction(1, 4)
        assert research.ask(SQL.format(31), epsilon="0.5").loss.epsilon == Fraction(1, 2)
        assert research.ask(SQL.format(32).replace("SELECT", OPTIONS)).loss.epsilon == Fraction(1, 8)
        assert research.ask_all([SQL.format(33), SQL.format(34)])[0].loss.epsilon == Fraction(1, 4)
        used = research.budget().used
        assert research.ask("SELECT COUNT(*) AS n FROM staff").rows() == [{"n": 9}]
        assert research.ask(SQL.format(30)).receipt
        assert research.budget().used == used
        for nobody in (owner, press):
            with pytest.raises(sfumato.Refusal, match=r"no price.*analysts\.NAME\.price"):
                nobody.ask(SQL.format(30))
    shown = CliRunner().invoke(main, ["ask", str(path), SQL.format(35), "--analyst", "research"])
    assert (shown.exit_code, "ε = 0.25" in shown.output) == (0, True), shown.output


def test_the_budget_says_what_a_question_costs_that_names_no_price(server: Running) -> None:
    assert server.get("/budget").json["price"] == "1%"
    assert "price" not in server.get("/budget", "press").json


@pytest.mark.parametrize("price", ['"0%"', '"101%"', "0", "-1", "11", '"much"', '"%"', "true", '"1 % %"'])
def test_a_price_that_no_question_could_have_is_refused_to_the_owner(tmp_path: Path, price: str) -> None:
    with pytest.raises(BadPolicy, match=r"analysts\.research\.price"):
        read_policy(_clinic(tmp_path, price))


def test_the_default_price_is_no_part_of_the_promise(tmp_path: Path) -> None:
    hashes = {policy_hash(read_policy(_clinic(tmp_path / str(at), one))) for at, one in enumerate(('"1%"', "0.5"))}
    assert hashes == {policy_hash(read_policy(make_clinic(tmp_path / "none", epsilon="10")))}
