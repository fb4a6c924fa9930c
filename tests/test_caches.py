"""Caches hold at most so many bytes, for each owner and in total; what they account for is what is there."""

import gc
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest
from tests.paths.worlds import a_world, policy, write

import sfumato
from sfumato import prepare
from sfumato.caches import SizedCache, size_of
from sfumato.engines.sql import public


@dataclass(frozen=True, slots=True)
class Record:
    """A value that holds others."""

    name: str
    parts: tuple[object, ...]


def test_limits_hold_whatever_is_put_and_the_oldest_go_first() -> None:
    random, cache = Random(1), SizedCache(50_000, 20_000)
    for at in range(2000):
        owner = random.choice("abcd")
        cache.put(at, "x" * random.randrange(6000), owner)
        assert cache.bytes <= 50_000
        assert cache.bytes_of(owner) <= 20_000
        if random.random() < 0.1:
            cache.forget(owner)
            assert cache.bytes_of(owner) == 0
    assert cache.get(0) is None
    cache.put("small", "y", "a")
    assert cache.get("small") == "y"


def test_what_is_used_stays_and_what_is_too_large_is_not_held() -> None:
    cache = SizedCache(10_000, 10_000)
    cache.put("used", "x" * 1000)
    for at in range(50):
        cache.put(at, "x" * 1000)
        assert cache.get("used") is not None
    cache.put("large", "x" * 20_000)
    assert cache.get("large") is None
    assert cache.get("used") is not None


def test_an_owner_that_is_gone_leaves_nothing() -> None:
    cache = SizedCache(10_000, 10_000)
    cache.put("a", "x", "one")
    cache.forget_later("one")
    cache.put("b", "x", "two")
    assert cache.get("a") is None
    assert cache.bytes_of("one") == 0


def test_sizes_are_about_those_that_python_allocates() -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        made = [Record(f"record {at}", (Fraction(at, 7), at * 10**30, (f"part {at}",))) for at in range(2000)]
        found = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.5 * found < size_of(made) < 2 * found


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sfumato.Database]:
    write(tmp_path, a_world(1))
    with sfumato.open(policy(tmp_path, analysts={"ada": {"epsilon": 5}})) as opened:
        yield opened


def _held(database: sfumato.Database) -> int:
    facts = database.engine.public._known  # type: ignore[attr-defined]
    return int(prepare._QUERY_CACHE.bytes + facts.bytes)


def test_thousands_of_free_questions_stay_within_the_limits(
    database: sfumato.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limits are smaller here, so that 2,000 questions are far more than they hold."""
    each, total = 150_000, 250_000
    monkeypatch.setattr(prepare, "_QUERY_CACHE", SizedCache(total, each))
    monkeypatch.setattr(public, "MAX_FACT_BYTES", total)
    monkeypatch.setattr(public, "MAX_ACCOUNT_FACT_BYTES", each)
    database.engine.public._forget()  # type: ignore[attr-defined]
    ada = database.as_analyst("ada")

    def ask(condition: str, first: int, last: int) -> None:
        for at in range(first, last):
            handle = ada if at % 2 else database
            sql = f"SELECT COUNT(*) FROM visits WHERE {condition.format(at=at, day=at % 366)}"  # noqa: S608
            handle.explain(sql, epsilon="1")
            assert prepare._QUERY_CACHE.bytes <= total
            assert max(handle._preparation.remembered_bytes for handle in (ada, database)) <= each

    number, day = "cost > {at} / 1000.0", "day >= DATE '2024-01-01' + {day}"
    ask(number, 0, 2000)
    ask(day, 0, 30)  # everything is full
    gc.collect()
    tracemalloc.start()
    try:
        ask(number, 2000, 2100)
        ask(day, 30, 60)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert _held(database) <= 2 * total
    assert grown <= 2 * _held(database) + 1_000_000  # tables of noise and the like, which are limited in number
    ada.close()
