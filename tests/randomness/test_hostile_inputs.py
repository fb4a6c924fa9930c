"""What is no source, no bits, no interval or no noise is refused, and refused soon."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from sfumato.accounting.event import Neighbours
from sfumato.errors import BadParameter
from sfumato.mechanisms.max_norm import MaxNorm
from sfumato.mechanisms.quantiles import Quantiles
from sfumato.randomness.adversary import worst_mean, worst_ratio
from sfumato.randomness.consistent import Consistent, calibrate
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.extractor import Toeplitz
from sfumato.randomness.health import Watched, examine
from sfumato.randomness.imperfect import Combined, Declared, SingleUse
from sfumato.randomness.source import system_source

NO_SOURCES: list[object] = [None, 5, "coins", b"\x00" * 100]


@pytest.mark.parametrize("nothing", NO_SOURCES, ids=repr)
@pytest.mark.parametrize(
    "use",
    [
        lambda source: DiscreteLaplace(Fraction(1)).draw(2, source),
        lambda source: Consistent(8, 8, 1).draw(0, source),
        lambda source: Declared(source, 0, "dice"),
        lambda source: Combined((system_source(), source)),
        Combined,
        SingleUse,
        Watched,
    ],
    ids=["draw", "consistent", "declared", "combined with it", "combined of it", "single use", "watched"],
)
def test_what_cannot_be_read_from_is_no_source(use: Callable[[object], object], nothing: object) -> None:
    with pytest.raises(BadParameter):
        use(nothing)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: examine(None, 0),  # type: ignore[arg-type]
        lambda: examine("bits", 0),  # type: ignore[arg-type]
        lambda: Toeplitz(64, 16).extract("a" * 8, b"\x00" * 10),  # type: ignore[arg-type]
        lambda: Toeplitz(64, 16).extract(bytes(8), None),  # type: ignore[arg-type]
        lambda: worst_ratio(None, (Fraction(0), Fraction(1)), 0),  # type: ignore[arg-type]
        lambda: worst_ratio((Fraction(0), float("nan")), (Fraction(0), Fraction(1)), 0),  # type: ignore[arg-type]
        lambda: worst_mean(None, 0),  # type: ignore[arg-type]
        lambda: worst_mean(((0, 1, "x"),), 0),  # type: ignore[arg-type]
        lambda: Consistent(8, 8, 1).cell(10**30, 0),
        lambda: Consistent(1 << 22, 1 << 22, 1 << 22).worst_ratio(0),
        lambda: calibrate("1e-30", "1/10"),
    ],
)
def test_what_has_no_answer_is_refused(ask: Callable[[], object]) -> None:
    with pytest.raises(BadParameter):
        ask()


def test_an_epsilon_above_all_losses_gets_the_finest_noise() -> None:
    assert calibrate(10**300, "1/10") == calibrate(100, "1/10")


@pytest.mark.parametrize("nothing", [None, 1, Fraction(1, 2), (), [None], ["a"]], ids=repr)
def test_levels_and_sides_are_lists_of_numbers(nothing: Any) -> None:
    with pytest.raises(BadParameter):
        Quantiles(nothing, 10, 1, Fraction(1), Neighbours.ADD_REMOVE)
    with pytest.raises(BadParameter):
        MaxNorm(nothing, 1, Fraction(1), Neighbours.ADD_REMOVE)
