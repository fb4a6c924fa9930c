"""What `check` counts of a source is exact, and the same on every engine that has the rows."""

from pathlib import Path

from tests.engines.inspected_rows import POLICY, TABLES, check_report
from tests.engines.postgres_under_law import fill, source_url
from tests.engines.spark_under_law import write_folder

from sfumato.engines.opening import inspected
from sfumato.policy.reading import read_policy


def test_losses_are_counted_exactly_in_files(tmp_path: Path) -> None:
    write_folder(tmp_path / "data", TABLES)
    check_report(inspected(_policy(tmp_path, f"parquet:{tmp_path}/data")))


def test_losses_are_counted_exactly_on_a_server(tmp_path: Path) -> None:
    check_report(inspected(_policy(tmp_path, source_url(fill(TABLES)))))


def _policy(root: Path, source: str):  # type: ignore[no-untyped-def]
    return read_policy({**POLICY, "source": source, "ledger": f"sqlite:{root}/a.ledger"})
