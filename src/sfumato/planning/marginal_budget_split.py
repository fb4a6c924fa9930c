"""How a price is best split between margins of one table: by what all of them together then say of each.

The finest margin says something of all others, so that much of the price is often best spent on it.
Proof: proofs/one_table.md, (6) and (7)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, log, prod

import numpy as np
import numpy.typing as npt

from sfumato.planning.budget_split import SHARE_FINENESS
from sfumato.planning.measurements import Measurement, MeasurementSet
from sfumato.planning.shared_marginals import ContingencyTable, MarginalMeasurement, subsets

_ROUNDS = 60
_MAX_DESCENT_STEPS = 200
_SHARE_STEPS = 256
"""Steps of the largest share to which all shares are rounded, so that every machine computes the same split."""
_MIN_SHARE = 1e-4
_MAX_DEVIATION_RATIO = 1.1
"""No margin has a larger deviation than that many times the one it has by itself, for an even part of the price."""
_BARRIER_WEIGHT = 0.02
"""How much being near that limit counts, beside the logarithm of one variance."""
_MIN_STEP_FRACTION = 1e-3
_MIN_GAIN = 1e-9
_MIN_VARIANCE_RATIO = 1e-200
_MAX_DENSE_ENTRIES = 200_000
"""Maximum size of a matrix by residual and margin that is written out."""
_MAX_MARGINS_OF_STARTS = 200
"""Beyond this number of margins, the even split is the only start."""
_MIXING_STEPS = 21
_MAX_PREFERRED_MARGINS = 3
"""Number of the largest margins that are tried as the one that gets most."""

_Vector = npt.NDArray[np.float64]


def weight_marginals(
    needs: tuple[MeasurementSet, ...], tables: Sequence[ContingencyTable]
) -> tuple[MeasurementSet, ...]:
    """Return the needs with importances by which margins of one table have the least sum of squared errors.

    So prices were split up to version 0.12. Answers of that time are found by it.
    Errors of a share s are taken to be proportional to 1/s², as those of Laplace noise are. The importances are the
    slopes of the error there, so that what they say of other noise is never too little.
    """
    changed: dict[tuple[str, str], Measurement] = {}
    for table, own in _measured(needs, tables):
        importances = [float(one.importance) for one in own]
        shares, error = _least_error(table, importances)
        total = _rounded(error)
        for margin, one, part in zip(table.margins, own, _parts(shares), strict=True):
            # the cube root of importance · wide is the share that a measurement gets (planning/budget_split.py)
            changed[margin.label, margin.name] = replace(one, importance=total * part**3)
    return _changed(needs, changed)


def balance_marginals(
    needs: tuple[MeasurementSet, ...], tables: Sequence[ContingencyTable], weights: Mapping[str, Fraction], power: int
) -> tuple[MeasurementSet, ...]:
    """Return the needs with importances by which margins of one table have the least geometric mean of errors.

    No margin is more than a tenth worse than by itself for an even part of the price. `weights` says by the label
    of a group how often it counts, once if it is not named. Errors of a share s are proportional to 1/s^power: 2 for
    Laplace noise, 1 for Gaussian noise.
    """
    changed: dict[tuple[str, str], Measurement] = {}
    for table, own in _measured(needs, tables):
        importances = [float(one.importance) for one in own]
        total = _rounded(_least_error(table, importances)[1])
        counted = np.array([float(weights.get(margin.label, 1)) for margin in table.margins])
        shares = _parts(MarginalVariances.of(table, counted, power).best())
        for margin, one, part in zip(table.margins, own, shares, strict=True):
            # a measurement gets the cube root of its importance with Laplace noise, the square root with Gaussian
            changed[margin.label, margin.name] = replace(one, importance=total * part ** (power + 1))
    return _changed(needs, changed)


def split_measurements(
    needs: tuple[MeasurementSet, ...], split: Sequence[tuple[str, str, Fraction]], power: int
) -> tuple[MeasurementSet, ...]:
    """Return the needs with importances by which each measurement gets the share that the split names.

    Errors of a share s are proportional to 1/s^power, as in `balance_marginals`.
    """
    parts = {(label, name): part for label, name, part in split}
    changed = {}
    for need in needs:
        for measurement in need.measurements:
            if (part := parts.get((need.group.label, measurement.name))) is not None:
                moved = measurement.sensitivity.l1**2 if power == 2 else measurement.sensitivity.l2_squared
                # the root that a measurement gets of its importance is undone (planning/budget_split.py)
                importance = part ** (power + 1) * Fraction(measurement.sensitivity.linf**2, moved)
                changed[need.group.label, measurement.name] = replace(measurement, importance=importance)
    return _changed(needs, changed)


def geometric_error(
    tables: Sequence[ContingencyTable],
    variances: Mapping[tuple[str, str], Fraction],
    weights: Mapping[str, Fraction],
) -> float:
    """Return the weighted mean of the logarithms of the variances of all that is measured, by label and name.

    Of margins of one table it is the variance that they have together.
    """
    largest = max(variances.values())
    found = {name: max(float(variance / largest), _MIN_VARIANCE_RATIO) for name, variance in variances.items()}
    for table in tables:
        known = np.array([found[margin.label, margin.name] for margin in table.margins])
        together = MarginalVariances.of(table, np.ones(len(known)), 1).variances(1 / known)
        found |= {(margin.label, margin.name): float(one) for margin, one in zip(table.margins, together, strict=True)}
    counted = [float(weights.get(label, 1)) for label, _ in found]
    mean = sum(weight * log(one) for weight, one in zip(counted, found.values(), strict=True)) / sum(counted)
    return mean + log(largest.numerator) - log(largest.denominator)


def _measured(
    needs: tuple[MeasurementSet, ...], tables: Sequence[ContingencyTable]
) -> list[tuple[ContingencyTable, list[Measurement]]]:
    found = {(need.group.label, measurement.name): measurement for need in needs for measurement in need.measurements}
    return [(table, [found[margin.label, margin.name] for margin in table.margins]) for table in tables]


def _changed(
    needs: tuple[MeasurementSet, ...], changed: Mapping[tuple[str, str], Measurement]
) -> tuple[MeasurementSet, ...]:
    return tuple(
        replace(
            need,
            measurements=tuple(
                changed.get((need.group.label, measurement.name), measurement) for measurement in need.measurements
            ),
        )
        for need in needs
    )


def _rounded(error: float) -> Fraction:
    return Fraction(error).limit_denominator(10**6)


def _parts(shares: Sequence[float]) -> list[Fraction]:
    """Return shares as fractions with small denominators; none is 0."""
    largest = max(shares)
    scale = Fraction(largest).limit_denominator(_SHARE_STEPS**2)
    return [Fraction(max(1, round(share / largest * _SHARE_STEPS)), _SHARE_STEPS) * scale for share in shares]


@dataclass(frozen=True, slots=True)
class _Incidence:
    """A matrix by residual and margin that has entries only where the margin holds the residual's axes."""

    residuals: npt.NDArray[np.int64]
    margins: npt.NDArray[np.int64]
    entries: _Vector
    shape: tuple[int, int]

    def by_residual(self, values: _Vector) -> _Vector:
        """Return the sums over margins of entries times values."""
        found = np.bincount(self.residuals, weights=self.entries * values[self.margins], minlength=self.shape[0])
        return np.asarray(found, dtype=np.float64)

    def by_margin(self, values: _Vector) -> _Vector:
        """Return the sums over residuals of entries times values."""
        found = np.bincount(self.margins, weights=self.entries * values[self.residuals], minlength=self.shape[1])
        return np.asarray(found, dtype=np.float64)

    def residual_counts(self) -> list[int]:
        """Return how many residuals each margin holds."""
        return [int(count) for count in np.bincount(self.margins, weights=self.entries > 0, minlength=self.shape[1])]


