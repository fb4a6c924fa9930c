"""PostgreSQL's form of every operator on numbers.

Integers are bigint where the facts fit 64 bits and numeric, without places, where they do not. PostgreSQL raises where
others overflow, underflow or divide by zero, so that every form asks first. It has no TRY: `CASE` is the one guard that
it evaluates in order, and a value that is asked about and used is named in a subselect that `OFFSET 0` keeps apart.
Proof: proofs/total_scalars.md
"""

from collections.abc import Callable
from functools import reduce

from sfumato.language.facts import STORED, Facts, Kind
from sfumato.language.intervals import reach
from sfumato.language.scalar import LARGEST_EXPONENT, Operator, Scalar

NARROW, WIDE, DOUBLE = "bigint", "numeric", "double precision"
_LARGEST = "1.7976931348623157e308"


def integer_type(facts: Facts) -> str:
    """Return the engine's type of an INTEGER kind."""
    return NARROW if facts.low >= -STORED and facts.high < STORED else WIDE


def integer_sql(value: int, type: str) -> str:
    """Return an integer with its type."""
    return f"CAST('{value}' AS {type})"


def double_sql(value: float) -> str:
    """Return a double, read from its shortest text, which is exact."""
    return f"CAST('{value!r}' AS {DOUBLE})"


def let(body: str, **values: str) -> str:
    """Return the body over values that are computed once, each under its name; nothing moves over `OFFSET 0`."""
    listed = ", ".join(f"{sql} AS {name}" for name, sql in values.items())
    return f"(SELECT {body} FROM (SELECT {listed} OFFSET 0) AS s)"  # noqa: S608


def typed(sql: str, facts: Facts, type: str) -> str:
    """Return an integer with the facts, as this type, which can hold it."""
    return sql if type == integer_type(facts) else f"CAST({sql} AS {type})"


def working_type(scalar: Scalar, on_the_way: int = 0) -> str:
    """Return a type that holds the result, the arguments and magnitudes up to `on_the_way`."""
    parts = (scalar.facts, *(argument.facts for argument in scalar.arguments))
    return WIDE if on_the_way >= STORED or any(integer_type(facts) == WIDE for facts in parts) else NARROW


def quotient(first: str, second: str, type: str) -> str:
    """Return a quotient towards zero; the second is not zero."""
    return f"div({first}, {second})" if type == WIDE else f"({first} / {second})"


def _result(sql: str, scalar: Scalar, type: str) -> str:
    wanted = integer_type(scalar.facts)
    return sql if type == wanted else f"CAST({sql} AS {wanted})"


def _doubles(scalar: Scalar) -> bool:
    return scalar.arguments[0].facts.kind is Kind.REAL


def is_finite(name: str) -> str:
    """Return whether a double is neither infinite nor no number, which is the greatest here."""
    return f"({name} BETWEEN -{_LARGEST} AND {_LARGEST})"


def finite(sql: str) -> str:
    """Return a double, or NULL where it is infinite or no number."""
    return let(f"CASE WHEN {is_finite('v')} THEN v END", v=sql)


def _safe(first: str, second: str, cases: str) -> str:
    """Return a result of two finite doubles `a` and `b`; NULL where one is not."""
    return let(f"CASE WHEN {is_finite('a')} AND {is_finite('b')} THEN CASE {cases} END END", a=first, b=second)


def _add(first: str, second: str) -> str:
    """The sum of two numbers of which one is small, or neither is huge, is finite; that of two huge ones is scaled."""
    direct = "abs(a) < 8e307 AND abs(b) < 8e307 OR abs(a) < 1e290 OR abs(b) < 1e290"
    fits = f"abs(a * 0.0625 + b * 0.0625) <= {_LARGEST} * 0.0625"
    return _safe(first, second, f"WHEN {direct} OR {fits} THEN a + b")


def _subtract(first: str, second: str) -> str:
    return _add(first, f"(-{second})")


_UP, _DOWN = repr(2.0**510), repr(2.0**-512)


