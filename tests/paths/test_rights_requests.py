"""Requests for what a role lacks: filing tells nothing about what exists, and a grant is for one measurement.

Hidden names hold the letters `zzq`, as in `test_rights.py`. Names with `zzx` exist nowhere.
"""

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from tests.paths.test_rights import HIDDEN, POLICY, _write
from tests.server.running import WIRE, Running
from tests.server.test_console import send

import sfumato
from sfumato.cli import main
from sfumato.database import GRANT_NOTE, PAID_NOTE, Database
from sfumato.errors import BadParameter, EngineFailed, NotGranted, PolicyChanged, Refusal, RequestClosed, UnknownName
from sfumato.ledger.approvals import RequestState
from sfumato.measure import prepare_measurement
from sfumato.server.remote_requests import request_document

UNKNOWN = "zzx"
QUESTION = "SELECT zzq_diagnosis, COUNT(*) AS n FROM visits GROUP BY zzq_diagnosis"
TEXTS = [
    QUESTION,
    "SELECT SUM(sum) AS s FROM zzq_bills",
    "SELECT COUNT(*) FROM zzq_bills",
    "SELECT AVG(v.zzq_weight) AS w, SUM(cost) AS c FROM visits v WHERE v.dept = 'er'",
    "SELECT COUNT(DISTINCT zzq_person) AS people FROM visits",
    "SELECT COUNT(*) FROM items JOIN visits ON visit = zzq_visit",
    "SELECT COUNT(*) FROM visits JOIN zzq_wards ON ward = zzq_name",
    "SELECT zzq_weight, COUNT(*) FROM visits WHERE zzq_diagnosis = 'a' GROUP BY 1",
]
Price = dict[str, Any]


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Database]:
    with sfumato.open(_write(tmp_path, POLICY)) as database:
        yield database


@pytest.fixture
def anna(owner: Database) -> Iterator[Database]:
    with owner.as_analyst("anna") as database:
        yield database


def _seen(action: Callable[[], Any]) -> str:
    """Return all that an analyst sees of an action, without the time."""
    try:
        document = dict(request_document(action()))
    except EngineFailed:
        raise
    except Refusal as refusal:
        return f"{refusal.code}: {refusal}"
    shown = str({key: value for key, value in document.items() if key != "id"})
    return re.sub(r"'time': '[^']*'", "", shown)


def _same(here: str, there: str) -> None:
    assert here.replace(HIDDEN, UNKNOWN) == there


@pytest.mark.parametrize(
    "price", [{"epsilon": "1/2"}, {"within": {"n": 30}}, {"epsilon": 1, "delta": "1e-9"}, {}], ids=str
)
def test_what_is_filed_and_declined_tells_nothing_about_what_exists(
    anna: Database, owner: Database, price: Price
) -> None:
    """Each text, and the same text with names that nobody declared: refusals, requests, notes and states are alike."""
    for sql in TEXTS:
        other = sql.replace(HIDDEN, UNKNOWN)
        for look in (anna.ask, anna.explain):
            _same(_seen(partial(look, sql, **price)), _seen(partial(look, other, **price)))
        filing = [partial(anna.requests.file, text, reason="r", **price) for text in (sql, other)]
        here, there = map(_seen, filing)
        _same(here, there)
        if not price:
            assert "bad_parameter" in here
            continue
        assert ("'loss': None" in here, "waiting" in here, "'names': []" in here) == (True, True, True), here
        first, second = (action().id for action in filing)  # filing again returns the open request
        for place in (first, second):
            owner.requests.reply(place, "what for?")
            with pytest.raises(UnknownName):  # a request that waits grants nothing
                anna.ask(anna.requests.get(place).sql, **price)
            owner.requests.decline(place, "no")
        _same(_seen(partial(anna.requests.get, first)), _seen(partial(anna.requests.get, second)))
    assert owner.budget().used == 0


def test_a_grant_is_for_this_text_once_and_for_typed_names_alone(anna: Database, owner: Database) -> None:
    for sql in TEXTS:
        before = owner.budget().used
        _ask_once(anna, owner, sql)
        assert owner.budget().used > before
    assert anna.budget().used == 0
    owner.verify()


