"""Noise scaled to local sensitivity: how much noise there is tells who is in the data.

A median with equal values on both sides does not move, so its local sensitivity is 0, and noise of that scale is none.
One person more makes it move by the whole range. An exact answer shows which of the two it was; smooth
sensitivity hides it (proofs/smooth_sensitivity.md).
"""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting.event import Neighbours
from sfumato.accounting.loss import PrivacyLoss
from sfumato.lab.attacks.bounds import recovered_share
from sfumato.lab.generators.seeded import coins
from sfumato.mechanisms.smooth_noise import SmoothNoise
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.source import Source
from sfumato.sensitivity.order_statistics import OrderStatistic
from sfumato.sensitivity.smooth import smooth

EPSILON = Fraction(1)
SALARIES = OrderStatistic(Fraction(1, 2), 0, 100_000, Neighbours.REPLACE)
PEOPLE_EARNING_NOTHING = 100
"""Number of people who earn nothing. One fewer earn the maximum, and the target is in between."""


@dataclass(frozen=True, slots=True)
class LocalNoise:
    """How often the target's salary was guessed right from one answer, behind each kind of noise."""

    targets: int
    local: Fraction
    smooth: Fraction
    bound: float

    def report(self) -> str:
        """Return what was recovered."""
        return "\n".join(
            [
                f"Local sensitivity: the salary of each of {self.targets} people, from a noisy median of "
                f"{2 * PEOPLE_EARNING_NOTHING}",
                "",
                f"  {'noise scaled to local sensitivity':44}{float(self.local):7.0%}",
                f"  {'noise scaled to smooth sensitivity':44}{float(self.smooth):7.0%}",
                "",
                "A coin would get 50 %. If the target earns nothing, the median has equal values on both sides and",
                "does not move: noise at its local sensitivity is none, and the answer is exact. Otherwise one person",
                "moves it by the whole range. The amount of noise is the secret. No attack on smooth noise can expect",
                f"more than {self.bound:.1%} at epsilon {EPSILON}.",
            ]
        )


def run(targets: int, source: Source) -> LocalNoise:
    """Attack one answer about each of `targets` made-up people, who earn nothing or the most there is."""
    secret = coins(targets, source)
    shares = {
        kind: Fraction(sum(_guess(answer(_salaries(bool(rich)), source)) == rich for rich in secret), targets)
        for kind, answer in (("local", _local), ("smooth", _smooth))
    }
    return LocalNoise(targets, shares["local"], shares["smooth"], recovered_share(PrivacyLoss(EPSILON)))


def _salaries(rich: bool) -> list[int]:
    return [0] * PEOPLE_EARNING_NOTHING + [SALARIES.high * rich] + [SALARIES.high] * (PEOPLE_EARNING_NOTHING - 1)


def _guess(answer: int) -> bool:
    """Guess that the target earns much unless the answer is exact."""
    return answer != 0


def _local(values: list[int], source: Source) -> int:
    moved = SALARIES.at_distance(values, 0)
    noise = int(DiscreteLaplace(moved / EPSILON).draw(1, source)[0]) if moved else 0
    return SALARIES.value(values) + noise


def _smooth(values: list[int], source: Source) -> int:
    mechanism = SmoothNoise(EPSILON, SALARIES.neighbours)
    bound = smooth(lambda distance: SALARIES.at_distance(values, distance), mechanism.decay, SALARIES.reach)
    return mechanism.release(SALARIES.value(values), bound, source)
