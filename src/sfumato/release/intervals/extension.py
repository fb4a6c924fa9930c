"""Every operator on ends instead of values: whatever lies inside the ends of its arguments, the result lies inside.

Most operators rise or fall in each argument, so that their ends are values at ends. Rounding is done at both. What an
operator leaves unsaid is said by the facts of its result. Proof: proofs/intervals.md, 6
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce

import numpy as np

from sfumato.language.facts import Facts, Kind
from sfumato.language.scalar import Operator, Scalar, Sides
from sfumato.release.intervals import curve_ends
from sfumato.release.intervals.form_algebra import product_ends, quotient_ends
from sfumato.release.intervals.forms import (
    EnclosedNumbers,
    Ends,
    Exact,
    NoiseForm,
    Nulls,
    Number,
    Opaque,
    States,
    Truth,
    merged,
    outward,
)
from sfumato.release.intervals.noise_law import Floats
from sfumato.release.intervals.ratio import Flags

Rule = Callable[[Scalar, Sequence[Ends]], Ends]
_MAX_FACT_STEPS = 1 << 62
"""Facts with larger ends are taken as no bound, in grid steps."""


def boxed(scalar: Scalar, arguments: Sequence[NoiseForm], rows: int) -> NoiseForm:
    """Return what an operator makes of its arguments."""
    operator = scalar.operator
    if operator in _CHOICES:
        return _CHOICES[operator](scalar, arguments, rows)
    if scalar.facts.kind is Kind.BOOLEAN:
        return _truth(scalar, arguments, rows)
    if operator is Operator.FLAG and isinstance(arguments[0], Truth):
        return _flag(arguments[0])
    if scalar.facts.kind not in {Kind.INTEGER, Kind.REAL}:
        return Opaque(rows, has_no_interval=True)
    numbers = as_numbers(arguments)
    rule = _RULES.get(operator)
    if rule is None or numbers is None:
        return unknown(scalar.facts, rows)

    def ends(tail: Fraction) -> Ends:
        return within(outward(rule(scalar, [number.ends(tail) for number in numbers])), scalar.facts)

    def nulls(tail: Fraction) -> Nulls:
        maybe, surely = _either([number.nulls(tail) for number in numbers], rows)
        if operator in _GAPS:
            gap = _GAPS[operator](scalar, [number.ends(tail) for number in numbers])
            maybe = maybe | gap[0]
            surely = surely | gap[1]
        return maybe, surely

    of_values = merged([number.events for number in numbers])
    of_nulls = merged([number.null_events for number in numbers])
    open = any(number.has_no_interval for number in numbers)
    return EnclosedNumbers(
        of_values, merged([of_nulls, of_values]) if operator in _GAPS else of_nulls, ends, nulls, open
    )


def unknown(facts: Facts, rows: int) -> EnclosedNumbers:
    """Return numbers of which nothing is known but their facts."""
    never, always = np.zeros(rows, dtype=bool), np.full(rows, facts.nullable)
    everything = within((np.full(rows, -np.inf), np.full(rows, np.inf)), facts)
    return EnclosedNumbers({}, {}, lambda _: everything, lambda _: (always, never), has_no_interval=True)


def within(ends: Ends, facts: Facts) -> Ends:
    """Return the part of the ends that the facts of a value allow."""
    if facts.kind is not Kind.INTEGER:
        return ends
    low = float(facts.low) if facts.declared_low and abs(facts.low) < _MAX_FACT_STEPS else -np.inf
    high = float(facts.high) if facts.declared_high and abs(facts.high) < _MAX_FACT_STEPS else np.inf
    return np.clip(ends[0], low, high), np.clip(ends[1], low, high)


def as_numbers(forms: Sequence[NoiseForm]) -> list[Number] | None:
    """Return the forms if all are numbers."""
    numbers = [form for form in forms if not isinstance(form, Truth | Opaque)]
    return list(numbers) if len(numbers) == len(forms) else None


def rounded(values: Floats) -> Floats:
    """Half away from zero."""
    return np.asarray(np.sign(values) * np.floor(np.abs(values) + 0.5))


def _either(nulls: Sequence[Nulls], rows: int) -> Nulls:
    maybe, surely = np.zeros(rows, dtype=bool), np.zeros(rows, dtype=bool)
    for one, other in nulls:
        maybe, surely = maybe | one, surely | other
    return maybe, surely


def _factor(scalar: Scalar) -> float:
    match scalar.constant:
        case (int(numerator), int(denominator)):
            return numerator / denominator
    return 1.0


def _rising(function: Callable[[Scalar, Floats], Floats]) -> Rule:
    """Return the rule of an operator of one argument that nowhere falls."""

    def rule(scalar: Scalar, ends: Sequence[Ends]) -> Ends:
        return function(scalar, ends[0][0]), function(scalar, ends[0][1])

    return rule


def _brought(function: Callable[[Floats], Floats], places: bool) -> Rule:
    def bring(scalar: Scalar, values: Floats) -> Floats:
        if scalar.arguments[0].facts.kind is Kind.INTEGER:
            return function(values * _factor(scalar))
        scale = 10.0**scalar.constant if places and isinstance(scalar.constant, int) else 1.0
        with np.errstate(over="ignore"):
            scaled = values * scale
        return np.where(np.isinf(scaled), values, function(scaled) / scale)  # what is so large has no such places

    return _rising(bring)


def _abs(_: Scalar, ends: Sequence[Ends]) -> Ends:
    low, high = ends[0]
    near = np.where((low <= 0) & (high >= 0), 0, np.minimum(np.abs(low), np.abs(high)))
    return near, np.maximum(np.abs(low), np.abs(high))


def _power(scalar: Scalar, ends: Sequence[Ends]) -> Ends:
    exponent = scalar.constant if isinstance(scalar.constant, int) else 1
    with np.errstate(over="ignore"):
        if exponent % 2:
            return ends[0][0] ** exponent, ends[0][1] ** exponent
        low, high = _abs(scalar, ends)
        return low**exponent, high**exponent


def _quotient(scalar: Scalar, ends: Sequence[Ends]) -> Ends:
    low, high = quotient_ends(ends[0], ends[1])
    return finished_quotient(scalar, (low, high))


def finished_quotient(scalar: Scalar, ends: Ends) -> Ends:
    """Return the ends of a division's result from those of the plain ratio of its arguments."""
    if scalar.operator is Operator.QUOTIENT:
        return np.trunc(ends[0]), np.trunc(ends[1])
    if scalar.facts.kind is Kind.REAL:
        return ends
    return rounded(ends[0] * _factor(scalar)), rounded(ends[1] * _factor(scalar))


