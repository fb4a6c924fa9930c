"""How many reports support each value: all that a server keeps. Tallies of the same oracle add up."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import BadParameter
from sfumato.exact import integer
from sfumato.local.reading import no_reports

_MAX_REPORTS = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """Support counts of some reports to one mechanism; `+` puts together what different machines counted."""

    oracle: Any
    support: npt.NDArray[np.int64]
    reports: int

    def __post_init__(self) -> None:
        if not isinstance(self.support, np.ndarray) or self.support.dtype != np.int64:
            raise another_oracle()
        object.__setattr__(self, "reports", integer(self.reports, "reports", 0))
        self.support.flags.writeable = False

    def __add__(self, other: "Tally") -> "Tally":
        if not isinstance(other, Tally) or other.oracle != self.oracle:
            raise another_oracle()
        if self.reports + other.reports > _MAX_REPORTS:
            raise BadParameter(
                "These are too many reports.", f"At most {_MAX_REPORTS} are counted.", "Keep them apart."
            )
        return Tally(self.oracle, self.support + other.support, self.reports + other.reports)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tally):
            return NotImplemented
        same = self.oracle == other.oracle and self.reports == other.reports
        return same and bool(np.array_equal(self.support, other.support))

    def __hash__(self) -> int:
        return hash((self.oracle, self.reports, self.support.tobytes()))

    def __reduce__(self) -> tuple[type["Tally"], tuple[Any, npt.NDArray[np.int64], int]]:
        return (Tally, (self.oracle, np.array(self.support), self.reports))


def tally_of(oracle: object, tally: object) -> Tally:
    """Return a tally that this oracle can read: its own, with at least one report."""
    if not isinstance(tally, Tally) or tally.oracle != oracle:
        raise another_oracle()
    if hasattr(oracle, "categories") and tally.support.shape != (oracle.categories,):
        raise another_oracle()
    if tally.reports == 0:
        raise no_reports()
    return tally


def another_oracle() -> BadParameter:
    """Return the refusal for a tally of something else."""
    return BadParameter(
        "This is not a tally of the same mechanism.",
        "Support counts belong to one mechanism, epsilon and set of categories.",
        "Give what this mechanism's `tally` returned.",
    )
