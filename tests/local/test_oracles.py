"""The six oracles: known values, exact rates, unbiased shares, intervals that cover, and nothing else accepted.

Where samples are drawn, seeds are fixed, and a test of a right program fails with probability below 1e-5.
"""

import pickle
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, chi2
from tests.sources import HashSource, ScriptedSource

from sfumato.errors import Refusal
from sfumato.local.choosing import ORACLES, choose
from sfumato.local.direct import DirectResponse
from sfumato.local.hadamard import HadamardResponse
from sfumato.local.hashed import HashedResponse
from sfumato.local.hashing import PRIME, bucket, line
from sfumato.local.projective import ProjectiveResponse
from sfumato.local.subset import SubsetResponse
from sfumato.local.unary import UnaryResponse
from sfumato.local.walsh import transform
from sfumato.mechanisms.response_count import Channel
from sfumato.randomness.source import Metered

ORDER = (DirectResponse, UnaryResponse, HadamardResponse, HashedResponse, SubsetResponse, ProjectiveResponse)
KNOWN = {
    (1024, 1): (347.0688924541, 3.682694376831, 4.682694376831, 3.691654617457, 3.673552357123, 3.761127847192),
    (1024, 2): (25.21773890198, 0.7240616609663, 1.724061660966, 0.7245913890681, 0.7206953004406, 0.7307619811497),
    (1024, 4): (
        0.3747606893096,
        0.07602182983807,
        1.076021829838,
        0.07602285187264,
        0.07390769236451,
        0.07533191409325,
    ),
    (16, 3): (0.09357533165331, 0.2205640220082, 1.220564022008, 0.2205650263199, 0.09357533165331, 0.09906594967492),
}
SHAPES = {(1024, 1): (4, 275, 3, 7), (1024, 2): (8, 122, 7, 5), (1024, 4): (56, 18, 53, 3), (16, 3): (21, 1, 17, 2)}
every = pytest.mark.parametrize("kind", ORDER, ids=lambda kind: kind.__name__)


@pytest.mark.parametrize(("d", "epsilon"), KNOWN)
def test_variances_are_the_references(d: int, epsilon: int) -> None:
    oracles: list[Any] = [kind(epsilon, d) for kind in ORDER]  # type: ignore[arg-type]
    for oracle, known in zip(oracles, KNOWN[d, epsilon], strict=True):
        stated = oracle.false * (1 - oracle.false) / (oracle.hit - oracle.false) ** 2
        assert stated == pytest.approx(known, rel=1e-11)
    space = oracles[5].geometry
    assert (oracles[3].buckets, oracles[4].size, space.q, space.t) == SHAPES[d, epsilon]


@pytest.mark.parametrize(
    ("probability", "known"),
    [
        (HadamardResponse(1, 8).keep, 13485650502877570762),  # type: ignore[arg-type]
        (ProjectiveResponse(1, 1024).keep, 10621296405356352572),  # type: ignore[arg-type]
        (SubsetResponse(1, 1024).keep, 9214296768120201654),  # type: ignore[arg-type]
        (UnaryResponse("1/2", 8).flip, 6964396094736529934),  # type: ignore[arg-type]
    ],
)
def test_coins_have_the_references_thresholds(probability: Any, known: int) -> None:
    assert probability.bounds(64)[0] == known


@every
@pytest.mark.parametrize(("epsilon", "d"), [("1", 2), ("1/2", 5), ("5/2", 6)])
def test_hit_and_false_are_the_chances_of_support(kind: Any, epsilon: str, d: int) -> None:
    """Summed over all reports; for the hash, whose pairs are independent, over all pairs of places."""
    oracle = kind(epsilon, d)
    if kind is HashedResponse:
        keep = float(Fraction(oracle.keep.bounds(100)[0], 2**100))
        other = (1 - keep) / (oracle.buckets - 1)
        apart = (keep + (oracle.buckets - 1) * other) / oracle.buckets  # an independent uniform bucket meets the report
        assert (oracle.hit, oracle.false) == pytest.approx((keep, apart), abs=1e-14)
        return
    supports = [oracle.tally(report[np.newaxis]).support for report in map(np.asarray, oracle.report_space())]
    for value in range(d):
        chance = [oracle.likelihood(report, value, 120)[0] / 2**120 for report in oracle.report_space()]
        expected = np.where(np.arange(d) == value, oracle.hit, oracle.false)
        assert np.array(chance) @ np.array(supports) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kind", [k for k in ORDER if k is not HashedResponse], ids=lambda kind: kind.__name__)
