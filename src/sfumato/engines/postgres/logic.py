"""PostgreSQL's form of every comparison, condition and choice."""

from collections.abc import Callable

from sfumato.analysis.facts import Kind
from sfumato.analysis.scalar import Operator, Scalar
from sfumato.engines.postgres.numbers import WIDE, integer_type, typed


def _alike(scalars: list[Scalar], texts: list[str]) -> list[str]:
    """Return values as one type: integers become the widest that is among them."""
    integers = [scalar.facts for scalar in scalars if scalar.facts.kind is Kind.INTEGER]
    if not any(integer_type(facts) == WIDE for facts in integers):
        return texts
    return [
        typed(sql, scalar.facts, WIDE) if scalar.facts.kind is Kind.INTEGER else sql
        for scalar, sql in zip(scalars, texts, strict=True)
    ]


def _narrow(sql: str, scalar: Scalar, parts: list[Scalar]) -> str:
    """Return the result as the type of its facts, which may be narrower than those of its parts."""
    if scalar.facts.kind is not Kind.INTEGER:
        return sql
    wanted = integer_type(scalar.facts)
    return sql if all(integer_type(part.facts) == wanted for part in parts) else f"CAST({sql} AS {wanted})"


def _infix(symbol: str) -> Callable[[Scalar, list[str]], str]:
    return lambda scalar, texts: f"({f' {symbol} '.join(_alike(list(scalar.arguments), texts))})"


def _named(name: str) -> Callable[[Scalar, list[str]], str]:
    def form(scalar: Scalar, texts: list[str]) -> str:
        parts = list(scalar.arguments)
        return _narrow(f"{name}({', '.join(_alike(parts, texts))})", scalar, parts)

    return form


def _in(scalar: Scalar, texts: list[str]) -> str:
    first, *items = _alike(list(scalar.arguments), texts)
    return f"({first} IN ({', '.join(items)}))"


def _case(scalar: Scalar, texts: list[str]) -> str:
    parts, values = [*scalar.arguments[1::2], scalar.arguments[-1]], [*texts[1::2], texts[-1]]
    *thens, otherwise = _alike(parts, values)
    branches = [f"WHEN {when} THEN {then}" for when, then in zip(texts[:-1:2], thens, strict=True)]
    return _narrow(f"(CASE {' '.join(branches)} ELSE {otherwise} END)", scalar, parts)


def _is_null(scalar: Scalar, texts: list[str]) -> str:
    return f"({texts[0]} IS NULL)"


def _not(scalar: Scalar, texts: list[str]) -> str:
    return f"(NOT {texts[0]})"


FORMS: dict[Operator, Callable[[Scalar, list[str]], str]] = {
    Operator.LEAST: _named("least"),
    Operator.GREATEST: _named("greatest"),
    Operator.COALESCE: _named("coalesce"),
    Operator.NULLIF: _named("nullif"),  # it evaluates its arguments once here
    Operator.CASE: _case,
    Operator.EQUAL: _infix("="),
    Operator.DIFFERENT: _infix("<>"),
    Operator.LESS: _infix("<"),
    Operator.AT_MOST: _infix("<="),
    Operator.DISTINCT_FROM: _infix("IS DISTINCT FROM"),
    Operator.IN: _in,
    Operator.IS_NULL: _is_null,
    Operator.AND: _infix("AND"),
    Operator.OR: _infix("OR"),
    Operator.NOT: _not,
}
