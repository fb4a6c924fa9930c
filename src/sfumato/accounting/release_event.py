"""Events of one release, and how the fields of events are read: from a caller and from stored text.

The public names are those of `sfumato.accounting.event`, which adds the events that are made of others.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Any, ClassVar, get_type_hints

from sfumato.errors import BadParameter, MalformedEvent, quote_value
from sfumato.exact import integer, positive_rational, rational

_HINTS: dict[type[Any], dict[str, object]] = {}
NonNegative = Annotated[Fraction, "at least 0"]
"""A rational field that may be 0."""


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
        read_fields(self)


@dataclass(frozen=True, slots=True)
class LaplaceRefinement:
    """Integer Laplace noise of scale `before`, charged earlier, was replaced by smaller noise of `scale`, given it.

    In a sum of pure losses the earlier release and this one cost together what noise of `scale` costs. Nothing of the
    kind holds for Rényi losses: there it is a release whose loss, given the past, is at most `conditional_loss`.
    Proof: proofs/refinement.md
    """

    kind: ClassVar[str] = "laplace-refinement"
    sensitivity: int
    before: Fraction
    scale: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        read_fields(self)
        if self.scale >= self.before:
            raise BadParameter(
                f"scale = {quote_value(self.scale)} is not below before = {quote_value(self.before)}.",
                "Noise is refined to smaller noise.",
                "Give a smaller scale.",
            )

    @property
    def added_loss(self) -> Fraction:
        """What it adds to a sum of pure losses that holds the earlier release."""
        return self.sensitivity / self.scale - self.sensitivity / self.before

    @property
    def conditional_loss(self) -> Fraction:
        """The pure loss of this release given everything before it."""
        return self.sensitivity / self.scale + self.sensitivity / self.before


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """Integer Gaussian noise on integers that one unit moves by at most `sensitivity_squared` in squared L2."""

    kind: ClassVar[str] = "gaussian-noise"
    sensitivity_squared: int
    sigma_squared: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True)
class RealLaplaceNoise:
    """Laplace noise with a density on the reals, as other systems state it: for re-accounting their releases."""

    kind: ClassVar[str] = "real-laplace-noise"
    sensitivity: Fraction
    scale: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True)
class RealGaussianNoise:
    """Gaussian noise with a density on the reals, as other systems state it: for re-accounting their releases."""

    kind: ClassVar[str] = "real-gaussian-noise"
    sensitivity_squared: Fraction
    sigma_squared: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True)
class GaussianMixture:
    """Real Gaussian noise on a sum that one unit moves by a random length, drawn afresh and kept secret.

    The length is `sensitivities[i]` with probability `probabilities[i]`; the probabilities sum to 1. In units of the
    noise the two laws are the mixture of N(sensitivities[i], sigma_squared) and N(0, sigma_squared) [CGST23].
    """

    kind: ClassVar[str] = "gaussian-mixture"
    sigma_squared: Fraction
    sensitivities: tuple[Fraction, ...]
    probabilities: tuple[Fraction, ...]
    neighbours: Neighbours

    def __post_init__(self) -> None:
        read_fields(self)
        if not self.sensitivities or len(self.sensitivities) != len(self.probabilities):
            raise BadParameter(
                "sensitivities and probabilities differ in length, or are empty.",
                "Each length that a unit may move needs its probability.",
                "Give as many probabilities as sensitivities.",
            )
        if sum(self.probabilities) != 1:
            raise BadParameter(
                f"The probabilities sum to {quote_value(sum(self.probabilities))}.",
                "One of the lengths is always drawn.",
                "Give fractions that sum to exactly 1.",
            )
        only_add_remove(self.neighbours, "GaussianMixture", "both laws are mixtures")

    @property
    def largest(self) -> Fraction:
        """The largest length with a positive probability."""
        return max(length for length, share in zip(self.sensitivities, self.probabilities, strict=True) if share)

    @property
    def moved(self) -> Fraction:
        """Probability that the sum moves at all."""
        return sum(
            (share for length, share in zip(self.sensitivities, self.probabilities, strict=True) if length), Fraction(0)
        )


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
        read_fields(self)
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
        read_fields(self)


@dataclass(frozen=True, slots=True)
class BoundedRange:
    """A release whose log-ratios between neighbours span at most epsilon, as the exponential mechanism's do [CR21]."""

    kind: ClassVar[str] = "bounded-range"
    epsilon: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True)
class LaplaceBounded:
    """A release known only by its bound: no test tells neighbours apart better than after real Laplace noise.

    The noise has sensitivity epsilon and scale 1. Permute-and-flip is such a release: proofs/permute_and_flip.md, (5).
    """

    kind: ClassVar[str] = "laplace-bounded"
    epsilon: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True)
class Concentrated:
    """A release known only by its bound: rho-zCDP [BS16]."""

    kind: ClassVar[str] = "concentrated"
    rho: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True)
