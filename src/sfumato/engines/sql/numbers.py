"""The forms of every operator on integers, given an engine's types and divisions; those on doubles are the engine's.

Integers are narrow, 64 bits, where the facts fit that, and wide where they do not. A form computes in wide integers as
soon as a result or anything on the way to it may leave 64 bits.  Proof: proofs/total_scalars.md
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sfumato.engines.sql.dialect import Form, Given
from sfumato.language.facts import STORED_LIMIT, Facts, Kind
from sfumato.language.intervals import max_magnitude
from sfumato.language.scalar import Operator, Scalar, Sides


def inline(values: Sequence[str], body: Callable[..., str]) -> str:
    """Return the body over the values as they are: for engines that see that they are the same."""
    return body(*values)


def pair(scalar: Scalar) -> tuple[int, int]:
    """Return the two integers that are spelled out with the operator."""
    match scalar.constant:
        case (int(first), int(second)):
            return first, second
        case _:
            raise AssertionError(f"{scalar.operator} comes with two integers")


def integer(scalar: Scalar) -> int:
    """Return the integer that is spelled out with the operator."""
    match scalar.constant:
        case int(value):
            return value
        case _:
            raise AssertionError(f"{scalar.operator} comes with an integer")


def is_leaf(scalar: Scalar) -> bool:
    """Whether a scalar is a column or spelled out: writing it twice costs nothing."""
    return scalar.operator in {Operator.COLUMN, Operator.CONSTANT}


def of_doubles(scalar: Scalar) -> bool:
    """Whether an operator is applied to doubles."""
    return scalar.arguments[0].facts.kind is Kind.REAL


@dataclass(frozen=True, slots=True)
class IntegerTypes:
    """An engine's two types of integers, and its type of doubles."""

    narrow: str
    wide: str
    double: str
    integer: Callable[[int, str], str]
    """An integer as a constant of this type."""

    def of(self, facts: Facts) -> str:
        """Return the type of an INTEGER kind with these facts."""
        return self.narrow if facts.low >= -STORED_LIMIT and facts.high < STORED_LIMIT else self.wide

    def typed(self, sql: str, facts: Facts, type: str) -> str:
        """Return an integer with the facts, as this type, which can hold it."""
        return sql if type == self.of(facts) == self.narrow else f"CAST({sql} AS {type})"

    def working(self, scalar: Scalar, on_the_way: int = 0) -> str:
        """Return a type that holds the result, the arguments and magnitudes up to `on_the_way`."""
        parts = (scalar.facts, *(argument.facts for argument in scalar.arguments))
        far = on_the_way >= STORED_LIMIT or any(self.of(facts) == self.wide for facts in parts)
        return self.wide if far else self.narrow

    def double_sql(self, value: float) -> str:
        """Return a double, read from its shortest text, which is exact."""
        return f"CAST('{value!r}' AS {self.double})"


