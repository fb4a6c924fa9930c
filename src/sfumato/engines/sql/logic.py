"""The forms of every comparison, condition and choice: all engines write them alike, given their integers."""

from collections.abc import Callable
from dataclasses import dataclass

from sfumato.engines.sql.dialect import Form
from sfumato.engines.sql.numbers import IntegerTypes, is_leaf
from sfumato.language.facts import Kind
from sfumato.language.scalar import Operator, Scalar


@dataclass(frozen=True, slots=True)
class ChoiceForms:
    """What an engine's choices need of it: its integer types, and its NULLIF."""

    types: IntegerTypes
    nullif: Callable[[str, str, bool], str]
    """The first, or NULL where it equals the second; the last says that the first is a column or spelled out."""

    def forms(self) -> dict[Operator, Form]:
        """Return the form of every operator."""
        return {
            Operator.LEAST: self._named("least"),
            Operator.GREATEST: self._named("greatest"),
            Operator.COALESCE: self._named("coalesce"),
            Operator.NULLIF: self._nullif,
            Operator.CASE: self._case,
            Operator.EQUAL: self._infix("="),
            Operator.DIFFERENT: self._infix("<>"),
            Operator.LESS: self._infix("<"),
            Operator.AT_MOST: self._infix("<="),
            Operator.DISTINCT_FROM: self._infix("IS DISTINCT FROM"),
            Operator.IN: self._in,
            Operator.IS_NULL: lambda scalar, texts: f"({texts[0]} IS NULL)",
            Operator.AND: self._infix("AND"),
            Operator.OR: self._infix("OR"),
            Operator.NOT: lambda scalar, texts: f"(NOT {texts[0]})",
        }

    def _alike(self, scalars: list[Scalar], texts: list[str]) -> list[str]:
        """Return values as one type: integers become the widest that is among them."""
        integers = [scalar.facts for scalar in scalars if scalar.facts.kind is Kind.INTEGER]
        if not any(self.types.of(facts) == self.types.wide for facts in integers):
            return texts
        return [
            self.types.typed(sql, scalar.facts, self.types.wide) if scalar.facts.kind is Kind.INTEGER else sql
            for scalar, sql in zip(scalars, texts, strict=True)
        ]

    def _narrow(self, sql: str, scalar: Scalar, parts: list[Scalar]) -> str:
        """Return the result as the type of its facts, which may be narrower than those of its parts."""
        if scalar.facts.kind is not Kind.INTEGER:
            return sql
        wanted = self.types.of(scalar.facts)
        alike = all(self.types.of(part.facts) == wanted for part in parts)
        return sql if alike else f"CAST({sql} AS {wanted})"

    def _infix(self, symbol: str) -> Form:
        return lambda scalar, texts: f"({f' {symbol} '.join(self._alike(list(scalar.arguments), texts))})"

    def _named(self, name: str) -> Form:
        def form(scalar: Scalar, texts: list[str]) -> str:
            parts = list(scalar.arguments)
            return self._narrow(f"{name}({', '.join(self._alike(parts, texts))})", scalar, parts)

        return form

    def _nullif(self, scalar: Scalar, texts: list[str]) -> str:
        parts = list(scalar.arguments)
        first, second = self._alike(parts, texts)
        return self._narrow(self.nullif(first, second, is_leaf(parts[0])), scalar, parts)

    def _in(self, scalar: Scalar, texts: list[str]) -> str:
        first, *items = self._alike(list(scalar.arguments), texts)
        return f"({first} IN ({', '.join(items)}))"

    def _case(self, scalar: Scalar, texts: list[str]) -> str:
        parts, values = [*scalar.arguments[1::2], scalar.arguments[-1]], [*texts[1::2], texts[-1]]
        *thens, otherwise = self._alike(parts, values)
        branches = [f"WHEN {when} THEN {then}" for when, then in zip(texts[:-1:2], thens, strict=True)]
        return self._narrow(f"(CASE {' '.join(branches)} ELSE {otherwise} END)", scalar, parts)
