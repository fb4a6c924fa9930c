"""The scheme of PostgreSQL servers."""

from sfumato.policy.schemes import SourceScheme

POSTGRESQL = SourceScheme(
    "postgresql",
    "//user@host/database",
    is_url=True,
    aliases=("postgres",),
    backend="sfumato.engines.postgres.opening:BACKEND",
    install="sfumato[postgres]",
    can_draft=True,
    change_evidence="the server's counters of changed rows, which may be late",
)
