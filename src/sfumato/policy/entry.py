"""One value of a policy with the keys that lead to it and its line, read as the type it must have, or refused.

A message quotes what the owner wrote, shortened; it never shows an object it does not know.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, time
from decimal import Decimal
from fractions import Fraction
from numbers import Rational

from sfumato.errors import BadParameter, BadPolicy, suggestion
from sfumato.exact import decimal_rational, integer
from sfumato.policy.lines import KeyPath
from sfumato.policy.policy import fold_name

MAX_NAME_CHARS = 63
"""Characters in the name of a table, column or analyst: PostgreSQL's limit."""
FORBIDDEN_NAME_CHARS = {"table": '"./\\', "policy": '"/\\'}
"""Tables are file stems and stand before the dot in "table.column"; a policy's name becomes a file's."""
_MAX_QUOTED_CHARS = 60
MAX_RATIONAL_PART = 10**40
"""More digits than a 128-bit decimal has: larger numbers and finer ones are slips of the keyboard."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A value, the path to it from the policy's root, and the lines of the file, if it came from one."""

    value: object
    path: KeyPath = ()
    lines: Mapping[KeyPath, int] = field(default_factory=dict, repr=False)

    def below(self, key: str | int, value: object) -> "Entry":
        """Return the entry of something inside this one."""
        return Entry(value, (*self.path, key), self.lines)


def refuse(entry: Entry, what: str, why: str, remedy: str) -> BadPolicy:
    """Return the refusal that names the entry and its line; `what` goes on after the name."""
    name = ".".join(_key(part) for part in entry.path).replace(".[", "[") or "The policy"
    line = _line(entry)
    return BadPolicy(f"{name}{f' (line {line})' if line else ''} {what}", why, remedy)


def missing(entry: Entry, key: str, why: str, remedy: str) -> BadPolicy:
    """Return the refusal for a key that must be written; the line is that of the table it belongs to."""
    return refuse(entry.below(key, None), "is missing.", why, remedy)


def section(entry: Entry, known: Iterable[str], advice: str = "") -> dict[str, Entry]:
    """Read a table of settings, none of them unknown."""
    entries = _table(entry)
    keys = tuple(known)
    for key, child in entries.items():
        if key not in keys:
            raise refuse(
                child,
                "is not a key of a policy.",
                "Unknown keys are refused so that a typo cannot silently drop a protection.",
                suggestion(key, keys) + (advice or f"The keys here are: {', '.join(keys)}."),
            )
    return entries


def named(entry: Entry, what: str, most: int) -> dict[str, Entry]:
    """Read a table whose keys are names that the owner chose; two that differ only in case are refused."""
    entries = _table(entry)
    if len(entries) > most:
        raise refuse(
            entry,
            f"names {len(entries)} {what}s.",
            f"A policy holds at most {most} {what}s here.",
            "Split the dataset, or leave out what no query needs.",
        )
    folded: dict[str, str] = {}
    for name, child in entries.items():
        check_name(child, name, what)
        if fold_name(name) in folded:
            raise refuse(
                child,
                f"is the same name as {quote_entry(folded[fold_name(name)])}.",
                "Names are not case-sensitive, as in PostgreSQL.",
                f"Rename one {what}." if what == "analyst" else f"Rename one {what}, here and in the source.",
            )
        folded[fold_name(name)] = name
    return entries


def check_name(entry: Entry, name: str, what: str) -> None:
    """Refuse a name that cannot be quoted, typed or told from another."""
    if not name or len(name) > MAX_NAME_CHARS:
        raise refuse(
            entry,
            f"is a name of {len(name)} characters.",
            f"The name of a {what} has 1 to {MAX_NAME_CHARS} characters.",
            f"Rename the {what}.",
        )
    unwanted = FORBIDDEN_NAME_CHARS.get(what, '"')
    if not name.isprintable() or name != name.strip() or any(character in unwanted for character in name):
        raise refuse(
            entry,
            "cannot be used as a name.",
            f"The name of a {what} is printable, has no blanks at its ends and none of the characters {unwanted}.",
            f"Rename the {what}.",
        )


def text(entry: Entry, longest: int) -> str:
    """Read text of at most `longest` characters that UTF-8 can write. The caller checks its meaning."""
    value = entry.value
    if not isinstance(value, str):
        raise refuse(entry, f"is {quote_entry(value)}.", "This key takes text.", 'Write it in quotes: "…".')
    if len(value) > longest:
        raise refuse(entry, f"has {len(value)} characters.", f"The limit is {longest}.", "Shorten it.")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise refuse(
            entry,
            "contains a character that databases cannot store.",
            "Databases cannot store NUL or lone surrogates in a text.",
            "Remove the character.",
        )
    return str(value)