def test_shares_are_unbiased_and_so_are_variances_summed_over_every_report(kind: Any) -> None:
    oracle, people = kind("3/2", 3), (0, 2)
    space = list(oracle.report_space())
    mean, square, stated = np.zeros(3), np.zeros(3), np.zeros(3)
    chances = [[oracle.likelihood(report, value, 100)[0] / 2**100 for report in space] for value in people]
    for places in product(range(len(space)), repeat=len(people)):
        mass = np.prod([chances[person][place] for person, place in enumerate(places)])
        tally = oracle.tally(np.array([space[place] for place in places]))
        mean += mass * oracle.estimate(tally)
        square += mass * oracle.estimate(tally) ** 2
        stated += mass * oracle.variance(tally)
    assert mean == pytest.approx([0.5, 0, 0.5], abs=1e-9)
    assert stated == pytest.approx(square - mean**2, rel=1e-9)


@every
@pytest.mark.parametrize("reports", [8, 60, 1500])
def test_intervals_cover_at_every_size_and_the_margin_too(kind: Any, reports: int) -> None:
    """Repeated 100 / 40 / 12 times over six categories; fails by chance with probability below 1e-5."""
    oracle, rounds = kind("3/2", 6), {8: 100, 60: 40, 1500: 12}[reports]
    values = np.arange(reports) ** 2 % 6 * (np.arange(reports) % 3 > 0)
    truth = np.bincount(values, minlength=6) / reports
    inside, within, error = {0.9: 0, 0.95: 0}, 0, np.zeros(6)
    source = HashSource((kind.__name__, reports))
    margin = oracle.margin(0.95, reports)
    for _ in range(rounds):
        tally = oracle.tally(oracle.release(values, source))
        shares = oracle.estimate(tally)
        error += (shares - truth) ** 2 / rounds
        within += int((np.abs(shares - truth) <= margin).sum())
        for level in inside:
            low, high = oracle.intervals(tally, level).T
            inside[level] += int(((low <= truth) & (truth <= high)).sum())
    # shares of one round depend on each other: rounds count, not cells
    for level, count in inside.items():
        assert binom.cdf(round(count / 6), rounds, level) > 1e-5
    assert binom.cdf(round(within / 6), rounds, 0.95) > 1e-5
    spread = [float(oracle.rates.spread(Fraction(share))) / reports for share in truth.tolist()]
    assert (error / spread).sum() < chi2.isf(1e-6, 6 * rounds) * 1.5 / rounds
    assert (error / spread).sum() > chi2.isf(1 - 1e-6, 6 * rounds) / 1.5 / rounds


def test_intervals_of_many_counts_are_the_single_ones() -> None:
    channel = Channel(0.5759, 0.3152)
    counts = np.array([0, 3, 3, 40, 41, 55, 100])
    rows = channel.intervals(counts, 100, 0.9)
    for count, row in zip(counts.tolist(), rows.tolist(), strict=True):
        assert row == [float(end) for end in channel.interval(count, 100, 0.9)]


@every
def test_tallies_add_up_and_survive_a_pickle(kind: Any) -> None:
    oracle = kind(2, 10)
    reports = oracle.release(np.arange(300) % 10, HashSource(3))
    whole, parts = oracle.tally(reports), oracle.tally(reports[:100]) + oracle.tally(reports[100:])
    assert whole == parts == pickle.loads(pickle.dumps(whole))
    assert hash(whole) == hash(parts)
    assert whole.reports == 300
    assert whole.support.dtype == np.int64
    assert pickle.loads(pickle.dumps(oracle)) == oracle


