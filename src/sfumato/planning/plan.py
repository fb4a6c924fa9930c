"""A plan: what is measured in every cell, with which noise, at which price. Data is still untouched."""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting.event import Event
from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.private_query import Group, PrivateQuery
from sfumato.language.scalar import Scalar
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.query.functions import Aggregation
from sfumato.sensitivity.norms import Sensitivity


@dataclass(frozen=True, slots=True)
class Measured:
    """One integer per cell, and the noise it gets.

    COUNT without an argument counts rows, with one the rows where it is not NULL, distinct its different values; of a
    UNIT it counts people. SUM adds an INTEGER scalar, in its steps.
    """

    name: str
    """Unique within its group."""
    aggregation: Aggregation
    argument: Scalar | None
    distinct: bool
    where: Scalar | None
    sensitivity: Sensitivity
    mechanism: Laplace | Gaussian


@dataclass(frozen=True, slots=True)
class Derived:
    """How an asked aggregate follows from measurements, by their names.

    A count is `count`. With N = `count`, T = `total` and Q = `squares`: a sum is T steps, an average is
    offset + T/N steps, a variance is Q/N - (T/N)² squared steps (with N/(N - 1) for a sample), a deviation its root.
    T and Q are sums of (x - offset) and (x - offset)², where x is the argument in steps.
    """

    name: str
    aggregation: Aggregation
    count: str | None
    total: str | None
    squares: str | None
    step: Fraction
    offset: Fraction
    """In steps; 0 for a sum."""
    low: int
    high: int
    """The public range of the argument, in steps: an average lies in it. Both 0 for a count."""


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What is measured in one group. `selection` releases the keys where they are not public, else it is None."""

    group: Group
    selection: OptimalSelection | None
    measured: tuple[Measured, ...]
    derived: tuple[Derived, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is decided before data is read. A free plan (`event` None) measures nothing."""

    private: PrivateQuery
    groups: tuple[GroupPlan, ...]
    loss: PrivacyLoss
    event: Event | None
