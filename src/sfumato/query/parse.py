"""SQL text becomes a Query of our own algebra; nothing of the text or of its parser goes further."""

from collections.abc import Callable
from dataclasses import replace

from sfumato.errors import BadSql, Refusal, UnknownName, UnsupportedSql
from sfumato.query.catalog import Catalog
from sfumato.query.filter_placement import filter_relation
from sfumato.query.interval_calls import settle_interval_calls
from sfumato.query.late_joins import join_after_noise
from sfumato.query.names import number_duplicates
from sfumato.query.parameters import Bindings
from sfumato.query.parsing.other_functions import clause_notes
from sfumato.query.parsing.reading import ParseContext
from sfumato.query.parsing.select import read_query
from sfumato.query.parsing.tree import read_tree
from sfumato.query.private_rows import group_again_within_units
from sfumato.query.relation import Named, Project, Query
from sfumato.query.reserved import suggest_quotes


def parse(sql: str, catalog: Catalog, bindings: Bindings | None = None) -> Query:
    """Return the question that `sql` asks, or refuse it by name and place.

    It depends on the text, the catalog and the values of parameters alone.
    """

    def accepts(other: str) -> bool:
        return _accepts(other, catalog, bindings)

    try:
        return _parse(sql, catalog, bindings, accepts)
    except (BadSql, UnknownName, UnsupportedSql) as refusal:
        reason: Refusal = suggest_quotes(sql, catalog, accepts) or refusal
    raise reason


def _accepts(sql: str, catalog: Catalog, bindings: Bindings | None) -> bool:
    """Whether a text that a remedy would show is a question. No remedy is looked for inside of another."""
    try:
        _parse(sql, catalog, bindings, lambda _: False)
    except Refusal:
        return False
    return True


def _parse(sql: str, catalog: Catalog, bindings: Bindings | None, accepts: Callable[[str], bool]) -> Query:
    tree, options = read_tree(sql, bindings is not None)
    reading = ParseContext(sql, catalog, accepts, bindings)
    block = read_query(tree, reading, {})
    names = tuple(output.name for output in block.outputs)
    items = (
        Named(name, output.expression) for name, output in zip(number_duplicates(names), block.outputs, strict=True)
    )
    relation = Project(filter_relation(block.relation, block.pending), reading.label("select"), tuple(items))
    relation = replace(relation, source=group_again_within_units(relation.source, catalog))
    relation = join_after_noise(relation, catalog)
    if reading.asks_for_bars:
        relation = settle_interval_calls(relation, catalog)
    return Query(relation, names, options, (*clause_notes(tree), *reading.notes))
