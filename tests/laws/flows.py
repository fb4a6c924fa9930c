"""Rows with two owners: the selected bound and the noisy total, as one law."""

from fractions import Fraction
from typing import Any

import numpy as np
from tests.laws.additive import middle
from tests.laws.case import Case
from tests.laws.choosing import Law, permute_and_flip_law

from sfumato.accounting.event import Neighbours
from sfumato.mechanisms.bounded_flow import BoundedFlow
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.sensitivity.bounded_flow import OwnerPairs, doubled_flow

Edges = tuple[tuple[int, int, int], ...]
"""Two owners and what they share."""
SCALES = 14
"""So many scales of the noise are looked at to either side; what is left out is below 10^-5."""
LARGEST_TOTAL = 40
"""No input has more, doubled: the same outcomes are looked at for all of them."""


def _law(mechanism: BoundedFlow) -> Any:
    def law(edges: Edges) -> Law:
        first, second, amounts = (np.array(column, dtype=np.int64) for column in zip(*edges, strict=True))
        pairs = OwnerPairs(first, second, amounts, True)
        flows = [doubled_flow(pairs, bound) for bound in mechanism.bounds]
        chances = permute_and_flip_law(mechanism.scores(flows), mechanism._selection.rate)
        found: Law = {}
        for place, chance in chances.items():
            bound, flow = mechanism.bounds[place], flows[place]
            noise = DiscreteLaplace(mechanism.noise(bound).scale)
            pmf, reach = middle(noise), int(SCALES * noise.scale) + LARGEST_TOTAL
            for total in range(-reach, reach + 1):
                found[bound, total] = found.get((bound, total), 0) + chance * pmf(total - flow)
        return found

    return law


def _without(edges: Edges, person: int) -> Edges:
    return tuple(edge for edge in edges if person not in edge[:2])


STAR: Edges = ((0, 1, 3), (0, 2, 3), (0, 3, 2), (1, 2, 1))
PAIRS: Edges = ((0, 1, 4), (2, 3, 4), (2, 2, 5))

CASES: tuple[Case, ...] = tuple(
    Case(
        f"bounded flow, {kind.value}",
        mechanism := BoundedFlow(4, Fraction(4), kind),
        tuple((edges, _without(edges, person)) for edges in (STAR, PAIRS) for person in (0, 2)),
        _law(mechanism),
        Fraction(4),
    )
    for kind in (Neighbours.ADD_REMOVE,)
)
