"""Which emoji do people use? Each device adds the noise, reports come in by several machines, error bars come out."""

from fractions import Fraction

import numpy as np

from sfumato.local import Collector, ProjectiveResponse, Shuffled, norm_sub

EMOJI = ["😂", "🙏", "😭", "😍", "🔥", "🥰", "😊", "🎉", "🤔", "👏", *(f"emoji {place}" for place in range(10, 1000))]
people = 200_000
weights = 1 / np.arange(1, 1001)
choices = np.searchsorted(np.cumsum(weights / weights.sum()), (np.arange(people) + 0.5) / people)  # made up

oracle = ProjectiveResponse(Fraction(2), len(EMOJI))
print(
    f"a report has {oracle.report_bits} bits; any share is within ± {oracle.margin('0.95', people):.2%}, 19 times in 20"
)

reports = oracle.release(choices)  # on each person's own device
machines = [Collector(oracle), Collector(oracle)]
machines[0].take(oracle.encode(reports[:80_000]))  # as bytes, over whatever network
machines[1].take(oracle.encode(reports[80_000:]))
machines[0].merge(machines[1].tally)

tally = machines[0].tally
shares, intervals = oracle.estimate(tally), oracle.intervals(tally, "0.95")
for place in range(10):
    low, high = intervals[place]
    truth = (choices == place).mean()
    print(f"{EMOJI[place]}  {shares[place]:6.2%}  between {low:6.2%} and {high:6.2%}  (truth {truth:6.2%})")

print(f"{(shares < 0).sum()} shares came out below 0: they are unbiased, and made consistent only when asked to be")
print(f"consistent, by norm-sub: the ten above are {norm_sub(shares).shares[:10].sum():.1%} of all")
shuffled = Shuffled(oracle.epsilon, people).epsilon_at("1e-6")
print(f"if a trusted party shuffles the reports: epsilon {shuffled:.3f} at delta 1e-6")