def _modulo(_: Scalar, ends: Sequence[Ends]) -> Ends:
    (low, high), divisor = ends[0], np.maximum(np.abs(ends[1][0]), np.abs(ends[1][1]))
    return np.where(low < 0, np.maximum(low, -divisor), 0), np.where(high > 0, np.minimum(high, divisor), 0)


def _sqrt(scalar: Scalar, ends: Sequence[Ends]) -> Ends:
    integer = scalar.facts.kind is Kind.INTEGER
    low, high = (np.sqrt(np.maximum(end, 0) * _factor(scalar)) for end in ends[0])
    return (rounded(low), rounded(high)) if integer else (low, high)


def sides(scalar: Scalar) -> tuple[float, float]:
    """Return the two sides that are spelled out with an operator, infinite where there is none."""
    match scalar.constant:
        case Sides(low, high):
            return -np.inf if low is None else float(low), np.inf if high is None else float(high)
    return -np.inf, np.inf


def _added(sign: float) -> Rule:
    def rule(_: Scalar, ends: Sequence[Ends]) -> Ends:
        (low, high), other = ends[0], ends[1] if sign > 0 else (-ends[1][1], -ends[1][0])
        return low + other[0], high + other[1]

    return rule


_RULES: dict[Operator, Rule] = {
    Operator.REAL: _rising(lambda scalar, values: values * _factor(scalar)),
    Operator.WHOLE: _rising(lambda _, values: rounded(values)),
    Operator.ADD: _added(1.0),
    Operator.SUBTRACT: _added(-1.0),
    Operator.MULTIPLY: lambda _, ends: product_ends(ends[0], ends[1]),
    Operator.NEGATE: lambda _, ends: (-ends[0][1], -ends[0][0]),
    Operator.ABS: _abs,
    Operator.SIGN: _rising(lambda _, values: np.sign(values)),
    Operator.POWER: _power,
    Operator.QUOTIENT: _quotient,
    Operator.DIVIDE: _quotient,
    Operator.MODULO: _modulo,
    Operator.FLOORED: _brought(np.floor, places=False),
    Operator.CEILED: _brought(np.ceil, places=False),
    Operator.ROUNDED: _brought(rounded, places=True),
    Operator.TRUNCATED: _brought(np.trunc, places=True),
    Operator.SQRT: _sqrt,
    Operator.EXP: curve_ends.exponential,
    Operator.LOG: curve_ends.logarithm,
    Operator.LOOKUP: curve_ends.lookup,
    Operator.CLIPPED: _rising(lambda scalar, values: np.clip(values, *sides(scalar))),
    Operator.WITHIN: _rising(lambda scalar, values: np.clip(values, *sides(scalar))),
}
"""NULL in any argument is NULL in the result; `_GAPS` are those that have more NULLs."""


