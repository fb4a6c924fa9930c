"""Rows encrypted before they are stored: the store adds up what it cannot read, and a change of it is noticed."""

import tempfile
from pathlib import Path

import duckdb
import pyarrow as pa

import sfumato
from sfumato.sealed.database import open_sealed, seal
from sfumato.sealed.keys import create_key


def main() -> None:
    home = Path(tempfile.mkdtemp())
    (home / "keys").mkdir()
    create_key(home / "keys" / "clinic.key")
    policy = {
        "sealed": {
            "key": f"file:{home}/keys/clinic.key",
            "store": f"duckdb:{home}/store/clinic.duckdb",
            "epsilon": 0.5,
            "delta": 1e-6,
        },
        "budget": {"epsilon": 3, "delta": 1e-4},
        "tables": {
            "visits": {
                "unit": "patient",
                "rows_per_unit": 1,
                "cells": ["dept"],
                "measures": ["cost"],
                "columns": {
                    "patient": {"type": "integer"},
                    "dept": {"type": "text", "values": ["er", "icu", "surgery"]},
                    "cost": {"type": "integer", "bounds": [0, 1000]},
                },
            }
        },
    }
    departments = ["er", "er", "icu", "surgery"] * 250
    rows = pa.table({"patient": range(1000), "dept": departments, "cost": [50 * (at % 20) for at in range(1000)]})
    batch = seal(policy, "visits", rows)
    print(f"{batch.kept} rows were sealed among {batch.stored}.")
    with open_sealed(policy) as database:
        for row in database.ask(
            "SELECT dept, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY dept", epsilon=1
        ).rows():
            print(f"{row['dept']:8} {row['n']:5} visits, about {row['cost']:.0f} each")
        with duckdb.connect(str(home / "store" / "clinic.duckdb")) as store:  # what whoever keeps the store could do
            ((name,),) = store.execute("SELECT table_name FROM duckdb_tables()").fetchall()
            store.execute(f'DELETE FROM "{name}" WHERE rowid = 0')  # noqa: S608
        try:
            database.ask("SELECT COUNT(*) FROM visits", epsilon=1)
        except sfumato.Refusal as refusal:
            print(f"One row less: {refusal.code}.")


if __name__ == "__main__":
    main()
