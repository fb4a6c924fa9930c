"""Requests through the whole path: from a refusal to an answer that the owner paid for, in Python and on a terminal."""

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.server.clinic import BY_DEPT, COUNT, make_clinic

import sfumato
from sfumato.cli import main
from sfumato.database import GRANT_NOTE, Database
from sfumato.errors import BadParameter, BudgetExhausted, RequestClosed, UnknownName, UnreachableMargin
from sfumato.ledger.approvals import RequestState


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Database]:
    with sfumato.open(make_clinic(tmp_path, epsilon="3", analyst="0.1")) as database:
        yield database


PRICES: list[dict[str, Any]] = [{"epsilon": "0.5"}, {"within": {"n": 30}}, {"epsilon": "1/3"}]


@pytest.mark.parametrize("price", PRICES, ids=str)
def test_from_a_refusal_to_an_answer(owner: Database, price: dict[str, Any]) -> None:
    with owner.as_analyst("research") as analyst:
        with pytest.raises((BudgetExhausted, UnreachableMargin)):
            analyst.ask(BY_DEPT, **price)
        filed = analyst.requests.file(BY_DEPT, reason="for the annual report", **price)
        assert (filed.state, filed.account, filed.sql) == (RequestState.WAITING, "research", BY_DEPT)
        assert filed.loss == owner.explain(BY_DEPT, **price).loss
        assert [request.id for request in owner.requests] == [filed.id]
        owner.requests.reply(filed.id, "which year?")
        analyst.requests.reply(filed.id, "2025")
        owner.requests.approve(filed.id, "go ahead")
        quote = analyst.explain(BY_DEPT, **price)
        assert GRANT_NOTE in quote.notes
        assert (quote.share, quote.used_after, quote.spent_after) == (Fraction(0), Fraction(0), filed.loss)
        release = analyst.ask(BY_DEPT, **price)
        assert release.loss == filed.loss
        done = analyst.requests.get(filed.id)
        assert (done.state, done.receipt) == (RequestState.USED, release.receipt.id)
        assert [note.text for note in done.notes] == ["which year?", "2025", "go ahead"]
        assert analyst.requests.ask(filed.id).rows() == release.rows()  # a repeat is free
        assert analyst.budget().used == 0
        assert analyst.budget().spent == owner.budget().spent == filed.loss
        with pytest.raises(BudgetExhausted):
            analyst.ask("SELECT COUNT(*) AS n, SUM(cost) AS c FROM visits", epsilon="0.5")
    owner.verify()


def test_a_grant_survives_a_refresh_and_pays_once(owner: Database) -> None:
    with owner.as_analyst("research") as analyst:
        filed = analyst.requests.file(COUNT, reason="r", epsilon="0.5")
        owner.requests.approve(filed.id)
        owner.refresh()
        analyst.ask(COUNT, epsilon="0.5")
        owner.refresh()
        with pytest.raises(BudgetExhausted):
            analyst.ask(COUNT, epsilon="0.5")


def test_the_plan_that_was_approved_is_the_one_that_is_asked(owner: Database) -> None:
    """Which of several plans suits an account depends on what it has left, and the grant names one of them."""
    question = "SELECT dept, MEDIAN(cost) AS m, COUNT(*) AS n FROM visits GROUP BY dept"
    with owner.as_analyst("research") as analyst:
        filed = analyst.requests.file(question, reason="r", epsilon="0.5")
        owner.requests.approve(filed.id)
        analyst.ask(COUNT, epsilon="0.1")  # the account is exhausted now
        assert analyst.ask(question, epsilon="0.5").loss == filed.loss
        assert owner.budget().spent.epsilon == filed.loss.epsilon + Fraction("0.1")


def test_what_needs_no_grant_is_not_filed(owner: Database) -> None:
    with owner.as_analyst("research") as analyst:
        for question, price, why in (
            (COUNT, {"epsilon": "0.1"}, "own budget"),
            ("SELECT floor FROM wards", {}, "free"),
        ):
            with pytest.raises(BadParameter, match=why):
                analyst.requests.file(question, reason="r", **price)
        analyst.ask(COUNT, epsilon="0.1")
        with pytest.raises(BadParameter, match="free"):
            analyst.requests.file(COUNT, reason="r", epsilon="0.1")
    with pytest.raises(BadParameter, match="owner files no"):
        owner.requests.file(COUNT, reason="r", epsilon="0.5")
    assert owner.requests.list() == []


def test_only_the_owner_decides_and_analysts_see_their_own(owner: Database) -> None:
    with owner.as_analyst("research") as analyst, owner.as_analyst("press") as other:
        filed = analyst.requests.file(COUNT, reason="r", epsilon="0.5")
        for handle in (analyst, other):
            for decide in (handle.requests.approve, handle.requests.decline):
                with pytest.raises(BadParameter, match="An analyst cannot"):
                    decide(filed.id)
        for attempt in (other.requests.get, other.requests.withdraw, other.requests.ask):
            with pytest.raises(UnknownName):
                attempt(filed.id)
        assert other.requests.list() == []
        owner.requests.approve(filed.id)
        with pytest.raises(BudgetExhausted):  # it is for research alone
            other.ask(COUNT, epsilon="0.5")
        owner.requests.decline(filed.id)
        with pytest.raises(RequestClosed):
            owner.requests.approve(filed.id)
        with pytest.raises(BudgetExhausted):
            analyst.ask(COUNT, epsilon="0.5")


def test_filing_reads_no_private_row_and_charges_nothing(owner: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("private rows were read")

    monkeypatch.setattr(type(owner.engine), "run", refuse)
    with owner.as_analyst("research") as analyst:
        filed = analyst.requests.file(BY_DEPT, reason="r", epsilon="0.5")
        owner.requests.approve(filed.id)
        analyst.requests.list()
    assert owner.budget().used == 0


def test_the_command_line_files_and_decides(tmp_path: Path) -> None:
    policy = str(make_clinic(tmp_path, epsilon="3", analyst="0.1"))

    def run(*words: str) -> str:
        return CliRunner().invoke(main, ["requests", policy, *words]).output

    filed = run("file", COUNT, "--epsilon", "0.5", "--reason", "the board asks", "--analyst", "research")
    assert "waiting" in filed
    assert "the board asks" in filed
    (document,) = json.loads(run("--format", "json"))
    place = str(document["id"])
    assert "which year" in run("reply", place, "--note", "which year?")
    assert "approved" in run("approve", place)
    assert "request_closed" in run("approve", place)
    assert "±" in run("ask", place, "--analyst", "research")
    assert "used" in run("--analyst", "research")
    assert "bad_parameter" in run("approve", "x")
    assert "bad_parameter" in run("approve")
    assert "There are no requests." in run("--analyst", "press")
