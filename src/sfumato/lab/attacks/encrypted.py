"""The attack on encrypted columns: public frequencies give deterministic and ordered ciphertexts away  [NKW15].

A made-up hospital keeps names beside columns whose equality (sex, department) or order (age) is visible. Ranks are
matched with ranks, and cumulative shares with cumulative shares. Then the same is tried on what a sealed store sees:
tokens of cells and their padded sizes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.source import Source
from sfumato.randomness.uniform import UniformInteger

DEPARTMENTS = (300, 220, 160, 120, 80, 60, 40, 20)
SEXES = (540, 460)
MAX_AGE_YEARS = 99
EPSILON = Fraction(1, 2)
DUMMY_SHIFT = 27
"""Dummies of a cell before noise, at epsilon 1/2, delta 1e-6 and one row per person: sealed.Padding computes it."""
PUBLIC_YEAR_FACTOR = 4
"""Factor by which the public year has more patients, in a hospital whose departments differ by a tenth."""
TOLERANCE_YEARS = 3
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EncryptedColumn:
    """How many rows an attack on one column recovered, and how many a guess by the public mode does."""

    name: str
    scheme: str
    recovered: float
    guessed: float


@dataclass(frozen=True, slots=True)
class Encrypted:
    """Result of the frequency attack."""

    patients: int
    columns: tuple[EncryptedColumn, ...]
    named: float
    """The share of real rows whose token was given its right name: the store's view is a noisy histogram."""
    sealed: tuple[EncryptedColumn, ...]

    def report(self) -> str:
        """Return the result, line by line."""
        return "\n".join(
            [
                f"Encrypted columns: {self.patients:,} patients with names, and the public frequencies of another year",
                "",
                "  column      scheme                recovered   by the public mode alone",
                *(self._line(column) for column in self.columns),
                "",
                "The same hospital, sealed: the store sees a token per cell (department and sex) and padded sizes",
                *(self._line(column) for column in self.sealed),
                "",
                f"Tokens are named too: {self.named:.0%} of the rows lie in a cell whose token got its right name.",
                "That is a private histogram, which was paid for. No row leads to a name, so a person's value is",
                "guessed as well as by the public mode, and no better.",
            ]
        )

    @staticmethod
    def _line(column: EncryptedColumn) -> str:
        return f"  {column.name:10}  {column.scheme:20}  {column.recovered:9.1%}   {column.guessed:9.1%}"


@dataclass(frozen=True, slots=True)
class _Hospital:
    departments: Numbers
    sexes: Numbers
    ages: Numbers

    @property
    def cells(self) -> Numbers:
        return self.departments * len(SEXES) + self.sexes


def run(patients: int, source: Source) -> Encrypted:
    """Attack the columns of a hospital, first as databases of the past encrypted them, then sealed."""
    target = _hospital(patients, DEPARTMENTS, source)
    reference = _hospital(
        PUBLIC_YEAR_FACTOR * patients,
        [weight + (-1) ** index * weight // 10 for index, weight in enumerate(DEPARTMENTS)],
        source,
    )
    columns = (
        _by_rank("department", target.departments, reference.departments, len(DEPARTMENTS)),
        _by_rank("sex", target.sexes, reference.sexes, len(SEXES)),
        _by_order(target.ages, reference.ages),
    )
    named, sealed = _attack_sealed(target, reference, source)
    return Encrypted(patients, columns, named, sealed)


def _hospital(patients: int, weights: Sequence[int], source: Source) -> _Hospital:
    ages = [20 + 3 * min(age, 80) - 12 * max(0, age - 80) for age in range(MAX_AGE_YEARS + 1)]
    drawn = (_draw_by_weight(patients, law, source) for law in (weights, SEXES, ages))
    return _Hospital(*drawn)


def _draw_by_weight(count: int, weights: Sequence[int], source: Source) -> Numbers:
    """Draw values by integer weights, exactly."""
    ends = np.cumsum(weights)
    places: Numbers = np.searchsorted(ends, UniformInteger(int(ends[-1])).draw(count, source), side="right").astype(
        np.int64
    )
    return places


def _by_rank(name: str, target: Numbers, reference: Numbers, values: int) -> EncryptedColumn:
    """Give the most frequent ciphertext the most frequent value, and so on: the ciphertexts themselves say nothing."""
    meaning = _match_frequencies(np.bincount(target, minlength=values), np.bincount(reference, minlength=values))
    return EncryptedColumn(name, "deterministic", float(np.mean(meaning[target] == target)), _mode(target, reference))


def _match_frequencies(target: Numbers, public: Numbers) -> Numbers:
    """Return which value each ciphertext is taken for."""
    meaning = np.empty(len(target), dtype=np.int64)
    meaning[np.argsort(-target, kind="stable")] = np.argsort(-public, kind="stable")
    return meaning


def _mode(target: Numbers, reference: Numbers, near: int = 0) -> float:
    """Return how often the best single guess from public frequencies is right, or so near."""
    values = np.arange(int(reference.max()) + 1)
    hits = [int(np.sum(np.abs(reference - value) <= near)) for value in values]
    return float(np.mean(np.abs(target - values[int(np.argmax(hits))]) <= near))


def _by_order(target: Numbers, reference: Numbers) -> EncryptedColumn:
    """Give each ciphertext the value at its own cumulative share; as much is right as lies within three years."""
    known = np.sort(reference)
    below = np.searchsorted(np.sort(target), target, side="left") + np.searchsorted(
        np.sort(target), target, side="right"
    )
    guess = known[np.minimum(below * len(known) // (2 * len(target)), len(known) - 1)]
    right = float(np.mean(np.abs(guess - target) <= TOLERANCE_YEARS))
    return EncryptedColumn(
        f"age ± {TOLERANCE_YEARS}", "order-preserving", right, _mode(target, reference, TOLERANCE_YEARS)
    )


def _attack_sealed(
    target: _Hospital, reference: _Hospital, source: Source
) -> tuple[float, tuple[EncryptedColumn, ...]]:
    """Return how many rows lie in rightly named cells, and what can be guessed of a person with all of it known."""
    cells = len(DEPARTMENTS) * len(SEXES)
    dummies = np.maximum(0, DUMMY_SHIFT + DiscreteLaplace(1 / EPSILON).draw(cells, source))
    sizes = np.bincount(target.cells, minlength=cells) + dummies
    meaning = _match_frequencies(sizes, np.bincount(reference.cells, minlength=cells))
    named = float(np.mean(meaning[target.cells] == target.cells))
    # rows have no names, and dummies look like rows: of a person the best guess is the largest cell
    largest = int(meaning[int(np.argmax(sizes))])
    guess = float(np.mean(target.cells == largest))
    prior = _mode(target.ages, reference.ages, TOLERANCE_YEARS)
    return named, (
        EncryptedColumn("cell", "token of a cell", guess, _mode(target.cells, reference.cells)),
        EncryptedColumn(f"age ± {TOLERANCE_YEARS}", "sums of residues", prior, prior),
    )
