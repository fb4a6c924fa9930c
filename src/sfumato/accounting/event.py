"""Events: frozen descriptions of releases, whose meaning never changes.

Numbers are `int` or `Fraction`, and every event names the neighbour relation its sensitivity was derived for. An
event is stored as canonical JSON (`to_json`), so that a better accountant can re-account an old ledger. A new meaning
is a new kind: no event is ever redefined.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar, Union, get_args, get_type_hints

from sfumato.errors import BadParameter, MalformedEvent, MixedNeighbours, quote_value
from sfumato.exact import integer, positive_rational, probability


class Neighbours(StrEnum):
    """Which pairs of databases must look alike."""

    ADD_REMOVE = "add-remove"
    """One unit's rows are present in one and absent in the other."""
    REPLACE = "replace"
    """One unit's rows differ arbitrarily; the number of units is public."""


@dataclass(frozen=True, slots=True)
class LaplaceNoise:
    """Integer Laplace noise of `scale` on integers that one unit moves by at most `sensitivity` in L1."""

    kind: ClassVar[str] = "laplace-noise"
    sensitivity: int
    scale: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        _read_fields(self)


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """Integer Gaussian noise on integers that one unit moves by at most `sensitivity_squared` in squared L2."""

    kind: ClassVar[str] = "gaussian-noise"
    sensitivity_squared: int
    sigma_squared: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        _read_fields(self)


@dataclass(frozen=True, slots=True)
class RealLaplaceNoise:
    """Laplace noise with a density on the reals, as other systems state it: for re-accounting their releases."""

    kind: ClassVar[str] = "real-laplace-noise"
    sensitivity: Fraction
    scale: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        _read_fields(self)


@dataclass(frozen=True, slots=True)
class RealGaussianNoise:
    """Gaussian noise with a density on the reals, as other systems state it: for re-accounting their releases."""

    kind: ClassVar[str] = "real-gaussian-noise"
    sensitivity_squared: Fraction
    sigma_squared: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        _read_fields(self)


@dataclass(frozen=True, slots=True)
class RandomizedResponse:
    """A category kept with probability e^epsilon / (e^epsilon + categories - 1), else uniform among the others.

    It hides what a person reported, not that they reported: the relation is "replace".
    """

    kind: ClassVar[str] = "randomized-response"
    epsilon: Fraction
    categories: int
    neighbours: Neighbours

    def __post_init__(self) -> None:
        _read_fields(self)
        integer(self.categories, "categories", 2)
        if self.neighbours is not Neighbours.REPLACE:
            raise BadParameter(
                "neighbours = 'add-remove' does not fit RandomizedResponse.",
                "A local report hides the value reported, not that a person reported.",
                "Write neighbours = 'replace'.",
            )


@dataclass(frozen=True, slots=True)
class Pure:
    """A release known only by its bound: epsilon-DP."""

    kind: ClassVar[str] = "pure"
    epsilon: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        _read_fields(self)


@dataclass(frozen=True, slots=True)
class BoundedRange:
    """A release whose log-ratios between neighbours span at most epsilon, as the exponential mechanism's do [CR21]."""

    kind: ClassVar[str] = "bounded-range"
    epsilon: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        _read_fields(self)


@dataclass(frozen=True, slots=True)
class Concentrated:
    """A release known only by its bound: rho-zCDP [BS16]."""

    kind: ClassVar[str] = "concentrated"
    rho: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        _read_fields(self)


@dataclass(frozen=True, slots=True)
class NonPrivate:
    """A release with no guarantee at all. Every accountant says that it costs infinity."""

    kind: ClassVar[str] = "non-private"
    neighbours: Neighbours

    def __post_init__(self) -> None:
        _read_fields(self)


@dataclass(frozen=True, slots=True)
class Approximate:
    """The inner event, except with probability delta, when anything may have been released."""

    kind: ClassVar[str] = "approximate"
    event: "Event"
    delta: Fraction

    def __post_init__(self) -> None:
        _read_fields(self)
        probability(self.delta, "delta")

    @property
    def neighbours(self) -> Neighbours | None:
        return self.event.neighbours


@dataclass(frozen=True, slots=True)
class PoissonSampled:
    """The inner event on a secret sample into which each unit came independently with probability `rate`."""

    kind: ClassVar[str] = "poisson-sampled"
    rate: Fraction
    event: "Event"

    def __post_init__(self) -> None:
        _read_fields(self)
        if self.rate > 1:
            raise BadParameter(
                f"rate = {quote_value(self.rate)} is above 1.", "It is a probability.", "Give at most 1."
            )
        _only_add_remove(self.event.neighbours, "PoissonSampled", "the number of sampled units is not public")

    @property
    def neighbours(self) -> Neighbours | None:
        return self.event.neighbours