def _by_zero(_: Scalar, ends: Sequence[Ends]) -> Nulls:
    low, high = ends[1]
    return (low <= 0) & (high >= 0), (low == 0) & (high == 0)


def _beyond(scalar: Scalar, ends: Sequence[Ends]) -> Nulls:
    low, high = sides(scalar)
    return (ends[0][0] < low) | (ends[0][1] > high), (ends[0][1] < low) | (ends[0][0] > high)


_GAPS: dict[Operator, Callable[[Scalar, Sequence[Ends]], Nulls]] = {
    Operator.QUOTIENT: _by_zero,
    Operator.DIVIDE: _by_zero,
    Operator.MODULO: _by_zero,
    Operator.SQRT: curve_ends.below_zero,
    Operator.EXP: curve_ends.too_large,
    Operator.LOG: curve_ends.no_logarithm,
    Operator.LOOKUP: curve_ends.before_the_first,
    Operator.WITHIN: _beyond,
}


def hull(parts: Sequence[tuple[Flags, Ends]], rows: int) -> Ends:
    """Return the ends of everything that is possible: each part with where it is."""
    low, high = np.full(rows, np.inf), np.full(rows, -np.inf)
    for possible, ends in parts:
        low = np.minimum(low, np.where(possible, ends[0], np.inf))
        high = np.maximum(high, np.where(possible, ends[1], -np.inf))
    nothing = low > high
    return np.where(nothing, 0, low), np.where(nothing, 0, high)


def _case(scalar: Scalar, arguments: Sequence[NoiseForm], rows: int) -> NoiseForm:
    conditions = [form for form in arguments[:-1:2] if isinstance(form, Truth)]
    numbers = as_numbers([*arguments[1:-1:2], arguments[-1]])
    if numbers is None or len(conditions) != len(numbers) - 1:
        return unknown(scalar.facts, rows) if scalar.facts.kind in {Kind.INTEGER, Kind.REAL} else Opaque(rows, True)

    def reached(tail: Fraction) -> list[Flags]:
        waiting, found = np.ones(rows, dtype=bool), []
        for condition in conditions:
            states = condition.states(tail)
            found.append(waiting & states.true)
            waiting = waiting & (states.false | states.null)
        return [*found, waiting]

    def ends(tail: Fraction) -> Ends:
        parts = [(flags, number.ends(tail)) for flags, number in zip(reached(tail), numbers, strict=True)]
        return within(hull(parts, rows), scalar.facts)

    def nulls(tail: Fraction) -> Nulls:
        maybe, surely = np.zeros(rows, dtype=bool), np.ones(rows, dtype=bool)
        for flags, number in zip(reached(tail), numbers, strict=True):
            one, other = number.nulls(tail)
            maybe, surely = maybe | (flags & one), surely & (other | ~flags)
        return maybe, surely

    choosing = merged([condition.events for condition in conditions])
    return EnclosedNumbers(
        merged([choosing, *(number.events for number in numbers)]),
        merged([choosing, *(number.null_events for number in numbers)]),
        ends,
        nulls,
        any(form.has_no_interval for form in arguments),
    )


