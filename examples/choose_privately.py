"""Choose the best of many without saying how good any of them is."""

from fractions import Fraction

from sfumato.accounting import pure
from sfumato.accounting.event import Neighbours
from sfumato.mechanisms.noisy_max import NoisyTop
from sfumato.mechanisms.permute_and_flip import PermuteAndFlip
from sfumato.randomness.source import system_source

# How many patients named each side effect. One patient adds one to each they name, so the scores are monotone.
reports = {"headache": 812, "nausea": 640, "rash": 618, "fatigue": 590, "insomnia": 204, "fever": 41}
names, scores = list(reports), list(reports.values())

one = PermuteAndFlip(sensitivity=1, epsilon=Fraction(1, 10), neighbours=Neighbours.ADD_REMOVE, monotone=True)
print("most frequent:", names[one.release(scores, system_source())])
print("  within", one.margin(Fraction(95, 100), len(scores)), "reports of the best, with 95 % confidence")

three = NoisyTop(3, sensitivity=1, epsilon=Fraction(1, 10), neighbours=Neighbours.ADD_REMOVE, monotone=True)
print("three most frequent:", ", ".join(names[place] for place in three.release(scores, system_source())))
print("  at epsilon =", pure.epsilon(three.event))
