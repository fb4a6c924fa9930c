"""DuckDB's form of every operator on numbers.

Integers are BIGINT where the facts fit 64 bits and HUGEINT where they do not. A form computes in HUGEINT as soon as a
result or anything on the way to it may leave 64 bits. DuckDB's `//` and `%` truncate, and raise for a zero divisor.
Proof: proofs/total_scalars.md
"""

from collections.abc import Callable

from sfumato.language.facts import STORED, Facts, Kind
from sfumato.language.intervals import reach
from sfumato.language.scalar import LARGEST_EXPONENT, Operator, Scalar

NARROW, WIDE = "BIGINT", "HUGEINT"
_ONE = '"""one"""'
"""The name of a value inside a lambda. No name of a query or policy holds a quotation mark."""


def integer_type(facts: Facts) -> str:
    """Return the engine's type of an INTEGER kind."""
    return NARROW if facts.low >= -STORED and facts.high < STORED else WIDE


def integer_sql(value: int, type: str) -> str:
    """Return an integer with its type."""
    return f"({value})::{type}"


def double_sql(value: float) -> str:
    """Return a double, read from its shortest text, which is exact."""
    return f"'{value!r}'::DOUBLE"


def finite(sql: str) -> str:
    """Return a double, or NULL where it is infinite or no number."""
    return f"list_transform([{sql}], lambda {_ONE}: CASE WHEN isfinite({_ONE}) THEN {_ONE} END)[1]"


def nullif(sql: str, other: str, *, leaf: bool) -> str:
    """Return a value, or NULL where it equals another one; `leaf`: it is a column or spelled out.

    The engine's own nullif writes its first argument twice, and what is nested in it twice as often at every step: a
    text of a few hundred characters would take hours.
    """
    if leaf:
        return f"nullif({sql}, {other})"
    pair = f"{{'a': {sql}, 'b': {other}}}"
    return f"list_transform([{pair}], lambda {_ONE}: CASE WHEN {_ONE}.a = {_ONE}.b THEN NULL ELSE {_ONE}.a END)[1]"


def is_leaf(scalar: Scalar) -> bool:
    """Whether a scalar is a column or spelled out: writing it twice costs nothing."""
    return scalar.operator in {Operator.COLUMN, Operator.CONSTANT}


def typed(sql: str, facts: Facts, type: str) -> str:
    """Return an integer with the facts, as this type, which can hold it."""
    return sql if type == integer_type(facts) == NARROW else f"({sql})::{type}"


def working_type(scalar: Scalar, on_the_way: int = 0) -> str:
    """Return a type that holds the result, the arguments and magnitudes up to `on_the_way`."""
    parts = (scalar.facts, *(argument.facts for argument in scalar.arguments))
    return WIDE if on_the_way >= STORED or any(integer_type(facts) == WIDE for facts in parts) else NARROW


def _result(sql: str, scalar: Scalar, type: str) -> str:
    wanted = integer_type(scalar.facts)
    return sql if type == wanted else f"{sql}::{wanted}"


def _doubles(scalar: Scalar) -> bool:
    return scalar.arguments[0].facts.kind is Kind.REAL


def _infix(symbol: str) -> Callable[[Scalar, list[str]], str]:
    def form(scalar: Scalar, texts: list[str]) -> str:
        if _doubles(scalar):
            return finite(f"({texts[0]} {symbol} {texts[1]})")
        type = working_type(scalar)
        first, second = _typed_arguments(scalar, texts, type)
        return _result(f"({first} {symbol} {second})", scalar, type)

    return form


def _typed_arguments(scalar: Scalar, texts: list[str], type: str) -> list[str]:
    return [typed(sql, argument.facts, type) for sql, argument in zip(texts, scalar.arguments, strict=True)]


def _prefix(name: str) -> Callable[[Scalar, list[str]], str]:
    def form(scalar: Scalar, texts: list[str]) -> str:
        if _doubles(scalar):
            return f"{name}({texts[0]})"
        type = working_type(scalar)
        return _result(f"({name}({typed(texts[0], scalar.arguments[0].facts, type)}))", scalar, type)

    return form


def _sign(scalar: Scalar, texts: list[str]) -> str:
    return f"sign({texts[0]})::{NARROW}"