def _extreme(function: Callable[[Floats, Floats], Floats]) -> Callable[[Scalar, Sequence[NoiseForm], int], NoiseForm]:
    """LEAST and GREATEST, which pass over NULL: where one may be NULL, the others alone are possible too."""

    def extreme(scalar: Scalar, arguments: Sequence[NoiseForm], rows: int) -> NoiseForm:
        numbers = as_numbers(arguments)
        if numbers is None:
            return unknown(scalar.facts, rows)

        def ends(tail: Fraction) -> Ends:
            found = [(number.ends(tail), *number.nulls(tail)) for number in numbers]
            sides = []
            for side, choose in ((0, np.fmin), (1, np.fmax)):
                everyone = [np.where(surely, np.nan, one[side]) for one, _, surely in found]
                certain = [np.where(maybe, np.nan, one[side]) for one, maybe, _ in found]
                # fmin and fmax pass over NaN; some may be missing, so every number between is possible
                all_of = reduce(function, everyone)
                some_of = reduce(function, certain)
                each = reduce(choose, everyone)
                loose = np.where(np.isnan(some_of), choose(all_of, each), choose(all_of, some_of))
                sides.append(np.nan_to_num(loose, nan=0.0, posinf=np.inf, neginf=-np.inf))
            return within((sides[0], sides[1]), scalar.facts)

        def nulls(tail: Fraction) -> Nulls:
            found = [number.nulls(tail) for number in numbers]
            return reduce(np.logical_and, [one for one, _ in found]), reduce(np.logical_and, [one for _, one in found])

        of_nulls = merged([number.null_events for number in numbers])
        events = merged([of_nulls, *(number.events for number in numbers)])
        return EnclosedNumbers(events, of_nulls, ends, nulls, any(number.has_no_interval for number in numbers))

    return extreme


def _coalesce(scalar: Scalar, arguments: Sequence[NoiseForm], rows: int) -> NoiseForm:
    numbers = as_numbers(arguments)
    if numbers is None:
        return unknown(scalar.facts, rows) if scalar.facts.kind in {Kind.INTEGER, Kind.REAL} else Opaque(rows, True)

    def ends(tail: Fraction) -> Ends:
        waiting, parts = np.ones(rows, dtype=bool), []
        for number in numbers:
            maybe, surely = number.nulls(tail)
            parts.append((waiting & ~surely, number.ends(tail)))
            waiting = waiting & maybe
        return within(hull(parts, rows), scalar.facts)

    def nulls(tail: Fraction) -> Nulls:
        found = [number.nulls(tail) for number in numbers]
        return reduce(np.logical_and, [one for one, _ in found]), reduce(np.logical_and, [one for _, one in found])

    of_nulls = merged([number.null_events for number in numbers])
    events = merged([of_nulls, *(number.events for number in numbers)])
    return EnclosedNumbers(events, of_nulls, ends, nulls, any(number.has_no_interval for number in numbers))


def _nullif(scalar: Scalar, arguments: Sequence[NoiseForm], rows: int) -> NoiseForm:
    numbers = as_numbers(arguments)
    if numbers is None:
        return unknown(scalar.facts, rows) if scalar.facts.kind in {Kind.INTEGER, Kind.REAL} else Opaque(rows, True)
    first, second = numbers

    def nulls(tail: Fraction) -> Nulls:
        maybe, surely = first.nulls(tail)
        (low, high), (least, most) = first.ends(tail), second.ends(tail)
        return maybe | ((low <= most) & (least <= high)), surely

    everything = merged([first.events, first.null_events, second.events])
    return EnclosedNumbers(first.events, everything, first.ends, nulls, first.has_no_interval or second.has_no_interval)


_CHOICES: dict[Operator, Callable[[Scalar, Sequence[NoiseForm], int], NoiseForm]] = {
    Operator.CASE: _case,
    Operator.LEAST: _extreme(np.fmin),
    Operator.GREATEST: _extreme(np.fmax),
    Operator.COALESCE: _coalesce,
    Operator.NULLIF: _nullif,
}


def _flag(truth: Truth) -> EnclosedNumbers:
    def ends(tail: Fraction) -> Ends:
        states = truth.states(tail)
        return np.where(states.false, 0.0, 1.0), np.where(states.true, 1.0, 0.0)

    def nulls(tail: Fraction) -> Nulls:
        states = truth.states(tail)
        return states.null, states.null & ~states.true & ~states.false

    return EnclosedNumbers(truth.events, truth.events, ends, nulls, truth.has_no_interval)


