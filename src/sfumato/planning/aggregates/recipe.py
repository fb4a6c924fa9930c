"""A recipe: what has to be measured for one asked aggregate, and what its column is made of then."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

from sfumato.language.scalar import Scalar
from sfumato.query.aggregate import Aggregate

Quantity = Aggregate[Scalar]
"""What is measured in every cell.

One integer: COUNT without an argument counts rows, with one the rows where it is not NULL, distinct its different
values; of a UNIT it counts people. SUM adds an INTEGER scalar, in its steps. Or a vector of integers: HISTOGRAM counts
the rows at every value of its first argument, an INTEGER scalar, from its low to its high; with a second argument it
adds up that instead. QUANTILES, QUANTILES_ALONE and MODE are chosen among the values of their argument, an INTEGER
scalar from 0 on; a person's rows share one weight. MEETINGS counts rows of different people that meet: its arguments
are, side by side, the owner and what rows meet by, its parameters whether there are several cells, in how many orders
the same rows meet, and how many rows a person has on each side, and with one key. MATCHED counts, for each limit among
its parameters, the different values that people can serve where no person serves more than that. COUNT of different
values has the number of public keys of its argument for a parameter, where it has some: only what is shown depends on
it.
"""

Made = TypeVar("Made", covariant=True)


@dataclass(frozen=True, slots=True)
class Recipe(Generic[Made]):
    """Quantities, and how a column is made of the names under which they are measured, in the same order.

    Each quantity comes with what one squared unit of its error (a unit is what one person can do to one cell) adds to
    the squared error of the column. Proof: proofs/planning.md, §5
    """

    quantities: tuple[tuple[Quantity, Fraction], ...]
    make: Callable[..., Made]
