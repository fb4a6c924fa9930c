"""Nearly fair bits from biased ones and a short secret seed: the Toeplitz hash  [Krawczyk 1994; ILL89].

Theorem: if the data has min-entropy k and the seed is uniform, secret and independent of it, then the output of m bits
is within (1/2) · sqrt(2^(m - k)) of uniform.  Proof: proofs/consistent.md
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.errors import BadParameter
from sfumato.exact import integer
from sfumato.randomness.adversary import read_bias
from sfumato.randomness.source import octets

_MAX_INPUT_BITS = 1 << 22


@dataclass(frozen=True, slots=True)
class Toeplitz:
    """Output bit i is the XOR over j of seed[i + inputs - 1 - j] · data[j]; bits of a byte most significant first.

    >>> Toeplitz(16, 8).extract(bytes([0, 1]), bytes([0b10110011, 0, 0])).hex()
    'b3'
    """

    inputs: int
    outputs: int

    def __post_init__(self) -> None:
        for name in ("inputs", "outputs"):
            bits = integer(getattr(self, name), name, 8)
            if bits % 8 or bits > _MAX_INPUT_BITS:
                raise BadParameter(
                    f"{name} = {bits} bits are not whole bytes, or too many.",
                    "Data, seed and output are given in bytes.",
                    f"Give a multiple of 8 up to {_MAX_INPUT_BITS}.",
                )
            object.__setattr__(self, name, bits)

    @property
    def seed_bytes(self) -> int:
        """How long a seed is: inputs + outputs - 1 bits, and one that is not used."""
        return (self.inputs + self.outputs) // 8

    def extract(self, data: bytes, seed: bytes) -> bytes:
        """Return the hash of the data under a seed."""
        drawn, secret = octets(data, "data"), octets(seed, "seed")
        if len(drawn) * 8 != self.inputs or len(secret) != self.seed_bytes:
            raise BadParameter(
                "Data or seed are not of the length that this extractor takes.",
                "The extractor takes a fixed number of bits.",
                f"Give {self.inputs // 8} bytes of data and {self.seed_bytes} bytes of seed.",
            )
        shifted = _shifted_seeds(np.frombuffer(secret, dtype=np.uint8))
        hashed = np.zeros(self.outputs // 8, dtype=np.uint8)
        bits = np.unpackbits(np.frombuffer(drawn, dtype=np.uint8))
        starts = self.inputs - 1 - np.arange(self.inputs)
        masks = np.where(bits, np.uint8(255), np.uint8(0))  # every bit costs the same, whatever it is
        for start, mask in zip(starts.tolist(), masks, strict=True):
            row = shifted[start % 8]
            hashed ^= row[start // 8 : start // 8 + len(hashed)] & mask
        return hashed.tobytes()


def extractable(bits: int, gamma: object, security: int) -> int:
    """Return how many bits within 2^-security of uniform can be extracted from that many biased ones: a multiple of 8.

    >>> extractable(65_536, "1/10", 64)
    56392
    """
    count, secure = integer(bits, "bits", 0), integer(security, "security", 1)
    if count > _MAX_INPUT_BITS:
        raise BadParameter(
            f"bits is more than {_MAX_INPUT_BITS}.", "One hash takes at most that many.", "Extract in parts."
        )
    likeliest = (1 + read_bias(gamma)) / 2  # of one bit; min-entropy is -log2 of it
    entropy = _floor_log2(likeliest.denominator**count, likeliest.numerator**count)
    return max(0, (entropy - 2 * secure + 2) // 8 * 8)


def _floor_log2(numerator: int, denominator: int) -> int:
    """Return floor(log2(numerator / denominator)) for a quotient of at least 1."""
    guess = numerator.bit_length() - denominator.bit_length()
    return guess if denominator << guess <= numerator else guess - 1


def _shifted_seeds(seed: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.uint8]]:
    """Return the seed moved left by 0 … 7 bits."""
    following = np.append(seed[1:], np.uint8(0))
    wide = (seed.astype(np.uint16) << 8) | following
    return [(wide >> (8 - shift)).astype(np.uint8) for shift in range(8)]
