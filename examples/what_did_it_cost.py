"""Price a list of releases by four accountants; the last one knows the answer from both sides."""

from fractions import Fraction

from sfumato.accounting import pld, pure, rdp, zcdp
from sfumato.accounting.event import Composed, GaussianNoise, LaplaceNoise, Neighbours, Repeated, to_json
from sfumato.accounting.loss import round_up

delta = Fraction(1, 10**6)
relation = Neighbours.ADD_REMOVE
counts = Repeated(LaplaceNoise(1, Fraction(10), relation), 100)
sums = Repeated(GaussianNoise(1, Fraction(400), relation), 50)

print("100 counts, as a ledger would store them:")
print(" ", to_json(counts))
print("  pure:", pure.epsilon(counts))
everything = Composed((counts, sums))
for name, event in (("100 counts", Composed((counts,))), ("100 counts and 50 sums", everything)):
    print(f"{name}, at delta = {float(delta):g}:")
    print("  zCDP:", round_up(Fraction(zcdp.epsilon(event, delta))), "(rounded up)")
    print("  RDP: ", round_up(Fraction(rdp.epsilon(event, delta))), "(rounded up)")
    print("  PLD:  {:.9f} to {:.9f}".format(*pld.bounds(event, delta)))
