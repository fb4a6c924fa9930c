"""Names that are words of SQL too, such as `union`: where quotes would make a question of the text, that is said."""

from collections.abc import Callable, Iterator
from itertools import combinations

from sfumato.errors import BadSql
from sfumato.policy.policy import fold_name
from sfumato.query.catalog import Catalog
from sfumato.query.parsing.tree import keywords
from sfumato.query.position import example, source_span

_MAX_PAIRED_SPANS = 8
"""Maximum number of spans that are tried in pairs."""

Span = tuple[int, int]


def suggest_quotes(sql: str, catalog: Catalog, accepts: Callable[[str], bool]) -> BadSql | None:
    """Return the refusal that names the word to quote, or None where quotes around names do not help."""
    if not isinstance(sql, str):
        return None
    names = {fold_name(name) for table in catalog.tables.values() for name in table.columns} | set(
        map(fold_name, catalog.tables)
    )
    spans = [span for span in keywords(sql) if fold_name(sql[slice(*span)]) in names]
    for chosen in filter(None, _ways(sql, spans)):
        written = _with_quotes(sql, chosen)
        if not accepts(written):
            continue
        start, end = chosen[0]
        word = sql[start:end]
        return source_span(sql, start, end).bad(
            "this is a word of SQL.",
            "It is also a name here, and without quotes it is read as SQL.",
            "Quote it" + (example(written) or f': "{word}"') + ".",
        )
    return None


def _ways(sql: str, spans: list[Span]) -> Iterator[list[Span]]:
    """Give what may have to be quoted: a word wherever it stands, then a few places, one of which may be SQL's own."""
    for word in dict.fromkeys(fold_name(sql[slice(*span)]) for span in spans):
        yield [span for span in spans if fold_name(sql[slice(*span)]) == word]
    for count in (len(spans), 1, 2):
        yield from map(list, combinations(spans if count > 2 else spans[:_MAX_PAIRED_SPANS], count))


def _with_quotes(sql: str, spans: list[Span]) -> str:
    for start, end in reversed(spans):
        sql = f'{sql[:start]}"{sql[start:end]}"{sql[end:]}'
    return sql
