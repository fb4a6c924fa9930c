"""Any finite law by its weights: every cell of the table, refinement, zero weights, refusals."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.stats import chisquare
from tests.sources import HashSource, ScriptedSource, SourceDied

from sfumato.errors import BadParameter
from sfumato.randomness.bernoulli import exp_minus
from sfumato.randomness.finite import Finite
from sfumato.randomness.guide import build_guide
from sfumato.randomness.source import system_source

RATIONAL = st.lists(st.fractions(0, 5, max_denominator=30), min_size=1, max_size=12).filter(any)


@given(RATIONAL)
def test_every_cell_lies_wholly_in_the_outcome_it_names(weights: list[Fraction]) -> None:
    total, law = sum(weights), Finite(tuple(weights))
    seams = [sum(weights[: place + 1]) / total for place in range(len(weights))]
    cells = build_guide(law).cells
    for cell in (0, 1, 77, 21845, 32767, 32768, 43690, 65534, 65535):
        inside = [place for place, seam in enumerate(seams) if Fraction(cell, 65536) < seam]
        first = inside[0]
        whole = Fraction(cell + 1, 65536) <= seams[first]
        assert cells[cell] in ((first,) if whole else (-1,))


@given(RATIONAL, st.integers(0, 2**48 - 1))
def test_a_word_of_48_bits_finds_its_outcome(weights: list[Fraction], known: int) -> None:
    octets = (known >> 32).to_bytes(2, "little") + (known & 0xFFFFFFFF).to_bytes(4, "little")
    law = Finite(tuple(weights))
    drawn = int(law.draw(1, ScriptedSource(octets, after=b"\x55"))[0])
    total = sum(weights)
    before, upto = sum(weights[:drawn]) / total, sum(weights[: drawn + 1]) / total
    assert weights[drawn] > 0
    assert before < Fraction(known + 1, 2**48)
    assert Fraction(known, 2**48) < upto


def test_real_weights_have_the_seams_of_sixty_digits() -> None:
    law = Finite(tuple(exp_minus(Fraction(place, 3)) for place in range(9)))
    with mp.workdps(60):
        weights = [mp.exp(-mpf(place) / 3) for place in range(9)]
        for bits in (16, 64, 150):
            low, high = law.cumulative(bits)
            for place in range(8):
                truth = sum(weights[: place + 1]) / sum(weights) * mpf(2) ** bits
                assert low[place] <= truth <= high[place] <= low[place] + 2


def test_fractions_and_reals_may_be_mixed_and_only_ratios_matter() -> None:
    third = Fraction(1, 3)
    mixed = Finite((Fraction(2), exp_minus(Fraction(0)), exp_minus(Fraction(0))))
    assert (
        mixed.draw(2000, HashSource(1)).tolist()
        == Finite((third, third / 2, third / 2)).draw(2000, HashSource(1)).tolist()
    )


def test_tiny_weights_are_seen() -> None:
    tiny = Finite((Fraction(1, 10**60), Fraction(3, 10**60)))
    assert tiny.cumulative(64) == ((1 << 62, 1 << 64), (1 << 62, 1 << 64))
    faint = Finite((exp_minus(Fraction(900)), exp_minus(Fraction(900))))
    low, high = faint.cumulative(64)
    assert low[0] <= 1 << 63 <= high[0] <= low[0] + 2


@pytest.mark.parametrize("after", [b"\x00", b"\xff"])
def test_bits_that_are_all_alike_end(after: bytes) -> None:
    drawn = Finite((Fraction(0), Fraction(1), Fraction(1, 3), Fraction(0))).draw(50, ScriptedSource(b"", after=after))
    assert set(drawn.tolist()) == ({1} if after == b"\x00" else {2})


def test_frequencies_fit_the_weights_with_error_rate_one_in_a_million() -> None:
    weights = (Fraction(1), Fraction(5), Fraction(0), Fraction(1, 7), Fraction(3))
    seen = np.bincount(Finite(weights).draw(10**6, system_source()), minlength=5)
    assert seen[2] == 0
    kept = [place for place in range(5) if weights[place]]
    expected = [float(weights[place] / sum(weights)) * 10**6 for place in kept]
    assert chisquare(seen[kept], expected).pvalue > 1e-6


def test_nothing_is_returned_when_the_source_dies() -> None:
    with pytest.raises(SourceDied):
        Finite((Fraction(1), Fraction(1))).draw(10, ScriptedSource(b"\x01" * 5))
    assert Finite((Fraction(1),)).draw(0, HashSource(2)).dtype == np.int64


@pytest.mark.parametrize(
    "weights",
    [(), None, 3, "12", (Fraction(-1),), (0.5,), (Fraction(0), Fraction(0)), (float("nan"),), (True,), (None,)],
    ids=repr,
)
def test_what_is_no_law_is_refused(weights: Any) -> None:
    with pytest.raises(BadParameter):
        Finite(weights)
