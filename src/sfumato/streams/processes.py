"""Execute one step of each plan: exact integers in, noisy integers and the new state out.

A process never changes before its step is durable: `take` computes the step, `accept` applies it. The number of random
bits depends on the plan and on published values only.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sfumato.mechanisms.answers import add_noise
from sfumato.randomness.discrete_gaussian import DiscreteGaussian
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.source import Source
from sfumato.streams.limbs import Limbs, add_noise_to_limbs, add_products, decay, sum_limbs, zeros
from sfumato.streams.plans import (
    EPOCH_SCALE,
    GaussianSums,
    NextShare,
    PeriodTables,
    StreamPlan,
    TreeSums,
    UnboundedSums,
    WindowEvents,
)
from sfumato.streams.rows import GrowingRows, pack_integers, unpack_integers
from sfumato.streams.toeplitz import Floats, Integers, square_root

StepValues = npt.NDArray[np.int64]
_LIMB_BITS = 20
_LIMB_MASK = (1 << _LIMB_BITS) - 1
_HIGH_LIMB_LIMIT_STEPS = 1 << 42


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its noisy values, and the state for later steps."""

    noisy: Integers
    """The noisy measurement y_t, a row of `raw`."""
    value: StepValues | None = field(default=None, repr=False)
    """The exact integers, where later steps need them: secret."""
    move: Floats | None = None
    """Increment of the decoded sums."""
    published: bool = True
    state: bytes = field(default=b"", repr=False)
    """State stored instead of the exact integers, always of the same length: secret."""


class Process(Protocol):
    """The state of a plan in execution."""

    keeps_values: bool
    """Whether later steps need the exact values."""
    decodes: bool
    """Whether steps have a `move`."""

    def take(self, time: int, values: StepValues, source: Source) -> Step:
        """Compute the step at this time without changing the process."""

    def accept(self, step: Step) -> Floats:
        """Apply a durable step, and return its row of `released`."""

    @property
    def state_size(self) -> int:
        """Bytes of state per step."""


def process_of(plan: StreamPlan) -> Process:
    """Return the process of a plan, before its first step."""
    match plan:
        case GaussianSums(buffers=0):
            return _SquareRoot(plan.cells, lambda time: (0, plan.scale, plan.sigma_squared))
        case UnboundedSums():
            return _SquareRoot(plan.cells, _scaled_epoch(plan))
        case GaussianSums():
            return _Buffered(plan)
        case TreeSums():
            return _Tree(plan)
        case PeriodTables():
            return _Tables(plan)
        case WindowEvents():
            return _Windowed(plan)


def _scaled_epoch(plan: UnboundedSums) -> Callable[[int], tuple[int, int, Fraction]]:
    def epoch(time: int) -> tuple[int, int, Fraction]:
        before, _, sigma_squared = plan.epoch(time)
        return before, EPOCH_SCALE, sigma_squared

    return epoch


class _SquareRoot:
    """y_t = Σ c_(t-j) x_j + z_t over the steps of an epoch, and û_t = (y_t - Σ c_(t-j) û_j) / c_0.

    A value is split into two limbs of 20 bits, so that 64 bits hold every sum: scale and horizon are bounded for it.
    """

    state_size = 0
    keeps_values = True
    decodes = True

    def __init__(self, cells: int, epoch: Callable[[int], tuple[int, int, Fraction]]) -> None:
        self._cells = cells
        self._epoch = epoch
        self._began = 0
        self._estimate = np.zeros(cells)
        self._time = 0
        self._start(0)

    def _start(self, before: int) -> None:
        self._began = before
        self._high = GrowingRows(self._cells, np.int64)
        self._low = GrowingRows(self._cells, np.int64)
        self._moves = GrowingRows(self._cells, np.float64)

    def take(self, time: int, values: StepValues, source: Source) -> Step:
        before, scale, sigma_squared = self._epoch(time)
        fresh = before != self._began
        count = 0 if fresh else time - 1 - before
        coefficients = square_root(time - before, scale)
        past = coefficients[:0:-1]  # c_(t-1) … c_1
        noise = DiscreteGaussian(sigma_squared).draw(self._cells, source)
        first = int(coefficients[0])
        high, low, decoded_past = first * (values >> _LIMB_BITS), first * (values & _LIMB_MASK), np.zeros(self._cells)
        if count:
            high += np.einsum("t,tn->n", past, self._high.rows)
            low += np.einsum("t,tn->n", past, self._low.rows)
            decoded_past = np.einsum("t,tn->n", past.astype(np.float64), self._moves.rows)
        noisy = _join_with_noise(high, low, noise)
        move = (noisy.astype(np.float64) - decoded_past) / first
        return Step(noisy, values, move)

    def accept(self, step: Step) -> Floats:
        value, move = _value_and_move(step)
        self._time += 1
        before, _, _ = self._epoch(self._time)
        if before != self._began:
            self._start(before)
        self._high.append(value >> _LIMB_BITS)
        self._low.append(value & _LIMB_MASK)
        self._moves.append(move)
        self._estimate = self._estimate + move
        return self._estimate


