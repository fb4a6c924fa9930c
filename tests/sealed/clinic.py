"""A small sealed clinic on disk, and the same one in plaintext."""

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.sealed.keys import create_key

COLUMNS: dict[str, Any] = {
    "patient_id": {"type": "integer"},
    "dept": {"type": "text", "values": ["surgery", "er", "icu"]},
    "sex": {"type": "text", "values": ["f", "m"]},
    "urgent": {"type": "boolean"},
    "hiv": {"type": "boolean"},
    "cost": {"type": "decimal", "bounds": [-10, 50], "step": 0.5},
    "age": {"type": "integer", "bounds": [0, 120]},
    "score": {"type": "integer", "bounds": [0, 9]},
    "note": {"type": "text"},
}
TYPES = pa.schema(
    [
        ("patient_id", pa.int64()),
        ("dept", pa.string()),
        ("sex", pa.string()),
        ("urgent", pa.bool_()),
        ("hiv", pa.bool_()),
        ("cost", pa.float64()),
        ("age", pa.int64()),
        ("score", pa.int64()),
        ("note", pa.string()),
    ]
)


def rows(people: int = 30, seed: object = 1, per_person: int = 3, first: int = 0) -> pa.Table:
    """Return visits of some people; costs beyond the bounds and scores of NULL among them."""
    dice = Random(str(seed))
    found = [
        {
            "patient_id": person,
            "dept": dice.choice(["er", "icu", "surgery"]),
            "sex": "fm"[person % 2],
            "urgent": dice.random() < 0.5,
            "hiv": dice.random() < 0.2,
            "cost": dice.randint(-40, 130) / 2,
            "age": dice.randint(0, 110),
            "score": dice.choice([None, 3, 7]),
            "note": f"secret{person}",
        }
        for person in range(first, first + people)
        for _ in range(dice.randint(1, per_person))
    ]
    return pa.Table.from_pylist(found, schema=TYPES)


def sealed_policy(folder: Path, /, neighbours: str = "add-remove", store: str = "", **visits: object) -> dict[str, Any]:
    """Return a sealed policy below a folder; its key is made where there is none."""
    (folder / "keys").mkdir(exist_ok=True)
    key = folder / "keys" / "clinic.key"
    if not key.exists():
        create_key(key)
    table: dict[str, Any] = {
        "unit": "patient_id",
        "rows_per_unit": 3,
        "cells": ["dept", "sex"],
        "measures": ["cost", "age", "score"],
        "squares": ["cost"],
        "nulls": ["score"],
        "splayed": ["hiv"],
        "capacity": 5000,
        "columns": COLUMNS,
    }
    return {
        "name": "clinic",
        "sealed": {
            "key": f"file:{key}",
            "store": store or f"duckdb:{folder / 'store' / 'clinic.duckdb'}",
            "epsilon": 1,
            "delta": 0.01,
        },
        "ledger": f"sqlite:{folder / 'clinic.ledger'}",
        "neighbours": neighbours,
        "budget": {"epsilon": 10**9, "delta": 0.5, "query_delta": 1e-9},
        "tables": {"visits": {**table, **visits}},
    }


def plain_policy(folder: Path, table: pa.Table, like: dict[str, Any]) -> dict[str, Any]:
    """Return the policy of the same clinic in plaintext, with its rows written."""
    (folder / "plain" / "data").mkdir(parents=True)
    pq.write_table(table, folder / "plain" / "data" / "visits.parquet")
    visits = like["tables"]["visits"]
    sealed = {"patient_id", *visits["cells"], *visits["measures"], *visits["splayed"]}
    columns = {name: words for name, words in visits["columns"].items() if name in sealed}
    return {
        "name": "clinic",
        "source": f"parquet:{folder / 'plain' / 'data'}",
        "ledger": f"sqlite:{folder / 'plain' / 'clinic.ledger'}",
        "neighbours": like["neighbours"],
        "budget": like["budget"],
        "tables": {
            "visits": {"unit": visits["unit"], "rows_per_unit": visits["rows_per_unit"], "columns": columns},
        },
    }
