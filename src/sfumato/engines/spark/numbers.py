"""Spark's form of every operator on numbers: `engines.sql.numbers` for integers, its own doubles.

Wide integers are DECIMAL(38,0). Spark's `div` of decimals wraps around without a word, and `/` of two wide ones has
room for 20 digits before the point: a longer quotient is computed in two steps. In ANSI mode whatever overflows or
divides by zero raises, so that every form asks first. A value that is asked about and used is named in a lambda,
because Spark writes an expression out as often as it is mentioned.  Proof: proofs/total_scalars.md
"""

import re
from collections.abc import Callable, Sequence
from zlib import crc32

from sfumato.engines.sql.curves import CurveForms
from sfumato.engines.sql.dialect import Form
from sfumato.engines.sql.numbers import IntegerTypes, NumberForms
from sfumato.language.scalar import MAX_EXP_ARGUMENT, Operator, Scalar

NARROW, WIDE, DOUBLE = "BIGINT", "DECIMAL(38,0)", "DOUBLE"
TYPES = IntegerTypes(NARROW, WIDE, DOUBLE, lambda value, type: f"CAST('{value}' AS {type})")
_LEAF = re.compile(r"[\w.`]+|CAST\('[^']*' AS [\w(),]+\)")
_DECIMAL_LITERAL = re.compile(r"CAST\('(-?\d+)' AS DECIMAL\(38,0\)\)")
_SPLIT_BASE = 10**19
_MIN_DIRECT_DIVISOR = 10**18
"""A wide integer has 38 digits: divided by one from here on, it leaves at most 20."""
_INFINITY = "CAST('Infinity' AS DOUBLE)"
_ZERO, _ONE, _HALF = "CAST('0.0' AS DOUBLE)", "CAST('1.0' AS DOUBLE)", "CAST('0.5' AS DOUBLE)"


def given(values: Sequence[str], body: Callable[..., str]) -> str:
    """Return the body over values that are computed once. Their name follows from them, so that no other hides it."""
    if all(_LEAF.fullmatch(value) for value in values):
        return body(*values)
    name = f"v{crc32(repr(values).encode()):08x}"
    if len(values) == 1:
        return f"get(transform(array({values[0]}), {name} -> {body(name)}), 0)"
    listed = ", ".join(f"{value} AS a{at}" for at, value in enumerate(values))
    inner = body(*(f"{name}.a{at}" for at in range(len(values))))
    return f"get(transform(array(struct({listed})), {name} -> {inner}), 0)"


def seldom(value: str, body: Callable[[str], str]) -> str:
    """Return the body over a value where few rows need it: Spark makes no Java of it, which would be long."""
    name = f"w{crc32(value.encode()):08x}"
    return f"get(zip_with(array({value}), array(0), ({name}, {name}o) -> {body(name)}), 0)"


def quotient(first: str, second: str, type: str = WIDE) -> str:
    """Return a quotient towards zero; the second is not zero."""
    if type != WIDE:
        return f"({first} div {second})"
    spelled = _DECIMAL_LITERAL.fullmatch(second)
    if spelled and abs(int(spelled[1])) == 1:
        return first if spelled[1] == "1" else f"(-{first})"

    def body(a: str, b: str) -> str:
        if spelled:
            return _divide(a, b) if abs(int(spelled[1])) >= _MIN_DIRECT_DIVISOR else _in_two_steps(a, b)
        far = TYPES.integer(_MIN_DIRECT_DIVISOR, WIDE)
        return f"CASE WHEN abs({b}) >= {far} THEN {_divide(a, b)} ELSE {_in_two_steps(a, b)} END"

    return given([first, second], body)


def _divide(a: str, b: str) -> str:
    """Return a quotient of at most 20 digits: without its rest, it has no places."""
    return f"CAST(({a} - {a} % {b}) / {b} AS {WIDE})"


def _in_two_steps(a: str, b: str) -> str:
    """Divide as on paper, with digits up to 10^19: b is below 10^18, so that no step leaves 38 places."""
    split = TYPES.integer(_SPLIT_BASE, WIDE)

    def lower(upper: str) -> str:
        rest = f"(({upper} % {b}) * {split} + {a} % {split})"
        return given([rest], lambda r: f"({_divide(upper, b)} * {split} + {_divide(r, b)})")

    return given([_divide(a, split)], lower)


def nullif(first: str, second: str, leaf: bool) -> str:
    """Return a value, or NULL where it equals another one: Spark's own writes its first argument twice."""
    return given([first, second], lambda a, b: f"CASE WHEN {a} = {b} THEN NULL ELSE {a} END")


def is_finite(double: str) -> str:
    """Return whether a double is neither infinite nor no number, which is the greatest here."""
    return f"(abs({double}) < {_INFINITY})"


def truncated(double: str) -> str:
    """Return a double without its places: Spark's own functions pass through 64-bit integers, and raise."""
    return f"({double} - {double} % {_ONE})"


def _away(name: str) -> str:
    """Return a named double rounded half away from zero."""
    up = f"CASE WHEN abs({name} % {_ONE}) >= {_HALF} THEN sign({name}) ELSE {_ZERO} END"
    return f"({truncated(name)} + {up})"


def whole_double(double: str) -> str:
    """Return a double that is a whole number below 2^116 as a wide integer; a cast goes through its decimal text."""
    part = f"CAST('{2.0**53!r}' AS DOUBLE)"

    def body(w: str) -> str:
        upper = f"CAST(CAST({truncated(f'({w} / {part})')} AS {NARROW}) AS {WIDE}) * {TYPES.integer(2**53, WIDE)}"
        return f"({upper} + CAST(CAST({w} % {part} AS {NARROW}) AS {WIDE}))"

    return given([double], body)


