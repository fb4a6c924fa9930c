"""Whatever is handed to a public method, it answers or refuses: there is no other exception."""

import datetime
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.sources import HashSource

from sfumato import local
from sfumato.errors import Refusal

ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    2**80,
    0.5,
    float("nan"),
    float("inf"),
    "",
    "1",
    "1/0",
    "x" * 5000,
    b"",
    b"\xff" * 40,
    [],
    [[]],
    [[1], [2, 3]],
    {},
    {1, 2},
    object(),
    Fraction(1, 3),
    1j,
    datetime.date(2026, 1, 1),
    np.float32(1.5),
    np.array([1, 2]),
    np.array([1.0, np.nan]),
    np.array(["a"]),
    np.array([None, 1], dtype=object),
    np.array([2**63], dtype=np.uint64),
    np.zeros((2, 3, 4), dtype=np.int64),
    np.zeros((0, 3), dtype=np.int64),
    np.array(7),
    np.array(["2026-01-01"], dtype="datetime64[D]"),
    np.array([(1, 2)], dtype=[("a", int), ("b", int)]),
)
KINDS: tuple[Any, ...] = (
    local.DirectResponse,
    local.UnaryResponse,
    local.HadamardResponse,
    local.ProjectiveResponse,
    local.SubsetResponse,
    local.HashedResponse,
)
ONE = np.array([1])


