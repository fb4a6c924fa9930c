"""Every count is off by up to five, and still the counts are the database; behind a budget they are not."""

from fractions import Fraction

from sfumato.accounting.loss import PrivacyLoss
from sfumato.lab.attacks.bounds import recovered_share
from sfumato.lab.attacks.historical import BoundedNoise, share_equal
from sfumato.lab.attacks.least_squares import LeastSquares, ask_all_masks
from sfumato.lab.attacks.protected import Protected
from sfumato.lab.generators.seeded import Seeded, coins, subsets
from sfumato.randomness.source import system_source

people = 400
secret = coins(people, Seeded("who has it"))
questions = subsets(4 * people, people, Seeded("random halves of the people"))
attack = LeastSquares(questions)

noisy = BoundedNoise(secret, 5, system_source())
found = share_equal(attack.decode(ask_all_masks(noisy, questions)), secret)
print(f"{len(questions):,} counts, each off by up to 5: {float(found):.1%} of {people} secret bits recovered")
assert found > Fraction(9, 10)

for loss in (PrivacyLoss(Fraction(1)), PrivacyLoss(Fraction(1), Fraction(1, 10**6))):
    ours = Protected(secret, loss, len(questions), system_source())
    found = share_equal(attack.decode(ask_all_masks(ours, questions)), secret)
    limit = recovered_share(loss)
    print(f"the same from sfumato, {loss} for all of them: {float(found):.1%} (no attack can expect above {limit:.1%})")
