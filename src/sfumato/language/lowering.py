"""Expressions of a query become total scalars: nothing that an engine then computes can raise or overflow.

Theorem: for every row whose columns keep their facts, a scalar that `lower` returns has a value, and it keeps its
facts, in whatever order an engine computes the parts.  Proof: proofs/total_scalars.md
"""

from collections.abc import Callable, Mapping
from fractions import Fraction

from sfumato.errors import UnitRevealed, position_prefix
from sfumato.language.facts import Kind
from sfumato.language.lower_casts import lower_cast
from sfumato.language.lower_logic import LOGIC, case_scalar
from sfumato.language.lower_numbers import ARITHMETIC, lower_number_cast
from sfumato.language.lower_texts import TEXTS
from sfumato.language.lower_times import TIMES
from sfumato.language.narrowing import Restrictions, both, limits_if_not_true, limits_if_true, within
from sfumato.language.numbers import constant, to_finer_grid, to_integer
from sfumato.language.outside import compared
from sfumato.language.scalar import Scalar
from sfumato.query.expression import Call, Case, Cast, Column, Expression, Literal
from sfumato.query.functions import Function
from sfumato.query.types import Type

ScalarScope = Mapping[tuple[str, str], Scalar]
"""Scalar of each visible column: (Column.of, Column.name) -> scalar."""

_ON_GRIDS = {**ARITHMETIC, **LOGIC}
_ON_UNITS: dict[Function, Callable[[Call, tuple[Scalar, ...]], Scalar]] = {**TIMES, **TEXTS}
"""Of days, characters and microseconds: an integer comes to them in ones."""
_COMPARISONS = frozenset(
    {
        Function.EQUAL,
        Function.DIFFERENT,
        Function.LESS,
        Function.AT_MOST,
        Function.DISTINCT_FROM,
        Function.IN,
        Function.LIKE,
        Function.ILIKE,
        Function.STARTS_WITH,
    }
)
"""Conditions: a value outside its bounds is no value within them."""
_DIFFERENT = frozenset({Function.DIFFERENT, Function.DISTINCT_FROM, Function.LESS, Function.AT_MOST})


def lower(expression: Expression, scope: ScalarScope) -> Scalar:
    """Return the total scalar of an expression, or refuse it from its text and the facts of its columns."""
    match expression:
        case Column(of, name):
            return scope[of, name]
        case Literal(value, type):
            return constant(value, type)
        case Cast(argument):
            return _lower_cast(expression, lower(argument, scope))
        case Case():
            return _lower_case(expression, scope)
        case Call(_, arguments):
            return _call(expression, tuple(lower(argument, scope) for argument in arguments))


def narrow_scope(scope: ScalarScope, condition: Expression) -> ScalarScope:
    """Return the columns as they are in the rows for which the condition is true: clipped to what it says of them."""
    return _limit_scope(scope, limits_if_true(lower(condition, scope)))


def _limit_scope(scope: ScalarScope, limits: Restrictions) -> ScalarScope:
    return {name: within(scalar, limits) for name, scalar in scope.items()} if limits else scope


def _call(call: Call, arguments: tuple[Scalar, ...]) -> Scalar:
    units = [argument.facts.kind is Kind.UNIT for argument in arguments]
    if any(units) and not (all(units) and call.function is Function.EQUAL):
        raise _refuse_compared_units(call) if all(units) and call.function in _DIFFERENT else _unit_revealed(call)
    if call.function in _COMPARISONS:
        arguments = compared(arguments)
    if call.function in _ON_GRIDS:
        return _ON_GRIDS[call.function](call, arguments)
    return _ON_UNITS[call.function](call, tuple(_in_ones(argument) for argument in arguments))


def _lower_cast(cast: Cast, argument: Scalar) -> Scalar:
    if argument.facts.kind is Kind.UNIT:
        raise _unit_revealed(cast)
    return lower_number_cast(cast, argument) or lower_cast(cast, _in_ones(argument))


def _in_ones(scalar: Scalar) -> Scalar:
    if scalar.facts.type is not Type.INTEGER:
        return scalar
    ones = to_finer_grid(scalar, Fraction(1))
    return to_integer(ones) if ones.facts.kind is Kind.REAL else ones


def _lower_case(case: Case, scope: ScalarScope) -> Scalar:
    """A branch is only taken where its condition is true and no earlier one is: it may count on that."""
    branches = []
    past: Restrictions = {}
    for condition, value in case.branches:
        when = lower(condition, scope)
        branches.append((when, _lower_within(value, scope, both(past, limits_if_true(when)))))
        past = both(past, limits_if_not_true(when))
    otherwise = _lower_within(case.otherwise, scope, past)
    if any(value.facts.kind is Kind.UNIT for value in (otherwise, *(then for _, then in branches))):
        raise _unit_revealed(case)
    return case_scalar(branches, otherwise, case.type)


def _lower_within(value: Expression, scope: ScalarScope, limits: Restrictions) -> Scalar:
    return within(lower(value, _limit_scope(scope, limits)), limits)


def _refuse_compared_units(call: Call) -> UnitRevealed:
    return UnitRevealed(
        f"{position_prefix(call.at)}this compares the names of people.",
        "Whether they are different people may only decide which rows of a join are counted.",
        "Write `<>` between them, alone, in the condition of a join of two tables by equal columns, and COUNT(*).",
    )


def _unit_revealed(expression: Expression) -> UnitRevealed:
    absent = isinstance(expression, Call) and expression.function is Function.IS_NULL
    return UnitRevealed(
        f"{position_prefix(expression.at)}this computes with the column that names people.",
        "A value computed from a name could reveal whose row it is.",
        "To find rows without a partner, count the partner's rows in a subquery, SELECT …, COUNT(*) AS found FROM … "
        "GROUP BY …, and test found IS NULL."
        if absent
        else "Join by it, group by it in a subquery or count it with COUNT(DISTINCT …); compute with other columns.",
    )
