"""Which oracle? Of those whose reports are short enough and that err hardly more than the best, the shortest report."""

from fractions import Fraction

from sfumato.errors import BadParameter
from sfumato.exact import integer
from sfumato.local.direct import DirectResponse
from sfumato.local.hadamard import HadamardResponse
from sfumato.local.hashed import HashedResponse
from sfumato.local.oracle import Oracle
from sfumato.local.projective import ProjectiveResponse
from sfumato.local.subset import MAX_SUBSET_CATEGORIES, SubsetResponse
from sfumato.local.unary import UnaryResponse

ORACLES = (DirectResponse, HadamardResponse, ProjectiveResponse, UnaryResponse, SubsetResponse, HashedResponse)
_SIMILAR_SPREAD_RATIO = Fraction(103, 100)


def choose(epsilon: object, categories: object, most_bits: object = None) -> Oracle:
    """Return the oracle with the shortest report among those within 3 % of the least variance at share 0.

    With `most_bits`, only reports of at most that many bits are compared.

    >>> type(choose(1, 1024)).__name__, choose(1, 1024).report_bits
    ('ProjectiveResponse', 12)
    """
    many = integer(categories, "categories", 2) > MAX_SUBSET_CATEGORIES
    oracles: list[Oracle] = [
        kind(epsilon, categories)  # type: ignore[arg-type]
        for kind in ORACLES
        if not (many and kind is SubsetResponse)
    ]
    if most_bits is not None:
        most = integer(most_bits, "most_bits", 1)
        oracles = [oracle for oracle in oracles if oracle.report_bits <= most]
        if not oracles:
            raise BadParameter(
                f"No oracle reports in {most} bits.",
                f"The shortest report on {categories} categories is longer.",
                "Allow more bits, or join categories.",
            )
    least = min(oracle.rates.spread() for oracle in oracles)
    near = [oracle for oracle in oracles if oracle.rates.spread() <= _SIMILAR_SPREAD_RATIO * least]
    return min(near, key=lambda oracle: (oracle.report_bits, oracle.rates.spread()))
