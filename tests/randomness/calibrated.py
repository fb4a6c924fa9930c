"""Search the parameters of consistent sampling for a loss of a tenth at every printed bias: half a minute."""

from fractions import Fraction
from math import log

from sfumato.randomness.consistent import calibrate

if __name__ == "__main__":
    for gamma in ("0", "1/100", "1/20", "1/10", "1/5"):
        noise = calibrate(Fraction(1, 10), Fraction(gamma))
        error = float(noise.worst_error(gamma)) / noise.reach
        print(f"gamma {gamma:5}  {noise}  loss {log(noise.worst_ratio(gamma)):.6f}  error {error:.3f}")
