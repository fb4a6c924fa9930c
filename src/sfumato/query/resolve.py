"""Types are settled here: a function and its arguments become a Call that has what it takes, or a refusal."""

from sfumato.errors import excerpt
from sfumato.query.expression import Call, Case, Cast, Column, Expression, Literal
from sfumato.query.functions import CLOCK_PARTS, MAX_SCALE_DIGITS, PARTS, UNITS, Form, Function, Takes
from sfumato.query.literal import Unbound, convert
from sfumato.query.position import SourceSpan
from sfumato.query.types import CASTS, NUMBERS, TIMES, Type

_FIXED_TYPES = {Takes.INTEGER: Type.INTEGER, Takes.TEXT: Type.TEXT, Takes.BOOLEAN: Type.BOOLEAN}
_LITERAL_ARGUMENTS = frozenset({Takes.WORD, Takes.COUNT, Takes.UNIT, Takes.PART})


_SAME_PART = {"dayofweek": "dow", "weekday": "dow", "dayofyear": "doy", "weekofyear": "week"}
"""DuckDB's names of date parts."""


def convert_implicitly(argument: Expression, type: Type, place: SourceSpan) -> Expression:
    """Return the argument as `type`, where SQL converts without being asked."""
    if argument.type is type:
        return argument
    if isinstance(argument, Literal):
        literal = convert(argument, type, place)
        if literal is not None:
            return literal
    if (argument.type, type) in {(Type.INTEGER, Type.DECIMAL), (Type.DATE, Type.TIMESTAMP)}:
        return Cast(argument, type, argument.at)
    raise place.bad(
        f"{type_with_article(type)} is needed where this has {type_with_article(argument.type)}.",
        "SQL does not convert one into the other without being asked.",
        f"Use CAST(… AS {type}) if that is what is meant." if is_castable(argument.type, type) else _OTHER,
    )


_OTHER = "Use another column or expression."


def is_castable(source: Type, target: Type) -> bool:
    """Whether CAST may be asked for."""
    return (source, target) in CASTS


def to_common_type(arguments: list[Expression], place: SourceSpan) -> list[Expression]:
    """Return the arguments as their common type."""
    common = _common(arguments, place)
    return [convert_implicitly(argument, common, place) for argument in arguments]


def _common(arguments: list[Expression], place: SourceSpan) -> Type:
    """A bare NULL has every type, and text that is spelled out has the type of its neighbours."""
    telling = {a.type for a in arguments if a.type is not Type.NULL and not _spelled_text(a)}
    for family, widest in ((NUMBERS, Type.DECIMAL), (TIMES, Type.TIMESTAMP)):
        if len(telling) > 1 and telling <= family:
            return widest
    if len(telling) == 1:
        return telling.pop()
    if not telling:
        return Type.TEXT
    raise place.bad(
        f"{' and '.join(sorted(type_with_article(type) for type in telling))} do not go together here.",
        "The values have to be of one type.",
        "Cast one of them, or compare what is alike.",
    )


def _spelled_text(argument: Expression) -> bool:
    return isinstance(argument, Literal) and argument.type is Type.TEXT


def call(form: Form, arguments: list[Expression], name: str, place: SourceSpan) -> Expression:
    """Return the call of a function of the table."""
    if form.part is not None:
        arguments = [Literal(form.part, Type.TEXT, place.at), *arguments]
        form = Form(form.function, (Takes.PART, *form.takes), form.gives, form.postgres)
    _check_count(form, len(arguments), name, place)
    takes = form.takes + form.takes[-1:] * (len(arguments) - len(form.takes))
    fitted = list(arguments)
    for kind in (Takes.ALIKE, Takes.NUMBER):
        spots = [i for i, take in enumerate(takes[: len(arguments)]) if take is kind]
        for i, argument in zip(spots, to_common_type([fitted[i] for i in spots], place) if spots else [], strict=True):
            fitted[i] = argument
    fitted = [_accept(take, argument, name, place) for take, argument in zip(takes, fitted, strict=False)]
    _refuse_unsuitable(form.function, fitted, name, place)
    gives = form.gives or next(a.type for take, a in zip(takes, fitted, strict=False) if take not in _LITERAL_ARGUMENTS)
    return Call(form.function, tuple(fitted), gives, place.at)


