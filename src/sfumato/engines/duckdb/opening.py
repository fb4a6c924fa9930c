"""How files, frames and DuckDB databases are opened: their snapshot, and the engine over it."""

from sfumato.engines.duckdb.engine import DuckDB
from sfumato.engines.duckdb.inspecting import inspect
from sfumato.engines.duckdb.registration import copying_of
from sfumato.engines.snapshots import backend

BACKEND = backend(copying_of, DuckDB, inspect)
