"""What a mechanism brings to the laws: itself, neighbouring inputs, and its exact output law."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any


@dataclass(frozen=True)
class Case:
    """One mechanism under the laws.

    `law(input)` is the exact law of the output as {outcome: probability}, 60-digit mpmath numbers; `pairs` are
    neighbouring inputs; `epsilon` and `delta` are what the mechanism's event promises.
    """

    name: str
    mechanism: Any
    pairs: tuple[tuple[Any, Any], ...]
    law: Callable[[Any], dict[Any, Any]]
    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __str__(self) -> str:
        return self.name
