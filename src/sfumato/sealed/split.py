"""Split trust: one process holds ciphertexts, another the key, and each adds its share of the noise.

Theorem: `combine` learns only the sums plus integer Laplace noise, as long as `threshold` of the shares in
them are of parties that do not collude with it.  Proof: proofs/sealed.md
"""

import hmac
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from threading import Lock
from typing import NoReturn

import numpy as np

from sfumato.errors import BadParameter
from sfumato.exact import integer, positive_rational
from sfumato.randomness.source import Source, read_exactly
from sfumato.sealed.ashe import PRIMES, Ashe
from sfumato.sealed.keys import Key
from sfumato.sealed.padding import Padding
from sfumato.sealed.shares import PolyaShare

NONCE_BYTES = 32
_MASK_BYTES = 32


@dataclass(frozen=True, slots=True)
class SplitQuestion:
    """Sums of cells, group by group, with noise of a scale in units of the values; both keepers see it.

    `threshold` shares make the whole noise. The question is charged before it is sent: the scale must be calibrated to
    the sensitivity of each sum.
    """

    column: str
    groups: tuple[tuple[int, ...], ...]
    scale: Fraction
    threshold: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive_rational(self.scale, "scale"))
        object.__setattr__(self, "threshold", integer(self.threshold, "threshold", 1))
        are_lists = isinstance(self.groups, Sequence) and all(isinstance(group, Sequence) for group in self.groups)
        if not are_lists or not all(type(cell) is int for group in self.groups for cell in group):
            _refuse(
                "groups are not lists of cells.", "Each group has the numbers of its cells.", "Write ((0, 1), (2,))."
            )
        for group in self.groups:
            if len(set(group)) != len(group):
                _refuse("A group names a cell twice.", "Its pads would not cancel.", "Name each cell once.")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a question, named by a nonce of each keeper; a keeper answers only attempts that it began."""

    question: SplitQuestion
    store_nonce: str
    pad_nonce: str

    @property
    def digest(self) -> str:
        """Digest that binds the masks to this attempt."""
        question = self.question
        identity = [
            question.column,
            question.groups,
            str(question.scale),
            question.threshold,
            self.store_nonce,
            self.pad_nonce,
        ]
        return sha256(json.dumps(identity).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of one keeper: a uniform residue per group, and the number of noise shares in it."""

    attempt: str
    values: tuple[int, ...]
    shares: int


class Storekeeper:
    """Holder of the ciphertexts, without their key. Only the two keepers know `mask`."""

    def __init__(self, mask: bytes, prime: int = PRIMES[0]) -> None:
        self._keeper = _Keeper(mask, prime)
        self._sums: dict[tuple[str, int], int] = {}

    def store(self, column: str, batch: Sequence[Sequence[int]]) -> None:
        """Store a batch of `Padkeeper.seal`: the ciphertexts of each cell."""
        for cell, ciphertexts in enumerate(batch):
            self._sums[column, cell] = (self._sums.get((column, cell), 0) + sum(ciphertexts)) % self._keeper.prime

    def begin(self, source: Source) -> str:
        """Return a nonce for one attempt."""
        return self._keeper.begin(source)

    def answer(self, attempt: Attempt, source: Source, others: Iterable[Sequence[int]] = ()) -> Answer:
        """Return the masked sums of ciphertexts plus this keeper's share of the noise and the shares of others."""
        shares = [list(share) for share in others]
        self._keeper.use(attempt.store_nonce)
        question = attempt.question
        for share in shares:
            if len(share) != len(question.groups):
                _refuse("A share is not of this question.", "It has one number per group.", "Leave it out.")
        noise = PolyaShare(question.scale, question.threshold).draw(len(question.groups), source)
        values = []
        for index, group in enumerate(question.groups):
            total = sum(self._sum(question.column, cell) for cell in group) + int(noise[index])
            total += sum(int(share[index]) for share in shares) + self._keeper.mask(attempt, index)
            values.append(total % self._keeper.prime)
        return Answer(attempt.digest, tuple(values), 1 + len(shares))

    def _sum(self, column: str, cell: int) -> int:
        if (column, cell) not in self._sums:
            _refuse("A cell of the question holds nothing.", "It was never stored.", "Ask for cells that were sealed.")
        return self._sums[column, cell]