@dataclass(frozen=True, slots=True)
class NumberForms:
    """What an engine's forms of numbers need of it."""

    types: IntegerTypes
    quotient: Callable[[str, str, str], str]
    """Of two integers of the type, towards zero; the second is not zero."""
    remainder: Callable[[str, str, str], str]
    """The remainder of the quotient."""
    nonzero: Callable[[str, str, bool], str]
    """A divisor, given its zero: NULL where it is that; the last says that it is a column or spelled out."""
    rounded_root: Callable[[str], str]
    """The square root of a double, which is not negative, rounded half away from zero, as a wide integer."""
    given: Given
    own: Mapping[Operator, Form]
    """The operators that are the engine's own: WHOLE and FLAG."""
    doubles: Mapping[Operator, Form]
    """The operators that have both, for doubles."""

    def forms(self) -> dict[Operator, Form]:
        """Return the form of every operator."""
        integers: dict[Operator, Form] = {
            Operator.ADD: self._infix("+"),
            Operator.SUBTRACT: self._infix("-"),
            Operator.MULTIPLY: self._infix("*"),
            Operator.NEGATE: self._prefix("-"),
            Operator.ABS: self._prefix("abs"),
            Operator.POWER: self._power,
            Operator.QUOTIENT: self._by(self.quotient),
            Operator.MODULO: self._by(self.remainder),
            Operator.DIVIDE: self._divide,
            Operator.FLOORED: self._brought(self._floored),
            Operator.CEILED: self._brought(self._ceiled),
            Operator.ROUNDED: self._brought(self._nearest),
            Operator.TRUNCATED: self._brought(self._truncated),
            Operator.SQRT: self._sqrt,
        }
        both = {operator: _either(form, self.doubles[operator]) for operator, form in integers.items()}
        lone: dict[Operator, Form] = {
            Operator.REAL: self._real,
            Operator.SIGN: lambda scalar, texts: f"CAST(sign({texts[0]}) AS {self.types.narrow})",
            Operator.CLIPPED: self._clipped,
            Operator.WITHIN: self._within,
        }
        return both | lone | dict(self.own)

    def _result(self, sql: str, scalar: Scalar, type: str) -> str:
        wanted = self.types.of(scalar.facts)
        return sql if type == wanted else f"CAST({sql} AS {wanted})"

    def _arguments(self, scalar: Scalar, texts: list[str], type: str) -> list[str]:
        pairs = zip(texts, scalar.arguments, strict=True)
        return [self.types.typed(sql, argument.facts, type) for sql, argument in pairs]

    def _infix(self, symbol: str) -> Form:
        def form(scalar: Scalar, texts: list[str]) -> str:
            type = self.types.working(scalar)
            first, second = self._arguments(scalar, texts, type)
            return self._result(f"({first} {symbol} {second})", scalar, type)

        return form

    def _prefix(self, name: str) -> Form:
        def form(scalar: Scalar, texts: list[str]) -> str:
            type = self.types.working(scalar)
            (x,) = self._arguments(scalar, texts, type)
            return self._result(f"({name}({x}))", scalar, type)

        return form

    def _real(self, scalar: Scalar, texts: list[str]) -> str:
        numerator, denominator = (self.types.double_sql(float(part)) for part in pair(scalar))
        return f"(CAST({texts[0]} AS {self.types.double}) * {numerator} / {denominator})"

    def _power(self, scalar: Scalar, texts: list[str]) -> str:
        exponent, type = scalar.constant if isinstance(scalar.constant, int) else 1, self.types.working(scalar)
        product = self.given(self._arguments(scalar, texts, type), lambda v: f"({' * '.join([v] * exponent)})")
        return self._result(product, scalar, type)

    def _by(self, divided: Callable[[str, str, str], str]) -> Form:
        def form(scalar: Scalar, texts: list[str]) -> str:
            # the least integer divided by -1 overflows, in some engines also on the way to a remainder
            type = self.types.working(scalar, max_magnitude(scalar.arguments[0].facts))
            first, second = self._arguments(scalar, texts, type)
            divisor = self.nonzero(second, self.types.integer(0, type), is_leaf(scalar.arguments[1]))
            return self._result(divided(first, divisor, type), scalar, type)

        return form

    def _divide(self, scalar: Scalar, texts: list[str]) -> str:
        """Half away from zero: trunc((2A + sign(A)|B|) / 2B), where A = a · times and B = b · over."""
        times, over = pair(scalar)
        first, second = (argument.facts for argument in scalar.arguments)
        type = self.types.working(
            scalar, 2 * max(max_magnitude(first), 1) * times + 2 * max(max_magnitude(second), 1) * over
        )
        leaf = is_leaf(scalar.arguments[1])

        def integer(value: int) -> str:
            return self.types.integer(value, type)

        def body(a: str, b: str) -> str:
            divisor = f"({b} * {integer(over)})"
            half = divisor if second.low >= 0 else f"abs({divisor})"
            if first.low < 0:
                half = f"{half} * CAST(sign({a}) AS {type})"
            numerator = f"({a} * {integer(2 * times)} + {half})"
            return self.quotient(numerator, self.nonzero(f"{divisor} * {integer(2)}", integer(0), leaf), type)

        return self._result(self.given(self._arguments(scalar, texts, type), body), scalar, type)

    def _brought(self, rounding: Callable[[str, int, int, int, str], str]) -> Form:
        """Bring x · times to multiples of `over`."""

        def form(scalar: Scalar, texts: list[str]) -> str:
            times, over = pair(scalar)
            facts = scalar.arguments[0].facts
            type = self.types.working(scalar, 2 * (max_magnitude(facts) * times + over))
            (x,) = self._arguments(scalar, texts, type)
            product = x if times == 1 else f"({x} * {self.types.integer(times, type)})"
            return self._result(rounding(product, facts.low * times, facts.high * times, over, type), scalar, type)

        return form

    def _floored(self, sql: str, low: int, high: int, over: int, type: str) -> str:
        shift = max(0, -(low // over))  # this many multiples make it nonnegative, where truncating is rounding down
        moved = f"({sql} + {self.types.integer(shift * over, type)})" if shift else sql
        return f"({self._truncated(moved, low, high, over, type)} - {self.types.integer(shift, type)})"

    def _ceiled(self, sql: str, low: int, high: int, over: int, type: str) -> str:
        return f"(-{self._floored(f'(-{sql})', -high, -low, over, type)})"

    def _nearest(self, sql: str, low: int, high: int, over: int, type: str) -> str:
        half = self.types.integer(over // 2, type)
        if low >= 0 or high <= 0:
            return self._truncated(f"({sql} {'+' if low >= 0 else '-'} {half})", low, high, over, type)

        def body(v: str) -> str:
            return self._truncated(f"({v} + CAST(sign({v}) AS {type}) * {half})", low, high, over, type)

        return self.given([sql], body)

    def _truncated(self, sql: str, low: int, high: int, over: int, type: str) -> str:
        return self.quotient(sql, self.types.integer(over, type), type)

    def _sqrt(self, scalar: Scalar, texts: list[str]) -> str:
        types = self.types
        numerator, denominator = (types.double_sql(float(part)) for part in pair(scalar))
        low, high = (types.integer(side, types.wide) for side in (scalar.facts.low, scalar.facts.high))

        def body(x: str) -> str:
            # an engine may compute the root of what the CASE leaves out
            root = self.rounded_root(f"abs(CAST({x} AS {types.double})) * {numerator} / {denominator}")
            near = f"CAST(least(greatest({root}, {low}), {high}) AS {types.of(scalar.facts)})"
            return f"CASE WHEN {x} >= 0 THEN {near} END"

        return self.given(texts, body)

    def _clipped(self, scalar: Scalar, texts: list[str]) -> str:
        match scalar.constant:
            case Sides(low, high):
                pass
            case _:
                raise AssertionError("a clipped value comes with two sides")
        types, type = self.types, self.types.working(scalar)
        (x,) = self._arguments(scalar, texts, type)
        if not scalar.facts.nullable:
            inner = x if low is None else f"greatest({x}, {types.integer(int(low), type)})"
            inner = inner if high is None else f"least({inner}, {types.integer(int(high), type)})"
            return self._result(inner, scalar, type)
        sides = [
            (types.integer(int(side), type), symbol) for side, symbol in ((low, "<"), (high, ">")) if side is not None
        ]

        def body(v: str) -> str:  # least and greatest pass over NULL, which has to stay
            cases = [f"WHEN {v} {symbol} {side} THEN {side}" for side, symbol in sides]
            return f"(CASE {' '.join(cases)} ELSE {v} END)"

        return self._result(self.given([x], body), scalar, type)

    def _within(self, scalar: Scalar, texts: list[str]) -> str:
        low, high = pair(scalar)
        kept = self.given(texts, lambda v: f"CASE WHEN {v} BETWEEN ({low}) AND ({high}) THEN {v} END")
        return f"CAST({kept} AS {self.types.of(scalar.facts)})"


def _either(integers: Form, doubles: Form) -> Form:
    return lambda scalar, texts: (doubles if of_doubles(scalar) else integers)(scalar, texts)
