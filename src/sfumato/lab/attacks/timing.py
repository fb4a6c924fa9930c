"""The timing attack on naive sampling: how long a sampler waits is the noise [Jin et al. 2022].

The textbook's sampler tosses coins until one succeeds. Counting the work shows how large the noise is, and an
answer without its noise is the secret. Work is counted in random bits drawn, not in seconds: the same on every machine.
The attacker first learns on noise of his own how much work goes with which noise, so he needs no theory.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting.loss import PrivacyLoss
from sfumato.lab.attacks.bounds import recovered_share
from sfumato.lab.generators.seeded import coins
from sfumato.randomness.bernoulli import ExpRatio, Rational
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.source import Metered, Source
from sfumato.randomness.textbook import LaplaceCoins, coin, laplace_by_coins

DrawOnce = Callable[[Source], int]


@dataclass(frozen=True, slots=True)
class WatchedSampler:
    """One sampler whose work the attacker counts."""

    sampler: str
    works: int
    """How many different amounts of work were seen."""
    usual: float
    """The share of draws that took the usual amount."""
    right: float
    """The share of guesses that were right, with the work known."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The same attack on two samplers of the same noise."""

    scale: Fraction
    trials: int
    naive: WatchedSampler
    ours: WatchedSampler

    @property
    def bound(self) -> float:
        """The largest share that can be expected of answers alone."""
        return recovered_share(PrivacyLoss(1 / self.scale))

    def report(self) -> str:
        """Return the result, line by line."""
        return "\n".join(
            [
                f"Timing: is the true answer 0 or 1? Laplace noise at ε = {float(1 / self.scale):g}, bits drawn known",
                "",
                "  sampler                     amounts of work   draws with the usual one   guessed right",
                *(
                    f"  {sampler.sampler:26}  {sampler.works:15}   {sampler.usual:24.1%}   {sampler.right:13.1%}"
                    for sampler in (self.naive, self.ours)
                ),
                "",
                f"From the answers alone no attack can expect more than {self.bound:.1%} ({self.trials:,} trials).",
            ]
        )


def naive_sampler(scale: Fraction) -> DrawOnce:
    """Return the textbook's sampler: it waits for the first success."""
    success = ExpRatio(1 / scale, a=1, b=-1, c=1, d=0)
    zero = ExpRatio(1 / scale, a=1, b=-1, c=1, d=1)
    fair = Rational(Fraction(1, 2))

    def _draw(source: Source) -> int:
        return laplace_by_coins(LaplaceCoins(coin(success, source), coin(zero, source), coin(fair, source)))

    return _draw


def our_sampler(scale: Fraction) -> DrawOnce:
    """Return the production sampler, one draw at a time."""
    return lambda source: int(DiscreteLaplace(scale).draw(1, source)[0])


def watch(name: str, sampler: DrawOnce, trials: int, source: Source) -> WatchedSampler:
    """Learn from draws whose noise is known, then guess the secret behind answers whose noise is not."""
    learnt = Counter(_count_coins(sampler, source) for _ in range(trials))
    works = Counter(work for work, _ in learnt.elements())
    secret = coins(trials, source)
    right = 0
    for bit in secret.tolist():
        work, noise = _count_coins(sampler, source)
        answer = bit + noise
        # which noise goes better with this much work; when he has seen neither, or both alike, the answer decides
        zero, one = learnt[work, answer], learnt[work, answer - 1]
        guess = one > zero if one != zero else answer >= 1
        right += guess == bit
    return WatchedSampler(name, len(works), works.most_common(1)[0][1] / trials, right / trials)


def _count_coins(sampler: DrawOnce, source: Source) -> tuple[int, int]:
    metered = Metered(source)
    noise = sampler(metered)
    return metered.bits, noise


def run(trials: int, source: Source) -> Timing:
    """Watch both samplers at ε = 1/10."""
    scale = Fraction(10)
    return Timing(
        scale,
        trials,
        watch("coin by coin, textbook", naive_sampler(scale), trials, source),
        watch("tables, ours", our_sampler(scale), trials, source),
    )
