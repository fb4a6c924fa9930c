"""How a price is best split between margins of one table: by what all of them together then say of each.

The finest margin says something of all others, so that much of the price is often best spent on it.
Proof: proofs/one_table.md, (6)
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod

from sfumato.planning.measurements import Measurement, MeasurementSet
from sfumato.planning.shared_marginals import ContingencyTable, MarginalMeasurement, subsets

_ROUNDS = 60
_FINENESS = 256
"""Shares are rounded to such parts of the largest, so that every machine splits alike."""


def weight_marginals(
    needs: tuple[MeasurementSet, ...], tables: Sequence[ContingencyTable]
) -> tuple[MeasurementSet, ...]:
    """Return the needs with importances by which margins of one table get the shares that are best for all of them.

    Errors of a share s are taken to be proportional to 1/s², as those of Laplace noise are. The importances are the
    slopes of the error there, so that what they say of other noise is never too little.
    """
    found = {(need.group.label, one.name): one for need in needs for one in need.measurements}
    changed: dict[tuple[str, str], Measurement] = {}
    for table in tables:
        own = [found[margin.label, margin.name] for margin in table.margins]
        shares = _best_shares(table, [float(one.importance) for one in own])
        total = Fraction(_error(table, [float(one.importance) for one in own], shares)).limit_denominator(10**6)
        for margin, one, share in zip(table.margins, own, shares, strict=True):
            part = Fraction(max(1, round(share / max(shares) * _FINENESS)), _FINENESS)
            scale = Fraction(max(shares)).limit_denominator(_FINENESS**2)
            # the cube root of importance · wide is the share that a measurement gets (planning/budget_split.py)
            changed[margin.label, margin.name] = replace(one, importance=total * (part * scale) ** 3)
    return tuple(
        replace(
            need,
            measurements=tuple(changed.get((need.group.label, one.name), one) for one in need.measurements),
        )
        for need in needs
    )


def _best_shares(table: ContingencyTable, importances: Sequence[float]) -> list[float]:
    """Return shares that sum to 1 and make the expected error least, by moving towards what gains most."""
    shares = [1 / len(importances)] * len(importances)
    for _ in range(_ROUNDS):
        gains = _gains(table, importances, shares)
        mean = sum(share * gain for share, gain in zip(shares, gains, strict=True))
        moved = [share * (gain / mean) ** 0.5 for share, gain in zip(shares, gains, strict=True)]
        shares = [max(one / sum(moved), 1e-4) for one in moved]
    return [share / sum(shares) for share in shares]


def _error(table: ContingencyTable, importances: Sequence[float], shares: Sequence[float]) -> float:
    """Return the expected squared error of a cell of each margin, added up by importance."""
    pairs = zip(table.margins, importances, strict=True)
    return sum(importance * mean_variance(table, margin, shares) for margin, importance in pairs)


def mean_variance(table: ContingencyTable, margin: MarginalMeasurement, shares: Sequence[float]) -> float:
    """Return the mean variance of a margin's cells, each measured with deviation 1 / share."""
    return sum(_factor(table, margin, axes) / _precision(table, axes, shares) for axes in subsets(margin.axes))


def _gains(table: ContingencyTable, importances: Sequence[float], shares: Sequence[float]) -> list[float]:
    """Return how fast the error falls with each share."""
    gains = [0.0] * len(shares)
    for margin, importance in zip(table.margins, importances, strict=True):
        for axes in subsets(margin.axes):
            cost = importance * _factor(table, margin, axes) / _precision(table, axes, shares) ** 2
            for place, (other, share) in enumerate(zip(table.margins, shares, strict=True)):
                if axes <= set(other.axes):
                    gains[place] += cost * 2 * share / table.folded(other, axes)
    return gains


def _factor(table: ContingencyTable, margin: MarginalMeasurement, axes: frozenset[int]) -> float:
    """Return what the variance of one residual adds to the mean variance of a margin's cells."""
    directions = prod(table.sizes[axis] - 1 for axis in axes)
    cells = prod(table.sizes[axis] for axis in margin.axes)
    return directions / (table.folded(margin, axes) * cells)


def _precision(table: ContingencyTable, axes: frozenset[int], shares: Sequence[float]) -> float:
    return sum(
        share**2 / table.folded(margin, axes)
        for margin, share in zip(table.margins, shares, strict=True)
        if axes <= set(margin.axes)
    )
