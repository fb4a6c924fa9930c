"""Spark: bounded copies as Parquet folders, and exact integer aggregates as one small table."""