def choice(entry: Entry, known: Iterable[str], synonyms: Mapping[str, str]) -> str:
    """Read one of some words; `synonyms` are words of other systems, for the advice."""
    words = tuple(known)
    value = entry.value
    if isinstance(value, str) and value in words:
        return str(value)
    meant = synonyms.get(value.strip().lower()) if isinstance(value, str) else None
    advice = f"Did you mean {quote_entry(meant)}? " if meant else suggestion(value, words)
    raise refuse(
        entry,
        f"is {quote_entry(value)}.",
        f"The possible values are: {_options(words)}.",
        f"{advice}Write one of these.",
    )


def _options(words: Iterable[str]) -> str:
    return ", ".join(word if word[0].isalnum() else quote_entry(word) for word in words)


def flag(entry: Entry) -> bool:
    """Read true or false."""
    if isinstance(entry.value, bool):
        return entry.value
    raise refuse(
        entry,
        f"is {quote_entry(entry.value)}.",
        "This key takes true or false.",
        "Write true or false, without quotes.",
    )


def count(entry: Entry, most: int) -> int:
    """Read a whole number from 1 to `most`."""
    if isinstance(entry.value, Rational) and not isinstance(entry.value, bool):
        try:
            number = integer(entry.value, "it", 1)
        except BadParameter:
            number = 0
        if 1 <= number <= most:
            return number
    raise refuse(
        entry,
        f"is {quote_entry(entry.value)}.",
        f"This key takes a whole number from 1 to {most}.",
        "Write a whole number, without quotes and without a decimal point.",
    )


def number(entry: Entry) -> Fraction:
    """Read an exact number: an integer, a decimal as it is written, or text such as "1/3"."""
    value = entry.value
    try:
        if isinstance(value, Rational | Decimal | float | str) and not isinstance(value, bool):
            exact = decimal_rational(value, "it")
            if abs(exact) <= MAX_RATIONAL_PART and exact.denominator <= MAX_RATIONAL_PART:
                return exact
    except BadParameter:
        pass  # said below, with the key and its line
    raise refuse(
        entry,
        f"is {quote_entry(value)}.",
        "This key takes a finite number with at most 40 digits before and after the point.",
        'Write an integer, a decimal such as 0.1, or a fraction in quotes such as "1/3".',
    )


def items(entry: Entry, most: int) -> list[Entry]:
    """Read an array of at most `most` elements."""
    value = entry.value
    if not isinstance(value, list | tuple):
        raise refuse(
            entry, f"is {quote_entry(value)}.", "This key takes a list.", "Write the list in square brackets: […, …]."
        )
    if len(value) > most:
        raise refuse(entry, f"has {len(value)} elements.", f"The limit is {most}.", "Shorten the list.")
    return [entry.below(index, element) for index, element in enumerate(value)]


def quote_entry(value: object) -> str:
    """Return a value as the owner would write it, shortened; of an unknown object only its type."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | Fraction() if max(value.numerator.bit_length(), value.denominator.bit_length()) > 256:
            return "a number of very many digits"
        case str():
            return '"' + _short(value.replace("\t", "\\t")) + '"'
        case date() | time():
            return _short(value.isoformat())
        case int() | float() | Fraction() | Decimal():
            return _short(str(value))
        case list() | tuple():
            return f"[{', '.join(_element(element) for element in value[:3])}{', …' if len(value) > 3 else ''}]"
        case dict():
            return "a table"
        case None:
            return "nothing"
    return _short(f"a Python {type(value).__name__}")


def _element(value: object) -> str:
    return "[…]" if isinstance(value, list | tuple) else quote_entry(value)


def _short(words: str) -> str:
    cut = words if len(words) <= _MAX_QUOTED_CHARS else words[:_MAX_QUOTED_CHARS] + "…"
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in cut)


def _key(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    bare = part.isascii() and part.replace("_", "a").replace("-", "a").isalnum()
    return _short(part) if bare else f'"{_short(part)}"'


def _line(entry: Entry) -> int | None:
    """Return the line of the entry, or of the nearest table around it that is written in the file."""
    for length in range(len(entry.path), 0, -1):
        if entry.path[:length] in entry.lines:
            return entry.lines[entry.path[:length]]
    return None


def _table(entry: Entry) -> dict[str, Entry]:
    if not isinstance(entry.value, dict):
        raise refuse(
            entry,
            f"is {quote_entry(entry.value)}.",
            "It is a table of keys and values.",
            "Write it as a TOML table: [name] above its lines, or { key = value } on one line.",
        )
    entries: dict[str, Entry] = {}
    for key, value in entry.value.items():
        if not isinstance(key, str) or any("\ud800" <= character <= "\udfff" for character in key):
            raise refuse(entry, f"has the key {quote_entry(key)}.", "A key is text.", "Write the key as text.")
        entries[key] = entry.below(key, value)
    return entries
