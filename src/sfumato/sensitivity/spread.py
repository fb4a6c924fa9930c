"""Local sensitivity of the variance of n bounded integers, one for each person, at every distance.

n is public (one person is replaced), and n²·variance = n·Σx² - (Σx)² is an integer.
Proof: proofs/smooth_sensitivity.md, (4)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sfumato.exact import integer


@dataclass(frozen=True, slots=True)
class ScaledVariance:
    """n·Σx² - (Σx)² of n integers in [low, high], where one person is replaced."""

    low: int
    high: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", integer(self.low, "low", -(1 << 31)))
        object.__setattr__(self, "high", integer(self.high, "high", self.low))

    def value(self, values: Sequence[int]) -> int:
        """Return n² times the population variance."""
        return len(values) * sum(value * value for value in values) - sum(values) ** 2

    def reach(self, size: int) -> int:
        """Return the global sensitivity for n values: (n - 1)·(high - low)², from all equal to one apart."""
        return max(0, size - 1) * (self.high - self.low) ** 2

    def at_distance(self, values: Sequence[int], distance: int) -> int:
        """Return the largest local sensitivity of any data that `distance` replacements lead to, exactly."""
        if len(values) < 2:
            return 0
        ordered = sorted(values)
        mirrored = sorted(self.low + self.high - value for value in values)
        return max(self._largest_move(ordered, distance), self._largest_move(mirrored, distance))

    def _largest_move(self, ordered: list[int], distance: int) -> int:
        """Return the largest move if the others' sum is as small as `distance` replacements can make it."""
        size, best = len(ordered), 0
        moved = min(distance, size - 1)
        # one who is kept moves from where they are, after the largest others went to the low end
        total, top = sum(ordered), sum(ordered[size - moved :])
        for index, value in enumerate(ordered):
            # one among the largest stays, and the next largest goes instead
            gone = top if index < size - moved else top - value + ordered[size - moved - 1]
            others = total - value - gone + moved * self.low
            best = max(best, *(abs(self._move(size, others, value, to)) for to in self._extreme_points(size, others)))
        if distance:  # one who was replaced stood at any place, and moves to any other
            away = min(distance, size)
            others = sum(ordered[: size - away]) + (away - 1) * self.low
            places = list(self._extreme_points(size, others))
            best = max(best, *(abs(self._move(size, others, origin, to)) for origin in places for to in places))
        return best

    @staticmethod
    def _move(size: int, others: int, start: int, end: int) -> int:
        """Return how much the value falls when one person goes from `start` to `end`."""
        return (start - end) * ((size - 1) * (start + end) - 2 * others)

    def _extreme_points(self, size: int, others: int) -> Iterator[int]:
        """Give the places where a parabola over [low, high] is largest or smallest: its ends, and around its vertex."""
        yield from (self.low, self.high)
        vertex = others // (size - 1)
        yield from (min(max(point, self.low), self.high) for point in (vertex, vertex + 1))
