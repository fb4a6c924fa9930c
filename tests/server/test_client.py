"""The client: the same answers, prices and refusals as a database that is opened here."""

import pickle
import subprocess
import sys
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refusing
from tests.server.clinic import BY_DEPT, COUNT
from tests.server.running import Running

import sfumato
from sfumato.errors import (
    BadParameter,
    BadSql,
    BudgetExhausted,
    EngineFailed,
    LedgerUnavailable,
    NotFound,
    NotGranted,
    UnknownName,
)
from sfumato.server.client import RemoteDatabase
from sfumato.server.reading import read_question


@pytest.fixture(scope="module")
def local(server: Running) -> Iterator[sfumato.Database]:
    with sfumato.open(server.policy, analyst="research") as database:
        yield database


@pytest.fixture
def remote(server: Running) -> Iterator[RemoteDatabase]:
    with sfumato.connect(server.url, token=server.token()) as database:
        yield database


def test_an_answer_is_the_one_that_a_local_database_has(remote: RemoteDatabase, local: sfumato.Database) -> None:
    far, near = remote.ask(BY_DEPT, epsilon="0.5"), local.ask(BY_DEPT, epsilon="0.5")
    assert far.rows() == near.rows()
    assert far.columns == near.columns
    for level in ("0.95", "0.5", "0.99"):
        assert far.intervals(level) == near.intervals(level)
    assert (far.loss, far.event, far.receipt, far.notes) == (near.loss, near.event, near.receipt, near.notes)
    assert far.to_arrow(with_intervals=True).equals(near.to_arrow(with_intervals=True))
    assert far.to_arrow().schema.metadata == near.to_arrow().schema.metadata
    assert far.clamped().rows() == near.clamped().rows()
    assert far.plot().to_dict() == near.plot().to_dict()
    assert repr(far) == repr(near)
    assert len(far.to_pandas()) == len(far.to_polars()) == 3


def test_questions_asked_together_travel_too(remote: RemoteDatabase, local: sfumato.Database) -> None:
    far, near = (one.ask_all([COUNT, BY_DEPT], epsilon="0.3") for one in (remote, local))
    assert [one.rows() for one in far] == [one.rows() for one in near]
    assert [one.intervals("0.9") for one in far] == [one.intervals("0.9") for one in near]
    assert {one.receipt.id for one in (*far, *near)} == {remote.history()[0].receipt}
    margins = [{"n": 500}, None]
    far, near = (one.ask_all([COUNT, BY_DEPT], within=margins) for one in (remote, local))
    assert [one.rows() for one in far] == [one.rows() for one in near]
    far, near = (one.ask_all([COUNT, BY_DEPT], epsilon="0.3", weights=[9, 1]) for one in (remote, local))
    assert [one.rows() for one in far] == [one.rows() for one in near]
    assert {one.receipt.id for one in (*far, *near)} == {remote.history()[0].receipt}
    with pytest.raises(BadParameter):
        remote.ask_all([], epsilon=1)
    with pytest.raises(BadParameter):
        remote.ask_all([COUNT, BY_DEPT], epsilon=1, weights=[1])


def test_margins_averages_and_public_rows_travel_too(remote: RemoteDatabase, local: sfumato.Database) -> None:
    averages = "SELECT dept, AVG(cost) AS mean, COUNT(*) > 100 AS many FROM visits GROUP BY dept"
    far, near = remote.ask(averages, epsilon=1), local.ask(averages, epsilon=1)
    assert (far.rows(), far.intervals()) == (near.rows(), near.intervals())
    far, near = remote.ask(COUNT, within={"n": 40}), local.ask(COUNT, within={"n": 40})
    assert (far.rows(), far.intervals()) == (near.rows(), near.intervals())
    public = "SELECT dept, floor, DATE '2020-02-03' AS day, floor / 2.0 AS half FROM wards ORDER BY floor"
    far, near = remote.ask(public), local.ask(public)
    assert far.rows() == near.rows()
    assert far.intervals() == near.intervals()
    assert far.event is near.event is None


def test_prices_budgets_and_history_are_the_same(remote: RemoteDatabase, local: sfumato.Database) -> None:
    assert str(remote.explain(BY_DEPT, epsilon="0.1")) == str(local.explain(BY_DEPT, epsilon="0.1"))
    four = remote.explain(BY_DEPT, epsilon="0.1", household=4)
    assert str(four) == str(local.explain(BY_DEPT, epsilon="0.1", household=4))
    unasked = f"{COUNT} WHERE cost + 7 > 9"
    release = remote.ask(unasked, epsilon="0.2")
    assert remote.budget() == local.budget()
    charged = remote.history()[0]
    assert (charged.sql, charged.event, charged.loss, charged.receipt) == (
        unasked,
        release.event,
        release.loss,
        release.receipt.id,
    )
    assert [one.time for one in remote.history()] == [one.time for one in local.history()]
    assert remote.reopen(release.receipt.id).rows() == release.rows()
    assert [table["name"] for table in remote.tables()["tables"]] == ["visits", "wards"]


