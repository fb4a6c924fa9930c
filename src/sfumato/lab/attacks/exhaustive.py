"""The exhaustive reconstruction of Dinur and Nissim, exactly as the theorem states it, for databases of a few rows.

Theorem [Dinur, Nissim 2003]: if every subset of the rows is answered within E, then every database that fits all the
answers agrees with the true one on all but 4E rows. Proof: let c fit, and let S be the rows where c has a one and x a
zero. Both c and x are within E of the answer for S, so |S| = c(S) - x(S) <= 2E. The same holds for the rows where x has
a one and c a zero. ∎  At E = n/400 that is 99 rows of 100.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.errors import BadParameter
from sfumato.lab.attacks.historical import BoundedNoise, CountingSystem
from sfumato.lab.attacks.least_squares import ask_all_masks
from sfumato.lab.generators.seeded import Mask, coins
from sfumato.randomness.source import Source

MAX_ATTACKED_ROWS = 14
"""All subsets against all candidates: 4^14 sums of one byte are 256 MiB of work, done 64 candidates at a time."""
_CANDIDATES_PER_BLOCK = 64


@dataclass(frozen=True, slots=True)
class Exhaustive:
    """All the databases that fit the answers, by how many rows they have wrong."""

    rows: int
    bound: int
    fitting: int
    most_wrong: int

    @property
    def allowed(self) -> int:
        """How many rows the theorem lets any of them have wrong."""
        return min(self.rows, 4 * self.bound)

    def report(self) -> str:
        """Return the result in one line."""
        return (
            f"{self.rows} rows, all {1 << self.rows:,} subsets answered within E = {self.bound}: of as many databases "
            f"{self.fitting:,} fit, with at most {self.most_wrong} rows wrong (theorem: 4E = {4 * self.bound})"
        )


def every_subset(rows: int) -> Mask:
    """List all subsets of the rows, and so all candidates: line k is the binary digits of k."""
    if rows > MAX_ATTACKED_ROWS:
        raise BadParameter(
            f"{rows} rows have too many subsets to try.",
            "The exhaustive attack compares all subsets with all databases.",
            f"Give at most {MAX_ATTACKED_ROWS} rows, or use least squares.",
        )
    codes = np.arange(1 << rows)[:, np.newaxis]
    return (codes >> np.arange(rows) & 1).astype(np.bool_)


def databases_that_fit(answers: npt.NDArray[np.float64], rows: int, bound: float) -> Mask:
    """Return every database that is within `bound` of all the answers, in the order of `every_subset`."""
    everything = every_subset(rows).astype(np.float32)  # counts up to 14 are exact
    blocks = [
        block[(np.abs(block @ everything.T - answers) <= bound).all(axis=1)]
        for block in np.split(everything, range(_CANDIDATES_PER_BLOCK, len(everything), _CANDIDATES_PER_BLOCK))
    ]
    return np.concatenate(blocks).astype(np.bool_)


def exhaust(system: CountingSystem, secret: Mask, bound: int) -> Exhaustive:
    """Ask every subset, keep all databases that fit, and compare each of them with the truth."""
    candidates = databases_that_fit(ask_all_masks(system, every_subset(len(secret))), len(secret), bound)
    return Exhaustive(len(secret), bound, len(candidates), int((candidates != secret).sum(axis=1).max()))


def run(rows: int, bound: int, source: Source) -> Exhaustive:
    """Attack made-up bits behind bounded noise."""
    secret = coins(rows, source)
    return exhaust(BoundedNoise(secret, bound, source), secret, bound)