@dataclass(frozen=True, slots=True)
class _Dense:
    """The same, written out: tables of few margins are split as they were before others could be."""

    matrix: _Vector

    def by_residual(self, values: _Vector) -> _Vector:
        return np.asarray(self.matrix @ values)

    def by_margin(self, values: _Vector) -> _Vector:
        return np.asarray(values @ self.matrix)

    def residual_counts(self) -> list[int]:
        return [int((column > 0).sum()) for column in self.matrix.T]


@dataclass(frozen=True, slots=True)
class MarginalVariances:
    """The variances of margins, and the sum of their logarithms, for noise whose variance is 1 / share^power."""

    precisions: _Incidence | _Dense
    """By residual and margin: what one unit of a margin's precision adds to that of the residual."""
    factors: _Incidence | _Dense
    """By residual and margin: what the residual's variance adds to the mean variance of the margin's cells."""
    weights: _Vector
    power: int

    @classmethod
    def of(cls, table: ContingencyTable, weights: _Vector, power: int) -> "MarginalVariances":
        names = [(margin.label, margin.name) for margin in table.margins]
        return cls.of_measurements(names, (table,), weights, power)

    @classmethod
    def of_measurements(
        cls,
        names: Sequence[tuple[str, str]],
        tables: Sequence[ContingencyTable],
        weights: _Vector,
        power: int,
    ) -> "MarginalVariances":
        """Return the variances of measurements, by label and name, of which some are margins of common tables."""
        places = {name: index for index, name in enumerate(names)}
        numbers: dict[object, int] = {}
        entries = [
            (
                numbers.setdefault((number, axes), len(numbers)),
                places[margin.label, margin.name],
                1 / table.folded(margin, axes),
                _factor(table, margin, axes),
            )
            for number, table in enumerate(tables)
            for margin in table.margins
            for axes in subsets(margin.axes)
        ]
        alone = set(range(len(names))) - {place for _, place, *_ in entries}
        entries += [(numbers.setdefault(place, len(numbers)), place, 1.0, 1.0) for place in sorted(alone)]
        residuals, margins = (np.array(column, dtype=np.int64) for column in list(zip(*entries, strict=True))[:2])
        precisions, factors = (np.array(column) for column in list(zip(*entries, strict=True))[2:])
        shape = len(numbers), len(names)
        sparse = [_Incidence(residuals, margins, one, shape) for one in (precisions, factors)]
        if prod(shape) > _MAX_DENSE_ENTRIES:
            return cls(sparse[0], sparse[1], weights, power)
        dense = np.zeros((2, *shape))
        dense[0, residuals, margins], dense[1, residuals, margins] = precisions, factors
        return cls(_Dense(dense[0]), _Dense(np.ascontiguousarray(dense[1].T).T), weights, power)

    @property
    def limit(self) -> float:
        """The largest variance that a margin may have."""
        return _MAX_DEVIATION_RATIO**2 * float(len(self.weights)) ** self.power

    def best(self) -> list[float]:
        """Return the best shares found from an even split, and from splits that prefer one of the largest margins."""
        count = len(self.weights)
        even = np.full(count, 1 / count)
        # a residual that only one margin holds is worth what it adds to that margin: the finest come first
        held = self.factors.residual_counts()
        largest = sorted(range(count), key=lambda index: -held[index])[
            : _MAX_PREFERRED_MARGINS if count <= _MAX_MARGINS_OF_STARTS else 0
        ]
        starts = [even]
        for place in largest:
            tried = (np.where(np.arange(count) == place, part, 0.0) + (1 - part) * even for part in (0.8, 0.6, 0.4))
            starts += next(([start] for start in tried if self._objective(self.variances(start)) < inf), [])
        best = min(map(self._descend, starts), key=lambda found: found[0])[1]
        return [float(share) for share in self._within_limit(best)]

    def _within_limit(self, shares: _Vector) -> _Vector:
        """Return shares that keep every margin within the limit also as they are rounded; the even split does."""
        even = np.full(len(shares), 1 / len(shares))
        for part in np.linspace(0, 1, _MIXING_STEPS):
            mixed = (1 - part) * shares + part * even
            tried = (self.variances(mixed), self.variances(_as_priced(mixed)))
            if part == 1 or all(bool((variances <= self.limit).all()) for variances in tried):
                return np.asarray(mixed)
        raise AssertionError("the even split is within the limit")

    def variances(self, shares: _Vector) -> _Vector:
        """Return the mean variance of the cells of each margin."""
        return self.factors.by_margin(1 / self.precisions.by_residual(shares**self.power))

    def _objective(self, variances: _Vector) -> float:
        if (variances >= self.limit).any():
            return inf
        return float(self.weights @ np.log(variances) - _BARRIER_WEIGHT * np.log(1 - variances / self.limit).sum())

    def _descend(self, start: _Vector) -> tuple[float, _Vector]:
        """Return the objective and the shares at which moving towards what gains most gains nothing any more."""
        shares, variances = start, self.variances(start)
        objective = self._objective(variances)
        for _ in range(_MAX_DESCENT_STEPS):
            gains = self._gains(shares, variances)
            ratios, step = gains / float(shares @ gains), 1.0
            while step >= _MIN_STEP_FRACTION:
                moved = np.maximum(shares * ratios**step, _MIN_SHARE)
                moved /= moved.sum()
                found = self.variances(moved)
                if (value := self._objective(found)) < objective - _MIN_GAIN:
                    break
                step /= 2
            else:
                break
            shares, variances, objective = moved, found, value
        return objective, shares

    def _gains(self, shares: _Vector, variances: _Vector) -> _Vector:
        """Return how fast the objective falls with each share."""
        slopes = self.weights / variances + _BARRIER_WEIGHT / (self.limit - variances)
        return self.slopes(shares, slopes)

    def slopes(self, shares: _Vector, slopes: _Vector) -> _Vector:
        """Return how fast a function of the variances with these slopes falls with each share."""
        squares = self.precisions.by_residual(shares**self.power) ** 2
        return np.asarray(
            self.power
            * shares ** (self.power - 1)
            * self.precisions.by_margin(self.factors.by_residual(slopes) / squares)
        )

    def least_sum(self) -> tuple[list[float], float]:
        """Return shares that make the weighted sum of variances least, and that sum."""
        shares = np.full(len(self.weights), 1 / len(self.weights))
        for _ in range(_ROUNDS):
            gains = self.slopes(shares, self.weights)
            moved = np.maximum(shares * (gains / float(shares @ gains)) ** 0.5, _MIN_SHARE)
            shares = moved / moved.sum()
        return shares.tolist(), float(self.weights @ self.variances(shares))


