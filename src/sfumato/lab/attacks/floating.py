"""Floating-point attacks on the textbook Laplace: which doubles are possible depends on the secret [Mironov 2012].

The noise is a logarithm of one of 2^52 numbers, so only some doubles can be its value, and adding the true answer
rounds each of them in its own way: an answer that 0 can give and 1 cannot has told the secret, whatever was promised.
The precision attack needs no sampler at all: an answer finer than the grid around 1 cannot come from 1
[Haney et al. 2022].
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, copysign, exp, log

from sfumato.accounting.event import Neighbours
from sfumato.mechanisms.laplace import Laplace
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.source import Source
from sfumato.randomness.uniform import fair_signs, uniform_bits

UNIFORM_BITS = 52
"""Bits of the uniform number behind the naive noise."""
_DOUBLE_STEP = 2.0**-53
"""Every double 1 + noise is a multiple of this, because 1, or the noise that nearly cancels it, is no finer."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """How many of the answers were told apart, for the true values 0 and 1."""

    trials: int
    certain: int
    wrong: int

    @property
    def share(self) -> float:
        """The share of answers that told the secret with certainty."""
        return self.certain / self.trials


@dataclass(frozen=True, slots=True)
class Floating:
    """The two attacks on the naive noise, and the first of them on ours."""

    epsilon: Fraction
    reachable: Verdicts
    precision: Verdicts
    integers: Verdicts
    largest_ratio: float
    """How much likelier, at most, any integer answer seen was under one secret than under the other."""

    def report(self) -> str:
        """Return the result, line by line."""
        return "\n".join(
            [
                f"Floating point: is the true answer 0 or 1? Laplace noise at ε = {float(self.epsilon):g}, one answer",
                "",
                "  noise                      attack               answers   told for certain   wrongly",
                *(
                    f"  {noise:25}  {attack:18}  {verdicts.trials:8,}   {verdicts.share:16.1%}   {verdicts.wrong:7}"
                    for noise, attack, verdicts in (
                        ("doubles, inverse CDF", "reachable doubles", self.reachable),
                        ("doubles, any sampler", "low bits", self.precision),
                        ("integers, ours", "reachable integers", self.integers),
                    )
                ),
                "",
                "Every integer is reachable from both. No answer seen is more than "
                f"{self.largest_ratio:.4f} times likelier from one of them; e^ε is {exp(self.epsilon):.4f}.",
            ]
        )


def naive_laplace(value: float, scale: float, word: int, sign: int) -> float:
    """Return value + sign · scale · -ln(word / 2^52), for a word of 1 … 2^52, as textbooks do in doubles."""
    return value - copysign(scale, sign) * log(word * 2.0**-UNIFORM_BITS)


def is_reachable(answer: float, value: float, scale: float) -> bool:
    """Tell whether any word makes this answer out of this value: compute the word backwards, try those around it."""
    noise = answer - value
    nearest = exp(-abs(noise) / scale) * 2.0**UNIFORM_BITS
    # one rounding of the sum moves the noise by half a unit of the largest term; exp and log add a few units of theirs
    largest = max(abs(answer), abs(value), abs(noise))
    reach = 2 + ceil(nearest * 2.0**-UNIFORM_BITS * (4 + 2 * largest / scale))
    words = range(max(1, int(nearest) - reach), min(1 << UNIFORM_BITS, int(nearest) + reach) + 1)
    sign = 1 if noise >= 0 else -1
    return any(naive_laplace(value, scale, word, sign) == answer for word in words)


def too_fine_for_one(answer: float) -> bool:
    """Tell whether the answer has bits below the grid that every answer about a true 1 lies on."""
    return answer % _DOUBLE_STEP != 0


def run(trials: int, source: Source) -> Floating:
    """Ask `trials` times, half of them with the true answer 0."""
    epsilon = Fraction(1)
    scale = 1.0
    words, signs = uniform_bits(UNIFORM_BITS, trials, source) + 1, fair_signs(trials, source)
    truths = [trial % 2 for trial in range(trials)]
    answers = [
        naive_laplace(float(truth), scale, int(word), int(sign))
        for truth, word, sign in zip(truths, words, signs, strict=True)
    ]
    reachable = [tuple(is_reachable(answer, float(value), scale) for value in (0, 1)) for answer in answers]
    fine = [(True, not too_fine_for_one(answer)) for answer in answers]
    noise = Laplace(1, 1 / epsilon, Neighbours.ADD_REMOVE)
    integers = [int(answer) for answer in noise.release(truths, source)]
    laws = [_enclose_probabilities(answer, noise.scale) for answer in integers]
    return Floating(
        epsilon,
        _judge(truths, reachable),
        _judge(truths, fine),
        _judge(truths, [tuple(low > 0 for low, _ in law) for law in laws]),
        max(float(Fraction(max(zero[1], law[1]), min(zero[0], law[0]))) for zero, law in laws),
    )


def _judge(truths: list[int], possible: Sequence[tuple[bool, ...]]) -> Verdicts:
    """Count the answers that only one of the two values can give, and how often that one was not the true one."""
    distinguished = [(truth, can) for truth, can in zip(truths, possible, strict=True) if can[0] != can[1]]
    return Verdicts(len(truths), len(distinguished), sum(not can[truth] for truth, can in distinguished))


def _enclose_probabilities(answer: int, scale: Fraction) -> tuple[tuple[int, int], ...]:
    """Enclose the probability of an integer answer under both values, with 64 bits to spare."""
    bits = 64 + ceil(2 * (abs(answer) + 1) / scale)
    return tuple(DiscreteLaplace(scale).pmf(answer - value, bits) for value in (0, 1))
