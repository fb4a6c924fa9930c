"""An aggregate: the one record of it, from the text of a question to what is measured."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Generic, TypeVar

from sfumato.query.functions import Aggregation

Part = TypeVar("Part")
Other = TypeVar("Other")


@dataclass(frozen=True, slots=True)
class Aggregate(Generic[Part]):
    """An aggregate function over SQL expressions or over total expressions.

    A COUNT without arguments counts rows. `distinct` takes each different value once, `where` is its FILTER, and
    `parameters` are the public numbers that belong to the function: the fraction of a quantile, the k of a top list.
    """

    function: Aggregation
    arguments: tuple[Part, ...] = ()
    distinct: bool = False
    where: Part | None = None
    parameters: tuple[Fraction, ...] = ()
    _hash: int | None = field(default=None, init=False, compare=False, repr=False)

    def __hash__(self) -> int:
        """Return the hash; it is computed once, because a measurement of many quantiles has many parameters."""
        if self._hash is None:
            parts = (self.function, self.arguments, self.distinct, self.where, self.parameters)
            object.__setattr__(self, "_hash", hash(parts))
        return self._hash  # type: ignore[return-value]

    def __reduce__(self) -> tuple[type["Aggregate[Part]"], tuple[object, ...]]:
        """Pickle without the hash: hashes of texts differ between processes."""
        return type(self), (self.function, self.arguments, self.distinct, self.where, self.parameters)

    @property
    def argument(self) -> Part | None:
        """The first argument; None where rows are counted."""
        return self.arguments[0] if self.arguments else None

    @property
    def parts(self) -> tuple[Part, ...]:
        """Everything that is computed from a row."""
        return self.arguments if self.where is None else (*self.arguments, self.where)

    def mapped(self, change: Callable[[Part], Other]) -> "Aggregate[Other]":
        """Return the same aggregate of other parts."""
        arguments = tuple(change(argument) for argument in self.arguments)
        where = None if self.where is None else change(self.where)
        return Aggregate(self.function, arguments, self.distinct, where, self.parameters)

    def written(self, text: Callable[[Part], str]) -> str:
        """Return it as it is printed, `text` printing its parts.

        >>> Aggregate(Aggregation.SUM, ("cost",), True, "urgent").written(str)
        'sum(distinct cost) where urgent'
        """
        inner = ", ".join([*map(text, self.arguments), *map(str, self.parameters)]) or "*"
        where = "" if self.where is None else f" where {text(self.where)}"
        return f"{self.function}({'distinct ' * self.distinct}{inner}){where}"
