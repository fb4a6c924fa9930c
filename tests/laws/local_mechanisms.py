"""The mechanisms of the extension package `local`, with laws computed here from their definitions, in 60 digits."""

from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
from mpmath import mp, mpf
from tests.laws.case import Case
from tests.laws.divergence import real

from sfumato.local.direct import DirectResponse
from sfumato.local.hadamard import HadamardResponse
from sfumato.local.hashed import HashedResponse
from sfumato.local.hashing import places
from sfumato.local.mean import HybridMean, OneBitMean, PiecewiseMean
from sfumato.local.prefixes import Prefixes
from sfumato.local.projective import ProjectiveResponse
from sfumato.local.rappor import Rappor
from sfumato.local.sketch import CountMeanSketch, HadamardSketch
from sfumato.local.subset import SubsetResponse
from sfumato.local.unary import UnaryResponse

Law = Callable[[int], dict[Any, Any]]
PRIME = 2**61 - 1
SOME_HASHES = ((0, 0), (1, 0), (12345678901234567, 987654321), (PRIME - 1, PRIME - 1), (2**60 + 7, 3))


def grown(epsilon: Fraction) -> Any:
    return mp.exp(real(epsilon))


def packed(bits: Iterable[int]) -> tuple[int, ...]:
    return tuple(np.packbits(np.array(list(bits), dtype=np.uint8)).tolist())


def case(mechanism: Any, law: Law, values: Iterable[int], epsilon: Fraction | None = None) -> Case:
    """The neighbours are all pairs of values: what a person reports may be changed into anything."""

    def precise(value: int) -> dict[Any, Any]:
        with mp.workdps(60):
            return law(value)

    return Case(repr(mechanism), mechanism, tuple(permutations(values, 2)), precise, epsilon or mechanism.epsilon)


def direct(epsilon: str, d: int) -> Case:
    def law(value: int) -> dict[Any, Any]:
        e = grown(Fraction(epsilon))
        return {report: (e if report == value else mpf(1)) / (e + d - 1) for report in range(d)}

    return case(DirectResponse(epsilon, d), law, range(d))  # type: ignore[arg-type]


def unary(epsilon: str, d: int) -> Case:
    def law(value: int) -> dict[Any, Any]:
        one = 1 / (grown(Fraction(epsilon)) + 1)
        return {
            packed(bits): mp.fprod(
                mpf(1) / 2 if place == value else one if bit else 1 - one for place, bit in enumerate(bits)
            )
            for bits in product((0, 1), repeat=d)
        }

    return case(UnaryResponse(epsilon, d), law, range(d))  # type: ignore[arg-type]


def hadamard(epsilon: str, d: int) -> Case:
    rows = next(power for power in (2, 4, 8, 16, 32) if power > d)

    def law(value: int) -> dict[Any, Any]:
        e = grown(Fraction(epsilon))
        return {
            2 * row + bit: (e if bit == bin(row & (value + 1)).count("1") % 2 else mpf(1)) / (e + 1) / rows
            for row in range(rows)
            for bit in (0, 1)
        }

    return case(HadamardResponse(epsilon, d), law, range(d))  # type: ignore[arg-type]


def lines(q: int, t: int) -> list[tuple[int, ...]]:
    """The vectors of Z_q^t whose first digit other than 0 is 1, in rising order."""
    return [u for u in product(range(q), repeat=t) if any(u) and next(digit for digit in u if digit) == 1]


def projective(epsilon: str, d: int) -> Case:
    mechanism = ProjectiveResponse(epsilon, d)  # type: ignore[arg-type]
    q, t = mechanism.geometry.q, mechanism.geometry.t

    def law(value: int) -> dict[Any, Any]:
        e, vector = grown(Fraction(epsilon)), lines(q, t)[value]
        weights = {
            u: e if sum(a * b for a, b in zip(u, vector, strict=True)) % q == 0 else mpf(1)
            for u in product(range(q), repeat=t)
            if any(u)
        }
        total = mp.fsum(weights.values())
        return {sum(digit * q**place for place, digit in enumerate(u[::-1])): w / total for u, w in weights.items()}

    return case(mechanism, law, range(d))


def subset(epsilon: str, d: int) -> Case:
    mechanism = SubsetResponse(epsilon, d)  # type: ignore[arg-type]

    def law(value: int) -> dict[Any, Any]:
        e = grown(Fraction(epsilon))
        weights = {
            packed(int(place in named) for place in range(d)): e if value in named else mpf(1)
            for named in combinations(range(d), mechanism.size)
        }
        total = mp.fsum(weights.values())
        return {report: weight / total for report, weight in weights.items()}

    return case(mechanism, law, range(d))