def _value_and_move(step: Step) -> tuple[StepValues, Floats]:
    if step.value is None or step.move is None:
        raise ValueError("a step without what it needs")
    return step.value, step.move


def _join_with_noise(high: StepValues, low: StepValues, noise: Integers) -> Integers:
    """Return high · 2^20 + low + noise: int64 if every noisy value fits, else Python integers.

    The noise is in the limbs before anything is compared, so that the choice depends on noisy values alone.
    """
    if noise.dtype == object:
        noisy: Integers = (high.astype(object) << _LIMB_BITS) + low.astype(object) + noise
        return noisy
    low = low + (noise & _LIMB_MASK)
    high = high + (noise >> _LIMB_BITS) + (low >> _LIMB_BITS)
    low = low & _LIMB_MASK
    if np.abs(high).max() < _HIGH_LIMB_LIMIT_STEPS:
        small: Integers = (high << _LIMB_BITS) + low
        return small
    wide: Integers = (high.astype(object) << _LIMB_BITS) + low.astype(object)
    return wide


class _Buffered:
    """B_i ← ⌊a_i·B_i / 2^24⌋ + w_i·x in exact integers, y = ΣB_i + z; decoded by the same recursion in floats."""

    state_size = 0
    keeps_values = True
    decodes = True

    def __init__(self, plan: GaussianSums) -> None:
        nodes = plan.nodes
        self._cells = plan.cells
        self._noise = DiscreteGaussian(plan.sigma_squared)
        self._total = float(nodes.total)
        self._decays = nodes.decays[:, None]
        self._shares = np.array(nodes.shares, dtype=np.int64)[:, None]
        self._weights = np.array(nodes.weights, dtype=np.int64)[:, None]
        self._gains = self._weights.astype(np.float64)
        self._exact = zeros(len(nodes.shares), plan.cells)
        self._value_and_move = np.zeros((len(nodes.shares), plan.cells))
        self._estimate = np.zeros(plan.cells)

    def take(self, time: int, values: StepValues, source: Source) -> Step:
        noise = self._noise.draw(self._cells, source)
        noisy = add_noise_to_limbs(sum_limbs(self._fill(values)), noise)
        move = (noisy.astype(np.float64) - _add_rows(self._decays * self._value_and_move)) / self._total
        return Step(noisy, values, move)

    def accept(self, step: Step) -> Floats:
        value, move = _value_and_move(step)
        self._exact = self._fill(value)
        self._value_and_move = self._decays * self._value_and_move + self._gains * move
        self._estimate = self._estimate + move
        return self._estimate

    def _fill(self, values: StepValues) -> Limbs:
        """Return the buffers one step later."""
        return add_products(decay(self._exact, self._shares), self._weights, values)


def _add_rows(rows: Floats) -> Floats:
    """Add rows one after another, so that the sum is the same bits however many cells there are."""
    total: Floats = rows[0].copy()
    for row in rows[1:]:
        total += row
    return total