def _check_count(form: Form, count: int, name: str, place: SourceSpan) -> None:
    most, least = len(form.takes), len(form.takes) - form.optional
    if least <= count and (count <= most or form.repeats):
        return
    expected = f"at least {least}" if form.repeats else str(least) if least == most else f"{least} to {most}"
    raise place.bad(
        f"{name} was given {count} argument{'s' * (count != 1)}.",
        f"It takes {expected}.",
        "Add or remove arguments.",
    )


def _accept(take: Takes, argument: Expression, name: str, place: SourceSpan) -> Expression:
    if take in _LITERAL_ARGUMENTS:
        return _checked_spelling(take, argument, name, place)
    if take in _FIXED_TYPES:
        wanted: frozenset[Type] = frozenset({_FIXED_TYPES[take]})
    else:
        wanted = {
            Takes.NUMBER: NUMBERS,
            Takes.TIME: TIMES,
            Takes.SPAN: TIMES | {Type.INTERVAL},
            Takes.ALIKE: frozenset(Type),
        }[take]
    if argument.type in wanted:
        return argument
    if isinstance(argument, Literal) and (argument.value is None or argument.type is Type.TEXT):
        return convert_implicitly(argument, _default(take), place)
    if take is Takes.TEXT and name in {"concat", "||"}:
        return Cast(argument, Type.TEXT, argument.at)  # PostgreSQL joins any value to text
    kinds = " or ".join(sorted(type_with_article(type) for type in wanted))
    subject = f"{_title(argument)} is {type_with_article(argument.type)}"
    raise place.bad(
        f"{name} takes {kinds}, and {subject}.",
        "Types are checked before any data is read.",
        f"Use CAST(… AS {_default(take)}) if that is what is meant."
        if is_castable(argument.type, _default(take))
        else _OTHER,
    )


def _default(take: Takes) -> Type:
    return {
        Takes.NUMBER: Type.DECIMAL,
        Takes.TIME: Type.TIMESTAMP,
        Takes.SPAN: Type.TIMESTAMP,
        Takes.INTEGER: Type.INTEGER,
        Takes.BOOLEAN: Type.BOOLEAN,
    }.get(take, Type.TEXT)


def _checked_spelling(take: Takes, argument: Expression, name: str, place: SourceSpan) -> Expression:
    kind = "an integer" if take is Takes.COUNT else "a text"
    type = Type.INTEGER if take is Takes.COUNT else Type.TEXT
    if isinstance(argument, Literal) and isinstance(argument.value, Unbound):
        argument = convert_implicitly(argument, type, place)
    if not isinstance(argument, Literal) or argument.type is not type or argument.value is None:
        raise place.unsupported(
            f"{name} takes {kind} that is spelled out in the query.",
            "What it does may not differ from row to row.",
            f"Write {kind.split()[-1]} itself, not a column or expression.",
        )
    if take in {Takes.UNIT, Takes.PART}:
        known = UNITS if take is Takes.UNIT else PARTS
        word = str(argument.value).lower()
        word = _SAME_PART.get(word, word) if take is Takes.PART else word
        word = word if word in known else word.removesuffix("s")
        if word not in known:
            raise place.unknown("part of a date", str(argument.value), list(known), f"{name} knows others.")
        return Literal(word, Type.TEXT, argument.at)
    return argument


