"""In how many bits engines compute: an integer that statements compute with has 64 of them or more."""

from collections.abc import Iterable, Mapping

import pyarrow as pa
from tests.engines.engines import UnderLaw

_NAMED = {"postgres": "CAST(pg_typeof({}) AS text)"}
_WIDE = {"duckdb": {"BIGINT", "HUGEINT"}, "postgres": {"bigint", "numeric"}, "spark": {"bigint", "decimal(38,0)"}}


def narrow_types(engine: UnderLaw, integers: Iterable[str], tables: Mapping[str, pa.Table], source: str) -> set[str]:
    """Return the types of integer expressions over the rows of a source that have fewer than 64 bits."""
    name = engine.dialect.name
    listed = [_NAMED.get(name, "typeof({})").format(sql) for sql in integers]
    if not listed:
        return set()
    rows = engine.rows(f"SELECT {', '.join(listed)} FROM {source}", tables)  # noqa: S608
    return {type for row in rows for type in row} - _WIDE[name]
