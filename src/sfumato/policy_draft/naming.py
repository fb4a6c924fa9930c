"""Guess keys, links between tables and personal data from the names of tables and columns.

A name proves nothing. Guesses are written as proposals, printed, and checked by the owner.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from sfumato.policy.policy import fold_name

_WORDS = re.compile(r"[^\W\d_a-zß-ÿ]+(?![a-zß-ÿ])|[^\W\d_a-zß-ÿ]?[a-zß-ÿ]+|\d+")
_KEY_WORDS = ("number", "code", "num", "key", "id", "no", "nr")
_BARE_KEYS = frozenset({"id", "key", "nr", "no", "number", "code", "name", "pk", "uuid", "rowid"})
"""Names that every table may have, each with a meaning of its own."""
_PERSONAL = {
    **dict.fromkeys(("name", "surname", "firstname", "lastname", "fullname", "forename", "nickname"), "a name"),
    **dict.fromkeys(("username", "login", "maiden", "initials"), "a name"),
    **dict.fromkeys(("address", "street", "addr", "postcode", "zip", "zipcode"), "an address"),
    **dict.fromkeys(("email", "mail", "phone", "telephone", "mobile", "fax", "url", "ip"), "an address"),
    **dict.fromkeys(("ssn", "passport", "iban"), "a number that names a person"),
    **dict.fromkeys(("comment", "comments", "note", "notes", "remark", "remarks", "description", "text"), "free text"),
    **dict.fromkeys(("message", "memo", "body", "review", "feedback", "freetext"), "free text"),
    **dict.fromkeys(("nachname", "vorname", "nom", "prénom", "prenom", "nombre", "apellido"), "a name"),
    **dict.fromkeys(("adresse", "anschrift", "straße", "strasse", "plz", "telefon", "rue", "dirección"), "an address"),
    **dict.fromkeys(("bemerkung", "bemerkungen", "notiz", "notizen", "kommentar", "freitext"), "free text"),
    **dict.fromkeys(("commentaire", "remarque", "comentario", "observaciones"), "free text"),
}
_ABBREVIATION_CHARS = (3, 4)
"""How many letters of a table's name an abbreviation has: cust, emp, dept."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names of a table and its columns, and the primary key that the source declares."""

    table: str
    columns: tuple[str, ...]
    key: str | None = None


def personal(name: str) -> str | None:
    """Return the kind of personal data that a column name suggests, or None.

    >>> personal("c_name"), personal("HomeAddress"), personal("o_comment"), personal("dept")
    ('a name', 'an address', 'free text', None)
    """
    return next((_PERSONAL[word] for word in reversed(_split_words(name)) if word in _PERSONAL), None)


def is_bare_key(name: str) -> bool:
    """Tell whether a name says that it is a key and not of what: id, key, number."""
    return fold_name(name) in _BARE_KEYS


def own_key(table: Names, others: Iterable[str] = ()) -> str | None:
    """Return the column that looks like the key of the table's own rows, or None; `others` are the other tables.

    It is the primary key, if the source declares one column as such; otherwise a first column that is called `id`, or
    after the table: `order_id` or `o_orderkey` in `orders`, `c_custkey` in `customer`. The key of another table, such
    as `order_id` in `order_lines`, is none: of all lines of an order one would count.
    """
    if table.key is not None:
        return table.key
    if not table.columns:
        return None
    first = table.columns[0]
    return first if fold_name(first) in {"id", "key", "pk", "uuid"} or _owns(table, first, others) else None


def links(first: Names, column: str, second: Names, key: str) -> bool:
    """Tell whether a column of one table looks like it holds the key of another.

    Both are called alike, without the short prefix that all columns of a table may share (`l_orderkey`, `o_orderkey`);
    or the key is called `id`, and the column after the other table (`patient_id`, `patients.id`).
    """
    if is_bare_key(key):
        subject, word = _subject(_stem(first, column))
        return bool(subject) and word == fold_name(key) and _is_called(second.table, subject)
    stem = _stem(first, column)
    return stem == _stem(second, key) and not is_bare_key(stem)


def _owns(table: Names, column: str, others: Iterable[str]) -> bool:
    subject, word = _subject(_stem(table, column))
    if not word or _is_called(table.table, subject):
        return bool(word)
    short = (
        len(subject) in _ABBREVIATION_CHARS and fold_name(table.table).startswith(subject) and "_" not in table.table
    )
    return short and not any(_is_called(other, subject) for other in others if other != table.table)


def _is_called(table: str, subject: str) -> bool:
    name = fold_name(table).replace("_", "")
    singular = {
        name,
        name.removesuffix("s"),
        name.removesuffix("es"),
        re.sub("ies$", "y", name),
        re.sub("ren$", "", name),
    }
    return subject in singular or (name, subject) == ("people", "person")


def _subject(stem: str) -> tuple[str, str]:
    """Split a key name into its subject and the word for a key: order and key of orderkey."""
    word = next((word for word in _KEY_WORDS if stem.endswith(word) and stem != word), "")
    return (stem.removesuffix(word), word) if word else ("", "")


def _stem(table: Names, column: str) -> str:
    """Return a column's name in lower case, without underscores and without the prefix that all of the table share."""
    name = fold_name(column)
    prefix = re.match(r"[a-z]{1,3}_", name)
    if (
        prefix
        and len(table.columns) > 1
        and all(fold_name(candidate).startswith(prefix[0]) for candidate in table.columns)
    ):
        name = name.removeprefix(prefix[0])
    return name.replace("_", "")


def _split_words(name: str) -> list[str]:
    words = [word.lower() for word in _WORDS.findall(name)]
    joined = ["".join(pair) for pair in pairwise(words)]
    return [*words, *joined]
