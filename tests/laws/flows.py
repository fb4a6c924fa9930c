"""Rows with two owners: the selected bound and the noisy total, as one law."""

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from tests.laws.additive import middle
from tests.laws.case import Case
from tests.laws.choosing import Law, sparse_vector_law

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
    selection = mechanism._selection
    threshold_scale = selection.sensitivity / selection.threshold_epsilon
    query_scale = 2 * selection.sensitivity * selection.aboves / selection.answers_epsilon

    def law(edges: Edges) -> Law:
        first, second, amounts = (np.array(column, dtype=np.int64) for column in zip(*edges, strict=True))
        pairs = OwnerPairs(first, second, amounts, True)
        flows = [doubled_flow(pairs, bound) for bound in mechanism.bounds]
        rising = list(zip(mechanism.bounds, flows, strict=True))
        evidence = [
            mechanism.lost(kept, halved, smaller) - mechanism.wanted(bound) + selection.threshold
            for (smaller, halved), (bound, kept) in pairwise(rising)
        ][::-1]  # from the largest bound down
        answers = sparse_vector_law(evidence, selection.threshold, 1, threshold_scale, query_scale)
        found: Law = {}
        for told, chance in answers.items():
            bound, flow = rising[-len(told)] if told[-1] else rising[0]
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
