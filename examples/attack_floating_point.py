"""One answer of a textbook Laplace in doubles often says for certain whether the truth was 0 or 1."""

from sfumato.lab.attacks.floating import UNIFORM_BITS, is_reachable, naive_laplace, run
from sfumato.lab.generators.seeded import Seeded
from sfumato.randomness.source import system_source
from sfumato.randomness.uniform import fair_signs, uniform_bits

print("true  answer                 possible from 0  possible from 1")
words, signs = uniform_bits(UNIFORM_BITS, 8, system_source()) + 1, fair_signs(8, system_source())
for trial, (word, sign) in enumerate(zip(words, signs, strict=True)):
    truth = float(trial % 2)
    answer = naive_laplace(truth, 1.0, int(word), int(sign))
    from_zero, from_one = (is_reachable(answer, value, 1.0) for value in (0.0, 1.0))
    print(f"{truth:4.0f}  {answer:21.17f}  {from_zero!s:15}  {from_one!s:15}")
    assert from_one if truth else from_zero  # the attack never excludes the truth

print()
print(run(2_000, Seeded("floats")).report())