def _ask_once(anna: Database, owner: Database, sql: str) -> None:
    price: Price = {"epsilon": "1/2"}
    filed = anna.requests.file(sql, reason="for the report", **price)
    review = owner.requests.review(filed.id)
    done = owner.requests.approve(filed.id, "go ahead")
    assert done.names
    assert all(part in sql for name in done.names for part in name.split("."))
    assert f"anna may not use {', '.join(done.names)}." == review.notes[0]
    assert done.loss == review.loss
    quote = anna.explain(sql, **price)
    assert (GRANT_NOTE in quote.notes, quote.share) == (True, Fraction(0))
    shown = str([quote, *quote.notes, *anna.columns().items()])
    assert set(re.findall(r"zzq_\w+", shown)) <= set(re.findall(r"zzq_\w+", sql))
    release = anna.requests.ask(filed.id)
    used = anna.requests.get(filed.id)
    assert (used.state, used.receipt) == (RequestState.USED, release.receipt.id)
    assert anna.ask(sql, **price).rows() == anna.reopen(release.receipt.id).rows() == release.rows()
    assert PAID_NOTE in anna.explain(sql, **price).notes
    for asked in ({"epsilon": "1/4"}, {"epsilon": 1}, {"epsilon": 0}, {"share": "1%"}):
        for look in (anna.ask, anna.explain):
            with pytest.raises(RequestClosed):
                look(sql, **asked)
    for other in (f"{sql} ", sql.replace(HIDDEN, "ZZQ"), f"{sql} LIMIT 3"):
        with pytest.raises(UnknownName):
            anna.ask(other, **price)
    with pytest.raises(UnknownName):
        anna.ask_all([sql], **price)
    with pytest.raises(UnknownName):
        prepare_measurement(anna, sql)
    owner.refresh()
    with pytest.raises(RequestClosed):  # another snapshot is another charge
        anna.ask(sql, **price)
    assert anna.reopen(release.receipt.id).rows() == release.rows()


def test_a_grant_of_rights_survives_a_refresh_and_pays_for_its_measurement_alone(
    anna: Database, owner: Database
) -> None:
    filed = anna.requests.file(QUESTION, reason="r", epsilon="1/2")
    owner.requests.approve(filed.id)
    owner.refresh()
    with pytest.raises(RequestClosed):
        anna.ask(QUESTION, epsilon="1/4")
    assert anna.requests.file(QUESTION, reason="again", epsilon="1/2").id == filed.id
    release = anna.ask(QUESTION, epsilon="1/2")
    assert {row["zzq_diagnosis"] for row in release.rows()} == {"a", "b"}
    again = anna.requests.file(QUESTION, reason="r", epsilon="1/2")
    assert again.id > filed.id


def test_what_was_declined_withdrawn_or_revoked_grants_nothing(anna: Database, owner: Database) -> None:
    closings: tuple[tuple[str, Callable[[int], object]], ...] = (
        (QUESTION, anna.requests.withdraw),
        (TEXTS[1], owner.requests.decline),
    )
    for text, close in closings:
        filed = anna.requests.file(text, reason="r", epsilon="1/2")
        owner.requests.approve(filed.id)
        assert anna.explain(text, epsilon="1/2").loss
        close(filed.id)
        with pytest.raises(UnknownName):
            anna.ask(text, epsilon="1/2")
        with pytest.raises(RequestClosed):
            owner.requests.approve(filed.id)
    assert owner.budget().used == 0


