"""The canonical text of a query: the same question spelled otherwise gives the same text.

Aliases, case, comments, brackets, WITH clauses and the place of join conditions are gone when a query has been
parsed. Here the operands of certainly commutative functions are put in order. Nothing else is equated: two questions
with one text always have the same answer, two with different texts may still have it.
"""

from sfumato.query.expression import Call, Case, Cast, Expression, Literal, call_text, case_text, identifier
from sfumato.query.functions import Function
from sfumato.query.relation import (
    Filter,
    GroupBy,
    Join,
    Limit,
    MarkJoin,
    Options,
    Over,
    Project,
    Query,
    Relation,
    Scan,
    Sort,
    SortKey,
    UnionAll,
    Values,
    Window,
)

# Equal values of one type, whatever the order; and expressions are total, so no operand guards another.
_COMMUTATIVE = frozenset(
    {Function.ADD, Function.MULTIPLY, Function.EQUAL, Function.DIFFERENT, Function.DISTINCT_FROM}
    | {Function.AND, Function.OR, Function.LEAST, Function.GREATEST}
)
_IDEMPOTENT = frozenset({Function.AND, Function.OR, Function.LEAST, Function.GREATEST})


def canonical(query: Query) -> str:
    """Return the text that stands for this question; the names of its columns and its options belong to it."""
    names = ", ".join(identifier(name) for name in query.names)
    return f"{_relation(query.relation)} -> {names}{_options(query.options)}"


def _options(options: Options) -> str:
    settings = [
        f"{name}={value}" for name in sorted(Options.__slots__) if (value := getattr(options, name)) is not None
    ]
    return f" options({', '.join(settings)})" if settings else ""


def expression_text(expression: Expression) -> str:
    """Return the canonical text of an expression."""
    match expression:
        case Call(function, arguments):
            return _call(function, [expression_text(argument) for argument in arguments], expression)
        case Case(branches, otherwise):
            pairs = [(expression_text(when), expression_text(then)) for when, then in branches]
            return case_text(pairs, expression_text(otherwise))
        case Cast(argument, type):
            return f"cast({expression_text(argument)}, {type})"
        case Literal(None, type):
            return f"null:{type}"
        case _:
            return str(expression)


def _call(function: Function, texts: list[str], call: Call) -> str:
    if function in _IDEMPOTENT:
        texts = sorted(set(texts))
        if len(texts) == 1:
            return texts[0]
    elif function in _COMMUTATIVE:
        texts = sorted(texts)
    elif function is Function.IN:
        texts = [texts[0], *sorted(set(texts[1:]))]
    elif function is Function.EXTRACT:
        return f"{call_text(function, texts)}:{call.type}"  # year(d) is an integer, EXTRACT a decimal
    return call_text(function, texts)


def _relation(relation: Relation) -> str:
    match relation:
        case Scan() | Values():
            return f"({relation})"
        case Join(kind, left, right, condition):
            on = "" if condition is None else f" on {expression_text(condition)}"
            return f"({kind} join{on} {_relation(left)} {_relation(right)})"
        case Filter(source, condition):
            return f"(filter {expression_text(condition)} {_relation(source)})"
        case GroupBy(source, label, keys, measures, per_unit=per_unit):
            parts = [f"{key.name} = {expression_text(key.expression)}" for key in keys]
            parts += [f"{measure.name} = {measure.aggregate.written(expression_text)}" for measure in measures]
            return f"({identifier(label)}{' per unit' * per_unit} {'; '.join(parts)} {_relation(source)})"
        case Project(source, label, items):
            values = "; ".join(expression_text(item.expression) for item in items)
            return f"({identifier(label)} {values} {_relation(source)})"
        case Sort(source, keys):
            return f"(sort {_sorted_by(keys)} {_relation(source)})"
        case Limit(source, count, offset):
            return f"(limit {count} offset {offset} {_relation(source)})"
        case Window(source, label, values):
            return f"({identifier(label)} {'; '.join(map(_window_text, values))} {_relation(source)})"
        case UnionAll(left, right, label):
            return f"({identifier(label)} of both {_relation(left)} {_relation(right)})"
        case MarkJoin(left, right, label, condition):
            on = "" if condition is None else f" on {expression_text(condition)}"
            return f"({identifier(label)} found{on} {_relation(left)} {_relation(right)})"


def _window_text(value: Over) -> str:
    partition = ", ".join(sorted({expression_text(part) for part in value.partition}))
    called = value.call.written(expression_text)
    return f"{value.name} = {called} over ({partition}; {_sorted_by(value.order)}; {value.frame})"


def _sorted_by(keys: tuple[SortKey, ...]) -> str:
    return ", ".join(
        f"{expression_text(key.expression)}{' desc' * key.descending}{' nulls first' * key.nulls_first}" for key in keys
    )
