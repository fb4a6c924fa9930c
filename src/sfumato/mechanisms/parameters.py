"""Read the parameters of every mechanism in one place: a name means the same everywhere."""

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any

from sfumato.accounting.event import as_neighbours
from sfumato.errors import BadParameter, quote_value
from sfumato.exact import integer, positive_rational, probability


def _positive_integer(value: object, name: str) -> int:
    return integer(value, name, 1)


def _read_monotone(value: object, name: str) -> bool:
    if isinstance(value, bool):
        return value
    raise BadParameter(
        f"{name} = {quote_value(value)} is not a yes or no.",
        "It claims that one unit moves all scores up or all of them down, which halves the noise.",
        f"Write {name}=True only if that is proved; otherwise leave it out.",
    )


_READERS: dict[str, Callable[[object, str], object]] = {
    "aboves": _positive_integer,
    "answers_epsilon": positive_rational,
    "chosen": _positive_integer,
    "delta": probability,
    "epsilon": positive_rational,
    "groups_per_unit": _positive_integer,
    "min_count": _positive_integer,
    "min_units": _positive_integer,
    "monotone": _read_monotone,
    "neighbours": as_neighbours,
    "rows_per_unit": _positive_integer,
    "scale": positive_rational,
    "sensitivity": _positive_integer,
    "sensitivity_squared": _positive_integer,
    "sigma_squared": positive_rational,
    "threshold_epsilon": positive_rational,
}


def read_parameters(mechanism: Any) -> None:
    """Replace each field that has a common name by its exact value, or refuse it."""
    kind: Any = type(mechanism)
    for name, read in _readers_of(kind):
        given = getattr(mechanism, name)
        value = read(given, name)
        if value is not given:
            object.__setattr__(mechanism, name, value)


@cache
def _readers_of(kind: Any) -> tuple[tuple[str, Callable[[object, str], object]], ...]:
    """Return the fields of a mechanism that have a common name, with what reads them."""
    return tuple((field.name, _READERS[field.name]) for field in fields(kind) if field.name in _READERS)
