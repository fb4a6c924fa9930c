"""Count people per department so that nobody can be found in the counts."""

from fractions import Fraction

from sfumato.accounting.event import Neighbours
from sfumato.mechanisms.laplace import Laplace
from sfumato.randomness.source import system_source
from sfumato.sensitivity.norms import histogram

true_counts = {"emergency": 2413, "surgery": 1988, "oncology": 804, "palliative care": 97}

# One patient has up to 3 visits, in any departments: this much can one patient move the counts.
moved = histogram(rows_per_unit=3, groups_per_unit=3, neighbours=Neighbours.ADD_REMOVE)
epsilon = Fraction(1, 2)
mechanism = Laplace(moved.l1, moved.l1 / epsilon, moved.neighbours)

released = mechanism.release(list(true_counts.values()), system_source())
margin = mechanism.margin(Fraction(95, 100))

for department, count in zip(true_counts, released, strict=True):
    print(f"{department:16} {count:6,} ± {margin}")
