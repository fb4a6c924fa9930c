"""DuckDB's form of every operator on numbers: `engines.sql.numbers` for integers, its own doubles.

DuckDB's `//` and `%` truncate, and raise for a zero divisor.  Proof: proofs/total_scalars.md
"""

import re
from collections.abc import Callable, Sequence
from zlib import crc32

from sfumato.engines.sql.curves import CurveForms
from sfumato.engines.sql.dialect import Form
from sfumato.engines.sql.numbers import IntegerTypes, NumberForms, inline, is_leaf
from sfumato.language.scalar import MAX_EXP_ARGUMENT, Operator, Scalar

NARROW, WIDE = "BIGINT", "HUGEINT"
_ONE = '"""one"""'
"""The name of a value inside a lambda. No name of a query or policy holds a quotation mark."""
_MAX_INLINED_CHARS = 1_000
"""Maximum number of characters that are written as often as they are needed."""
_LEAF = re.compile(r"[\w.]+|\(-?\d+\)::\w+")
TYPES = IntegerTypes(NARROW, WIDE, "DOUBLE", lambda value, type: f"({value})::{type}")


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


def named(values: Sequence[str], body: Callable[..., str]) -> str:
    """Return the body over values that are computed once. Their names follow from them, so that no other hides them."""
    if len(values) == 1:
        if _LEAF.fullmatch(values[0]):
            return body(*values)
        name = f'"""{crc32(values[0].encode()):08x}"""'
        return f"list_transform([{values[0]}], lambda {name}: {body(name)})[1]"
    name = f'"""{crc32(repr(values).encode()):08x}"""'
    pairs = ", ".join(f"'a{at}': {value}" for at, value in enumerate(values))
    inner = body(*(f"{name}.a{at}" for at in range(len(values))))
    return f"list_transform([{{{pairs}}}], lambda {name}: {inner})[1]"


def given(values: Sequence[str], body: Callable[..., str]) -> str:
    """Return the body over values: short ones as they are, because the engine sees that they are the same."""
    return inline(values, body) if sum(map(len, values)) <= _MAX_INLINED_CHARS else named(values, body)


def _element(values: Sequence[int], type: str, index: str) -> str:
    return f"list_extract([{', '.join(map(str, values))}]::{type}[], {index} + 1)"


def _infix(symbol: str) -> Form:
    return lambda scalar, texts: finite(f"({texts[0]} {symbol} {texts[1]})")


def _call_form(name: str) -> Form:
    return lambda scalar, texts: f"{name}({texts[0]})"


def _power(scalar: Scalar, texts: list[str]) -> str:
    exponent = scalar.constant if isinstance(scalar.constant, int) else 1
    return finite(f"({' * '.join(texts * exponent)})")


def _divisor(scalar: Scalar, texts: list[str]) -> str:
    return nullif(texts[1], "0::DOUBLE", leaf=is_leaf(scalar.arguments[1]))


def _quotient(scalar: Scalar, texts: list[str]) -> str:
    return finite(f"trunc({texts[0]} / {_divisor(scalar, texts)})")


def _modulo(scalar: Scalar, texts: list[str]) -> str:
    return finite(f"({texts[0]} % {_divisor(scalar, texts)})")


def _divide(scalar: Scalar, texts: list[str]) -> str:
    return finite(f"({texts[0]} / {_divisor(scalar, texts)})")


def _rounding_form(name: str) -> Form:
    """Decimal places of a double: floor and ceiling always go to whole numbers."""
    places = "" if name in {"floor", "ceil"} else ", {places}"
    return lambda scalar, texts: finite(f"{name}({texts[0]}{places.format(places=scalar.constant)})")


def _sqrt(scalar: Scalar, texts: list[str]) -> str:
    (x,) = texts
    return f"CASE WHEN {x} >= 0::DOUBLE THEN {finite(f'sqrt(abs({x}))')} END"  # sqrt raises for negatives


def _exp(_: Scalar, texts: list[str]) -> str:
    most = TYPES.double_sql(MAX_EXP_ARGUMENT)
    return f"exp({nullif(f'least({texts[0]}, {most})', most, leaf=False)})"


def _log(scalar: Scalar, texts: list[str]) -> str:
    name = {0: "ln", 2: "log2", 10: "log10"}[int(str(scalar.constant))]
    above = nullif(f"greatest({texts[0]}, 0::DOUBLE)", "0::DOUBLE", leaf=False)
    return f"{name}({above})"  # they raise for what is not above 0


_DOUBLES: dict[Operator, Form] = {
    Operator.ADD: _infix("+"),
    Operator.SUBTRACT: _infix("-"),
    Operator.MULTIPLY: _infix("*"),
    Operator.NEGATE: _call_form("-"),
    Operator.ABS: _call_form("abs"),
    Operator.POWER: _power,
    Operator.QUOTIENT: _quotient,
    Operator.MODULO: _modulo,
    Operator.DIVIDE: _divide,
    Operator.FLOORED: _rounding_form("floor"),
    Operator.CEILED: _rounding_form("ceil"),
    Operator.ROUNDED: _rounding_form("round"),
    Operator.TRUNCATED: _rounding_form("trunc"),
    Operator.SQRT: _sqrt,
}

FORMS = (
    NumberForms(
        TYPES,
        quotient=lambda first, second, type: f"({first} // {second})",
        remainder=lambda first, second, type: f"({first} % {second})",
        nonzero=lambda sql, zero, leaf: nullif(sql, zero, leaf=leaf),
        rounded_root=lambda double: f"CAST(round(sqrt({double})) AS {WIDE})",
        given=given,
        own={
            Operator.WHOLE: lambda scalar, texts: f"TRY_CAST(round({texts[0]}) AS {NARROW})",
            Operator.FLAG: lambda scalar, texts: f"CAST({texts[0]} AS {NARROW})",
        },
        doubles=_DOUBLES,
    ).forms()
    | CurveForms(
        TYPES,
        named=named,
        element=_element,
        halved=lambda sql, bits, type: f"({sql} >> {bits})",
        quotient=lambda first, second, type: f"({first} // {second})",
        exponential_of_double=_exp,
        logarithm_of_double=_log,
    ).forms()
)
"""One form per operator on numbers."""
