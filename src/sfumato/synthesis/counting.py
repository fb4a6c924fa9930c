"""Rows become noisy marginals: exact integer counts, and exact integer noise on every cell, also on empty ones."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import Neighbours
from sfumato.errors import BadParameter
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.randomness.source import Source, read_exactly
from sfumato.synthesis.combining import Counts
from sfumato.synthesis.design import Axes, cells_of
from sfumato.synthesis.domain import Codes, ColumnDomain, plain_values

SEED_BYTES = 16
"""Length of the public seed of post-processing, in bytes."""
_SALT_BYTES = 32


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMarginals:
    """Everything that was released: noisy marginals, the variance of their noise, and a public seed."""

    columns: tuple[ColumnDomain, ...]
    marginals: tuple[Axes, ...]
    sigma_squared: tuple[Fraction, ...]
    tables: tuple[Counts, ...]
    seed: bytes

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(column.size for column in self.columns)


def present_codes(data: Any, columns: Sequence[ColumnDomain], groups: object, source: Source) -> list[Codes]:
    """Return the cells of the rows that count: present in every column, and one row of each person.

    Without `groups` each row is a person of its own. Whether a row counts depends on the rows of its person alone.
    """
    given = [plain_values(data[column.name]) for column in columns]
    people = None if groups is None else plain_values(groups)
    lengths = {len(values) for values in given} | ({len(people)} if people is not None else set())
    if len(lengths) > 1:
        raise BadParameter(
            "The columns are not equally long.", "Each row has one value in each of them.", "Give columns of one table."
        )
    codes = [column.codes(values) for column, values in zip(columns, given, strict=True)]
    present = np.all([column >= 0 for column in codes], axis=0)
    if people is not None:
        present = one_each(people, present, read_exactly(source, _SALT_BYTES))
    return [column[present] for column in codes]


def one_each(people: Sequence[object], present: npt.NDArray[np.bool_], salt: bytes) -> npt.NDArray[np.bool_]:
    """Return which rows are kept: of each person one of the present rows, chosen by a salted hash of the person.

    A row without a person (None, NaN) has no owner to protect and is absent.
    """
    places: dict[Hashable, list[int]] = {}
    for index in np.flatnonzero(present).tolist():
        person = people[index]
        if person is not None and person == person and isinstance(person, Hashable):
            places.setdefault(person, []).append(index)
    kept = np.zeros(len(present), dtype=bool)
    for person, own in places.items():
        word = blake2b(repr(person).encode(), key=salt, digest_size=8).digest()
        kept[own[int.from_bytes(word, "big") * len(own) >> 64]] = True
    return kept


def count_marginal(codes: Sequence[Codes], axes: Axes, sizes: Sequence[int]) -> Counts:
    """Return the exact marginal of some columns: integers, one for each cell."""
    shape = tuple(sizes[axis] for axis in axes)
    place = np.ravel_multi_index(tuple(codes[axis] for axis in axes), shape)
    return np.bincount(place, minlength=cells_of(axes, sizes)).astype(np.int64).reshape(shape)


def with_noise(table: Counts, moved: int, variance: Fraction, neighbours: Neighbours, source: Source) -> Counts:
    """Return a marginal with integer Gaussian noise on each cell."""
    return Gaussian(moved, variance, neighbours).release(table, source)
