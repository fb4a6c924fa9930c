"""Common part of matched values and meetings: a choice among limits comes first, and noise that suits it."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class NumberWithSelectedLimit:
    """A whole number that is released together with the limit that its noise is made for."""

    name: str
    chosen: str
    """The name of the choice."""

    @property
    def measured(self) -> tuple[str, ...]:
        """The measurements that it is computed from."""
        return (self.chosen,)

    @property
    def plain(self) -> None:
        """No measurement is it: its noise is not known before it is measured."""
        return None

    @property
    def step(self) -> Fraction:
        """The value of one unit of what is measured."""
        return Fraction(1)