def _finite(sql: str) -> str:
    return given([sql], lambda v: f"CASE WHEN {is_finite(v)} THEN {v} END")


def _infix(symbol: str) -> Form:
    return lambda scalar, texts: _finite(f"({texts[0]} {symbol} {texts[1]})")


def _over(symbol: str) -> Form:
    def form(scalar: Scalar, texts: list[str]) -> str:
        return _finite(f"({texts[0]} {symbol} {nullif(texts[1], _ZERO, False)})")

    return form


def _quotient_of_doubles(scalar: Scalar, texts: list[str]) -> str:
    return given([_over("/")(scalar, texts)], truncated)


def _power(scalar: Scalar, texts: list[str]) -> str:
    exponent = scalar.constant if isinstance(scalar.constant, int) else 1
    return _finite(given(texts, lambda v: f"({' * '.join([v] * exponent)})"))


def _floor(scalar: Scalar, texts: list[str]) -> str:
    return _finite(
        given(texts, lambda v: f"({truncated(v)} - CASE WHEN {v} < {truncated(v)} THEN {_ONE} ELSE {_ZERO} END)")
    )


def _ceil(scalar: Scalar, texts: list[str]) -> str:
    return _finite(
        given(texts, lambda v: f"({truncated(v)} + CASE WHEN {v} > {truncated(v)} THEN {_ONE} ELSE {_ZERO} END)")
    )


def _rounding_form(cut: Callable[[str], str]) -> Form:
    """Bring a double to decimal places: a number without places that far to the right or left stays as it is."""

    def form(scalar: Scalar, texts: list[str]) -> str:
        digits = scalar.constant if isinstance(scalar.constant, int) else 0
        scale = TYPES.double_sql(10.0 ** abs(digits))
        there, back = ("*", "/") if digits > 0 else ("/", "*")

        def body(v: str) -> str:
            if digits == 0:
                return cut(v)
            moved = given([f"({v} {there} {scale})"], lambda w: f"({cut(w)} {back} {scale})")
            return given([moved], lambda r: f"CASE WHEN {is_finite(r)} THEN {r} ELSE {v} END")

        return _finite(given(texts, body))

    return form


def _sqrt(scalar: Scalar, texts: list[str]) -> str:
    return given(texts, lambda v: f"CASE WHEN {v} >= {_ZERO} AND {is_finite(v)} THEN sqrt({v}) END")


def _whole_number(scalar: Scalar, texts: list[str]) -> str:
    low, high = (TYPES.double_sql(side) for side in (-(2.0**63), 2.0**63))
    rounded = given(texts, _away)
    return given([rounded], lambda v: f"CASE WHEN {v} >= {low} AND {v} < {high} THEN CAST({v} AS {NARROW}) END")


def _sign(scalar: Scalar, texts: list[str]) -> str:
    def body(v: str) -> str:
        return f"CASE WHEN {v} > 0 THEN 1L WHEN {v} < 0 THEN -1L WHEN {v} IS NOT NULL THEN 0L END"

    return given(texts, body)


def _call_form(name: str) -> Form:
    return lambda scalar, texts: f"({name}({texts[0]}))"


def _exp(_: Scalar, texts: list[str]) -> str:
    most = TYPES.double_sql(MAX_EXP_ARGUMENT)
    return given(texts, lambda v: f"CASE WHEN {v} < {most} THEN exp({v}) END")


def _log(scalar: Scalar, texts: list[str]) -> str:
    name = {0: "ln", 2: "log2", 10: "log10"}[int(str(scalar.constant))]
    return given(texts, lambda v: f"CASE WHEN {v} > {_ZERO} THEN {name}({v}) END")


def _element(values: Sequence[int], type: str, index: str) -> str:
    listed = (f"{value}L" if type == NARROW else TYPES.integer(value, type) for value in values)
    return f"get(array({', '.join(listed)}), CAST({index} AS INT))"


def _shift_right(sql: str, bits: int, type: str) -> str:
    return f"shiftright({sql}, {bits})" if type == NARROW else quotient(sql, TYPES.integer(1 << bits, WIDE))


_DOUBLES: dict[Operator, Form] = {
    Operator.ADD: _infix("+"),
    Operator.SUBTRACT: _infix("-"),
    Operator.MULTIPLY: _infix("*"),
    Operator.NEGATE: _call_form("-"),
    Operator.ABS: _call_form("abs"),
    Operator.POWER: _power,
    Operator.QUOTIENT: _quotient_of_doubles,
    Operator.MODULO: _over("%"),
    Operator.DIVIDE: _over("/"),
    Operator.FLOORED: _floor,
    Operator.CEILED: _ceil,
    Operator.ROUNDED: _rounding_form(_away),
    Operator.TRUNCATED: _rounding_form(truncated),
    Operator.SQRT: _sqrt,
}

FORMS = (
    NumberForms(
        TYPES,
        quotient=quotient,
        remainder=lambda first, second, type: f"({first} % {second})",
        nonzero=nullif,
        rounded_root=lambda double: given([given([f"sqrt({double})"], _away)], whole_double),
        given=given,
        own={
            Operator.WHOLE: _whole_number,
            Operator.FLAG: lambda scalar, texts: f"CAST({texts[0]} AS {NARROW})",
            Operator.SIGN: _sign,
        },
        doubles=_DOUBLES,
    ).forms()
    | CurveForms(
        TYPES,
        named=given,
        element=_element,
        halved=_shift_right,
        quotient=quotient,
        exponential_of_double=_exp,
        logarithm_of_double=_log,
    ).forms()
)
"""One form per operator on numbers."""