class RenyiBounded:
    """A release known only by its bounds: epsilon-DP, and at each of the orders of no more than that Rényi loss.

    Orders are integers above 1 that rise. At other orders its loss follows from these. Proof: proofs/rdp.md, Lemma 7
    """

    kind: ClassVar[str] = "renyi-bounded"
    epsilon: Fraction
    orders: tuple[int, ...]
    losses: tuple[Fraction, ...]
    neighbours: Neighbours

    def __post_init__(self) -> None:
        read_fields(self)
        if not self.orders or len(self.orders) != len(self.losses):
            raise BadParameter(
                "orders and losses differ in length, or are empty.",
                "Each order needs the loss that is known there.",
                "Give as many losses as orders.",
            )
        if self.orders[0] < 2 or any(after <= before for before, after in pairwise(self.orders)):
            raise BadParameter(
                f"orders = {quote_value(self.orders)} do not rise from 2 on.",
                "A Rényi loss is known at orders above 1, each of them named once.",
                "Write them in order, for example (8, 23).",
            )

    def loss_at(self, order: Fraction) -> Fraction:
        """Return a bound of the loss at an order, from those that are known: (α - 1)D_α is convex in α."""
        if order <= self.orders[0]:
            return min(self.losses[0], self.epsilon)  # losses do not fall with the order
        moments = [(known, (known - 1) * loss) for known, loss in zip(self.orders, self.losses, strict=True)]
        last, most = moments[-1]
        moment = most + (order - last) * self.epsilon
        for (left, low), (right, high) in pairwise(moments):
            if left < order <= right:
                moment = low + (high - low) * (order - left) / (right - left)
        return min(moment / (order - 1), self.epsilon)


@dataclass(frozen=True, slots=True)
class NonPrivate:
    """A release with no guarantee at all. Every accountant says that it costs infinity."""

    kind: ClassVar[str] = "non-private"
    neighbours: Neighbours

    def __post_init__(self) -> None:
        read_fields(self)


def as_neighbours(value: object, _: str = "neighbours") -> Neighbours:
    """Read a neighbour relation; the two names are accepted as text."""
    if isinstance(value, Neighbours):
        return value
    try:
        return Neighbours(value)  # type: ignore[arg-type]
    except ValueError:
        raise BadParameter(
            f"neighbours = {quote_value(value)} is not a neighbour relation.",
            "A sensitivity holds only for the neighbour relation that it was derived for.",
            "Write 'add-remove' or 'replace'.",
        ) from None


def only_add_remove(neighbours: Neighbours | None, name: str, why: str) -> None:
    if neighbours is Neighbours.REPLACE:
        raise BadParameter(
            f"neighbours = 'replace' does not fit {name}.",
            f"Under replace {why}.",
            "State the event under 'add-remove', or without it.",
        )


def read_fields(event: Any, readers: Mapping[object, Callable[[object, str], object]] | None = None) -> None:
    """Replace the fields of a new event by what their types make of them, or refuse."""
    known = FROM_CALLER if readers is None else readers
    for name, hint in field_hints(type(event)).items():
        given = getattr(event, name)
        value = known[hint](given, name)
        if value is not given:
            object.__setattr__(event, name, value)


def field_hints(kind: type[Any]) -> dict[str, object]:
    """Return the type of each field of a kind of event."""
    if kind not in _HINTS:
        hints = get_type_hints(kind, include_extras=True)
        _HINTS[kind] = {field.name: hints[field.name] for field in fields(kind)}
    return _HINTS[kind]


def _at_least_zero(value: object, name: str) -> Fraction:
    number = rational(value, name)
    return Fraction(0) if number == 0 else positive_rational(number, name)


def _at_least_one(value: object, name: str) -> int:
    return integer(value, name, 1)


def _read_each(read: Callable[[object, str], object]) -> Callable[[object, str], tuple[object, ...]]:
    def _read(values: object, name: str) -> tuple[object, ...]:
        if isinstance(values, tuple | list):
            return tuple(read(value, name) for value in values)
        raise BadParameter(f"{name} = {quote_value(values)} is not a tuple.", "It has several values.", "Write (a, b).")

    return _read


def _read_integer(data: object, _: int) -> int:
    if type(data) is int:
        return data
    raise malformed_event("An integer field holds something else.")


def _read_rational(data: object, _: int) -> Fraction:
    if type(data) is int:
        return Fraction(data)
    if isinstance(data, str) and re.fullmatch(r"-?(0|[1-9][0-9]{0,2000})/[1-9][0-9]{0,2000}", data):
        fraction = Fraction(data)
        if data in (f"{fraction.numerator}/{fraction.denominator}", f"{fraction.numerator}/1"):
            return fraction
    raise malformed_event("A rational field holds something else than an integer or 'p/q' in lowest terms.")


def _read_neighbours(data: object, _: int) -> Neighbours:
    return as_neighbours(data)


def _each_read(read: Callable[[object, int], object]) -> Callable[[object, int], tuple[object, ...]]:
    def _read(data: object, depth: int) -> tuple[object, ...]:
        if isinstance(data, list):
            return tuple(read(part, depth) for part in data)
        raise malformed_event("A field of several values holds something else than a list.")

    return _read


def distinct_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object of JSON; a key that occurs twice is refused."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("repeated key")
    return dict(pairs)


def no_float(_: str) -> object:
    """Refuse a float."""
    raise ValueError("floats are never stored")


def malformed_event(why: str) -> MalformedEvent:
    """Return the refusal of a text that is no event."""
    return MalformedEvent(
        "This is not a stored event.",
        why,
        "Stored events are written by to_json only; if one was edited by hand, restore it from a backup.",
    )


FROM_CALLER: dict[object, Callable[[object, str], object]] = {
    int: _at_least_one,
    Fraction: positive_rational,
    NonNegative: _at_least_zero,
    Neighbours: as_neighbours,
    tuple[int, ...]: _read_each(_at_least_one),
    tuple[Fraction, ...]: _read_each(_at_least_zero),
}
"""How a field of each type is read from a caller."""
FROM_DATA: dict[object, Callable[[object, int], object]] = {
    int: _read_integer,
    Fraction: _read_rational,
    NonNegative: _read_rational,
    Neighbours: _read_neighbours,
    tuple[int, ...]: _each_read(_read_integer),
    tuple[Fraction, ...]: _each_read(_read_rational),
}
"""How a field of each type is read from stored text."""