def _as_priced(shares: _Vector) -> _Vector:
    """Return shares as `_parts` and then `budget_split.shares` round them, to 64ths of the largest, upwards."""
    fine = np.maximum(1, np.rint(shares / shares.max() * _SHARE_STEPS))
    coarse = np.ceil(fine * (SHARE_FINENESS / _SHARE_STEPS))
    return np.asarray(coarse / coarse.sum())


def _least_error(table: ContingencyTable, importances: Sequence[float]) -> tuple[list[float], float]:
    """Return the shares of Laplace noise with the least sum of errors, and that sum."""
    if table.is_large:
        return MarginalVariances.of(table, np.array(importances), 2).least_sum()
    shares = _least_sum(table, importances)
    return shares, _error(table, importances, shares)


def _least_sum(table: ContingencyTable, importances: Sequence[float]) -> list[float]:
    """Return shares that sum to 1 and make the expected error least, by moving towards what gains most."""
    shares = [1 / len(importances)] * len(importances)
    for _ in range(_ROUNDS):
        gains = _gains(table, importances, shares)
        mean = sum(share * gain for share, gain in zip(shares, gains, strict=True))
        moved = [share * (gain / mean) ** 0.5 for share, gain in zip(shares, gains, strict=True)]
        shares = [max(one / sum(moved), _MIN_SHARE) for one in moved]
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
            for index, (other, share) in enumerate(zip(table.margins, shares, strict=True)):
                if axes <= set(other.axes):
                    gains[index] += cost * 2 * share / table.folded(other, axes)
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