class Padkeeper:
    """Holder of the key and the padded sizes, without ciphertexts."""

    def __init__(self, key: Key, mask: bytes, prime: int = PRIMES[0]) -> None:
        self._key = key
        self._keeper = _Keeper(mask, prime)
        self._batches: dict[str, list[tuple[str, tuple[int, ...]]]] = {}

    def seal(
        self, column: str, cells: Sequence[Sequence[int]], padding: Padding, source: Source
    ) -> tuple[tuple[int, ...], ...]:
        """Return the ciphertexts of a batch, padded with zeros, for the storekeeper; store only the sizes.

        Values are at least 0, `padding.event` was charged, and each person has at most `padding.rows_per_unit` rows
        over all batches.
        """
        nonce = read_exactly(source, NONCE_BYTES).hex()  # it cannot be set: no pad repeats
        dummies = padding.draw(len(cells), source)
        ashe = self._ashe(column, nonce)
        sealed = tuple(
            ashe.encrypt([*values, *[0] * int(extra)], cell)
            for cell, (values, extra) in enumerate(zip(cells, dummies, strict=True))
        )
        self._batches.setdefault(column, []).append((nonce, tuple(len(cell) for cell in sealed)))
        return sealed

    def begin(self, source: Source) -> str:
        """Return a nonce for one attempt."""
        return self._keeper.begin(source)

    def answer(self, attempt: Attempt, source: Source) -> Answer:
        """Return the masked sums of pads minus this keeper's share of the noise."""
        self._keeper.use(attempt.pad_nonce)
        question = attempt.question
        noise = PolyaShare(question.scale, question.threshold).draw(len(question.groups), source)
        values = []
        for index, group in enumerate(question.groups):
            total = sum(self._pads(question.column, group)) - int(noise[index]) + self._keeper.mask(attempt, index)
            values.append(total % self._keeper.prime)
        return Answer(attempt.digest, tuple(values), 1)

    def _pads(self, column: str, group: tuple[int, ...]) -> list[int]:
        pads = []
        for nonce, sizes in self._batches.get(column, []):
            if any(not 0 <= cell < len(sizes) for cell in group):
                _refuse("A cell of the question does not exist.", "It was never sealed.", "Ask for cells that were.")
            ashe = self._ashe(column, nonce)
            rows = np.array([sizes[cell] for cell in group], dtype=np.uint64)
            pads += [int(pad) for pad in ashe.cell_pads(np.array(group, dtype=np.uint64), rows)]
        return pads

    def _ashe(self, column: str, nonce: str) -> Ashe:
        return Ashe(self._key.derive("split", column, nonce), self._keeper.prime)


def combine(
    store: Answer, pads: Answer, question: SplitQuestion, prime: int = PRIMES[0], colluders: int = 0
) -> tuple[int, ...]:
    """Return the signed noisy sum of each group; refuse fewer than `threshold` + `colluders` shares.

    Shares are counted only inside the two answers: the combiner could subtract one that was sent separately.
    """
    if store.attempt != pads.attempt or len(store.values) != len(pads.values):
        _refuse("The two answers are of different attempts.", "Their masks do not cancel.", "Ask both keepers again.")
    present, needed = store.shares + pads.shares, question.threshold + integer(colluders, "colluders", 0)
    if present < needed:
        _refuse(
            f"There are {present} shares of noise, and {needed} are needed.",
            "With fewer, the noise is less than was charged for.",
            "Ask again when more parties answer; a missing share is never replaced.",
        )
    differences = (
        (store_value - pad_value) % prime for store_value, pad_value in zip(store.values, pads.values, strict=True)
    )
    return tuple(value - prime if value > prime // 2 else value for value in differences)


class _Keeper:
    """State of either keeper: the mask's key, and the attempts begun and not yet answered."""

    def __init__(self, mask: bytes, prime: int) -> None:
        if not isinstance(mask, bytes) or len(mask) != _MASK_BYTES:
            _refuse(
                "The key of the masks is not 32 bytes.", "It is known to both keepers.", "Derive one: Key.derive(…)."
            )
        if prime not in PRIMES:
            _refuse("The prime is not one of the four supported primes.", "Both keepers use the same.", "Take 2^61-1.")
        self._mask, self.prime = mask, prime
        self._begun: set[str] = set()
        self._lock = Lock()

    def begin(self, source: Source) -> str:
        nonce = read_exactly(source, NONCE_BYTES).hex()
        with self._lock:
            self._begun.add(nonce)
        return nonce

    def use(self, nonce: str) -> None:
        """Allow one answer per attempt: two answers under one mask would reveal the difference of their noise."""
        with self._lock:
            if nonce not in self._begun:
                _refuse(
                    "This attempt was not begun here, or was answered.",
                    "Each mask can be used only once.",
                    "Begin another one.",
                )
            self._begun.discard(nonce)

    def mask(self, attempt: Attempt, group: int) -> int:
        code = hmac.new(self._mask, f"{attempt.digest} {group}".encode(), sha256).digest()
        return int.from_bytes(code, "big") % self.prime


def _refuse(what: str, why: str, remedy: str) -> NoReturn:
    raise BadParameter(what, why, remedy)
