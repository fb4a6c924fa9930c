"""How files, frames and DuckDB databases are opened: their snapshot, and the engine over it."""

from sfumato.engines.duckdb.engine import DuckDB
from sfumato.engines.duckdb.registration import copying_of
from sfumato.engines.inspection import SourceReport
from sfumato.engines.snapshots import backend
from sfumato.policy.policy import Policy


def _inspect(policy: Policy) -> SourceReport:
    from sfumato.engines.duckdb.inspecting import inspect

    return inspect(policy)


BACKEND = backend(copying_of, DuckDB, _inspect)
