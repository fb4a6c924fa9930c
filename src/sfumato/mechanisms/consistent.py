"""Release one number from biased bits, private on every source of a declared bias."""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting.event import Neighbours, Pure
from sfumato.errors import ImperfectSource, quote_value
from sfumato.exact import integer, probability
from sfumato.mechanisms.parameters import read_parameters
from sfumato.randomness.adversary import read_bias
from sfumato.randomness.consistent import Consistent, calibrate
from sfumato.randomness.imperfect import SingleUse
from sfumato.randomness.margin import smallest_covering
from sfumato.randomness.source import Source, declared_gamma


@dataclass(frozen=True, slots=True)
class ConsistentAnswer:
    """Answer one integer by consistent sampling, on bits that may each be biased by up to `gamma`.

    Theorem: if one privacy unit moves the value by at most `sensitivity`, then `release` is epsilon-DP for every source
    of bias `gamma` that served nothing else.  [DLMV12]  Proof: proofs/consistent.md

    On one such source two answers do not compose, not even about different people: give each a `SingleUse` of its own.

    >>> ConsistentAnswer(1, Fraction(1), Fraction(1, 10), Neighbours.ADD_REMOVE).margin(Fraction(95, 100))
    Fraction(193, 30)
    """

    sensitivity: int
    epsilon: Fraction
    gamma: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        read_parameters(self)
        object.__setattr__(self, "gamma", read_bias(self.gamma))

    @property
    def event(self) -> Pure:
        """Event of one release, from a source that serves no other."""
        return Pure(self.epsilon, self.neighbours)

    @property
    def noise(self) -> Consistent:
        """The least noise found for this epsilon and bias."""
        return calibrate(self.epsilon, self.gamma)

    def release(self, value: int, source: Source) -> Fraction:
        """Return one private number. A source for single use is closed by it."""
        if declared_gamma(source) > self.gamma:
            raise ImperfectSource(
                f"The random source {source.name} is declared with gamma = {quote_value(declared_gamma(source))}.",
                f"This answer is private for sources up to gamma = {quote_value(self.gamma)} only.",
                "Nothing was released. Make the mechanism with the gamma of the source, or use a better source.",
            )
        noise = self.noise
        exact = integer(value, "value", None)
        # rounding is monotone and commutes with integers: a change by `sensitivity` moves this by at most `reach`
        units = (2 * exact * noise.reach + self.sensitivity) // (2 * self.sensitivity)
        try:
            drawn = noise.draw(units, source)
        finally:
            if isinstance(source, SingleUse):
                source.close()
        return Fraction(drawn * noise.grid * self.sensitivity, noise.reach)

    def margin(self, confidence: Fraction) -> Fraction:
        """Return a t such that the answer stays within ±t with this probability, whatever the source does."""
        noise, missed = self.noise, float(1 - probability(confidence, "confidence"))
        units = smallest_covering(lambda reach: noise.worst_tail(reach, self.gamma) <= missed, noise.half_life)
        return (units + Fraction(1, 2)) * self.sensitivity / noise.reach
