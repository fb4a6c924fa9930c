"""Refusals that leak: an auditor who looks at the data before declining has said something by declining.

Ask for the sum of two neighbours. If their bits are equal the sum is 0 or 2 and gives both away, so the auditor
declines. If they differ it is 1, and no set of such answers determines anything, since the complement of the database
fits them as well: it answers. So a refusal means "equal", and n - 1 questions leave the database and its complement.
The attacker is one of the people and knows his own bit [Kenthapadi, Mishra, Nissim 2005].
"""

from dataclasses import dataclass

import numpy as np

from sfumato.lab.attacks.historical import CountingSystem, Declined
from sfumato.lab.generators.seeded import Mask, single


@dataclass(frozen=True, slots=True, eq=False)
class ReadRefusals:
    """Result of reading answers and refusals together; the answers alone determine no bit."""

    guess: Mask
    declined: int


def read_refusals(system: CountingSystem, rows: int, own: bool) -> ReadRefusals:
    """Work out every bit from whether neighbours may be counted together. The attacker is row 0."""
    pairs = [single(row, rows) | single(row + 1, rows) for row in range(rows - 1)]
    equal = np.array([isinstance(system.answer(pair), Declined) for pair in pairs], dtype=np.bool_)
    return ReadRefusals(np.logical_xor.accumulate(np.concatenate([[own], ~equal])), int(equal.sum()))
