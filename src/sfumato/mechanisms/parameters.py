"""Read the parameters of every mechanism in one place: a name means the same everywhere."""

from collections.abc import Callable
from dataclasses import fields
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
    for field in fields(mechanism):
        if field.name in _READERS:
            value = _READERS[field.name](getattr(mechanism, field.name), field.name)
            object.__setattr__(mechanism, field.name, value)
