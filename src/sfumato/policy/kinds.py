"""Kinds of policy values: each reads a value, names its type in words, and describes it as a JSON Schema.

`keys` declares every key with its kind. A new kind is one frozen class here with `words`, `read` and `schema`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any, Protocol

from sfumato.policy.entry import (
    FORBIDDEN_NAME_CHARS,
    MAX_NAME_CHARS,
    MAX_RATIONAL_PART,
    Entry,
    check_name,
    choice,
    count,
    flag,
    items,
    missing,
    number,
    quote_entry,
    refuse,
    section,
    text,
)
from sfumato.policy.policy import fold_name

JsonSchema = dict[str, Any]
"""A JSON Schema, draft 2020-12."""

_DURATION = re.compile(r"(\d{1,5}(?:\.\d{1,6})?) ?(ms|s)", re.ASCII)
_SECONDS = {"ms": Fraction(1, 1000), "s": Fraction(1)}
NUMBER_LIMITS: JsonSchema = {"minimum": -float(MAX_RATIONAL_PART), "maximum": float(MAX_RATIONAL_PART)}
_NUMBER_TEXT = r"^\s*[+-]?(\d+\s*/\s*\d+|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)\s*$"


class ValueKind(Protocol):
    """Kind of value that a policy key accepts."""

    @property
    def words(self) -> str:
        """The type in words, for the documentation."""

    def read(self, entry: Entry) -> Any:
        """Return the value, or refuse what is of another type."""

    def schema(self) -> JsonSchema:
        """Return the JSON Schema of the values."""


@dataclass(frozen=True, slots=True)
class Required:
    """A key without a default: why it must be written, and what to write."""

    why: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Default:
    """The value of a key that is not written; `words` where the value does not show what it means."""

    value: Any = None
    words: str = ""


class Hashed(StrEnum):
    """Whether the canonical text of a policy has a line for the key."""

    CHANGED = "changed"
    """Only where the value is not the default: a new key leaves the hashes of existing policies as they are."""
    ALWAYS = "always"
    APART = "apart"
    """`canonical` writes the line itself, or the key is no part of the promise."""


@dataclass(frozen=True, slots=True)
class PolicyKey:
    """A key of the policy: its kind, its default, and one sentence about it."""

    name: str
    kind: ValueKind
    default: Required | Default
    description: str
    hashed: Hashed = Hashed.CHANGED
    field: str = ""
    """The field of the data class, where it has another name than the key."""

    @property
    def target(self) -> str:
        """The name of the data class's field."""
        return self.field or self.name


@dataclass(frozen=True, slots=True)
class SectionValues:
    """A table of settings that has been read: what is written, and the value of every key."""

    entry: Entry
    written: Mapping[str, Entry]
    values: Mapping[str, Any]
    """By the name of the key; the default where the key is not written."""
    fields: dict[str, Any]
    """Arguments of the data class: the values of all keys that their kind reads completely."""

    def __contains__(self, key: str) -> bool:
        return key in self.written

    def __getitem__(self, key: str) -> Entry:
        return self.written[key]


