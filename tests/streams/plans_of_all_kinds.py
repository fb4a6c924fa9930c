"""One small plan of every kind, and streams fed with scripted coins: what the laws of this room are tried on."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path

from tests.sources import HashSource

from sfumato.accounting.event import Neighbours
from sfumato.streams.plans import GaussianSums, PeriodTables, StreamPlan, TreeSums, UnboundedSums, WindowEvents
from sfumato.streams.stream import Stream

ADD = Neighbours.ADD_REMOVE
STEPS = 9
CELLS = 2
PLANS: tuple[StreamPlan, ...] = (
    GaussianSums.by_rho(1, STEPS, ADD, cells=CELLS),
    GaussianSums.by_rho(1, STEPS, ADD, cells=CELLS, participations=3, separation=2),
    GaussianSums.by_rho(1, STEPS, ADD, cells=CELLS, buffers=3),
    GaussianSums(STEPS, Fraction(2**200), ADD, cells=CELLS, scale=2**8),
    TreeSums(STEPS, Fraction(7, 2), ADD, cells=CELLS),
    TreeSums(STEPS, Fraction(7, 2), ADD, cells=CELLS, pan_private=True),
    PeriodTables(STEPS, Fraction(5), ADD, cells=CELLS, participations=3),
    UnboundedSums(Fraction(1), ADD, cells=CELLS, first=2),
    WindowEvents(Fraction(4), 3, ADD, cells=CELLS),
    WindowEvents(Fraction(4), 3, ADD, cells=CELLS, scheme="absorption"),
)
SUMS = tuple(plan for plan in PLANS if not isinstance(plan, PeriodTables | WindowEvents))
VALUES = tuple((7 * step % 11, step * step - 30) for step in range(STEPS))


def name(plan: object) -> str:
    return repr(plan)[:60]


def coins(step: int) -> HashSource:
    """The coins of a step: the same whenever it is taken."""
    return HashSource(("coins", step))


def fed(stream: Stream, values: Iterable[Sequence[int]]) -> Stream:
    """Take these steps, each with its own coins."""
    for row in values:
        stream.observe(list(row), coins(stream.time + 1))
    return stream


def whole(path: Path, plan: StreamPlan, values: Sequence[Sequence[int]] = VALUES) -> Stream:
    """Return a stream that took all steps without a stop."""
    return fed(Stream.create(path, plan), values)
