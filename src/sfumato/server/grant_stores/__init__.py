"""Where grants and console sessions are kept: in SQLite beside the ledger, or in the PostgreSQL ledger."""
