"""Plans: what a stream releases after every step, its total privacy loss, and its margins.

A plan is frozen and public. `neighbours` has no default: a sensitivity without its relation means nothing. A stream
(`sfumato.streams.stream`) executes a plan.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Union

import numpy as np

from sfumato.accounting.event import Concentrated, GaussianNoise, LaplaceNoise, Neighbours, Pure, Repeated
from sfumato.errors import BadParameter, quote_value
from sfumato.exact import decimal_rational, integer, positive_rational
from sfumato.mechanisms.parameters import read_parameters
from sfumato.streams.buffers import Buffers, make_buffers, squared_reach
from sfumato.streams.margins import gaussian_margin, laplace_margin
from sfumato.streams.toeplitz import Floats, Integers, decoding_of_sums, square_root, squared_length, worst_shift

MAX_STEPS = 1 << 22
MAX_CELLS = 1 << 20
MAX_SCALE = 1 << 30
MAX_BUFFERED_SCALE = 1 << 22
"""With buffers the first coefficient is scale · 2^20, and a weight fits into 42 bits."""
MAX_STEP_VALUE = 1 << 40
"""A value of one cell in one step lies between -2^40 and 2^40."""
EPOCH_SCALE = 1 << 20
_MAX_SUMMED_STEPS = 1 << 16
_SHARE_UNITS = 1 << 32
_PI_LOWER_BOUND = Fraction(31415926535, 10**10)


@dataclass(frozen=True, slots=True)
class GaussianSums:
    """Running sums under zCDP: y = C·x + z with integer C and integer Gaussian z; decoded by the same C.

    Theorem: if a unit moves the cells of one step by at most `change_squared` in squared L2, in at most
    `participations` steps, any two at least `separation` apart, then all that is ever released is
    (S² / (2 sigma_squared))-zCDP, S² = `event.sensitivity_squared`.
    Proof: proofs/gaussian_stream.md, proofs/buffers.md

    >>> GaussianSums(1000, Fraction(2**40), Neighbours.ADD_REMOVE).event.sensitivity_squared
    3589908814280
    """

    horizon: int
    sigma_squared: Fraction
    neighbours: Neighbours
    cells: int = 1
    change_squared: int = 1
    participations: int = 1
    separation: int = 1
    scale: int = 1 << 20
    buffers: int = 0

    def __post_init__(self) -> None:
        read_parameters(self)
        _read_counts(self, horizon=MAX_STEPS, cells=MAX_CELLS, change_squared=None)
        _read_counts(self, participations=None, separation=None, scale=MAX_SCALE)
        _read_counts(self, least=0, buffers=64)
        if self.buffers:
            _read_counts(self, scale=MAX_BUFFERED_SCALE)
            self.nodes  # noqa: B018  (too fine a choice is refused here)

    @classmethod
    def by_rho(cls, rho: object, horizon: int, neighbours: Neighbours, **parameters: Any) -> "GaussianSums":
        """Return the plan whose whole horizon is rho-zCDP; a float is read as its decimal text."""
        total = positive_rational(decimal_rational(rho, "rho"), "rho")
        squared = cls(horizon, Fraction(1), neighbours, **parameters).event.sensitivity_squared
        return cls(horizon, squared / (2 * total), neighbours, **parameters)

    @property
    def coefficients(self) -> Integers:
        """The coefficients of C: integers, or floats with buffers."""
        if self.buffers:
            return self.nodes.coefficients(self.horizon)
        return square_root(self.horizon, self.scale)

    @property
    def nodes(self) -> Buffers:
        """The buffers; their first coefficient is scale · 2^20."""
        return make_buffers(self.buffers, self.horizon, self.scale << 20)

    @property
    def event(self) -> GaussianNoise:
        """One charge for the whole horizon."""
        moved = _sensitivity_squared(self.horizon, self.scale, self.buffers, self.participations, self.separation)
        return GaussianNoise(self.change_squared * moved, self.sigma_squared, self.neighbours)

    def variance(self) -> Floats:
        """Return the variance of each released sum."""
        return float(self.sigma_squared) * np.cumsum(self._decoding_coefficients() ** 2)

    def window_variance(self, width: int) -> Floats:
        """Return the variance of Ŝ_t - Ŝ_(t-width), which come from the same noise; before that of Ŝ_t."""
        lag = integer(width, "width", 1)
        decoding = self._decoding_coefficients()
        late = np.zeros_like(decoding)
        late[lag:] = decoding[:-lag]
        return float(self.sigma_squared) * np.cumsum((decoding - late) ** 2)

    @property
    def rmse(self) -> tuple[float, float]:
        """The root mean squared error over all steps, and that of the worst step."""
        return _rmse(self.variance())

    def margin(self, confidence: object, time: int, width: int | None = None) -> float:
        """Return t such that the sum at `time` is within ±t with this probability, or that of the last `width` steps.

        The floors of buffers are within it.
        """
        index = _time_index(time, self.horizon)
        variances = self.variance() if width is None else self.window_variance(width)
        bias = _bias(self.nodes, self.horizon) if self.buffers else 0.0
        return gaussian_margin(float(variances[index]), self.sigma_squared, confidence) + bias

    @property
    def protects(self) -> str:
        """Who is protected, in words."""
        return _protects(self.participations, self.separation, self.horizon)

    def _decoding_coefficients(self) -> Floats:
        return _decoding_coefficients(self.horizon, self.scale, self.buffers)


@dataclass(frozen=True, slots=True)
class TreeSums:
    """Running sums under pure DP: the sum over (t - lowbit(t), t] is released once, with integer Laplace noise.

    Theorem: if one event moves the cells of its step by at most `change` in L1, the whole is
    (change · bit_length(horizon) / scale)-DP.  With `pan_private` the same holds against an attacker who also sees the
    stored state once, at any time: it never holds a true count. The variance doubles.  Proof: proofs/tree_stream.md
    """

    horizon: int
    scale: Fraction
    neighbours: Neighbours
    cells: int = 1
    change: int = 1
    pan_private: bool = False

    def __post_init__(self) -> None:
        read_parameters(self)
        _read_counts(self, horizon=MAX_STEPS, cells=MAX_CELLS, change=None)
        if not isinstance(self.pan_private, bool):
            raise BadParameter("pan_private is not True or False.", "It is one or the other.", "Write True or False.")

    @property
    def levels(self) -> int:
        """Number of nodes that contain one event."""
        return self.horizon.bit_length()

    @property
    def event(self) -> Repeated:
        """One charge for the whole horizon."""
        return Repeated(LaplaceNoise(self.change, self.scale, self.neighbours), self.levels)

    def variance(self) -> Floats:
        """Return the variance of each released sum."""
        places = np.arange(1, self.horizon + 1)
        return np.bitwise_count(places) * (laplace_variance(self.scale) * (2 if self.pan_private else 1))

    @property
    def rmse(self) -> tuple[float, float]:
        """The root mean squared error over all steps, and that of the worst step."""
        return _rmse(self.variance())

    def margin(self, confidence: object, time: int, width: int | None = None) -> float:
        """Return t such that the sum at `time`, or over the last `width` steps, is within ±t with this probability."""
        _time_index(time, self.horizon)
        terms = (
            time.bit_count()
            if width is None
            else _count_different_nodes(time, max(0, time - integer(width, "width", 1)))
        )
        return laplace_margin(self.scale, max(1, terms) * (2 if self.pan_private else 1), confidence)

    @property
    def protects(self) -> str:
        """Who is protected, in words."""
        return _protects(1, 1, self.horizon) + (" It holds against one look at the state." * self.pan_private)


@dataclass(frozen=True, slots=True)
class PeriodTables:
    """The table of each step with fresh noise and no sums, as mobility reports do [arXiv:2004.04145].

    Theorem: if a unit moves at most `participations` steps, each by at most `change` in L1, the whole is
    (change · min(participations, horizon) / scale)-DP.  Proof: proofs/tree_stream.md
    """

    horizon: int
    scale: Fraction
    neighbours: Neighbours
    cells: int = 1
    change: int = 1
    participations: int = 1

    def __post_init__(self) -> None:
        read_parameters(self)
        _read_counts(self, horizon=MAX_STEPS, cells=MAX_CELLS, change=None, participations=None)

    @property
    def event(self) -> Repeated:
        """One charge for the whole horizon."""
        times = min(self.participations, self.horizon)
        return Repeated(LaplaceNoise(self.change, self.scale, self.neighbours), times)

    def variance(self) -> Floats:
        """Return the variance of each released cell."""
        return np.full(self.horizon, laplace_variance(self.scale))

    @property
    def rmse(self) -> tuple[float, float]:
        """The root mean squared error over all steps, and that of the worst step."""
        return _rmse(self.variance())

    def margin(self, confidence: object, time: int, width: int | None = None) -> float:
        """Return t such that a cell at `time` is within ±t with this probability, or the sum of `width` tables."""
        index = _time_index(time, self.horizon)
        terms = 1 if width is None else min(integer(width, "width", 1), index + 1)
        return laplace_margin(self.scale, terms, confidence)

    @property
    def protects(self) -> str:
        """Who is protected, in words."""
        return _protects(self.participations, 1, self.horizon)


@dataclass(frozen=True, slots=True)
class UnboundedSums:
    """Running sums without a horizon: epochs of squared lengths, first, first², first⁴, …, each with fresh noise.

    Theorem: one event lies in one epoch, and each epoch is rho-zCDP; so is the whole.
    Proof: proofs/unbounded_stream.md
    """

    rho: Fraction
    neighbours: Neighbours
    cells: int = 1
    change_squared: int = 1
    first: int = 16

    def __post_init__(self) -> None:
        read_parameters(self)
        object.__setattr__(self, "rho", positive_rational(self.rho, "rho"))
        _read_counts(self, cells=MAX_CELLS, change_squared=None)
        _read_counts(self, least=2, first=1 << 16)

    @property
    def event(self) -> Concentrated:
        """One charge for the unlimited stream."""
        return Concentrated(self.rho, self.neighbours)

    def epoch(self, time: int) -> tuple[int, int, Fraction]:
        """Return the epoch that holds a step: the time before it, its length and its sigma_squared."""
        before, length = 0, self.first
        while time > before + length:
            before, length = before + length, length * length
        return before, length, self.change_squared * _epoch_norm_squared(length) / (2 * self.rho)

    def variance_until(self, time: int) -> Floats:
        """Return the variance of the released sums up to this time."""
        last = integer(time, "time", 1)
        if last > MAX_STEPS:
            raise BadParameter(
                f"time is above {MAX_STEPS}.", "This many steps do not fit into memory.", "Ask for fewer steps."
            )
        variances: list[Floats] = []
        done = 0
        ended = 0.0
        while done < last:
            _, length, sigma_squared = self.epoch(done + 1)
            count = min(length, last - done)
            part = ended + float(sigma_squared) * np.cumsum(_decoding_coefficients(count, EPOCH_SCALE, 0) ** 2)
            variances.append(part)
            done, ended = done + count, float(part[-1])
        return np.concatenate(variances)

    def margin(self, confidence: object, time: int) -> float:
        """Return t such that the sum at `time` is within ±t with this probability."""
        variance = float(self.variance_until(time)[-1])
        return gaussian_margin(variance, self.epoch(1)[2], confidence)

    @property
    def protects(self) -> str:
        """Who is protected, in words."""
        return "Each event is protected: one step of one unit, without end."


@dataclass(frozen=True, slots=True)
class WindowEvents:
    """Current values under w-event privacy, published again only when they changed enough [KPXP14].

    Theorem: for streams that differ within `window` consecutive steps, each by at most `change` in L1, all that is ever
    released is epsilon-DP: the charges of every window, decisions included, sum to at most epsilon, exactly.
    Proof: proofs/window_events.md
    """

    epsilon: Fraction
    window: int
    neighbours: Neighbours
    cells: int = 1
    scheme: str = "distribution"
    change: int = 1

    def __post_init__(self) -> None:
        read_parameters(self)
        _read_counts(self, window=1 << 16, cells=MAX_CELLS, change=None)
        if self.scheme not in ("distribution", "absorption"):
            raise BadParameter(
                f"scheme = {quote_value(self.scheme)} is not known.",
                "It says how the budget of publications is shared out.",
                "Write 'distribution' or 'absorption'.",
            )

    @property
    def event(self) -> Pure:
        """Privacy loss of streams that differ within one window."""
        return Pure(self.epsilon, self.neighbours)

    @property
    def decision(self) -> LaplaceNoise:
        """Event of the decision of each step, at epsilon / (2 · window)."""
        return LaplaceNoise(self.change, 2 * self.window * self.change / self.epsilon, self.neighbours)

    def publication(self, share: Fraction) -> LaplaceNoise:
        """Return the event of a publication that gets this share of epsilon."""
        return LaplaceNoise(self.change, self.change / (share * self.epsilon), self.neighbours)

    @property
    def protects(self) -> str:
        """Who is protected, in words."""
        return f"A unit is protected if all its steps lie within {self.window:,} consecutive ones."


StreamPlan = Union[GaussianSums, TreeSums, PeriodTables, UnboundedSums, WindowEvents]  # noqa: UP007


@dataclass(frozen=True, slots=True)
class NextShare:
    """Share of epsilon for the next publication of a `WindowEvents`; each decision returns a new value.

    Shares are counted in integers: `distribution` in units of epsilon / 2^32, `absorption` in epsilon / (2 · window).
    """

    plan: WindowEvents
    spent: tuple[int, ...] = ()
    """distribution: units spent by the last window - 1 steps."""
    unused: int = 1
    """absorption: available shares, the step's own included; 0 or less while the stream is silent."""

    @property
    def share(self) -> Fraction:
        """The share of epsilon; 0 where no publication is allowed."""
        if self.plan.scheme == "absorption":
            return Fraction(max(0, self.unused), 2 * self.plan.window)
        return Fraction((_SHARE_UNITS // 2 - sum(self.spent)) // 2, _SHARE_UNITS)

    def next_step(self, published: bool) -> "NextShare":
        """Return the share of the next step."""
        window = self.plan.window
        if self.plan.scheme == "absorption":
            if published:  # as many silent steps as were absorbed beyond its own share
                return NextShare(self.plan, (), 2 - self.unused)
            return NextShare(self.plan, (), min(self.unused + 1, window))
        spent = (self.share * _SHARE_UNITS).numerator if published else 0
        recent = (*self.spent, spent)
        return NextShare(self.plan, recent[len(recent) - window + 1 :] if len(recent) >= window else recent)


def laplace_variance(scale: Fraction) -> float:
    """Return the variance 2q / (1 - q)² of integer Laplace noise, q = e^(-1/scale)."""
    half = 1 / (2 * float(scale))
    return float(0.5 / np.sinh(half) ** 2) if half < 300 else 0.0


@lru_cache(maxsize=256)
def _sensitivity_squared(horizon: int, scale: int, buffers: int, participations: int, separation: int) -> int:
    """Return the squared L2 sensitivity of the whole release, per unit of `change_squared`."""
    if buffers:
        reach = make_buffers(buffers, horizon, scale << 20).reach(horizon)
        return squared_reach(worst_shift(reach, participations, separation))
    return squared_length(worst_shift(square_root(horizon, scale), participations, separation))


@lru_cache(maxsize=8)
def _decoding_coefficients(horizon: int, scale: int, buffers: int) -> Floats:
    if buffers:
        return decoding_of_sums(make_buffers(buffers, horizon, scale << 20).coefficients(horizon))
    return decoding_of_sums(square_root(horizon, scale))


@lru_cache(maxsize=32)
def _bias(nodes: Buffers, horizon: int) -> float:
    return nodes.bias(horizon)


@lru_cache(maxsize=32)
def _epoch_norm_squared(length: int) -> int:
    """Return Σ c_j² of an epoch, or an upper bound where the epoch is too long to sum.

    Σ_{j >= m} c_j² = Σ_v (2v - 1) · #{j >= m: c_j >= v}, and c_j >= v means scale·f_j >= v - 1/2; since
    f_j² <= 1 / (π (j + 1/4)), such a j is at most scale² / (π (v - 1/2)²) - 1/4.
    """
    summed = min(length, _MAX_SUMMED_STEPS)
    coefficients = square_root(summed, EPOCH_SCALE)
    total = squared_length(coefficients)
    for value in range(1, int(coefficients[-1]) + 1 if summed < length else 1):
        last = EPOCH_SCALE**2 / (_PI_LOWER_BOUND * Fraction(2 * value - 1, 2) ** 2) - Fraction(1, 4)
        total += (2 * value - 1) * max(0, min(length, int(last) + 1) - summed)
    return total


def _count_different_nodes(later: int, earlier: int) -> int:
    """Count the nodes that are in exactly one of two sums: only their noise remains in the difference."""
    nodes = [set(), set()]  # type: list[set[int]]
    for index, time in enumerate((later, earlier)):
        while time:
            nodes[index].add(time)
            time &= time - 1
    return len(nodes[0] ^ nodes[1])


def _read_counts(plan: Any, *, least: int = 1, **most: int | None) -> None:
    for name, limit in most.items():
        value = integer(getattr(plan, name), name, least)
        if limit is not None and value > limit:
            raise BadParameter(
                f"{name} = {quote_value(value)} is above {limit}.",
                "More than that is not kept in memory.",
                "Give less.",
            )
        object.__setattr__(plan, name, value)


def _time_index(time: int, horizon: int) -> int:
    step = integer(time, "time", 1)
    if step <= horizon:
        return step - 1
    raise BadParameter(
        f"time = {quote_value(step)} is after the horizon.",
        f"The plan ends at step {horizon}.",
        "Give an earlier time.",
    )


def _rmse(variance: Floats) -> tuple[float, float]:
    return float(variance.mean() ** 0.5), float(variance.max() ** 0.5)


def _protects(participations: int, separation: int, horizon: int) -> str:
    if participations == 1:
        return "Each event is protected: one step of one unit."
    if participations >= -(-horizon // separation):
        return "A unit is protected in all its steps" + (f", any two {separation} apart." if separation > 1 else ".")
    apart = f", any two at least {separation} apart" if separation > 1 else ""
    return f"A unit is protected if it is in at most {participations} steps{apart}."