class _Tree:
    """One open node per level. Node t closes the level of its lowest bit and restarts the levels below.

    A pan-private node starts with noise, so the stored state never holds a true count.
    """

    decodes = False

    def __init__(self, plan: TreeSums) -> None:
        self._plan = plan
        self._law = DiscreteLaplace(plan.scale)
        self.keeps_values = not plan.pan_private
        self._nodes: Integers = np.zeros((plan.levels, plan.cells), dtype=object if plan.pan_private else np.int64)
        self._sums: dict[int, Integers] = {0: np.zeros(plan.cells, dtype=object)}
        self._time = 0
        # a sum of values needs 63 bits; noise beyond e^-16384 is refused by the source
        self._width = 16 + ceil(plan.scale).bit_length() // 8

    @property
    def state_size(self) -> int:
        return 0 if self.keeps_values else self._nodes.size * self._width

    def take(self, time: int, values: StepValues, source: Source) -> Step:
        nodes = self._nodes + values
        if self._plan.pan_private:
            opening = [level for level in range(len(nodes)) if (time - 1) % (1 << level) == 0]
            drawn = self._law.draw(len(opening) * self._plan.cells, source)
            nodes[opening] += drawn.reshape(len(opening), -1).astype(object)
        noisy = add_noise(nodes[_closing_level(time)], self._law.draw(self._plan.cells, source))
        if self._plan.pan_private:
            return Step(noisy, state=pack_integers(_close_nodes(nodes, time), self._width))
        return Step(noisy, values)

    def accept(self, step: Step) -> Floats:
        self._time += 1
        if step.state:
            self._nodes = unpack_integers(step.state, self._width).reshape(self._nodes.shape)
        elif step.value is not None:
            self._nodes = _close_nodes(self._nodes + step.value, self._time)
        total = step.noisy.astype(object) + self._sums[self._time & (self._time - 1)]
        # later sums use only those of binary prefixes
        self._sums = {time: noisy_sum for time, noisy_sum in self._sums.items() if _is_prefix(time, self._time)}
        self._sums[self._time] = total
        return total.astype(np.float64)


def _closing_level(time: int) -> int:
    return (time & -time).bit_length() - 1


def _close_nodes(nodes: Integers, time: int) -> Integers:
    """Return the open nodes after a step, with those that it closed set to 0."""
    nodes[: _closing_level(time) + 1] = 0
    return nodes


def _is_prefix(earlier: int, time: int) -> bool:
    """Tell whether `earlier` is `time` without some of its lowest set bits: later sums may still use it."""
    while time > earlier:
        time &= time - 1
    return time == earlier


class _Tables:
    """Each table with fresh noise, without state."""

    state_size = 0
    keeps_values = False
    decodes = False

    def __init__(self, plan: PeriodTables) -> None:
        self._cells = plan.cells
        self._law = DiscreteLaplace(plan.scale)

    def take(self, time: int, values: StepValues, source: Source) -> Step:
        return Step(add_noise(values, self._law.draw(self._cells, source)))

    def accept(self, step: Step) -> Floats:
        return step.noisy.astype(np.float64)


class _Windowed:
    """A decision and possibly a publication at every step; both noises are always drawn."""

    state_size = 0
    keeps_values = False
    decodes = False

    def __init__(self, plan: WindowEvents) -> None:
        self._plan = plan
        self._decision = DiscreteLaplace(plan.decision.scale)
        self._last: Integers = np.zeros(plan.cells, dtype=np.int64)
        self._next = NextShare(plan)

    def take(self, time: int, values: StepValues, source: Source) -> Step:
        share = self._next.share
        law = DiscreteLaplace(self._plan.publication(share).scale) if share else self._decision
        distance = int(np.abs(values.astype(object) - self._last.astype(object)).sum())
        decision = distance + int(self._decision.draw(1, source)[0])
        fresh = add_noise(values, law.draw(self._plan.cells, source))
        published = bool(share) and decision > self._plan.cells * law.scale
        return Step(fresh if published else self._last, published=published)

    def accept(self, step: Step) -> Floats:
        self._last = step.noisy
        self._next = self._next.next_step(step.published)
        return step.noisy.astype(np.float64)