def calls() -> Iterator[tuple[str, Callable[[Any], object]]]:
    """Every public method with one odd argument, the others sound."""
    for kind in KINDS:
        oracle = kind(1, 9)
        tally = oracle.tally(oracle.release(ONE, HashSource(0)))
        report = oracle.release(ONE, HashSource(0))[0]
        name = kind.__name__
        yield f"{name}(x, 9)", lambda x, kind=kind: kind(x, 9)  # type: ignore[misc]
        yield f"{name}(1, x)", lambda x, kind=kind: kind(1, x)  # type: ignore[misc]
        for method in ("tally", "estimate", "variance", "encode", "decode"):
            yield f"{name}.{method}(x)", getattr(oracle, method)
        yield f"{name}.release(x)", lambda x, o=oracle: o.release(x, HashSource(0))  # type: ignore[misc]
        yield f"{name}.intervals(x, 0.9)", lambda x, o=oracle: o.intervals(x, 0.9)  # type: ignore[misc]
        yield f"{name}.intervals(t, x)", lambda x, o=oracle, t=tally: o.intervals(t, x)  # type: ignore[misc]
        yield f"{name}.margin(x, 9)", lambda x, o=oracle: o.margin(x, 9)  # type: ignore[misc]
        yield f"{name}.margin(0.9, x)", lambda x, o=oracle: o.margin(0.9, x)  # type: ignore[misc]
        yield f"{name}.likelihood(x, 1, 9)", lambda x, o=oracle: o.likelihood(x, 1, 9)  # type: ignore[misc]
        yield f"{name}.likelihood(r, x, 9)", lambda x, o=oracle, r=report: o.likelihood(r, x, 9)  # type: ignore[misc]
        yield f"{name}.likelihood(r, 1, x)", lambda x, o=oracle, r=report: o.likelihood(r, 1, x)  # type: ignore[misc]
        yield f"{name} tally + x", lambda x, t=tally: t + x  # type: ignore[misc]
    for number in (local.OneBitMean, local.PiecewiseMean, local.HybridMean):
        mean: Any = number(2, 5)  # type: ignore[arg-type]
        yield f"{number.__name__}(x, 5)", lambda x, kind=number: kind(x, 5)  # type: ignore[misc]
        yield f"{number.__name__}(1, x)", lambda x, kind=number: kind(1, x)  # type: ignore[misc]
        for method in ("decoded", "estimate", "variance"):
            yield f"{number.__name__}.{method}(x)", getattr(mean, method)
        yield f"{number.__name__}.release(x)", lambda x, m=mean: m.release(x, HashSource(0))  # type: ignore[misc]
        yield f"{number.__name__}.interval(x, 0.9)", lambda x, m=mean: m.interval(x, 0.9)  # type: ignore[misc]
        yield f"{number.__name__}.interval([1], x)", lambda x, m=mean: m.interval([1], x)  # type: ignore[misc]
        yield f"{number.__name__}.margin(x, 9)", lambda x, m=mean: m.margin(x, 9)  # type: ignore[misc]
        yield f"{number.__name__}.margin(0.9, x)", lambda x, m=mean: m.margin(0.9, x)  # type: ignore[misc]
        yield f"{number.__name__}.likelihood(x, 1, 9)", lambda x, m=mean: m.likelihood(x, 1, 9)  # type: ignore[misc]
        yield f"{number.__name__}.likelihood(1, x, 9)", lambda x, m=mean: m.likelihood(1, x, 9)  # type: ignore[misc]
    rappor_of: Any = local.Rappor
    prefixes_of: Any = local.Prefixes
    rappor: Any = local.Rappor(8, 2, "1/2", "1/4", "3/4")  # type: ignore[arg-type]
    for place in range(6):
        sound: list[Any] = [8, 2, "1/2", "1/4", "3/4", b""]
        yield f"Rappor, {place}", lambda x, p=place, s=sound, k=rappor_of: k(*s[:p], x, *s[p + 1 :])  # type: ignore[misc]
    for method in ("bloom", "memo", "release", "set_bits"):
        yield f"Rappor.{method}(x)", getattr(rappor, method)
    yield "Rappor.estimate(x, [1])", lambda x: rappor.estimate(x, [1])
    yield "Rappor.estimate(r, x)", lambda x: rappor.estimate(np.ones((3, 8), dtype=bool), x)
    for family in (local.CountMeanSketch, local.HadamardSketch):
        sketch: Any = family(1, 2, 8)  # type: ignore[arg-type]
        counted = sketch.tally(sketch.release(ONE, HashSource(0)))
        for place in range(4):
            given: list[Any] = [1, 2, 8, b""]
            yield f"{family.__name__}, {place}", lambda x, k=family, p=place, s=given: k(*s[:p], x, *s[p + 1 :])  # type: ignore[misc]
        for method in ("tally", "encode", "decode"):
            yield f"{family.__name__}.{method}(x)", getattr(sketch, method)
        yield f"{family.__name__}.release(x)", lambda x, s=sketch: s.release(x, HashSource(0))  # type: ignore[misc]
        yield f"{family.__name__}.estimate(x, [1])", lambda x, s=sketch: s.estimate(x, [1])  # type: ignore[misc]
        yield f"{family.__name__}.estimate(t, x)", lambda x, s=sketch, t=counted: s.estimate(t, x)  # type: ignore[misc]
        yield f"{family.__name__}.variance(x, 9)", lambda x, s=sketch: s.variance(x, 9)  # type: ignore[misc]
        yield f"{family.__name__}.variance([1], x)", lambda x, s=sketch: s.variance([1], x)  # type: ignore[misc]
    yield "Memo(x, 3)", lambda x: local.Memo(x, 3)
    yield "Memo(o, x)", lambda x: local.Memo(local.choose(1, 4), x)
    yield "Memo.release(x, 0)", lambda x: local.Memo(local.choose(1, 4), 3).release(x, 0, HashSource(0))
    yield "Memo.release([1], x)", lambda x: local.Memo(local.choose(1, 4), 3).release([1], x, HashSource(0))
    yield "Shuffled(x, 9)", lambda x: local.Shuffled(x, 9)
    yield "Shuffled(1, x)", lambda x: local.Shuffled(1, x)  # type: ignore[arg-type]
    for method in ("delta_after", "epsilon_at", "event"):
        yield f"Shuffled.{method}(x)", getattr(local.Shuffled(1, 9), method)  # type: ignore[arg-type]
    prefixes: Any = local.Prefixes(2, 3, 2, (1, 2), 2, 4)  # type: ignore[arg-type]
    for place in range(6):
        whole: list[Any] = [2, 3, 2, (1, 2), 2, 4]
        yield f"Prefixes, {place}", lambda x, p=place, s=whole, k=prefixes_of: k(*s[:p], x, *s[p + 1 :])  # type: ignore[misc]
    yield "Prefixes.release(x)", lambda x: prefixes.release(x, HashSource(0))
    yield "Prefixes.find(x, 2)", lambda x: prefixes.find(x, 2)
    yield "Prefixes.find(r, x)", lambda x: prefixes.find(prefixes.release([1] * 40, HashSource(0)), x)
    yield "Prefixes.find(r, 2, x)", lambda x: prefixes.find(prefixes.release([1] * 40, HashSource(0)), 2, x)
    yield "choose(x, 4)", lambda x: local.choose(x, 4)
    yield "choose(1, x)", lambda x: local.choose(1, x)
    yield "choose(1, 4, x)", lambda x: local.choose(1, 4, x)
    yield "norm_sub(x)", local.norm_sub
    yield "most_likely(o, x)", lambda x: local.most_likely(local.choose(1, 4), x)
    collector = local.Collector(local.choose(1, 9))
    for method in ("take", "take_file", "take_arrow", "merge"):
        yield f"Collector.{method}(x)", getattr(collector, method)
    yield "read_tally(o, x)", lambda x: local.read_tally(local.choose(1, 9), x)
    yield "read_tally(x, t)", lambda x: local.read_tally(x, local.tally_table(local.choose(1, 9).tally([1])))
    yield "tally_table(x)", local.tally_table
    yield "Tally(o, x, 1)", lambda x: local.choose(1, 9).estimate(local.Tally(local.choose(1, 9), x, 1))
    yield "Tally(o, s, x)", lambda x: local.Tally(local.choose(1, 9), np.zeros(9, dtype=np.int64), x)
    proposed = local.Plan(prefixes, 1000, 2)
    yield "Plan.recall(x)", proposed.recall


@pytest.mark.parametrize("call", [pytest.param(call, id=name) for name, call in calls()])
def test_only_refusals_come_of_odd_arguments(call: Callable[[Any], object]) -> None:
    for odd in ODD:
        with suppress(Refusal):
            call(odd)