def hashed(epsilon: str, d: int) -> Case:
    """Given the hash: it is drawn without a look at the value, so five of them stand for all."""
    mechanism = HashedResponse(epsilon, d)  # type: ignore[arg-type]
    g = mechanism.buckets

    def law(value: int) -> dict[Any, Any]:
        e = grown(Fraction(epsilon))
        return {
            (a, b, y): (e if y == (a * value + b) % PRIME * g // PRIME else mpf(1)) / (e + g - 1) / len(SOME_HASHES)
            for a, b in SOME_HASHES
            for y in range(g)
        }

    return case(mechanism, law, range(d))


def one_bit_law(epsilon: Fraction, top: int, value: int) -> dict[Any, Any]:
    e = grown(epsilon)
    one = real(Fraction(value, top)) * (e - 1) / (e + 1) + 1 / (e + 1)
    return {0: 1 - one, 1: one}


def piecewise_law(epsilon: Fraction, top: int, window: int, value: int) -> dict[Any, Any]:
    e = grown(epsilon)
    return {
        report: (e if value <= report < value + window else mpf(1)) / (e * window + top)
        for report in range(top + window)
    }


def one_bit(epsilon: str, top: int) -> Case:
    exact = Fraction(epsilon)
    return case(OneBitMean(exact, top), lambda value: one_bit_law(exact, top, value), range(top + 1))


def piecewise(epsilon: str, top: int) -> Case:
    mechanism = PiecewiseMean(Fraction(epsilon), top)
    width = mechanism.window
    return case(mechanism, lambda value: piecewise_law(mechanism.epsilon, top, width, value), range(top + 1))


def hybrid(epsilon: str, top: int) -> Case:
    mechanism = HybridMean(Fraction(epsilon), top)
    width = mechanism.parts[1].window

    def law(value: int) -> dict[Any, Any]:
        coin = 1 - mp.exp(-real(mechanism.epsilon) / 2) if mechanism.epsilon > Fraction("0.61") else mpf(0)
        bit, number = (
            one_bit_law(mechanism.epsilon, top, value),
            piecewise_law(mechanism.epsilon, top, width, value),
        )
        return {report: (1 - coin) * mass for report, mass in bit.items()} | {
            2 + report: coin * mass for report, mass in number.items()
        }

    return case(mechanism, law, range(top + 1))


def rappor(bits: int, hashes: int, f: str) -> Case:
    """What all reports of one memo can tell is the memo."""
    mechanism = Rappor(bits, hashes, f, "1/2", "3/4")  # type: ignore[arg-type]
    flip = Fraction(f) / 2

    def law(value: int) -> dict[Any, Any]:
        filled = mechanism.bloom([value])[0].tolist()
        return {
            memo: mp.fprod(real(1 - flip if bit == held else flip) for bit, held in zip(memo, filled, strict=True))
            for memo in product((False, True), repeat=bits)
        }

    items = [item for item in range(60) if mechanism.bloom([item]).sum() == hashes]
    apart = next(
        (one, other)
        for one, other in combinations(items, 2)
        if not (mechanism.bloom([one]) & mechanism.bloom([other])).any()
    )
    return case(mechanism, law, apart, mechanism.epsilon_forever)


def count_mean(epsilon: str, hashes: int, width: int) -> Case:
    mechanism = CountMeanSketch(epsilon, hashes, width)  # type: ignore[arg-type]

    def law(value: int) -> dict[Any, Any]:
        flip = 1 / (1 + mp.exp(real(Fraction(epsilon)) / 2))
        found = {}
        for row in range(hashes):
            held = place_of(mechanism, row, value)
            for bits in product((0, 1), repeat=width):
                mass = mp.fprod(1 - flip if bit == (place == held) else flip for place, bit in enumerate(bits))
                found[(row >> 8, row & 255, *packed(bits))] = mass / hashes
        return found

    return case(mechanism, law, range(5))


def hadamard_sketch(epsilon: str, hashes: int, width: int) -> Case:
    mechanism = HadamardSketch(epsilon, hashes, width)  # type: ignore[arg-type]

    def law(value: int) -> dict[Any, Any]:
        e = grown(Fraction(epsilon))
        return {
            2 * (row * width + spot) + bit: (
                e if bit == bin(spot & place_of(mechanism, row, value)).count("1") % 2 else mpf(1)
            )
            / ((e + 1) * hashes * width)
            for row in range(hashes)
            for spot in range(width)
            for bit in (0, 1)
        }

    return case(mechanism, law, range(5))


def place_of(sketch: CountMeanSketch | HadamardSketch, row: int, item: int) -> int:
    """Where an item falls: the hash is public, and privacy asks nothing of it."""
    return int(places(sketch.key, sketch.hashes, sketch.width, np.array(row), np.array([item]))[0])


def prefixes(epsilon: str, alphabet: int, length: int, levels: tuple[int, ...], buckets: int) -> Case:
    mechanism = Prefixes(epsilon, alphabet, length, levels, 2, buckets)  # type: ignore[arg-type]

    def law(value: int) -> dict[Any, Any]:
        found = {}
        for level, reach in enumerate(levels):
            prefix = value // alphabet ** (length - reach)
            held = int(mechanism.place(level, np.array([prefix]))[0])
            oracle = mechanism.oracle(level)
            for report in oracle.report_space():
                low, _ = oracle.likelihood(report, held, 300)  # the oracles' own laws stand above
                found[(level, int(report))] = mpf(low) / 2**300 / len(levels)
        return found

    return case(mechanism, law, range(alphabet**length))


CASES: tuple[Case, ...] = (
    direct("1", 2),
    direct("1/3", 5),
    unary("1", 2),
    unary("2", 5),
    hadamard("1", 2),
    hadamard("1/2", 6),
    projective("1", 2),
    projective("1", 6),
    projective("5/2", 9),
    subset("1", 2),
    subset("1/2", 6),
    subset("1", 9),
    hashed("1", 4),
    hashed("3", 3),
    one_bit("1", 1),
    one_bit("2", 7),
    piecewise("1", 1),
    piecewise("1", 9),
    piecewise("7/2", 12),
    hybrid("1/2", 5),
    hybrid("2", 6),
    rappor(6, 1, "1/2"),
    rappor(8, 2, "1/4"),
    count_mean("1", 3, 4),
    count_mean("4", 2, 6),
    hadamard_sketch("1", 3, 4),
    prefixes("1", 3, 2, (1, 2), 4),
    prefixes("3", 2, 2, (2,), 4),
)
