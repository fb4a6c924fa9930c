"""What an operator sees of a server: readiness, metrics, JSON logs and spans, and never a question."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.server.running import Running

from sfumato.ledger.opening import existing_ledger
from sfumato.ledger.state import restored_content
from sfumato.policy.reading import read_policy
from sfumato.server import tracing
from sfumato.server.metrics import TOKEN_VARIABLE

POLICY = """
name = "clinic"
source = "csv:visits.csv"
[budget]
epsilon = 2
delta = 0
[tables.visits]
unit = "patient_id"
rows_per_unit = 2
[tables.visits.columns]
patient_id = { type = "integer" }
age = { type = "integer", bounds = [0, 120] }
[analysts.research]
epsilon = 1
"""
ASKED = "SELECT COUNT(*) AS secretly_named FROM visits"
TOKEN = "for monitoring only"  # noqa: S105


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("monitored")
    (folder / "visits.csv").write_text("patient_id,age\n1,30\n2,40\n3,50\n")
    (folder / "clinic.toml").write_text(POLICY)
    os.environ[TOKEN_VARIABLE] = TOKEN
    try:
        options = ("--http-port", "0", "--pg-port", "0", "--log-json", "--audit-copy", "stdout")
        with Running(folder / "clinic.toml", options, ("research", "")) as running:
            yield running
    finally:
        del os.environ[TOKEN_VARIABLE]


def scraped(server: Running, token: str | None = None) -> dict[tuple[str, tuple[str, ...]], float]:
    reply = server.get("/metrics", None, Authorization=f"Bearer {token or server.token('')}")
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/plain; version=")
    families = text_string_to_metric_families(reply.body.decode())
    return {(one.name, tuple(one.labels.values())): one.value for family in families for one in family.samples}


def test_metrics_count_outcomes_and_budgets_and_hold_no_text(server: Running) -> None:
    before = scraped(server)
    assert server.ask(ASKED, epsilon="0.25").status == 200
    assert server.ask("SELECT nothing FROM nowhere", epsilon="0.25").status == 400
    server.get("/a-path-that-a-stranger-made-up", None)
    found = scraped(server)
    counted = {key: found[key] - before.get(key, 0) for key in found if key[0] == "sfumato_requests_total"}
    assert counted["sfumato_requests_total", ("http", "ok", "ask")] == 1
    assert counted["sfumato_requests_total", ("http", "unknown_name", "ask")] == 1
    assert counted["sfumato_requests_total", ("http", "not_found", "anonymous")] == 1
    assert found["sfumato_request_seconds_count", ("ask",)] == 2
    assert found["sfumato_budget_epsilon", ("research", "spent")] == 0.25
    assert found["sfumato_budget_epsilon", ("dataset", "remaining")] == 1.75
    assert found["sfumato_ready", ("ledger",)] == 1
    assert found["process_resident_memory_bytes", ()] > 0
    page = server.get("/metrics", None, Authorization=f"Bearer {TOKEN}").body
    assert all(word not in page for word in (b"secretly_named", b"stranger", b"nowhere"))


def test_metrics_are_for_the_owner_and_for_the_token_of_the_environment(server: Running) -> None:
    assert scraped(server, TOKEN)
    for name in ("research", None):
        assert server.get("/metrics", name).json["code"] == "not_granted"
    assert server.get("/metrics", None, Authorization=f"Bearer {TOKEN}x").status == 401
    assert server.get("/budget", None, Authorization=f"Bearer {TOKEN}").status == 401


def test_ready_says_which_checks_hold(server: Running) -> None:
    reply = server.get("/ready", None)
    assert (reply.status, reply.json["status"]) == (200, "ready")
    assert set(reply.json["checks"]) == {"ledger", "snapshot", "disk", "policy", "certificate"}


def test_a_ledger_that_waits_for_its_owner_is_not_ready(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("patient_id,age\n1,30\n")
    (tmp_path / "clinic.toml").write_text(POLICY)
    with Running(tmp_path / "clinic.toml", ("--http-port", "0", "--pg-port", "0")) as running:
        ledger = existing_ledger(read_policy(tmp_path / "clinic.toml"))
        assert ledger is not None
        ledger.record(lambda transaction: transaction.mark_restored(1, restored_content("b1", 0)))
        ledger.close()
        reply = running.get("/ready", None)
        assert (reply.status, reply.json["checks"]["ledger"], reply.json["checks"]["disk"]) == (503, False, True)
        assert running.ask(ASKED, epsilon="0.25").json["code"] == "ledger_restored"
        assert running.get("/health", None).status == 200


def test_the_logs_of_a_server_are_json_without_questions(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("patient_id,age\n1,30\n")
    (tmp_path / "clinic.toml").write_text(POLICY)
    options = ("--http-port", "0", "--pg-port", "0", "--log-json", "--audit-copy", "stdout")
    running = Running(tmp_path / "clinic.toml", options)
    with running:
        assert running.ask(ASKED, epsilon="0.25").status == 200
    lines = [json.loads(line) for line in running.out.splitlines() if line.startswith("{")]
    events = [line["event"] for line in lines if "event" in line]
    assert {"opened", "charged", "stored", "request"} <= set(events)
    assert [line["verb"] for line in lines if "previous" in line] == ["ask"]
    assert "secretly_named" not in running.out
    command = [sys.executable, "-m", "sfumato", "verify", str(tmp_path / "clinic.toml"), "--audit"]
    verified = subprocess.run(command, capture_output=True, text=True, check=True)
    assert verified.stdout.startswith("The audit log holds: 1 lines")


def test_a_span_has_operation_interface_and_outcome_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    spans: list[dict[str, Any]] = []

    class Tracer:
        @contextmanager
        def start_as_current_span(self, name: str, attributes: dict[str, str], **options: bool) -> Iterator[Any]:
            assert not any(options.values())  # the texts of exceptions stay out
            spans.append({"name": name, **attributes})

            class Span:
                def set_attribute(self, key: str, value: str) -> None:
                    spans[-1][key] = value

            yield Span()

    monkeypatch.setattr(tracing, "_tracer", Tracer)
    with tracing.request_span("ask", "http") as note:
        note("budget_exhausted")
    assert spans == [
        {
            "name": "sfumato ask",
            "sfumato.verb": "ask",
            "sfumato.channel": "http",
            "sfumato.outcome": "budget_exhausted",
        }
    ]
    monkeypatch.setattr(tracing, "_tracer", lambda: None)
    with tracing.request_span("ask", "http") as note:
        note("ok")
    assert len(spans) == 1
