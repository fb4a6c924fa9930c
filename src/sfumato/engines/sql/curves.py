"""The forms of logarithms and powers of integers, and of results that are listed: the integers of `language.curves`.

All but the argument and the last product fits into 64 bits, whatever the argument is: rests are below 2^31, parts below
2^42.  Proof: proofs/curves.md
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sfumato.engines.sql.dialect import Form, Given
from sfumato.engines.sql.numbers import IntegerTypes, of_doubles
from sfumato.language.curves import BITS, PART_BITS, PARTS, SPARE_BITS, exponential, logarithm
from sfumato.language.facts import STORED_LIMIT
from sfumato.language.scalar import ListedResults, LogarithmCurve, Operator, PowerCurve, Scalar

_VALUE_BITS = BITS + PART_BITS


@dataclass(frozen=True, slots=True)
class CurveForms:
    """What an engine's forms of curves need of it."""

    types: IntegerTypes
    named: Given
    """SQL over values that are computed once."""
    element: Callable[[Sequence[int], str, str], str]
    """One of constants of a type, by its narrow number from 0 on; NULL for NULL."""
    halved: Callable[[str, int, str], str]
    """An integer of the type that is not negative, divided by two so often."""
    quotient: Callable[[str, str, str], str]
    """Of two integers of the type, towards zero; the second is not zero."""
    exponential_of_double: Form
    logarithm_of_double: Form

    def forms(self) -> dict[Operator, Form]:
        """Return the form of every curve."""
        return {
            Operator.EXP: self._exponential,
            Operator.LOG: self._logarithm,
            Operator.LOOKUP: self._lookup,
        }

    def _lookup(self, scalar: Scalar, texts: list[str]) -> str:
        match scalar.constant:
            case ListedResults(first, values):
                pass
            case _:
                raise AssertionError("LOOKUP comes with what is listed")
        facts = scalar.arguments[0].facts
        type = self.types.of(facts)

        def number(x: str) -> str:
            from_first = f"({x} - {self.types.integer(first, type)})"
            index = from_first if type == self.types.narrow else f"CAST({from_first} AS {self.types.narrow})"
            if facts.low >= first:
                return index
            return f"CASE WHEN {x} >= {self.types.integer(first, type)} THEN {index} END"

        return self.element(values, self.types.of(scalar.facts), self.named(texts, number))

    def _narrow(self, value: int) -> str:
        return self.types.integer(value, self.types.narrow)

    def _halved(self, sql: str, bits: int) -> str:
        return self.halved(sql, bits, self.types.narrow)

    def _rest(self, sql: str, bits: int) -> str:
        return f"({sql} & {self._narrow((1 << bits) - 1)})"

    def _near(self, sql: str, scalar: Scalar, type: str) -> str:
        """Bring a result between its facts: a law of intervals that needs no proof of monotony."""
        low, high = (self.types.integer(side, type) for side in (scalar.facts.low, scalar.facts.high))
        near = f"least(greatest({sql}, {low}), {high})"
        return near if type == self.types.of(scalar.facts) else f"CAST({near} AS {self.types.of(scalar.facts)})"

    # ── logarithms ──

    def _logarithm(self, scalar: Scalar, texts: list[str]) -> str:
        if of_doubles(scalar) or not isinstance(scalar.constant, LogarithmCurve):
            return self.logarithm_of_double(scalar, texts)
        facts, zero = scalar.arguments[0].facts, scalar.constant.zero
        tables = logarithm(scalar.constant, max(facts.low, 1), max(facts.high, 1))
        if tables is None:
            raise AssertionError("a logarithm of integers has its tables")
        type, doublings = self.types.of(facts), range(tables.least, tables.least + len(tables.doublings))
        offset = max(0, 1 - min(tables.doublings) // (1 << SPARE_BITS))  # steps that make everything nonnegative
        raise_by = (1 << SPARE_BITS >> 1) + (offset << SPARE_BITS)

        def smaller(value: str) -> str:
            part = self._halved(value, BITS)
            rest = self.quotient(self._rest(value, BITS), part, self.types.narrow)
            listed = self.element(tables.parts, self.types.narrow, f"({part} - {PARTS})")
            factor = self._narrow(tables.factor)
            logarithm_of_rest = self.named(
                [rest], lambda z: self._halved(f"({self._logarithm_of_rest(z)} * {factor})", tables.shift)
            )
            return f"({listed} + {logarithm_of_rest})"

        def body(x: str) -> str:
            larger = self._by_doubling(
                x, doublings, type, lambda n: self._narrow(tables.doublings[n - tables.least] + raise_by)
            )
            value = self._value(x, doublings, type)
            whole = self._halved(f"({larger} + {self.named([value], smaller)})", SPARE_BITS)
            result = self._near(f"({whole} - {self._narrow(offset)})", scalar, self.types.narrow)
            at_zero = f" WHEN {x} = 0 THEN {self._narrow(zero)}" if zero is not None else ""
            return f"CASE WHEN {x} > 0 THEN {result}{at_zero} END"

        return self.named(texts, body)

    def _by_doubling(self, x: str, doublings: range, type: str, result: Callable[[int], str]) -> str:
        """What is made of the number of bits of an integer, found by halving what is possible."""
        if len(doublings) == 1:
            return result(doublings.start)
        middle = len(doublings) // 2
        below, above = (self._by_doubling(x, part, type, result) for part in (doublings[:middle], doublings[middle:]))
        limit = self.types.integer(1 << doublings[middle], type)
        return f"CASE WHEN {x} < {limit} THEN {below} ELSE {above} END"

    def _value(self, x: str, doublings: range, type: str) -> str:
        """The integer moved so that it has BITS + PART_BITS bits and one; integers not above 0 are taken as 1."""

        def moved(by: Callable[[int], int]) -> str:
            return self._by_doubling(x, doublings, type, lambda n: self.types.integer(1 << max(by(n), 0), type))

        value = f"(greatest({x}, {self.types.integer(1, type)}) * {moved(lambda n: _VALUE_BITS - n)})"
        if doublings[-1] > _VALUE_BITS:
            value = self.quotient(value, moved(lambda n: n - _VALUE_BITS), type)
        return value if type == self.types.narrow else f"CAST({value} AS {self.types.narrow})"

    def _logarithm_of_rest(self, z: str) -> str:
        square = self._halved(f"({z} * {z})", BITS)
        cube = self.quotient(f"({square} * {z})", self._narrow(3 << BITS), self.types.narrow)
        return f"({z} - {self._halved(square, 1)} + {cube} - {self._halved(f'({square} * {square})', BITS + 2)})"

    # ── powers ──

    def _exponential(self, scalar: Scalar, texts: list[str]) -> str:
        if of_doubles(scalar) or not isinstance(scalar.constant, PowerCurve):
            return self.exponential_of_double(scalar, texts)
        facts = scalar.arguments[0].facts
        tables = exponential(scalar.constant, facts.low, facts.high)
        if tables is None:
            raise AssertionError("a power of integers has its tables")
        wide = max(facts.high - min(tables.first, facts.low), 0) * tables.factor >= STORED_LIMIT
        type = self.types.wide if wide else self.types.working(scalar.arguments[0])
        first = self.types.integer(tables.first, type)
        last = self.types.wide if max(tables.wholes) << (BITS + 2) >= STORED_LIMIT else self.types.narrow

        def exponent(x: str) -> str:
            above = (
                f"CASE WHEN {x} > {first} THEN {x} - {first} WHEN {x} <= {first} THEN {self.types.integer(0, type)} END"
            )
            product = f"(({above}) * {self.types.integer(tables.factor, type)})"
            halved = self.halved(product, tables.shift, type)
            return halved if type == self.types.narrow else f"CAST({halved} AS {self.types.narrow})"

        def power(x: str) -> str:
            part = self._rest(self._halved(x, BITS - PART_BITS), PART_BITS)
            values = [
                self.element(tables.parts, self.types.narrow, part),
                self._growth_of_rest(self._rest(x, BITS - PART_BITS)),
                self.element(tables.wholes, last, self._halved(x, BITS)),
            ]
            return self.named(values, scaled)

        def scaled(part: str, growth: str, whole: str) -> str:
            near = f"({part} + {self._halved(f'({self._halved(part, 10)} * {growth})', BITS - 10)})"
            typed = near if last == self.types.narrow else f"CAST({near} AS {last})"
            sum = f"({typed} * {whole} + {self.types.integer(1 << (BITS + SPARE_BITS - 1), last)})"
            near = self._near(self.halved(sum, BITS + SPARE_BITS, last), scalar, last)
            return f"CASE WHEN {part} IS NOT NULL THEN {near} END"  # least and greatest pass over NULL

        typed = self.types.typed(texts[0], facts, type)
        return self.named([self.named([typed], exponent)], power)

    def _growth_of_rest(self, r: str) -> str:
        square = f"({r} * {r})"
        cube = self.quotient(f"({self._halved(square, BITS)} * {r})", self._narrow(6 << BITS), self.types.narrow)
        return f"({r} + {self._halved(square, BITS + 1)} + {cube})"
