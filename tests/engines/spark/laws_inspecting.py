"""What `check` counts of a source on Spark is exact, and what it is elsewhere."""

from pathlib import Path

from tests.engines.inspected_rows import POLICY, TABLES, check_report
from tests.engines.spark_under_law import spark, write_folder

from sfumato.engines.opening import inspected
from sfumato.policy.reading import read_policy


def test_losses_are_counted_exactly(tmp_path: Path) -> None:
    spark()
    write_folder(tmp_path / "data", TABLES)
    words = {**POLICY, "source": f"spark:{tmp_path}/data", "ledger": f"sqlite:{tmp_path}/a.ledger"}
    check_report(inspected(read_policy(words)))