def _real(scalar: Scalar, texts: list[str]) -> str:
    numerator, denominator = pair(scalar)
    return f"(({texts[0]})::DOUBLE * {double_sql(float(numerator))} / {double_sql(float(denominator))})"


def pair(scalar: Scalar) -> tuple[int, int]:
    """Return the two integers that are spelled out with the operator."""
    match scalar.constant:
        case (int(first), int(second)):
            return first, second
        case _:
            raise AssertionError(f"{scalar.operator} comes with two integers")


def _whole(scalar: Scalar, texts: list[str]) -> str:
    return f"TRY_CAST(round({texts[0]}) AS {NARROW})"


def _flag(scalar: Scalar, texts: list[str]) -> str:
    return f"({texts[0]})::{NARROW}"


def _power(scalar: Scalar, texts: list[str]) -> str:
    exponent = scalar.constant if isinstance(scalar.constant, int) else 1
    if _doubles(scalar):
        return finite(f"({' * '.join(texts * exponent)})")
    type = working_type(scalar)
    (base,) = _typed_arguments(scalar, texts, type)
    return _result(f"({' * '.join([base] * exponent)})", scalar, type)


def _by(symbol: str) -> Callable[[Scalar, list[str]], str]:
    def form(scalar: Scalar, texts: list[str]) -> str:
        if _doubles(scalar):
            divisor = nullif(texts[1], "0::DOUBLE", leaf=is_leaf(scalar.arguments[1]))
            return finite(f"({texts[0]} % {divisor})" if symbol == "%" else f"trunc({texts[0]} / {divisor})")
        # the least integer divided by -1 overflows, in DuckDB also on the way to a remainder
        type = working_type(scalar, reach(scalar.arguments[0].facts))
        first, second = _typed_arguments(scalar, texts, type)
        divisor = nullif(second, integer_sql(0, type), leaf=is_leaf(scalar.arguments[1]))
        return _result(f"({first} {symbol} {divisor})", scalar, type)

    return form


def _divide(scalar: Scalar, texts: list[str]) -> str:
    """Half away from zero: trunc((2A + sign(A)|B|) / 2B), where A = a · times and B = b · over."""
    if _doubles(scalar):
        return finite(f"({texts[0]} / {nullif(texts[1], '0::DOUBLE', leaf=is_leaf(scalar.arguments[1]))})")
    times, over = pair(scalar)
    first, second = (argument.facts for argument in scalar.arguments)
    type = working_type(scalar, 2 * reach(first) * times + 2 * max(reach(second), 1) * over)
    a, b = _typed_arguments(scalar, texts, type)
    numerator, divisor = f"({a} * {integer_sql(2 * times, type)})", f"({b} * {integer_sql(over, type)})"
    half = divisor if second.low >= 0 else f"abs({divisor})"
    if first.low < 0:
        half = f"{half} * sign({a})"
    zero, two = integer_sql(0, type), integer_sql(2, type)
    nonzero = nullif(f"{divisor} * {two}", zero, leaf=is_leaf(scalar.arguments[1]))
    return _result(f"(({numerator} + {half}) // {nonzero})", scalar, type)


def _brought(name: str) -> Callable[[Scalar, list[str]], str]:
    """Bring x · times to multiples of `over`."""

    def form(scalar: Scalar, texts: list[str]) -> str:
        if _doubles(scalar):
            return finite(_double_places(name, texts[0], scalar.constant))
        times, over = pair(scalar)
        facts = scalar.arguments[0].facts
        type = working_type(scalar, 2 * (reach(facts) * times + over))
        (x,) = _typed_arguments(scalar, texts, type)
        product = x if times == 1 else f"({x} * {integer_sql(times, type)})"
        return _result(_ROUNDINGS[name](product, facts.low * times, facts.high * times, over, type), scalar, type)

    return form


def _double_places(name: str, sql: str, places: object) -> str:
    """Decimal places of a double: floor and ceiling always go to whole numbers."""
    return f"{name}({sql})" if name in {"floor", "ceil"} else f"{name}({sql}, {places})"


