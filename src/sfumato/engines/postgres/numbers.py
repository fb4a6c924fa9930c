"""PostgreSQL's form of every operator on numbers: `engines.sql.numbers` for integers, its own doubles.

Wide integers are numeric, without places. PostgreSQL raises where others overflow, underflow or divide by zero, so that
every form asks first. It has no TRY: `CASE` is the one guard that it evaluates in order, and a value that is asked
about and used is named in a subselect that `OFFSET 0` keeps apart.  Proof: proofs/total_scalars.md
"""

from collections.abc import Callable, Sequence
from functools import reduce
from zlib import crc32

from sfumato.engines.sql.builder import aliased, select, subquery
from sfumato.engines.sql.curves import CurveForms
from sfumato.engines.sql.dialect import Form
from sfumato.engines.sql.numbers import IntegerTypes, NumberForms
from sfumato.language.scalar import MAX_EXP_ARGUMENT, Operator, Scalar

NARROW, WIDE, DOUBLE = "bigint", "numeric", "double precision"
TYPES = IntegerTypes(NARROW, WIDE, DOUBLE, lambda value, type: f"CAST('{value}' AS {type})")
_MAX_DOUBLE = "1.7976931348623157e308"


def let(body: str, alias: str = "s", /, **values: str) -> str:
    """Return the body over values that are computed once, each under its name; nothing moves over `OFFSET 0`."""
    return subquery(select(body, subquery(select(aliased(values), offset=0), alias)))


def given(values: Sequence[str], body: Callable[..., str]) -> str:
    """Return the body over values that are computed once. Their names follow from them, so that no other hides them."""
    mark = f"v{crc32(repr(values).encode()):08x}"
    names = [f"{mark}_{at}" for at in range(len(values))]
    return let(body(*names), **dict(zip(names, values, strict=True)))


def is_finite(name: str) -> str:
    """Return whether a double is neither infinite nor no number, which is the greatest here."""
    return f"({name} BETWEEN -{_MAX_DOUBLE} AND {_MAX_DOUBLE})"


def finite(sql: str) -> str:
    """Return a double, or NULL where it is infinite or no number."""
    return let(f"CASE WHEN {is_finite('v')} THEN v END", v=sql)


def _safe(first: str, second: str, cases: str) -> str:
    """Return a result of two finite doubles `a` and `b`; NULL where one is not."""
    return let(f"CASE WHEN {is_finite('a')} AND {is_finite('b')} THEN CASE {cases} END END", a=first, b=second)


def _add(first: str, second: str) -> str:
    """The sum of two numbers of which one is small, or neither is huge, is finite; that of two huge ones is scaled."""
    direct = "abs(a) < 8e307 AND abs(b) < 8e307 OR abs(a) < 1e290 OR abs(b) < 1e290"
    fits = f"abs(a * 0.0625 + b * 0.0625) <= {_MAX_DOUBLE} * 0.0625"
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


def _away(name: str) -> str:
    """Return a named double rounded half away from zero; PostgreSQL's own round goes to the even one."""
    return f"(trunc({name}) + CASE WHEN abs({name} - trunc({name})) >= 0.5 THEN sign({name}) ELSE 0 END)"


def _whole_number(scalar: Scalar, texts: list[str]) -> str:
    near = f"v >= -{2.0**63!r} AND v < {2.0**63!r}"
    rounded = let(f"CASE WHEN {near} THEN {_away('v')} END", v=texts[0])
    return let(f"CASE WHEN {near} THEN CAST(v AS {NARROW}) END", v=rounded)


def _double_remainder(first: str, second: str) -> str:
    """There is no remainder of doubles here. It is exact where the quotient is short, and never leaves the divisor."""
    left = f"(a - {_multiply('d.b', 'trunc(d.q)')})"
    near = "CASE WHEN abs(r) < abs(b) AND r * sign(a) >= 0 THEN r ELSE 0 END"
    pair = subquery(select([f"{first} AS a", f"{second} AS b"], offset=0), "p")
    divided = subquery(select(f"a, b, {_over('p.a', 'p.b')} AS q", pair, offset=0), "d")
    reduced = subquery(select(f"d.a, d.b, {left} AS r", divided, offset=0), "e")
    return subquery(select(near, reduced))


