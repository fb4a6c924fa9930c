"""Events: frozen, exact, canonical, and nothing else reads back."""

import json
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.accounting.event import (
    EVENTS,
    Approximate,
    BestOfNegativeBinomial,
    BestOfPoisson,
    BoundedRange,
    Composed,
    Concentrated,
    Event,
    GaussianMixture,
    GaussianNoise,
    LaplaceBounded,
    LaplaceNoise,
    Neighbours,
    NonPrivate,
    Parallel,
    PoissonSampled,
    Pure,
    RandomizedResponse,
    RealGaussianNoise,
    RealLaplaceNoise,
    RenyiBounded,
    Repeated,
    TreeAggregation,
    TruncatedPoissonSampled,
    as_neighbours,
    from_json,
    to_json,
)
from sfumato.errors import BadParameter, MalformedEvent, MixedNeighbours, Refusal

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
TENTH = Fraction(1, 10)

rationals = st.fractions(min_value=Fraction(1, 10**12), max_value=10**12)
counts = st.integers(1, 10**12)
shares = st.fractions(min_value=Fraction(1, 10**12), max_value=1)


def leaves(relation: Neighbours) -> st.SearchStrategy[Event]:
    made: list[st.SearchStrategy[Any]] = [
        st.builds(LaplaceNoise, counts, rationals, st.just(relation)),
        st.builds(GaussianNoise, counts, rationals, st.just(relation)),
        st.builds(RealLaplaceNoise, rationals, rationals, st.just(relation)),
        st.builds(RealGaussianNoise, rationals, rationals, st.just(relation)),
        st.builds(Pure, rationals, st.just(relation)),
        st.builds(BoundedRange, rationals, st.just(relation)),
        st.builds(LaplaceBounded, rationals, st.just(relation)),
        st.builds(Concentrated, rationals, st.just(relation)),
        st.builds(RenyiBounded, rationals, st.just((3, 17)), st.tuples(rationals, rationals), st.just(relation)),
        st.builds(NonPrivate, st.just(relation)),
    ]
    if relation is ADD:
        lengths = st.tuples(st.just(Fraction(0)) | rationals, rationals)
        weights = shares.map(lambda share: (share, 1 - share))
        made.append(st.builds(GaussianMixture, rationals, lengths, weights, st.just(relation)))
    if relation is REPLACE:
        made.append(st.builds(RandomizedResponse, rationals, st.integers(2, 99), st.just(relation)))
    return st.one_of(made)


def extended(relation: Neighbours) -> Callable[[st.SearchStrategy[Event]], st.SearchStrategy[Event]]:
    def _extend(inner: st.SearchStrategy[Event]) -> st.SearchStrategy[Event]:
        several = st.lists(inner, max_size=3).map(tuple)
        made: list[st.SearchStrategy[Any]] = [
            st.builds(Approximate, inner, shares.filter(lambda share: share < 1)),
            st.builds(Repeated, inner, counts),
            st.builds(Composed, several),
            st.builds(TreeAggregation, inner, st.lists(counts, min_size=1, max_size=3).map(tuple)),
            st.builds(BestOfPoisson, rationals.filter(lambda mean: mean >= 1), inner),
            st.builds(BestOfNegativeBinomial, shares, st.just(Fraction(0)) | rationals, inner),
        ]
        if relation is ADD:
            made += [st.builds(PoissonSampled, shares, inner), st.builds(Parallel, several)]
            made.append(st.builds(TruncatedPoissonSampled, shares, counts, counts, inner))
        return st.one_of(made)

    return _extend


events = st.sampled_from([ADD, REPLACE]).flatmap(
    lambda relation: st.recursive(leaves(relation), extended(relation), max_leaves=6)
)


@settings(max_examples=60, deadline=None)
@given(events)
def test_every_event_reads_back_equal_from_canonical_text(event: Event) -> None:
    text = to_json(event)
    back = from_json(text)
    assert back == event
    assert hash(back) == hash(event)
    assert to_json(back) == text
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    assert "." not in text  # no float was ever written
    assert pickle.loads(pickle.dumps(event)) == event


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=5)
        | st.sampled_from([event.kind for event in EVENTS] + ["add-remove", "1/10", "1/0", "-1/3", "0/1"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "kind",
                        "event",
                        "events",
                        "epsilon",
                        "delta",
                        "rate",
                        "times",
                        "neighbours",
                        "sensitivity",
                        "scale",
                        "x",
                    ]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=12,
    )
)
def test_whatever_json_says_it_is_an_event_or_a_refusal(data: object) -> None:
    try:
        event = from_json(json.dumps(data))
    except Refusal:
        return
    assert from_json(to_json(event)) == event


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_an_event_or_a_refusal(text: str) -> None:
    with pytest.raises(Refusal):
        from_json(text)


