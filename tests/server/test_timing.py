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
    """Here one person makes every answer slower by a pause; `python -m tests.server.timing_attack` has real rows.

    Of 8 guesses, blind luck has all right once in 256 runs.
    """
    ask = Database.ask
    answers: dict[object, sfumato.Release] = {}

    def paused(database: Database, sql: str, **price: object) -> sfumato.Release:
        path = database.policy.source.path
        if path not in answers:
            answers[path] = ask(database, sql, **price)  # type: ignore[arg-type]
        time.sleep(0.1 if path is not None and path.parent.name == "with" else 0)
        return answers[path]

    monkeypatch.setattr(Database, "ask", paused)
    monkeypatch.setattr(timing_attack, "SUMS", 1)
    plain, padded, apart = timing_attack.attack(tmp_path, "300ms", rows=10, asks=8)
    assert plain == 1
    assert padded < 1
    assert 0.05 < apart < 0.2
