"""With padding, latencies no longer tell neighbours apart."""

import asyncio
import time
from fractions import Fraction
from pathlib import Path
from statistics import median

import pytest
from tests.server import timing_attack

import sfumato
from sfumato.database import Database
from sfumato.server.padding import Arrival, TimePadding


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


def test_a_padded_reply_does_not_say_within_which_part_of_a_millisecond_it_was_ready() -> None:
    """The loop alone would be late by what is missing to a whole millisecond: 0.8 of one apart in these two cases."""
    late: dict[float, list[float]] = {0.0001: [], 0.0009: []}

    async def course() -> None:
        padding = TimePadding(Fraction(1, 50))
        for _ in range(40):
            for part, times in late.items():
                arrived = time.monotonic() - 0.010 + part  # the rest of the quantum is 10 ms and a part
                await padding.leave(Arrival(arrived))
                times.append(time.monotonic() - arrived - 0.02)

    asyncio.run(course())
    assert min(min(times) for times in late.values()) >= 0
    first, second = (median(times) for times in late.values())
    assert abs(first - second) < 0.0004
