"""Health tests: they notice a source that broke, not an opponent who stays within its bias  [SP 800-90B, §4.4].

Every cut-off is an exact integer for the largest probability p = (1 + gamma) / 2 that a bit may have: each source of
that bias passes each test, at each place where it is made, except with probability 2^-40.  Proof: proofs/consistent.md
"""

import os
from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import comb, log, log2
from threading import Lock

import numpy as np
import numpy.typing as npt

from sfumato.errors import EntropyFailed
from sfumato.exact import integer
from sfumato.randomness.adversary import read_bias
from sfumato.randomness.margin import smallest_covering
from sfumato.randomness.source import Source, as_gamma, as_source, declared_gamma, octets, read_declared, sample_size

ALARMS = ("repetition", "proportion", "balance", "lag", "repeat")
_ALPHA_BITS = 40
_WINDOW_BITS = 1024
_STRETCH_BITS = 65_536
_BLOCK_BYTES = 8_192
_LAG_COUNT = 64
_MAX_WORDS = 4_096
_GUARD_BITS = 192  # bits of the fixed point in which the tail of a binomial law is enclosed

Bits = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Health:
    """Results of the tests: the names of those that failed, and the largest observed bias, which is no bound."""

    alarms: tuple[str, ...]
    estimate: float


def repetition_cutoff(gamma: object, alpha_bits: int = _ALPHA_BITS) -> int:
    """Return how many equal bits in a row no source of this bias gives: least C with p^(C - 1) <= 2^-alpha.

    >>> repetition_cutoff(0), repetition_cutoff("1/10"), repetition_cutoff(0, 20)
    (41, 48, 21)
    """
    likeliest, alpha = _likeliest(gamma), integer(alpha_bits, "alpha_bits", 1)
    guess = 1 + alpha / -log2(likeliest)
    return smallest_covering(lambda count: likeliest ** (count - 1) <= Fraction(1, 1 << alpha), guess, least=1)


def proportion_cutoff(gamma: object, window: int = _WINDOW_BITS, alpha_bits: int = _ALPHA_BITS) -> int:
    """Return the least C with P[Bin(window, p) >= C] <= 2^-alpha: no such source repeats its first bit that often.

    >>> proportion_cutoff(0), proportion_cutoff("1/10"), proportion_cutoff(0, alpha_bits=20)
    (625, 675, 589)
    """
    return _cutoff(_likeliest(gamma), integer(window, "window", 1), integer(alpha_bits, "alpha_bits", 1))