def test_a_relative_margin_is_the_same_over_http(remote: RemoteDatabase, local: sfumato.Database) -> None:
    sql = "SELECT AVG(cost) AS c FROM visits"
    quote = remote.explain(sql, within={"c": "40%"}, epsilon="0.4")
    assert quote == local.explain(sql, within={"c": "40%"}, epsilon="0.4")
    assert quote.most is not None
    release = remote.ask(sql, within={"c": "40%"}, epsilon="0.4")
    assert release.rows() == local.ask(sql, within={"c": "40%"}, epsilon="0.4").rows()


def test_refusals_are_the_same_classes_with_the_same_words(remote: RemoteDatabase, local: sfumato.Database) -> None:
    for sql, price, kind in (
        ("SELECT", {"epsilon": 1}, BadSql),
        ("SELECT COUNT(*) FROM nowhere", {"epsilon": 1}, UnknownName),
        (COUNT, {"epsilon": 1000}, BudgetExhausted),
        (COUNT, {}, BadParameter),
        (COUNT, {"epsilon": -1}, BadParameter),
        (COUNT, {"epsilon": float("nan")}, BadParameter),
        (COUNT, {"within": 3}, BadParameter),
    ):
        with pytest.raises(kind) as far:
            remote.ask(sql, **price)
        with pytest.raises(kind) as near:
            local.ask(sql, **price)
        assert str(far.value) == str(near.value)
    for several in ("SELECT 1", 5, None, [5]):
        for far_or_near in (remote, local):
            with pytest.raises(BadParameter, match="not a list of questions"):
                far_or_near.ask_all(several, epsilon=1)  # type: ignore[arg-type]
    for key in (5, "€", "a\nb", ["a"], " a"):
        with pytest.raises(BadParameter, match="key"):
            remote.ask(COUNT, epsilon=1, key=key)  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        remote.reopen("0" * 32)
    for receipt in (None, 5, "", "../budget"):
        with pytest.raises(BadParameter):
            remote.reopen(receipt)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value", [3, 1.5, object(), {"n": 25}, "n", b"n", iter(()), True], ids=lambda value: type(value).__name__
)
def test_values_of_another_kind_are_refused_before_they_are_sent(remote: RemoteDatabase, value: Any) -> None:
    listed: Any = [value]
    for given in ({"weights": value, "epsilon": "1"}, {"within": value}):
        with refusing() as refused:
            remote.ask_all([COUNT, BY_DEPT], **given)
        assert refused.value.code == "bad_parameter", given
    with refusing():
        remote.requests.file(COUNT, reason=listed, epsilon="1")
    with refusing():
        remote.requests.reply(1, listed)
    with refusing():
        remote.budget(cohort=listed)


@pytest.mark.parametrize("method", ["refresh", "verify", "statements"])
def test_what_needs_the_policy_is_refused_with_the_command_that_does_it(remote: RemoteDatabase, method: str) -> None:
    arguments = (COUNT,) if method == "statements" else ()
    with pytest.raises(BadParameter, match=rf"not offered by a server.*sfumato {method}|--statements"):
        getattr(remote, method)(*arguments)


def test_a_wrong_token_a_foreign_address_and_a_closed_connection_are_refused(server: Running) -> None:
    with sfumato.connect(server.url, token="wrong" * 4) as database, pytest.raises(NotGranted):
        database.budget()
    for url in (
        "ftp://127.0.0.1/",
        "http://127.0.0.1/ask",
        "http://example.org/",
        "127.0.0.1",
        "http://",
        "http://[::1/",
        None,
        5,
    ):
        with pytest.raises(BadParameter):
            sfumato.connect(url, token="t" * 20)  # type: ignore[arg-type]
    for token in ("", "two words", "line\nbreak", "é", None, 5):
        with pytest.raises(BadParameter):
            sfumato.connect(server.url, token=token)  # type: ignore[arg-type]
    with pytest.raises(LedgerUnavailable, match="cannot be reached"):
        sfumato.connect("http://127.0.0.1:1/", token="t" * 20).budget()
    database.close()
    with pytest.raises(BadParameter, match="closed"):
        database.budget()
    assert server.token() not in repr(database)