def _truth(scalar: Scalar, arguments: Sequence[NoiseForm], rows: int) -> NoiseForm:
    truths = [form for form in arguments if isinstance(form, Truth)]
    if scalar.operator in _LOGIC and len(truths) == len(arguments):
        combine = _LOGIC[scalar.operator]
        events = merged([truth.events for truth in truths])
        return Truth(
            events,
            lambda tail: combine([truth.states(tail) for truth in truths]),
            any(form.has_no_interval for form in truths),
        )
    numbers = as_numbers(arguments)
    if numbers is None or scalar.operator not in _COMPARISONS:
        return undecided(rows)
    compare = _COMPARISONS[scalar.operator]

    def states(tail: Fraction) -> States:
        maybe, surely = _either([number.nulls(tail) for number in numbers], rows)
        true, false = compare(*(number.ends(tail) for number in numbers))
        return States(true & ~surely, false & ~surely, maybe)

    if scalar.operator is Operator.IS_NULL:

        def states_of_null(tail: Fraction) -> States:
            maybe, surely = numbers[0].nulls(tail)
            return States(maybe, ~surely, np.zeros(rows, dtype=bool))

        return Truth(merged([numbers[0].null_events]), states_of_null, numbers[0].has_no_interval)
    events = merged([part for number in numbers for part in (number.events, number.null_events)])
    return Truth(events, states, any(number.has_no_interval for number in numbers))


def undecided(rows: int) -> Truth:
    """Return truth values of which nothing is known."""
    always = np.ones(rows, dtype=bool)
    return Truth({}, lambda _: States(always, always, always), has_no_interval=True)


def decided(values: Sequence[bool | None]) -> Truth:
    """Return truth values without noise."""
    true = np.array([value is True for value in values], dtype=bool)
    null = np.array([value is None for value in values], dtype=bool)
    return Truth({}, lambda _: States(true, ~true & ~null, null))


def _and(states: Sequence[States]) -> States:
    return States(
        reduce(np.logical_and, [state.true for state in states]),
        reduce(np.logical_or, [state.false for state in states]),
        reduce(np.logical_or, [state.null for state in states]),
    )


def _or(states: Sequence[States]) -> States:
    return _not([_and([_not([state]) for state in states])])


def _not(states: Sequence[States]) -> States:
    (one,) = states
    return States(one.false, one.true, one.null)


_LOGIC: dict[Operator, Callable[[Sequence[States]], States]] = {
    Operator.AND: _and,
    Operator.OR: _or,
    Operator.NOT: _not,
}


def _equal(one: Ends, *others: Ends) -> tuple[Flags, Flags]:
    true, false = np.zeros(len(one[0]), dtype=bool), np.ones(len(one[0]), dtype=bool)
    for other in others:
        true = true | ((one[0] <= other[1]) & (other[0] <= one[1]))
        false = false & ~((one[0] == one[1]) & (other[0] == other[1]) & (one[0] == other[0]))
    return true, false


_COMPARISONS: dict[Operator, Callable[..., tuple[Flags, Flags]]] = {
    Operator.LESS: lambda one, other: (one[0] < other[1], one[1] >= other[0]),
    Operator.AT_MOST: lambda one, other: (one[0] <= other[1], one[1] > other[0]),
    Operator.EQUAL: _equal,
    Operator.IN: _equal,
    Operator.DIFFERENT: lambda one, other: _equal(one, other)[::-1],
    Operator.IS_NULL: lambda one: (one[0] == one[0], one[0] == one[0]),
}


def is_exact(form: NoiseForm) -> bool:
    """Whether a form has no noise."""
    match form:
        case Opaque():
            return not form.has_no_interval
        case Truth():
            return not form.events and not form.has_no_interval and _settled(form.states(Fraction(1)))
    return isinstance(form, Exact)


def _settled(states: States) -> bool:
    """Whether one truth value is possible in every row: without events several may be, where noise chose rows."""
    return bool((states.true.astype(np.int64) + states.false + states.null == 1).all())