@dataclass(frozen=True, slots=True)
class Repeated:
    """`times` independent releases of the same kind of event, also to one unit that touches that many cells."""

    kind: ClassVar[str] = "repeated"
    event: "Event"
    times: int

    def __post_init__(self) -> None:
        _read_fields(self)

    @property
    def neighbours(self) -> Neighbours | None:
        return self.event.neighbours


@dataclass(frozen=True, slots=True)
class Composed:
    """All of these events, on the same data. `Composed(())` is the empty release."""

    kind: ClassVar[str] = "composed"
    events: tuple["Event", ...]

    def __post_init__(self) -> None:
        _read_fields(self)

    @property
    def neighbours(self) -> Neighbours | None:
        return shared_neighbours(self.events)


@dataclass(frozen=True, slots=True)
class Parallel:
    """Each of these events on its own part of the data; a unit lies wholly in one part."""

    kind: ClassVar[str] = "parallel"
    events: tuple["Event", ...]

    def __post_init__(self) -> None:
        _read_fields(self)
        _only_add_remove(self.neighbours, "Parallel", "a person may leave one part and enter another")

    @property
    def neighbours(self) -> Neighbours | None:
        return shared_neighbours(self.events)


Event = Union[  # noqa: UP007  (the members refer to the union)
    LaplaceNoise,
    GaussianNoise,
    RealLaplaceNoise,
    RealGaussianNoise,
    RandomizedResponse,
    Pure,
    BoundedRange,
    Concentrated,
    NonPrivate,
    Approximate,
    PoissonSampled,
    Repeated,
    Composed,
    Parallel,
]
EVENTS: tuple[type[Event], ...] = get_args(Event)
_KINDS: dict[str, type[Event]] = {event.kind: event for event in EVENTS}
_MAX_NESTING = 64


def as_neighbours(value: object, _: str = "neighbours") -> Neighbours:
    """Read a neighbour relation; the two names are accepted as text."""
    try:
        return Neighbours(value)  # type: ignore[arg-type]
    except ValueError:
        raise BadParameter(
            f"neighbours = {quote_value(value)} is not a neighbour relation.",
            "A sensitivity holds only for the neighbour relation that it was derived for.",
            "Write 'add-remove' or 'replace'.",
        ) from None


def shared_neighbours(events: tuple[Event, ...]) -> Neighbours | None:
    """Return the one relation that all of these events speak of; None when there is no event."""
    relations = {event.neighbours for event in events} - {None}
    if len(relations) > 1:
        raise MixedNeighbours(
            "Events under 'add-remove' and under 'replace' cannot be composed.",
            "Each loss holds for its own pairs of neighbouring databases.",
            "Restate all of them under one relation: an add-remove event counts twice under replace.",
        )
    return next(iter(relations), None)


def to_json(event: Event) -> str:
    """Write an event as canonical text: sorted keys, no spaces, rationals as "p/q", never a float.

    >>> to_json(Approximate(Pure(Fraction(1, 10), Neighbours.ADD_REMOVE), Fraction(1, 10**9)))
    '{"delta":"1/1000000000","event":{"epsilon":"1/10","kind":"pure","neighbours":"add-remove"},"kind":"approximate"}'
    """
    return json.dumps(_as_data(_event(event)), sort_keys=True, separators=(",", ":"))


def unordered(event: Event) -> str:
    """Return a text that is equal for two events iff they differ in the order of composed events at most.

    >>> one, other = (Pure(Fraction(epsilon), Neighbours.ADD_REMOVE) for epsilon in (1, 2))
    >>> unordered(Composed((one, other))) == unordered(Composed((other, one)))
    True
    """
    match event:
        case Composed(events) | Parallel(events):
            return json.dumps([event.kind, *sorted(map(unordered, events))])
        case Approximate(inner, delta):
            return json.dumps([event.kind, unordered(inner), str(delta)])
        case PoissonSampled(rate, inner):
            return json.dumps([event.kind, str(rate), unordered(inner)])
        case Repeated(inner, times):
            return json.dumps([event.kind, unordered(inner), times])
        case _:
            return to_json(event)


def from_json(text: str) -> Event:
    """Read an event back; whatever is not exactly one known event is refused.

    >>> from_json('{"epsilon":"1/10","kind":"pure","neighbours":"add-remove"}')
    Pure(epsilon=Fraction(1, 10), neighbours=<Neighbours.ADD_REMOVE: 'add-remove'>)
    """
    if not isinstance(text, str):
        raise _malformed_event("An event is stored as text.")
    try:
        data = json.loads(text, object_pairs_hook=_distinct_keys, parse_float=_no_float, parse_constant=_no_float)
    except (ValueError, TypeError, RecursionError):
        raise _malformed_event("The text is not JSON, or it holds a float or a key twice.") from None
    return _from_data(data, 0)


def _read_fields(event: Any) -> None:
    for name, hint in _HINTS[type(event)].items():
        object.__setattr__(event, name, _FROM_CALLER[hint](getattr(event, name), name))


