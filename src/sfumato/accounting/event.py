"""Events: frozen descriptions of releases, whose meaning never changes.

Numbers are `int` or `Fraction`, and every event names the neighbour relation its sensitivity was derived for. An
event is stored as canonical JSON (`to_json`), so that a better accountant can re-account an old ledger. A new meaning
is a new kind: no event is ever redefined.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Union, get_args

from sfumato.accounting.release_event import (
    FROM_CALLER,
    FROM_DATA,
    BoundedRange,
    Concentrated,
    GaussianMixture,
    GaussianNoise,
    LaplaceBounded,
    LaplaceNoise,
    LaplaceRefinement,
    Neighbours,
    NonNegative,
    NonPrivate,
    Pure,
    RandomizedResponse,
    RealGaussianNoise,
    RealLaplaceNoise,
    RenyiBounded,
    as_neighbours,
    distinct_keys,
    field_hints,
    malformed_event,
    no_float,
    only_add_remove,
    read_fields,
)
from sfumato.errors import BadParameter, MixedNeighbours, quote_value
from sfumato.exact import probability

__all__ = [
    "EVENTS",
    "Approximate",
    "BestOfNegativeBinomial",
    "BestOfPoisson",
    "BoundedRange",
    "Composed",
    "Concentrated",
    "Event",
    "GaussianMixture",
    "GaussianNoise",
    "LaplaceBounded",
    "LaplaceNoise",
    "LaplaceRefinement",
    "Neighbours",
    "NonPrivate",
    "Parallel",
    "PoissonSampled",
    "Pure",
    "RandomizedResponse",
    "RealGaussianNoise",
    "RealLaplaceNoise",
    "RenyiBounded",
    "Repeated",
    "TreeAggregation",
    "TruncatedPoissonSampled",
    "as_neighbours",
    "from_json",
    "shared_neighbours",
    "to_json",
]


@dataclass(frozen=True, slots=True)
class Approximate:
    """The inner event, except with probability delta, when anything may have been released."""

    kind: ClassVar[str] = "approximate"
    event: "Event"
    delta: Fraction

    def __post_init__(self) -> None:
        _read_parts(self)
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
        _read_parts(self)
        _check_share(self.rate, "rate")
        only_add_remove(self.event.neighbours, "PoissonSampled", "the number of sampled units is not public")

    @property
    def neighbours(self) -> Neighbours | None:
        return self.event.neighbours


@dataclass(frozen=True, slots=True)
class TruncatedPoissonSampled:
    """The inner event on a Poisson sample of `rate` that is cut to `limit` units, chosen uniformly, if it has more.

    It speaks of neighbours of which the larger database has `units` units. The size of the sample stays secret, too.
    Proof: proofs/truncated_sampling.md
    """

    kind: ClassVar[str] = "truncated-poisson-sampled"
    rate: Fraction
    units: int
    limit: int
    event: "Event"

    def __post_init__(self) -> None:
        _read_parts(self)
        _check_share(self.rate, "rate")
        only_add_remove(self.event.neighbours, "TruncatedPoissonSampled", "both laws are mixtures")

    @property
    def neighbours(self) -> Neighbours | None:
        return self.event.neighbours


@dataclass(frozen=True, slots=True)
class TreeAggregation:
    """The inner event at each node of complete binary trees over steps; a unit lies in one step of one tree at most.

    `steps` are the numbers of leaves, one for each tree. Proof: proofs/tree_aggregation.md
    """

    kind: ClassVar[str] = "tree-aggregation"
    event: "Event"
    steps: tuple[int, ...]

    def __post_init__(self) -> None:
        _read_parts(self)
        if not self.steps:
            raise BadParameter("steps is empty.", "A tree has at least one step.", "Write for example (1024,).")

    @property
    def neighbours(self) -> Neighbours | None:
        return self.event.neighbours

    @property
    def path(self) -> "Repeated":
        """The releases that one unit can move: the nodes above its step, in the highest tree."""
        return Repeated(self.event, max(self.steps).bit_length())


@dataclass(frozen=True, slots=True)
class BestOfPoisson:
    """The best outcome of K runs of the inner event, K drawn from the Poisson law of this mean; no run: no outcome.

    "Best" is any order of outcomes that was fixed in advance. K stays secret, as do all other runs [PS22].
    Proof: proofs/best_of_runs.md
    """

    kind: ClassVar[str] = "best-of-poisson"
    mean: Fraction
    event: "Event"

    def __post_init__(self) -> None:
        _read_parts(self)
        if self.mean < 1:
            raise BadParameter(
                f"mean = {quote_value(self.mean)} is below 1.", "The bound is proved from 1 on.", "Give at least 1."
            )

    @property
    def neighbours(self) -> Neighbours | None:
        return self.event.neighbours


@dataclass(frozen=True, slots=True)
class BestOfNegativeBinomial:
    """The best outcome of K ≥ 1 runs of the inner event, K drawn from a truncated negative binomial law [PS22].

    P[K = k] is proportional to (1 - stopping)^k Γ(k + shape)/(Γ(shape) k!). Shape 1 is the geometric law: stop after
    each run with probability `stopping`. Shape 0 is the logarithmic law. K stays secret, as do all other runs.
    Proof: proofs/best_of_runs.md
    """

    kind: ClassVar[str] = "best-of-negative-binomial"
    stopping: Fraction
    shape: NonNegative
    event: "Event"

    def __post_init__(self) -> None:
        _read_parts(self)
        _check_share(self.stopping, "stopping")

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
        _read_parts(self)

    @property
    def neighbours(self) -> Neighbours | None:
        return self.event.neighbours


@dataclass(frozen=True, slots=True)
class Composed:
    """All of these events, on the same data. `Composed(())` is the empty release."""

    kind: ClassVar[str] = "composed"
    events: tuple["Event", ...]

    def __post_init__(self) -> None:
        _read_parts(self)

    @property
    def neighbours(self) -> Neighbours | None:
        return shared_neighbours(self.events)


@dataclass(frozen=True, slots=True)
class Parallel:
    """Each of these events on its own part of the data; a unit lies wholly in one part."""

    kind: ClassVar[str] = "parallel"
    events: tuple["Event", ...]

    def __post_init__(self) -> None:
        _read_parts(self)
        only_add_remove(self.neighbours, "Parallel", "a person may leave one part and enter another")

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
    LaplaceBounded,
    LaplaceRefinement,
    GaussianMixture,
    Concentrated,
    RenyiBounded,
    NonPrivate,
    Approximate,
    PoissonSampled,
    TruncatedPoissonSampled,
    TreeAggregation,
    BestOfPoisson,
    BestOfNegativeBinomial,
    Repeated,
    Composed,
    Parallel,
]
EVENTS: tuple[type[Event], ...] = get_args(Event)
_KINDS: dict[str, type[Event]] = {event.kind: event for event in EVENTS}
_MAX_NESTING = 64
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


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
    return _ENCODER.encode(_as_data(_event(event)))


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


def is_refinement(event: Event) -> bool:
    """Whether a part of it is noise that was drawn given the noise of an earlier release."""
    return isinstance(event, Composed) and any(isinstance(part, LaplaceRefinement) for part in event.events)


def from_json(text: str) -> Event:
    """Read an event back; whatever is not exactly one known event is refused.

    >>> from_json('{"epsilon":"1/10","kind":"pure","neighbours":"add-remove"}')
    Pure(epsilon=Fraction(1, 10), neighbours=<Neighbours.ADD_REMOVE: 'add-remove'>)
    """
    if not isinstance(text, str):
        raise malformed_event("An event is stored as text.")
    try:
        data = json.loads(text, object_pairs_hook=distinct_keys, parse_float=no_float, parse_constant=no_float)
    except (ValueError, TypeError, RecursionError):
        raise malformed_event("The text is not JSON, or it holds a float or a key twice.") from None
    return _from_data(data, 0)


def _read_parts(event: Any) -> None:
    read_fields(event, _FROM_CALLER)


def _check_share(value: Fraction, name: str) -> None:
    if value > 1:
        raise BadParameter(f"{name} = {quote_value(value)} is above 1.", "It is a probability.", "Give at most 1.")


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
        case Approximate(event=inner) | PoissonSampled(event=inner) | TruncatedPoissonSampled(event=inner):
            return 1 + _depth(inner)
        case Repeated(inner, _) | TreeAggregation(inner, _):
            return 1 + _depth(inner)
        case BestOfPoisson(event=inner) | BestOfNegativeBinomial(event=inner):
            return 1 + _depth(inner)
        case Composed(inner) | Parallel(inner):
            return 1 + max((_depth(part) for part in inner), default=0)
        case _:
            return 1


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
            return {"kind": event.kind} | {name: _as_data(getattr(event, name)) for name in field_hints(type(event))}


def _from_data(data: object, depth: int) -> Event:
    if not isinstance(data, dict) or depth > _MAX_NESTING:
        raise malformed_event("An event is an object with a kind, nested in reason.")
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise malformed_event(f"The kind {str(kind)[:60]!r} is unknown.")
    readers = _READERS[kind]
    if data.keys() - {"kind"} != readers.keys():
        raise malformed_event(f"A {kind} has exactly the fields kind, {', '.join(readers)}.")
    make: Callable[..., Event] = _KINDS[kind]
    return make(**{name: read(data[name], depth) for name, read in readers.items()})


def _read_event(data: object, depth: int) -> Event:
    return _from_data(data, depth + 1)


def _read_events(data: object, depth: int) -> tuple[Event, ...]:
    if isinstance(data, list):
        return tuple(_from_data(part, depth + 1) for part in data)
    raise malformed_event("`events` holds something else than a list.")


_FROM_CALLER: dict[object, Callable[[object, str], object]] = {
    **FROM_CALLER,
    Event: _event,
    tuple[Event, ...]: _events,
}
_FROM_DATA: dict[object, Callable[[object, int], object]] = {
    **FROM_DATA,
    Event: _read_event,
    tuple[Event, ...]: _read_events,
}
_READERS: dict[str, dict[str, Callable[[object, int], object]]] = {
    event.kind: {name: _FROM_DATA[hint] for name, hint in field_hints(event).items()} for event in EVENTS
}