@dataclass(frozen=True, slots=True)
class Section:
    """A table whose keys are declared."""

    keys: tuple[PolicyKey, ...]
    into: Callable[..., object] | None = None
    """The data class that holds the values; None where a reader of its own makes it."""
    any_of: tuple[str, ...] = ()
    """Keys of which at least one must be written."""
    advice: str = ""

    @property
    def words(self) -> str:
        return "table"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the keys."""
        return tuple(key.name for key in self.keys)

    def read_keys(self, entry: Entry) -> SectionValues:
        """Read every key; refuse unknown keys and missing ones."""
        written = section(entry, self.names, self.advice)
        values: dict[str, Any] = {}
        for key in self.keys:
            if key.name in written:
                values[key.name] = key.kind.read(written[key.name])
            elif isinstance(key.default, Required):
                raise missing(entry, key.name, key.default.why, key.default.remedy)
            else:
                values[key.name] = key.default.value
        complete = {key.target: values[key.name] for key in self.keys if is_complete(key.kind)}
        return SectionValues(entry, written, values, complete)

    def read(self, entry: Entry) -> Any:
        return self.read_keys(entry) if self.into is None else self.into(**self.read_keys(entry).fields)

    def schema(self) -> JsonSchema:
        required = [key.name for key in self.keys if isinstance(key.default, Required)]
        return {
            "type": "object",
            "properties": {key.name: key_schema(key) for key in self.keys},
            **({"required": required} if required else {}),
            **({"anyOf": [{"required": [key]} for key in self.any_of]} if self.any_of else {}),
            "additionalProperties": False,
        }

    def walk(self, prefix: str = "") -> Iterator[tuple[str, PolicyKey]]:
        """Give every key with its path, those of a section before those of the sections inside it."""
        yield from ((prefix + key.name, key) for key in self.keys)
        for key in self.keys:
            match key.kind:
                case Section():
                    yield from key.kind.walk(f"{prefix}{key.name}.")
                case NamedTables(what, _, element):
                    yield from element.walk(f"{prefix}{key.name}.{what.upper()}.")


@dataclass(frozen=True, slots=True)
class NamedTables:
    """A table of tables whose names the owner chooses. Its reader has the names to check against each other."""

    what: str
    most: int
    element: Section
    least: int = 0

    @property
    def words(self) -> str:
        return "table of tables" + ", at least one" * (self.least == 1)

    def read(self, entry: Entry) -> Entry:
        return entry

    def schema(self) -> JsonSchema:
        return {
            "type": "object",
            "propertyNames": _name_schema(self.what),
            "additionalProperties": self.element.schema(),
            "minProperties": self.least,
            "maxProperties": self.most,
        }


@dataclass(frozen=True, slots=True)
class Described:
    """A value that a reader of its own reads, because its meaning depends on other keys."""

    words: str
    json: JsonSchema = field(hash=False)

    def read(self, entry: Entry) -> Entry:
        return entry

    def schema(self) -> JsonSchema:
        return self.json


@dataclass(frozen=True, slots=True)
class OrChosen:
    """A value, or { LIMIT = value, choose = "private" }, where each question selects it privately up to the limit."""

    kind: ValueKind
    limit: str
    example: str
    """How the second form looks in a policy."""
    words: str

    def read(self, entry: Entry) -> tuple[Any, bool]:
        """Return the value, and whether each question selects its own."""
        if not isinstance(entry.value, dict):
            return self.kind.read(entry), False
        keys = section(entry, (self.limit, "choose"))
        for needed in (self.limit, "choose"):
            if needed not in keys:
                why = 'A bound that each question selects privately needs a maximum and choose = "private".'
                raise missing(entry, needed, why, f"Write {self.example}.")
        choice(keys["choose"], ("private",), {"auto": "private", "data": "private", "r2t": "private"})
        return self.kind.read(keys[self.limit]), True

    def schema(self) -> JsonSchema:
        properties = {self.limit: self.kind.schema(), "choose": {"const": "private"}}
        chosen = {"type": "object", "properties": properties, "required": [self.limit, "choose"]}
        return {"anyOf": [self.kind.schema(), {**chosen, "additionalProperties": False}]}


@dataclass(frozen=True, slots=True)
class Text:
    """A text of at most `most_chars` characters."""

    most_chars: int
    accepts: Callable[[str], object] | None = None
    why: str = ""
    remedy: str = ""

    @property
    def words(self) -> str:
        return "text"

    def read(self, entry: Entry) -> str:
        words = text(entry, self.most_chars)
        if self.accepts is None or self.accepts(words):
            return words
        raise refuse(entry, f"is {quote_entry(entry.value)}.", self.why, self.remedy)

    def schema(self) -> JsonSchema:
        return {"type": "string", "maxLength": self.most_chars}


@dataclass(frozen=True, slots=True)
class NameText:
    """The name of something, such as the policy."""

    what: str

    @property
    def words(self) -> str:
        return "text"

    def read(self, entry: Entry) -> str:
        name = text(entry, 10_000)
        check_name(entry, name, self.what)
        return name

    def schema(self) -> JsonSchema:
        return {"type": "string", **_name_schema(self.what)}


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some words; `synonyms` are words of other systems, for the advice."""

    options: tuple[str, ...]
    synonyms: Mapping[str, str] = field(default_factory=dict, hash=False)
    into: Callable[[str], Any] = str
    described: str = ""

    @property
    def words(self) -> str:
        return self.described or _list_words([f'`"{option}"`' for option in self.options])

    def read(self, entry: Entry) -> Any:
        return self.into(choice(entry, self.options, self.synonyms))

    def schema(self) -> JsonSchema:
        return {"enum": [str(option) for option in self.options]}


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    @property
    def words(self) -> str:
        return "true or false"

    def read(self, entry: Entry) -> bool:
        return flag(entry)

    def schema(self) -> JsonSchema:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class WholeNumber:
    """A whole number from 1 to `most`."""

    most: int

    @property
    def words(self) -> str:
        return f"integer from 1 to {self.most:,}"

    def read(self, entry: Entry) -> int:
        return count(entry, self.most)

    def schema(self) -> JsonSchema:
        return {"type": "integer", "minimum": 1, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class ExactNumber:
    """An exact number that `accepts` admits: a JSON number within `limits`, or text such as "1/3"."""

    words: str
    limits: JsonSchema = field(default_factory=dict, hash=False)
    accepts: Callable[[Fraction], bool] | None = None
    why: str = ""
    remedy: str = ""

    def read(self, entry: Entry) -> Fraction:
        value = number(entry)
        if self.accepts is None or self.accepts(value):
            return value
        raise refuse(entry, f"is {quote_entry(entry.value)}.", self.why, self.remedy)

    def schema(self) -> JsonSchema:
        return {
            "anyOf": [{"type": "number", **NUMBER_LIMITS, **self.limits}, {"type": "string", "pattern": _NUMBER_TEXT}]
        }


@dataclass(frozen=True, slots=True)
class Duration:
    """A duration such as "1s" or "250ms", in seconds."""

    least: Fraction
    most: Fraction
    words: str
    why: str
    remedy: str

    def read(self, entry: Entry) -> Fraction:
        match_ = _DURATION.fullmatch(entry.value) if isinstance(entry.value, str) else None
        seconds = Fraction(match_[1]) * _SECONDS[match_[2]] if match_ else None
        if seconds is not None and self.least <= seconds <= self.most:
            return seconds
        raise refuse(entry, f"is {quote_entry(entry.value)}.", self.why, self.remedy)

    def schema(self) -> JsonSchema:
        return {"type": "string", "pattern": f"^{_DURATION.pattern}$"}


@dataclass(frozen=True, slots=True)
class DefaultPrice:
    """A price of questions: a share of the budget such as "1%", or an epsilon. Its value is its shortest text."""

    words: str = 'percentage such as `"1%"`, or number above 0'

    def read(self, entry: Entry) -> str:
        value = entry.value
        share = value.strip().removesuffix("%") if isinstance(value, str) and value.strip().endswith("%") else None
        exact = number(entry if share is None else replace(entry, value=share.strip()))
        if exact > 0 and (share is None or exact <= 100):
            return str(exact) if share is None else f"{exact}%"
        raise refuse(
            entry,
            f"is {quote_entry(value)}.",
            "A price is a percentage of the analyst's budget, above 0 % and at most 100 %, or an epsilon above 0.",
            'Write for example price = "1%", or price = 0.1.',
        )

    def schema(self) -> JsonSchema:
        text_schema = {"type": "string", "pattern": _NUMBER_TEXT.removesuffix("$") + r"%?\s*$"}
        return {"anyOf": [{"type": "number", **NUMBER_LIMITS, "exclusiveMinimum": 0}, text_schema]}


@dataclass(frozen=True, slots=True)
class Texts:
    """A list of texts without an order."""

    words: str
    most: int
    element: Text

    def read(self, entry: Entry) -> tuple[str, ...]:
        return tuple(sorted({self.element.read(below) for below in items(entry, self.most)}))

    def schema(self) -> JsonSchema:
        return {"type": "array", "items": self.element.schema(), "maxItems": self.most}


@dataclass(frozen=True, slots=True)
class NameList:
    """A list of names in the order in which they are written, each once."""

    words: str
    what: str
    most: int

    def read(self, entry: Entry) -> tuple[str, ...]:
        names: list[str] = []
        for below in items(entry, self.most):
            name = text(below, 10_000)
            check_name(below, name, self.what)
            if fold_name(name) in map(fold_name, names):
                raise refuse(below, f"is {quote_entry(name)} once more.", "Each name stands once.", "Remove it.")
            names.append(name)
        return tuple(names)

    def schema(self) -> JsonSchema:
        names = {"type": "string", **_name_schema(self.what)}
        return {"type": "array", "items": names, "maxItems": self.most}


def is_complete(kind: ValueKind) -> bool:
    """Whether the kind alone reads the value, so that it is an argument of the data class."""
    return not isinstance(kind, NamedTables | Described | OrChosen) and not (
        isinstance(kind, Section) and not kind.into
    )


def key_schema(key: PolicyKey) -> JsonSchema:
    """Return the JSON Schema of one key, with its description and its default."""
    schema = {"description": key.description, **key.kind.schema()}
    match key.default:
        case Default(_, words) if words:
            description = words.capitalize() if words.startswith("required") else f"Default: {words}"
            return {**schema, "description": f"{key.description} {description.replace('`', '')}."}
        case Default(bool() | int() | str() as value):
            return {**schema, "default": value}
    return schema


def _list_words(options: Iterable[str]) -> str:
    *first, last = options
    return f"{', '.join(first)} or {last}" if first else last


def _name_schema(what: str) -> JsonSchema:
    excluded = re.escape(FORBIDDEN_NAME_CHARS.get(what, '"'))
    ends = f"[^\\s{excluded}]"
    return {"maxLength": MAX_NAME_CHARS, "pattern": f"^{ends}([^\\x00-\\x1f{excluded}]*{ends})?$"}