@every
def test_reports_survive_the_wire_in_the_bits_that_are_stated(kind: Any) -> None:
    for d, people in ((2, 1), (13, 77), (13, 0), (300, 40)):
        oracle = kind(1, d)
        reports = oracle.release(np.arange(people) % d, HashSource(d))
        message = oracle.encode(reports)
        assert len(message) <= 64 + people * oracle.report_bits / 8
        read = oracle.decode(message)
        assert np.array_equal(read, reports)
        assert read.dtype == reports.dtype


@every
def test_a_damaged_message_is_refused_or_holds_possible_reports(kind: Any) -> None:
    oracle = kind(1, 13)
    message = oracle.encode(oracle.release(np.arange(21) % 13, HashSource(1)))
    cut = [message[:-1], message + b"\0", b"", message[1:], message[:20], "text", None, b"sfumato1" + bytes(24)]
    for damaged in [*cut, kind(2, 13).encode(kind(2, 13).release([1], HashSource(1)))]:
        with pytest.raises(Refusal):
            oracle.decode(damaged)
    for place in range(len(message)):
        try:
            read = oracle.decode(message[:place] + bytes([message[place] ^ 0x81]) + message[place + 1 :])
        except Refusal:
            continue
        assert place >= 32  # the head is checked wholly
        oracle.tally(read)


BAD: list[Callable[[Any], object]] = [
    lambda kind: kind(0, 4),
    lambda kind: kind(1.0, 4),
    lambda kind: kind("nan", 4),
    lambda kind: kind("1e-12", 4),
    lambda kind: kind(1001, 4),
    lambda kind: kind(1, 1),
    lambda kind: kind(1, 4.0),
    lambda kind: kind(1, True),
    lambda kind: kind(1, 2**22),
    lambda kind: kind(1, 4).release([4], HashSource(0)),
    lambda kind: kind(1, 4).release([-1], HashSource(0)),
    lambda kind: kind(1, 4).release([0.0], HashSource(0)),
    lambda kind: kind(1, 4).release([[0]], HashSource(0)),
    lambda kind: kind(1, 4).release([[0], [1, 2]], HashSource(0)),
    lambda kind: kind(1, 4).release(["a"], HashSource(0)),
    lambda kind: kind(1, 4).release(3, HashSource(0)),
    lambda kind: kind(1, 4).tally([[-1]]),
    lambda kind: kind(1, 4).tally([float("nan")]),
    lambda kind: kind(1, 4).tally([10**30]),
    lambda kind: kind(1, 4).tally("reports"),
    lambda kind: kind(1, 4).tally([[[0]]]),
    lambda kind: kind(1, 4).tally(np.full((2, 5), 2**62)),
    lambda kind: kind(1, 4).estimate(kind(1, 4).tally([])),
    lambda kind: kind(1, 4).variance(kind(1, 4).tally([])),
    lambda kind: kind(1, 4).intervals(kind(1, 4).tally([]), 0.9),
    lambda kind: kind(1, 4).estimate(kind(2, 4).tally(kind(2, 4).release([0]))),
    lambda kind: kind(1, 4).estimate(kind(1, 5).tally(kind(1, 5).release([0]))),
    lambda kind: kind(1, 4).estimate([1, 2, 3, 4]),
    lambda kind: kind(1, 4).tally(kind(1, 4).release([0])) + kind(1, 5).tally([]),
    lambda kind: kind(1, 4).tally([]) + 3,
    lambda kind: kind(1, 4).intervals(kind(1, 4).tally(kind(1, 4).release([0])), 1),
    lambda kind: kind(1, 4).margin(0, 10),
    lambda kind: kind(1, 4).margin(0.9, 0),
    lambda kind: kind(1, 4).likelihood(kind(1, 4).release([0])[0], 4, 10),
    lambda kind: kind(1, 4).likelihood(kind(1, 4).release([0])[0], 0, -1),
    lambda kind: kind(1, 4).likelihood(kind(1, 4).release([0])[0], 0, 10**9),
    lambda kind: kind(1, 4).likelihood("x", 0, 10),
    lambda kind: kind(1, 4).likelihood([[0, 1], [2]], 0, 10),
    lambda kind: kind("1/1000", 2**21).report_space(),
]


