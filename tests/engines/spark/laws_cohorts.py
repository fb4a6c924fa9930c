"""Cohorts of people on Spark: kept from copy to copy in the file that DuckDB writes."""

from pathlib import Path

from tests.engines.test_cohorts import parquet_source, require_first_cohorts


def test_a_person_stays_in_their_first_cohort(tmp_path: Path) -> None:
    require_first_cohorts(parquet_source(tmp_path / "data", "spark"), tmp_path)
