"""The audit log: nobody without a grant can erase a line about somebody with one, or fill the disk."""

import json
from pathlib import Path

import pytest

from sfumato.errors import LedgerUnavailable
from sfumato.server import audit as module
from sfumato.server import rate_limit
from sfumato.server.audit import Audit, anonymous_path
from sfumato.server.rate_limit import AddressBuckets


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def evidence(folder: Path) -> list[dict[str, object]]:
    found = [path for path in folder.glob("x.audit*") if "anonymous" not in path.name and ".lock" not in path.name]
    return [line for path in found for line in lines(path)]


def test_no_number_of_strangers_erases_a_line_about_somebody_with_a_grant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_LOG_BYTES", 4000)
    monkeypatch.setattr(module, "MAX_ANONYMOUS_BYTES", 4000)
    clock = Clock()
    log = Audit(tmp_path / "x.audit", clock)
    for number in range(200):
        log.write("http", "10.0.0.1", "research", "ask", "ok", f"receipt {number}")
        for other in range(20):
            clock.now += 1
            log.write("http", f"6.6.{other}.{number}", None, "GET /", "not_granted")
    log.close()
    assert [line["receipt"] for line in sorted(evidence(tmp_path), key=lambda line: str(line["time"]))] != []
    assert {line["receipt"] for line in evidence(tmp_path)} == {f"receipt {number}" for number in range(200)}
    assert len(list(tmp_path.glob("x.audit.[0-9]*"))) > 2  # set aside more than once, and none is gone
    anonymous = [path for path in tmp_path.glob("x.audit.anonymous*") if ".lock" not in path.name]
    assert sum(path.stat().st_size for path in anonymous) < 3 * 4000
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in (*anonymous, *tmp_path.glob("x.audit*")))


def test_lines_about_strangers_are_limited_by_rate_and_the_others_counted(tmp_path: Path) -> None:
    clock = Clock()
    log = Audit(tmp_path / "x.audit", clock)
    for _ in range(5000):
        log.write("http", "6.6.6.6", None, "GET /", "not_granted")
    written = lines(anonymous_path(tmp_path / "x.audit"))
    assert len(written) == module.ANONYMOUS_BURST
    log.write("http", "7.7.7.7", None, "GET /", "not_granted")  # another address has lines of its own
    last = lines(anonymous_path(tmp_path / "x.audit"))[-1]
    assert (last["address"], last["unwritten"]) == ("7.7.7.7", 5000 - module.ANONYMOUS_BURST)
    assert not (tmp_path / "x.audit").exists()


def test_two_servers_set_one_log_aside_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LOG_BYTES", 1000)
    logs = [Audit(tmp_path / "x.audit") for _ in range(2)]
    for number in range(100):
        logs[number % 2].write("http", "10.0.0.1", "research", "ask", "ok", f"receipt {number}")
    assert len(evidence(tmp_path)) == 100


def test_a_log_that_cannot_be_written_holds_up_those_with_a_grant_only(tmp_path: Path) -> None:
    (tmp_path / "x.audit").mkdir()
    (tmp_path / "x.audit.anonymous").mkdir()
    log = Audit(tmp_path / "x.audit")
    log.write("http", "6.6.6.6", None, "GET /", "not_granted")
    with pytest.raises(LedgerUnavailable):
        log.write("http", "10.0.0.1", "", "verify", "ok")


def test_buckets_take_constant_memory_and_no_address_empties_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "MAX_ADDRESSES", 50)
    buckets = AddressBuckets(1.0, 3.0, Clock())
    for number in range(1000):
        for _ in range(10):
            buckets.take_now(f"6.6.{number // 250}.{number % 250}")
        assert buckets.count <= 50
    assert [buckets.take_now("10.0.0.1") for _ in range(4)] == [True, True, True, False]
    assert [buckets.take_now(f"2001:db8::{number}") for number in range(1, 5)] == [True, True, True, False]