@every
@pytest.mark.parametrize("bad", BAD)
def test_what_cannot_be_meant_is_refused(kind: Any, bad: Callable[[Any], object]) -> None:
    with pytest.raises(Refusal):
        bad(kind)


@every
def test_a_refusal_repeats_no_value(kind: Any) -> None:
    with pytest.raises(Refusal) as refusal:
        kind(1, 4).release([987654], HashSource(0))
    assert "987654" not in str(refusal.value)


@every
def test_extreme_losses_do_not_fail(kind: Any) -> None:
    for epsilon in ("1e-9", "1000"):
        oracle = kind(epsilon, 5)
        tally = oracle.tally(oracle.release([0, 1, 2, 3, 4], HashSource(1)))
        assert np.isfinite(oracle.estimate(tally)).all()
        assert np.isfinite(oracle.intervals(tally, 0.95)).all()


# --- how they count ---


def test_the_walsh_transform_is_the_matrix() -> None:
    table = np.arange(32) ** 2 % 7 - 3
    matrix = [[(-1) ** bin(row & column).count("1") for row in range(32)] for column in range(32)]
    assert transform(table).tolist() == (np.array(matrix) @ table).tolist()


@pytest.mark.parametrize(("epsilon", "d"), [("1", 6), ("2", 40), ("4", 1024), ("1/10", 7)])
def test_projective_counts_are_exact_also_where_floats_would_round(epsilon: str, d: int) -> None:
    oracle = ProjectiveResponse(epsilon, d)  # type: ignore[arg-type]
    space, random = oracle.geometry, np.random.default_rng(d)
    for most in (3, 2**30, 2**60 // space.vectors):
        counts = np.zeros(space.vectors, dtype=np.int64)
        chosen = random.integers(1, space.vectors, 50)
        counts[chosen] = random.integers(0, most, 50, endpoint=True)
        found = oracle._orthogonal(counts)
        vectors = [space.digits(number) for number in (chosen, space.vector_of(np.arange(d))[0])]
        inner = sum(np.multiply.outer(a, b) for a, b in zip(*vectors, strict=True)) % space.q
        by_hand = [sum(int(counts[u]) for u in set(chosen[column == 0].tolist())) for column in inner.T]
        assert found.tolist() == by_hand


def test_hashes_are_computed_as_in_integers() -> None:
    random = np.random.default_rng(5)
    extreme = [0, 1, 2, PRIME - 1, PRIME - 2, 2**31, 2**30 - 1, 2**60]
    slope, shift, value = (np.array([*extreme, *random.integers(0, PRIME, 200)]) for _ in range(3))
    value = random.permutation(value)
    places = line(slope, shift, value)
    assert places.tolist() == [
        (a * v + b) % PRIME for a, b, v in zip(slope.tolist(), shift.tolist(), value.tolist(), strict=True)
    ]
    for buckets in (2, 3, 56, 2**16, 2**31):
        assert bucket(places, buckets).tolist() == [place * buckets // PRIME for place in places.tolist()]


def test_hashed_supports_are_those_of_the_hash() -> None:
    oracle = HashedResponse(2, 37)  # type: ignore[arg-type]
    reports = oracle.release(np.arange(500) % 37, HashSource(2))
    by_hand = [
        sum((a * value + b) % PRIME * oracle.buckets // PRIME == y for a, b, y in reports.tolist())
        for value in range(37)
    ]
    assert oracle.tally(reports).support.tolist() == by_hand


def test_hashed_reports_name_the_true_bucket_as_often_as_stated() -> None:
    """Kept with probability e²/(e² + 7), else each other bucket alike; chi-square at 1e-6."""
    oracle = HashedResponse(2, 50)  # type: ignore[arg-type]
    slope, shift, sent = oracle.release(np.full(80_000, 33), HashSource(9)).T
    held = bucket(line(slope, shift, np.full(80_000, 33)), oracle.buckets)
    seen = np.bincount((sent - held) % oracle.buckets, minlength=oracle.buckets)
    expected = 80_000 * np.array([oracle.hit, *[(1 - oracle.hit) / 7] * 7])
    assert ((seen - expected) ** 2 / expected).sum() < chi2.isf(1e-6, 7)
    for part in (slope, shift, held):
        eighths = np.bincount(part, minlength=8) if part is held else np.bincount(part // (PRIME // 8 + 1), minlength=8)
        assert ((eighths - 10_000) ** 2 / 10_000).sum() < chi2.isf(1e-6, 7)


def test_subsets_whose_keys_tie_are_drawn_one_by_one_exactly() -> None:
    oracle = SubsetResponse(1, 7)  # type: ignore[arg-type]
    assert oracle.size == 2
    tied = oracle.release([3, 3, 0], ScriptedSource(b"", after=b"\x00"))  # every key is alike
    assert np.unpackbits(tied, axis=1).sum(axis=1).tolist() == [2, 2, 2]
    kept = np.arange(60_000) % 2 == 0
    rows = oracle._draw_by_shuffle(np.full(60_000, 3), kept, HashSource(4))
    for chosen, expected in ((kept, 6), (~kept, 15)):
        found, counts = np.unique(rows[chosen], axis=0, return_counts=True)
        assert len(found) == expected
        assert set(found[:, 3].tolist()) == {bool(expected == 6)}
        even = 30_000 / expected
        assert ((counts - even) ** 2 / even).sum() < chi2.isf(1e-6, expected - 1)


def test_the_bits_for_subsets_do_not_depend_on_values_where_keys_tie_often() -> None:
    oracle = SubsetResponse(1, 4000)  # type: ignore[arg-type]
    for seed in range(3):
        read = set()
        for value in (0, 1, 2000, 3999):
            meter = Metered(HashSource(seed))
            oracle.release(np.full(40, value), meter)
            read.add(meter.bits)
        assert len(read) == 1
        assert read.pop() > 40 * 3999 * 16 + 40 * 16  # some rows tied, and were drawn again


# --- choosing ---


def test_the_shortest_report_of_the_nearly_best_is_chosen() -> None:
    assert isinstance(choose(1, 1024), ProjectiveResponse)
    assert isinstance(choose(3, 16), DirectResponse)
    assert isinstance(choose(1, 2), DirectResponse)
    assert isinstance(choose(200, 1000), DirectResponse)  # where a share of 192 digits would be all zeros
    for epsilon, d, most in ((1, 1024, None), (2, 300, 12), ("1/2", 50, 7), (4, 1000, 40), (5, 20, None)):
        oracles = [kind(epsilon, d) for kind in ORACLES]  # type: ignore[arg-type]
        short = [oracle for oracle in oracles if most is None or oracle.report_bits <= most]
        best = min(oracle.rates.spread() for oracle in short)
        near = [oracle for oracle in short if oracle.rates.spread() <= best * Fraction(103, 100)]
        chosen = choose(epsilon, d, most)
        assert chosen in near
        assert chosen.report_bits == min(oracle.report_bits for oracle in near)


def test_reports_that_are_too_short_are_refused() -> None:
    with pytest.raises(Refusal):
        choose(1, 1024, most_bits=5)
    with pytest.raises(Refusal):
        choose(1, 1024, most_bits=0)


def test_the_oracle_of_choice_errs_as_stated_on_a_thousand_categories() -> None:
    """n·MSE over 5 seeds and 1024 categories: within 8 % of the mean of the stated variances."""
    oracle, people, source = choose(1, 1024), 20_000, HashSource("mse")
    values = np.arange(people) ** 3 % 1024
    truth = np.bincount(values, minlength=1024) / people
    errors = [np.mean((oracle.estimate(oracle.tally(oracle.release(values, source))) - truth) ** 2) for _ in range(5)]
    assert people * np.mean(errors) == pytest.approx(3.7611, rel=0.08)
