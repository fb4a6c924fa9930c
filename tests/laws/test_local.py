"""The laws of every local mechanism: its likelihood encloses its law, what is drawn fits it, and coins do not depend.

A chi-square test fails by chance with probability below 1e-6; its seeds are fixed.
"""

from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.stats import chi2
from tests.laws.case import Case
from tests.laws.local_mechanisms import CASES
from tests.sources import HashSource, ScriptedSource, SourceDied

from sfumato.certified.binary import exp_minus_bounds
from sfumato.local.hashed import HashedResponse
from sfumato.local.rappor import Rappor
from sfumato.randomness.source import Metered

BITS = 200
every = pytest.mark.parametrize("case", CASES, ids=str)


def values_of(case: Case) -> list[int]:
    return sorted({value for pair in case.pairs for value in pair})


def as_report(case: Case, outcome: Any) -> Any:
    if isinstance(case.mechanism, Rappor):
        return np.array(outcome)
    rows = isinstance(outcome, tuple)
    octets = rows and hasattr(case.mechanism, "as_bits") and not isinstance(case.mechanism, HashedResponse)
    return np.array(outcome, dtype=np.uint8 if octets else np.int64) if rows else outcome


def likelihood(case: Case, outcome: Any, value: int, bits: int = BITS) -> tuple[int, int]:
    mechanism: Any = case.mechanism
    if isinstance(mechanism, Rappor):
        low, high = mechanism.memo_likelihood(as_report(case, outcome), value, bits)
    elif isinstance(mechanism, HashedResponse):
        # the law is given the hash: the chance of the hash itself, P^-2, is divided out
        wide = mechanism.likelihood(as_report(case, outcome), value, bits + 122)
        factor = (2**61 - 1) ** 2
        low, high = (wide[0] * factor >> 122) // 5, -((-wide[1] * factor >> 122) // 5) + 1
    else:
        low, high = mechanism.likelihood(as_report(case, outcome), value, bits)
    return low, high


@every
def test_the_likelihood_encloses_the_law(case: Case) -> None:
    with mp.workdps(90):
        for value in values_of(case):
            for outcome, mass in case.law(value).items():
                low, high = likelihood(case, outcome, value)
                assert low - 2 <= mpf(mass) * 2**BITS * (1 + mpf(10) ** -55)
                assert mpf(mass) * 2**BITS * (1 - mpf(10) ** -55) <= high + 2
                assert high - low <= 8


@every
def test_all_reports_are_listed_sorted_and_each_once(case: Case) -> None:
    if isinstance(case.mechanism, Rappor | HashedResponse):
        return  # 2^bits truth values, and more hashes than anybody can list
    listed = [tuple(row) if isinstance(row, list) else row for row in case.mechanism.report_space().tolist()]
    assert listed == sorted(case.law(values_of(case)[0]))


@every
def test_no_ratio_exceeds_e_to_the_epsilon_by_enumeration_with_enclosures(case: Case) -> None:
    """Certain in integers: high(v) · e^-ε <= low(w), up to the width of the enclosures; and some ratio reaches it."""
    shrunk, _ = exp_minus_bounds(case.epsilon, BITS)
    tables = {value: [likelihood(case, o, value) for o in case.law(value)] for value in values_of(case)}
    closest = 0.0
    for one, other in case.pairs:
        for (_, high), (low, _) in zip(tables[one], tables[other], strict=True):
            assert high * shrunk <= (low + 16) << BITS
            if low:
                closest = max(closest, high * shrunk / (low << BITS))
    assert closest > 0.99


@every
def test_what_is_drawn_fits_the_law(case: Case) -> None:
    mechanism: Any = case.mechanism
    count, value = 40_000, values_of(case)[-1]
    if isinstance(mechanism, HashedResponse):
        return  # tests/local/test_oracles.py: the hash is drawn from 2^122
    draw = mechanism.memo if isinstance(mechanism, Rappor) else mechanism.release
    reports = draw(np.full(count, value), HashSource(str(case)))
    law = case.law(value)
    found, counts = np.unique(reports, axis=0, return_counts=True)
    keys = [tuple(row) if isinstance(row, list) else row for row in found.tolist()]
    assert set(keys) <= set(law)
    seen = dict(zip(keys, counts.tolist(), strict=True))
    cells = sorted((float(mass) * count, seen.get(outcome, 0)) for outcome, mass in law.items())
    # cells of too few are put together
    pooled: list[list[float]] = [[0.0, 0.0]]
    for expected, observed in cells:
        if pooled[-1][0] >= 20:
            pooled.append([0.0, 0.0])
        pooled[-1][0] += expected
        pooled[-1][1] += observed
    if pooled[-1][0] < 20 and len(pooled) > 1:
        last = pooled.pop()
        pooled[-1] = [pooled[-1][0] + last[0], pooled[-1][1] + last[1]]
    statistic = sum((observed - expected) ** 2 / expected for expected, observed in pooled)
    assert statistic < chi2.isf(1e-6, max(1, len(pooled) - 1))


def drawn(case: Case, values: Any, source: Any) -> Any:
    mechanism: Any = case.mechanism
    return mechanism.memo(values, source) if isinstance(mechanism, Rappor) else mechanism.release(values, source)


@every
def test_how_many_bits_are_read_does_not_depend_on_values(case: Case) -> None:
    for seed in range(4):
        read = set()
        for value in values_of(case):
            meter = Metered(HashSource(seed))
            drawn(case, np.full(100, value), meter)
            read.add(meter.bits)
        assert len(read) == 1


@every
def test_the_same_coins_give_the_same_reports(case: Case) -> None:
    values = np.resize(values_of(case), 50)
    one, other = (drawn(case, values, HashSource(7)) for _ in range(2))
    assert np.array_equal(one, other)
    meter = Metered(HashSource(7))
    drawn(case, values, meter)
    assert meter.bits > 0


@every
def test_a_source_that_dies_gives_no_report(case: Case) -> None:
    with pytest.raises(SourceDied):
        drawn(case, np.resize(values_of(case), 50), ScriptedSource(b"\x17" * 60))


@every
def test_without_a_source_the_system_gives_the_bits(case: Case) -> None:
    mechanism: Any = case.mechanism
    draw = mechanism.memo if isinstance(mechanism, Rappor) else mechanism.release
    assert len(draw(np.resize(values_of(case), 20))) == 20


def test_rappor_keeps_the_loss_of_one_report_too() -> None:
    """Over all reports and both items: at most e^ε₁, and reached."""
    for case in CASES:
        mechanism = case.mechanism
        if not isinstance(mechanism, Rappor):
            continue
        shrunk, _ = exp_minus_bounds(mechanism.epsilon_once, BITS)
        one, other = case.pairs[0]
        closest = 0.0
        for outcome in case.law(one):
            report = np.array(outcome)
            (low, _), (_, high) = (mechanism.likelihood(report, item, BITS) for item in (other, one))
            assert high * shrunk <= (low + 2) << BITS
            closest = max(closest, high * shrunk / (low << BITS))
        assert closest > 0.99