def _text(**changes: object) -> str:
    data: dict[str, object] = {"epsilon": "1/10", "kind": "pure", "neighbours": "add-remove"} | changes
    return json.dumps({name: value for name, value in data.items() if value is not None})


HOSTILE = {
    "an unknown kind": _text(kind="magic"),
    "a kind that is no text": _text(kind=["pure"]),
    "no kind": _text(kind=None),
    "an unknown field": _text(colour="red"),
    "a missing field": _text(epsilon=None),
    "a float": _text(epsilon=0.1),
    "decimal text": _text(epsilon="0.1"),
    "zero": _text(epsilon=0),
    "a negative number": _text(epsilon="-1/10"),
    "a zero denominator": _text(epsilon="1/0"),
    "spaces in a number": _text(epsilon=" 1/10"),
    "a truth value": _text(epsilon=True),
    "a list for a number": _text(epsilon=[1]),
    "an unknown relation": _text(neighbours="friends"),
    "a relation that is no text": _text(neighbours={}),
    "NaN": '{"epsilon":NaN,"kind":"pure","neighbours":"add-remove"}',
    "a repeated key": '{"epsilon":1,"epsilon":2,"kind":"pure","neighbours":"add-remove"}',
    "a list": "[]",
    "nothing": "",
    "null": "null",
    "a second value": _text() + _text(),
    "digits without end": _text(epsilon="1" * 5000 + "/1"),
    "a number too long to read": '{"epsilon":' + "1" * 5000 + ',"kind":"pure","neighbours":"add-remove"}',
    "depth without end": "[" * 100_000,
    "nesting without end": '{"event":' * 500 + _text() + ',"kind":"repeated","times":1}' * 500,
    "a rate above 1": json.dumps({"kind": "poisson-sampled", "rate": "3/2", "event": json.loads(_text())}),
    "a delta of 1": json.dumps({"kind": "approximate", "delta": 1, "event": json.loads(_text())}),
    "no repetition": json.dumps({"kind": "repeated", "times": 0, "event": json.loads(_text())}),
    "a fraction of a repetition": json.dumps({"kind": "repeated", "times": "3/2", "event": json.loads(_text())}),
    "events that are no list": json.dumps({"kind": "composed", "events": json.loads(_text())}),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_refused(text: str) -> None:
    with pytest.raises(Refusal):
        from_json(text)


@pytest.mark.parametrize("value", [b"\xff", None, 3, object()], ids=["bytes", "nothing", "a number", "an object"])
def test_what_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(MalformedEvent):
        from_json(value)


REFUSED: dict[str, Callable[[], object]] = {
    "a float epsilon": lambda: Pure(0.1, ADD),  # type: ignore[arg-type]
    "a zero epsilon": lambda: Pure(Fraction(0), ADD),
    "a negative scale": lambda: LaplaceNoise(1, Fraction(-1), ADD),
    "a zero sensitivity": lambda: LaplaceNoise(0, TENTH, ADD),
    "a fractional integer sensitivity": lambda: LaplaceNoise(TENTH, TENTH, ADD),  # type: ignore[arg-type]
    "a truth value": lambda: LaplaceNoise(True, TENTH, ADD),
    "a float variance": lambda: GaussianNoise(1, 2.5, ADD),  # type: ignore[arg-type]
    "NaN as text": lambda: RealLaplaceNoise("nan", 1, ADD),  # type: ignore[arg-type]
    "no relation": lambda: Pure(TENTH, None),  # type: ignore[arg-type]
    "an unknown relation": lambda: Pure(TENTH, "friends"),  # type: ignore[arg-type]
    "a local report under add-remove": lambda: RandomizedResponse(TENTH, 2, ADD),
    "one category": lambda: RandomizedResponse(TENTH, 1, REPLACE),
    "a delta of 0": lambda: Approximate(Pure(TENTH, ADD), Fraction(0)),
    "a delta of 1": lambda: Approximate(Pure(TENTH, ADD), Fraction(1)),
    "a rate above 1": lambda: PoissonSampled(Fraction(11, 10), Pure(TENTH, ADD)),
    "a sample under replace": lambda: PoissonSampled(TENTH, Pure(TENTH, REPLACE)),
    "parallel parts under replace": lambda: Parallel((Pure(TENTH, REPLACE),)),
    "times 0": lambda: Repeated(Pure(TENTH, ADD), 0),
    "float times": lambda: Repeated(Pure(TENTH, ADD), 2.0),  # type: ignore[arg-type]
    "an inner event that is none": lambda: Repeated("pure", 2),  # type: ignore[arg-type]
    "a single event as events": lambda: Composed(Pure(TENTH, ADD)),  # type: ignore[arg-type]
    "events that are none": lambda: Composed((1, 2)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED.keys())
def test_a_field_without_meaning_is_refused_by_name(make: Callable[[], object]) -> None:
    with pytest.raises(BadParameter) as refusal:
        make()
    assert refusal.value.what
    assert refusal.value.remedy


def test_different_relations_are_never_composed() -> None:
    for compose in (Composed, Parallel):
        with pytest.raises(MixedNeighbours):
            compose((Pure(TENTH, ADD), Repeated(Pure(TENTH, REPLACE), 2)))


def test_nesting_ends() -> None:
    event: Event = Pure(TENTH, ADD)
    for _ in range(64):
        event = Repeated(event, 1)
    with pytest.raises(BadParameter, match="nested"):
        Repeated(event, 1)


def test_events_are_frozen_values_and_relations_are_read_from_text() -> None:
    event = Pure("0.1", "add-remove")  # type: ignore[arg-type]
    assert event == Pure(TENTH, ADD)
    assert as_neighbours("replace") is REPLACE
    with pytest.raises(FrozenInstanceError):
        event.epsilon = Fraction(1)  # type: ignore[misc]


def test_no_event_has_a_default_neighbour_relation() -> None:
    for event in EVENTS:
        for field in fields(event):
            assert field.default is field.default_factory, f"{event.__name__}.{field.name} has a default"


def test_the_written_form_of_every_kind_never_changes() -> None:
    known: dict[Event, str] = {
        LaplaceNoise(
            3, Fraction(10), ADD
        ): '{"kind":"laplace-noise","neighbours":"add-remove","scale":10,"sensitivity":3}',
        GaussianNoise(1, Fraction(1, 2), REPLACE): '{"kind":"gaussian-noise","neighbours":"replace",'
        '"sensitivity_squared":1,"sigma_squared":"1/2"}',
        RealLaplaceNoise(TENTH, Fraction(1), ADD): '{"kind":"real-laplace-noise","neighbours":"add-remove","scale":1,'
        '"sensitivity":"1/10"}',
        RealGaussianNoise(TENTH, Fraction(1), ADD): '{"kind":"real-gaussian-noise","neighbours":"add-remove",'
        '"sensitivity_squared":"1/10","sigma_squared":1}',
        RandomizedResponse(TENTH, 4, REPLACE): '{"categories":4,"epsilon":"1/10","kind":"randomized-response",'
        '"neighbours":"replace"}',
        BoundedRange(TENTH, ADD): '{"epsilon":"1/10","kind":"bounded-range","neighbours":"add-remove"}',
        Concentrated(TENTH, ADD): '{"kind":"concentrated","neighbours":"add-remove","rho":"1/10"}',
        NonPrivate(ADD): '{"kind":"non-private","neighbours":"add-remove"}',
        PoissonSampled(TENTH, NonPrivate(ADD)): '{"event":{"kind":"non-private","neighbours":"add-remove"},'
        '"kind":"poisson-sampled","rate":"1/10"}',
        Repeated(NonPrivate(ADD), 7): '{"event":{"kind":"non-private","neighbours":"add-remove"},"kind":"repeated",'
        '"times":7}',
        Composed(()): '{"events":[],"kind":"composed"}',
        Parallel(()): '{"events":[],"kind":"parallel"}',
        Approximate(Pure(TENTH, ADD), Fraction(1, 10**9)): '{"delta":"1/1000000000","event":{"epsilon":"1/10",'
        '"kind":"pure","neighbours":"add-remove"},"kind":"approximate"}',
    }
    for event, text in known.items():
        assert to_json(event) == text
        assert from_json(text) == event
