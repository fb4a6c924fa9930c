"""The Python code answers every kept case as the executable definitions of proofs/rocq do."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from tests.engines.builds import SALT, bounded, policy_of
from tests.proofs import cases
from tests.proofs.cases import BUDGETS, CAPS, EVENTS, FINER, LIMITS, PEOPLE, UNIQUE_CAP, Fixture, key_of

from sfumato.accounting.event import Neighbours, Pure
from sfumato.accounting.filter import Filter
from sfumato.sensitivity.clipping import to_grid
from sfumato.sensitivity.grid import Grid
from sfumato.sensitivity.matching import matched_values


@pytest.mark.parametrize("cap", CAPS)
def test_a_copy_keeps_the_rows_that_the_definition_keeps(cap: int) -> None:
    """700 people in one table: the rows of each are ranked by their draws and cut at the cap."""
    assert SALT == cases.SALT
    fixture = Fixture.read("rank_and_cut")
    first = CAPS.index(cap) * PEOPLE
    people = range(first, first + PEOPLE)
    rows = [(person, row) for person in people for row in fixture.cases[person][1]]
    columns = {"who": {"type": "integer"}, "x": {"type": "integer", "bounds": [0, 9]}}
    policy = policy_of({"visits": {"unit": "who", "rows_per_unit": cap, "columns": columns}})
    table = pa.table({"who": [person for person, _ in rows], "x": [row for _, row in rows]})
    copy = bounded(policy, {"visits": table})["visits"]
    ids = {person: int.from_bytes(cases.own_id(person), "big") for person in people}
    expected = Counter((ids[person], row) for person in people for row in fixture.answers[person])
    assert {fixture.cases[person][0] for person in people} == {cap}
    assert copy == expected


def test_a_copy_keeps_each_unique_value_once_as_the_definition_does() -> None:
    fixture = Fixture.read("unique_rows")
    rows = [(person, key_of(row), row % 10) for person, theirs in enumerate(fixture.cases) for row in theirs]
    columns = {"who": {"type": "integer"}, "key": {"type": "integer", "unique": True}, "x": {"type": "integer"}}
    policy = policy_of({"visits": {"unit": "who", "rows_per_unit": UNIQUE_CAP, "columns": columns}})
    table = pa.table(dict(zip(("who", "key", "x"), map(list, zip(*rows, strict=True)), strict=True)))
    copy = bounded(policy, {"visits": table})["visits"]
    expected = Counter(
        (int.from_bytes(cases.own_id(person), "big"), key_of(row), row % 10)
        for person, kept in enumerate(fixture.answers)
        for row in kept
    )
    assert copy == expected


def test_the_filter_accepts_what_the_definition_accepts() -> None:
    fixture = Fixture.read("filter")
    for (budget, costs), answers in zip(fixture.cases, fixture.answers, strict=True):
        state, decided = Filter(Fraction(budget), Fraction(0)), []
        for cost in map(Fraction, costs):
            event = Pure(cost, Neighbours.ADD_REMOVE)
            decided.append(state.accepts(event))
            state = state.charge(event) if decided[-1] else state
        assert decided == answers


def test_the_whole_filter_accepts_what_the_definition_accepts() -> None:
    """Pure, Gaussian and approximate events in any order, until nothing fits: both branches, and the cap on deltas."""
    fixture, ends = Fixture.read("ledger"), Counter[bool]()
    for (place, asked), answers in zip(fixture.cases, fixture.answers, strict=True):
        state, decided = BUDGETS[place], []
        for event in (EVENTS[at] for at in asked):
            decided.append(state.accepts(event))
            state = state.charge(event) if decided[-1] else state
        assert decided == answers
        ends[state.pure is None or state.pure > state.epsilon] += 1
    assert min(ends[True], ends[False]) > 50  # transcripts of the Rényi branch, and of the pure one


def test_a_value_becomes_the_integer_of_the_definition() -> None:
    """Every value goes in as a fraction; whole numbers and binary fractions go in as integers and floats as well."""
    fixture = Fixture.read("grid")
    seen: Counter[str] = Counter()
    for case, answer in zip(fixture.cases, fixture.answers, strict=True):
        low, high, step, value = map(Fraction, case)
        forms: list[object] = [np.array([value], dtype=object)]
        forms += [np.array([int(value)])] if value.denominator == 1 else []
        forms += [np.array([float(value)])] if Fraction(float(value)) == value else []
        seen.update(array.dtype.kind for array in forms if isinstance(array, np.ndarray))
        for form in forms:
            assert to_grid(form, Grid(low, high, step)).integers.tolist() == [answer]
    assert min(seen[kind] for kind in "Oif") > 100


def test_as_many_values_are_served_as_the_definition_serves() -> None:
    fixture = Fixture.read("flow")
    for pairs, answers in zip(fixture.cases, fixture.answers, strict=True):
        people = np.array([person for person, _ in pairs], dtype=np.int64)
        values, _ = np.unique([value for _, value in pairs], return_inverse=True)
        numbers = np.searchsorted(values, [value for _, value in pairs]).astype(np.int64)
        own = np.zeros(4, dtype=np.int64)
        assert (matched_values(people, numbers, own, LIMITS) if pairs else [0] * len(LIMITS)) == answers


def test_the_finer_noise_has_the_conditional_law() -> None:
    """P₁(z₁)·P(z₂ | z₁) = P₂(z₂)·W(z₁ − z₂), computed here from the law of integer Laplace noise, with fractions."""
    fixture = Fixture.read("conditional")
    for (first, second, larger), answers in zip(fixture.cases, fixture.answers, strict=True):
        q1, q2 = Fraction(first), Fraction(second)
        still = ((1 - q1) / (1 - q2)) ** 2 * q2 / q1
        for smaller, (numerator, denominator) in zip(FINER, answers, strict=True):
            extra = still * (larger == smaller) + (1 - still) * _mass(q1, larger - smaller)
            assert _mass(q1, larger) * Fraction(numerator, denominator) == _mass(q2, smaller) * extra


def _mass(ratio: Fraction, place: int) -> Fraction:
    return (1 - ratio) / (1 + ratio) * ratio ** abs(place)
