"""How each plan goes one step further: exact integers in, noisy integers out, and what must be remembered.

A process never changes before its step is durable: `take` computes the step, `accept` makes it the past. How many bits
are read depends on the plan and on what was published, never on a value that was not.
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
from sfumato.streams.limbs import Limbs, added, decayed, with_noise, with_products, zeros
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
from sfumato.streams.rows import GrowingRows, packed, unpacked
from sfumato.streams.toeplitz import Floats, Integers, square_root

Values = npt.NDArray[np.int64]
_LIMB = 20
_LOW = (1 << _LIMB) - 1
_WHOLE = 1 << 42


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what is seen of it, and what must be remembered."""

    noisy: Integers
    """What was measured: y_t, a row of `raw`."""
    value: Values | None = field(default=None, repr=False)
    """The exact integers, where they are needed again: secret."""
    move: Floats | None = None
    """What the decoded sums grow by."""
    published: bool = True
    state: bytes = field(default=b"", repr=False)
    """What is remembered in place of the exact integers, always of the same length: secret."""


class Process(Protocol):
    """A plan on its way."""

    keeps_values: bool
    """Whether the past is needed as it was."""
    decodes: bool
    """Whether steps have a `move`."""

    def take(self, time: int, values: Values, source: Source) -> Step:
        """Return the step at this time. Nothing is changed."""

    def accept(self, step: Step) -> Floats:
        """Make a step the past, and return what is shown of it: a row of `released`."""

    @property
    def state_size(self) -> int:
        """How many bytes of state there are, at every step."""


def process_of(plan: StreamPlan) -> Process:
    """Return what carries a plan out, at its beginning."""
    match plan:
        case GaussianSums(buffers=0):
            return _SquareRoot(plan.cells, lambda time: (0, plan.scale, plan.sigma_squared))
        case UnboundedSums():
            return _SquareRoot(plan.cells, _epochs(plan))
        case GaussianSums():
            return _Buffered(plan)
        case TreeSums():
            return _Tree(plan)
        case PeriodTables():
            return _Tables(plan)
        case WindowEvents():
            return _Windowed(plan)


def _epochs(plan: UnboundedSums) -> Callable[[int], tuple[int, int, Fraction]]:
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

    def take(self, time: int, values: Values, source: Source) -> Step:
        before, scale, sigma_squared = self._epoch(time)
        fresh = before != self._began
        count = 0 if fresh else time - 1 - before
        coefficients = square_root(time - before, scale)
        past = coefficients[:0:-1]  # c_(t-1) … c_1
        noise = DiscreteGaussian(sigma_squared).draw(self._cells, source)
        first = int(coefficients[0])
        high, low, moved = first * (values >> _LIMB), first * (values & _LOW), np.zeros(self._cells)
        if count:
            high += np.einsum("t,tn->n", past, self._high.rows)
            low += np.einsum("t,tn->n", past, self._low.rows)
            moved = np.einsum("t,tn->n", past.astype(np.float64), self._moves.rows)
        noisy = _joined(high, low, noise)
        move = (noisy.astype(np.float64) - moved) / first
        return Step(noisy, values, move)

    def accept(self, step: Step) -> Floats:
        value, move = _decoded(step)
        self._time += 1
        before, _, _ = self._epoch(self._time)
        if before != self._began:
            self._start(before)
        self._high.append(value >> _LIMB)
        self._low.append(value & _LOW)
        self._moves.append(move)
        self._estimate = self._estimate + move
        return self._estimate


def _decoded(step: Step) -> tuple[Values, Floats]:
    if step.value is None or step.move is None:
        raise ValueError("a step without what it needs")
    return step.value, step.move


def _joined(high: Values, low: Values, noise: Integers) -> Integers:
    """Return high · 2^20 + low + noise: int64 if every noisy value fits, else Python integers.

    The noise is in the limbs before anything is compared, so that the choice depends on noisy values alone.
    """
    if noise.dtype == object:
        noisy: Integers = (high.astype(object) << _LIMB) + low.astype(object) + noise
        return noisy
    low = low + (noise & _LOW)
    high = high + (noise >> _LIMB) + (low >> _LIMB)
    low = low & _LOW
    if np.abs(high).max() < _WHOLE:
        small: Integers = (high << _LIMB) + low
        return small
    wide: Integers = (high.astype(object) << _LIMB) + low.astype(object)
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
        self._decoded = np.zeros((len(nodes.shares), plan.cells))
        self._estimate = np.zeros(plan.cells)

    def take(self, time: int, values: Values, source: Source) -> Step:
        noise = self._noise.draw(self._cells, source)
        noisy = with_noise(added(self._filled(values)), noise)
        move = (noisy.astype(np.float64) - _added(self._decays * self._decoded)) / self._total
        return Step(noisy, values, move)

    def accept(self, step: Step) -> Floats:
        value, move = _decoded(step)
        self._exact = self._filled(value)
        self._decoded = self._decays * self._decoded + self._gains * move
        self._estimate = self._estimate + move
        return self._estimate

    def _filled(self, values: Values) -> Limbs:
        """Return the buffers one step later."""
        return with_products(decayed(self._exact, self._shares), self._weights, values)


