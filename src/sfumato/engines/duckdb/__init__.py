"""DuckDB: files of Parquet and CSV and DuckDB databases, and the bounded copy beside the ledger."""
