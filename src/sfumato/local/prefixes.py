"""The most common values of a domain too large to list, found prefix by prefix, and a plan that says which."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from math import isqrt

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from sfumato.accounting.event import Neighbours, Pure
from sfumato.certified.binary import Between
from sfumato.errors import BadParameter
from sfumato.exact import integer, probability
from sfumato.local.binomial import mean_chance
from sfumato.local.direct import DirectResponse
from sfumato.local.hadamard import HadamardResponse
from sfumato.local.hashing import PRIME, bucket, line
from sfumato.local.projective import ProjectiveResponse
from sfumato.local.reading import (
    MAX_CATEGORIES,
    Integers,
    Reals,
    integer_rows,
    not_reports,
    one_report,
    read_bits,
    read_epsilon,
    read_integer,
    read_key,
    read_shares,
    read_value,
    require_listable,
    source_or_system,
)
from sfumato.mechanisms.columns import integer_column
from sfumato.randomness.source import Source
from sfumato.randomness.uniform import UniformInteger

Coding = DirectResponse | HadamardResponse | ProjectiveResponse
"""The oracles whose report is one integer."""
_MODELLED_VALUES = 10_000
"""Number of values in the model by which plans are compared."""


@dataclass(frozen=True, slots=True)
class Found:
    """The values with the greatest estimated shares, greatest first; the intervals hold for all of them together."""

    values: Integers
    shares: Reals
    intervals: Reals


@dataclass(frozen=True, slots=True)
class Prefixes:
    """Each person draws a level and reports the prefix of that length by the best oracle, hashed if they are many.

    Theorem: a report is ε-DP under replace; the intervals of `find` hold jointly, for all people and every
    selection.  [Wang, Li, Jha 2018]  Proof: proofs/local_prefixes.md

    A value is an integer below alphabet^length, first letter first. A report is the row (level, report of the oracle).
    At a level whose prefixes outnumber `buckets` a public hash joins prefixes; there an interval begins at 0.
    """

    epsilon: Fraction
    alphabet: int
    length: int
    levels: tuple[int, ...]
    kept: int
    buckets: int
    key: bytes = b""

    def __post_init__(self) -> None:
        read_epsilon(self)
        _read_domain(self)
        read_integer(self, "kept", 1, MAX_CATEGORIES)
        read_integer(self, "buckets", 2, MAX_CATEGORIES)
        read_key(self)
        levels = self.levels if isinstance(self.levels, tuple | list) else ()
        lengths = tuple(integer(level, "levels", 1) for level in levels)
        object.__setattr__(self, "levels", lengths)
        rising = all(length < other for length, other in pairwise(lengths))
        if not lengths or not rising or lengths[-1] != self.length or self.alphabet ** lengths[0] > self.buckets:
            raise BadParameter(
                "levels do not lead from the first letter to the last.",
                "Lengths of prefixes rise to the whole length, and those of the first level fit into the buckets.",
                "Let `plan` choose them.",
            )

    @property
    def event(self) -> Pure:
        """The privacy loss of one report, for the person who gives it."""
        return Pure(self.epsilon, Neighbours.REPLACE)

    def release(self, values: object, source: Source | None = None) -> Integers:
        """Return one row (level, report) per person."""
        true, coins = integer_column(values, 0, self.alphabet**self.length - 1, "values"), source_or_system(source)
        level = UniformInteger(len(self.levels)).draw(len(true), coins)
        reports = np.column_stack([level, np.zeros_like(level)])
        for number in range(len(self.levels)):
            mine = level == number
            prefixes = true[mine] // self.alphabet ** (self.length - self.levels[number])
            reports[mine, 1] = self.oracle(number).release(self.place(number, prefixes), coins)
        return reports

    def oracle(self, level: int) -> Coding:
        """Return the oracle of a level: of those whose report is an integer, the one that errs least."""
        return _choose_coding(self.epsilon, min(self.buckets, self.alphabet ** self.levels[level]))

    def listed(self, level: int) -> bool:
        """Say whether each prefix of a level has a bucket of its own."""
        return bool(self.alphabet ** self.levels[level] <= self.buckets)

    def place(self, level: int, prefixes: Integers) -> Integers:
        """Return the buckets of prefixes: their own, or those of a public hash."""
        if self.listed(level):
            return prefixes
        drawn = blake2b(b"%d/" % level + self.key, digest_size=16, person=b"sfumato.prefixes").digest()
        slope, shift = (int.from_bytes(half, "big") % PRIME for half in (drawn[:8], drawn[8:]))
        ones = np.ones_like(prefixes)
        return bucket(line(slope * ones, shift * ones, prefixes), self.buckets)

    def find(self, reports: object, wanted: object, confidence: object = "0.95") -> Found:
        """Return the `wanted` values that seem most common, with shares and joint intervals at this level."""
        rows, most = self.checked(reports), integer(wanted, "wanted", 1)
        error = 1 - float(probability(confidence, "confidence"))
        candidates = np.arange(self.alphabet ** self.levels[0])
        last = len(self.levels) - 1
        for level in range(last + 1):
            sent = rows[rows[:, 0] == level, 1]
            if len(sent) == 0:
                raise BadParameter(
                    f"There is no report of level {level}.", "Every level needs people.", "Collect more reports."
                )
            oracle, places = self.oracle(level), self.place(level, candidates)
            tally = oracle.tally(sent)
            shares = oracle.estimate(tally)[places]
            best = np.argsort(-shares, kind="stable")[: most if level == last else self.kept]
            if level == last:
                bounds = mean_chance(tally.support[places[best]], len(sent), error / len(candidates))
                ends = np.clip((bounds - oracle.false) / (oracle.hit - oracle.false), 0.0, 1.0)
                if not self.listed(level):
                    ends[:, 0] = 0.0  # others may share the bucket
                return Found(candidates[best], shares[best], ends)
            more = self.alphabet ** (self.levels[level + 1] - self.levels[level])
            candidates = (candidates[best, np.newaxis] * more + np.arange(more)).reshape(-1)
        raise AssertionError("a last level returns")

    def checked(self, reports: object) -> Integers:
        """Return reports that `release` can have returned, or refuse them."""
        meaning = "rows of a level and the report of its oracle"
        rows = integer_rows(reports, 2, meaning)
        if len(rows) and int(rows[:, 0].max()) >= len(self.levels):
            raise not_reports(meaning)
        for level in range(len(self.levels)):
            self.oracle(level).checked(rows[rows[:, 0] == level, 1])
        return rows

    def likelihood(self, report: object, value: int, bits: int) -> Between:
        """Enclose P[report | value] * 2**bits."""
        level, sent = one_report(report, self.checked)[0]
        prefix = read_value(value, self.alphabet**self.length) // self.alphabet ** (self.length - self.levels[level])
        held = int(self.place(level, np.array([prefix]))[0])
        low, high = self.oracle(level).likelihood(sent, held, read_bits(bits))
        return low // len(self.levels), -(-high // len(self.levels))

    def report_space(self) -> Integers:
        """List all possible reports, sorted."""
        spaces = [self.oracle(level).report_space() for level in range(len(self.levels))]
        require_listable(sum(map(len, spaces)))
        return np.concatenate([np.column_stack([np.full_like(s, level), s]) for level, s in enumerate(spaces)])


@dataclass(frozen=True, slots=True)
class Plan:
    """What a survey of `people` people can find, computed before any report."""

    prefixes: Prefixes
    people: int
    wanted: int

    def recall(self, shares: object) -> float:
        """Return the expected fraction of the `wanted` most common values that will be found, given true shares.

        Noise is taken as normal, and letters as if drawn at random: values that share prefixes are found more often.
        """
        true = np.sort(read_shares(shares))[::-1]
        if true[-1] < 0 or true.sum() > 1 + 1e-9:
            raise BadParameter(
                "shares is not a list of shares of all people.",
                "Shares are at least 0 and sum to at most 1.",
                "Give one share per value.",
            )
        survival, space = np.ones(len(true)), self.prefixes
        names = _scatter_names(len(true), space.alphabet**space.length)
        candidates = space.alphabet ** space.levels[0]
        for level, length in enumerate(space.levels):
            last = level == len(space.levels) - 1
            prefix, inverse = np.unique(names // space.alphabet ** (space.length - length), return_inverse=True)
            held: Reals = np.bincount(inverse, weights=true, minlength=len(prefix)).astype(np.float64)
            alive = np.zeros(len(prefix))
            np.maximum.at(alive, inverse, survival)
            alive = alive * min(1.0, candidates / max(alive.sum(), 1e-300))
            found = self._select_candidates(level, held, alive, candidates, self.wanted if last else space.kept)
            survival = survival * found[inverse]
            if not last:
                more = space.alphabet ** (space.levels[level + 1] - length)
                candidates = min(space.kept, candidates) * more
        return float(survival[: self.wanted].mean())

    def _select_candidates(self, level: int, held: Reals, alive: Reals, candidates: int, kept: int) -> Reals:
        """Return how likely each prefix is among the `kept` best of the candidates."""
        if candidates <= kept:
            return np.ones(len(held))
        # each bucket of a public hash holds this many other candidates, which look alike
        twins = 0.0 if self.prefixes.listed(level) else candidates / self.prefixes.buckets
        deviations, nobody = self._deviation(level, held), float(self._deviation(level, np.zeros(1))[0])

        def chosen(threshold: float) -> float:
            others = max(0.0, candidates - float(alive.sum())) * float(ndtr(-threshold / nobody))
            return (1 + twins) * float(alive @ ndtr((held - threshold) / deviations)) + others

        below, above = -10 * nobody, 1 + 10 * nobody
        for _ in range(60):
            middle = (below + above) / 2
            below, above = (middle, above) if chosen(middle) > kept else (below, middle)
        return np.asarray(ndtr((held - above) / deviations), dtype=np.float64)

    def _deviation(self, level: int, shares: Reals) -> Reals:
        """Return the standard deviation of estimated shares at a level, coins and the choice of people together."""
        oracle = self.prefixes.oracle(level)
        chance = oracle.false + shares * (oracle.hit - oracle.false)
        people = self.people / len(self.prefixes.levels)
        return np.asarray(np.sqrt(chance * (1 - chance) / people) / (oracle.hit - oracle.false), dtype=np.float64)

    @property
    def least_share(self) -> float:
        """The share from which a value is found with probability 0.9; above 1 if none can be found."""
        space, worst = self.prefixes, 0.0
        candidates = space.alphabet ** space.levels[0]
        for level, length in enumerate(space.levels):
            last = level == len(space.levels) - 1
            deviation = float(self._deviation(level, np.zeros(1))[0])
            chance = min(0.5, (self.wanted if last else space.kept) / candidates)
            worst = max(worst, deviation * (float(-ndtri(chance)) + 1.2816))
            if not last:
                candidates = min(space.kept, candidates) * space.alphabet ** (space.levels[level + 1] - length)
        return worst

    def __str__(self) -> str:
        people, levels = f"{self.people:,} people", ", ".join(map(str, self.prefixes.levels))
        how = f"prefixes of {levels} letters, epsilon {self.prefixes.epsilon}"
        if self.least_share >= 1:
            return f"With {people} no value can be found ({how})."
        return f"With {people} a value that {self.least_share:.2%} of them hold is found nine times in ten ({how})."


def plan(epsilon: object, people: object, alphabet: object, length: object, wanted: object) -> Plan:
    """Return the prefixes that find the most of values whose shares follow Zipf's law, and of equals rarer values.

    >>> plan(4, 1_000_000, 26, 6, 10).prefixes.levels
    (3, 5, 6)
    """
    size, most = integer(people, "people", 1), integer(wanted, "wanted", 1)
    letters, reach = integer(alphabet, "alphabet", 2), integer(length, "length", 1)
    zipf = 1 / np.arange(1.0, 1 + min(20 * most, _MODELLED_VALUES))
    found = []
    for kept, buckets, levels in _search_settings(letters, reach, most):
        space = Prefixes(epsilon, letters, reach, levels, kept, buckets)  # type: ignore[arg-type]
        proposed = Plan(space, size, most)
        found.append((-round(proposed.recall(zipf / zipf.sum()), 2), proposed.least_share, buckets, kept, proposed))
    if found:
        return min(found, key=lambda candidate: candidate[:4])[4]
    raise BadParameter(
        "No plan was found.",
        "The alphabet is too large, or too many values are wanted for it.",
        "Spell values in a smaller alphabet (bytes, or halves of bytes), or ask for fewer.",
    )


def _search_settings(alphabet: int, length: int, wanted: int) -> set[tuple[int, int, tuple[int, ...]]]:
    """Return what to compare: how many prefixes are kept, how many buckets there are, the lengths of prefixes."""
    found = set()
    for half in range(4, 41):
        buckets = isqrt(1 << half)
        for kept in (-(-5 * wanted // 4), 2 * wanted):
            for crowding in (4, 16):
                levels = _prefix_lengths(alphabet, length, crowding * kept, buckets)
                if levels:
                    found.add((kept, buckets, levels))
    return found


def _prefix_lengths(alphabet: int, length: int, room: int, buckets: int) -> tuple[int, ...]:
    """Return lengths of prefixes: as long as can be listed, then as many letters more as candidates leave room for."""
    first = _letters(alphabet, buckets, length)
    step = _letters(alphabet, buckets // room, length)
    if first < length and 0 in (first, step):
        return ()
    return (*range(first, length, step or 1), length) if first else ()


def _letters(alphabet: int, most: int, length: int) -> int:
    """Return how many letters, at most `length`, make at most that many words."""
    letters = 0
    while letters < length and alphabet ** (letters + 1) <= most:
        letters += 1
    return letters


def _read_domain(space: Prefixes) -> None:
    read_integer(space, "alphabet", 2, MAX_CATEGORIES)
    read_integer(space, "length", 1, 60)
    if space.alphabet**space.length >= PRIME:
        raise BadParameter(
            "The values are too long.", "alphabet^length stays below 2^61 - 1.", "Cut values, or hash them first."
        )


@lru_cache(maxsize=1024)
def _choose_coding(epsilon: Fraction, categories: int) -> Coding:
    oracles: tuple[Coding, ...] = (
        DirectResponse(epsilon, categories),
        ProjectiveResponse(epsilon, categories),
        HadamardResponse(epsilon, categories),
    )
    return min(oracles, key=lambda oracle: (oracle.rates.spread(), oracle.report_bits))


def _scatter_names(count: int, below: int) -> Integers:
    """Return made-up names, spread over the domain as if at random."""
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed: npt.NDArray[np.uint64] = (steps ^ (steps >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    return (mixed % np.uint64(below)).astype(np.int64)
