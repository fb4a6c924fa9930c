"""With padding, latencies no longer tell neighbours apart."""

import time
from pathlib import Path

import pytest
from tests.server import timing_attack

import sfumato
from sfumato.database import Database


def test_a_timing_attack_succeeds_without_padding_and_fails_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine is made slower by one person here; `python -m tests.server.timing_attack` does it with real rows.

    Of 8 guesses, blind luck has all right once in 256 runs.
    """
    ask = Database.ask

    def slower(database: Database, sql: str, **price: object) -> sfumato.Release:
        path = database.policy.source.path
        if path is not None and path.parent.name == "with":
            time.sleep(0.1)
        return ask(database, sql, **price)  # type: ignore[arg-type]

    monkeypatch.setattr(Database, "ask", slower)
    monkeypatch.setattr(timing_attack, "SUMS", 1)
    plain, padded, apart = timing_attack.attack(tmp_path, "300ms", rows=10, asks=8)
    assert plain >= 0.9
    assert padded < 0.9
    assert apart > 0.05
