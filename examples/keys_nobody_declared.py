"""Publish search terms and their counts when even the list of terms is private."""

from fractions import Fraction

from sfumato.accounting.event import Neighbours
from sfumato.mechanisms.threshold import Threshold
from sfumato.randomness.source import system_source

# Each person counts once for at most one term; the last term would betray the only person who typed it.
people_per_term = {"flu": 941, "knee pain": 388, "hay fever": 120, "rare disease of my neighbour": 1}
terms, counts = list(people_per_term), list(people_per_term.values())

mechanism = Threshold.by_loss(
    epsilon=Fraction(1), delta="1e-6", sensitivity=1, groups_per_unit=1, neighbours=Neighbours.ADD_REMOVE
)
selected = mechanism.release(counts, system_source())
for term, count in sorted((terms[place], count) for place, count in zip(selected.places, selected.counts, strict=True)):
    print(f"{term:12} {count:5} ± {mechanism.margin(Fraction(95, 100))}")
print(f"A term of {mechanism.units_for(Fraction(99, 100))} people appears with probability 0.99 or more;")
print(f"a term of one person with probability {float(mechanism.delta):.1e} or less.")
