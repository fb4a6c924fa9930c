"""In which order the rows or cells of one person are kept: by SHA-256 of the person's id and the values themselves.

The id is 128 bits of a hash under the salt: nobody knows it, so that it is the key here, and the salt is in no
statement. It is the same order in every engine, when a copy is built and when a question is asked.
"""

from collections.abc import Sequence

from sfumato.engines.sql.dialect import Dialect
from sfumato.language.facts import Kind

Valued = tuple[str, Kind]
"""The SQL of a value and its kind."""


def drawn(owner: str | None, values: Sequence[Valued], dialect: Dialect) -> list[str]:
    """Return an order of one person's rows or cells that only these values decide; a collision is no tie.

    `owner` is the person's id; None where the number of a row stands for a person, because it is not about them.
    """
    if owner is None and not values:
        return []
    parts = [] if owner is None else [dialect.id_text(owner)]
    parts += [_value(sql, kind, dialect) for sql, kind in values]
    return [dialect.draw(" || ".join(parts)), *(dialect.sortable(sql, kind) for sql, kind in values)]


def _value(sql: str, kind: Kind, dialect: Dialect) -> str:
    """Return a value as a text that ends where it ends: no two lists of values become the same text."""
    text = dialect.scalar_text(sql, kind)
    if kind is Kind.TEXT:
        text = f"CAST({dialect.octets(text)} AS {dialect.text_type}) || ':' || {text}"
    return f"':' || coalesce({text}, '-')"
