"""In which order the rows or cells of one person are kept: by SHA-256 of the person's id and the values themselves.

The id is 128 bits of a hash under the salt. No one knows it, so it is the key here, and no statement contains the
salt. It is the same order in every engine, when a copy is built and when a question is asked.
"""

from collections.abc import Sequence

from sfumato.engines.sql.builder import select, subquery
from sfumato.engines.sql.dialect import Dialect
from sfumato.language.facts import Kind

Valued = tuple[str, Kind]
"""The SQL of a value and its kind."""


_MAX_CHAINED_TEXTS = 64
"""Texts that one chain of || joins. Each of them makes an expression one level deeper, and engines limit the depth."""


def concatenated(texts: Sequence[str]) -> str:
    """Return the SQL of texts one after the other; of very many, as a balanced tree, which is the same text.

    >>> concatenated(["a", "b", "c"])
    'a || b || c'
    """
    if len(texts) <= _MAX_CHAINED_TEXTS:
        return " || ".join(texts)
    middle = len(texts) // 2
    return f"({concatenated(texts[:middle])}) || ({concatenated(texts[middle:])})"


def sampling_order_sql(owner: str | None, values: Sequence[Valued], dialect: Dialect) -> list[str]:
    """Return an order of one person's rows or cells that only these values decide; a collision is no tie.

    `owner` is the person's id; None where the number of a row stands for a person, because it is not about them.
    """
    if owner is None and not values:
        return []
    parts = [] if owner is None else [dialect.id_text(owner)]
    parts += [_value(sql, kind, dialect) for sql, kind in values]
    return [dialect.hash48(concatenated(parts)), *(dialect.sortable(sql, kind) for sql, kind in values)]


def row_hash(own: str, values: Sequence[Valued], dialect: Dialect) -> str:
    """Return the draw of one row of a person whose id in hexadecimal, and what ends it, is `own`: 128 bits.

    Here a collision would be a tie: which row is kept would depend on where it lies, and so on other people's rows.
    """
    return dialect.hash128_sortable(concatenated([own, *(_value(sql, kind, dialect) for sql, kind in values)]))


def rehash_duplicate(first: str, nth: str, dialect: Dialect) -> str:
    """Return the draw of the nth of equal rows: of the first of them, `first` itself."""
    text = f"'again:' || {dialect.long_draw_text(first)} || ':' || CAST({nth} AS {dialect.text_type})"
    return f"CASE WHEN {nth} = 1 THEN {first} ELSE {dialect.hash128_sortable(text)} END"


def _value(sql: str, kind: Kind, dialect: Dialect) -> str:
    """Return a value as a text that ends where it ends: no two lists of values become the same text."""
    text = dialect.scalar_text(sql, kind)
    if kind is Kind.TEXT:
        text = f"CAST({dialect.utf8_length(text)} AS {dialect.text_type}) || ':' || {text}"
    return f"':' || coalesce({text}, '-')"


def drawn_last(drawn: str, person: str, names: str, most: int, dialect: Dialect, among: Sequence[str] = ()) -> str:
    """Return rows that have their first draw with their last one, without most of those that cannot be kept.

    The first of equal rows has the draw that it is sorted by, so that of those only the first different draws of a
    person can be kept; what is left is ranked by the draws that the others have. `among` orders equal rows.
    Proof: proofs/bounded_copy.md §3
    """
    window, place = f"PARTITION BY {person} ORDER BY first", "row_number() OVER w"
    if among:
        number = f"row_number() OVER ({', '.join([window, *among])})"
        drawn, place = select(f"{names}, first, {number} AS place", subquery(drawn, "e")), "place"
    ranks = f"{place} - rank() OVER w + 1 AS nth, dense_rank() OVER w AS turn"
    placed = select(f"{names}, first, {ranks}", f"{subquery(drawn, 'd')} WINDOW w AS ({window})")
    draw = rehash_duplicate("first", "nth", dialect)
    return select(f"{names}, {draw} AS draw", subquery(placed, "p"), where=f"nth > 1 OR turn <= {most}")
