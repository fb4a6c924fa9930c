"""With padding, latencies no longer tell neighbours apart."""

import asyncio
import time
from pathlib import Path
from statistics import median

import pytest
from tests.server import timing_attack

import sfumato
from sfumato.database import Database
from sfumato.server.gate import Gate


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


def test_a_padded_reply_does_not_say_within_which_part_of_a_millisecond_it_was_ready(tmp_path: Path) -> None:
    """The loop alone would be late by what is missing to a whole millisecond: 0.8 of one apart in these two cases."""
    late: dict[float, list[float]] = {0.0001: [], 0.0009: []}

    async def course(gate: Gate) -> None:
        for _ in range(40):
            for part, times in late.items():
                arrived = time.monotonic() - 0.010 + part  # the rest of the quantum is 10 ms and a part
                await gate.padded(arrived)
                times.append(time.monotonic() - arrived - 0.02)

    world = timing_attack.make_world(tmp_path / "with", True, 10)
    with timing_attack.opened(world, "20ms", 10) as (gate, _):
        asyncio.run(course(gate))
    assert min(min(times) for times in late.values()) >= 0
    first, second = (median(times) for times in late.values())
    assert abs(first - second) < 0.0004
