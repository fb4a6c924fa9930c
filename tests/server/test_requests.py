"""Requests through a server: over HTTP, through `sfumato.connect`, and in the console."""

from collections.abc import Iterator

import pytest
from tests.server.clinic import BY_DEPT, COUNT, make_clinic
from tests.server.running import Running
from tests.server.test_console import send

import sfumato
from sfumato.errors import BudgetExhausted, NotGranted, RequestClosed, UnknownName
from sfumato.ledger.approvals import RequestState


@pytest.fixture(scope="module")
def poor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server whose analysts have little."""
    policy = make_clinic(tmp_path_factory.mktemp("poor"), epsilon="30", analyst="0.1")
    with Running(policy, names=("research", "press", "")) as running:
        yield running
    assert "Traceback" not in running.out


def test_a_request_goes_from_refusal_to_answer_over_http(poor: Running) -> None:
    with (
        sfumato.connect(poor.url, token=poor.token()) as analyst,
        sfumato.connect(poor.url, token=poor.token("press")) as other,
        sfumato.connect(poor.url, token=poor.token("")) as owner,
    ):
        with pytest.raises(BudgetExhausted, match="file a request"):
            analyst.ask(BY_DEPT, epsilon="0.5")
        filed = analyst.requests.file(BY_DEPT, reason="for the <b>report</b>", epsilon="0.5")
        assert filed == owner.requests.get(filed.id)
        assert other.requests.list() == []
        for decide in (analyst.requests.approve, analyst.requests.decline, other.requests.approve):
            with pytest.raises(NotGranted):
                decide(filed.id)
        with pytest.raises(UnknownName):
            other.requests.reply(filed.id, "mine")
        owner.requests.reply(filed.id, "which year?")
        owner.requests.approve(filed.id, "fine")
        with pytest.raises(RequestClosed):
            owner.requests.approve(filed.id)
        release = analyst.requests.ask(filed.id)
        assert analyst.requests.get(filed.id).state is RequestState.USED
        assert analyst.requests.get(filed.id).receipt == release.receipt.id
        assert analyst.budget().used == 0


def test_bodies_of_requests_are_read_strictly(poor: Running) -> None:
    for body in ({"sql": COUNT, "epsilon": "0.5"}, {"sql": COUNT, "epsilon": "0.5", "reason": ""}, {"reason": "r"}):
        assert poor.post("/requests", body).status == 400
    assert poor.post("/requests", {"sql": COUNT, "share": "50%", "reason": "r"}).json["code"] == "bad_request"
    assert poor.post("/requests/1/explode", {}).status == 404
    assert poor.post("/requests/x/reply", {"text": "t"}).status == 400
    assert poor.post("/requests/99999/withdraw", {}).json["code"] == "unknown_name"
    assert poor.get("/requests", None).status == 401
    assert poor.post("/requests", {"sql": COUNT, "epsilon": "0.5", "reason": "r"}, None).status == 401


def test_the_console_files_shows_and_decides(poor: Running) -> None:
    question = "SELECT SUM(cost) AS total FROM visits"
    form = {"sql": question, "epsilon": "0.7", "by": "epsilon"}
    refused = send(poor, "POST", "/ask-here", form)
    assert refused.status == 402
    assert b"File a request" in refused.body
    filed = send(poor, "POST", "/approvals/file", {**form, "reason": "<script>alert(1)</script>"})
    assert (filed.status, filed.headers["location"]) == (303, "/approvals")
    page = send(poor, "GET", "/approvals").body.decode()
    assert question in page
    assert "<script>alert(1)" not in page
    assert "Approve" not in page
    place = next(one["id"] for one in poor.get("/requests").json if one["sql"] == question)
    assert send(poor, "POST", f"/approvals/{place}/approve", {}).status == 303  # to the log-in page: not theirs
    assert send(poor, "POST", f"/approvals/{place}/approve", {}, "", Origin="https://elsewhere").status == 403
    assert poor.get("/requests").json[0]["state"] == "waiting"
    assert "Approve" in send(poor, "GET", "/approvals", None, "").body.decode()
    assert send(poor, "POST", f"/approvals/{place}/reply", {"text": "why so much?"}, "").status == 303
    assert send(poor, "POST", f"/approvals/{place}/approve", {}, "").status == 303
    assert send(poor, "POST", f"/approvals/{place}/approve", {}, "").status == 409
    page = send(poor, "GET", "/approvals").body.decode()
    assert "why so much?" in page
    assert "Ask now" in page
    answered = send(poor, "POST", "/ask-here", {"sql": question, "by": "epsilon", "epsilon": "7/10"})
    assert answered.status == 303
    assert "The answer" in send(poor, "GET", "/approvals").body.decode()
    shared = send(poor, "POST", "/approvals/file", {"sql": COUNT, "by": "share", "share": "50%", "reason": "r"})
    assert shared.status == 400
