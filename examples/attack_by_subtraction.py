"""Nobody may count fewer than twenty people, so subtract two permitted counts: the person between them is bare."""

import numpy as np

from sfumato.lab.attacks.historical import Declined, SizeControl
from sfumato.lab.attacks.tracker import count_by_tracker, difference
from sfumato.lab.generators.seeded import Seeded, coins, single

people = 200
secret = coins(people, Seeded("who has it"))
clinic = SizeControl(secret, least=20)

target = 7
alone = clinic.answer(single(target, people))
assert isinstance(alone, Declined)
print(f"how many of {{person {target}}} have it? declined: {alone.reason}")

half = np.arange(people) % 2 == 0
found = difference(clinic, target, half)
print(f"half of the people with him, less the same half without him: {found}")
print(f"by a tracker, from four permitted counts: {count_by_tracker(clinic, single(target, people), half)}")
assert found == secret[target]

everyone = [difference(clinic, row, half) for row in range(people)]
print(f"and so for all {people}: {np.mean(everyone == secret):.0%} of the bits are right")
