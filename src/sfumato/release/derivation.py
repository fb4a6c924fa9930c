"""A plan over kept measurements, for an answer that is free, or combined with a fresh measurement."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from sfumato.planning.plan import Plan
from sfumato.release.noisy import NoisyResult


@dataclass(frozen=True, slots=True)
class Derivation:
    """A plan over kept measurements with their noisy numbers: all that an answer is computed from."""

    plan: Plan
    noisy: NoisyResult
    rests_on: tuple[str, ...]
    when: str
    """The days of the answers that it rests on, as people read them."""
    margins: Mapping[tuple[str, str], Fraction]
    """How far each derived measurement may be off at 95 %, in its steps: of all cells the farthest."""
