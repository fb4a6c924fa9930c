"""Choices for made-up data and made-up questions, from a seed: nothing private hangs on them."""

from collections.abc import Sequence
from typing import TypeVar

from sfumato.lab.generators.seeded import Seeded

T = TypeVar("T")

_WORD_BYTES = 8


class SeededDice:
    """A reproducible stream of choices.

    >>> SeededDice(1).randint(1, 6) == SeededDice(1).randint(1, 6)
    True
    """

    __slots__ = ("_source",)

    def __init__(self, seed: object) -> None:
        self._source = Seeded(seed)

    def random(self) -> float:
        """Return a number in [0, 1)."""
        return (self._word() >> 11) / (1 << 53)

    def randint(self, a: int, b: int) -> int:
        """Return an integer from a to b; the odds differ by less than one in 2^32."""
        return a + self._word() % (b - a + 1)

    def choice(self, seq: Sequence[T]) -> T:
        """Return one of several."""
        return seq[self.randint(0, len(seq) - 1)]

    def shuffled(self, seq: Sequence[T]) -> list[T]:
        """Return all of them in another order."""
        return [item for _, _, item in sorted((self._word(), index, item) for index, item in enumerate(seq))]

    def _word(self) -> int:
        return int.from_bytes(self._source.read(_WORD_BYTES), "little")
