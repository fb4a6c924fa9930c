"""The laws of every mechanism. Exact: each probability is a 60-digit number of the mechanism's own discrete law."""

import pickle
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, fields, is_dataclass
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from mpmath import mp
from tests.laws import (
    additive,
    choosing,
    data_dependent,
    flows,
    keys,
    local,
    local_mechanisms,
    many_quantiles,
    matched,
    meetings,
    robust,
    top_lists,
)
from tests.laws.case import Case
from tests.laws.divergence import ROUNDING, laws_of, real, worst

from sfumato.accounting import event as events
from sfumato.accounting import pld
from sfumato.accounting.event import from_json, to_json
from sfumato.errors import UnsupportedEvent

CASES: tuple[Case, ...] = (
    *(additive.CASES + choosing.CASES + local.CASES + keys.CASES),
    *(robust.CASES + local_mechanisms.CASES + data_dependent.CASES + many_quantiles.CASES),
    *(meetings.CASES + matched.CASES + top_lists.CASES + flows.CASES),
)
PACKAGE = Path(__file__).parents[2] / "src" / "sfumato"
ROOMS = ("mechanisms", "local")


@pytest.fixture(autouse=True)
def sixty_digits() -> Iterator[None]:
    with mp.workdps(60):
        yield


@pytest.mark.parametrize("case", CASES, ids=str)
def test_neighbours_stay_within_the_declared_loss_and_not_within_a_quarter_of_it(case: Case) -> None:
    for masses in (law.values() for law in laws_of(case).values()):
        assert all(mass >= 0 for mass in masses)
        # what a window leaves out is never more than a sliver, so that the next line is about everything
        assert 1 - real(Fraction(1, 10**4)) <= sum(masses) <= 1 + real(ROUNDING)
    found = worst(case, case.epsilon)
    assert found <= real(case.delta) + real(ROUNDING)
    # the law above can fail: for some pair of neighbours at a quarter of epsilon and delta it does
    assert worst(case, case.epsilon / 4) > real(case.delta / 4) + real(ROUNDING)
    try:
        lower, upper = pld.delta_bounds(case.mechanism.event, case.epsilon)
    except UnsupportedEvent:
        pytest.fail("every mechanism's event can be accounted for")
    # the accountant never promises more privacy than the law has
    assert found <= real(Fraction(upper)) + real(ROUNDING)
    assert lower <= upper


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_mechanism_is_frozen_data_with_a_theorem(case: Case) -> None:
    mechanism: Any = case.mechanism
    assert is_dataclass(mechanism)
    with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
        setattr(mechanism, fields(mechanism)[0].name, 1)
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    assert hash(pickle.loads(pickle.dumps(mechanism))) == hash(mechanism)
    text = type(mechanism).__doc__ or ""
    assert "Theorem" in text
    assert "proofs/" in text


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_event_survives_being_stored(case: Case) -> None:
    event = case.mechanism.event
    assert isinstance(event, events.EVENTS)
    assert from_json(to_json(event)) == event


def test_every_mechanism_stands_under_these_laws() -> None:
    released = set()
    for path in (path for room in ROOMS for path in (PACKAGE / room).glob("*.py")):
        module = import_module(f"sfumato.{path.parent.name}.{path.stem}")
        released |= {
            value
            for value in vars(module).values()
            if is_dataclass(value) and value.__module__ == module.__name__ and hasattr(value, "release")
        }
    assert released == {type(case.mechanism) for case in CASES}