def _multiply(first: str, second: str) -> str:
    """Over- and underflow are seen in the product of scaled factors, which scaling by powers of two leaves exact."""
    return _safe(
        first,
        second,
        "WHEN a = 0 OR b = 0 THEN 0 "
        "WHEN abs(a) > 1 AND abs(b) > 1 THEN "
        f"CASE WHEN abs((a * {_DOWN}) * (b * {_DOWN})) < 1 THEN a * b END "
        "WHEN abs(a) > 1 OR abs(b) > 1 THEN a * b "
        f"WHEN abs(a) < {2.0**-538!r} AND abs(b) < {2.0**-538!r} THEN 0 "
        f"WHEN abs((a * {_UP}) * (b * {_UP})) <= {2.0**-55!r} THEN 0 ELSE a * b",
    )


def _over(first: str, second: str) -> str:
    """Return the quotient of two doubles; NULL where the second is zero, or the quotient too large."""
    return _safe(
        first,
        second,
        "WHEN b = 0 THEN NULL WHEN a = 0 THEN 0 "
        "WHEN abs(b) >= 1 AND abs(a) >= 1 THEN a / b "
        f"WHEN abs(b) >= 1 THEN CASE WHEN abs(a) < {2.0**-80!r} AND abs(b) > {2.0**1000!r} THEN 0 "
        f"WHEN abs((a * {2.0**1022!r}) / b) <= {2.0**-53!r} THEN 0 ELSE a / b END "
        "WHEN abs(a) < 1e-300 THEN a / b "
        f"WHEN abs(a) * 0.5 >= abs(b) * {2.0**1023!r} THEN NULL ELSE a / b",
    )


_DOUBLES: dict[str, Callable[[str, str], str]] = {"+": _add, "-": _subtract, "*": _multiply}


def _infix(symbol: str) -> Callable[[Scalar, list[str]], str]:
    def form(scalar: Scalar, texts: list[str]) -> str:
        if _doubles(scalar):
            return _DOUBLES[symbol](*texts)
        type = working_type(scalar)
        first, second = _typed_arguments(scalar, texts, type)
        return _result(f"({first} {symbol} {second})", scalar, type)

    return form


def _typed_arguments(scalar: Scalar, texts: list[str], type: str) -> list[str]:
    return [typed(sql, argument.facts, type) for sql, argument in zip(texts, scalar.arguments, strict=True)]


def _prefix(name: str) -> Callable[[Scalar, list[str]], str]:
    def form(scalar: Scalar, texts: list[str]) -> str:
        if _doubles(scalar):
            return f"({name}({texts[0]}))"
        type = working_type(scalar)
        return _result(f"({name}({typed(texts[0], scalar.arguments[0].facts, type)}))", scalar, type)

    return form


def _sign(scalar: Scalar, texts: list[str]) -> str:
    return f"CAST(sign({texts[0]}) AS {NARROW})"


def _real(scalar: Scalar, texts: list[str]) -> str:
    numerator, denominator = pair(scalar)
    scaled = f"CAST({texts[0]} AS {DOUBLE}) * {double_sql(float(numerator))} / {double_sql(float(denominator))}"
    return f"({scaled})"


def pair(scalar: Scalar) -> tuple[int, int]:
    """Return the two integers that are spelled out with the operator."""
    match scalar.constant:
        case (int(first), int(second)):
            return first, second
        case _:
            raise AssertionError(f"{scalar.operator} comes with two integers")


def _away(name: str) -> str:
    """Return a named double rounded half away from zero; PostgreSQL's own round goes to the even one."""
    return f"(trunc({name}) + CASE WHEN abs({name} - trunc({name})) >= 0.5 THEN sign({name}) ELSE 0 END)"


def _whole(scalar: Scalar, texts: list[str]) -> str:
    near = f"v >= -{2.0**63!r} AND v < {2.0**63!r}"
    rounded = let(f"CASE WHEN {near} THEN {_away('v')} END", v=texts[0])
    return let(f"CASE WHEN {near} THEN CAST(v AS {NARROW}) END", v=rounded)


def _flag(scalar: Scalar, texts: list[str]) -> str:
    return f"CAST(CAST({texts[0]} AS integer) AS {NARROW})"


