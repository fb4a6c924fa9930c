"""The parameters of every mechanism, read in one place: the same name means the same thing everywhere."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from sfumato.accounting.event import as_neighbours
from sfumato.errors import BadParameter, quote_value
from sfumato.exact import integer, positive_rational, probability


def _at_least_one(value: object, name: str) -> int:
    return integer(value, name, 1)


def _is_monotone(value: object, name: str) -> bool:
    if isinstance(value, bool):
        return value
    raise BadParameter(
        f"{name} = {quote_value(value)} is not a yes or no.",
        "It claims that one unit moves all scores up or all of them down, which halves the noise.",
        f"Write {name}=True only if that is proved; otherwise leave it out.",
    )


_READERS: dict[str, Callable[[object, str], object]] = {
    "aboves": _at_least_one,
    "answers_epsilon": positive_rational,
    "chosen": _at_least_one,
    "delta": probability,
    "epsilon": positive_rational,
    "groups_per_unit": _at_least_one,
    "min_count": _at_least_one,
    "min_units": _at_least_one,
    "monotone": _is_monotone,
    "neighbours": as_neighbours,
    "rows_per_unit": _at_least_one,
    "scale": positive_rational,
    "sensitivity": _at_least_one,
    "sensitivity_squared": _at_least_one,
    "sigma_squared": positive_rational,
    "threshold_epsilon": positive_rational,
}


def read_parameters(mechanism: Any) -> None:
    """Replace each field that has a common name by its exact value, or refuse it."""
    for field in fields(mechanism):
        if field.name in _READERS:
            value = _READERS[field.name](getattr(mechanism, field.name), field.name)
            object.__setattr__(mechanism, field.name, value)