def _refuse_unsuitable(function: Function, arguments: list[Expression], name: str, place: SourceSpan) -> None:
    """Refuse what the types alone do not tell."""
    spelled = [argument.value if isinstance(argument, Literal) else None for argument in arguments]
    match function:
        case Function.ROUND | Function.TRUNC if len(spelled) > 1 and abs(_int(spelled[1])) > MAX_SCALE_DIGITS:
            _range(name, "number of digits", -MAX_SCALE_DIGITS, MAX_SCALE_DIGITS, place)
        case Function.WIDTH_BUCKET if not 1 <= _int(spelled[3]) <= 10**6:
            _range(name, "number of buckets", 1, 10**6, place)
        case Function.EXTRACT:
            _check_part(str(spelled[0]), arguments[1], name, place)


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0


def _range(name: str, what: str, low: int, high: int, place: SourceSpan) -> None:
    raise place.unsupported(
        f"the {what} of {name} is out of range.",
        f"It lies between {low} and {high}, which keeps values bounded.",
        f"Choose one between {low} and {high}.",
    )


def _check_part(part: str, argument: Expression, name: str, place: SourceSpan) -> None:
    of_date = argument.type is Type.DATE and part in CLOCK_PARTS
    of_interval = argument.type is Type.INTERVAL and part not in CLOCK_PARTS | {"day", "epoch"}
    if of_date or of_interval:
        raise place.bad(
            f"{type_with_article(argument.type)} has no {part}.",
            f"{name} takes a part that the value has.",
            "Extract another part, or use a timestamp.",
        )


def compare(function: Function, left: Expression, right: Expression, place: SourceSpan) -> Call:
    """Return a comparison of two values of one type."""
    first, second = to_common_type([left, right], place)
    return Call(function, (first, second), Type.BOOLEAN, place.at)


def truth(argument: Expression, place: SourceSpan) -> Expression:
    """Return the argument as a condition."""
    if argument.type is Type.BOOLEAN or isinstance(argument, Literal):
        return convert_implicitly(argument, Type.BOOLEAN, place)
    raise place.bad(
        f"a condition is needed where this has {type_with_article(argument.type)}.",
        "Only a boolean is true or false.",
        "Compare it with something, for example with <> 0.",
    )


def cast(argument: Expression, type: Type, place: SourceSpan) -> Expression:
    """Return an explicit cast; a literal is converted at once."""
    if argument.type is type:
        return argument
    if isinstance(argument, Literal):
        literal = convert(argument, type, place)
        if literal is not None:
            return literal
    if not is_castable(argument.type, type):
        raise place.bad(
            f"{type_with_article(argument.type)} cannot be cast to {type_with_article(type)}.",
            "One has no meaning as the other.",
            "Cast between numbers, between date and timestamp, or from and to text.",
        )
    return Cast(argument, type, place.at)


def case(branches: list[tuple[Expression, Expression]], otherwise: Expression, place: SourceSpan) -> Case:
    """Return a CASE whose results have one type."""
    results = to_common_type([*(then for _, then in branches), otherwise], place)
    whens = [truth(when, place) for when, _ in branches]
    return Case(tuple(zip(whens, results[:-1], strict=True)), results[-1], results[-1].type, place.at)


def type_with_article(type: Type) -> str:
    """Return a type with its article."""
    if type in {Type.TEXT, Type.NULL}:
        return str(type)
    return f"{'an' if type.value[0] in 'aeiou' else 'a'} {type}"


def _title(argument: Expression) -> str:
    return excerpt(argument.name) if isinstance(argument, Column) else "this"


def as_number(value: Expression, name: str, place: SourceSpan) -> Expression:
    """Return the argument of a function that takes a number, or refuse; NULL is one."""
    if value.type in NUMBERS:
        return value
    if not (isinstance(value, Literal) and value.value is None):
        raise place.bad(
            f"{name} takes a number, and this is {type_with_article(value.type)}.",
            "Types are checked before any data is read.",
            "Use another column, or CAST(… AS integer).",
        )
    return convert_implicitly(value, Type.DECIMAL, place)