def _power(scalar: Scalar, texts: list[str]) -> str:
    exponent = scalar.constant if isinstance(scalar.constant, int) else 1
    if _doubles(scalar):
        product = reduce(_multiply, ["one.v"] * exponent)
        return f"(SELECT {finite(product)} FROM (SELECT {texts[0]} AS v OFFSET 0) AS one)"  # noqa: S608
    type = working_type(scalar)
    (base,) = _typed_arguments(scalar, texts, type)
    return _result(let(" * ".join(["v"] * exponent), v=base), scalar, type)


def _by(symbol: str) -> Callable[[Scalar, list[str]], str]:
    def form(scalar: Scalar, texts: list[str]) -> str:
        if _doubles(scalar):
            return _double_remainder(*texts) if symbol == "%" else f"trunc({_over(*texts)})"
        # the least integer divided by -1 overflows
        type = working_type(scalar, reach(scalar.arguments[0].facts))
        first, second = _typed_arguments(scalar, texts, type)
        divisor = f"nullif({second}, {integer_sql(0, type)})"
        divided = f"({first} % {divisor})" if symbol == "%" else quotient(first, divisor, type)
        return _result(divided, scalar, type)

    return form


def _double_remainder(first: str, second: str) -> str:
    """There is no remainder of doubles here. It is exact where the quotient is short, and never leaves the divisor."""
    left = f"(a - {_multiply('d.b', 'trunc(d.q)')})"
    near = "CASE WHEN abs(r) < abs(b) AND r * sign(a) >= 0 THEN r ELSE 0 END"
    inner = f"SELECT d.a, d.b, {left} AS r FROM (SELECT a, b, {_over('p.a', 'p.b')} AS q"  # noqa: S608
    source = f"({inner} FROM (SELECT {first} AS a, {second} AS b OFFSET 0) AS p OFFSET 0) AS d OFFSET 0) AS e"
    return f"(SELECT {near} FROM {source})"  # noqa: S608


def _divide(scalar: Scalar, texts: list[str]) -> str:
    """Half away from zero: trunc((2A + sign(A)|B|) / 2B), where A = a · times and B = b · over."""
    if _doubles(scalar):
        return _over(*texts)
    times, over = pair(scalar)
    first, second = (argument.facts for argument in scalar.arguments)
    type = working_type(scalar, 2 * reach(first) * times + 2 * max(reach(second), 1) * over)
    a, b = _typed_arguments(scalar, texts, type)
    half = "b" if second.low >= 0 else "abs(b)"
    if first.low < 0:
        half = f"{half} * CAST(sign(a) AS {type})"
    numerator = f"(a * {integer_sql(2 * times, type)} + {half})"
    divisor = f"nullif(b * {integer_sql(2, type)}, {integer_sql(0, type)})"
    return _result(let(quotient(numerator, divisor, type), a=a, b=f"({b} * {integer_sql(over, type)})"), scalar, type)


def _brought(name: str) -> Callable[[Scalar, list[str]], str]:
    """Bring x · times to multiples of `over`."""

    def form(scalar: Scalar, texts: list[str]) -> str:
        if _doubles(scalar):
            return _double_places(name, texts[0], scalar.constant)
        times, over = pair(scalar)
        facts = scalar.arguments[0].facts
        type = working_type(scalar, 2 * (reach(facts) * times + over))
        (x,) = _typed_arguments(scalar, texts, type)
        product = x if times == 1 else f"({x} * {integer_sql(times, type)})"
        return _result(_ROUNDINGS[name](product, facts.low * times, facts.high * times, over, type), scalar, type)

    return form