def examine(data: bytes, gamma: object) -> Health:
    """Run every test over data. A source with gamma = 1 passes all tests, as any output is allowed."""
    examiner, drawn = _Examiner(as_gamma(gamma)), octets(data, "data")
    found: set[str] = set()
    for start in range(0, len(drawn), _BLOCK_BYTES // 8):
        found |= examiner.take(drawn[start : start + _BLOCK_BYTES // 8])
    return Health(tuple(name for name in ALARMS if name in found), examiner.estimate)


class Watched:
    """Another source, examined before any bit of it is served; an alarm is final."""

    __slots__ = ("_examiner", "_left", "_lock", "_process", "_source", "alarms")

    def __init__(self, source: Source) -> None:
        self._source = as_source(source)
        self._lock = Lock()
        self._left = bytearray()
        self._process = os.getpid()
        self._examiner = _Examiner(declared_gamma(source))
        self.alarms: tuple[str, ...] = ()
        """The tests that failed; none while the source serves."""

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def gamma(self) -> Fraction:
        return declared_gamma(self._source)

    def read(self, count: int) -> bytes:
        size = sample_size(count)
        with self._lock:
            if self._process != os.getpid():  # a child must not give out what its parent gives out
                self._left.clear()
                self._process = os.getpid()
            while len(self._left) < size:
                self._refill()
            served = bytes(self._left[:size])
            del self._left[:size]
            return served

    def _refill(self) -> None:
        if not self.alarms:
            block = read_declared(self._source, _BLOCK_BYTES // 8)
            found = self._examiner.take(block)
            self.alarms = tuple(name for name in ALARMS if name in found)
            if not self.alarms:
                self._left += block
                return
        self._left.clear()
        raise EntropyFailed(
            f"The random source {self.name} failed its health tests: {', '.join(self.alarms)}.",
            "No source of the declared bias gives such bits, but for one in 2^40.",
            "Nothing was released, and this source serves no more. Replace or repair it, then start again.",
        )


class _Examiner:
    """The tests over a stream, block by block: at most a block behind, whatever the blocks are."""

    def __init__(self, gamma: Fraction) -> None:
        self._gamma = gamma if gamma < 1 else None
        self._last = np.zeros(0, dtype=np.uint8)  # the bits before this block, for runs and lags
        self._run = 0
        self._seen = 0
        self._ones = 0
        self._agreed = np.zeros(_LAG_COUNT, dtype=np.int64)
        self._compared = np.zeros(_LAG_COUNT, dtype=np.int64)
        self._window = np.zeros(0, dtype=np.uint8)
        self._part = b""
        self._words: deque[bytes] = deque()
        self._known: set[bytes] = set()
        self.estimate = 0.0

    def take(self, block: bytes) -> set[str]:
        """Return the names of the tests that fail with these bits."""
        bits = np.unpackbits(np.frombuffer(block, dtype=np.uint8))
        if not len(bits):
            return set()
        self._count(bits)
        alarms = set()
        if self._gamma is not None:
            failed = {
                "repetition": self._repeats_bits(bits, self._gamma),
                "proportion": self._leans(bits, self._gamma),
                "balance": self._is_unbalanced(self._gamma),
                "lag": self._agrees(self._gamma),
                "repeat": self._repeats_words(block, self._gamma),
            }
            alarms = {name for name, found in failed.items() if found}
        self._last = np.concatenate([self._last, bits])[-_LAG_COUNT:]
        if self._seen >= _STRETCH_BITS:
            self._seen = self._ones = 0
            self._agreed[:] = 0
            self._compared[:] = 0
        return alarms

    def _count(self, bits: Bits) -> None:
        """Count ones, and agreements with earlier bits, over this stretch."""
        self._seen += len(bits)
        self._ones += int(bits.sum())
        joined = np.concatenate([self._last, bits])
        for lag in range(1, _LAG_COUNT + 1):
            first = max(len(self._last), min(lag, len(joined)))
            now, before = joined[first:], joined[max(0, first - lag) : max(0, len(joined) - lag)]
            self._agreed[lag - 1] += int((now == before).sum())
            self._compared[lag - 1] += len(now)
        shares = [self._ones / self._seen, *(self._agreed / np.maximum(self._compared, 1))[self._compared > 0]]
        self.estimate = max(self.estimate, *(abs(2 * float(share) - 1) for share in shares))

    def _repeats_bits(self, bits: Bits, gamma: Fraction) -> bool:
        changes = np.flatnonzero(np.diff(bits)) + 1
        starts = np.concatenate([[0], changes, [len(bits)]])
        runs = np.diff(starts)
        if len(self._last) and bits[0] == self._last[-1]:
            runs[0] += self._run
        self._run = int(runs[-1])
        return bool(runs.max() >= repetition_cutoff(gamma))

    def _leans(self, bits: Bits, gamma: Fraction) -> bool:
        self._window = np.concatenate([self._window, bits])
        whole_bits = len(self._window) // _WINDOW_BITS * _WINDOW_BITS
        windows, self._window = self._window[:whole_bits].reshape(-1, _WINDOW_BITS), self._window[whole_bits:]
        alike = (windows == windows[:, :1]).sum(axis=1)
        return bool((alike >= proportion_cutoff(gamma)).any())

    def _is_unbalanced(self, gamma: Fraction) -> bool:
        most = max(self._ones, self._seen - self._ones)
        return most >= _cutoff(_likeliest(gamma), self._seen, _ALPHA_BITS + 1)

    def _agrees(self, gamma: Fraction) -> bool:
        # the very first bits have none before them: fewer are compared than were seen, which alarms no oftener
        most = np.maximum(self._agreed, self._compared - self._agreed).max()
        return bool(most >= _cutoff(_likeliest(gamma), self._seen, _ALPHA_BITS + 7))

    def _repeats_words(self, block: bytes, gamma: Fraction) -> bool:
        size = _word_bits(gamma) // 8
        text, found = self._part + block, False
        for start in range(0, len(text) - size + 1, size):
            word = text[start : start + size]
            found |= word in self._known
            if word not in self._known:
                self._words.append(word)
                self._known.add(word)
            if len(self._words) > _MAX_WORDS:
                self._known.discard(self._words.popleft())
        self._part = text[len(text) // size * size :]
        return found


def _likeliest(gamma: object) -> Fraction:
    return (1 + read_bias(gamma)) / 2


@lru_cache(maxsize=64)
def _word_bits(gamma: Fraction) -> int:
    """Return the least multiple of 128 bits of which two words among 4,096 agree with probability at most 2^-40."""
    likeliest, bits = _likeliest(gamma), 128
    while likeliest**bits > Fraction(1, 1 << 23 + _ALPHA_BITS):
        bits += 128
    return bits


@lru_cache(maxsize=4096)
def _cutoff(likeliest: Fraction, trials: int, alpha: int) -> int:
    """Return the least C with P[Bin(trials, p) >= C] <= 2^-alpha; trials + 1 where even all of them may be alike."""
    counts = np.arange(trials + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, trials + 1)))])
    chances = logs[trials] - logs - logs[::-1] + counts * log(likeliest) + (trials - counts) * log(1 - likeliest)
    tails = np.cumsum(np.exp(chances)[::-1])[::-1]
    guess = int((tails > 0.5**alpha).sum())  # the guess decides how long it takes, never what comes out
    return smallest_covering(lambda count: _rare(likeliest, trials, count, alpha), guess)


def _rare(likeliest: Fraction, trials: int, count: int, alpha: int) -> bool:
    """Decide P[Bin(trials, p) >= count] <= 2^-alpha: the first term exactly, the ratios of the rest enclosed."""
    if count > trials:
        return True
    if count <= trials * likeliest:
        return False  # the tail from the mean on is above 1/4 for p >= 1/2, and 2^-alpha is at most 1/2
    numerator, denominator = likeliest.numerator, likeliest.denominator
    first: int = comb(trials, count) * numerator**count * (denominator - numerator) ** (trials - count)
    shift = _GUARD_BITS + alpha  # terms are kept as integers in units of 2^-shift
    whole: int = denominator**trials
    low, high = (first << shift) // whole, -((-first << shift) // whole)
    total_low, total_high, one = low, high, 1 << shift - alpha
    for index in range(count, trials):
        if total_low > one or high <= 1:
            break
        up, down = (trials - index) * numerator, (index + 1) * (denominator - numerator)
        low, high = low * up // down, -(-high * up // down)
        total_low, total_high = total_low + low, total_high + high
        if total_high + _remainder_bound(high, index + 1, trials, numerator, denominator) <= one:
            return True
    return total_high + _remainder_bound(high, trials, trials, numerator, denominator) <= one


def _remainder_bound(term: int, place: int, trials: int, numerator: int, denominator: int) -> int:
    """Bound the terms after one by a geometric series: their ratios fall."""
    up, down = (trials - place) * numerator, (place + 1) * (denominator - numerator)
    return -(-term * up // (down - up)) if up < down else term * trials
