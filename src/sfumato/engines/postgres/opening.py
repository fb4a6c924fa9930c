"""How tables of a PostgreSQL server are opened: their snapshot, and the engine over it."""

from sfumato.engines.postgres.catalogue import describe
from sfumato.engines.postgres.engine import PostgreSQL
from sfumato.engines.postgres.inspecting import inspect
from sfumato.engines.postgres.registration import ServerCopying
from sfumato.engines.snapshots import backend

BACKEND = backend(ServerCopying, PostgreSQL, inspect, describe)