def _event(value: object, _: str = "event") -> Event:
    if isinstance(value, EVENTS):
        if _depth(value) > _MAX_NESTING:
            raise BadParameter(
                "The event is nested too deeply.", f"More than {_MAX_NESTING} layers are not allowed.", "Flatten it."
            )
        return value
    raise BadParameter(
        f"{quote_value(value)} is not an event.",
        "Losses are computed from known kinds of events only.",
        f"Use one of {', '.join(event.__name__ for event in EVENTS)}.",
    )


def _events(values: object, _: str) -> tuple[Event, ...]:
    if not isinstance(values, tuple | list):
        raise BadParameter(
            f"events = {quote_value(values)} is not a tuple.", "Composition takes several events.", "Write (event, …)."
        )
    events = tuple(_event(value) for value in values)
    shared_neighbours(events)
    return events


def _depth(event: Event) -> int:
    match event:
        case Approximate(inner, _) | PoissonSampled(_, inner) | Repeated(inner, _):
            return 1 + _depth(inner)
        case Composed(inner) | Parallel(inner):
            return 1 + max((_depth(part) for part in inner), default=0)
        case _:
            return 1


def _only_add_remove(neighbours: Neighbours | None, name: str, why: str) -> None:
    if neighbours is Neighbours.REPLACE:
        raise BadParameter(
            f"neighbours = 'replace' does not fit {name}.",
            f"Under replace {why}.",
            "State the event under 'add-remove', or without it.",
        )


def _as_data(value: object) -> object:
    match value:
        case Neighbours():
            return value.value
        case int():
            return value
        case Fraction():
            return value.numerator if value.denominator == 1 else f"{value.numerator}/{value.denominator}"
        case tuple():
            return [_as_data(part) for part in value]
        case _:
            event: Any = value
            return {"kind": event.kind} | {field.name: _as_data(getattr(event, field.name)) for field in fields(event)}


def _from_data(data: object, depth: int) -> Event:
    if not isinstance(data, dict) or depth > _MAX_NESTING:
        raise _malformed_event("An event is an object with a kind, nested in reason.")
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise _malformed_event(f"The kind {str(kind)[:60]!r} is unknown.")
    readers = _READERS[kind]
    if data.keys() - {"kind"} != readers.keys():
        raise _malformed_event(f"A {kind} has exactly the fields kind, {', '.join(readers)}.")
    make: Callable[..., Event] = _KINDS[kind]
    return make(**{name: read(data[name], depth) for name, read in readers.items()})


def _read_integer(data: object, _: int) -> int:
    if type(data) is int:
        return data
    raise _malformed_event("An integer field holds something else.")


def _read_rational(data: object, _: int) -> Fraction:
    if type(data) is int:
        return Fraction(data)
    if isinstance(data, str) and re.fullmatch(r"-?(0|[1-9][0-9]{0,2000})/[1-9][0-9]{0,2000}", data):
        fraction = Fraction(data)
        if data in (f"{fraction.numerator}/{fraction.denominator}", f"{fraction.numerator}/1"):
            return fraction
    raise _malformed_event("A rational field holds something else than an integer or 'p/q' in lowest terms.")


def _read_neighbours(data: object, _: int) -> Neighbours:
    return as_neighbours(data)


def _read_event(data: object, depth: int) -> Event:
    return _from_data(data, depth + 1)


def _read_events(data: object, depth: int) -> tuple[Event, ...]:
    if isinstance(data, list):
        return tuple(_from_data(part, depth + 1) for part in data)
    raise _malformed_event("`events` holds something else than a list.")


def _distinct_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("repeated key")
    return dict(pairs)


def _no_float(_: str) -> object:
    raise ValueError("floats are never stored")


def _malformed_event(why: str) -> MalformedEvent:
    return MalformedEvent(
        "This is not a stored event.",
        why,
        "Stored events are written by to_json only; if one was edited by hand, restore it from a backup.",
    )


def _at_least_one(value: object, name: str) -> int:
    return integer(value, name, 1)


_HINTS: dict[type[Event], dict[str, object]] = {
    event: {field.name: get_type_hints(event)[field.name] for field in fields(event)} for event in EVENTS
}
_FROM_CALLER: dict[object, Callable[[object, str], object]] = {
    int: _at_least_one,
    Fraction: positive_rational,
    Neighbours: as_neighbours,
    Event: _event,
    tuple[Event, ...]: _events,
}
_FROM_DATA: dict[object, Callable[[object, int], object]] = {
    int: _read_integer,
    Fraction: _read_rational,
    Neighbours: _read_neighbours,
    Event: _read_event,
    tuple[Event, ...]: _read_events,
}
_READERS: dict[str, dict[str, Callable[[object, int], object]]] = {
    event.kind: {name: _FROM_DATA[hint] for name, hint in _HINTS[event].items()} for event in EVENTS
}