def _double_places(name: str, sql: str, places: object) -> str:
    """Decimal places of a double: floor and ceiling always go to whole numbers."""
    if name in {"floor", "ceil"}:
        return finite(f"{name}({sql})")
    digits = places if isinstance(places, int) else 0
    scale = repr(10.0 ** abs(digits))
    cut = _away("w") if name == "round" else "trunc(w)"
    if digits == 0:
        return finite(let(cut, w=sql))
    if digits > 0:  # numbers without places that far to the right stay as they are
        scaled = f"CASE WHEN abs(v) < 1e280 THEN v * {scale} END"
        body = f"coalesce({let(f'{cut} / {scale}', 't', w=scaled)}, v)"
    else:
        scaled = f"CASE WHEN abs(v) < 1e-200 THEN 0 ELSE v / {scale} END"
        kept = f"CASE WHEN abs(w) < 1e280 THEN {cut} * {scale} ELSE v END"
        body = let(kept, "t", w=scaled)
    return let(f"CASE WHEN {is_finite('v')} THEN {body} END", v=sql)


def whole_double(double: str) -> str:
    """Return a double that is a whole number below 2^116 as a numeric, exactly; casting keeps 15 digits only."""
    part = repr(2.0**53)
    upper = f"CAST(CAST(trunc(w / {part}) AS {NARROW}) AS {WIDE}) * {2**53}"
    return let(f"{upper} + CAST(w - trunc(w / {part}) * {part} AS {NARROW})", w=double)


def _quotient(first: str, second: str, type: str) -> str:
    return f"div({first}, {second})" if type == WIDE else f"({first} / {second})"


def _rounded_root(double: str) -> str:
    return let(whole_double(_away("w")), w=f"sqrt({double})")


def _of_two(form: Callable[[str, str], str]) -> Form:
    return lambda scalar, texts: form(*texts)


def _call_form(name: str) -> Form:
    return lambda scalar, texts: f"({name}({texts[0]}))"


def _power(scalar: Scalar, texts: list[str]) -> str:
    exponent = scalar.constant if isinstance(scalar.constant, int) else 1
    product = reduce(_multiply, ["one.v"] * exponent)
    return let(finite(product), "one", v=texts[0])


def _rounding_form(name: str) -> Form:
    return lambda scalar, texts: _double_places(name, texts[0], scalar.constant)


def _exp(_: Scalar, texts: list[str]) -> str:
    """Return e to a double: what leaves doubles would raise, on both sides."""
    inside = "CASE WHEN v > -700 THEN exp(v) ELSE 0 END"
    return let(f"CASE WHEN v < {TYPES.double_sql(MAX_EXP_ARGUMENT)} THEN {inside} END", v=texts[0])


def _log(scalar: Scalar, texts: list[str]) -> str:
    name = {0: "ln(v)", 2: "ln(v) / ln(2.0::double precision)", 10: "log(v)"}[int(str(scalar.constant))]
    return let(f"CASE WHEN v > 0 AND {is_finite('v')} THEN {name} END", v=texts[0])


def _element(values: Sequence[int], type: str, index: str) -> str:
    return f"(CAST('{{{','.join(map(str, values))}}}' AS {type}[]))[CAST({index} + 1 AS integer)]"


def _shift_right(sql: str, bits: int, type: str) -> str:
    return f"({sql} >> {bits})" if type == NARROW else f"div({sql}, {TYPES.integer(1 << bits, WIDE)})"


_DOUBLES: dict[Operator, Form] = {
    Operator.ADD: _of_two(_add),
    Operator.SUBTRACT: _of_two(_subtract),
    Operator.MULTIPLY: _of_two(_multiply),
    Operator.NEGATE: _call_form("-"),
    Operator.ABS: _call_form("abs"),
    Operator.POWER: _power,
    Operator.QUOTIENT: lambda scalar, texts: f"trunc({_over(*texts)})",
    Operator.MODULO: _of_two(_double_remainder),
    Operator.DIVIDE: _of_two(_over),
    Operator.FLOORED: _rounding_form("floor"),
    Operator.CEILED: _rounding_form("ceil"),
    Operator.ROUNDED: _rounding_form("round"),
    Operator.TRUNCATED: _rounding_form("trunc"),
    Operator.SQRT: lambda scalar, texts: let(f"CASE WHEN v >= 0 AND {is_finite('v')} THEN sqrt(v) END", v=texts[0]),
}

FORMS = (
    NumberForms(
        TYPES,
        quotient=_quotient,
        remainder=lambda first, second, type: f"({first} % {second})",
        nonzero=lambda sql, zero, leaf: f"nullif({sql}, {zero})",
        rounded_root=_rounded_root,
        given=given,
        own={
            Operator.WHOLE: _whole_number,
            Operator.FLAG: lambda scalar, texts: f"CAST(CAST({texts[0]} AS integer) AS {NARROW})",
        },
        doubles=_DOUBLES,
    ).forms()
    | CurveForms(
        TYPES,
        named=given,
        element=_element,
        halved=_shift_right,
        quotient=_quotient,
        exponential_of_double=_exp,
        logarithm_of_double=_log,
    ).forms()
)
"""One form per operator on numbers."""
