"""PostgreSQL's own types, as `types.txt` lists them."""

from functools import cache
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


@cache
def types() -> tuple[dict[str, Any], ...]:
    """Return PostgreSQL's own types, those that drivers may look for."""
    names: tuple[str, ...] = (
        "oid",
        "typname",
        "typlen",
        "typbyval",
        "typtype",
        "typcategory",
        "typispreferred",
        "typdelim",
        "typelem",
    )
    names += ("typarray", "typalign", "typstorage")
    rows = []
    for line in (_HERE / "types.txt").read_text(encoding="utf-8").splitlines():
        row: dict[str, Any] = dict(zip(names, line.split("\t"), strict=True))
        for name in ("oid", "typlen", "typelem", "typarray"):
            row[name] = int(row[name])
        for name in ("typbyval", "typispreferred"):
            row[name] = row[name] == "True"
        rows.append(row)
    return tuple(rows)