def test_a_grant_that_ends_while_it_is_asked_charges_nothing(
    anna: Database, owner: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction decides: without a grant the question is not charged to the analyst's own budget."""
    filed = anna.requests.file(QUESTION, reason="r", epsilon="1/2")
    owner.requests.approve(filed.id)
    charge = type(anna.payer).charge_and_publish

    def declined_first(*arguments: Any) -> str:
        owner.requests.decline(filed.id)
        return charge(*arguments)

    monkeypatch.setattr(type(anna.payer), "charge_and_publish", declined_first)
    with pytest.raises(RequestClosed):
        anna.ask(QUESTION, epsilon="1/2")
    assert owner.budget().used == anna.budget().used == 0


def test_the_owner_is_told_what_cannot_be_granted_and_the_analyst_sees_nothing_of_it(
    anna: Database, owner: Database
) -> None:
    for text, refused in (
        (QUESTION.replace(HIDDEN, UNKNOWN), UnknownName),
        ("SELECT COUNT(zzq_diagnosis), zzx_more FROM visits", UnknownName),
        ("SELECT zzq_diagnosis FROM visits", Refusal),
        ("SELECT zzq_salary FROM staff", BadParameter),
    ):
        filed = anna.requests.file(text, reason="r", epsilon="1/2")
        before = anna.requests.get(filed.id)
        with pytest.raises(refused):
            owner.requests.approve(filed.id)
        assert anna.requests.get(filed.id) == before
    with pytest.raises(BadParameter, match="An analyst cannot"):
        anna.requests.review(filed.id)


def test_an_account_that_may_use_everything_files_no_request_for_a_name(owner: Database) -> None:
    with owner.as_analyst("zzq_otto") as otto, pytest.raises(UnknownName, match="there is no column") as refused:
        otto.requests.file("SELECT COUNT(zzx) FROM visits", reason="r", epsilon="1/2")
    assert "request" not in str(refused.value)


def test_rights_are_granted_under_the_policy_that_the_ledger_has(tmp_path: Path) -> None:
    policy = _write(tmp_path, POLICY)
    with sfumato.open(policy) as before, before.as_analyst("anna") as analyst:
        filed = analyst.requests.file(QUESTION, reason="r", epsilon="1/2")
        wider = deepcopy(policy)
        wider["budget"]["epsilon"] = 2000
        with sfumato.open(wider) as now:
            with pytest.raises(PolicyChanged):
                before.requests.approve(filed.id)
            assert now.requests.approve(filed.id).state is RequestState.APPROVED


@pytest.mark.parametrize("listed", [True, False], ids=["the policy lists their roles", "the claims alone say them"])
def test_rights_by_claims_are_granted_for_one_text_and_still_limit_its_use(tmp_path: Path, listed: bool) -> None:
    policy = deepcopy(POLICY)
    policy["roles"]["counts"] = {"tables": ["visits"], "columns": ["visits.dept"]}
    policy["analysts"]["anna"] = {"epsilon": 400} | ({"roles": ["statistician", "counts"]} if listed else {})
    sql, price = "SELECT zzq_diagnosis, SUM(cost) AS c FROM visits GROUP BY zzq_diagnosis", Price(epsilon="1/2")
    with (
        sfumato.open(_write(tmp_path, policy)) as owner,
        owner.as_analyst("anna", ("statistician",)) as anna,
        owner.as_analyst("anna", ("counts",)) as narrow,
        owner.as_analyst("anna", ()) as nothing,
    ):
        filed = anna.requests.file(sql, reason="r", **price)
        assert "statistician" not in str(request_document(filed))  # which roles the policy has is the owner's to see
        with pytest.raises(UnknownName):
            anna.describe(sql, {})
        assert (
            owner.requests.review(filed.id).notes[0] == "anna (roles: statistician) may not use visits.zzq_diagnosis."
        )
        assert owner.requests.approve(filed.id).names == ("visits.zzq_diagnosis",)
        columns = anna.describe(sql, {}).columns
        assert [(name, type.value) for name, type in columns] == [("zzq_diagnosis", "text"), ("c", "integer")]
        for others, text in ((anna, f"{sql} ORDER BY c"), (narrow, sql), (nothing, sql)):
            for look in (others.ask, others.explain):
                with pytest.raises(UnknownName):
                    look(text, **price)
            with pytest.raises(UnknownName):
                others.describe(text, {})
        assert owner.budget().used == 0
        answer = anna.ask(sql, **price)
        assert owner.budget().used > 0 == anna.budget().used
        assert anna.reopen(answer.receipt.id).rows() == anna.ask(sql, **price).rows() == answer.rows()
        for others in (narrow, nothing):
            for again in (partial(others.ask, sql, **price), partial(others.reopen, answer.receipt.id)):
                with pytest.raises(UnknownName):
                    again()
        owner.verify()


CLINIC = """name = "clinic"
source = "csv:data"
budget = { epsilon = 30, delta = 0 }
roles.counts.columns = ["visits.dept"]
analysts.anna = { epsilon = 1, roles = ["counts"] }
[tables.visits]
unit = "id"
rows_per_unit = 1
columns.id = { type = "integer" }
columns.dept = { type = "text", values = ["er"] }
columns.zzq_diagnosis = { type = "text", values = ["a", "b"] }
[tables.zzq_bills]
unit = "rows"
columns.sum = { type = "integer", bounds = [0, 9] }
"""


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    data.mkdir()
    (data / "visits.csv").write_text("id,dept,zzq_diagnosis\n1,er,a\n2,er,b\n")
    (data / "zzq_bills.csv").write_text("sum\n1\n")
    policy = tmp_path / "clinic.toml"
    policy.write_text(CLINIC)
    sfumato.open(policy).close()
    return policy


def test_requests_for_rights_over_http_and_in_the_console(clinic: Path) -> None:
    with Running(clinic, names=("anna", "")) as running:
        with (
            sfumato.connect(running.url, token=running.token("anna")) as analyst,
            sfumato.connect(running.url, token=running.token("")) as owner,
        ):
            with pytest.raises(UnknownName, match="file a request"):
                analyst.ask(QUESTION, epsilon="1/2")
            filed = analyst.requests.file(QUESTION, reason="report", epsilon="1/2")
            assert (filed.loss, filed.for_rights) == (None, True)
            with pytest.raises(NotGranted):
                analyst.requests.review(filed.id)
            assert "zzq_diagnosis" in owner.requests.review(filed.id).notes[0]
            assert owner.requests.approve(filed.id).names == ("visits.zzq_diagnosis",)
            release = analyst.requests.ask(filed.id)
            assert analyst.requests.get(filed.id).receipt == release.receipt.id
            counted = "SELECT COUNT(zzq_diagnosis) AS n FROM visits"
            assert owner.requests.approve(analyst.requests.file(counted, reason="psql", epsilon="1/2").id).names
        _ask_by_psycopg(running, counted)
        form = {"sql": TEXTS[1], "epsilon": "0.5", "by": "epsilon"}
        refused = send(running, "POST", "/ask-here", form, "anna")
        assert b"your role lacks" in refused.body
        assert b"your role lacks" not in send(running, "POST", "/ask-here", {**form, "sql": "SELECT 1 + "}, "anna").body
        assert send(running, "POST", "/approvals/file", {**form, "reason": "board"}, "anna").status == 303
        nowhere = {**form, "sql": TEXTS[1].replace(HIDDEN, UNKNOWN), "reason": "board"}
        assert send(running, "POST", "/approvals/file", nowhere, "anna").status == 303
        page = send(running, "GET", "/approvals", None, "anna").body.decode()
        assert "The answer costs" not in page
        page = send(running, "GET", "/approvals", None, "").body.decode()
        assert "anna may not use zzq_bills, zzq_bills.sum. The answer costs" in page
        assert "This question cannot be answered." in page
        place = next(one["id"] for one in running.get("/requests", "anna").json if one["sql"] == TEXTS[1])
        assert send(running, "POST", f"/approvals/{place}/approve", {}, "").status == 303
        assert send(running, "POST", "/ask-here", form, "anna").status == 303
        assert "The answer" in send(running, "GET", "/approvals", None, "anna").body.decode()
    assert "Traceback" not in running.out


def _ask_by_psycopg(running: Running, sql: str) -> None:
    """The text is described before it is asked; another text of the same names is not."""
    port = WIRE.search(running.out)
    assert port is not None
    place = f"host=127.0.0.1 port={port[3]} user=anna dbname=clinic sslmode=disable"
    with psycopg.connect(place, password=running.secrets["anna"].password, autocommit=True) as session:
        session.execute("SET sfumato.epsilon = '0.5'")
        with pytest.raises(psycopg.errors.UndefinedColumn):
            session.execute(sql.replace("COUNT", "count").encode(), prepare=True)
        answer = session.execute(sql.encode(), prepare=True).fetchall()
        assert session.execute(sql.encode(), prepare=False).fetchall() == answer


def test_requests_for_rights_on_the_command_line(clinic: Path) -> None:
    def run(*words: str) -> str:
        return CliRunner().invoke(main, ["requests", str(clinic), *words]).output

    filed = run("file", QUESTION, "--epsilon", "0.5", "--reason", "the board asks", "--analyst", "anna")
    place = filed.split()[1]
    assert "waiting  rights" in filed
    assert "anna may not use visits.zzq_diagnosis." in run("review", place)
    assert "An analyst cannot review" in run("review", place, "--analyst", "anna")
    assert "granted: visits.zzq_diagnosis" in run("approve", place)
    assert "±" in run("ask", place, "--analyst", "anna")
    assert "used" in run("--analyst", "anna")
