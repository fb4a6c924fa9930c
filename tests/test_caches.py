"""Caches hold at most so many bytes, for each owner and in total; what they account for is what is there."""

import ast
import gc
import re
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest
from tests.paths.worlds import a_world, policy, write

import sfumato
from sfumato import caches, prepare
from sfumato.caches import SizedCache, remembered, size_of
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


def test_numbers_that_functions_remember_have_few_bytes_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "MAX_NUMBER_BYTES", 100_000)
    monkeypatch.setattr(caches, "_CACHES", caches._Remembered())

    @remembered(1 << 15)
    def power(base: int, exponent: int) -> int:
        return int(base**exponent)

    @remembered(1 << 15)
    def half(number: Fraction) -> Fraction:
        return number / 2

    for number in range(3000):
        assert power(number, 100) == number**100
        assert half(Fraction(number, 7)) == Fraction(number, 14)
        kept = power.cache_info().currsize + half.cache_info().currsize
        assert kept * 400 <= 100_000
    hits = power.cache_info().hits
    assert power(2999, 100) == 2999**100
    assert power.cache_info().hits == hits + 1


SMALL_CACHES = {
    "accounting/binomial.py:_shrink",
    "accounting/binomial.py:log_factorial",
    "caches.py:_is_shared",
    "certified/binary.py:exp_minus_bounds",
    "engines/build_catalog.py:facts_of",
    "language/curves.py:natural",
    "language/lower_curves.py:_quick_natural",
    "mechanisms/keys.py:share_of_delta",
    "mechanisms/randomized_response.py:log_rounded_up",
    "planning/bounding/candidates.py:candidate_thresholds",
    "planning/concentrated_loss.py:_around",
    "randomness/bernoulli.py:_cached_threshold",
    "randomness/discrete_gaussian.py:_prepare_sampler",
    "randomness/guide.py:build_guide",
    "randomness/health.py:_cutoff",
    "release/intervals/noise_law.py:_quantiles",
    "server/wire/pg_catalog/operators.py:regular_pattern",
}
"""Functions of few numbers each, or tables whose comment says their bytes: 4,096 of them need a few MiB at most."""


def test_every_large_cache_is_limited_in_bytes() -> None:
    package = Path(caches.__file__).parent
    found = {
        f"{path.relative_to(package).as_posix()}:{function.name}"
        for path in package.rglob("*.py")
        if path.relative_to(package).parts[0] not in ("lab", "learn", "local", "streams", "synthesis", "sealed")
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef)
        for decorator in function.decorator_list
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "lru_cache"
        if not (size := re.search(r"\d+", ast.unparse(decorator))) or int(size[0]) >= 256
    }
    assert found <= SMALL_CACHES


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