def _floored(sql: str, low: int, high: int, over: int, type: str) -> str:
    shift = max(0, -(low // over))  # so many multiples make it nonnegative, where truncating is rounding down
    moved = f"({sql} + {integer_sql(shift * over, type)})" if shift else sql
    return f"({moved} // {integer_sql(over, type)} - {integer_sql(shift, type)})"


def _ceiled(sql: str, low: int, high: int, over: int, type: str) -> str:
    return f"(-{_floored(f'(-{sql})', -high, -low, over, type)})"


def _nearest(sql: str, low: int, high: int, over: int, type: str) -> str:
    half = integer_sql(over // 2, type)
    if low >= 0 or high <= 0:
        return f"(({sql} {'+' if low >= 0 else '-'} {half}) // {integer_sql(over, type)})"
    return f"(({sql} + sign({sql}) * {half}) // {integer_sql(over, type)})"


def _truncated(sql: str, low: int, high: int, over: int, type: str) -> str:
    return f"({sql} // {integer_sql(over, type)})"


_ROUNDINGS = {"floor": _floored, "ceil": _ceiled, "round": _nearest, "trunc": _truncated}


def _sqrt(scalar: Scalar, texts: list[str]) -> str:
    (x,) = texts
    if _doubles(scalar):
        return f"CASE WHEN {x} >= 0::DOUBLE THEN {finite(f'sqrt(abs({x}))')} END"  # sqrt raises for negatives
    numerator, denominator = pair(scalar)
    size = f"abs(({x})::DOUBLE) * {double_sql(float(numerator))} / {double_sql(float(denominator))}"
    low, high = integer_sql(scalar.facts.low, WIDE), integer_sql(scalar.facts.high, WIDE)
    near = f"least(greatest(round(sqrt({size}))::{WIDE}, {low}), {high})"
    return f"CASE WHEN ({x}) >= 0 THEN {near}::{integer_type(scalar.facts)} END"


def _exp(_: Scalar, texts: list[str]) -> str:
    most = double_sql(LARGEST_EXPONENT)
    return f"exp({nullif(f'least({texts[0]}, {most})', most, leaf=False)})"


def _log(scalar: Scalar, texts: list[str]) -> str:
    name = {0: "ln", 2: "log2", 10: "log10"}[int(str(scalar.constant))]
    above = nullif(f"greatest({texts[0]}, 0::DOUBLE)", "0::DOUBLE", leaf=False)
    return f"{name}({above})"  # they raise for what is not above 0


def _clipped(scalar: Scalar, texts: list[str]) -> str:
    match scalar.constant:
        case (low, high):
            pass
        case _:
            raise AssertionError("a clipped value comes with two sides")
    type = working_type(scalar)
    (x,) = _typed_arguments(scalar, texts, type)
    if not scalar.facts.nullable:
        inner = x if low is None else f"greatest({x}, {integer_sql(int(low), type)})"
        return _result(inner if high is None else f"least({inner}, {integer_sql(int(high), type)})", scalar, type)
    # least and greatest pass over NULL, which has to stay
    sides = [(low, "<"), (high, ">")]
    cases = [
        f"WHEN {x} {symbol} {integer_sql(int(side), type)} THEN {integer_sql(int(side), type)}"
        for side, symbol in sides
        if side is not None
    ]
    return _result(f"(CASE {' '.join(cases)} ELSE {x} END)", scalar, type)


FORMS: dict[Operator, Callable[[Scalar, list[str]], str]] = {
    Operator.REAL: _real,
    Operator.WHOLE: _whole,
    Operator.FLAG: _flag,
    Operator.ADD: _infix("+"),
    Operator.SUBTRACT: _infix("-"),
    Operator.MULTIPLY: _infix("*"),
    Operator.NEGATE: _prefix("-"),
    Operator.ABS: _prefix("abs"),
    Operator.SIGN: _sign,
    Operator.POWER: _power,
    Operator.QUOTIENT: _by("//"),
    Operator.MODULO: _by("%"),
    Operator.DIVIDE: _divide,
    Operator.FLOORED: _brought("floor"),
    Operator.CEILED: _brought("ceil"),
    Operator.ROUNDED: _brought("round"),
    Operator.TRUNCATED: _brought("trunc"),
    Operator.SQRT: _sqrt,
    Operator.EXP: _exp,
    Operator.LOG: _log,
    Operator.CLIPPED: _clipped,
}
