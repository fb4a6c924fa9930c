"""Ask a question nobody likes to answer: the noise is added before an answer leaves its owner."""

from fractions import Fraction

import numpy as np

from sfumato.mechanisms.randomized_response import Warner
from sfumato.randomness.source import system_source

people = 20_000
truth = np.arange(people) % 10 < 3  # three in ten

response = Warner.by_epsilon(1)
reports = response.release(truth, system_source())  # on each person's own device, one bit each

yes = int(reports.sum())
low, high = response.interval(yes, people, Fraction(95, 100))
print(f"{yes:,} of {people:,} reports say yes; each was true with probability {float(response.truth):.3f}")
print(f"estimate {float(response.estimate(yes, people)):.1%}, between {float(low):.1%} and {float(high):.1%} (95 %)")
