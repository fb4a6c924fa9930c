"""Bounded copies of small tables: what the laws of this room are tried on."""

from collections.abc import Mapping

import pyarrow as pa
from tests.engines.engines import Rows, engine_under_law

from sfumato.policy.policy import Policy
from sfumato.policy.reading import read_policy

SALT = bytes(range(32))


def policy_of(tables: Mapping[str, object], source: str = "duckdb:nowhere.duckdb", **more: object) -> Policy:
    return read_policy(
        {"name": "small", "source": source, "budget": {"epsilon": 1, "delta": 0}, "tables": dict(tables), **more}
    )


def bounded(policy: Policy, tables: Mapping[str, pa.Table], salt: bytes = SALT, **how: int) -> dict[str, Rows]:
    """Return every table of the copy as a multiset of rows, columns in the order of the copy."""
    return engine_under_law().bounded(policy, tables, salt, **how)
