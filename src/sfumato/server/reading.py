"""Questions as JSON: read strictly, every number as the decimal text that was sent."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime

from sfumato.errors import BadRequest, quote_value, suggestion
from sfumato.exact import typed_rational

MAX_BODY_BYTES = 1 << 20
"""The most bytes of a request."""
PRICES = ("epsilon", "within", "share", "delta")
"""Keys of a query besides its text: as `Database.ask` takes them."""
PARAMETERS = "parameters"
"""Key of the values of $1, $2, … or :name."""
KEYS = ("sql", *PRICES, PARAMETERS)
HOUSEHOLD = "household"
"""Key of `explain` for the loss of several people together."""
REASON = "reason"
"""Key of a request: what the owner reads before deciding."""
WORKLOAD_KEYS = ("questions", "epsilon", "share", "delta", "weights", "within", "level")
"""Keys of a workload."""
_DIGITS = 9
"""No household has more people than can be written so."""
_SHAPES = {
    "within": ("It is an object of columns and their margins.", '{"within": {"n": 25}}'),
    "share": ("It is a percentage as text, or a number.", '{"share": "2%"}'),
    HOUSEHOLD: ("It is a number of people.", '{"household": 4}'),
    PARAMETERS: ("It is a list of values, or an object of names and values.", '{"parameters": [40, "er"]}'),
}

_TAGS: dict[str, Callable[[str], object]] = {
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "decimal": lambda text: typed_rational(text, "parameters"),
}
"""Values that JSON has no form of its own for."""
_TAGGED_EXAMPLES = {
    "date": '{"date": "2024-01-31"}',
    "timestamp": '{"timestamp": "2024-01-31T12:00:00"}',
    "decimal": '{"decimal": "0.1"}',
}


class _Number(str):
    """A JSON number, as its text: no binary float comes between what was sent and what is meant."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class PricedQuestion:
    """A query and its price."""

    sql: str
    price: dict[str, object]


def read_question(body: bytes) -> PricedQuestion:
    """Read a question, or refuse it.

    >>> read_question(b'{"sql": "SELECT 1", "epsilon": 0.10}').price
    {'epsilon': '0.10'}
    """
    return _question(body, KEYS)


def read_explained(body: bytes) -> PricedQuestion:
    """Read a question whose price is asked for, or refuse it: it may also name a household.

    >>> read_explained(b'{"sql": "SELECT 1", "epsilon": 1, "household": 4}').price
    {'epsilon': '1', 'household': 4}
    """
    return _question(body, (*KEYS, HOUSEHOLD))


def _question(body: bytes, keys: tuple[str, ...]) -> PricedQuestion:
    data = _read_keys(body, keys)
    sql = data.get("sql")
    if type(sql) is not str:
        raise BadRequest(
            "The request has no question.", "`sql` is a text.", 'Send {"sql": "SELECT …", "epsilon": "0.1"}.'
        )
    return PricedQuestion(sql, {key: _price(key, data[key]) for key in keys if key in data and key != "sql"})


def read_filed(body: bytes) -> PricedQuestion:
    """Read a question with the reason for asking the owner, or refuse it.

    >>> read_filed(b'{"sql": "SELECT 1", "epsilon": 1, "reason": "audit"}').price
    {'reason': 'audit', 'epsilon': '1'}
    """
    question = _question(body, tuple(key for key in (*KEYS, REASON) if key != "share"))
    return PricedQuestion(question.sql, {REASON: "", **question.price})


def read_note_text(body: bytes) -> str:
    """Read a note on a request; it may be left out.

    >>> read_note_text(b'{"text": "Which year?"}'), read_note_text(b"{}")
    ('Which year?', '')
    """
    text = _read_keys(body, ("text",)).get("text", "")
    if type(text) is not str:
        raise BadRequest("`text` is not a text.", "The other side reads it.", 'Send {"text": "Which year?"}.')
    return text


@dataclass(frozen=True, slots=True)
class PricedQuestions:
    """A workload, its price and the level of its intervals."""

    questions: list[str]
    price: dict[str, object]
    level: object


