"""Contribution bounds of one measurement: the candidates among which an answer selects, or the policy's own total."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sfumato.language.scalar import Scalar
from sfumato.query.aggregate import Aggregate
from sfumato.sensitivity.norms import Sensitivity

MIN_SELECTABLE_CONTRIBUTION = 5
"""Nothing is selected where a person can add less than this: the policy's bound is nearly the best one."""
MAX_CANDIDATES = 24
_MIN_LAST_RATIO = Fraction(7, 5)
"""Minimum ratio of the last candidate to the one before."""


@lru_cache(maxsize=256)
def candidate_thresholds(most: int) -> tuple[int, ...]:
    """Return the candidate bounds up to what a person can add: powers of two, and that itself.

    >>> candidate_thresholds(1000), candidate_thresholds(6), candidate_thresholds(5)
    ((1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000), (1, 2, 4, 6), (1, 2, 5))
    """
    powers = [1 << index for index in range(most.bit_length()) if (1 << index) * _MIN_LAST_RATIO <= most]
    return tuple([*powers, most][-MAX_CANDIDATES:])


@dataclass(frozen=True, slots=True)
class ContributionBound:
    """How much one person adds at most, over all rows and cells: one threshold, or rising ones to select among.

    The rows of a person come in an order that only this person's rows decide. With `bounds_rows`, a row counts as long
    as fewer rows than the threshold came before it; otherwise its value counts as far as it fits below the threshold.
    """

    thresholds: tuple[int, ...]
    weight: Aggregate[Scalar]
    """What is bounded: the count of the rows that count, or the sum of their values."""
    max_contribution: int
    """How much one person could add without this bound."""
    bounds_rows: bool = False
    selection_label: str = ""
    """The label of the group that selects a threshold; empty where the policy sets the only one."""
    rank: Scalar | None = None
    """The number of a row within its person, where every row has its own."""
    sensitivities: tuple[Sensitivity, ...] = ()
    """How far one person moves the measurement at each candidate."""
    bounds_groups: bool = False
    """Whether groups of a person are bounded: a person counts in those that come first in an order of the person's own.

    `bounds_rows` is set, too: the rows of a person in a group count as one whole.
    """
    only_averages: bool = False
    """Whether only averages are made of it whose sum and count lose the same rows: truncation hardly changes them."""

    @property
    def is_selected(self) -> bool:
        """Whether the answer selects the threshold."""
        return bool(self.selection_label)


def candidates_in(bound: ContributionBound | None) -> ContributionBound | None:
    """Return a bound if the answer selects its threshold; None for one that the policy sets, or none at all."""
    return bound if bound is not None and bound.is_selected else None