def test_a_connection_that_the_server_closed_is_opened_again(remote: RemoteDatabase) -> None:
    remote.budget()
    remote._connections.one.sock.close()
    assert remote.budget().total.epsilon == 50


def test_it_works_without_a_policy_at_hand(server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with sfumato.connect(server.url.rstrip("/"), token=server.token()) as database:
        assert database.ask(COUNT, epsilon="0.2").columns == ("n",)
    assert list(tmp_path.iterdir()) == []


def test_parameters_travel_exactly(remote: RemoteDatabase, local: sfumato.Database) -> None:
    public = "SELECT dept FROM wards WHERE floor > $1 AND dept <> $2 ORDER BY floor"
    assert remote.ask(public, parameters=[1, "icu"]).rows() == local.ask(public, parameters=[1, "icu"]).rows()
    values = {
        "day": date(2024, 2, 29),
        "moment": datetime(2024, 2, 29, 12, 30, 0, 5),
        "third": Decimal("0.1"),
        "half": 0.5,
        "flag": True,
        "words": "it's",
        "none": None,
    }
    for name, value in values.items():
        sql = f"SELECT floor FROM wards WHERE (:{name}) IS NOT NULL AND floor = 1"  # noqa: S608 - the name of a parameter
        far, near = (_outcome(one, sql, {name: value}) for one in (remote, local))
        assert far == near, name
    sql = "SELECT COUNT(*) AS n FROM visits WHERE cost > $1"
    assert remote.explain(sql, epsilon=1, parameters=[0.5]) == local.explain(sql, epsilon=1, parameters=[0.5])
    far, near = (one.ask(sql, epsilon=1, parameters=[0.5]) for one in (remote, local))
    assert (far.rows(), far.receipt.id) == (near.rows(), near.receipt.id)
    with pytest.raises(BadParameter):
        remote.ask(sql, epsilon=1, parameters="1")
    with pytest.raises(BadParameter):
        remote.ask(sql, epsilon=1, parameters=[[[1]]])
    listed = "SELECT dept FROM wards WHERE floor = ANY($1) AND dept <> ALL($2) ORDER BY floor"
    given: list[object] = [[1, 2, None], ("icu", "it's")]
    assert remote.ask(listed, parameters=given).rows() == local.ask(listed, parameters=given).rows() != []


def _outcome(database: RemoteDatabase | sfumato.Database, sql: str, parameters: object) -> object:
    try:
        return database.ask(sql, parameters=parameters).rows()
    except EngineFailed:
        raise
    except sfumato.Refusal as refusal:
        return refusal.code


@pytest.mark.parametrize(
    "sent",
    ["{}", "[[[1]]]", '[[{"date": "soon"}]]', '{"a": {"b": 1}}', '[{"date": "soon"}]', "1e999999999", "[1e999999999]"],
)
def test_a_parameter_that_cannot_be_read_is_refused(sent: str) -> None:
    body = f'{{"sql": "SELECT 1", "parameters": {sent}}}'.encode()
    if sent == "{}":
        assert read_question(body).price == {"parameters": {}}
        return
    with refusing():
        read_question(body)


def test_an_answer_can_be_pickled(remote: RemoteDatabase, local: sfumato.Database) -> None:
    for database in (remote, local):
        release = database.ask(BY_DEPT, epsilon="0.5")
        release.intervals("0.9")
        copy = pickle.loads(pickle.dumps(release))
        assert (copy.rows(), copy.receipt, copy.event) == (release.rows(), release.receipt, release.event)
        for level in ("0.95", "0.9"):
            assert copy.intervals(level) == release.intervals(level)
        assert repr(copy) == repr(release)
    copy = pickle.loads(pickle.dumps(remote.ask(BY_DEPT, epsilon="0.5")))
    with pytest.raises(BadParameter, match=r"reopen"):
        copy.intervals("0.42")
    assert remote.reopen(copy.receipt.id).intervals("0.42")


def test_the_client_needs_no_engine_scipy_or_arrow(server: Running) -> None:
    program = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("duckdb", "scipy", "pyarrow", "sqlglot", "click", "starlette"):
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
import sfumato
with sfumato.connect(sys.argv[1], token=sys.argv[2]) as database:
    release = database.ask(sys.argv[3], epsilon="0.5")
    print(len(release.rows()), len(release.intervals()), database.explain(sys.argv[3], epsilon="0.5").loss)
    print(database.budget().remaining, len(database.tables()))
    try:
        release.to_arrow()
    except sfumato.Refusal as refusal:
        print(refusal)
"""
    command = [sys.executable, "-c", program, server.url, server.token(), BY_DEPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3 3 ε = 0, ")
    assert "pyarrow is not installed." in done.stdout