def _added(rows: Floats) -> Floats:
    """Add rows one after another, so that the sum is the same bits however many cells there are."""
    total: Floats = rows[0].copy()
    for row in rows[1:]:
        total += row
    return total


class _Tree:
    """One open node per level. Node t closes the level of its lowest bit; the levels below begin anew with it.

    A pan-private node begins with noise, so that what is remembered never holds a true count.
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

    def take(self, time: int, values: Values, source: Source) -> Step:
        nodes = self._nodes + values
        if self._plan.pan_private:
            opening = [level for level in range(len(nodes)) if (time - 1) % (1 << level) == 0]
            drawn = self._law.draw(len(opening) * self._plan.cells, source)
            nodes[opening] += drawn.reshape(len(opening), -1).astype(object)
        noisy = add_noise(nodes[_level(time)], self._law.draw(self._plan.cells, source))
        if self._plan.pan_private:
            return Step(noisy, state=packed(_closed(nodes, time), self._width))
        return Step(noisy, values)

    def accept(self, step: Step) -> Floats:
        self._time += 1
        if step.state:
            self._nodes = unpacked(step.state, self._width).reshape(self._nodes.shape)
        elif step.value is not None:
            self._nodes = _closed(self._nodes + step.value, self._time)
        whole = step.noisy.astype(object) + self._sums[self._time & (self._time - 1)]
        # of earlier sums only those are needed again that a later one can build on: its binary prefixes
        self._sums = {time: kept for time, kept in self._sums.items() if _is_prefix(time, self._time)}
        self._sums[self._time] = whole
        return whole.astype(np.float64)


def _level(time: int) -> int:
    return (time & -time).bit_length() - 1


def _closed(nodes: Integers, time: int) -> Integers:
    """Return the open nodes after a step: those that ended with it are empty again."""
    nodes[: _level(time) + 1] = 0
    return nodes


def _is_prefix(earlier: int, time: int) -> bool:
    """Whether an earlier time is `time` with its lowest ones taken away: later sums may still build on it."""
    while time > earlier:
        time &= time - 1
    return time == earlier


class _Tables:
    """Each table with fresh noise; nothing is remembered."""

    state_size = 0
    keeps_values = False
    decodes = False

    def __init__(self, plan: PeriodTables) -> None:
        self._cells = plan.cells
        self._law = DiscreteLaplace(plan.scale)

    def take(self, time: int, values: Values, source: Source) -> Step:
        return Step(add_noise(values, self._law.draw(self._cells, source)))

    def accept(self, step: Step) -> Floats:
        return step.noisy.astype(np.float64)


class _Windowed:
    """A decision and perhaps a publication at every step; both noises are drawn whatever is decided."""

    state_size = 0
    keeps_values = False
    decodes = False

    def __init__(self, plan: WindowEvents) -> None:
        self._plan = plan
        self._decision = DiscreteLaplace(plan.decision.scale)
        self._last: Integers = np.zeros(plan.cells, dtype=np.int64)
        self._next = NextShare(plan)

    def take(self, time: int, values: Values, source: Source) -> Step:
        share = self._next.share
        law = DiscreteLaplace(self._plan.publication(share).scale) if share else self._decision
        distance = int(np.abs(values.astype(object) - self._last.astype(object)).sum())
        decision = distance + int(self._decision.draw(1, source)[0])
        fresh = add_noise(values, law.draw(self._plan.cells, source))
        published = bool(share) and decision > self._plan.cells * law.scale
        return Step(fresh if published else self._last, published=published)

    def accept(self, step: Step) -> Floats:
        self._last = step.noisy
        self._next = self._next.after(step.published)
        return step.noisy.astype(np.float64)