def _double_places(name: str, sql: str, places: object) -> str:
    """Decimal places of a double: floor and ceiling always go to whole numbers."""
    if name in {"floor", "ceil"}:
        return finite(f"{name}({sql})")
    digits = places if isinstance(places, int) else 0
    scale = repr(10.0 ** abs(digits))
    cut = _away("w") if name == "round" else "trunc(w)"
    if digits == 0:
        return finite(let(cut, w=sql))
    if digits > 0:  # what has no places so far to the right stays as it is
        scaled = f"CASE WHEN abs(v) < 1e280 THEN v * {scale} END"
        body = f"coalesce((SELECT {cut} / {scale} FROM (SELECT {scaled} AS w OFFSET 0) AS t), v)"  # noqa: S608
    else:
        scaled = f"CASE WHEN abs(v) < 1e-200 THEN 0 ELSE v / {scale} END"
        kept = f"CASE WHEN abs(w) < 1e280 THEN {cut} * {scale} ELSE v END"
        body = f"(SELECT {kept} FROM (SELECT {scaled} AS w OFFSET 0) AS t)"  # noqa: S608
    return let(f"CASE WHEN {is_finite('v')} THEN {body} END", v=sql)


def _floored(sql: str, low: int, high: int, over: int, type: str) -> str:
    shift = max(0, -(low // over))  # so many multiples make it nonnegative, where truncating is rounding down
    moved = f"({sql} + {integer_sql(shift * over, type)})" if shift else sql
    return f"({quotient(moved, integer_sql(over, type), type)} - {integer_sql(shift, type)})"


def _ceiled(sql: str, low: int, high: int, over: int, type: str) -> str:
    return f"(-{_floored(f'(-{sql})', -high, -low, over, type)})"


def _nearest(sql: str, low: int, high: int, over: int, type: str) -> str:
    half, whole = integer_sql(over // 2, type), integer_sql(over, type)
    if low >= 0 or high <= 0:
        return quotient(f"({sql} {'+' if low >= 0 else '-'} {half})", whole, type)
    return let(quotient(f"(v + CAST(sign(v) AS {type}) * {half})", whole, type), v=sql)


def _truncated(sql: str, low: int, high: int, over: int, type: str) -> str:
    return quotient(sql, integer_sql(over, type), type)


_ROUNDINGS = {"floor": _floored, "ceil": _ceiled, "round": _nearest, "trunc": _truncated}


def _sqrt(scalar: Scalar, texts: list[str]) -> str:
    (x,) = texts
    if _doubles(scalar):
        return let(f"CASE WHEN v >= 0 AND {is_finite('v')} THEN sqrt(v) END", v=x)
    numerator, denominator = pair(scalar)
    size = f"CAST(v AS {DOUBLE}) * {double_sql(float(numerator))} / {double_sql(float(denominator))}"
    root = let(f"CASE WHEN v >= 0 THEN sqrt({size}) END", v=x)
    rounded = let(f"{whole_double(_away('w'))}", w=root)
    low, high = integer_sql(scalar.facts.low, WIDE), integer_sql(scalar.facts.high, WIDE)
    near = let(f"CASE WHEN v IS NOT NULL THEN least(greatest(v, {low}), {high}) END", v=rounded)
    return f"CAST({near} AS {integer_type(scalar.facts)})"


def _exp(_: Scalar, texts: list[str]) -> str:
    """Return e to a double: what leaves doubles would raise, on both sides."""
    inside = "CASE WHEN v > -700 THEN exp(v) ELSE 0 END"
    return let(f"CASE WHEN v < {double_sql(LARGEST_EXPONENT)} THEN {inside} END", v=texts[0])


def _log(scalar: Scalar, texts: list[str]) -> str:
    name = {0: "ln(v)", 2: "ln(v) / ln(2.0::double precision)", 10: "log(v)"}[int(str(scalar.constant))]
    return let(f"CASE WHEN v > 0 AND {is_finite('v')} THEN {name} END", v=texts[0])


def whole_double(double: str) -> str:
    """Return a double that is a whole number below 2^116 as a numeric, exactly; casting keeps 15 digits only."""
    part = repr(2.0**53)
    upper = f"CAST(CAST(trunc(w / {part}) AS {NARROW}) AS {WIDE}) * {2**53}"
    return let(f"{upper} + CAST(w - trunc(w / {part}) * {part} AS {NARROW})", w=double)


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
        f"WHEN v {symbol} {integer_sql(int(side), type)} THEN {integer_sql(int(side), type)}"
        for side, symbol in sides
        if side is not None
    ]
    return _result(let(f"CASE {' '.join(cases)} ELSE v END", v=x), scalar, type)


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
    Operator.QUOTIENT: _by("/"),
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