def read_questions(body: bytes) -> PricedQuestions:
    """Read questions that are charged as one, or refuse them.

    >>> read_questions(b'{"questions": ["SELECT 1"], "share": "1%"}').price
    {'share': '1%'}
    """
    data = _read_keys(body, WORKLOAD_KEYS)
    texts = data.get("questions")
    if not isinstance(texts, list) or not all(type(text) is str for text in texts):
        raise BadRequest(
            "The request has no questions.",
            "`questions` is a list of texts.",
            'Send {"questions": ["SELECT …", "SELECT …"], "epsilon": "0.1"}.',
        )
    price: dict[str, object] = {key: _price(key, data[key]) for key in ("epsilon", "share", "delta") if key in data}
    if "weights" in data:
        price["weights"] = _numbers("weights", data["weights"])
    if "within" in data:
        price["within"] = _margins(data["within"])
    return PricedQuestions(texts, price, _price("level", data["level"]) if "level" in data else None)


def _margins(value: object) -> list[object]:
    if not isinstance(value, list):
        raise BadRequest(
            "`within` is no list of margins.",
            "It has one object of columns and margins, or null, for each question.",
            'Send [{"n": 25}, null].',
        )
    return [None if margin is None else _price("within", margin) for margin in value]


def _numbers(key: str, value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(margin, str) for margin in value):  # a number is its text here
        raise BadRequest(f"`{key}` is no list of numbers.", "It has one number for each question.", "Send [1, 1, 4].")
    return [str(margin) for margin in value]


def _read_keys(body: bytes, keys: tuple[str, ...]) -> dict[str, object]:
    """Read a JSON object and refuse unknown keys."""
    data = read_object(body)
    for key in data:
        if key not in keys:
            raise BadRequest(
                f"The request has the key {quote_value(key)}.",
                "Unknown keys are refused so that a typo cannot silently change a price.",
                f"{suggestion(key, keys)}The keys are: {', '.join(keys)}.",
            )
    return data


def read_object(body: bytes) -> dict[str, object]:
    """Read a JSON object in UTF-8; a key that stands twice, NaN and Infinity are refused."""
    try:
        data = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_object,
            parse_float=_Number,
            parse_int=_Number,
            parse_constant=_constant,
        )
    except (UnicodeDecodeError, ValueError, RecursionError):
        data = None
    if isinstance(data, dict):
        return data
    raise BadRequest("This is not a JSON object.", "A request is one object in UTF-8.", 'Send {"sql": "SELECT …"}.')


def _price(key: str, value: object) -> object:
    if key == "within":
        if isinstance(value, dict) and all(isinstance(margin, str) for margin in value.values()):
            return {name: str(margin) for name, margin in value.items()}
    elif key == PARAMETERS:
        if isinstance(value, list) and all(map(_is_parameter, value)):
            return [_parameter(item) for item in value]
        if isinstance(value, dict) and all(map(_is_parameter, value.values())):
            return {name: _parameter(item) for name, item in value.items()}
    elif key == HOUSEHOLD:
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _DIGITS:
            return int(value)
    elif isinstance(value, str):
        return str(value)
    says, example = _SHAPES.get(key, ("It is a number, or a number as text.", f'{{"{key}": "0.1"}}'))
    raise BadRequest(f"{key} is {_kind(value)}.", says, f"Send for example {example}.")


def _is_parameter(value: object) -> bool:
    """Whether a value of a query can be sent: a number, a text, true, false, null, a tagged one, or a list of these."""
    return all(map(_is_single, value)) if isinstance(value, list) else _is_single(value)


def _is_single(value: object) -> bool:
    if isinstance(value, dict):
        return len(value) == 1 and all(key in _TAGS and type(text) is str for key, text in value.items())
    return value is None or isinstance(value, bool | str)


def _parameter(value: object) -> object:
    """Return a value of a query, with every number exact."""
    if isinstance(value, list):
        return [_parameter(item) for item in value]
    if isinstance(value, dict):
        ((tag, text),) = value.items()
        try:
            return _TAGS[tag](text)
        except (ValueError, ArithmeticError):
            raise BadRequest(
                f"A parameter is not a {tag}.", "Its text cannot be read.", f"Send for example {_TAGGED_EXAMPLES[tag]}."
            ) from None
    if isinstance(value, _Number):
        exact = typed_rational(str(value), PARAMETERS)
        return int(exact) if value.lstrip("-").isdigit() else exact
    return value


def _kind(value: object) -> str:
    names: Iterable[tuple[type, str]] = ((bool, "true or false"), (list, "a list"), (dict, "an object"))
    return next((name for kind, name in names if isinstance(value, kind)), "null" if value is None else "no such value")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError
    return document


def _constant(_word: str) -> object:
    raise ValueError
